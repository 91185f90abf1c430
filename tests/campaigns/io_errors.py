"""T5: one call to the disk fails, for each by which a real broker reads, writes, syncs or maps the files of its store.

Three times of its life: its first start, the deeds of scenario.py (and the clean stop behind them), and a start on what
a killed broker left. A failed disk must end the broker with 74 and one clear line; that file is not synced after it,
that is, nothing was tried again; and what was receipted is found by the next start. An interrupted call may be made
again, and what is prepared ahead (behind the last page, by its only writev, and the next segment) may be less than was
wished for, or not be there.

It cannot see a disk that fails and does not say so, nor a page of the map that cannot be read
(tests/storage/lmdb/test_unreadable.py cuts a file under its map). Memory that cannot be mapped is T7's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from radiator.storage.codec import records
from radiator.storage.codec.tables import CLEAN
from radiator.storage.lmdb.directory import WAL_DIRECTORY
from radiator.storage.lmdb.reader import Reader
from tests.broker_process import BrokerProcess
from tests.campaigns import scenario, trace
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.crash_points import END_MAX_S, FIRST_START, LOAD, SECOND_START, Case, in_turn

CALLS = (
    "fdatasync",
    "fsync",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "writev",
    "write",
    "ftruncate",
    "truncate",
    "mmap",
    "read",
    "pread64",
)
WRITES = ("pwrite64", "pwritev", "pwritev2", "writev", "write")
SEGMENTS = [f"{WAL_DIRECTORY}/{number:010}.{end}" for number in range(1, 8) for end in ("wal", "new")]
STORE_FILES = (
    "data.mdb", "data.mdb.new", "lock.mdb", "radiator.lock", WAL_DIRECTORY, *SEGMENTS, f"{WAL_DIRECTORY}/next.new",
)  # fmt: skip
DEEDS = {"quick": 40, "nightly": 80, "release": scenario.DEEDS}
DEEDS_BEFORE_A_SECOND_START = 20

FAILED = {"EIO": "error=EIO", "ENOSPC": "error=ENOSPC", "EDQUOT": "error=EDQUOT"}
SHORT = "short"
INTERRUPTED = "EINTR"
INJECTIONS = {**FAILED, INTERRUPTED: "error=EINTR", SHORT: "retval=7"}  # 7 bytes were written, says the system


@dataclass(frozen=True)
class Point:
    """What fails: the so many-th call of that name on the store's files, of one thread, in this way."""

    when: str
    call: str
    number: int
    fault: str

    def __str__(self) -> str:
        return f"{self.fault} of {self.call} {self.number} of the {self.when}"


class Disk:
    """One broker whose disk may fail; the record says what it did before and after."""

    def __init__(self, directory: Path, seed: int, deeds: int) -> None:
        self.case = Case(directory, seed)
        self.broker: BrokerProcess = self.case.broker
        self.deeds = deeds
        self.record = directory / "record"

    def live(self, when: str, options: list[str]) -> int | None:
        """That part of its life under these options: its exit status; None: it was well, and was killed in the end."""
        options = [*options, *self._files(), "-y", "-s", "0", "-o", str(self.record)]
        if when == LOAD:
            self.case.start()
            with trace.attached(self.broker.pid, options):
                self.case.talk(self.deeds, self.case.stop)
            return self._status()
        if when == SECOND_START:
            self.case.start()
            self.case.talk(DEEDS_BEFORE_A_SECOND_START, self.broker.kill)
        try:
            self.case.start(options)
        except AssertionError:
            return self._status()
        self.broker.kill()
        return None

    def _status(self) -> int | None:
        try:
            return self.broker.wait(END_MAX_S)
        except TimeoutExpired:
            self.broker.kill()
            return -9

    def _files(self) -> list[str]:
        """Options: only calls on the store, its directory and the one above it count."""
        data_dir = self.broker.data_dir
        return [
            word
            for path in (data_dir.parent, data_dir, *(data_dir / name for name in STORE_FILES))
            for word in ("-P", str(path))
        ]

    def complaint(self, point: Point) -> str:
        """What is wrong with what came of that fault; "" where nothing is."""
        inject = f"inject={point.call}:{INJECTIONS[point.fault]}:when={point.number}"
        status = self.live(point.when, ["-e", f"trace={','.join(CALLS)}", "-e", inject])
        failed, after = self.failed_and_after()
        if not failed:
            return "" if status in (None, 0) else f"it was not reached, and the broker ended with {status}"
        if is_taken_again(point, after):
            point = replace(point, fault=INTERRUPTED)
        complaint = ending(point, failed, status, self.broker.log)
        if not complaint and not may_go_on(point, failed) and "radiator.lock" not in failed:
            file = re.search("<[^>]*>", failed)  # another thread may be syncing another one
            again = [line for line in after if "sync(" in line and file is not None and file[0] in line]
            complaint = next((f"after {failed} it went on with {line}" for line in again), "")
        has_stopped = status in (None, 0) or (point.when == LOAD and self._has_stopped())
        was_unclean = point.when == SECOND_START or not has_stopped
        return complaint or self.case.complaint(was_unclean)

    def _has_stopped(self) -> bool:
        """Whether the last commit of a clean stop is in the log: what failed was to bring the tables up to date."""
        with Reader(self.broker.data_dir) as reader, reader.snapshot() as snapshot:
            return records.decode_number(CLEAN, snapshot.meta()[CLEAN]) == 1

    def failed_and_after(self) -> tuple[str, list[str]]:
        """The call that failed, as recorded, and what its process asked of the disk afterwards."""
        lines = self.record.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if "(INJECTED)" in line:
                return line, lines[number + 1 :]
        return "", []


