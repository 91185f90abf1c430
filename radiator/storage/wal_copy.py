"""`radiator backup --log`: copies of the segments of a write-ahead log, while the broker appends to it or not.

A copy has the name of its segment, and its bytes up to the end of what is sound. The copy of an open segment grows with
each run, and is complete when it has the closing. With the segments since a backup `radiator restore --log` brings that
forward to any moment. Segments that the broker has used again before they were copied leave a gap, which each run
reports.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from radiator.model.errors import StoreError
from radiator.model.limits import MIB
from radiator.storage.codec import records
from radiator.storage.codec.tables import STORE_ID
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import refuse_bare_backups, refuse_other_formats
from radiator.storage.lmdb.reader import Reader
from radiator.storage.report import Progress, unheard
from radiator.storage.wal import Damaged, SoundPart, closed_part, segment_name, segments_in, sound_part

_COPIED_AT_ONCE_BYTES = MIB


class Copied(NamedTuple):
    """The contents of a directory of copies. first, last: the indexes of its entries; last_ms: when the last one was
    written. copied_bytes: of this run. gaps: a sentence for each.
    """

    segments: int
    size: int
    first: int
    last: int
    last_ms: int
    copied_bytes: int
    gaps: list[str]


class LogCopier:
    """Copies from one data directory into one directory, again and again. Raises StoreError where it cannot."""

    def __init__(self, data_dir: str | Path, to: str | Path) -> None:
        """Makes the directory `to` if it is missing. One process at a time copies into it."""
        self._from = Path(data_dir) / directory.WAL_DIRECTORY
        self._to = Path(to)
        self._store_id = _store_id(Path(data_dir))
        if not self._from.is_dir():
            raise StoreError(f"{data_dir} has no write-ahead log yet: the first start of this version makes it.")
        place = self._to.resolve()
        if (place / directory.DATA_FILE).exists() or directory.WAL_DIRECTORY in (place.name, place.parent.name):
            raise StoreError(f"{self._to} belongs to a data directory: give the copies a directory of their own.")
        if os.path.lexists(self._to) and not self._to.is_dir():
            raise StoreError(f"{self._to} is not a directory: the copies need one of their own.")
        try:
            self._to.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self._to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._parts = dict(self._found())
            self._not_compared = max(self._parts, default=0)  # the last copy, which grows
        except BlockingIOError:
            os.close(self._lock)
            raise StoreError(f"Another `radiator backup --log` copies into {self._to}.") from None
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> "LogCopier":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def copy(self, progress: Progress = unheard) -> Copied:
        """Copies what is not copied yet of all that was receipted before. Raises StoreError."""
        copied_bytes = 0
        self._forget_missing()
        first = min(self._parts, default=0)  # those before it were copied once, and somebody has removed them
        for number, path in segments_in(self._from):
            if number < first or (number in self._parts and self._parts[number].next):
                continue
            try:
                part = sound_part(path, number, self._store_id, self._parts.get(number))
                source = path.open("rb", buffering=0)
            except FileNotFoundError:  # the broker has just used it again: a gap
                continue
            with source:
                if part is not None:
                    copied_bytes += self._bring(path, source.fileno(), part, copied_bytes, progress)
        parts = [self._parts[number] for number in sorted(self._parts)]
        size = sum(part.end_at for part in parts)
        if not parts:
            return Copied(0, 0, 0, 0, 0, copied_bytes, [])
        end = parts[-1]
        return Copied(len(parts), size, parts[0].first, end.place.index, end.ms, copied_bytes, [*self._gaps(parts)])

    def _bring(self, path: Path, source: int, part: SoundPart, before_bytes: int, progress: Progress) -> int:
        """Brings the copy of a segment to that part of it. Returns how many bytes that took."""
        number = part.place.number
        have, target = self._parts.get(number), self._to / path.name
        if have is not None and (have.first, have.salt) != (part.first, part.salt):
            raise StoreError(
                f"{target} is another segment {number} than {path}: one of them is of a copy of the data directory."
                " Give these copies a directory of their own."
            )
        begin_at = 0 if have is None else have.end_at
        try:
            if have is not None and number == self._not_compared:
                self._refuse_others(source, path, target, begin_at)
                self._not_compared = 0
            os.fdatasync(source)  # D39: what a power cut can still take from the log is never in a copy
            self._append(source, target, begin_at, part.end_at, before_bytes, progress)
            found = sound_part(target, number, self._store_id, have)
            if found == part:
                self._parts[number] = part
                return part.end_at - begin_at
            # what was copied is of a later use of the segment
            if have is None:
                target.unlink()
            else:
                os.truncate(target, have.end_at)
        except OSError as error:
            raise self._unwritable(error) from error
        with suppress(FileNotFoundError):
            again = sound_part(path, number, self._store_id)
            if again is not None and again.salt == part.salt:
                raise StoreError(f"{target} does not have what was written to it: its disk is damaged.")
        return 0

    def _forget_missing(self) -> None:
        """Somebody may have removed a copy, or cut it off, since it was made: then it is made again."""
        for number, part in [*self._parts.items()]:
            try:
                is_whole = (self._to / segment_name(number)).stat().st_size >= part.end_at
            except OSError:
                is_whole = False
            if not is_whole:
                del self._parts[number]

    def _refuse_others(self, source: int, path: Path, target: Path, end_at: int) -> None:
        """Raises StoreError unless a copy has what the segment has, as far as it goes."""
        with target.open("rb", buffering=0) as copy:
            for at in range(0, end_at, _COPIED_AT_ONCE_BYTES):
                size = min(_COPIED_AT_ONCE_BYTES, end_at - at)
                copied = os.pread(copy.fileno(), size, at)
                if os.pread(source, size, at)[: len(copied)] != copied:
                    raise StoreError(
                        f"{target} has other entries than {path}: one of them is of a copy of the data directory. Give"
                        " these copies a directory of their own."
                    )

    def _append(
        self, source: int, target: Path, begin_at: int, end_at: int, before_bytes: int, progress: Progress
    ) -> None:
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(copy, begin_at)
            at = begin_at
            while at < end_at:
                some = os.pread(source, min(_COPIED_AT_ONCE_BYTES, end_at - at), at)
                if not some:
                    break
                written = os.pwrite(copy, some, at)
                if written != len(some):
                    raise OSError(errno.ENOSPC, f"{written} of {len(some)} bytes were written")
                at += len(some)
                progress("copying", "bytes", before_bytes + at - begin_at, 0)
            os.fsync(copy)
            if not begin_at:
                directory.sync_directory(self._to)
        finally:
            os.close(copy)

    def _found(self) -> Iterator[tuple[int, SoundPart]]:
        """Yields the copies that are there. One that a kill has left without a sound opening is made anew."""
        try:
            found = segments_in(self._to)
            for number, path in found:
                part = closed_part(path, number, self._store_id) if number < found[-1][0] else None
                part = part or sound_part(path, number, self._store_id)
                if part is not None:
                    yield number, part
        except OSError as error:
            raise self._unwritable(error) from error
        except Damaged as error:
            raise StoreError(f"{error.clause[0].upper()}{error.clause[1:]}: it is not a copy of this log.") from error

    def _gaps(self, parts: list[SoundPart]) -> Iterator[str]:
        for before, after in pairwise(parts):
            if before.place.index + 1 < after.first:
                missing = f"entries {before.place.index + 1} to {after.first - 1}"
                yield (
                    f"{self._to} lacks {missing}: their segments are not in {self._from} any more, or damaged there."
                    " Raise log_keep, or copy more often; make a new backup, which begins after the gap, and remove"
                    " the copies before it."
                )
            elif before.place.crc != after.crc_before:
                yield f"{self._to} has segment {after.place.number} of another log than segment {before.place.number}."

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"The copies of the log in {self._to} cannot be written: {error}.")


def _store_id(data_dir: Path) -> str:
    if not directory.is_regular(data_dir / directory.DATA_FILE):
        raise StoreError(f"{data_dir} is not a data directory: it has no {directory.DATA_FILE}.")
    with Reader(data_dir) as reader:
        with reader.snapshot() as snapshot:
            meta = snapshot.meta()
        refuse_other_formats(reader.file, meta)
        refuse_bare_backups(reader.file, meta)
        return records.decode_text(STORE_ID, meta[STORE_ID])
