"""Brings LMDB's tables up to date: what a run of batches changes is one write transaction, synced when it is done.

LMDB gives the order on the disk: data pages, fdatasync, then the meta page, written synchronously; so a crash at any
point leaves the whole run or nothing of it. This module knows nothing of messages or queues.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from radiator.model.errors import Contradiction, DiskFailed
from radiator.model.limits import FILL_AHEAD_BYTES, FILL_AHEAD_GROWN_BYTES
from radiator.storage.changes import Changes, TableChanges
from radiator.storage.codec.operations import MakeTable, Operation, Row
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.damage import contradiction


class TreeWriter:
    """`apply` belongs to one thread at a time. After a DiskFailed nothing more may be applied."""

    def __init__(
        self,
        env: lmdb.Environment,
        file: Path,
        tables: "dict[bytes, lmdb._Database]",
        head: directory.FileHead,
        ahead_max_bytes: int = 0,
    ) -> None:
        """tables: those that are there; MakeTable adds to them. head: of the file before its first batch.
        ahead_max_bytes: so long a file may be laid out ahead of what is in it.
        """
        self._ahead_max_bytes = ahead_max_bytes
        self._env = env
        self._file = file
        self._tables = tables
        self._page_bytes = head.page_bytes
        self._end_bytes = head.end_bytes  # of the last page
        self._filled_bytes = 0  # the file is known to be as long
        self._has_failed = False
        # by table: no key is larger; for a table that is missing here this is not known
        self._last_keys: dict[bytes, bytes] = {}

    def apply(self, operations: Iterable[Operation]) -> None:
        """Carries out all of them, in order, in one transaction that begins and ends here. Raises Contradiction, and
        keeps nothing of them, or DiskFailed.
        """
        with self._writing() as txn:
            changes = Changes(TreeRows(self._tables, self._env, txn))
            for operation in operations:
                if isinstance(operation, MakeTable):
                    self._make_table(txn, operation.table)
                else:
                    changes.carry_out(operation)
            self._write_all(txn, changes)

    def write(self, changes: Changes) -> None:
        """Makes the rows as they are in the end, in one transaction. Raises DiskFailed, and Contradiction where a row
        is there already that must not be.
        """
        with self._writing() as txn:
            self._write_all(txn, changes)

    @contextmanager
    def _writing(self) -> Iterator["lmdb.Transaction[bytes]"]:
        """Any error of LMDB counts as a failed disk: what has reached it is unknown, and there is no second try."""
        assert not self._has_failed, "nothing may be committed after a failure"
        try:
            # D34: all of it in one transaction, synced when this returns
            with self._env.begin(write=True) as txn:
                yield txn
            self._fill_up()
        except Contradiction as clause:
            self._last_keys.clear()
            raise contradiction(self._file, clause) from None
        except (lmdb.Error, OSError, SystemError) as error:  # a Cursor raises SystemError for some damaged pages
            self._has_failed = True
            raise DiskFailed(f"Writing to {self._file} failed: {error}.{self._free_text()}") from error

    def _free_text(self) -> str:
        """Returns what the reader of the sentence needs, since LMDB calls a full disk an input/output error."""
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
                ahead_bytes = max(end_bytes, min(end_bytes + FILL_AHEAD_BYTES, self._ahead_max_bytes))
                self._filled_bytes = directory.fill_ahead(self._file, ahead_bytes)

    def _make_table(self, txn: "lmdb.Transaction[bytes]", name: bytes) -> None:
        if name in self._tables:
            raise Contradiction(f"there is a table {name.decode()} already")
        self._tables[name] = self._env.open_db(name, txn=txn)

    # ---- one table --------------------------------------------------------------------------------------------------

    def _write_all(self, txn: "lmdb.Transaction[bytes]", changes: Changes) -> None:
        for table, changed in changes.tables.items():
            self._write(txn, table, changed)

    def _write(self, txn: "lmdb.Transaction[bytes]", name: bytes, changes: TableChanges) -> None:
        new = changes.new
        rows: list[Row] = []
        gone: list[bytes] = []
        for key, value in changes.rows.items():
            if value is None:
                gone.append(key)
            elif key not in new:
                rows.append((key, value))
        if gone:
            gone.sort()
            self._delete(txn, name, gone)
        if rows:
            rows.sort()
            self._last_keys.pop(name, None)
            txn.cursor(self._tables[name]).putmulti(rows)
        if new:
            self._insert(txn, name, [(key, changes.rows[key] or b"") for key in sorted(new)])

    def _insert(self, txn: "lmdb.Transaction[bytes]", name: bytes, rows: list[Row]) -> None:
        """After the last key LMDB need not split pages in halves: 39 MiB instead of 59 for 30,000 x 1 KiB.

        One row goes in one call: each lets the dispatcher's thread in, which is slow to release Python's lock.
        """
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
            raise Contradiction(f"something is already where {name.decode()} from {first} on belong")
        self._last_keys[name] = max(last, rows[-1][0])

    def _delete(self, txn: "lmdb.Transaction[bytes]", name: bytes, keys: list[bytes]) -> None:
        """Removes those of the rows that are there. If few are, the walk asks LMDB only where one may be."""
        if keys[-1] >= self._last_keys.get(name, b""):
            self._last_keys.pop(name, None)
        cursor = txn.cursor(self._tables[name])
        nearest: bytes | None = b""  # the smallest key that is not before the last one asked for; None: there is none
        for key in keys:
            if nearest is not None and nearest < key:
                nearest = cursor.key() if cursor.set_range(key) else None
            if nearest == key:
                cursor.delete()
                nearest = cursor.key() or None  # it has moved on to the next row


class TreeRows:
    """The tables as they are in one transaction that has changed none of them yet. It is begun when something is read
    that is not known without it.
    """

    def __init__(
        self,
        tables: "dict[bytes, lmdb._Database]",
        env: lmdb.Environment,
        txn: "lmdb.Transaction[Any] | None" = None,
    ) -> None:
        """txn: one that is under way; None: one of its own, for reading."""
        self._tables = tables
        self._env = env
        self._txn = txn
        self._last: dict[bytes, bytes] = {}  # by table: no key is larger

    def release(self) -> None:
        """Ends the transaction: what is read next is of another one."""
        if self._txn is not None:
            self._txn.abort()
            self._txn = None

    def follow(self, changes: Changes) -> None:
        """Called when the tables have got these changes: the next transaction shall see them."""
        for table, changed in changes.tables.items():
            if table in self._last:
                self._last[table] = max(self._last[table], changed.last)

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """Returns the value under that key."""
        value = self._transaction().get(key, db=self._tables[table])
        return None if value is None else bytes(value)

    def among(self, table: bytes, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the keys under which there is a row, out of these, which ascend: LMDB is asked only where one may
        be.
        """
        if not keys or keys[0] > self._last_of(table):
            return []
        cursor = self._cursor(table)
        there = []
        nearest: bytes | None = b""  # the smallest key that is not before the last one asked for; None: there is none
        for key in keys:
            if nearest is not None and nearest < key:
                nearest = bytes(cursor.key()) if cursor.set_range(key) else None
            if nearest == key:
                there.append(key)
        return there

    def is_empty(self, table: bytes) -> bool:
        """Whether the table has no rows."""
        return not self._last_of(table) or not self._cursor(table).first()

    def keys(self, table: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """Yields the keys at or after `start`, and before `end`, in their order."""
        cursor = self._cursor(table)
        if cursor.set_range(start):
            for found in cursor.iternext(values=False):
                key = bytes(found)
                if key >= end:
                    return
                yield key

    def _last_of(self, table: bytes) -> bytes:
        """Returns a key that no key of the table exceeds; b"": it is empty."""
        if table not in self._last:
            cursor = self._cursor(table)
            self._last[table] = bytes(cursor.key()) if cursor.last() else b""
        return self._last[table]

    def _cursor(self, table: bytes) -> "lmdb.Cursor[Any]":
        return self._transaction().cursor(self._tables[table])

    def _transaction(self) -> "lmdb.Transaction[Any]":
        if self._txn is None:
            self._txn = self._env.begin()
        return self._txn
