"""A store opened read-only, for processes other than the broker: check and backup."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import lmdb

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import READERS_MAX
from radiator.model.recovery import StoredLog
from radiator.storage.codec import records
from radiator.storage.codec.tables import BACKUP, DELAYED, MESSAGES, META, QUEUES, RECORDS, STORE_ID, TABLES
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import LIB_VERSION, checked_head
from radiator.storage.lmdb.logs import find_block, read_logs
from radiator.storage.lmdb.structure import StructureCheck
from radiator.storage.lmdb.unreadable import READ_ERRORS, could_not_be_read
from radiator.storage.report import Progress, unheard

_META_PAGES = 2
_WATCH_EVERY_S = 0.2


class Reader:
    """A store opened read-only, beside a running broker or alone. The only lock that it takes is LMDB's for readers."""

    def __init__(self, path: Path) -> None:
        """A data directory, or a single file (a backup, which no process writes). Raises StoreError, or DiskFailed."""
        self.file = path / directory.DATA_FILE if path.is_dir() else path
        head = checked_head(self.file)
        self._page_bytes = head.page_bytes
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
        """One state of the store, unaffected by commits. It pins that state's pages: keep it short."""
        try:
            with self._env.begin(buffers=True) as txn:
                yield Snapshot(self._env, txn)
        except lmdb.Error as error:
            raise StoreError(f"{self.file} cannot be read: {error}.") from error

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


@dataclass(slots=True)
class Snapshot:
    """The state that a Reader sees in one read transaction. A table that the file does not have is empty.

    Values are views of the map: only accessed bytes of a body are read, and none outlives the snapshot.
    """

    _env: lmdb.Environment
    _txn: "lmdb.Transaction[memoryview]"

    def meta(self) -> dict[bytes, bytes]:
        """The rows of meta."""
        return {key: bytes(value) for key, value in self.rows(META)}

    def rows(self, table: bytes, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """The rows from a key on, in LMDB's order."""
        opened = self._open(table)
        if opened is not None:
            cursor = self._txn.cursor(opened)
            if cursor.set_range(start):
                for key, value in cursor.iternext():
                    yield bytes(key), value

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """One value."""
        opened = self._open(table)
        value = None if opened is None else self._txn.get(key, db=opened)
        return None if value is None else bytes(value)

    def at_or_before(self, table: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        """The row under that key, or the last one before it."""
        opened = self._open(table)
        if opened is None:
            return None
        cursor = self._txn.cursor(opened)
        if not cursor.set_range(key):
            is_there = cursor.last()
        else:
            is_there = bytes(cursor.key()) == key or cursor.prev()
        return (bytes(cursor.key()), bytes(cursor.value())) if is_there else None

    def has(self, table: bytes) -> bool:
        """Whether the file has that table, and it is one of Radiator's: without flags."""
        opened = self._open(table)
        return opened is not None and not any(opened.flags().values())

    def tables(self) -> list[bytes]:
        """The names of all tables, Radiator's or not, in LMDB's order."""
        return [bytes(name) for name, _ in self._txn.cursor(self._env.open_db(None, txn=self._txn)).iternext()]

    def used_bytes(self) -> int:
        """Of all pages except free ones and their list: the size of a compact copy."""
        found = [self._env.open_db(None, txn=self._txn), *(self._open(table) for table in self.tables())]
        stats = [self._txn.stat(table) for table in found if table is not None]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return (_META_PAGES + pages) * stats[0]["psize"]

    def entries(self, table: bytes) -> int:
        """LMDB's own count of a table's rows."""
        opened = self._open(table)
        return 0 if opened is None else self._txn.stat(opened)["entries"]

    def store_id(self) -> str:
        """The prefix of message ids. Raises DamagedRecord."""
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
        """All logs with their segments and positions, as a start finds them. Raises DamagedRecord and StoreError."""
        return read_logs(lambda table: ((key, bytes(value)) for key, value in self.rows(table)))

    def blocks(self, log: int, partition: int, offset: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
        """The blocks of a partition that may have records from that offset on: the offset of the first record, key and
        value, as blocks.py reads them. Nothing is checked: there may be gaps, and the first may end before.
        """
        prefix = records.partition_key(log, partition)
        opened = self._open(RECORDS)
        if opened is None:
            return
        cursor = self._txn.cursor(opened)
        find_block(cursor, records.record_key(log, partition, offset), prefix)
        for view, value in cursor.iternext():
            key = bytes(view)
            if not key.startswith(prefix):
                return
            yield int.from_bytes(key[len(prefix) :], "big"), key, bytes(value)

    def _open(self, table: bytes) -> "lmdb._Database | None":
        try:
            return self._env.open_db(table, txn=self._txn, create=False)
        except lmdb.NotFoundError:
            return None


def backup_meta(file: Path) -> dict[bytes, bytes] | None:
    """The rows of meta of a file that `radiator backup` has made, in any format; None for any other file."""
    if not file.is_file():
        return None
    try:
        with Reader(file) as reader, reader.snapshot() as snapshot:
            meta = snapshot.meta()
    except StoreError:
        return None
    return meta if BACKUP in meta else None
