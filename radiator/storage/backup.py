"""`radiator backup` and `restore`: a consistent copy of a running store in one file, and a data directory from it.

A backup carries a mark, so that it is never served by accident: two stores with one id would assign the same message
ids twice. `restore` removes the mark and assigns a new id. Both write beside their target and rename at the end.
"""

import fcntl
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import lmdb

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import BACKUP_META_BYTES, MIB
from radiator.storage.check import Report, check
from radiator.storage.check_wal import check_wal
from radiator.storage.codec import records
from radiator.storage.codec.operations import pieces
from radiator.storage.codec.tables import (
    APPLIED,
    BACKUP,
    CLEAN,
    DOUBTS,
    FORMAT,
    PEERS,
    STORE_ID,
    TABLES,
    TIME,
    tables_of,
)
from radiator.storage.forward import Forward, LogBehind, Until
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import (
    checked_head,
    install,
    map_bytes_for,
    new_store_id,
    open_for_writing,
    refuse_bare_backups,
    refuse_other_formats,
    structure_mistakes,
    write_meta,
)
from radiator.storage.lmdb.mending import mend
from radiator.storage.lmdb.mending_keys import mend_keys
from radiator.storage.lmdb.mending_ledgers import mend_ledgers
from radiator.storage.lmdb.reader import Reader, backup_meta
from radiator.storage.lmdb.replay import mark
from radiator.storage.lmdb.writer import TreeWriter
from radiator.storage.report import Progress, unheard
from radiator.storage.wal import WalEntry

_NEW = ".radiator-backup.new"  # the end of an unfinished backup's name, after its process id
_COPIED_AT_ONCE_BYTES = MIB
_LEFTOVER = re.compile(r".+\.[0-9]+" + re.escape(_NEW), re.DOTALL)


def backup(
    data_dir: str | Path,
    file: str | Path,
    compact: bool = False,
    progress: Progress = unheard,
    despite_damage: bool = False,
) -> Report:
    """Writes one state of the whole store into `file`, synced, 0600, all of it or nothing; the broker may run
    meanwhile.

    compact leaves free pages out; it takes longer. despite_damage: if the log is damaged, writes what can be read in
    order; the report has what is lost. An earlier backup of that name is replaced. Raises StoreError, also where `file`
    exists and is not a backup.
    """
    target = Path(file)
    if os.path.lexists(target) and backup_meta(target) is None:
        raise StoreError(f"{target} exists and is not a backup: choose another name.")
    if not directory.is_regular(Path(data_dir) / directory.DATA_FILE):
        raise StoreError(f"{data_dir} is not a data directory: it has no {directory.DATA_FILE}.")
    new = target.with_name(f"{target.name}.{os.getpid()}{_NEW}")
    report = Report()
    try:
        _remove_leftovers(target.parent)
        with Reader(Path(data_dir), despite_damage) as reader:
            with reader.snapshot() as snapshot:
                check_wal(snapshot, report)
                meta = snapshot.meta()
                behind = snapshot.entries_behind
                expected_bytes = 0 if compact else reader.file.stat().st_size
            refuse_other_formats(reader.file, meta)
            refuse_bare_backups(reader.file, meta)
            held = _copy(reader, new, compact, progress, expected_bytes)
        try:
            _bring_up_to_date(new, behind)
            write_meta(new, {BACKUP: records.encode_number(BACKUP, 1)}, _map_bytes(new))
            install(new, target)
        finally:
            os.close(held)
    except OSError as error:
        raise StoreError(f"The backup {target} cannot be written: {error}.") from error
    finally:
        new.unlink(missing_ok=True)
    return report


def _copy(reader: Reader, new: Path, compact: bool, progress: Progress, expected_bytes: int) -> int:
    """Copies into `new`, and returns it open and locked: as long as it is, no other backup removes it as a leftover."""
    opened = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        if not os.fstat(opened).st_nlink:
            raise FileNotFoundError("another backup has just removed temporary files here: run it again")
        reader.copy_to(opened, compact, progress, expected_bytes)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _bring_up_to_date(new: Path, behind: Sequence[WalEntry]) -> None:
    """Carries out those of the entries that the copy does not have yet: all that was receipted before it was begun."""
    if not behind:
        return
    with Reader(new) as reader, reader.snapshot() as snapshot:
        meta = snapshot.meta()
    applied = records.decode_place(APPLIED, meta[APPLIED])[0]
    missing = [entry for entry in behind if entry.place.index > applied]
    if not missing:
        return
    log_bytes = sum(len(entry.operations) for entry in missing)
    with open_for_writing(new, map_bytes_for(_map_bytes(new), log_bytes), subdir=False, lock=False) as env:
        names = tables_of(records.decode_number(FORMAT, meta[FORMAT]))
        tables = {name: env.open_db(name, create=False) for name in names}
        writer = TreeWriter(env, new, tables, checked_head(new))
        for operations, last in pieces(missing):
            writer.apply([*operations, mark(last.place)])


