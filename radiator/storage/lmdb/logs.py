"""Logs in the store: what a start finds of them, and how records are read back.

Everything happens in the transaction of the caller (start.py, reads.py). Each offset of a segment that is asked for is
returned: as a message or, where no sound block has it, as a record without one.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, takewhile
from typing import Any

import lmdb

from radiator.model.errors import DamagedRecord, StoreError, count_text
from radiator.model.headers import CONTENT_TYPE, ESCAPING_ALL, JSON, block_of
from radiator.model.journal import JournalEvent, as_json
from radiator.model.limits import SEARCH_REST_S, SEARCH_REST_WORK
from radiator.model.message import Message
from radiator.model.reads import LoadedEvents, LoadedLog, ReadEvents, ReadLog, StoredRecord
from radiator.model.recovery import StoredLog
from radiator.model.settings import JOURNAL
from radiator.model.writes import KeepSegment
from radiator.storage.codec import blocks, records
from radiator.storage.codec.search import EventSearch
from radiator.storage.codec.tables import LOGS, POSITIONS, RECORDS, SEGMENTS, SETTINGS

Tables = dict[bytes, "lmdb._Database"]

_JOURNAL_DESTINATION = f"/log/{JOURNAL}"
_JSON_LINE = block_of(ESCAPING_ALL, (CONTENT_TYPE, JSON))


# ---- start --------------------------------------------------------------------------------------------------------


def read_logs(rows: Callable[[bytes], Iterable[tuple[bytes, bytes]]]) -> list[StoredLog]:
    """Returns all logs, including deleted ones that still have segments. rows: returns those of a table. Raises
    DamagedRecord, and StoreError (a clause) for contradictions.
    """
    settings = dict(rows(SETTINGS))
    logs: dict[int, StoredLog] = {}
    for key, value in rows(LOGS):
        number = records.queue_of(key)
        log = logs[number] = StoredLog(number, records.decode_text(key, value))
        settings_key = records.settings_key(number)
        if settings_key in settings:
            log.settings = records.decode_text(settings_key, settings[settings_key])
    for key, value in rows(SEGMENTS):
        segment = records.decode_segment(key, value)
        log = logs.setdefault(segment.log, StoredLog(segment.log, ""))
        mistake = segment_mistake(log.segments[-1] if log.segments else None, segment)
        if mistake:
            raise StoreError(mistake)
        log.segments.append(segment)
    for key, value in rows(POSITIONS):
        position = records.decode_position(key, value)
        found = logs.get(position.log)
        if found is None or not found.name:
            raise StoreError(f"group {position.group!r} has a position in log {position.log}, which is not there")
        found.positions.append(position)
    return [logs[number] for number in sorted(logs)]


def segment_mistake(before: KeepSegment | None, segment: KeepSegment) -> str:
    """Returns what is wrong with a segment that follows the other one; "": nothing."""
    shown = f"segment {segment.first} of partition {segment.partition} of log {segment.log}"
    if not segment.first <= segment.begin <= segment.first + segment.count:
        return f"{shown} begins at {segment.begin}, and has {count_text(segment.count, 'record')}"
    if before is not None and (before.log, before.partition) == (segment.log, segment.partition):
        end = before.first + before.count
        if end != segment.first:
            return f"{shown} comes after one that ends at {end}"
    return ""


# ---- reads --------------------------------------------------------------------------------------------------------


def load_log(txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadLog, store_id: str) -> LoadedLog:
    """Answers the request as the contract says. Raises StoreError, a clause."""
    found: list[StoredRecord] = []
    bytes_left = load.bytes_max
    following, is_damaged = load.offset, False  # whether a damaged block lies there
    for first, messages in _stretches(txn, tables, load, store_id):
        if messages is None:
            is_damaged = True
            continue
        if first > following:
            found += _missing(txn, tables, load, following, first, load.messages_max - len(found), is_damaged)
        elif first < following:
            raise StoreError(f"{_shown(txn, tables, load)} has record {first} twice")
        is_damaged = False
        for offset, message in enumerate(messages, first):
            if len(found) >= load.messages_max or (found and bytes_left < message.size):
                return LoadedLog(load.request, found)
            found.append(StoredRecord(offset, message))
            bytes_left -= message.size
        if len(found) >= load.messages_max:
            return LoadedLog(load.request, found)
        following = first + len(messages)
    end = records.OFFSET_END
    found += _missing(txn, tables, load, following, end, load.messages_max - len(found), is_damaged)
    return LoadedLog(load.request, found)


def load_events(txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadEvents) -> tuple[LoadedEvents, bool]:
    """Answers the request as the contract says. Also returns whether the table ends before its `end`."""
    found: list[tuple[int, JournalEvent]] = []
    prefix = records.partition_key(load.log, 0)
    cursor = txn.cursor(tables[RECORDS])
    find_block(cursor, records.record_key(load.log, 0, load.offset), prefix)
    search = EventSearch(load.positions, load.trace_id, load.correlation_id)
    rest_at = SEARCH_REST_WORK
    key, value = b"", b""
    for key, value in takewhile(lambda row: row[0].startswith(prefix), cursor.iternext()):
        first = records.split_record_key(key)[2]
        if first >= load.end:
            return LoadedEvents(load.request, found, load.end), False
        if search.work >= max(1, load.work_max):
            return LoadedEvents(load.request, found, max(first, load.offset)), False
        if search.work >= rest_at:
            # Python's lock: a thread that waits for it gets it only if it is released for longer than waking up takes
            time.sleep(SEARCH_REST_S)
            rest_at = search.work + SEARCH_REST_WORK
        found += [one for one in search.found_in(first, key, value) if load.offset <= one[0] < load.end]
    following = max(load.offset, _end_of(key, value)) if value else load.offset
    return LoadedEvents(load.request, found, min(following, load.end)), following < load.end


def _end_of(key: bytes, value: bytes) -> int:
    """Returns the offset behind a block; its first, where it is damaged and cannot tell."""
    first = records.split_record_key(key)[2]
    try:
        return first + blocks.checked(key, value)[1]
    except DamagedRecord:
        return first


def _stretches(
    txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadLog, store_id: str
) -> Iterator[tuple[int, list[Message] | None]]:
    """Yields what the blocks have of the requested offsets, with the offset of the first; None: a damaged block.

    Raises StoreError, a clause, where they are not in order.
    """
    prefix = records.partition_key(load.log, load.partition)
    cursor = txn.cursor(tables[RECORDS])
    find_block(cursor, records.record_key(load.log, load.partition, load.offset), prefix)
    last = b""
    for key, value in cursor.iternext():
        if not key.startswith(prefix):
            return
        first = records.split_record_key(key)[2]
        if key <= last:
            # D32: each block has its checksum, but their order has none
            raise StoreError(f"{_shown(txn, tables, load)} has the block of record {first} behind a later one")
        last = key
        try:
            kind, count = blocks.checked(key, value)
            start = max(0, load.offset - first)
            if start < count:
                read = _journal_messages if kind == blocks.EVENTS else _messages
                yield first + start, read(key, value, start, load, store_id)
        except DamagedRecord:
            yield first, None


def _shown(txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadLog) -> str:
    """Returns the partition, as a sentence names it."""
    key = records.log_key(load.log)
    name = txn.get(key, db=tables[LOGS])
    with suppress(DamagedRecord):
        return f"partition {load.partition} of /log/{records.decode_text(key, name or b'')}"
    return f"partition {load.partition} of log {load.log}"


def find_block(cursor: "lmdb.Cursor[Any]", key: bytes, prefix: bytes) -> None:
    """Puts the cursor on the block, or segment, that may have the offset in the key: the last that begins at or before
    it; or on the first after it.
    """
    if not cursor.set_range(key):
        cursor.last()
    elif bytes(cursor.key()) != key and cursor.prev() and bytes(cursor.key()[: len(prefix)]) != prefix:
        cursor.next()


def _messages(key: bytes, value: bytes, start: int, load: ReadLog, _: str) -> list[Message]:
    """Returns the messages of a block of messages."""
    return [*islice(blocks.messages_in(key, value, start), load.messages_max)]


def _journal_messages(key: bytes, value: bytes, start: int, load: ReadLog, store_id: str) -> list[Message]:
    """Returns the messages of a block of events."""
    first = records.split_record_key(key)[2]
    return [
        Message(
            _JOURNAL_DESTINATION,
            _JSON_LINE,
            ESCAPING_ALL,
            as_json(event, offset, store_id),
            event.ms,
        )
        for offset, event in islice(enumerate(blocks.events_in(key, value), first), start, start + load.messages_max)
    ]


def _missing(
    txn: "lmdb.Transaction[bytes]",
    tables: Tables,
    load: ReadLog,
    start: int,
    end: int,
    most: int,
    is_damaged: bool,
) -> Iterator[StoredRecord]:
    """Damaged records for the offsets from start to end that segments have, and that should therefore be there. Raises
    StoreError, a clause, where there is no damaged block that can have held them: then their loss is unexplained.
    """
    prefix = records.partition_key(load.log, load.partition)
    cursor = txn.cursor(tables[SEGMENTS])
    offsets: list[range] = []
    find_block(cursor, records.record_key(load.log, load.partition, start), prefix)
    for key, value in cursor.iternext():
        if not key.startswith(prefix) or records.split_record_key(key)[2] >= end:
            break
        with suppress(DamagedRecord):
            segment = records.decode_segment(key, value)
            offsets.append(range(max(start, segment.begin), min(end, segment.first + segment.count)))
    missing = next(chain.from_iterable(offsets), None)
    if missing is not None and not is_damaged:
        raise StoreError(f"{_shown(txn, tables, load)} has a segment with record {missing}, and no block")
    return (StoredRecord(offset, None) for offset in islice(chain.from_iterable(offsets), max(0, most)))