def is_taken_again(point: Point, after: list[str]) -> bool:
    """py-lmdb looks at the head before LMDB does, which reads it again: that one counts."""
    heads = [line for line in after[:2] if "pread64(" in line and ", 152, 0) = 152" in line]
    return point.call == "read" and bool(heads)


def may_go_on(point: Point, failed: str) -> bool:
    """Whether that is no failed disk: an interrupted call, a short number for people, no room ahead."""
    is_for_people = "radiator.lock" in failed  # the number in it
    is_ahead = point.call == "writev" or "next.new" in failed
    return point.fault == INTERRUPTED or (
        point.fault == SHORT if is_for_people else is_ahead and point.fault in (SHORT, "ENOSPC", "EDQUOT")
    )


def ending(point: Point, failed: str, status: int | None, log: str) -> str:
    """What is wrong with how the broker ended; "" where nothing is."""
    went_on = status in (None, 0)
    if "Traceback" in log:
        return f"there is a traceback:\n{log[-2000:]}"
    is_no_failed_disk = point.call == "mmap" or (point.fault == INTERRUPTED and point.when != LOAD)
    may_end = (1, 74) if is_no_failed_disk else (74,)
    if went_on and not may_go_on(point, failed):
        return f"it went on as if nothing had been: {failed}"
    if not went_on and status not in may_end:
        return f"it ended with {status}, not {may_end}:\n{log[-1000:]}"
    found = [line for line in log.splitlines() if "halted" in line or line.startswith("radiator: ")]
    if not went_on and len(found) != 1:
        return f"it ended with {status} and said {found}"
    return ""


def all_points(directory: Path, seed: int, deeds: int) -> dict[str, list[list[Point]]]:
    """For each time of life a list for each kind of call and fault: a life without any is counted."""
    directory.mkdir()
    found: dict[str, list[list[Point]]] = {}
    for when in (LOAD, FIRST_START, SECOND_START):
        disk = Disk(directory / when.replace(" ", "-"), seed, deeds)
        try:
            disk.live(when, ["-e", f"trace={','.join(CALLS)}"])
        finally:
            disk.broker.kill()
        found[when] = [
            [Point(when, call, number + 1, fault) for number in range(count)]
            for call, count in sorted(trace.counted(disk.record).items())
            for fault in INJECTIONS
            if fault != SHORT or call in WRITES
        ]
    return found


def mixed(points: dict[str, list[list[Point]]], chance: Random) -> Iterator[Point]:
    """Every point once: first one sync of the deeds for each way to fail, for no other mistake here loses as much; then
    the times of life in turn, and of each the rare kinds as often as the frequent ones.
    """
    for kind in points[LOAD]:
        if kind[0].call == "fdatasync" and kind[0].fault in FAILED:
            yield kind.pop(chance.randrange(len(kind)))
    ways = [in_turn(lists, chance) for lists in points.values()]
    for some in zip_longest(*ways):
        yield from (point for point in some if point is not None)


def fail(run: Run) -> None:
    """Scenario after scenario; quick sees some points of one, nightly many more."""
    number = 0
    deeds = DEEDS[run.level]
    while not run.is_over:
        seed = run.chance.randrange(1 << 30)
        points = all_points(run.directory / f"points-{number}", seed, deeds)
        count = sum(len(kind) for kinds in points.values() for kind in kinds)
        run.figures["points"] = int(run.figures.get("points", 0)) + count
        for point in mixed(points, run.chance):
            if run.is_over:
                break
            number += 1
            disk = Disk(run.directory / f"case-{number}", seed, deeds)
            try:
                complaint = disk.complaint(point)
            finally:
                disk.broker.kill()
            run.case()
            if complaint:
                run.violation(f"{point} (scenario {seed}): {complaint}")


CAMPAIGNS = (
    Campaign(
        number="T5",
        name="io-errors",
        title="fails each call by which a broker reads, writes, syncs or maps its store",
        unit="failed calls",
        run=fail,
        cases=(20, 1000, 5000),
        mutants=("failed-sync-tried-again", "retry-after-eio", "carry-on-in-memory"),
        mutant_cases=30,
        quick_mutants=3,
        needs=("strace_attach",),
        limit_s=(180, 3600, 4 * 3600),
    ),
)
