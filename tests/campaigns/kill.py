"""T4: `kill -9` at random times, under four producers and four consumers, with books over the whole history.

Six more clients speak AMQP, by a library that others have written: what is confirmed, comes back, is got, acked one and
many, given back, and traded in one transaction stands in the same books (tests/crash/amqp_crowd.py).

Most kills come under load, some in a start and some in a clean stop; and now and then all clients are lost instead, and
come again. In the end of each life everything is taken out, and the books are read. In every other life the journal is
on, and a log taps a fanout: `radiator audit` must account for every message, before that and after it.

In half of the starts the interpreter switches threads every few instructions instead of every 5 ms: what two threads of
the broker may do to each other is far more likely then.

A kill proves that what is written together is there together, that nothing is answered before it is handed to the
operating system, and that a start finds it. That it is on the disk too, only T2 and T3 prove.
"""

import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, suppress
from random import Random
from subprocess import TimeoutExpired

from tests.acceptance.conftest import queues_that_do_not_add_up, stats
from tests.acceptance.wire import Gone
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.campaign import Campaign, Run
from tests.crash.amqp_crowd import amqp_crowd
from tests.crash.books import Books
from tests.crash.crowd import CONFIG, Lines, crowd, drain, talking

KILLS_OF_A_LIFE = 10
KILLS_OF_A_HUNT = 2  # the sooner the books are read
LOAD_S = {"quick": (0.1, 0.6), "nightly": (0.1, 2.0), "release": (0.1, 3.0)}
START_S = (0.0, 0.4)  # a start takes about a quarter of a second
STOP_S = (0.0, 0.05)
FORGET_WITHIN_S = 5.0
SWITCHING = "import runpy, sys; sys.setswitchinterval(1e-6); runpy.run_module('radiator', run_name='__main__')"
PROGRAMS = (("-m", "radiator"), ("-c", SWITCHING))
WITH_JOURNAL = (
    CONFIG.replace('["events.a", "events.b"]', '["events.a", "events.b", "/log/taps"]')
    + """
[log."taps"]

[journal]
enabled = true
"""
)


