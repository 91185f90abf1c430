"""T3: the power is cut under load, for a whole file system at once, and what is found afterwards is judged by books.

ext4, xfs and btrfs, of its own each (disks.py), are told to shut down, or stand on a device that loses and tears what
was not flushed. Some brokers are under heavy load then, some under a trickle, where the last commit has nothing after
it that could sync it too; some are killed first. Some starts that recover lose their power too, before anything is
judged.

A device that lies about its flushes is tried as well, and the books must find it: else they are blind, or the device
loses nothing. It cannot see what a file system's driver leaves to the firmware of a real drive, nor bytes that go bad.
"""

import errno
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from subprocess import TimeoutExpired

from tests.acceptance.amqp_clients import LISTENING
from tests.acceptance.conftest import queues_that_do_not_add_up
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.campaign import Campaign, Run, TooManyViolations
from tests.campaigns.disks import KINDS, Disk, Kind, disk_of, lacking, mount_for_this_process_only
from tests.campaigns.kill import WITH_JOURNAL
from tests.crash import crowd as load
from tests.crash.books import Books

END_MAX_S = 10.0
CUTS_OF_A_DISK = 2  # at most, those within a start not counted
START_S = (0.05, 0.4)  # a start takes about a quarter of a second
CUT_AGAIN = 0.3
ENOUGH_CUTS = 4  # under one of them at least there is time for a RECEIPT
TRICKLE_S = (0.002, 0.02)
LOAD_S = {"quick": (0.1, 1.5), "nightly": (0.05, 10.0), "release": (0.05, 10.0)}
TALLIED = ("cuts", "of them within a start", "with writes unflushed", "receipted", "acked")
READ_ONLY = os.strerror(errno.EROFS)
LYING = "a-device-that-lies-about-flushes"
LYING_S = 0.3
LOSSES = ("lost: ", "acked, and delivered again: ")  # as the books say it

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "{data_dir}"
disk_free_min = "16MiB"
map_size = "400MiB"

{rest}"""


class Trickle(load.Producer):
    """One SEND after the other's RECEIPT, with a pause in between."""

    def run(self, wire: Wire) -> None:
        while True:
            name = self.send_one(wire)
            assert wire.read("RECEIPT")["receipt-id"] == name
            self.books.sent(name)
            time.sleep(self.random.uniform(*TRICKLE_S))


