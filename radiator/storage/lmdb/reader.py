"""A store opened read-only, for processes other than the broker: check and backup."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import lmdb

from radiator.model.errors import Contradiction, DiskFailed, StoreError
from radiator.model.limits import READERS_MAX
from radiator.model.recovery import StoredLog
from radiator.storage.changes import Changes
from radiator.storage.codec import records
from radiator.storage.codec.operations import decode_operations
from radiator.storage.codec.tables import (
    APPLIED,
    BACKUP,
    DELAYED,
    FIRST_WITH_LOG,
    FORMAT,
    MESSAGES,
    META,
    QUEUES,
    RECORDS,
    STORE_ID,
    TABLES,
)
from radiator.storage.lmdb import directory, unreadable
from radiator.storage.lmdb.damage import contradiction
from radiator.storage.lmdb.datafile import LIB_VERSION, checked_head
from radiator.storage.lmdb.logs import read_logs
from radiator.storage.lmdb.replay import reading_behind
from radiator.storage.lmdb.structure import StructureCheck
from radiator.storage.lmdb.unreadable import READ_ERRORS, could_not_be_read
from radiator.storage.lmdb.writer import TreeRows
from radiator.storage.report import Progress, unheard
from radiator.storage.wal import Damaged, WalEntry
from radiator.storage.wal_damage import WalRemains, explained, remains_behind

_META_PAGES = 2
_TRIES = 20
_WATCH_EVERY_S = 0.2


class Reader:
    """A store opened read-only, beside a running broker or alone. The only lock that it takes is LMDB's for readers."""

    def __init__(self, path: Path, despite_damage: bool = False) -> None:
        """Opens a data directory, or a single file (a backup, which no process writes). despite_damage: where the log
        is damaged, a snapshot has what can be read in order, and says so. Raises StoreError, or DiskFailed.
        """
        self._despite_damage = despite_damage
        self._damage: tuple[bytes | None, str, LogDamage] | None = None  # of the last snapshot: its `applied`, and why
        self.file = path / directory.DATA_FILE if path.is_dir() else path
        self._has_log = path.is_dir()
        head = checked_head(self.file)
        self._page_bytes = head.page_bytes
        self._inode = os.stat(self.file).st_ino
        try:
            self._env = lmdb.open(
                str(path),
                # LMDB keeps the largest map that a writer has had; with a smaller one a grown file could not be read
                map_size=max(head.map_bytes, head.end_bytes),
                subdir=path.is_dir(),
                # where the table of readers is missing no broker runs, and none is made: this user would own it
                lock=(path / directory.LMDB_LOCK_FILE).exists(),
                readonly=True,
                mode=0o600,
                max_dbs=len(TABLES),
                max_readers=READERS_MAX,
                lib_version=LIB_VERSION,
            )
        except lmdb.Error as error:
            if getattr(error, "code", 0) in READ_ERRORS:
                raise DiskFailed(could_not_be_read(self.file, error)) from error
            raise StoreError(f"{self.file} cannot be read: {error}.") from error

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._env.close()

    def check_structure(self, progress: Progress = unheard) -> None:
        """Checks all pages, also while a broker writes. Raises StoreError where one is damaged, DiskFailed where one
        cannot be read.
        """
        check = StructureCheck(self._env, self.file, self._page_bytes)
        try:
            while not check.is_done:
                check.go_on()
                progress("following LMDB's keys", "pages", check.pages_read, check.pages)
        finally:
            check.close()

    @contextmanager
    def snapshot(self) -> Iterator["Snapshot"]:
        """Gives one state of the store, unaffected by commits, with all that was receipted before. It pins that state's
        pages: keep it short.
        """
        try:
            for tries_left in reversed(range(_TRIES)):
                with self._env.begin(buffers=True) as txn:
                    snapshot = Snapshot(self._env, txn)
                    try:
                        # D38
                        snapshot.changes = self._behind(snapshot, is_last_try=not tries_left)
                    except (StoreError, FileNotFoundError) as error:
                        if os.stat(self.file).st_ino != self._inode:
                            raise StoreError(
                                f"{self.file} was replaced while it was being read: run it again."
                            ) from error
                        if tries_left:  # the broker has recycled what was being read
                            continue
                        if isinstance(error, Damaged):
                            raise explained(error, self.file.parent, snapshot.meta()) from error
                        raise
                    yield snapshot
                    return
        except lmdb.Error as error:
            raise StoreError(f"{self.file} cannot be read: {error}.") from error

    def _behind(self, snapshot: "Snapshot", is_last_try: bool) -> Changes | None:
        """Returns what the log has that the tree has not; None: nothing, or there is no log."""
        meta = snapshot.meta()
        try:
            snapshot.entries_behind = self._entries_behind(meta)
        except StoreError as error:
            known = self._damage
            if known is None or known[:2] != (meta.get(APPLIED), str(error)):  # else all segments were searched before
                if not self._despite_damage or not is_last_try:
                    raise
                sentence = error.finding if isinstance(error, Damaged) else str(error)
                damage = LogDamage(sentence, remains_behind(self.file.parent, meta))
                known = self._damage = meta.get(APPLIED), str(error), damage
            snapshot.damage = known[2]
            snapshot.entries_behind = known[2].remains.before
        changes = Changes(TreeRows(snapshot.opened_tables(), self._env, snapshot.txn))
        for entry in snapshot.entries_behind:
            for operation in decode_operations(entry.operations):
                try:
                    changes.carry_out(operation)
                except Contradiction as clause:
                    raise contradiction(self.file, clause) from None
        return changes if changes.tables else None

    def _entries_behind(self, meta: dict[bytes, bytes]) -> list[WalEntry]:
        """Returns the entries that the tables do not have. A store of a format without a log, or of a later one, has
        none: the caller refuses that.
        """
        number = records.decode_number(FORMAT, meta[FORMAT]) if self._has_log and FORMAT in meta else 0
        if not FIRST_WITH_LOG <= number <= records.FORMAT:
            return []
        with unreadable.reading(self.file.parent / directory.WAL_DIRECTORY):
            reading = reading_behind(self.file.parent, meta)
            return [] if reading is None else list(reading.entries())

    def copy_to(self, opened_file: int, compact: bool, progress: Progress = unheard, expected_bytes: int = 0) -> None:
        """Writes one consistent state of the whole store into an open file. Raises StoreError.

        progress: called with the bytes written, of expected_bytes (0: not known).
        """
        with _watched(opened_file, expected_bytes, progress):
            try:
                self._env.copyfd(opened_file, compact=compact)
            except lmdb.Error as error:
                raise StoreError(f"{self.file} cannot be copied: {error}.") from error


