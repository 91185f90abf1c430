"""`radiator compact`: the same store in a file without its free pages, while no broker uses it.

The file is written beside the data file, compared with it row by row, and renamed at the end: a kill at any moment
leaves the one or the other, whole. To LMDB it is the same transaction in other pages, so its table of readers, which a
backup or a check may have open meanwhile, stays valid.
"""

import fcntl
import os
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import MIB
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import (
    checked_head,
    install,
    refuse_bare_backups,
    refuse_other_formats,
    structure_mistakes,
)
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.unreadable import READ_ERRORS
from radiator.storage.report import Progress, unheard

_PROGRESS_EVERY = 256  # rows between two reports of progress
_SPARE_BYTES = MIB  # more than the copy itself, for what the file system writes of its own


@dataclass(frozen=True, slots=True)
class Compacted:
    """Sizes of the data file. removed_bytes: of what a killed compact had left; None where there was nothing."""

    before_bytes: int
    after_bytes: int
    rows: int
    removed_bytes: int | None


def compact(data_dir: str | Path, progress: Progress = unheard) -> Compacted:
    """Leaves the data file without free pages, synced under its name; a start finds the same as before.

    Raises StoreError where a broker runs, there is no room, or the copy differs from the store: nothing has changed
    then. Raises DiskFailed where the disk fails.
    """
    path = Path(data_dir)
    file = path / directory.DATA_FILE
    try:
        if not directory.is_regular(file):
            raise StoreError(f"{path} is not a data directory: it has no {directory.DATA_FILE}.")
        directory.prepare(path)
        lock = directory.BrokerLock(path)
        try:
            removed_bytes = _remove_leftover(path / directory.COMPACT_FILE)
            needed = needed_bytes(path)
            return _compacted(file, path / directory.COMPACT_FILE, removed_bytes, needed, progress)
        finally:
            lock.release()
    except directory.InUse:
        raise StoreError(
            f"A broker serves {path}: stop it first, and start it again afterwards; or run this as root with "
            "`--stop-service radiator`, which does both."
        ) from None
    except OSError as error:
        kind = DiskFailed if error.errno in READ_ERRORS else StoreError
        raise kind(f"{file} cannot be compacted: {error}.") from error


def needed_bytes(data_dir: Path) -> int:
    """Returns the size of the new file, which is written beside the old one; of a store that is being served, as of
    now.

    Raises StoreError where the file system does not have that much room.
    """
    with Reader(data_dir) as reader, reader.snapshot() as snapshot:
        used_bytes = snapshot.used_bytes()
    found = os.statvfs(data_dir)
    free_bytes = found.f_bavail * found.f_frsize
    if free_bytes < used_bytes + _SPARE_BYTES:
        raise StoreError(
            f"{data_dir} cannot be compacted: the new file needs {used_bytes + _SPARE_BYTES} bytes next to the old "
            f"one, and the file system has {free_bytes} free."
        )
    return used_bytes


def _remove_leftover(new: Path) -> int | None:
    try:
        left_bytes = new.lstat().st_size
    except FileNotFoundError:
        return None
    new.unlink()
    return left_bytes


def _compacted(file: Path, new: Path, removed_bytes: int | None, needed: int, progress: Progress) -> Compacted:
    before_bytes = file.stat().st_size
    opened = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as the data file is, from its first moment on
        with Reader(file) as old:
            old.copy_to(opened, True, progress, needed)
            directory.set_transaction(new, checked_head(file).transaction)
            rows = _compared(old, new, progress)
        mistakes = structure_mistakes(new, progress)
        if mistakes:
            raise StoreError(
                f"{file} cannot be compacted, and is as it was: the copy is damaged in LMDB's own structure "
                f"({mistakes[0]}). Run `radiator check` on it."
            )
        install(new, file)  # D33
    finally:
        new.unlink(missing_ok=True)
        os.close(opened)
    return Compacted(before_bytes, file.stat().st_size, rows, removed_bytes)


def _compared(old: Reader, new: Path, progress: Progress) -> int:
    """Compares the two. Returns the number of rows. Raises StoreError where one differs, and for a store of another
    program.
    """
    rows = 0
    with Reader(new) as reader, old.snapshot() as before, reader.snapshot() as after:
        refuse_other_formats(old.file, before.meta())
        refuse_bare_backups(old.file, before.meta())
        tables = before.tables()
        differing = [] if tables == after.tables() else [b"of tables"]
        for table in tables:
            for row, copied in zip_longest(before.rows(table), after.rows(table)):
                rows += 1
                if rows % _PROGRESS_EVERY == 0:
                    progress("comparing", "rows", rows, 0)
                if row != copied:
                    differing.append(table)
                    break
        if differing:
            raise StoreError(
                f"{old.file} cannot be compacted, and is as it was: in the copy the table {differing[0].decode()} is "
                "not the same. Run `radiator check` on it."
            )
    return rows
