"""Finds what is left of a damaged write-ahead log: for the sentence of a refused start, for `check` and `backup`.

A reading (wal.py) ends at the first thing that is wrong. Here all that is sound is looked for, in all segments, and put
in order by the checksums that chain the entries: those that go on from the tables without a gap can be carried out; the
others cannot, and are lost if one goes on without them. An ordinary start never comes here.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from radiator.model.errors import DamagedRecord, StoreError
from radiator.storage.codec import records
from radiator.storage.codec.tables import APPLIED, STORE_ID
from radiator.storage.lmdb.directory import WAL_DIRECTORY, has_wal
from radiator.storage.wal import Damaged, Place, WalEntry, opening_in, remnants_in

UNKNOWN = -1


class WalRemains(NamedTuple):
    """after: the last entry that the tables have; UNKNOWN: they do not say so. before: those that go on from it, in
    their order. behind: sound ones that do not, in their order. last: the highest index that anything shows an entry to
    have had.
    """

    after: int
    before: list[WalEntry]
    behind: list[WalEntry]
    last: int

    @property
    def end(self) -> int:
        """The index of the last entry that can be carried out, or that the tables have."""
        return self.before[-1].place.index if self.before else self.after

    @property
    def lost(self) -> int:
        """How many entries there were that cannot be carried out."""
        return self.last - self.end

    @property
    def sentence(self) -> str:
        """Says what is lost."""
        if self.after == UNKNOWN:
            return "It is not known which entries the tables have, so that none can be carried out."
        if not self.lost:
            return f"Nothing shows whether anything was receipted after entry {self.end}."
        if self.lost == 1:
            return f"Entry {self.last} was receipted and cannot be read in order."
        return f"Entries {self.end + 1} to {self.last} were receipted and cannot be read in order."


def remains_of(directory: Path, store_id: str, after: Place) -> WalRemains:
    """Returns what is in the segments of that directory, whatever is wrong there. after: the last entry that the tables
    have.

    Raises OSError where one cannot be read.
    """
    found: dict[tuple[int, int], WalEntry] = {}  # by index, and checksum of the entry before
    salts: dict[int, int] = {}  # by segment, as the closing of the one before has it
    last = after.index
    for number, path, opening in _segments(directory, store_id):
        if number < after.number - 1:
            continue  # the tables have all of it; of the segment before theirs the closing may be needed
        if opening is not None:
            last, salts[number] = max(last, opening[1] - 1), opening[2]
        if number not in salts:
            continue
        for one in remnants_in(path, number, salts[number]):
            last = max(last, one.place.index)
            if one.content is None:
                continue
            if one.is_closing:
                following, salt = one.next
                salts.setdefault(following, salt)
            elif one.place.index > after.index:
                entry = WalEntry(one.place, one.term, one.boot, one.ms, one.content)
                found[one.place.index, one.crc_before] = entry
    before: list[WalEntry] = []
    place = after
    while (next_one := found.pop((place.index + 1, place.crc), None)) is not None:
        before.append(next_one)
        place = next_one.place
    behind = {entry.place.index: entry for entry in found.values() if entry.place.index > place.index}
    return WalRemains(after.index, before, [behind[index] for index in sorted(behind)], last)


def _segments(directory: Path, store_id: str) -> Iterator[tuple[int, Path, tuple[int, int, int] | None]]:
    """Number, file and opening of each that can be read, in the order of numbers: that of the opening comes first."""
    found, names = [], []
    with suppress(PermissionError):
        names = os.listdir(directory)
    for name in names:
        path = directory / name
        if path.suffix != ".wal" or not path.stem.isdecimal():
            continue
        with suppress(StoreError):  # a reading says what it is
            opening = opening_in(path, store_id)
            found.append((int(path.stem) if opening is None else opening[0], path, opening))
    yield from sorted(found, key=lambda one: one[:2])


def remains_behind(data_dir: Path, meta: Mapping[bytes, bytes]) -> WalRemains:
    """Returns what is left of the log after what the tables have, by the rows of meta. Raises OSError."""
    try:
        after = Place(*records.decode_place(APPLIED, meta[APPLIED]))
        store_id = records.decode_text(STORE_ID, meta[STORE_ID])
    except (KeyError, DamagedRecord):
        return WalRemains(UNKNOWN, [], [], UNKNOWN)
    with suppress(StoreError):  # a reading says what is there instead
        if has_wal(data_dir):
            return remains_of(data_dir / WAL_DIRECTORY, store_id, after)
    return WalRemains(after.index, [], [], after.index)


def explained(damaged: Damaged, data_dir: Path, meta: Mapping[bytes, bytes]) -> Damaged:
    """Returns the same refusal, with what is lost by going on without the rest of the log, and what to do."""
    remains = remains_behind(data_dir, meta)
    advice = (
        f"{remains.sentence} `radiator check {data_dir}` shows which queues that touches. Restore a backup; or let "
        "`radiator backup --despite-damage` make one of what can be read in order."
    )
    return Damaged(damaged.clause, advice)