@contextmanager
def _watched(opened_file: int, whole: int, progress: Progress) -> Iterator[None]:
    """LMDB reports nothing while it copies, so a thread of its own watches the file's length."""
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(_WATCH_EVERY_S):
            progress("copying", "bytes", os.fstat(opened_file).st_size, whole)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


class LogDamage(NamedTuple):
    """The damage of a log: why it cannot be read in order, as a sentence, and what is left of it."""

    sentence: str
    remains: WalRemains


@dataclass(slots=True)
class Snapshot:
    """The state that a Reader sees in one read transaction. A table that the file does not have is empty.

    Values are views of the map: only accessed bytes of a body are read, and none outlives the snapshot.
    """

    env: lmdb.Environment
    txn: "lmdb.Transaction[memoryview]"
    changes: Changes | None = None  # on top of the tables
    entries_behind: list[WalEntry] = field(default_factory=list)  # of the log, that the tables have not
    damage: LogDamage | None = None  # there may be more that was receipted

    def meta(self) -> dict[bytes, bytes]:
        """Returns the rows of meta."""
        return {key: bytes(value) for key, value in self.rows(META)}

    def _changed(self, table: bytes) -> dict[bytes, bytes | None]:
        """Returns the rows of the table that differ from LMDB's; None: removed."""
        found = self.changes.tables.get(table) if self.changes is not None else None
        return {} if found is None else found.rows

    def _tree_rows(self, table: bytes, start: bytes) -> Iterator[tuple[bytes, memoryview]]:
        opened = self._open(table)
        if opened is not None:
            cursor = self.txn.cursor(opened)
            if cursor.set_range(start):
                for key, value in cursor.iternext():
                    yield bytes(key), value

    def rows(self, table: bytes, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yields the rows from a key on, in their order."""
        changed = self._changed(table)
        if not changed:
            yield from self._tree_rows(table, start)
            return
        added = sorted((key, memoryview(value)) for key, value in changed.items() if value is not None and key >= start)
        kept = (row for row in self._tree_rows(table, start) if row[0] not in changed)
        yield from merge(added, kept, key=itemgetter(0))

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """Returns one value."""
        changed = self._changed(table)
        if key in changed:
            return changed[key]
        opened = self._open(table)
        value = None if opened is None else self.txn.get(key, db=opened)
        return None if value is None else bytes(value)

    def at_or_before(self, table: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        """Returns the row under that key, or the last one before it."""
        changed = self._changed(table)
        added = max((one for one, value in changed.items() if value is not None and one <= key), default=b"")
        opened = self._open(table)
        if opened is not None:
            cursor = self.txn.cursor(opened)
            if not cursor.set_range(key):
                is_there = cursor.last()
            else:
                is_there = bytes(cursor.key()) == key or cursor.prev()
            while is_there and bytes(cursor.key()) in changed:
                is_there = cursor.prev()
            if is_there and bytes(cursor.key()) > added:
                return bytes(cursor.key()), bytes(cursor.value())
        return (added, changed[added] or b"") if added else None

    def has(self, table: bytes) -> bool:
        """Whether the file has that table, and it is one of Radiator's: without flags."""
        opened = self._open(table)
        return opened is not None and not any(opened.flags().values())

    def tables(self) -> list[bytes]:
        """Returns the names of all tables, Radiator's or not, in LMDB's order."""
        return [bytes(name) for name, _ in self.txn.cursor(self.env.open_db(None, txn=self.txn)).iternext()]

    def used_bytes(self) -> int:
        """Returns the bytes of all pages except free ones and their list: the size of a compact copy."""
        found = [self.env.open_db(None, txn=self.txn), *(self._open(table) for table in self.tables())]
        stats = [self.txn.stat(table) for table in found if table is not None]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return (_META_PAGES + pages) * stats[0]["psize"]

    def entries(self, table: bytes) -> int:
        """Returns how many rows the table has, by LMDB's own count of those that are in the tree."""
        opened = self._open(table)
        counted: int = 0 if opened is None else self.txn.stat(opened)["entries"]
        for key, value in self._changed(table).items():
            is_in_tree = opened is not None and self.txn.cursor(opened).set_key(key)
            counted += (value is not None) - is_in_tree
        return counted

    def store_id(self) -> str:
        """Returns the prefix of message ids. Raises DamagedRecord."""
        return records.decode_text(STORE_ID, self.get(META, STORE_ID) or b"")

    def queues(self) -> dict[int, str]:
        """Numbers and names of the queues. Raises DamagedRecord."""
        return {records.queue_of(key): records.decode_text(key, bytes(value)) for key, value in self.rows(QUEUES)}

    def stored(self) -> Iterator[tuple[int, int]]:
        """Queue number and position of all stored messages, those of deleted queues too: queue by queue, first those
        at their places, then, from the first queue on, the delayed ones. Only keys are read.
        """
        for key, _ in self.rows(MESSAGES):
            yield records.queue_of(key), records.position_in(key)
        for key, _ in self.rows(DELAYED):
            yield records.queue_of(key), records.split_delayed_key(key)[1]

    def logs(self) -> list[StoredLog]:
        """Returns all logs with their segments and positions, as a start finds them. Raises DamagedRecord and
        StoreError.
        """
        return read_logs(lambda table: ((key, bytes(value)) for key, value in self.rows(table)))

    def blocks(self, log: int, partition: int, offset: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
        """Yields the blocks of a partition that may have records from that offset on: the offset of the first record,
        key and value, as blocks.py reads them. Nothing is checked: there may be gaps, and the first may end before.
        """
        prefix = records.partition_key(log, partition)
        opened = self._open(RECORDS)
        if opened is None:
            return
        first = records.record_key(log, partition, offset)
        before = self.at_or_before(RECORDS, first)
        for key, value in self.rows(RECORDS, before[0] if before and before[0].startswith(prefix) else first):
            if not key.startswith(prefix):
                return
            yield int.from_bytes(key[len(prefix) :], "big"), key, bytes(value)

    def opened_tables(self) -> "dict[bytes, lmdb._Database]":
        """Radiator's tables that the file has."""
        return {table: opened for table in TABLES if (opened := self._open(table)) is not None}

    def _open(self, table: bytes) -> "lmdb._Database | None":
        try:
            return self.env.open_db(table, txn=self.txn, create=False)
        except lmdb.NotFoundError:
            return None


def backup_meta(file: Path) -> dict[bytes, bytes] | None:
    """Returns the rows of meta of a file that `radiator backup` has made, in any format; None for any other file."""
    if not file.is_file():
        return None
    try:
        with Reader(file) as reader, reader.snapshot() as snapshot:
            meta = snapshot.meta()
    except StoreError:
        return None
    return meta if BACKUP in meta else None
