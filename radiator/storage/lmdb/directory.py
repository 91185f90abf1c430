"""The data directory: its owner, its lock, and whether its file may be mapped at all.

    DATA_DIR/         0700
      data.mdb        0600  the tables; LMDB
      wal/            0700  what is not in the tables yet; wal.py
      lock.mdb        0600  LMDB's table of readers; means nothing when no process runs
      radiator.lock   0600  held by the one broker, as data.mdb is, with its process id in it
      radiator.sock   0600  the operators' socket, the server's; means nothing when no broker runs
      data.mdb.new    0600  a store being made; means nothing, removed by the next start
      data.mdb.restore 0600 an unfinished restore; nothing is served until it is finished
      data.mdb.compact 0600 a smaller data.mdb being made; means nothing, removed by the next start

LMDB is not called here: its file is read with plain reads.
"""

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from radiator.model.errors import StoreError
from radiator.model.limits import KIB, READERS_MAX
from radiator.model.settings import SOCKET_FILE

DATA_FILE = "data.mdb"
LMDB_LOCK_FILE = "lock.mdb"
BROKER_LOCK_FILE = "radiator.lock"
NEW_FILE = "data.mdb.new"
RESTORE_FILE = "data.mdb.restore"
COMPACT_FILE = "data.mdb.compact"
WAL_DIRECTORY = "wal"
_FILES = (DATA_FILE, LMDB_LOCK_FILE, BROKER_LOCK_FILE, NEW_FILE, RESTORE_FILE)
# a fresh file system mounted here counts as an empty directory, and so does one with only a leftover socket
_HARMLESS = (*_FILES, SOCKET_FILE, "lost+found")

_RESTORING = "restoring"  # the end of the name of a directory that a restore makes
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600

_ZEROS = bytes(64 * KIB)
_LMDB_LOCK_BYTES = 192 + 64 * (READERS_MAX - 1)  # as LMDB makes it for so many
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# LMDB 0.9 on a 64-bit machine: a page header of 16 bytes, then MDB_meta, of which the fields of Meta are read: the page
# size is md_pad of the free database; the flags are those of the free and of the main database. Native byte order.
_META_MAGIC = 0xBEEFC0DE
_META_VERSION = 1
_META = struct.Struct("=16x I I 8x Q I H 42x 4x H 42x Q Q")
_ORDERS = 0x7E  # flags that say how keys and values are ordered; others are the environment's
_INTEGER_KEYS = 0x08


class Meta(NamedTuple):
    """The fields that are read of a meta page."""

    magic: int
    version: int
    map_bytes: int
    page_bytes: int
    free_flags: int
    main_flags: int
    last_page: int
    transaction: int

    @classmethod
    def of(cls, page: bytes) -> "Meta":
        """Reads the fields of a meta page."""
        return cls(*_META.unpack_from(page))


_META_READS = 100  # a commit takes longer than a read
_NUMBER = struct.Struct("=Q")
_PAGE_NUMBER_AT, _TRANSACTION_AT = 0, _META.size - _NUMBER.size  # in a meta page


class InUse(StoreError):
    """Another broker holds the data directory."""


def prepare(directory: Path) -> None:
    """Creates the directory if it is missing, and sets the modes 0700 and 0600 whatever they were.

    Raises StoreError where it is not a directory, belongs to another user, or holds foreign files.
    """
    try:
        directory.mkdir(mode=_DIRECTORY_MODE)
        directory.chmod(_DIRECTORY_MODE)  # a umask may have taken its owner's bits too
        sync_directory(directory.parent)
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise _no_parent(directory) from None
    found = directory.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{directory} is a file; the data directory must be a directory.")
    _refuse_owner(f"The data directory {directory}", found.st_uid)
    directory.chmod(stat.S_IMODE(found.st_mode) | _DIRECTORY_MODE)  # only root can enter one without it
    if not is_regular(directory / DATA_FILE):
        _refuse_strangers(directory)
    directory.chmod(_DIRECTORY_MODE)
    for name in _FILES:
        if is_regular(directory / name):
            (directory / name).chmod(_FILE_MODE)
    _prepare_wal(directory)


def has_wal(data_dir: Path) -> bool:
    """Whether the directory of a log is there. Raises StoreError for anything else of that name."""
    wal = data_dir / WAL_DIRECTORY
    if not os.path.lexists(wal):
        return False
    if wal.is_symlink() or not wal.is_dir():
        raise StoreError(f"{wal} is not a directory: the log of a store is not opened through links.")
    return True


def _prepare_wal(data_dir: Path) -> None:
    if not has_wal(data_dir):
        return
    wal = data_dir / WAL_DIRECTORY
    _refuse_owner(str(wal), wal.stat().st_uid)
    wal.chmod(_DIRECTORY_MODE)
    for segment in wal.iterdir():
        if is_regular(segment):
            _refuse_owner(str(segment), segment.stat().st_uid)
            segment.chmod(_FILE_MODE)


