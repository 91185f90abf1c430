"""Mends, for `restore`, damaged rows that a start refuses, so that everything else can be recovered.

Rows of settings, exchanges, bindings, positions of groups, versions, and prepared transactions are left out. The row of
a segment is rebuilt from its blocks; a log whose name is damaged gets another one. Names and ledgers of queues:
mending_ledgers.py. Keys of messages: mending_keys.py.
"""

from collections.abc import Callable

import lmdb

from radiator.model.errors import DamagedRecord, count_text
from radiator.model.limits import EVENT_BYTES
from radiator.model.message import Message
from radiator.model.writes import KeepSegment
from radiator.storage.codec import blocks, records, transactions
from radiator.storage.codec.tables import (
    APPS,
    BINDINGS,
    DECLARED,
    LOGS,
    POSITIONS,
    PREPARED_SENDS,
    RECORDS,
    SEGMENTS,
    SETTINGS,
    TRANSACTIONS,
)
from radiator.storage.lmdb.logs import Tables

_LEFT_OUT: dict[bytes, Callable[[bytes, bytes], object]] = {
    SETTINGS: records.decode_text,
    DECLARED: lambda key, value: (records.split_declared_key(key), records.decode_text(key, value)),
    BINDINGS: records.decode_binding,
    POSITIONS: records.decode_position,
    APPS: transactions.decode_app,
    TRANSACTIONS: transactions.decode_transaction,
}


def mend(txn: "lmdb.Transaction[bytes]", tables: Tables) -> list[str]:
    """Returns a sentence for each row."""
    mended = []
    for table, decode in _LEFT_OUT.items():
        for key, error in _damaged(txn, tables, table, decode):
            txn.delete(key, db=tables[table])
            if table == TRANSACTIONS:
                _drop_sends(txn, tables, key)
            mended.append(f"{error} It is left out.")
    for key, error in _damaged(txn, tables, LOGS, records.decode_text):
        name = f"damaged-{records.queue_of(key)}"
        txn.put(key, records.encode_text(key, name), db=tables[LOGS])
        mended.append(f"{error} The log is called {name} now.")
    for key, error in _damaged(txn, tables, SEGMENTS, records.decode_segment):
        mended.append(f"{error} {_mend_segment(txn, tables, key)}")
    return mended


def _damaged(
    txn: "lmdb.Transaction[bytes]", tables: Tables, table: bytes, decode: Callable[[bytes, bytes], object]
) -> list[tuple[bytes, DamagedRecord]]:
    found = []
    for key, value in txn.cursor(tables[table]):
        try:
            decode(key, value)
        except DamagedRecord as error:
            found.append((key, error))
    return found


def _drop_sends(txn: "lmdb.Transaction[bytes]", tables: Tables, transaction: bytes) -> None:
    cursor = txn.cursor(tables[PREPARED_SENDS])
    is_there = cursor.set_range(transaction)
    while is_there and cursor.key().startswith(transaction):
        is_there = cursor.delete() and bool(cursor.key())


def _mend_segment(txn: "lmdb.Transaction[bytes]", tables: Tables, key: bytes) -> str:
    """Rebuilds it from the blocks up to the next segment; records hidden from readers are visible again."""
    try:
        log, partition, first = records.split_record_key(key)
    except DamagedRecord:
        txn.delete(key, db=tables[SEGMENTS])
        return "It is left out."
    prefix = key[: -records.OFFSET_BYTES]
    segments = txn.cursor(tables[SEGMENTS])
    end = None
    if segments.set_range(key + b"\0") and segments.key().startswith(prefix):
        end = segments.key()
    segment = KeepSegment(log, partition, first, first)
    cursor = txn.cursor(tables[RECORDS])
    if cursor.set_range(key):
        for block_key, value in cursor.iternext():
            if not block_key.startswith(prefix) or (end is not None and block_key >= end):
                break
            _add(segment, block_key, value)
    if end is not None:
        segment.count = records.split_record_key(end)[2] - first
    txn.put(key, records.encode_segment(key, segment), db=tables[SEGMENTS])
    return f"It is rebuilt from its blocks, with {count_text(segment.count, 'record')}."


def _add(segment: KeepSegment, key: bytes, value: bytes) -> None:
    """Adds a block to the segment's counters, if it is sound."""
    try:
        entries = blocks.records_in(key, value)
    except DamagedRecord:
        return
    segment.count = records.split_record_key(key)[2] + len(entries) - segment.first
    segment.size += sum(entry.size if isinstance(entry, Message) else EVENT_BYTES for entry in entries)
    times = [entry.accepted_ms if isinstance(entry, Message) else entry.ms for entry in entries]
    segment.first_ms, segment.last_ms = segment.first_ms or times[0], times[-1]
