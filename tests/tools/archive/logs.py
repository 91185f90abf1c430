"""Logs in a real store, written as the broker writes them: a commit of records, with the segment's books."""

from copy import copy
from pathlib import Path

from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import JournalEvent
from radiator.model.limits import EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.model.writes import (
    Append,
    AppendEvent,
    Declare,
    DeclareLog,
    DropLog,
    DropSegment,
    KeepSegment,
    KeepSegments,
    Ledger,
    Put,
    SaveLedger,
    Write,
)
from radiator.storage.lmdb.store import LmdbStore, open_store

MAP_BYTES = 64 * 1024 * 1024
NOON_MS = 1_794_916_800_000  # 2026-11-17 12:00 UTC
DAY_MS = 86_400_000


def record(number: int, ms: int = NOON_MS, headers: bytes = b"") -> Message:
    return Message("/log/l", headers or b"partition-key:k%d\n" % number, ESCAPING_ALL, b"body %d" % number, ms)


class Writer:
    """A store with logs; `segment_records` of a segment."""

    def __init__(self, path: Path, segment_records: int = 1000) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.segment_records = segment_records
        self.open()

    def open(self) -> None:
        """LMDB lets a process open a store once: whoever reads it must `close` it here first."""
        self.store: LmdbStore = open_store(self.path, MAP_BYTES)
        self.store_id = self.store.recovery.store_id
        self.boot = self.store.recovery.boot
        self.next_number = self.store.recovery.next_queue
        self.segments: dict[tuple[int, int], list[KeepSegment]] = {}
        for log in self.store.recovery.logs:
            for row in log.segments:
                self.segments.setdefault((row.log, row.partition), []).append(row)

    def log(self, name: str) -> int:
        number, self.next_number = self.next_number, self.next_number + 1
        self.store.commit([DeclareLog(number, name)])
        return number

    def append(self, log: int, messages: list[Message], partition: int = 0) -> None:
        """One commit."""
        row = self._segment(log, partition, len(messages))
        writes: list[Write] = []
        for message in messages:
            writes.append(Append(log, partition, row.first + row.count, message))
            self._book(row, message.size, message.accepted_ms)
        self.store.commit([*writes, KeepSegments(log, [copy(row)])])

    def add(self, log: int, events: list[JournalEvent]) -> None:
        """One commit."""
        row = self._segment(log, 0, len(events))
        first = row.first + row.count
        for event in events:
            self._book(row, EVENT_BYTES, event.ms)
        self.store.commit([AppendEvent(log, 0, first, events), KeepSegments(log, [copy(row)])])

    def queue(self, name: str, positions: list[int]) -> int:
        """A queue that holds messages at these positions."""
        number, self.next_number = self.next_number, self.next_number + 1
        messages = [Put(number, at, Message(f"/queue/{name}", b"", ESCAPING_ALL, b"x", NOON_MS)) for at in positions]
        count = len(messages)
        ledger = Ledger(accepted=count, accepted_bytes=count, stored=count, stored_bytes=count)
        self.store.commit([Declare(number, name), *messages, SaveLedger(number, ledger)])
        return number

    def cut(self, log: int, partition: int = 0) -> None:
        """Retention: the oldest segment goes."""
        row = self.segments[log, partition].pop(0)
        self.store.commit([DropSegment(log, partition, row.first, row.first + row.count)])

    def drop(self, log: int) -> None:
        self.store.commit([DropLog(log)])
        self.segments = {key: rows for key, rows in self.segments.items() if key[0] != log}

    def close(self) -> None:
        self.store.close()

    def _segment(self, log: int, partition: int, more: int) -> KeepSegment:
        rows = self.segments.setdefault((log, partition), [])
        if not rows:
            rows.append(KeepSegment(log, partition, 0, 0))
        last = rows[-1]
        if last.count and last.count + more > self.segment_records:
            rows.append(KeepSegment(log, partition, last.first + last.count, last.first + last.count))
        return rows[-1]

    @staticmethod
    def _book(row: KeepSegment, size: int, ms: int) -> None:
        row.count += 1
        row.size += size
        row.first_ms = row.first_ms or ms
        row.last_ms = ms


def event_of(number: int, event: str = "accepted", boot: int = 1) -> JournalEvent:
    return JournalEvent(event, NOON_MS + number, "orders", position_of(boot, number), "", 0, 200)
