"""Carries out operations on LMDB's tables: one write transaction a batch, synced when it is done.

LMDB gives the order on the disk: data pages, fdatasync, then the meta page, written synchronously; so a crash at any
point leaves the whole batch or nothing of it. Nothing is known here of messages or queues.
"""

import os
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import lmdb

from radiator.model.errors import Contradiction, DiskFailed
from radiator.model.limits import FILL_AHEAD_BYTES, FILL_AHEAD_GROWN_BYTES
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    MakeTable,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Upsert,
    UpsertIndexed,
)
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.damage import contradiction

_INDEXED = slice(1, 9)  # the bytes of a value that its row in an index begins with


class TreeWriter:
    """`apply` belongs to one thread. After a DiskFailed nothing more may be applied."""

    def __init__(
        self, env: lmdb.Environment, file: Path, tables: "dict[bytes, lmdb._Database]", head: directory.FileHead
    ) -> None:
        """tables: those that are there; MakeTable adds to them. head: of the file before its first batch."""
        self._env = env
        self._file = file
        self._tables = tables
        self._page_bytes = head.page_bytes
        self._end_bytes = head.end_bytes  # of the last page
        self._filled_bytes = 0  # the file is known to be as long
        self._has_failed = False
        # by table: no key is larger; for a table that is missing here this is not known
        self._last_keys: dict[bytes, bytes] = {}

    def apply(self, operations: Sequence[Operation]) -> None:
        """Carries out all of them, in order, in one transaction that begins and ends here. Raises Contradiction, and
        keeps nothing of them, or DiskFailed.

        Any error of LMDB counts as a failed disk: what has reached it is unknown, and there is no second try.
        """
        assert not self._has_failed, "nothing may be committed after a failure"
        try:
            # D12: all of it in one transaction, synced when this returns
            with self._env.begin(write=True) as txn:
                for operation in operations:
                    _CARRY_OUT[type(operation)](self, txn, operation)
            self._fill_up()
        except Contradiction:
            self._last_keys.clear()
            raise
        except (lmdb.Error, OSError, SystemError) as error:  # a Cursor raises SystemError for some damaged pages
            self._has_failed = True
            raise DiskFailed(f"Writing to {self._file} failed: {error}.{self._free_text()}") from error

    def _free_text(self) -> str:
        """For the reader of the sentence: LMDB calls a full disk an input/output error."""
        try:
            file_system = os.statvfs(self._file)
        except OSError:
            return ""
        return f" Its file system has {file_system.f_bavail * file_system.f_frsize} bytes free."

    def _fill_up(self) -> None:
        """LMDB leaves free pages at the end of the file unwritten; then a later start could not tell it from a cut one.

        The next commit syncs the length. After a power cut in between, the start checks the whole structure instead.
        Where commits are small, the next ones find their pages on the disk already.
        """
        info = self._env.info()
        end_bytes = (info["last_pgno"] + 1) * self._page_bytes
        grown_bytes, self._end_bytes = end_bytes - self._end_bytes, end_bytes
        if end_bytes > self._filled_bytes:
            directory.fill_up(self._file, end_bytes)
            self._filled_bytes = end_bytes
            if grown_bytes <= FILL_AHEAD_GROWN_BYTES:
                ahead_bytes = min(end_bytes + FILL_AHEAD_BYTES, info["map_size"])
                self._filled_bytes = directory.fill_ahead(self._file, ahead_bytes)

    # ---- one operation ----------------------------------------------------------------------------------------------

    def _make_table(self, txn: "lmdb.Transaction[bytes]", operation: MakeTable) -> None:
        name = operation.table
        if name in self._tables:
            raise contradiction(self._file, f"there is a table {name.decode()} already")
        self._tables[name] = self._env.open_db(name, txn=txn)

    def _insert(self, txn: "lmdb.Transaction[bytes]", operation: Insert) -> None:
        """After the last key LMDB need not split pages in halves: 39 MiB instead of 59 for 30,000 x 1 KiB.

        One row goes in one call: each lets the dispatcher's thread in, which is slow to release Python's lock.
        """
        name, rows = operation
        table = self._tables[name]
        last = self._last_keys.get(name)
        if last is None:
            cursor = txn.cursor(table)
            last = cursor.key() if cursor.last() else b""
        is_behind = last < rows[0][0]
        if len(rows) == 1:
            [(key, value)] = rows
            added = int(txn.put(key, value, overwrite=False, append=is_behind, db=table))
        else:
            _, added = txn.cursor(table).putmulti(rows, overwrite=False, append=is_behind)
        if added != len(rows):
            first = rows[0][0].hex()
            raise contradiction(self._file, f"something is already where {name.decode()} from {first} on belong")
        self._last_keys[name] = max(last, rows[-1][0])

    def _upsert(self, txn: "lmdb.Transaction[bytes]", operation: Upsert) -> None:
        name, rows = operation
        self._last_keys.pop(name, None)
        if len(rows) == 1:
            [(key, value)] = rows
            txn.put(key, value, db=self._tables[name])
        else:
            txn.cursor(self._tables[name]).putmulti(rows)

    def _delete(self, txn: "lmdb.Transaction[bytes]", operation: Delete) -> None:
        name, keys = operation
        table = self._tables[name]
        for key in keys:
            if not txn.delete(key, db=table):
                raise contradiction(self._file, f"there is no row {key.hex()} in {name.decode()} to be deleted")
        if keys[-1] >= self._last_keys.get(name, b""):
            self._last_keys.pop(name, None)

    def _delete_if_present(self, txn: "lmdb.Transaction[bytes]", operation: DeleteIfPresent) -> None:
        """Where few are there, the walk asks LMDB only where there may be one."""
        self._last_keys.pop(operation.table, None)
        cursor = txn.cursor(self._tables[operation.table])
        nearest = b""  # the smallest key in the table that is not before the last one asked for
        for key in operation.keys:
            if nearest < key:
                if not cursor.set_range(key):
                    break
                nearest = cursor.key()
            if nearest == key:
                cursor.delete()
                nearest = cursor.key()  # it has moved on to the next row; none: empty

    def _delete_range(self, txn: "lmdb.Transaction[bytes]", operation: DeleteRange) -> None:
        name, start, end = operation
        self._last_keys.pop(name, None)
        cursor = txn.cursor(self._tables[name])
        is_there = cursor.set_range(start)
        while is_there and cursor.key() < end:
            is_there = cursor.delete() and bool(cursor.key())  # which moves on to the next

    def _delete_first(self, txn: "lmdb.Transaction[bytes]", operation: DeleteFirst) -> None:
        left = operation.limit
        for name in operation.tables:
            keys = self._first_keys(txn, name, operation.start, operation.end, left)
            if keys:
                left -= len(keys)
                self._delete(txn, Delete(name, keys))
                paired = sorted(key[operation.key_at :] for key in keys)
                self._delete_if_present(txn, DeleteIfPresent(operation.paired, paired))
        if left and operation.is_exact:
            names = " and ".join(name.decode() for name in operation.tables)
            raise contradiction(
                self._file, f"{left} of {operation.limit} rows from {operation.start.hex()} on are missing in {names}"
            )

    def _first_keys(
        self, txn: "lmdb.Transaction[bytes]", name: bytes, start: bytes, end: bytes, limit: int
    ) -> list[bytes]:
        cursor = txn.cursor(self._tables[name])
        if not cursor.set_range(start):
            return []
        return list(islice(takewhile(lambda key: key < end, cursor.iternext(values=False)), limit))

    def _upsert_indexed(self, txn: "lmdb.Transaction[bytes]", operation: UpsertIndexed) -> None:
        name, key, value, index_name, index_value = operation
        index = self._tables[index_name]
        self._last_keys.pop(name, None)
        self._last_keys.pop(index_name, None)
        before = txn.replace(key, value, db=self._tables[name])
        if before is not None:
            # where that row was damaged its index row may stay behind
            txn.delete(before[_INDEXED] + key, db=index)
        txn.put(value[_INDEXED] + key, index_value, db=index)

    def _require(self, txn: "lmdb.Transaction[bytes]", operation: Require) -> None:
        name, keys = operation
        cursor = txn.cursor(self._tables[name])  # `get` would copy the value
        for key in keys:
            if not cursor.set_key(key):
                raise contradiction(self._file, f"there is no row {key.hex()} in {name.decode()}")

    def _require_absent(self, txn: "lmdb.Transaction[bytes]", operation: RequireAbsent) -> None:
        name, keys = operation
        cursor = txn.cursor(self._tables[name])
        for key in keys:
            if cursor.set_key(key):
                raise contradiction(self._file, f"there is a row {key.hex()} in {name.decode()}, and should not be")

    def _require_empty(self, txn: "lmdb.Transaction[bytes]", operation: RequireEmpty) -> None:
        name, start, end = operation
        left = self._first_keys(txn, name, start, end, 1)
        if left:
            raise contradiction(self._file, f"there is a row {left[0].hex()} in {name.decode()}, and should not be")


_CARRY_OUT: dict[type, Callable[[TreeWriter, "lmdb.Transaction[bytes]", Any], None]] = {
    MakeTable: TreeWriter._make_table,
    Insert: TreeWriter._insert,
    Upsert: TreeWriter._upsert,
    Delete: TreeWriter._delete,
    DeleteIfPresent: TreeWriter._delete_if_present,
    DeleteRange: TreeWriter._delete_range,
    DeleteFirst: TreeWriter._delete_first,
    UpsertIndexed: TreeWriter._upsert_indexed,
    Require: TreeWriter._require,
    RequireAbsent: TreeWriter._require_absent,
    RequireEmpty: TreeWriter._require_empty,
}