def _refuse_owner(what: str, user: int) -> None:
    if user != os.geteuid():
        raise StoreError(
            f"{what} belongs to user {user}, this program runs as user {os.geteuid()}:"
            " run it as that user, or change the owner."
        )


def begin_restore(directory: Path) -> None:
    """Marks the directory as being restored: from now on it is not served before the restore is finished, even if this
    process ends. A missing directory is created under a temporary name, and renamed with the mark in it.

    Raises StoreError if foreign files are in the way.
    """
    if os.path.lexists(directory):
        _mark_restore(directory)
        return
    made = directory.with_name(f"{directory.name}.{_RESTORING}")
    try:
        made.mkdir(mode=_DIRECTORY_MODE)
    except FileExistsError:
        if made.is_symlink() or not made.is_dir() or set(os.listdir(made)) - {RESTORE_FILE}:
            raise StoreError(f"{made} is in the way, and was not left by a restore: remove it.") from None
    except FileNotFoundError:
        raise _no_parent(directory) from None
    _mark_restore(made)
    made.rename(directory)
    sync_directory(directory.parent)


def _mark_restore(directory: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(directory / RESTORE_FILE, flags, _FILE_MODE))
    sync_directory(directory)


def refuse_unfinished_restore(directory: Path) -> None:
    """Raises StoreError where a restore was begun and has not been finished."""
    if is_regular(directory / RESTORE_FILE):
        raise StoreError(
            f"The restore into {directory} has not come to its end: run `radiator restore FILE {directory}` again, or"
            f" remove {directory / RESTORE_FILE} to begin with an empty store."
        )


def _no_parent(directory: Path) -> StoreError:
    return StoreError(f"The data directory {directory} cannot be made: create {directory.parent} first.")


def is_regular(file: Path) -> bool:
    """Whether there is a regular file. Raises StoreError for a symbolic link or anything else of that name."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise StoreError(f"{file} is not a regular file: a store is not opened through links or devices.")
    return True


def _refuse_strangers(directory: Path) -> None:
    """Raises StoreError if the directory has anything except what an unfinished store left: only there one is
    created.
    """
    strangers = sorted(name for name in os.listdir(directory) if name not in _HARMLESS)
    if WAL_DIRECTORY in strangers:
        raise StoreError(
            f"The data directory {directory} holds the log of a store, and no {DATA_FILE}: put that back, or remove"
            f" {directory / WAL_DIRECTORY} too, and with it what it holds."
        )
    if strangers:
        raise StoreError(
            f"The data directory {directory} holds no store, but it holds {strangers[0]!r}:"
            " give an empty directory, or a path that does not exist yet."
        )


class BrokerLock:
    """The exclusive lock on a data directory, from construction to `release` or the end of the process.

    Its file names the process that holds it. The data file is locked too: a file that is called a lock may be removed.
    """

    def __init__(self, directory: Path) -> None:
        """Raises InUse where another broker holds it."""
        self._directory = directory
        self._data_file: int | None = None
        path = directory / BROKER_LOCK_FILE
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
        try:
            if not _is_locked(self._file):
                holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise self._in_use(f"process {holder}")
            if is_regular(directory / DATA_FILE):
                self.lock_data()
        except BaseException:
            self.release()
            raise
        os.fchmod(self._file, _FILE_MODE)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def lock_data(self) -> None:
        """Must be called once the data file is there; a second call changes nothing."""
        if self._data_file is not None:
            return
        opened = os.open(self._directory / DATA_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if not _is_locked(opened):
            os.close(opened)
            raise self._in_use(f"which has locked {DATA_FILE}; its {BROKER_LOCK_FILE} was removed")
        self._data_file = opened

    def _in_use(self, holder: str) -> InUse:
        return InUse(
            f"The data directory {self._directory} is in use by another broker ({holder}):"
            " stop that one, or give this one a directory of its own."
        )

    def release(self) -> None:
        """Releases the directory. The file stays: removing it would let two brokers lock two files of one name."""
        os.close(self._file)
        if self._data_file is not None:
            os.close(self._data_file)


def _is_locked(opened: int) -> bool:
    """Tries to lock the file, until it is closed. Returns whether it is locked now."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lay_out_lock(directory: Path) -> None:
    """Allocates LMDB's table of readers on the disk: it is written through a map, and a full disk would kill the
    process.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    opened = os.open(directory / LMDB_LOCK_FILE, flags, _FILE_MODE)
    try:
        os.fchmod(opened, _FILE_MODE)
        os.posix_fallocate(opened, 0, _LMDB_LOCK_BYTES)
    finally:
        os.close(opened)


def forget_readers(directory: Path) -> None:
    """Removes LMDB's table of readers, so that it is made anew with the data file: if that was removed while a process
    reads it, the process has the old table open, and LMDB would take the number of the last transaction from there.
    """
    (directory / LMDB_LOCK_FILE).unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Syncs the directory: the names in it are on the disk when this returns."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(file: Path) -> None:
    """Syncs the file: its bytes are on the disk when this returns."""
    _sync(file, os.O_RDWR)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@dataclass(slots=True)
class FileHead:
    """The newest of LMDB's two meta pages. map_bytes: the largest map that a writer has had."""

    page_bytes: int
    last_page: int
    map_bytes: int
    transaction: int
    file_bytes: int

    @property
    def end_bytes(self) -> int:
        """Where the last page ends; pages beyond the end of the file must never be read through the map."""
        return (self.last_page + 1) * self.page_bytes


