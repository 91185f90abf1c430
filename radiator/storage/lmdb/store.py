"""The broker's store on LMDB. It keeps the Store contract (contract.py).

    start     `open_store`, start.py       what is there, and the next boot
    commit    `LmdbStore.commit`           the guard judges the batch; it is encoded, and carried out (writer.py)
    read      reads.py                     what is read back of the last committed state
    measure   measure.py, structure.py     how much room there is, and whether the file is what LMDB has written

Values go through codec/records.py, where each gets its checksum: LMDB has none.
"""

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import lmdb

from radiator.model.commands import LoadedPrepared
from radiator.model.disk import WalNumbers
from radiator.model.errors import DamagedRecord, DiskFailed, StoreError
from radiator.model.limits import (
    UNAPPLIED_BYTES,
    UNAPPLIED_ROWS,
    WAL_SEGMENT_BYTES,
    WAL_SEGMENT_FIRST_BYTES,
    WAL_SHARE,
)
from radiator.model.reads import (
    DedupLookup,
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
)
from radiator.model.recovery import Recovery
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.model.writes import Write
from radiator.storage import wal
from radiator.storage.codec import records
from radiator.storage.codec.encode import encode
from radiator.storage.codec.operations import encode_operations
from radiator.storage.codec.tables import DEDUP, FORMAT
from radiator.storage.guard import Guard
from radiator.storage.lmdb import directory, measure
from radiator.storage.lmdb.damage import CHECK_HINT
from radiator.storage.lmdb.datafile import (
    bare_backup,
    checked_head,
    create,
    map_bytes_of,
    open_for_writing,
    refuse_bare_backups,
    refuse_damaged_structure,
    refuse_other_formats,
)
from radiator.storage.lmdb.follower import TreeFollower
from radiator.storage.lmdb.reader import backup_meta
from radiator.storage.lmdb.reads import TreeReader
from radiator.storage.lmdb.replay import applied, mark, replay
from radiator.storage.lmdb.start import Start, meta_rows, open_tables, refuse_missing_rows
from radiator.storage.lmdb.structure import StructureCheck
from radiator.storage.lmdb.unreadable import READ_ERRORS
from radiator.storage.lmdb.writer import TreeWriter

_DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError)  # LMDB's errors for damaged pages
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT}) | READ_ERRORS


def open_store(
    path: str | Path, map_size: int, node: str = "", log_keep: LogKeep = KEEP_NOTHING, disk_free_min: int = 0
) -> "LmdbStore":
    """Opens the data directory for the one broker, creating it if it is missing, and begins its next boot. node: must
    own it, and owns it from now on if no node did; "": any. log_keep: of the write-ahead log, while the disk has twice
    disk_free_min bytes.

    Raises StoreError (one sentence that says what to do) where it cannot be used, DiskFailed where its disk fails.
    """
    data_dir = Path(path)
    try:
        if backup_meta(data_dir) is not None:
            raise StoreError(bare_backup(data_dir))
        directory.prepare(data_dir)
        lock = directory.BrokerLock(data_dir)
        try:
            (data_dir / directory.NEW_FILE).unlink(missing_ok=True)
            if not directory.is_regular(data_dir / directory.DATA_FILE):
                directory.refuse_unfinished_restore(data_dir)
                create(data_dir)
                lock.lock_data()
            (data_dir / directory.COMPACT_FILE).unlink(missing_ok=True)
            directory.lay_out_lock(data_dir)
            # the start that renamed the file may have been killed before the name was on the disk
            directory.sync_directory(data_dir)
            return LmdbStore(data_dir, map_size, lock, node, log_keep, disk_free_min)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise DiskFailed(f"Opening the data directory {data_dir} failed: {error}.") from error
        raise StoreError(f"The data directory {data_dir} cannot be used: {error}.") from error