class Life:
    """One data directory, from its first start to the last message that is taken out of it."""

    def __init__(self, run: Run, name: str, config: str = CONFIG) -> None:
        directory = run.directory / name
        directory.mkdir()
        self.run = run
        self.chance = Random(run.chance.randrange(1 << 60))
        self.books = Books()
        self.has_journal = config == WITH_JOURNAL
        self.broker = BrokerProcess(directory, config)
        self.clients = crowd(self.books, f"{run.seed} {name}")
        self.amqp_clients = amqp_crowd(self.books, f"{run.seed} {name}")

    def start(self, after: str) -> None:
        """It must start again, whatever was done to it."""
        self.broker.program = self.chance.choice(PROGRAMS)
        try:
            self.broker.start()
        except AssertionError as refused:
            self.run.violation(f"After it was {after} the broker did not start: {refused}")
            raise

    def talking(self) -> AbstractContextManager[Lines]:
        """All its clients talk within."""
        runs = [one.run for one in self.clients]
        return talking(self.broker, runs, [one.run for one in self.amqp_clients])

    def load_s(self) -> float:
        return self.chance.uniform(*LOAD_S[self.run.level])

    def kill_once(self) -> None:
        """One kill, of one of the kinds; before it now and then a loss of all clients."""
        kind = self.chance.choices((self._kill_loaded, self._kill_starting, self._kill_stopping), (8, 1, 1))[0]
        try:
            kind()
        except (Gone, ConnectionError, TimeoutError) as mistake:
            self.run.violation(f"It was gone before it was killed: {mistake!r}; {self.broker.log[-1500:]}")
        self.books.broker_ended()

    def _kill_loaded(self) -> None:
        self.start("killed")
        if self.chance.random() < 0.2:
            self.lose_all_clients()
        with self.talking():
            time.sleep(self.load_s())
            if not self.broker.is_running:
                self.run.violation(f"It ended by itself before it was killed: {self.broker.log[-1500:]}")
            self.broker.kill()

    def _kill_starting(self) -> None:
        killer = threading.Timer(self.chance.uniform(*START_S), self.broker.kill)
        killer.start()
        with suppress(AssertionError):
            self.broker.start()
        killer.join()
        self.broker.kill()

    def _kill_stopping(self) -> None:
        self.start("killed")
        with self.talking():
            time.sleep(self.load_s())
            assert self.broker.process is not None
            self.broker.process.terminate()
            try:
                self.broker.wait(self.chance.uniform(*STOP_S))
            except TimeoutExpired:
                self.broker.kill()

    def lose_all_clients(self) -> None:
        """Load, and then every connection is lost: what they held comes back, without a restart."""
        with self.talking() as lines:
            time.sleep(self.load_s())
            lines.cut(len(self.clients) + len(self.amqp_clients))
        self.books.broker_ended()
        deadline_s = time.monotonic() + FORGET_WITHIN_S
        while True:
            numbers = stats(self.broker)
            in_flight = sum(queue["unacked"] for queue in numbers["queues"].values())
            if numbers["connections"] == 1 and not in_flight:
                return
            assert time.monotonic() < deadline_s, f"{in_flight} messages are still with clients that are gone"
            time.sleep(0.01)

    def audit(self, after: str) -> None:
        """The journal accounts for every message."""
        if self.has_journal:
            audit = [sys.executable, "-m", "radiator", "audit", "--data", str(self.broker.data_dir)]
            done = subprocess.run(audit, env=environment(), capture_output=True, text=True)
            if done.returncode != 0:
                self.run.violation(f"radiator audit, after it was {after}: {done.stdout[-1500:]}{done.stderr[-500:]}")

    def judge(self, after: str) -> None:
        """A new start, a loss of all clients, then everything that is left is taken out, and the books are read."""
        self.audit(after)
        self.start(after)
        wrong = queues_that_do_not_add_up(self.broker)
        try:
            self.lose_all_clients()
            drain(self.broker, self.books)
        except (Gone, ConnectionError, TimeoutError) as mistake:
            self.run.violation(f"After it was {after} the broker does not give out what it has: {mistake!r}")
        wrong += queues_that_do_not_add_up(self.broker)
        if wrong:
            self.run.violation(f"After it was {after} the ledgers of these queues do not add up: {wrong}")
        if self.broker.stop() != 0 or "Traceback" in self.broker.log:
            self.run.violation(f"After it was {after} there was no clean stop: {self.broker.log[-2000:]}")
        self.audit("stopped")
        for fault in self.books.faults():
            self.run.violation(f"After it was {after}: {fault}")
        by_amqp = sum(name.startswith("a") for name in self.books.receipted)
        counts = {
            "receipted": len(self.books.receipted),
            "of them over AMQP": by_amqp,
            "acked": len(self.books.ack_receipts),
            "traded over AMQP": sum(name in self.books.receipted for name in self.books.traded),
        }
        for name, count in counts.items():
            self.run.figures[name] = int(self.run.figures.get(name, 0)) + count
            if not count:
                raise RuntimeError(f"Nothing was {name}: there was no load.")


def kill(run: Run) -> None:
    number = 0
    while not run.is_over:
        life = Life(run, f"life-{number}", CONFIG if number % 2 else WITH_JOURNAL)
        number += 1
        try:
            for _ in range(min(KILLS_OF_A_HUNT if run.is_hunt else KILLS_OF_A_LIFE, run.cases - run.done)):
                life.kill_once()
                run.case()
            life.judge("killed")
        finally:
            life.broker.kill()


CAMPAIGNS = (
    Campaign(
        number="T4",
        name="kill",
        title="kills a broker at random times under producers and consumers of STOMP and AMQP",
        unit="kills",
        run=kill,
        cases=(12, 500, 2000),
        mutants=(
            "receipt-before-commit",
            "stored-messages-not-marked-after-kill",
            "binding-not-written",
            "lost-on-disconnect",
            "ack-not-committed",
            "fanout-in-two-batches",
            "deliverable-before-commit",
            "told-in-the-next-batch",
            "end-not-told",
            "confirmed-before-commit",
            "multiple-ack-past-the-tag",
            "return-after-the-confirm",
            "transaction-acks-in-the-next-batch",
            "transaction-first-send-alone",
        ),
        mutant_cases=20,
        quick_mutants=3,
        needs=("linux",),
    ),
)
