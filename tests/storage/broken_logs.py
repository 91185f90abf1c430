"""Where entries stand in the segments of a log, and stores whose log is broken on purpose."""

import shutil
from pathlib import Path
from typing import NamedTuple

from radiator.storage import wal


class Standing(NamedTuple):
    """An entry, or the closing of a segment: where it begins in the file, and where what follows it does."""

    path: Path
    begin: int
    end: int
    index: int
    is_closing: bool


def standing_in(path: Path) -> list[Standing]:
    """All entries of a sound segment."""
    data, found = path.read_bytes(), []
    opening, at = wal._opening_of(data), wal._ENTRIES_AT
    while opening is not None and (head := wal._head_at(data[at : at + wal._HEAD_BYTES], opening.salt)) is not None:
        end = at + wal._HEAD_BYTES + wal._padded(head[0].length)
        found.append(Standing(path, at, end, head[0].index, head[0].magic == wal._CLOSING_MAGIC))
        at = end
    return found


def segments(data_dir: Path) -> list[Path]:
    return sorted((data_dir / wal.WAL_DIRECTORY).iterdir())


def entry_of(data_dir: Path, index: int) -> Standing:
    """Where that entry is."""
    [found] = [
        one for path in segments(data_dir) for one in standing_in(path) if one.index == index and not one.is_closing
    ]
    return found


def last_index(data_dir: Path) -> int:
    return max(one.index for path in segments(data_dir) for one in standing_in(path))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def break_entries(data_dir: Path, *indexes: int) -> None:
    """In the head of each."""
    for where in [entry_of(data_dir, index) for index in indexes]:
        flip(where.path, where.begin + 20)


def killed_copy(data_dir: Path, copy: Path) -> Path:
    """What a kill of the broker would leave now: the tables have what they have."""
    shutil.copytree(data_dir, copy)
    return copy
