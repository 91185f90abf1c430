"""Reads back from the last committed state, in the loader's thread. A read transaction never outlives its call."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lmdb

from radiator.model.commands import LoadedPrepared
from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.message import SEQUENCE_BITS
from radiator.model.reads import (
    DedupLookup,
    KeyMessages,
    Loaded,
    LoadedDelayed,
    LoadedEvents,
    LoadedHeld,
    LoadedKeys,
    LoadedLog,
    ReadDelayed,
    ReadEvents,
    ReadHeld,
    ReadKeys,
    ReadLog,
    ReadPrepared,
    ReadQueue,
    StoredDelayed,
    StoredMessage,
)
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, COUNTS, DEDUP, DELAYED, HELD, MESSAGES, QUEUES
from radiator.storage.lmdb import logs, prepared
from radiator.storage.lmdb.damage import CHECK_HINT, contradiction, reading_tables


class TreeReader:
    """The reading half of the Store contract (contract.py). Every call raises StoreError where LMDB cannot read on."""

    def __init__(
        self,
        env: lmdb.Environment,
        file: Path,
        tables: "dict[bytes, lmdb._Database]",
        store_id: str,
        redelivered_below: int,
    ) -> None:
        """redelivered_below: messages of earlier boots were stored before an unclean stop."""
        self._env = env
        self._file = file
        self._tables = tables
        self._store_id = store_id
        self._redelivered_below = redelivered_below

    @contextmanager
    def _reading(self) -> Iterator["lmdb.Transaction[bytes]"]:
        with reading_tables(self._file), self._env.begin() as txn:
            yield txn

    def load(self, load: ReadQueue) -> Loaded:
        """See the contract."""
        if load.part is not None:
            return self._load_part(load, *load.part)
        if load.positions:
            return self._load_at(load)
        first = records.message_key(load.queue, load.after) + b"\0"
        prefix = records.queue_key(load.queue)
        loaded = Loaded(load.request)
        found, bytes_left = loaded.messages, load.bytes_max
        with self._reading() as txn:
            messages = txn.cursor(self._tables[MESSAGES])
            if not messages.set_range(first):
                return loaded
            redelivery = _RedeliveryCounts(txn, self._tables[COUNTS], first)
            for key, value in messages.iternext():
                if not key.startswith(prefix):
                    break
                if len(found) == load.messages_max or (found and bytes_left < len(value)):
                    loaded.has_more = True
                    break
                found.append(self._stored_message(key, value, redelivery))
                bytes_left -= len(value)
        return loaded

    def _load_at(self, load: ReadQueue) -> Loaded:
        """Returns the messages that are there at the given positions."""
        loaded = Loaded(load.request)
        with self._reading() as txn:
            redelivery = _RedeliveryCounts(txn, self._tables[COUNTS], records.queue_key(load.queue))
            for position in load.positions:
                key = records.message_key(load.queue, position)
                value = txn.get(key, db=self._tables[MESSAGES])
                if value is not None:
                    loaded.messages.append(self._stored_message(key, value, redelivery))
        return loaded

    def _load_part(self, load: ReadQueue, first: int, most: int) -> Loaded:
        """Returns the same with a part of each body: the rest is checked where it is, and copied nowhere."""
        loaded = Loaded(load.request)
        with reading_tables(self._file), self._env.begin(buffers=True) as txn, self._env.begin() as counts:
            redelivery = _RedeliveryCounts(counts, self._tables[COUNTS], records.queue_key(load.queue))
            for position in load.positions:
                key = records.message_key(load.queue, position)
                value = txn.get(key, db=self._tables[MESSAGES])
                if value is None:
                    continue
                redeliveries, redelivered = redelivery.of(key)
                message, body_bytes = None, None
                with suppress(DamagedRecord):
                    message, body_bytes = records.decode_message_part(key, value, first, most)
                is_marked = redelivered or self._is_suspect(position)
                loaded.messages.append(StoredMessage(position, message, redeliveries, is_marked, body_bytes))
        return loaded

    def load_keys(self, load: ReadKeys) -> LoadedKeys:
        """See the contract."""
        with self._reading() as txn, self._clauses():
            if not self._has_queue(txn, load.queue):
                return LoadedKeys(load.request, [KeyMessages(is_complete=True) for _ in load.keys])
            return self._load_keys(txn, load)

    def _load_keys(self, txn: "lmdb.Transaction[bytes]", load: ReadKeys) -> LoadedKeys:
        loaded = LoadedKeys(load.request, [KeyMessages() for _ in load.keys])
        bytes_left, has_any = load.bytes_max, False
        rows = txn.cursor(self._tables[BY_KEY])
        redelivery = _RedeliveryCounts(txn, self._tables[COUNTS], records.queue_key(load.queue))
        for (hashed, after), found in zip(load.keys, loaded.found, strict=True):
            for key in _rows_of_key(rows, load, hashed, after):
                if len(found.messages) == load.messages_max:
                    break
                place = keyed.place_of(key)
                value = txn.get(place, db=self._tables[MESSAGES])
                if value is None:
                    # D32
                    shown = self._shown(txn, load.queue)
                    raise StoreError(f"{shown} has the key of message {place.hex()}, which is not there")
                stored = self._stored_message(place, value, redelivery)
                size = len(value) if stored.message is None else stored.message.size
                if has_any and bytes_left < size:
                    return loaded
                found.messages.append(stored)
                bytes_left, has_any = bytes_left - size, True
            else:
                found.is_complete = True
        return loaded

    def load_held(self, load: ReadHeld) -> LoadedHeld:
        """See the contract."""
        loaded = LoadedHeld(load.request)
        with self._reading() as txn, self._clauses():
            rows = txn.cursor(self._tables[HELD])
            last = records.message_key(load.queue, load.after)
            if not self._has_queue(txn, load.queue) or not rows.set_range(last + b"\0"):
                return loaded
            for key, value in rows.iternext():
                if not key.startswith(records.queue_key(load.queue)):
                    break
                _assert_ascends(last, key, HELD)
                if len(loaded.held) == load.count_max:
                    loaded.has_more = True
                    break
                loaded.held.append(keyed.decode_held(key, value))
                last = key
        return loaded

    def _has_queue(self, txn: "lmdb.Transaction[bytes]", queue: int) -> bool:
        """Whether the queue exists, and is not deleted."""
        return txn.get(records.queue_key(queue), db=self._tables[QUEUES]) is not None

    def _shown(self, txn: "lmdb.Transaction[bytes]", queue: int) -> str:
        """Returns the queue, as a sentence names it."""
        key = records.queue_key(queue)
        with suppress(DamagedRecord):
            return f"queue {records.decode_text(key, txn.get(key, b'', db=self._tables[QUEUES]))!r}"
        return f"queue {queue}"

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        """See the contract."""
        loaded = LoadedDelayed(load.request)
        prefix = records.queue_key(load.queue)
        sound, bytes_left = 0, load.bytes_max
        with self._reading() as txn:
            delayed = txn.cursor(self._tables[DELAYED])
            if not delayed.set_range(records.delayed_key(load.queue, load.after_ms, load.after) + b"\0"):
                return loaded
            for key, value in delayed.iternext():
                if not key.startswith(prefix):
                    break
                due_ms, position = records.split_delayed_key(key)
                is_due = due_ms < load.before_ms
                if is_due and (sound == load.messages_max or (sound and bytes_left < len(value))):
                    loaded.next_due_ms = due_ms
                    break
                found = self._stored_delayed(key, value, position)
                # the time of a damaged one means nothing, and must not keep back those after it
                if not is_due and found.message is not None:
                    loaded.next_due_ms = due_ms
                    break
                loaded.messages.append(StoredDelayed(due_ms, found))
                if found.message is not None:
                    sound += 1
                    bytes_left -= len(value)
        return loaded

    def _stored_delayed(self, key: bytes, value: bytes, position: int) -> StoredMessage:
        try:
            message, redeliveries, redelivered = records.decode_delayed(key, value)
        except DamagedRecord:
            return StoredMessage(position, None, 0, True)
        return StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position))

    def _is_suspect(self, position: int) -> bool:
        """Whether it was stored before an unclean stop."""
        return position >> SEQUENCE_BITS < self._redelivered_below

    def _stored_message(self, key: bytes, value: bytes, redelivery: "_RedeliveryCounts") -> StoredMessage:
        position = records.position_in(key)
        redeliveries, redelivered = redelivery.of(key)
        try:
            message = records.decode_message(key, value)
        except DamagedRecord:
            message = None
        return StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position))

    def load_log(self, load: ReadLog) -> LoadedLog:
        """See the contract."""
        with self._reading() as txn, self._clauses():
            return logs.load_log(txn, self._tables, load, self._store_id)

    def load_events(self, load: ReadEvents) -> tuple[LoadedEvents, bool]:
        """See the contract; and whether LMDB itself has no more."""
        with self._reading() as txn:
            return logs.load_events(txn, self._tables, load)

    def load_prepared(self, load: ReadPrepared) -> LoadedPrepared:
        """See the contract."""
        with self._reading() as txn, self._clauses():
            return prepared.load_prepared(txn, self._tables, load)

    @contextmanager
    def _clauses(self) -> Iterator[None]:
        """Turns what is wrong with a row, and clauses about several, into whole sentences."""
        try:
            yield
        except DamagedRecord as error:
            raise StoreError(f"{self._file} is damaged: {error} {CHECK_HINT}.") from None
        except StoreError as error:
            raise contradiction(self._file, error) from None

    def look_up(self, look_up: DedupLookup) -> bool:
        """See the contract. A damaged row counts as forgotten: a message is stored twice rather than not at all."""
        key = records.dedup_key(look_up.queue, look_up.dedup_id)
        with self._reading() as txn:
            value = txn.get(key, db=self._tables[DEDUP])
        try:
            return value is not None and records.decode_number(key, value) >= look_up.now_ms
        except DamagedRecord:
            return False


def _rows_of_key(rows: "lmdb.Cursor[bytes]", load: ReadKeys, hashed: bytes, after: int) -> Iterator[bytes]:
    """Yields the keys of its rows, in order. Raises StoreError, a clause."""
    last = keyed.by_key_key(load.queue, hashed, after)
    prefix = last[: -records.POSITION_BYTES]
    if not rows.set_range(last + b"\0"):
        return
    for key, value in rows.iternext():
        if not key.startswith(prefix):
            return
        _assert_ascends(last, key, BY_KEY)
        if keyed.decode_by_key(key, value)[1] > load.through:
            return
        yield key
        last = key


def _assert_ascends(last: bytes, key: bytes, table: bytes) -> None:
    # D32: no checksum of a row shows that LMDB's pages have rows twice
    if key <= last:
        raise StoreError(f"the table {table.decode()} has key {last.hex()} before {key.hex()}")


class _RedeliveryCounts:
    """Counts of messages, none of which is before `first`; reads LMDB only where there may be one."""

    def __init__(self, txn: "lmdb.Transaction[bytes]", table: "lmdb._Database", first: bytes) -> None:
        self._cursor = txn.cursor(table)
        self._look(first)

    def _look(self, key: bytes) -> None:
        self._from = key  # there is none from here to the nearest one; None: to the end
        self._nearest: bytes | None = self._cursor.key() if self._cursor.set_range(key) else None

    def of(self, key: bytes) -> tuple[int, bool]:
        """Redeliveries, and whether it is marked redelivered. A damaged count shows only that the message was
        redelivered.
        """
        if key < self._from or (self._nearest is not None and self._nearest < key):
            self._look(key)
        if self._nearest != key:
            return 0, False
        try:
            return records.decode_count(key, self._cursor.value())
        except DamagedRecord:
            return 0, True