class Life:
    """One file system and the brokers on it, from cut to cut, with books over all of them."""

    def __init__(self, run: Run, disk: Disk, tally: Counter[str]) -> None:
        self.run = run
        self.disk = disk
        self.tally = tally
        self.chance = Random(run.chance.randrange(1 << 60))
        self.books = Books()
        self.has_journal = self.chance.random() < 0.5
        rest = (WITH_JOURNAL if self.has_journal else load.CONFIG).removeprefix(LISTENING)
        config = CONFIG.replace("{data_dir}", str(disk.place / "data")).replace("{rest}", rest)
        self.broker = BrokerProcess(disk.directory, config)
        seed = f"{run.seed} {self.chance.random()}"
        self.trickle = Trickle(9, self.books, seed)
        self.clients = [
            *(load.Producer(one, self.books, seed) for one in range(4)),
            load.Consumer(1, self.books, seed, (load.WORK, load.A), ()),
            load.Consumer(2, self.books, seed, (load.WORK, load.LEFT), ()),
            load.Consumer(3, self.books, seed, (load.LEFT, load.A), ()),
            load.Consumer(4, self.books, seed, (load.RIGHT, load.B), (load.RIGHT, load.B)),
        ]

    def cut_once(self) -> None:
        """A start, some load, a power cut, and what `radiator check` says afterwards; and `radiator audit`, where the
        journal is on.
        """
        self.start()
        is_trickle = self.chance.random() < 0.5
        is_killed_first = self.chance.random() < 0.25
        # a hunt has many short ones: what is missed by one is seen by another
        load_s = LOAD_S["quick" if self.run.is_hunt else self.run.level]
        seconds = min(self.chance.uniform(*load_s), 1.0 if is_trickle else END_MAX_S)
        where = (
            f"{self.disk.kind}, {'a trickle' if is_trickle else 'full load'} for {seconds:.2f} s,"
            f" {'killed and then' if is_killed_first else ''} cut"
        )
        with clients_at(self.broker, [self.trickle.run] if is_trickle else [one.run for one in self.clients]):
            time.sleep(seconds)
            if is_killed_first:
                self.broker.kill()
            self.disk.cut()
            if not is_killed_first:
                self.await_end(where)
        self.recover(where)

    def cut_a_start(self) -> None:
        """The start that recovers loses its power too."""
        after_s = self.chance.uniform(*START_S)
        where = f"{self.disk.kind}, cut {after_s:.3f} s after a start that recovers"
        begin = len(self.broker.log)
        cut = threading.Timer(after_s, self.disk.cut)
        cut.start()
        try:
            self.broker.start()
        except AssertionError:
            if cut.is_alive():
                printed = self.broker.log[begin:]
                self.run.violation(f"the start ended by itself, before its power was cut ({where}): {printed[-2000:]}")
            cut.join()
            self.await_end(where, is_start=True)
        cut.join()
        self.broker.kill()
        if "Traceback" in self.broker.log[begin:]:
            self.run.violation(f"a start whose disk was gone ({where}): {self.broker.log[begin:][-2000:]}")
        self.tally["of them within a start"] += 1
        self.recover(where)

    def lie_once(self) -> None:
        """A cut under load, on a device that has lost since a moment ago whatever it said was flushed."""
        self.start()
        with clients_at(self.broker, [one.run for one in self.clients]):
            time.sleep(LYING_S)
            self.disk.lie()
            time.sleep(LYING_S)
            self.disk.cut()
            self.await_end("lying")
        self.recover("lying")

    def start(self) -> None:
        try:
            self.broker.start()
        except AssertionError as refused:
            self.run.violation(f"After a power cut ({self.disk}) the broker did not start: {refused}")
            raise

    def await_end(self, where: str, is_start: bool = False) -> None:
        """A broker whose disk fails ends with 74. A start may meet what the file system has made of that by then, and
        refuse it with 1.
        """
        try:
            status = self.broker.wait(END_MAX_S)
        except TimeoutExpired:
            self.broker.kill()
            self.run.violation(f"{END_MAX_S:.0f} s after its disk was gone the broker still ran ({where})")
            return
        printed = self.broker.log[-1000:]
        is_refused = is_start and status == 1 and READ_ONLY in printed
        if status != 74 and not is_refused:
            self.run.violation(f"the broker ended with {status} when its disk was gone, not 74 ({where}): {printed}")

    def recover(self, where: str) -> None:
        """The file system, from what its image has; then what the commands say of the store."""
        self.tally["cuts"] += 1
        self.tally["with writes unflushed"] += self.disk.unflushed > 0
        self.books.broker_ended()
        self.disk.unmount()
        self.disk.mount()
        data_dir = self.disk.place / "data"
        for command in (["check", data_dir], *([["audit", "--data", data_dir]] if self.has_journal else [])):
            done = subprocess.run(
                [sys.executable, "-m", "radiator", *command], env=environment(), capture_output=True, text=True
            )
            if done.returncode != 0:
                printed = f"{done.stdout[-1000:]}{done.stderr[-500:]}"
                lost = self.disk.lost
                self.run.violation(f"radiator {command[0]} after a power cut ({where}{lost}): {printed}")

    def judge(self) -> None:
        """Everything that is left is taken out, and the books are read."""
        self.start()
        wrong = queues_that_do_not_add_up(self.broker)
        load.drain(self.broker, self.books)
        wrong += queues_that_do_not_add_up(self.broker)
        if wrong:
            self.run.violation(f"ledgers do not add up after power cuts ({self.disk}): {wrong}")
        if self.broker.stop() != 0 or "Traceback" in self.broker.log:
            self.run.violation(f"no clean stop after power cuts ({self.disk}): {self.broker.log[-2000:]}")
        for fault in self.books.faults():
            self.run.violation(f"after power cuts ({self.disk}): {fault}")
        self.tally["receipted"] += len(self.books.receipted)
        self.tally["acked"] += len(self.books.ack_receipts)


