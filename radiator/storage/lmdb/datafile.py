"""The one file of a store: how it is created and opened for writing, and what is refused before it is mapped.

Full sync is here and nowhere else: `sync` and `metasync` are on and `writemap` is off, and no argument changes that.
LMDB trusts its file: a truncated one, read through the map, kills the process. So plain reads check it first.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import lmdb
from lmdb.verify import VerifyError, _Verifier  # which is not public: setup.cfg bounds its version

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import GIB, MAP_EXTRA_BYTES, MAP_EXTRA_SHARE, MIB, READERS_MAX, STRUCTURE_CHECKED_BYTES
from radiator.storage.codec import records
from radiator.storage.codec.tables import (
    BACKUP,
    BOOT,
    CLEAN,
    FORMAT,
    META,
    NEXT_QUEUE,
    REDELIVERED_BELOW,
    STORE_ID,
    TABLES,
)
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.unreadable import reading
from radiator.storage.report import Progress, unheard

LIB_VERSION = 0
"""LMDB 0.9's file format, which every other tool reads."""

_MAP_UNIT_BYTES = 64 * 1024  # a multiple of every platform's page size
_STORE_ID_BYTES = 8
_ADDED_SHARE = 3  # the most bytes that an entry adds to the tables, for each of its bytes in the log
_COPIES_BYTES = GIB  # a page for each of the rows that one entry may remove
_PROGRESS_EVERY_PAGES = 256


