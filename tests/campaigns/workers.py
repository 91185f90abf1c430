"""T32: twenty worker processes come and go at a partitioned queue: each key in its order, one worker at a time.

Workers are killed, stopped in peace, or stand still for a while; new ones come; now and then the broker is killed. Each
writes into one file, by appends that are never mixed, when it begins a message, and when it has processed it or gives
it back; whoever kills it writes that first. So the order in the file is that of the world, and the broker is not asked
what it has done.

What must hold: a message of a key is processed to its end for the first time only when all before it were; nobody
begins one while another worker, which lives, is at one of the same key; and all that was receipted is processed.
"""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from radiator.client import Client, RadiatorError
from tests.broker_process import SERVER, BrokerProcess, environment
from tests.campaigns.campaign import Campaign, Run

WORKERS = 20
KEYS = {"quick": 200, "nightly": 1000, "release": 1000}
MESSAGES_OF_A_KEY = 30  # of a life
DEED_S = (0.1, 0.5)  # between two of the supervisor
DRAINED_WITHIN_S = 60.0
STUCK_AFTER_S = 60.0  # without a single SEND that was receipted
CONFIG = (
    SERVER
    + """
[queue."orders"]
partition_key = "header:customer"
"""
)
BEGUN, BACK, DONE, ENDS, CUT = "begun", "back", "done", "ends", "cut"
WORKER = """
import os, random, sys, time
from radiator.client import Client, RadiatorError
address, book, seed, prefetch = sys.argv[1:]
chance, name = random.Random(seed), str(os.getpid())
written = os.open(book, os.O_WRONLY | os.O_APPEND)
def write(what, message):
    os.write(written, f"{what} {name} {message.headers['customer']} {message.body.decode()}\\n".encode())
try:
    with Client(address) as client:
        client.subscribe("/queue/orders", ack="client-individual", prefetch=int(prefetch))
        for message in client.messages():
            write("begun", message)
            time.sleep(chance.choice((0, 0, 0.001, 0.005)))
            if chance.random() < 0.02:
                write("back", message)
                client.nack(message)
                continue
            write("done", message)
            client.ack(message)
except (RadiatorError, OSError):
    sys.exit(3)
"""


class Producer(threading.Thread):
    """Sends the messages of some keys in their order, each as often as it takes until it is receipted."""

    def __init__(self, keys: list[str], first: int, broker: BrokerProcess, seed: int) -> None:
        super().__init__(daemon=True)
        chance = Random(seed)
        todo = [key for key in keys for _ in range(MESSAGES_OF_A_KEY)]
        chance.shuffle(todo)
        numbers = Counter(dict.fromkeys(keys, first))
        self.jobs = []
        for key in todo:
            numbers[key] += 1
            self.jobs.append((key, numbers[key]))
        self.broker = broker
        self.mistake = ""

    def run(self) -> None:
        left = self.jobs
        end_s = time.monotonic() + STUCK_AFTER_S
        while left and time.monotonic() < end_s:
            try:
                with Client(self.broker.address) as client:
                    while left:
                        key, number = left[0]
                        client.send("/queue/orders", str(number), {"customer": key})
                        left.pop(0)
                        end_s = time.monotonic() + STUCK_AFTER_S
            except (RadiatorError, OSError):
                time.sleep(0.05)
        if left:
            self.mistake = f"{len(left)} messages could not be sent"