@contextmanager
def clients_at(broker: BrokerProcess, runs: list[Callable[[Wire], None]]) -> Iterator[None]:
    """Clients that talk to the broker until it is gone, which it must be at the end."""
    crashed: list[BaseException] = []
    threads = [threading.Thread(target=load.talk, args=(broker, run, crashed)) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        broker.kill()
        for thread in threads:
            thread.join(30)
    if crashed:
        raise crashed[0]


def cut_power(run: Run) -> None:
    mount_for_this_process_only()
    kinds = kinds_here(run)
    tallies = {kind.file_system: Counter[str]() for kind in kinds}
    number = 0
    try:
        while not run.is_over:
            kind = kinds[number % len(kinds)]
            directory = run.directory / f"life-{number}"
            directory.mkdir()
            number += 1
            with disk_of(directory, kind, run.chance.randrange(1 << 60)) as disk:
                live(run, Life(run, disk, tallies[kind.file_system]))
    finally:
        for file_system, tally in tallies.items():
            run.figures[file_system] = ", ".join(f"{tally[name]:,} {name}" for name in TALLIED if tally[name])
    idle = [name for name, tally in tallies.items() if tally["cuts"] >= ENOUGH_CUTS and not tally["receipted"]]
    if idle:
        raise RuntimeError(f"Nothing was receipted on {idle}: there was no load.")
    if not run.is_hunt:
        try_lies(run, kinds)


def live(run: Run, life: Life) -> None:
    """A hunt judges after each cut; else what one cut has left is under the next one too. A quick run has only as many
    cuts as there are file systems.
    """
    is_short = run.is_hunt or run.level == "quick"
    try:
        for _ in range(1 if is_short else run.chance.randint(1, CUTS_OF_A_DISK)):
            life.cut_once()
            if life.chance.random() < CUT_AGAIN:
                life.cut_a_start()
            run.case()
            if run.is_over:
                break
        life.judge()
    finally:
        life.broker.kill()


def kinds_here(run: Run) -> list[Kind]:
    """Those that this machine can have; of the others the figures say why not."""
    here = []
    left_out: dict[str, list[str]] = {}
    for kind in KINDS:
        if why := lacking(kind):
            left_out.setdefault(why, []).append(kind.name)
        else:
            here.append(kind)
    if left_out:
        reasons = [f"{', '.join(dict.fromkeys(names))}, for {why}" for why, names in left_out.items()]
        run.figures["left out:"] = " | ".join(reasons)
    return here


def try_lies(run: Run, kinds: list[Kind]) -> None:
    """On one device, in longer runs on one of each file system."""
    lossy = {kind.file_system: kind for kind in kinds if kind.torn_bytes}
    if not lossy:
        run.untried.append(LYING)
    elif all(is_lie_found(run, kind) for kind in list(lossy.values())[: 1 if run.level == "quick" else None]):
        run.caught.append(LYING)


def is_lie_found(run: Run, kind: Kind) -> bool:
    """Whether the books show a loss on a device that lies about its flushes."""
    directory = run.directory / f"lying-{kind.file_system}"
    directory.mkdir()
    trial = Run(run.seed, 1, "quick", directory)
    with disk_of(directory, kind, run.seed) as disk, suppress(TooManyViolations, AssertionError):
        life = Life(trial, disk, Counter())
        try:
            life.lie_once()
            life.judge()
        finally:
            life.broker.kill()
    return any(loss in violation for violation in trial.violations for loss in LOSSES)


CAMPAIGNS = (
    Campaign(
        number="T3",
        name="power-cuts",
        title="cuts the power of ext4, xfs and btrfs under a loaded broker",
        unit="power cuts",
        run=cut_power,
        cases=(3, 210, 800),
        mutants=("receipt-before-the-wal-is-synced", "sync-off", "metasync-off"),
        mutant_cases=60,
        quick_mutants=1,
        controls=(LYING,),
        needs=("loop_mount", "own_mounts"),
        limit_s=(120, 3600, 4 * 3600),
    ),
)
