"""Appends to a log as the broker does."""

from pathlib import Path

from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import EVENTS, JournalEvent
from radiator.model.limits import EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.model.reads import LoadedLog, ReadLog
from radiator.model.writes import (
    Append,
    AppendEvent,
    DeclareLog,
    KeepSegment,
    KeepSegments,
    Write,
)
from radiator.storage.codec import blocks, records
from tests.storage.opened import opened_store
from tests.storage.scribe import MAP_BYTES

NOW_MS = 1_800_000_000_000


def record(number: int, size: int = 10) -> Message:
    return Message("/log/l", b"n:%d\n" % number, ESCAPING_ALL, b"%d" % number + b"x" * size, NOW_MS + number)


def event_of(number: int) -> JournalEvent:
    return JournalEvent(EVENTS[number % 14], NOW_MS + number, "orders", position_of(3, number), "1/a", 0, 200)


class Journalist:
    """Appends to one log as the broker does: with the segment's books."""

    def __init__(self, path: Path, log: int = 1, name: str = "l") -> None:
        self.path = path
        self.log = log
        self.store = opened_store(path, MAP_BYTES)
        if not self.store.recovery.logs:
            self.store.commit([DeclareLog(log, name)])
        self.segments = {(row.log, row.partition): row for one in self.store.recovery.logs for row in one.segments}

    def append(self, count: int, partition: int = 0, size: int = 10) -> None:
        """One batch."""
        row = self.segments.setdefault((self.log, partition), KeepSegment(self.log, partition, 0, 0))
        writes: list[Write] = []
        for _ in range(count):
            message = record(row.first + row.count, size)
            writes.append(Append(self.log, partition, row.first + row.count, message))
            self._book(row, message.size, message.accepted_ms)
        self.store.commit([*writes, KeepSegments(self.log, [row])])

    def add(self, count: int) -> None:
        row = self.segments.setdefault((self.log, 0), KeepSegment(self.log, 0, 0, 0))
        first = row.first + row.count
        rows = [event_of(first + nth) for nth in range(count)]
        for one in rows:
            self._book(row, EVENT_BYTES, one.ms)
        self.store.commit([AppendEvent(self.log, 0, first, rows), KeepSegments(self.log, [row])])

    def roll(self, partition: int = 0) -> None:
        """The next batch begins a new segment."""
        row = self.segments[self.log, partition]
        end = row.first + row.count
        self.segments[self.log, partition] = KeepSegment(self.log, partition, end, end)

    def _book(self, row: KeepSegment, size: int, ms: int) -> None:
        row.first_ms = row.first_ms if row.count else ms
        row.last_ms = ms
        row.count += 1
        row.size += size

    def load(self, offset: int = 0, partition: int = 0, most: int = 10_000, bytes_max: int = 1 << 30) -> LoadedLog:
        return self.store.load_log(ReadLog(7, self.log, partition, offset, most, bytes_max))

    def offsets(self, offset: int = 0, partition: int = 0, most: int = 10_000) -> list[int]:
        loaded = self.load(offset, partition, most)
        return [one.offset for one in loaded.records if one.message is not None]

    def damaged(self, offset: int = 0, most: int = 10_000) -> list[int]:
        return [one.offset for one in self.load(offset, most=most).records if one.message is None]

    def again(self) -> "Journalist":
        """The next start."""
        self.store.close()
        return Journalist(self.path, self.log)


def block(first: int, count: int) -> bytes:
    key = records.record_key(1, 0, first)
    return blocks.pack(key, [record(first + nth) for nth in range(count)])[1]
