"""The three threads that may touch the disk: the committer, which makes batches durable, one at a time and in order;
the follower, which brings the tables up to date after it; and the loader, which reads back and measures.

A batch belongs to the committer's thread from `submit` until it is answered: nothing else touches its writes. A disk
error ends the process (halt.py): what waited for that batch is never answered.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from radiator.core.turn import Batch
from radiator.model.commands import Event
from radiator.model.disk import NO_WAL, WalNumbers
from radiator.model.limits import BEAT_S, READER_CHECK_S, READS_S, STRUCTURE_REST_S, STRUCTURE_SHARE
from radiator.model.reads import ReadRequest
from radiator.server.worker import Worker
from radiator.storage.contract import Store, answer


class CheckedStore(Store, Protocol):
    """A store that the three threads can also bring up to date, measure, check and rid of dead readers."""

    def reader_check(self) -> None:
        """Frees the slots of processes that died while they read."""

    def spare_bytes(self) -> int:
        """Returns the bytes of the disk that the store's file occupies and no longer uses."""

    def set_clock(self, now_ms: int) -> None:
        """Sets the broker's time, in milliseconds since the epoch: that of the next commit."""

    def use_disk_free_min(self, disk_free_min: int) -> None:
        """Puts a changed setting into force: below twice that, kept segments of the write-ahead log are removed."""

    def wal_bytes(self) -> tuple[int, int]:
        """Returns the bytes of the write-ahead log's files, and of those among them that log_keep keeps."""

    def wal_numbers(self) -> WalNumbers:
        """Returns the other numbers of the write-ahead log."""

    @property
    def checked_percent(self) -> int:
        """How much of the structure has been checked since the start, in percent."""

    @property
    def is_far_behind(self) -> bool:
        """Whether the tree should be brought up to date now, before commits must wait for it."""

    def catch_up(self) -> None:
        """Brings the tree up to date: when this returns, it has all that was committed before. Raises DiskFailed."""

    def apply_if_due(self) -> float:
        """Brings the tree up to date with the log if that is due. Returns the seconds until the next call."""

    def go_on_checking(self) -> bool:
        """Checks a little more of the structure; returns whether there is more. Raises StoreError if it is damaged."""


@dataclass(slots=True)
class Inquiry:
    """A job for the loader. measure: also measure the free space."""

    read_requests: list[ReadRequest]
    measure: bool


@dataclass(slots=True)
class DiskSpace:
    """free_bytes: of the file system. reusable_bytes: of the store's file, which commits use again before it grows.
    used_bytes: of the store. wal_bytes: of the write-ahead log's files, of which log_keep keeps wal_kept_bytes; wal:
    the log's other numbers. total_bytes: of the file system.
    """

    free_bytes: int
    reusable_bytes: int
    used_bytes: int
    wal_bytes: int = 0
    wal_kept_bytes: int = 0
    wal: WalNumbers = NO_WAL
    total_bytes: int = 0

    @property
    def for_messages_bytes(self) -> int:
        """The bytes of the disk that are left for messages. The file never shrinks: if its reusable bytes did not
        count, a disk that it has filled once would be full for ever. They count only if they exceed the used ones:
        fewer may be scattered among messages, where a large message finds no room, so that the file grows.
        """
        is_enough = self.reusable_bytes > self.used_bytes
        return self.free_bytes + (self.reusable_bytes if is_enough else 0)


@dataclass(slots=True)
class Findings:
    """The result of an Inquiry. unread: requests to be asked again. space: None: it was not measured; checked_percent:
    how much of the store's structure had been checked when it was.
    """

    events: list[Event] = field(default_factory=list)
    unread: list[ReadRequest] = field(default_factory=list)
    space: DiskSpace | None = None
    checked_percent: int = 100


def committer(loop: Any, store: CheckedStore, committed: Callable[[int], None]) -> Worker[Batch, int]:
    """Returns the committer. Its answer is the number of the batch, which is then on the disk."""
    beats_to_check = int(READER_CHECK_S / BEAT_S)

    def commit(batch: Batch) -> int:
        store.set_clock(batch.sealed_ms)
        store.commit(batch.writes)
        return batch.number

    rests = 0

    def rest() -> float:
        nonlocal rests
        rests += 1
        if rests % beats_to_check == 0:
            store.reader_check()
        return BEAT_S

    return Worker(loop, "committer", commit, committed, rest)


def follower(loop: Any, store: CheckedStore) -> Worker[bool, None]:
    """Returns the follower. It brings the tables up to date when given a job, and before an entry waits too long."""
    return Worker(loop, "follower", lambda _: store.catch_up(), lambda _: None, store.apply_if_due)


def loader(
    loop: Any, store: CheckedStore, data_dir: Path, found: Callable[[Findings], None]
) -> Worker[Inquiry, Findings]:
    """Returns the loader. Its answer holds one event for each read request, in order. Requests that it does not get to
    in READS_S are `unread`: one turn takes all that is found, and needs about as long for that as the loader had.
    """

    def read(inquiry: Inquiry) -> Findings:
        findings, until_s = Findings(), time.monotonic() + READS_S
        for read_request in inquiry.read_requests:
            if findings.events and time.monotonic() >= until_s:
                findings.unread = inquiry.read_requests[len(findings.events) :]
                break
            findings.events.append(answer(store, read_request))
        if inquiry.measure:
            findings.space = measured(store, data_dir)
            findings.checked_percent = store.checked_percent
        return findings

    def rest() -> float:
        begun_s = time.monotonic()
        if not store.go_on_checking():
            return BEAT_S
        # read requests come first, however slow the disk is
        return min(BEAT_S, max(STRUCTURE_REST_S, STRUCTURE_SHARE * (time.monotonic() - begun_s)))

    return Worker(loop, "loader", read, found, rest)


def measured(store: CheckedStore, data_dir: Path) -> DiskSpace:
    """Measures how much space there is now."""
    spare_bytes, used_bytes, wal_bytes = store.spare_bytes(), store.used_bytes(), store.wal_bytes()
    total_bytes = whole_bytes(data_dir)
    return DiskSpace(free_bytes(data_dir), spare_bytes, used_bytes, *wal_bytes, store.wal_numbers(), total_bytes)


def free_bytes(data_dir: Path) -> int:
    """Returns how many bytes the file system still gives to an ordinary user."""
    found = os.statvfs(data_dir)
    return found.f_bavail * found.f_frsize


def whole_bytes(data_dir: Path) -> int:
    """Returns the size of the file system, in bytes."""
    found = os.statvfs(data_dir)
    return found.f_blocks * found.f_frsize
