"""The write-ahead log: what a commit writes and syncs. One file of code, to be read from top to bottom.

    name       `wal/NUMBER.wal` in the data directory; a segment is filled with zeros before it is used
    append     one entry for each batch: one write, one fdatasync; then the batch is on the disk
    read       the entries after an index, each checked; where they stop, whether that is the end or damage
    tidy       segments that the tree has caught up with are kept, if `log_keep` says so, and then used again

An entry is written only after the one before it is synced. So a crash tears the last entry at most, and the log is cut
there. If anything valid follows a place that is not valid, the log is damaged in the middle, and nothing is cut off.

Every segment has a random salt, which the checksum of each head includes: neither leftovers of an earlier use of the
file, nor what a producer writes into a message, can pass for an entry. Each entry has the checksum of the one before.
"""

import errno
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import (
    KIB,
    LOG_KEEP_FREE_BYTES,
    LOG_KEEP_FREE_SEGMENTS,
    LOG_KEEP_FREE_SHARE,
    WAL_SEGMENT_FIRST_BYTES,
)
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.storage.lmdb.directory import WAL_DIRECTORY, has_wal, is_regular, sync_directory

FORMAT = 1
TERM = 1  # always; a replicated log would count its leaders here

_NAME = re.compile(r"([0-9]{10})\.wal")
_UNFINISHED = ".new"
_SEGMENT_MAGIC = b"Radiator WAL"
_SEGMENT = struct.Struct(">12sH2x32sQQQI")  # magic, format, store id, number, first index, salt, checksum before
_CRC = struct.Struct(">I")
_ENTRIES_AT = 128  # in a segment
_ENTRY_MAGIC = b"entr"
_CLOSING_MAGIC = b"clos"
_HEAD = struct.Struct(">4sIQQQQII")  # magic, length, index, term, boot, ms, checksum before, checksum of what follows
_HEAD_BYTES = 56  # with the head's own checksum, and 4 bytes of zeros
_UNIT = 8  # entries begin at multiples of it
_CLOSING = struct.Struct(">QQ")  # number and salt of the next segment
_CLOSING_BYTES = _HEAD_BYTES + _CLOSING.size
_ZEROS = bytes(64 * KIB)
_SALT_BYTES = 8
_SYNCED_BYTES = 512 * KIB  # the size of a piece of a segment that is made while commits go on
_PAUSE_S = 0.002  # between two pieces: a segment of 64 MiB takes a third of a second
_PIECE_BYTES = 256 * KIB  # a multiple of _UNIT: so no magic lies across two pieces
_ZERO_PIECE = bytes(_PIECE_BYTES)  # most of what is searched
_AMPLE_SHARE = 8  # a segment longer than the first is prepared only if the disk has this many times its size free
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})

# How far a batch had come -> what a start finds of it after a crash, and why.
AFTER_A_CRASH = {
    "appended": ("all of it, or nothing", "no RECEIPT has left that promises it; a torn entry is cut off"),
    "synced": ("all of it", "the start carries out the entries that the tables do not have"),
    "being applied": ("all of it", "the tables are as they were before, and the log still has the entry"),
    "applied": ("all of it, once", "the index of the last entry is in the same transaction as its rows"),
    "its segment is blank again": ("all of it", "until the tables have all its entries, synced, it is not"),
    "its segment is used again": ("all of it, once", "under the salt of the new use no old entry is sound"),
}


class Place(NamedTuple):
    """The place right after the entry `index`, whose checksum is `crc`: the next entry goes here. The first index is 1.

    number, at: the number of the segment, and the byte in it; 0: not known.
    """

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    crc: int
    number: int = 0
    at: int = 0


class WalEntry(NamedTuple):
    """One batch. place: right after it. ms: when it was written, in milliseconds since the epoch."""

    place: Place
    term: int
    boot: int
    ms: int
    operations: bytes


class Damaged(StoreError):
    """Something in the log is not what was written, and what follows it, or should, may have been receipted."""

    def __init__(self, clause: str, advice: str = "Restore a backup.") -> None:
        """clause: what is wrong, and in which file."""
        self.finding = f"The log is damaged: {clause}."
        self.clause = clause
        super().__init__(f"{self.finding} {advice}")


class _Head(NamedTuple):
    magic: bytes
    length: int
    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    term: int
    boot: int
    ms: int
    crc_before: int
    content_crc: int


class _Opening(NamedTuple):
    """The first bytes of a segment."""

    magic: bytes
    format: int
    store: bytes
    number: int
    first: int
    salt: int
    crc_before: int


# ---- bytes --------------------------------------------------------------------------------------------------------