class Life:
    """One broker, its workers, and the file that they write."""

    def __init__(self, run: Run, number: int) -> None:
        directory = run.directory / str(number)
        directory.mkdir()
        self.run = run
        self.chance = Random(run.chance.randrange(1 << 60))
        self.broker = BrokerProcess(directory, CONFIG)
        self.book = directory / "book"
        self.book.touch()
        self.workers: dict[subprocess.Popen[bytes], float] = {}  # -> until when it stands still; 0: it does not
        self.lives = 0

    def write(self, *words: object) -> None:
        with self.book.open("ab", buffering=0) as book:
            book.write((" ".join(map(str, words)) + "\n").encode())

    def add(self) -> None:
        self.lives += 1
        prefetch = self.chance.choice((1, 1, 4, 16))
        arguments = [self.broker.address, self.book, self.chance.randrange(1 << 30), prefetch]
        command = [sys.executable, "-c", WORKER, *map(str, arguments)]
        worker = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
        self.workers[worker] = 0.0

    def end(self, worker: "subprocess.Popen[bytes]", by: signal.Signals) -> None:
        self.write(ENDS, worker.pid)
        worker.send_signal(by)
        worker.send_signal(signal.SIGCONT)  # in case that it stands still
        worker.wait()
        del self.workers[worker]

    def deed(self) -> None:
        """One thing that happens to workers, or to the broker."""
        for worker in [one for one in self.workers if one.poll() is not None]:
            self.write(ENDS, worker.pid)
            del self.workers[worker]
        for worker, until_s in self.workers.items():
            if until_s and until_s < time.monotonic():
                worker.send_signal(signal.SIGCONT)
                self.workers[worker] = 0.0
        while len(self.workers) < WORKERS // 2:
            self.add()
        kind = self.chance.choice(("come", "come", "come", "kill", "kill", "terminate", "still", "broker"))
        if kind == "come" and len(self.workers) < WORKERS:
            self.add()
        elif kind in ("kill", "terminate") and self.workers:
            self.end(self.chance.choice([*self.workers]), signal.SIGKILL if kind == "kill" else signal.SIGTERM)
        elif kind == "still" and self.workers:
            worker = self.chance.choice([*self.workers])
            worker.send_signal(signal.SIGSTOP)
            self.workers[worker] = time.monotonic() + self.chance.uniform(0.1, 2.0)
        elif kind == "broker" and self.chance.random() < 0.3:
            self.write(CUT)
            self.broker.kill()
            self.broker.start()

    def live(self, deeds: int) -> None:
        """So many deeds while messages come; then all of them are processed."""
        names = [f"k{number}" for number in range(KEYS[self.run.level])]
        producers = [Producer(names[n::2], 0, self.broker, self.chance.randrange(1 << 30)) for n in range(2)]
        sent = {(key, str(number)) for producer in producers for key, number in producer.jobs}
        with self.broker:
            for producer in producers:
                producer.start()
            for _ in range(WORKERS):
                self.add()
            for _ in range(deeds):
                time.sleep(self.chance.uniform(*DEED_S))
                self.deed()
            for producer in producers:
                producer.join()
                assert not producer.mistake, producer.mistake
            self.drain(sent)
            for worker in [*self.workers]:
                self.end(worker, signal.SIGKILL)
            assert self.broker.is_running and "Traceback" not in self.broker.log, self.broker.log[-2000:]

    def drain(self, sent: set[tuple[str, str]]) -> None:
        end_s = time.monotonic() + DRAINED_WITHIN_S
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
        while sent - {(line[2], line[3]) for line in self.lines() if line[0] == DONE}:
            if time.monotonic() > end_s:
                missing = sent - {(line[2], line[3]) for line in self.lines() if line[0] == DONE}
                self.run.violation(f"{len(missing)} messages were receipted, and not processed: {sorted(missing)[:3]}")
                return
            for worker in [one for one in self.workers if one.poll() is not None]:
                self.write(ENDS, worker.pid)
                del self.workers[worker]
            while len(self.workers) < WORKERS // 4:
                self.add()
            time.sleep(0.2)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.book.read_text().splitlines()]


def mistakes_of(lines: list[list[str]], keys: Counter[str]) -> Iterator[str]:
    """What the book says that must not be. keys: gets how often each key went to another worker."""
    at: dict[str, dict[str, str]] = {}  # of a key, who is at which number
    done: Counter[str] = Counter()
    last: dict[str, str] = {}
    dead: set[str] = set()
    for what, *words in lines:
        if what == CUT:
            at.clear()
        elif what == ENDS:
            dead.add(words[0])
            for workers in at.values():
                workers.pop(words[0], None)
        else:
            worker, key, number = words
            if worker in dead:
                continue
            workers = at.setdefault(key, {})
            if what == BEGUN:
                others = {other: theirs for other, theirs in workers.items() if other != worker}
                if others:
                    yield f"worker {worker} begins {number} of {key} while {others} are at it"
                workers[worker] = number
                if int(number) > done[key] + 1:
                    yield f"worker {worker} begins {number} of {key}, and {done[key] + 1} was never processed"
                keys[key] += last.get(key, worker) != worker
                last[key] = worker
            elif what == BACK:
                workers.pop(worker, None)
            elif int(number) > done[key] + 1:
                yield f"worker {worker} has processed {number} of {key} before {done[key] + 1}"
            else:
                done[key] = max(done[key], int(number))
                workers.pop(worker, None)


def work(run: Run) -> None:
    lives = moves = processed = 0
    number = 0
    while not run.is_over:
        life = Life(run, number)
        number += 1
        deeds = min(run.cases - run.done, 600)
        life.live(deeds)
        keys: Counter[str] = Counter()
        for mistake in mistakes_of(life.lines(), keys):
            run.violation(f"life {number}: {mistake}")
        lives += life.lives
        moves += sum(keys.values())
        processed += sum(line[0] == DONE for line in life.lines())
        run.case(deeds)
    run.figures |= {"workers": lives, "messages processed": processed, "moves of keys": moves}


CAMPAIGNS = (
    Campaign(
        number="T32",
        name="workers",
        title="worker processes come and go at a partitioned queue",
        unit="comings and goings",
        run=work,
        cases=(40, 2000, 10_000),
        mutants=("key-freed-at-delivery",),
        mutant_cases=40,
        needs=("linux",),
        is_waiting=True,
        limit_s=(240, 2 * 3600, 6 * 3600),
    ),
)
