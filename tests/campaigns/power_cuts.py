"""T3: the power is cut under load, for a whole file system at once, and what is found afterwards is judged by books.

An ext4 of its own in a loop mount is told to shut down (FS_IOC_SHUTDOWN, as xfstests do it): from that moment nothing
reaches its image any more, neither data nor journal, and what was not synced is gone with the next mount. Some brokers
are under heavy load then, some under a trickle, where the last commit has nothing after it that could sync it too.

It cannot see a drive that lies about its flushes, nor what the file system's own driver does wrong at a real power cut.
"""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from tests.acceptance.conftest import queues_that_do_not_add_up
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.kill import WITH_JOURNAL
from tests.crash import crowd as load
from tests.crash.books import Books

FS_IOC_SHUTDOWN, WITHOUT_JOURNAL = 0x8004587D, 2
CLONE_NEWNS = 0x20000
DISK_BYTES = 512 << 20
END_MAX_S = 10.0
CUTS_OF_A_DISK = 2  # at most; so three cuts see two disks
TRICKLE_S = (0.002, 0.02)

# the journal's interval: at once, or never by itself; writeback: file sizes may be there before the bytes
OPTIONS = ("commit=1000", "commit=1")
OPTIONS_NIGHTLY = (*OPTIONS, "commit=1000,data=writeback", "commit=1,data=writeback")
LOAD_S = {"quick": (0.1, 1.5), "nightly": (0.05, 10.0), "release": (0.05, 10.0)}

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "{data_dir}"
disk_free_min = "16MiB"
map_size = "400MiB"

{rest}"""


def mount_for_this_process_only() -> None:
    """Mounts made from now on end with this process and its children, however they end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    command("mount", "--make-rprivate", "/")


def command(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


class Disk:
    """A file system that can lose its power."""

    def __init__(self, directory: Path, options: str) -> None:
        self.image, self.place, self.options = directory / "image", directory / "disk", options
        self.place.mkdir()
        with self.image.open("wb") as image:
            image.truncate(DISK_BYTES)
        command("mkfs.ext4", "-q", "-F", self.image)
        self.mount()

    def mount(self) -> None:
        command("mount", "-o", f"loop,{self.options}", self.image, self.place)

    def cut(self) -> None:
        """From here on every write to it fails, and nothing more reaches the image."""
        opened = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL))
        finally:
            os.close(opened)

    def unmount(self) -> None:
        command("umount", self.place)

    def remove(self) -> None:
        self.unmount()
        self.image.unlink()
        self.place.rmdir()


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

    def __init__(self, run: Run, disk: Disk, number: int) -> None:
        self.run = run
        self.disk = disk
        self.chance = Random(run.chance.randrange(1 << 60))
        self.books = Books()
        directory = run.directory / f"config-{number}"
        directory.mkdir()
        data_dir = disk.place / "data"
        self.has_journal = number % 2 == 0
        rest = WITH_JOURNAL if self.has_journal else load.CONFIG
        self.broker = BrokerProcess(directory, CONFIG.replace("{data_dir}", str(data_dir)).replace("{rest}", rest))
        seed = f"{run.seed} {number}"
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
        is_trickle = self.run.done % 2 == 1
        is_killed_first = self.chance.random() < 0.25
        seconds = self.chance.uniform(*LOAD_S[self.run.level])
        where = (
            f"{self.disk.options}, {'a trickle' if is_trickle else 'full load'} for {seconds:.2f} s,"
            f" {'killed and then' if is_killed_first else ''} cut"
        )
        with clients_at(self.broker, [self.trickle.run] if is_trickle else [one.run for one in self.clients]):
            time.sleep(min(seconds, 1.0) if is_trickle else seconds)
            if is_killed_first:
                self.broker.kill()
            self.disk.cut()
            if not is_killed_first:
                self.await_end(where)
        self.books.broker_ended()
        self.disk.unmount()
        self.disk.mount()
        self.check(where)

    def start(self) -> None:
        try:
            self.broker.start()
        except AssertionError as refused:
            self.run.violation(f"After a power cut ({self.disk.options}) the broker did not start: {refused}")
            raise

    def await_end(self, where: str) -> None:
        """A broker whose disk fails ends with 74."""
        try:
            status = self.broker.wait(END_MAX_S)
        except TimeoutExpired:
            self.broker.kill()
            self.run.violation(f"{END_MAX_S:.0f} s after its disk was gone the broker still ran ({where})")
        else:
            if status != 74:
                self.run.violation(f"the broker ended with {status} when its disk was gone, not 74 ({where})")

    def check(self, where: str) -> None:
        data_dir = self.disk.place / "data"
        for command in (["check", data_dir], *([["audit", "--data", data_dir]] if self.has_journal else [])):
            done = subprocess.run(
                [sys.executable, "-m", "radiator", *command], env=environment(), capture_output=True, text=True
            )
            if done.returncode != 0:
                printed = f"{done.stdout[-1000:]}{done.stderr[-500:]}"
                self.run.violation(f"radiator {command[0]} after a power cut ({where}): {printed}")

    def judge(self) -> None:
        """Everything that is left is taken out, and the books are read."""
        self.start()
        wrong = queues_that_do_not_add_up(self.broker)
        load.drain(self.broker, self.books)
        wrong += queues_that_do_not_add_up(self.broker)
        if wrong:
            self.run.violation(f"ledgers do not add up after power cuts ({self.disk.options}): {wrong}")
        if self.broker.stop() != 0 or "Traceback" in self.broker.log:
            self.run.violation(f"no clean stop after power cuts ({self.disk.options}): {self.broker.log[-2000:]}")
        for fault in self.books.faults():
            self.run.violation(f"after power cuts ({self.disk.options}): {fault}")
        for name, count in (("receipted", len(self.books.receipted)), ("acked", len(self.books.ack_receipts))):
            self.run.figures[name] = int(self.run.figures.get(name, 0)) + count


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
    options = OPTIONS if run.level == "quick" else OPTIONS_NIGHTLY
    number = 0
    while not run.is_over:
        disk = Disk(run.directory, options[number % len(options)])
        life = Life(run, disk, number)
        number += 1
        try:
            # a hunt judges after each cut; else what one cut has left is under the next one too
            for _ in range(1 if run.is_hunt else run.chance.randint(1, CUTS_OF_A_DISK)):
                life.cut_once()
                run.case()
                if run.is_over:
                    break
            life.judge()
        finally:
            life.broker.kill()
            disk.remove()


CAMPAIGNS = (
    Campaign(
        number="T3",
        name="power-cuts",
        title="cuts the power of a file system under a loaded broker",
        unit="power cuts",
        run=cut_power,
        cases=(3, 100, 400),
        mutants=("receipt-before-the-wal-is-synced", "sync-off", "metasync-off"),
        mutant_cases=12,
        quick_mutants=1,
        needs=("loop_mount", "own_mounts"),
        limit_s=(120, 3600, 4 * 3600),
    ),
)