def _padded(length: int) -> int:
    return -(-length // _UNIT) * _UNIT


def _entry_bytes(magic: bytes, place: Place, boot: int, ms: int, content: bytes, salt: int) -> tuple[bytes, int]:
    """Returns the head of an entry that follows that place, and its checksum."""
    index = place.index + (magic == _ENTRY_MAGIC)
    head = _HEAD.pack(magic, len(content), index, TERM, boot, ms, place.crc, crc32(content))
    crc = crc32(head, salt & 0xFFFFFFFF) ^ (salt >> 32)
    return head + crc.to_bytes(4, "big") + bytes(_HEAD_BYTES - _HEAD.size - 4), crc


def _head_at(data: bytes, salt: int) -> tuple[_Head, int] | None:
    """Returns the head at the beginning of these bytes, and its checksum; None: that is not right under this salt."""
    if len(data) < _HEAD_BYTES:
        return None
    head = data[: _HEAD.size]
    # D36
    crc = crc32(head, salt & 0xFFFFFFFF) ^ (salt >> 32)
    if _CRC.unpack_from(data, _HEAD.size)[0] != crc:
        return None
    return _Head(*_HEAD.unpack(head)), crc


def _opening_bytes(opening: _Opening) -> bytes:
    packed = _SEGMENT.pack(*opening)
    packed += crc32(packed).to_bytes(4, "big")
    return packed + bytes(_ENTRIES_AT - len(packed))


def _opening_of(data: bytes | memoryview) -> _Opening | None:
    """Returns the segment's opening; None: its checksum or its magic is not right."""
    packed = bytes(data[: _SEGMENT.size])
    if len(data) < _ENTRIES_AT or _CRC.unpack_from(data, _SEGMENT.size)[0] != crc32(packed):
        return None
    opening = _Opening(*_SEGMENT.unpack(packed))
    return opening if opening.magic == _SEGMENT_MAGIC else None


# ---- reading ------------------------------------------------------------------------------------------------------


class WalEnd(NamedTuple):
    """The end of the log, where `append` goes on. salt: that of the segment."""

    place: Place
    salt: int


def _for_reading(path: Path) -> FileIO:
    """Opens a segment. Raises StoreError if it is no regular file: opening a pipe would wait for a writer."""
    try:
        is_regular(path)
        return path.open("rb", buffering=0)
    except PermissionError:
        raise _may_not_read(path) from None


def _may_not_read(path: Path) -> StoreError:
    return StoreError(
        f"User {os.geteuid()} may not read {path}: run this as the user that the data directory belongs to, and give"
        " what is in it the mode 0600, and directories 0700."
    )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Has an OSError of a read name the file: the system says only why it failed."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


class _Bytes:
    """The bytes of a file, read in pieces: a segment may be larger than the part that must be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = _for_reading(path)
        self.size = os.fstat(self._opened.fileno()).st_size
        self._piece = bytearray(_PIECE_BYTES)
        self._begin = 0
        self._count = 0  # how much of the piece has been read

    def __enter__(self) -> "_Bytes":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def at(self, at: int, count: int) -> bytes:
        """Returns that many bytes from that offset on, or as many as there are."""
        if count > _PIECE_BYTES:
            with _naming(self._path):
                return os.pread(self._opened.fileno(), count, at)
        if not self._begin <= at <= at + count <= self._begin + self._count:
            self._read(at)
        return bytes(self._piece[at - self._begin : min(at - self._begin + count, self._count)])

    def find(self, magics: Sequence[bytes], at: int, end: int = sys.maxsize) -> list[int]:
        """Returns each offset from `at` on that is a multiple of _UNIT and has one of the magics; perhaps some from
        `end` on, too. at: a multiple of _UNIT.
        """
        places = []
        while at < end and self._read(at):
            for magic in magics if self._piece != _ZERO_PIECE else ():
                found = self._piece.find(magic, 0, self._count)
                while found >= 0:
                    if (at + found) % _UNIT == 0:
                        places.append(at + found)
                    found = self._piece.find(magic, found + 1, self._count)
            at += self._count
        return places

    def forget(self) -> None:
        """Drops the piece in memory, so that the next call reads again: a broker may have written there."""
        self._count = 0

    def _read(self, at: int) -> int:
        self._begin = at
        with _naming(self._path):
            self._count = os.preadv(self._opened.fileno(), [self._piece], at)
        return self._count


class _File:
    """A segment's file. Its opening is read at once, the rest only when it is wanted."""

    def __init__(self, path: Path, number: int, store_id: str) -> None:
        """Raises StoreError if it is of another store or of a newer format, or has the name of another segment."""
        self.path = path
        self.number = number
        with _naming(path), _for_reading(path) as opened:
            data = opened.read(_ENTRIES_AT)
        self.opening = _opening_of(data)
        if self.opening is None:
            return
        if self.opening.format > FORMAT:
            raise StoreError(
                f"{path} has format {self.opening.format}, this Radiator reads format {FORMAT}: run the Radiator that"
                " wrote it, or a newer one."
            )
        store = self.opening.store.rstrip(b"\0").decode("ascii", "replace")
        if store != store_id:
            raise StoreError(f"{path} is of the store {store}, and the log of the store {store_id} is wanted.")
        if self.opening.number != number:
            raise Damaged(f"{path} was renamed, its opening says that it is segment {self.opening.number}")


def segments_in(directory: Path) -> list[tuple[int, Path]]:
    """Returns numbers and paths of its segments, in order. Raises StoreError for anything else but unfinished ones."""
    found = []
    try:
        names = sorted(os.listdir(directory))
    except PermissionError:
        raise _may_not_read(directory) from None
    for name in names:
        matched = _NAME.fullmatch(name)
        if name.endswith(_UNFINISHED):
            continue
        if matched is None:
            raise StoreError(f"{directory} holds {name!r}, which is not a segment of a log: move it elsewhere.")
        found.append((int(matched[1]), directory / name))
    return found


class WalReading:
    """One pass over the entries after a place, in order. `end`: once the pass is over, where the next entry goes.

    Raises Damaged, StoreError, and OSError if a file cannot be read.
    """

    def __init__(self, directory: Path, store_id: str, after: Place, is_copy: bool = False) -> None:
        """is_copy: `radiator backup --log` has made it, so it may end with a closed segment. Segments before the one of
        `after` are merely kept, and not checked.
        """
        self._directory = directory
        segments = segments_in(directory)
        self._files = [_File(path, number, store_id) for number, path in segments if number >= after.number]
        self._is_copy = is_copy
        self.missing = 0  # the segment in which the log went on, if a copy ends before it
        self._after = after
        self.store_id = store_id
        self.end: WalEnd | None = None
        self.files_used: list[tuple[int, int]] = []  # number and first index of each segment that has been begun

    def entries(self) -> Iterator[WalEntry]:
        """Yields the entries after the place that was given."""
        at, place, salt = self._begin()
        while True:
            file = self._files[at]
            with _Bytes(file.path) as data:
                closing = None
                while closing is None and (found := self._entry(file, data, place, salt)) is not None:
                    head, crc, content = found
                    if head.magic == _CLOSING_MAGIC:
                        closing = _CLOSING.unpack(content)
                        continue
                    end_at = place.at + _HEAD_BYTES + _padded(head.length)
                    place = Place(head.index, crc, file.number, end_at)
                    if place.index > self._after.index:
                        yield WalEntry(place, head.term, head.boot, head.ms, content)
                    elif place.index == self._after.index and place.crc != self._after.crc:
                        raise Damaged(f"{file.path} has another entry {place.index} than the one that data.mdb has")
                if closing is None:
                    try:
                        self._assert_not_cut(file, data, place.at, salt)
                        self._assert_nothing_follows(file, data, place.at, salt, place.index)
                    except Damaged:
                        data.forget()
                        if self._entry(file, data, place, salt) is not None:
                            continue  # a broker has appended it since, and then what follows it
                        raise
                    break
            number, salt = closing
            at += 1
            place = Place(place.index, place.crc, number, _ENTRIES_AT)
            if not self._is_begun(at, number, salt, place):
                break
        self._assert_no_gap(place.number)
        self.end = WalEnd(place, salt)
        if place.index < self._after.index:
            raise Damaged(
                f"{self._directory} ends with entry {place.index}, and data.mdb has entry {self._after.index}"
            )

    def sync(self) -> None:
        """Syncs what was read: after a kill the last entry may be only in memory, and the tables must never have what a
        power cut can still take. Raises DiskFailed.
        """
        for file in self._files:
            try:
                _sync(file.path)
            except OSError as error:
                raise DiskFailed(f"Syncing {file.path} failed: {error}.") from error

    def _begin(self) -> tuple[int, Place, int]:
        """Returns the index of the first file to read, the place from which to read it, and its salt."""
        begun = [(at, file.opening) for at, file in enumerate(self._files) if file.opening is not None]
        self.files_used = [(opening.number, opening.first) for _, opening in begun]
        if not begun:
            raise Damaged(
                f"no segment in {self._directory} from number {self._after.number} on has a sound opening, and data.mdb"
                f" has entry {self._after.index}"
            )
        for at, opening in begun:
            if opening.number == self._after.number and opening.first <= self._after.index:
                self._assert_has_applied(self._files[at], opening.salt)
                return at, self._after, opening.salt
        index = self._after.index + 1
        reaching = [(at, opening) for at, opening in begun if opening.first <= index]
        if not reaching:
            raise Damaged(f"{self._directory} begins with entry {begun[0][1].first}, and entry {index} is missing")
        at, opening = reaching[-1]
        if opening.first == index and opening.crc_before != self._after.crc:
            raise Damaged(f"{self._files[at].path} follows another entry {index - 1} than the one that data.mdb has")
        return at, Place(opening.first - 1, opening.crc_before, opening.number, _ENTRIES_AT), opening.salt

    def _entry(self, file: _File, data: _Bytes, place: Place, salt: int) -> tuple[_Head, int, bytes] | None:
        """Returns the head of the entry at that place, its checksum and its content; None: nothing whole is there."""
        found = _head_at(data.at(place.at, _HEAD_BYTES), salt)
        if found is None:
            return None
        head, crc = found
        content = data.at(place.at + _HEAD_BYTES, head.length)
        if len(content) != head.length or crc32(content) != head.content_crc:
            return None
        self._assert_follows(file, head, place)
        return head, crc, content

    def _is_begun(self, at: int, number: int, salt: int, place: Place) -> bool:
        """Whether the segment that the previous one's closing names was begun; if not, no entry in it was synced."""
        # D35
        before = self._files[at - 1]
        if at == len(self._files):
            if self._is_copy:
                self.missing = number
                return False
            # a broker may have made it since the segments were listed
            named = segments_in(self._directory)
            self._files += [_File(path, one, self.store_id) for one, path in named if one > before.number]
        if at == len(self._files) or self._files[at].number != number:
            raise Damaged(f"{before.path} goes on in segment {number}, which is missing")
        file = self._files[at]
        if file.opening is None:
            # a broker may have begun it since its opening was read
            file = self._files[at] = _File(file.path, number, self.store_id)
        if file.opening is None and self._is_copy:
            raise Damaged(f"{file.path} is damaged at its beginning")
        if file.opening is not None:
            follows = (salt, place.index + 1, place.crc)
            if (file.opening.salt, file.opening.first, file.opening.crc_before) != follows:
                raise Damaged(f"{file.path} does not follow {before.path}: one of them is from another time")
            return True
        with _Bytes(file.path) as data:
            if _head_at(data.at(_ENTRIES_AT, _HEAD_BYTES), salt) is not None:
                raise Damaged(f"{file.path} is damaged at its beginning")
            self._assert_not_cut(file, data, _ENTRIES_AT, salt)
            self._assert_nothing_follows(file, data, _ENTRIES_AT, salt, place.index)
        return False

    def _assert_has_applied(self, file: _File, salt: int) -> None:
        """Raises Damaged if the log lacks the last entry that the tables have: receipted ones after it are lost too."""
        place = self._after
        with _Bytes(file.path) as data:
            end = place.at
            while end > _ENTRIES_AT:
                begin = max(_ENTRIES_AT, end - _PIECE_BYTES)
                for at in data.find((_ENTRY_MAGIC,), begin, end):
                    found = _head_at(data.at(at, _HEAD_BYTES), salt)
                    if found is not None and (found[0].index, found[1]) == (place.index, place.crc):
                        return
                end = begin
        raise Damaged(f"{file.path} lacks entry {place.index}, which data.mdb has: it is damaged, or of another time")

    def _assert_not_cut(self, file: _File, data: _Bytes, at: int, salt: int) -> None:
        """Raises Damaged if the segment is too short: no crash shortens it, and it always has room for the closing."""
        found = _head_at(data.at(at, _HEAD_BYTES), salt)
        if found is not None and found[0].magic == _ENTRY_MAGIC:
            at += _HEAD_BYTES + _padded(found[0].length)
        if data.size < at + _CLOSING_BYTES and not self._is_copy:
            raise Damaged(f"{file.path} was cut off: it has {data.size} bytes, and had at least {at + _CLOSING_BYTES}")

    def _assert_no_gap(self, number: int) -> None:
        """Raises Damaged unless prepared segments have the next numbers. number: of the last one that was begun."""
        for expected, file in enumerate((one for one in self._files if one.number > number), number + 1):
            if file.number != expected:
                raise Damaged(f"segment {expected} is missing in {self._directory}, and there is {file.path.name}")

    def _assert_follows(self, file: _File, head: _Head, place: Place) -> None:
        """Raises Damaged if an entry is out of order: with the right salt and checksums, no crash explains that."""
        index = place.index + (head.magic == _ENTRY_MAGIC)
        if (head.index, head.crc_before) != (index, place.crc):
            raise Damaged(f"{file.path} has entry {head.index} where entry {index} belongs")

    def _assert_nothing_follows(self, file: _File, data: _Bytes, at: int, salt: int, index: int) -> None:
        # D35: a torn entry is the last one, and nothing after it is sound
        for found in data.find((_ENTRY_MAGIC, _CLOSING_MAGIC), _padded(at + 1)):
            sound = _head_at(data.at(found, _HEAD_BYTES), salt)
            if sound is not None:
                is_entry = sound[0].magic == _ENTRY_MAGIC
                what = f"entry {sound[0].index}" if is_entry else "the end of the segment"
                raise Damaged(f"entry {index + 1} in {file.path} is damaged, and {what} follows it")
        later = [one for one in self._files if one.number > file.number and one.opening is not None]
        if later:
            raise Damaged(f"entry {index + 1} in {file.path} is damaged, and {later[0].path} follows it")


class SoundPart(NamedTuple):
    """The sound part of one segment. crc_before: of the entry before its first. place: after its last one, which was
    written at ms. end_at: the byte after that, or after its closing. next: the segment its closing names; 0: none yet.
    """

    first: int
    crc_before: int
    salt: int
    place: Place
    ms: int
    end_at: int
    next: int


def sound_part(path: Path, number: int, store_id: str, known: SoundPart | None = None) -> SoundPart | None:
    """Reads one segment by itself, from after what is known of it; None: it is not begun. Raises StoreError if it is
    not of this store, and OSError.
    """
    opening = _File(path, number, store_id).opening
    if opening is None:
        return None
    if known is None or known.salt != opening.salt:
        place = Place(opening.first - 1, opening.crc_before, number, _ENTRIES_AT)
        known = SoundPart(opening.first, opening.crc_before, opening.salt, place, 0, _ENTRIES_AT, 0)
    place, ms = known.place, known.ms
    with _Bytes(path) as data:
        while (found := _head_at(data.at(place.at, _HEAD_BYTES), opening.salt)) is not None:
            head, crc = found
            content = data.at(place.at + _HEAD_BYTES, head.length)
            index = place.index + (head.magic == _ENTRY_MAGIC)
            is_whole = len(content) == head.length and crc32(content) == head.content_crc
            if not is_whole or (head.index, head.crc_before) != (index, place.crc):
                break
            end_at = place.at + _HEAD_BYTES + _padded(head.length)
            if head.magic == _CLOSING_MAGIC:
                return known._replace(place=place, ms=ms, end_at=end_at, next=_CLOSING.unpack(content)[0])
            place, ms = Place(head.index, crc, number, end_at), head.ms
    return known._replace(place=place, ms=ms, end_at=place.at, next=0)


def closed_part(path: Path, number: int, store_id: str) -> SoundPart | None:
    """Returns the sound part of a copy that ends with its closing, from its first and last bytes alone; ms is 0. None:
    it does not end so. Raises as sound_part does.
    """
    opening = _File(path, number, store_id).opening
    if opening is None:
        return None
    with _Bytes(path) as data:
        at = path.stat().st_size - _CLOSING_BYTES
        found = _head_at(data.at(max(0, at), _HEAD_BYTES), opening.salt)
        if found is None or found[0].magic != _CLOSING_MAGIC:
            return None
        place = Place(found[0].index, found[0].crc_before, number, at)
        next_number, _ = _CLOSING.unpack(data.at(at + _HEAD_BYTES, _CLOSING.size))
    return SoundPart(opening.first, opening.crc_before, opening.salt, place, 0, at + _CLOSING_BYTES, next_number)


def is_blank(path: Path) -> bool:
    """Whether the segment is not begun: its opening is blank, neither sound nor damaged. Raises StoreError, OSError."""
    with _for_reading(path) as opened:
        return opened.read(_ENTRIES_AT) == bytes(_ENTRIES_AT)


def opening_in(path: Path, store_id: str) -> tuple[int, int, int] | None:
    """Returns number, first index and salt of a segment of that store, under whatever name; None: it is none."""
    with _for_reading(path) as opened:
        opening = _opening_of(opened.read(_ENTRIES_AT))
    if opening is None or opening.format > FORMAT or opening.store.rstrip(b"\0") != store_id.encode():
        return None
    return opening.number, opening.first, opening.salt


class Remnant(NamedTuple):
    """An entry, or a closing, somewhere in a segment. content: None: it is not what was written.

    place: right after it; that of a closing has the index of the entry before.
    """

    is_closing: bool
    place: Place
    crc_before: int
    term: int
    boot: int
    ms: int
    content: bytes | None

    @property
    def next(self) -> tuple[int, int]:
        """The number and salt of the next segment, as a sound closing names it."""
        number, salt = _CLOSING.unpack(self.content or b"")
        return number, salt


def remnants_in(path: Path, number: int, salt: int) -> Iterator[Remnant]:
    """Yields everything with a sound head in that segment, in the order of its bytes: for a damaged log. Raises
    StoreError, OSError.
    """
    with _Bytes(path) as data:
        end = _ENTRIES_AT
        for at in sorted(data.find((_ENTRY_MAGIC, _CLOSING_MAGIC), end)):
            found = _head_at(data.at(at, _HEAD_BYTES), salt) if at >= end else None
            if found is None:
                continue
            head, crc = found
            content = data.at(at + _HEAD_BYTES, head.length)
            is_whole = len(content) == head.length and crc32(content) == head.content_crc
            end = at + _HEAD_BYTES + _padded(head.length)  # nothing within its content belongs to the log
            place = Place(head.index, crc, number, end)
            is_closing = head.magic == _CLOSING_MAGIC
            before, term, boot, ms = head.crc_before, head.term, head.boot, head.ms
            yield Remnant(is_closing, place, before, term, boot, ms, content if is_whole else None)


# ---- writing ------------------------------------------------------------------------------------------------------


class KeepBounds(NamedTuple):
    """The room that the disk must have for segments to be kept that nobody needs. disk_free_min: below it SENDs wait.
    segment_max: the largest segment, in bytes; what the tables take at a time has a like bound.
    """

    disk_free_min: int
    segment_max: int

    def missing_bytes(self, directory: Path) -> int:
        """Returns how many free bytes the disk lacks; negative: it has more than enough."""
        file_system = os.statvfs(directory)
        share_bytes = file_system.f_blocks * file_system.f_frsize // LOG_KEEP_FREE_SHARE
        needed_bytes = max(share_bytes, LOG_KEEP_FREE_SEGMENTS * self.segment_max)
        wanted_bytes = max(2 * self.disk_free_min, min(LOG_KEEP_FREE_BYTES, needed_bytes))
        return wanted_bytes - file_system.f_bavail * file_system.f_frsize


def give_up_kept(data_dir: Path, needed: int, bounds: KeepBounds) -> None:
    """Removes segments before the number `needed`, the oldest first, while the disk has little room: called before a
    start carries out the log, which takes room. The tables have all of them. Raises StoreError, OSError.
    """
    directory = data_dir / WAL_DIRECTORY
    if not has_wal(data_dir):
        return
    for number, path in segments_in(directory):
        if number >= needed or bounds.missing_bytes(directory) <= 0:
            return
        path.unlink()


class _Kept(NamedTuple):
    """A closed segment whose entries the tables have. closed_ms: when, since the epoch: by the broker's clock if the
    tables caught up with it in this run, otherwise by the time of its file.
    """

    path: Path
    size: int
    closed_ms: int


class WriteAheadLog:
    """The log that batches are appended to. `append` belongs to one thread, `tidy` to any other; they may run at
    once.
    """

    def __init__(
        self,
        data_dir: Path,
        reading: WalReading,
        segment_max: int,
        keep: LogKeep = KEEP_NOTHING,
        disk_free_min: int = 0,
    ) -> None:
        """reading: has come to its end. segment_max: no segment is made larger, except for an entry that needs it.
        keep: which closed segments to keep, while the disk has enough room (KeepBounds).
        """
        end, used = reading.end, reading.files_used
        assert end is not None, "the log has not been read to its end"
        self._directory = data_dir / WAL_DIRECTORY
        self._store = reading.store_id.encode("ascii")
        self._segment_max = segment_max
        self._lock = threading.Lock()  # guards the names in the directory, and what is known of them
        self._used = used  # number and first index of each segment that has been begun, on the disk; oldest first
        numbers = [number for number, _ in segments_in(self._directory)]
        self._blank = [number for number in numbers if number > end.place.number]  # prepared, in order of use
        self._highest = numbers[-1]  # no segment has a higher number
        self._keep = keep
        self._keep_bounds = KeepBounds(disk_free_min, segment_max)
        self._clock: tuple[int, float] | None = None  # the broker's: ms since the epoch, when it was told
        self._kept: list[_Kept] = []  # oldest first
        for number in numbers:
            if number < used[0][0]:
                self._keep_or_remove(number)
        self._has_failed = False
        for unfinished in self._directory.glob(f"*{_UNFINISHED}"):
            unfinished.unlink()
        self.place = end.place
        self._number, self._salt, self._at = end.place.number, end.salt, end.place.at
        self._opened = os.open(self._path(end.place.number), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._capacity = os.fstat(self._opened).st_size

    def append(self, content: bytes, boot: int, ms: int) -> int:
        """Appends one entry and returns its index; it is then on the disk. Raises DiskFailed: it may be there or not,
        and nothing more may be appended. There is no second try: what a failed sync has lost looks written (D7).
        """
        assert not self._has_failed, "nothing may be appended after a failure"
        length = _HEAD_BYTES + _padded(len(content))
        try:
            opening = b""
            if self._at + length + _CLOSING_BYTES > self._capacity:
                opening = self._move_on(length)
            elif self._at == _ENTRIES_AT:
                opening = self._opening()
            head, crc = _entry_bytes(_ENTRY_MAGIC, self.place, boot, ms, content, self._salt)
            padding = bytes(length - _HEAD_BYTES - len(content))
            # D12
            self._write((opening, head, content, padding), self._at - len(opening))
            os.fdatasync(self._opened)
        except OSError as error:
            self._has_failed = True
            raise DiskFailed(f"Writing to {self._path(self._number)} failed: {error}.") from error
        if self._used[-1][0] < self._number:
            # only now: until this segment's opening is on the disk, the one before must stay
            with self._lock:
                self._used.append((self._number, self.place.index + 1))
        self._at += length
        self.place = Place(self.place.index + 1, crc, self._number, self._at)
        return self.place.index

    def _opening(self) -> bytes:
        """Returns the bytes with which the present segment begins."""
        place = self.place
        number, first = self._number, place.index + 1
        return _opening_bytes(_Opening(_SEGMENT_MAGIC, FORMAT, self._store, number, first, self._salt, place.crc))

    def _move_on(self, length: int) -> bytes:
        """Closes the segment, and goes on in the next one, which has room for an entry of that length."""
        number = self._next_blank(_ENTRIES_AT + length + _CLOSING_BYTES)
        salt = _new_salt()
        content = _CLOSING.pack(number, salt)
        head, _ = _entry_bytes(_CLOSING_MAGIC, self.place, 0, 0, content, self._salt)
        self._write((head, content), self._at)
        os.fdatasync(self._opened)  # before the next segment is begun: that one proves that this one was closed
        os.close(self._opened)
        self._number, self._salt, self._at = number, salt, _ENTRIES_AT
        self._opened = os.open(self._path(number), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._capacity = os.fstat(self._opened).st_size
        return self._opening()

    def _next_blank(self, needed_bytes: int) -> int:
        """Returns the number of the next segment; makes it, if none is prepared or the prepared one is too short."""
        with self._lock:
            number = self._blank.pop(0) if self._blank else self._highest + 1
            assert number == self._number + 1, f"segment {number} is prepared, and {self._number + 1} is next"
            if number > self._highest or self._path(number).stat().st_size < needed_bytes:
                self._prepare(number, max(needed_bytes, self._next_size()))
            self._highest = max(self._highest, number)
            return number

    def _prepare(self, number: int, size: int) -> None:
        """Makes that segment; removes kept ones if it needs their room."""
        while True:
            try:
                _prepare(self._path(number), size)
            except OSError as error:
                if error.errno not in _NO_SPACE or not self._kept:
                    raise
                self._kept.pop(0).path.unlink()
            else:
                return

    def _write(self, parts: Sequence[bytes], at: int) -> None:
        """Writes all of it. Raises OSError if the system writes less: the disk is then full or broken."""
        _assert_written(os.pwritev(self._opened, parts, at), sum(map(len, parts)))

    def _path(self, number: int) -> Path:
        return self._directory / segment_name(number)

    def close(self) -> None:
        """Closes the log: nothing can be appended any more."""
        os.close(self._opened)

    def _keep_or_remove(self, number: int) -> None:
        """Keeps a segment that is older than those still needed, or removes it if it is blank: nothing wrong with it
        may refuse a start. One that is damaged, or of another store, stays: `radiator check` tells of it.
        """
        path = self._path(number)
        with suppress(OSError, StoreError):
            if _File(path, number, self._store.decode()).opening is not None:
                self._kept.append(_kept(path))
            elif is_blank(path):
                path.unlink()  # a broker was killed before it could rename this to its next number

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments. No file is opened for this: the process may have no file descriptor left."""
        with self._lock:
            numbers = {self._number, *self._blank, *(number for number, _ in self._used)}
        size = self.kept_bytes
        for number in numbers:
            with suppress(FileNotFoundError):  # it was just renamed
                size += self._path(number).stat().st_size
        return size

    @property
    def kept_bytes(self) -> int:
        """The bytes of the closed segments that `log_keep` keeps."""
        return sum(one.size for one in list(self._kept))

    @property
    def segments(self) -> tuple[int, int]:
        """The number of files, and how many of them are prepared and not begun."""
        with self._lock:
            numbers = {self._number, *self._blank, *(number for number, _ in self._used)}
            return len(numbers) + len(self._kept), len(self._blank)

    # ---- after the tree has caught up -------------------------------------------------------------------------------

    def tidy(self, applied: int, may_take_long: bool = True) -> None:
        """Called when the tree has all entries up to `applied`, synced: keeps segments with no later ones for as long
        as log_keep says, then prepares them to be used again. One is always prepared, so that a full disk stops no ACK;
        if there is no room for it, a kept one is used, or this is tried again. may_take_long: a new one may be made,
        which only one thread may do.

        Raises DiskFailed.
        """
        try:
            self._tidy(applied, may_take_long)
        except OSError as error:
            raise DiskFailed(f"Writing in {self._directory} failed: {error}.") from error

    def _tidy(self, applied: int, may_take_long: bool) -> None:
        with self._lock:
            # D36
            while len(self._used) > 1 and self._used[1][1] <= applied + 1:
                closed = _kept(self._path(self._used.pop(0)[0]))
                self._kept.append(closed._replace(closed_ms=self._now_ms() or closed.closed_ms))
            self._free_disk()
            free = self._surplus()
            sizes = [one.size for one in free] + [self._path(number).stat().st_size for number in self._blank]
            # otherwise short ones would be used over and over, and receipts would wait while a longer one is made
            is_enough = max(sizes, default=0) >= min(self._next_size(), self._segment_max // 2)
        made = None if is_enough or not may_take_long else self._make_next()  # without the lock, so commits go on
        with self._lock:
            if made is not None:
                self._add_blank(made)
            elif may_take_long and not (is_enough or free or self._blank) and self._kept:
                free.append(self._kept.pop(0))
            for one in reversed(free):
                self._recycle(one.path)

    def _surplus(self) -> list[_Kept]:
        """Takes out of the kept segments, and returns, those that need not be kept any longer, oldest first."""
        oldest_ms = self._now_ms() - self._keep.max_ms
        left_bytes = sum(one.size for one in self._kept)
        count = 0
        for one in self._kept:
            if (one.closed_ms >= oldest_ms) if self._keep.max_ms else (left_bytes <= self._keep.max_bytes):
                break
            left_bytes -= one.size
            count += 1
        free, self._kept = self._kept[:count], self._kept[count:]
        return free

    def use_disk_free_min(self, disk_free_min: int) -> None:
        """Puts a changed setting into force."""
        self._keep_bounds = self._keep_bounds._replace(disk_free_min=disk_free_min)

    def set_clock(self, now_ms: int) -> None:
        """Sets the time by the broker's clock, which need not be the system's."""
        if self._clock is None:
            with self._lock:
                # none was closed after now, or after the one that follows it, whatever the times of their files say
                latest_ms = now_ms
                for at in reversed(range(len(self._kept))):
                    latest_ms = min(latest_ms, self._kept[at].closed_ms)
                    self._kept[at] = self._kept[at]._replace(closed_ms=latest_ms)
        self._clock = now_ms, time.monotonic()

    def _now_ms(self) -> int:
        """Returns the time by the broker's clock; 0: that has not been set yet, and then no segment is old."""
        if self._clock is None:
            return 0
        noted_ms, noted_s = self._clock
        return noted_ms + int((time.monotonic() - noted_s) * 1000)

    def _free_disk(self) -> None:
        """Removes kept segments, the oldest first, while the disk has little room: no SEND may wait because of them."""
        missing_bytes = self._keep_bounds.missing_bytes(self._directory) if self._kept else 0
        while self._kept and missing_bytes > 0:
            oldest = self._kept.pop(0)
            oldest.path.unlink()
            missing_bytes -= oldest.size

    def _make_next(self) -> Path | None:
        """Makes a segment that has no number yet, twice as long as the present one if there is ample room. Returns
        None if there is now no room, or no file descriptor.
        """
        try:
            return _made(self._directory / f"next{_UNFINISHED}", self._next_size(), pause_s=_PAUSE_S)
        except OSError as error:
            if error.errno not in _NO_SPACE | _NO_FILES:
                raise
            return None

    def _next_size(self) -> int:
        size = min(self._segment_max, 2 * self._capacity)
        file_system = os.statvfs(self._directory)
        is_ample = file_system.f_bavail * file_system.f_frsize >= _AMPLE_SHARE * size
        return size if is_ample else min(size, WAL_SEGMENT_FIRST_BYTES)

    def _add_blank(self, path: Path) -> None:
        """Makes the file, which has no sound opening, the last of the segments; if there are blank ones, it replaces
        the last of them.
        """
        if not self._blank:
            self._highest += 1
            self._blank.append(self._highest)
        path.rename(self._path(self._blank[-1]))
        sync_directory(self._directory)

    def _recycle(self, path: Path) -> None:
        """Makes the segment the next blank one, or removes it if one at least as long is already prepared."""
        if self._blank and self._path(self._blank[-1]).stat().st_size >= path.stat().st_size:
            path.unlink()
            return
        _blank(path)
        self._add_blank(path)


def segment_name(number: int) -> str:
    """Returns the name of a segment's file."""
    return f"{number:010}.wal"


def _kept(path: Path) -> _Kept:
    found = path.stat()  # nothing is written to a segment once it is closed
    return _Kept(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _new_salt() -> int:
    return int.from_bytes(os.urandom(_SALT_BYTES), "big")


def _blank(path: Path) -> None:
    """Overwrites the opening with zeros and syncs that: the segment is then not begun, whatever else is in it."""
    _sync(path, bytes(_ENTRIES_AT))


def _sync(path: Path, opening: bytes = b"") -> None:
    """Syncs the segment, with another opening if one is given."""
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _assert_written(os.pwrite(opened, opening, 0), len(opening))
        os.fdatasync(opened)
    finally:
        os.close(opened)


def _prepare(path: Path, size: int, opening: bytes = b"") -> None:
    """Makes a segment of that size. It is whole under its name, or has no such name."""
    _made(path.with_suffix(_UNFINISHED), size, opening).rename(path)
    sync_directory(path.parent)


def _assert_written(written: int, wanted: int) -> None:
    if written != wanted:
        raise OSError(errno.ENOSPC, f"{written} of {wanted} bytes were written")


def _made(new: Path, size: int, opening: bytes = b"", pause_s: float = 0.0) -> Path:
    """Makes a file of that size, filled with zeros after its opening, and synced. pause_s: the pause between pieces
    that are synced one by one, so that no commit waits behind a long flush; 0: all is synced at the end.
    """
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(opened, 0o600)
        _assert_written(os.write(opened, opening), len(opening))
        for at in range(len(opening), size, len(_ZEROS)):
            count = min(len(_ZEROS), size - at)
            _assert_written(os.write(opened, _ZEROS[:count]), count)
            if pause_s and (at + count) % _SYNCED_BYTES == 0:
                os.fdatasync(opened)
                time.sleep(pause_s)
        os.fsync(opened)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(opened)
    return new


def begin(data_dir: Path, store_id: str, place: Place) -> WalReading:
    """Makes the log of a store that has none: its first entry will follow that place. A crash leaves it whole, or
    something that `begin` replaces. Raises StoreError if there already is a log with entries.
    """
    directory = data_dir / WAL_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o700)
    refuse_entries(directory, store_id)
    for one in directory.iterdir():
        one.unlink()
    store, number = store_id.encode("ascii"), place.number + 1  # no number is used again, even if a log was lost
    opening = _Opening(_SEGMENT_MAGIC, FORMAT, store, number, place.index + 1, _new_salt(), place.crc)
    _prepare(directory / segment_name(number + 1), WAL_SEGMENT_FIRST_BYTES)
    _prepare(directory / segment_name(number), WAL_SEGMENT_FIRST_BYTES, _opening_bytes(opening))
    sync_directory(data_dir)
    reading = WalReading(directory, store_id, place)
    assert not list(reading.entries())
    return reading


def refuse_entries(directory: Path, store_id: str) -> None:
    """Raises StoreError if a log has entries: called for a store that does not say which of them its tables have."""
    for number, path in segments_in(directory):
        file = _File(path, number, store_id)
        with _Bytes(path) as data:
            if file.opening is not None and _head_at(data.at(_ENTRIES_AT, _HEAD_BYTES), file.opening.salt) is not None:
                raise StoreError(
                    f"{path} has entries, and data.mdb does not say which of them it has. Restore a backup."
                )