class LmdbStore:
    """The Store contract. `commit` belongs to one thread; `load`, `look_up`, `used_bytes` to one other thread."""

    recovery: Recovery

    def __init__(
        self,
        data_dir: Path,
        map_size: int,
        lock: directory.BrokerLock,
        node: str,
        log_keep: LogKeep,
        disk_free_min: int,
    ) -> None:
        """Through `open_store` only: the directory is prepared and locked."""
        self._log_keep, self._disk_free_min = log_keep, disk_free_min
        self._file = data_dir / directory.DATA_FILE
        self._lock = lock
        self._map_size = map_size
        self._commit_ms = 0
        head = checked_head(self._file)
        is_checked = refuse_damaged_structure(self._file, head)
        self._structure: StructureCheck | None = None
        try:
            # D10: the broker keeps SENDs within map_size; what removes messages copies pages, and has room for it
            self._env = open_for_writing(data_dir, map_bytes_of(max(map_size, head.end_bytes)))
            try:
                (data_dir / directory.LMDB_LOCK_FILE).chmod(0o600)
                self._env.reader_check()
                self._begin_boot(data_dir, head, node)
                if not is_checked:
                    self._structure = StructureCheck(self._env, self._file, head.page_bytes)
            except BaseException:
                self._env.close()
                raise
        except lmdb.Error as error:
            if getattr(error, "code", 0) in _DISK_ERRORS:
                raise DiskFailed(f"Opening {self._file} failed: {error}.") from error
            raise StoreError(f"{self._file} cannot be used: {error}. {CHECK_HINT}.") from error
        except DamagedRecord as error:
            raise StoreError(f"{self._file} is damaged: {error} {CHECK_HINT}.") from error
        except DiskFailed as error:
            if isinstance(error.__cause__, _DAMAGE):
                raise StoreError(f"{self._file} is damaged: {error.__cause__}. {CHECK_HINT}.") from error
            raise

    def _begin_boot(self, data_dir: Path, head: directory.FileHead, node: str) -> None:
        """Brings the tables up to date, reads what is stored, and commits the next boot before it is used."""
        with self._env.begin() as txn:
            meta = meta_rows(self._env, txn)
        refuse_other_formats(self._file, meta)
        refuse_bare_backups(self._file, meta)
        refuse_missing_rows(self._file, meta)
        self._tables = open_tables(self._env, self._file, records.decode_number(FORMAT, meta[FORMAT]))
        self._writer = TreeWriter(self._env, self._file, self._tables, head, max(self._map_size, head.end_bytes))
        file_system = os.statvfs(data_dir)
        whole_bytes = min(self._map_size, file_system.f_blocks * file_system.f_frsize)
        share_bytes = max(WAL_SEGMENT_FIRST_BYTES, whole_bytes // WAL_SHARE)
        segment_max = min(WAL_SEGMENT_BYTES, share_bytes)
        place = applied(meta)
        if place is not None:
            wal.give_up_kept(data_dir, place.number, wal.KeepBounds(self._disk_free_min, segment_max))
        reading = replay(self._writer, data_dir, meta)
        start = Start(self._env, self._file, self._tables, node)
        self.recovery = start.recovery
        if reading is None:
            reading = self._begin_wal(data_dir, start, place)
        if place is not None and start.upgrade:
            self._writer.apply(encode(start.upgrade))  # not in the log: tables that carry the log out have it
        self._wal = wal.WriteAheadLog(data_dir, reading, segment_max, self._log_keep, self._disk_free_min)
        bound = min(UNAPPLIED_BYTES, share_bytes)
        rows_bound = min(UNAPPLIED_ROWS, share_bytes // head.page_bytes)
        self._follower = TreeFollower(self._env, self._tables, self._writer, self._wal, bound, rows_bound)
        self._guard = Guard(start.recovery)
        self._boot = start.recovery.boot
        # D8: whatever uses this boot can rely on it that no later start gets it
        self.commit(start.writes)
        if start.recovery.was_clean:
            self._follower.apply()  # else a log that is lost after a kill would pass for one of a clean stop
        store_id = start.recovery.store_id
        self._reader = TreeReader(self._env, self._file, start.tables, store_id, start.redelivered_below)

    def _begin_wal(self, data_dir: Path, start: Start, place: wal.Place | None) -> wal.WalReading:
        """Begins the log of a store that has none: it is new, restored, or of an earlier format, which ends here; or it
        was stopped cleanly, and its log is gone. place: what the tables have.
        """
        store_id = start.recovery.store_id
        if place is None:
            place = wal.Place(0, crc32(store_id.encode()))
            reading = wal.begin(data_dir, store_id, place)
            self._writer.apply([*encode(start.upgrade), mark(place)])
            return reading
        return wal.begin(data_dir, store_id, place)

    # ---- commit: the committer's thread -----------------------------------------------------------------------------

    def set_clock(self, now_ms: int) -> None:
        """Sets the broker's time, which the next commit has; else it has the system's."""
        self._commit_ms = now_ms
        self._wal.set_clock(now_ms)

    def commit(self, writes: Sequence[Write]) -> None:
        """See the contract. Raises DiskFailed."""
        self._guard.judge(writes)
        operations = encode(writes)
        content = b"".join(encode_operations(operations))
        ms, self._commit_ms = self._commit_ms or time.time_ns() // 1_000_000, 0
        self._follower.add(operations, content, self._boot, ms)

    def catch_up(self) -> None:
        """Brings the tree up to all that was committed, when this returns. The follower's thread calls it. Raises
        DiskFailed.
        """
        self._follower.catch_up()

    @property
    def is_far_behind(self) -> bool:
        """Whether the tree is to be brought up to date now, before commits must wait for it."""
        return self._follower.is_far_behind

    def apply_if_due(self) -> float:
        """Brings the tree up to date; seconds until the next call. A thread of its own calls it."""
        return self._follower.apply_if_due()

    def reader_check(self) -> None:
        """Frees the slots of readers that died: each pins the pages of its snapshot. The committer calls it."""
        self._env.reader_check()

    # ---- reads: the loader's thread ---------------------------------------------------------------------------------

    def load(self, load: ReadQueue) -> Loaded:
        """See the contract. This and the other reads raise StoreError where LMDB itself cannot read on."""
        return self._up_to_date().load(load)

    def load_keys(self, load: ReadKeys) -> LoadedKeys:
        """See the contract."""
        return self._up_to_date().load_keys(load)

    def load_held(self, load: ReadHeld) -> LoadedHeld:
        """See the contract."""
        return self._up_to_date().load_held(load)

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        """See the contract."""
        return self._up_to_date().load_delayed(load)

    def load_log(self, load: ReadLog) -> LoadedLog:
        """See the contract."""
        return self._up_to_date().load_log(load)

    def load_events(self, load: ReadEvents) -> LoadedEvents:
        """See the contract. A search has many slices, and only the last of them needs what LMDB does not have yet: a
        commit of LMDB for each would keep the disk from others.
        """
        found, is_behind = self._reader.load_events(load)
        if is_behind:
            rest = replace(load, offset=found.next)
            more, is_missing = self._up_to_date().load_events(rest)
            found = LoadedEvents(load.request, found.events + more.events, load.end if is_missing else more.next)
        return found

    def load_prepared(self, load: ReadPrepared) -> LoadedPrepared:
        """See the contract."""
        return self._up_to_date().load_prepared(load)

    def _up_to_date(self) -> TreeReader:
        # D37
        self._follower.apply()
        return self._reader

    def look_up(self, look_up: DedupLookup) -> bool:
        """See the contract."""
        key = records.dedup_key(look_up.queue, look_up.dedup_id)
        value = self._follower.get(DEDUP, key)
        try:
            return value is not None and records.decode_number(key, value) >= look_up.now_ms
        except DamagedRecord:
            return False

    # ---- measure: the loader's thread, too --------------------------------------------------------------------------

    def go_on_checking(self) -> bool:
        """Checks some more pages of a file that the start has not read completely. False: that is done, or was not
        needed. Raises StoreError, or DiskFailed.
        """
        if self._structure is None or self._structure.is_done:
            return False
        self._structure.go_on()
        return not self._structure.is_done

    @property
    def checked_percent(self) -> int:
        """How much of its structure has been checked since the start, in percent."""
        return 100 if self._structure is None else self._structure.percent

    def used_bytes(self) -> int:
        """See the contract. Raises StoreError."""
        used = measure.used_bytes(self._env, self._file, self._tables)
        return used + self._follower.unapplied_bytes

    def use_disk_free_min(self, disk_free_min: int) -> None:
        """Called by the hub when the setting has changed: kept segments of the log make way below twice of it."""
        self._wal.use_disk_free_min(disk_free_min)

    def wal_bytes(self) -> tuple[int, int]:
        """Returns the bytes of the write-ahead log's files, and of those of them that log_keep keeps."""
        return self._wal.size_bytes, self._wal.kept_bytes

    def wal_numbers(self) -> WalNumbers:
        """Returns how the log stands, besides its bytes."""
        segments, spare = self._wal.segments
        follower = self._follower
        return WalNumbers(segments, spare, follower.unapplied_entries, follower.unapplied_bytes, follower.bound)

    def spare_bytes(self) -> int:
        """Returns the bytes of the disk that the file occupies and no longer uses: commits take them before it
        grows.
        """
        return measure.spare_bytes(self._file, self.used_bytes())

    def close(self) -> None:
        """See the contract. No other call may be under way."""
        if self._structure is not None:
            self._structure.close()
        self._follower.close()
        self._wal.close()
        self._env.close()
        self._lock.release()