def _remove_leftovers(parent: Path) -> None:
    """Removes unfinished backups of any name whose process was killed: no process has them locked."""
    for name in os.listdir(parent):
        if not _LEFTOVER.fullmatch(name):
            continue
        with suppress(OSError):  # another user's, or gone, or still being written
            opened = os.open(parent / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(parent / name)
            finally:
                os.close(opened)


def restore(
    file: str | Path,
    data_dir: str | Path,
    progress: Progress = unheard,
    log: str | Path | None = None,
    until: Until | None = None,
) -> Report:
    """Makes a data directory from a backup, with a new store id; its messages count as from before an unclean stop.
    Messages in doubt with other nodes no longer are: those nodes know neither this store's id nor its sequences.

    Returns the report of `check`: damaged messages do not prevent a restore, a damaged structure does. Damaged rows
    that a start refuses are left out or rebuilt (mending.py), and the report lists them. Raises StoreError where `file`
    is not a whole backup, or `data_dir` already holds something.

    log: brings it forward by the write-ahead log in that directory, up to `until`. Raises StoreError, and makes
    nothing, where it does not follow the backup, or does not reach `until` in one piece.
    """
    source, target = Path(file), Path(data_dir)
    meta = backup_meta(source)
    if meta is None:
        raise StoreError(f"{source} is not a backup made by `radiator backup`, or it is cut off.")
    refuse_other_formats(source, meta)
    mistakes = structure_mistakes(source, progress)
    if mistakes:
        raise StoreError(f"The backup {source} is damaged: {mistakes[0]}. Restore another one.")
    behind = None if log is None else LogBehind(source, meta, Path(log))
    plan = Forward() if behind is None else behind.plan(until or Until(), progress)
    try:
        if not os.path.lexists(target):
            directory.begin_restore(target)
        directory.prepare(target)
        lock = directory.BrokerLock(target)
        try:
            new = _copied(source, target, progress)
            if behind is not None and plan.entries:
                behind.bring(new, plan, progress)
            mended = _install_copy(new, target)
        finally:
            lock.release()
    except OSError as error:
        raise StoreError(f"The data directory {target} cannot be made: {error}.") from error
    report = check(target, progress)
    for sentence in mended:
        report.find(sentence)
    report.forward = None if behind is None else asdict(plan)
    return report


def _copied(source: Path, target: Path, progress: Progress) -> Path:
    """Copies the backup beside the name that it will have. After a crash before the rename no broker serves the
    directory: restore again.
    """
    if directory.is_regular(target / directory.DATA_FILE):
        raise StoreError(f"The data directory {target} holds a store already: give a path that does not exist yet.")
    directory.begin_restore(target)
    directory.forget_readers(target)
    new = target / directory.RESTORE_FILE
    _copy_file(source, new, progress)
    return new


def _install_copy(new: Path, target: Path) -> list[str]:
    """Makes the copy a store of its own. Returns what was mended."""
    rows = {
        FORMAT: records.encode_number(FORMAT, records.FORMAT),
        BACKUP: None,
        STORE_ID: records.encode_text(STORE_ID, new_store_id()),
        CLEAN: records.encode_number(CLEAN, 0),
        APPLIED: None,  # the log begins anew
        TIME: None,  # a start trusts the system's clock then, however old the backup is
    }
    # to other nodes this is another store: agreements with them do not hold for it
    write_meta(new, rows, _map_bytes(new), made=TABLES, emptied=(PEERS, DOUBTS))
    mended = _mend(new)
    install(new, target / directory.DATA_FILE)
    return mended


def _copy_file(source: Path, new: Path, progress: Progress) -> None:
    with source.open("rb") as reading, new.open("wb") as writing:
        whole, done = os.fstat(reading.fileno()).st_size, 0
        while some := reading.read(_COPIED_AT_ONCE_BYTES):
            writing.write(some)
            done += len(some)
            progress("copying", "bytes", done, whole)


def _mend(file: Path) -> list[str]:
    """Mends damaged rows that a start refuses, and returns a sentence for each."""
    try:
        with open_for_writing(file, _map_bytes(file), subdir=False, lock=False) as env:
            tables = {name: env.open_db(name) for name in TABLES}
            with env.begin(write=True) as txn:
                return mend(txn, tables) + mend_ledgers(txn, tables) + mend_keys(txn, tables)
    except lmdb.Error as error:
        raise DiskFailed(f"Writing {file} failed: {error}.") from error


def _map_bytes(file: Path) -> int:
    return checked_head(file).end_bytes + BACKUP_META_BYTES