def open_for_writing(path: Path, map_size: int, *, subdir: bool = True, lock: bool = True) -> lmdb.Environment:
    """LMDB's environment, for writing. Always with full sync."""
    return lmdb.open(
        str(path),
        map_size=-(-map_size // _MAP_UNIT_BYTES) * _MAP_UNIT_BYTES,
        subdir=subdir,
        lock=lock,
        mode=0o600,
        sync=True,
        metasync=True,
        writemap=False,
        max_dbs=len(TABLES),
        max_readers=READERS_MAX,
        max_spare_txns=1,
        lib_version=LIB_VERSION,
    )


def map_bytes_of(whole_bytes: int) -> int:
    """Returns the size of a map for a file that is kept within that many bytes by those who write to it. It takes only
    address space.
    """
    return whole_bytes * (1 + MAP_EXTRA_SHARE) + MAP_EXTRA_BYTES


def map_bytes_for(end_bytes: int, log_bytes: int) -> int:
    """Returns the size of a map in which that many bytes of a log can be carried out on a file that ends there: what
    they add, and what removing copies. It takes address space, and of the disk only what is used of it.
    """
    return end_bytes + _ADDED_SHARE * log_bytes + _COPIES_BYTES


# ---- a new file ---------------------------------------------------------------------------------------------------


def create(data_dir: Path) -> None:
    """Creates an empty store. A crash before the rename leaves a file that the next start removes; after it all is
    there.

    LMDB's own creation of a file is not atomic, hence the rename.
    """
    new = data_dir / directory.NEW_FILE
    rows = {
        FORMAT: records.encode_number(FORMAT, records.FORMAT),
        STORE_ID: records.encode_text(STORE_ID, new_store_id()),
        BOOT: records.encode_number(BOOT, 0),
        CLEAN: records.encode_number(CLEAN, 1),
        REDELIVERED_BELOW: records.encode_number(REDELIVERED_BELOW, 0),
        NEXT_QUEUE: records.encode_number(NEXT_QUEUE, 1),
    }
    new.touch(0o600)
    new.chmod(0o600)  # before LMDB opens it a second time: a umask may have taken its owner's bits
    write_meta(new, rows, map_size=MIB, made=TABLES)
    directory.forget_readers(data_dir)
    install(new, data_dir / directory.DATA_FILE)


def new_store_id() -> str:
    """64 random bits in hexadecimal: they make message ids of different stores differ."""
    return os.urandom(_STORE_ID_BYTES).hex()


def write_meta(
    file: Path,
    rows: Mapping[bytes, bytes | None],
    map_size: int,
    made: Sequence[bytes] = (META,),
    emptied: Sequence[bytes] = (),
) -> None:
    """Sets rows of meta (None: removes) in a single file that no other process has open, creating it if it is missing.

    made: tables that it has afterwards. emptied: those of them that lose their rows.
    """
    try:
        with open_for_writing(file, map_size, subdir=False, lock=False) as env:
            tables = {name: env.open_db(name) for name in made}
            with env.begin(db=tables[META], write=True) as txn:
                for name in emptied:
                    txn.drop(tables[name], delete=False)
                for key, value in rows.items():
                    if value is None:
                        txn.delete(key)
                    else:
                        txn.put(key, value)
    except lmdb.Error as error:
        raise DiskFailed(f"Writing {file} failed: {error}.") from error


def install(new: Path, target: Path) -> None:
    """Gives a finished file its name: synced before, so the name never means half a file, and the name synced after."""
    new.chmod(0o600)
    directory.sync_file(new)
    new.rename(target)
    directory.sync_directory(target.parent)


# ---- what is refused ----------------------------------------------------------------------------------------------


def checked_head(file: Path) -> directory.FileHead:
    """Returns the file's head, if it may be mapped. Raises StoreError for a file that is foreign or cut off, and
    DiskFailed for one that cannot be read.

    LMDB does not write free pages at the very end, so a short file can be whole: `commit` fills it up, but a crash may
    come before that. Then the structural check decides, by plain reads of every page. A broker may be running.
    """
    while True:
        with reading(file):
            head = directory.read_head(file)
        if head.end_bytes <= head.file_bytes:
            return head
        mistakes = structure_mistakes(file)
        if not mistakes:
            return head
        if directory.read_head(file) == head:
            raise StoreError(
                f"{file} is cut off: it has {head.file_bytes} bytes of {head.end_bytes} ({mistakes[0]})."
                " Restore a backup."
            )


def structure_mistakes(file: Path, progress: Progress = unheard) -> list[str]:
    """Returns what is wrong with LMDB's own structures in a file that no process writes to, without mapping it.

    LMDB's `verify` looks only at the first page of a value that has several: were another one beyond the end of the
    file, reading it through the map would kill the process. Raises DiskFailed where it cannot be read.
    """
    try:
        with reading(file), file.open("rb") as opened:
            file_bytes = os.fstat(opened.fileno()).st_size
            verifier = _Watched(opened, file_bytes, progress)
            mistakes = [str(mistake) for mistake in verifier.verify()]  # type: ignore[no-untyped-call]
            beyond = verifier.live.find(1, file_bytes // verifier.psize)
        return mistakes if beyond < 0 else [*mistakes, f"page {beyond} is in use, but beyond the end of the file"]
    except VerifyError as error:
        return [str(error)]


class _Watched(_Verifier):
    """Reports its progress."""

    def __init__(self, opened: BinaryIO, file_bytes: int, progress: Progress) -> None:
        super().__init__(opened, file_bytes)  # type: ignore[no-untyped-call]
        self._progress = progress
        self._pages_read = 0

    def read_page(self, number: int) -> bytes:
        self._pages_read += 1
        if self._pages_read % _PROGRESS_EVERY_PAGES == 0:
            self._progress("verifying LMDB's structure", "pages", self.live.count(1), len(self.live))
        page: bytes = super().read_page(number)  # type: ignore[no-untyped-call]
        return page


def refuse_damaged_structure(file: Path, head: directory.FileHead) -> bool:
    """Raises StoreError where LMDB would end the process by a signal over its own pages. False: the file is too long to
    be read completely at each start (limits.py). No process may write to it meanwhile.
    """
    if head.file_bytes > STRUCTURE_CHECKED_BYTES:
        return False
    mistakes = structure_mistakes(file)
    if mistakes:
        raise StoreError(f"{file} is damaged in LMDB's own structure: {mistakes[0]}. Restore a backup.")
    return True


def bare_backup(file: Path) -> str:
    """Returns the refusal of a backup that was to be served."""
    return f"{file} is a backup: make a data directory from it with `radiator restore FILE DATA_DIR`."


def refuse_other_formats(file: Path, meta: dict[bytes, bytes]) -> None:
    """Raises StoreError unless the rows of meta show that this program can use the store."""
    if FORMAT not in meta:
        raise StoreError(f"{file} is an LMDB file, but not a store of Radiator. Give another data directory.")
    number = records.decode_number(FORMAT, meta[FORMAT])
    if number not in records.FORMATS_READ:
        raise StoreError(
            f"{file} has format {number}, this Radiator reads formats 1 to {records.FORMAT}:"
            " run the Radiator that wrote it, or a newer one."
        )


def refuse_bare_backups(file: Path, meta: dict[bytes, bytes]) -> None:
    """Raises StoreError where the rows of meta show that it is a backup: another broker assigns its ids."""
    if BACKUP in meta:
        raise StoreError(bare_backup(file))