def read_head(file: Path) -> FileHead:
    """Reads the meta pages with plain reads: touching a page of the map beyond the end of its file kills the process.

    Raises StoreError for a file that is not of LMDB or of another kind, or too short to tell.
    """
    with file.open("rb", buffering=0) as opened:
        first, second = _read_metas(file, opened)
        page_bytes = first.page_bytes
        # after the metas: a running broker only extends the file, and does so before its meta refers to it
        file_bytes = os.fstat(opened.fileno()).st_size
    newest = max(first, second, key=lambda meta: meta.transaction)
    if (newest.free_flags & _ORDERS, newest.main_flags & _ORDERS) != (_INTEGER_KEYS, 0):
        # LMDB's own assertion about them would end the process
        raise StoreError(
            f"{file} is damaged: the flags of its head are {newest.free_flags:#x} and {newest.main_flags:#x}."
            " Restore a backup."
        )
    return FileHead(page_bytes, newest.last_page, newest.map_bytes, newest.transaction, file_bytes)


def set_transaction(file: Path, transaction: int) -> None:
    """Numbers the newest state of a file that no process has open as this transaction, and the one before it."""
    with file.open("r+b", buffering=0) as opened:
        first, second = _read_metas(file, opened)
        page_bytes = first.page_bytes
        opened.seek(0 if first.transaction > second.transaction else page_bytes)
        page = bytearray(opened.read(page_bytes))
        for number in (transaction - 1, transaction):
            place = number & 1  # LMDB writes them in turn
            _NUMBER.pack_into(page, _PAGE_NUMBER_AT, place)
            _NUMBER.pack_into(page, _TRANSACTION_AT, number)
            opened.seek(place * page_bytes)
            opened.write(page)


def fill_up(file: Path, end_bytes: int) -> None:
    """Extends the file at least to that length, with a hole: for pages that are free and were never written."""
    if file.stat().st_size < end_bytes:
        os.truncate(file, end_bytes)


def fill_ahead(file: Path, end_bytes: int) -> int:
    """Extends the file to that length with allocated bytes, as far as there is room, and returns its length.

    A sync after which a file is longer writes the file system's metadata too. Space that another program takes first is
    left to it: a full disk is not an error here.
    """
    with file.open("ab", buffering=0) as opened:
        file_bytes = opened.tell()
        missing = max(0, end_bytes - file_bytes)
        stretches = [_ZEROS] * (missing // len(_ZEROS)) + [_ZEROS[: missing % len(_ZEROS)]]
        try:
            return file_bytes + os.writev(opened.fileno(), stretches)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            return file_bytes


def _read_metas(file: Path, opened: FileIO) -> tuple[Meta, Meta]:
    """Both meta pages, of consecutive transactions.

    LMDB writes them in turn and takes the newer one. Were one's number damaged, it would take the older one and so
    silently undo the last commit; so any other pair is refused. Beside a running broker a commit may come between the
    two reads: then they are read again.
    """
    for _ in range(_META_READS):
        opened.seek(0)
        first = _read_meta(file, opened.read(_META.size))
        page_bytes = first.page_bytes
        if page_bytes < 512 or page_bytes > 65536 or page_bytes & (page_bytes - 1):
            raise StoreError(f"{file} is damaged: its page size is {page_bytes}. Restore a backup.")
        opened.seek(page_bytes)
        second = _read_meta(file, opened.read(_META.size))
        even, odd = first.transaction, second.transaction
        if even % 2 == 0 and (abs(even - odd) == 1 or even == odd == 0):
            return first, second
    raise StoreError(
        f"{file} is damaged: its two heads are of transactions {even} and {odd}, which do not follow each other."
        " Restore a backup."
    )


def _read_meta(file: Path, page: bytes) -> Meta:
    if len(page) < _META.size:
        raise StoreError(f"{file} is not a store: it is cut off within its first pages. Restore a backup.")
    meta = Meta.of(page)
    if meta[:2] != (_META_MAGIC, _META_VERSION):
        raise StoreError(f"{file} is not a store of Radiator: it is not an LMDB 0.9 file. Give another data directory.")
    return meta
