"""The manifest of an archive: JSON objects, one a line, that say what the archive has. Lines are only appended, and
synced.

A line is written after the files that it describes are complete. A crash may leave the last line torn; the next start
cuts it off.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from radiator.model.errors import RadiatorError

NAME = "_manifest.jsonl"  # Spark passes over what begins with `_` or `.`
VERSION = 1  # of its lines

RETENTION, DAMAGED = "retention", "damaged"  # why records are missing


class ArchiveError(RadiatorError):
    """An archive is not what it should be, or cannot be written."""


class NoArchive(ArchiveError):
    """There is none in that directory."""


@dataclass(slots=True, frozen=True)
class Sealed:
    """A file that is never touched again. next: one past the offset of its last row. log: "" of a snapshot, whose
    `first` and `next` are the journal's offset of its cut. checksum: of its rows; sha256: of its bytes.
    """

    file: str
    log: str
    incarnation: str
    partition: int
    first: int
    next: int
    rows: int
    checksum: str
    bytes: int
    sealed_at: str
    boot: int = 0
    sha256: str = ""


@dataclass(slots=True, frozen=True)
class Gap:
    """Records that the archive does not have: they were gone, or damaged, when it came to them."""

    log: str
    incarnation: str
    partition: int
    first: int
    next: int
    reason: str
    found_at: str


@dataclass(slots=True)
class ManifestContents:
    """The contents of a manifest, from all of its lines. snapshots: those that are kept, in order."""

    store_id: str = ""
    files: list[Sealed] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    snapshots: list[Sealed] = field(default_factory=list)

    @property
    def pieces(self) -> "list[Sealed | Gap]":
        """Files and gaps."""
        return [*self.files, *self.gaps]

    def next_of(self, log: str, partition: int) -> int | None:
        """Returns the offset at which the archive of a partition goes on; None: it has nothing of it."""
        ends = [one.next for one in self.pieces if (one.log, one.partition) == (log, partition)]
        return max(ends, default=None)

    def incarnation_of(self, log: str) -> str | None:
        """Returns which log of that name it has."""
        return next((one.incarnation for one in self.pieces if one.log == log), None)

    def add(self, row: dict[str, Any], where: str) -> None:
        """Adds one line. Raises ArchiveError for one of another version, KeyError for one of no known kind."""
        kind = row.pop("kind", None)
        if kind == "store":
            if row["version"] != VERSION:
                raise ArchiveError(
                    f"{where} has version {row['version']!r:.80}, this Radiator reads version {VERSION}: run the "
                    "Radiator that wrote it, or a newer one."
                )
            self.store_id = row["store"]
        elif kind == "file":
            self.files.append(Sealed(**row))
        elif kind == "gap":
            self.gaps.append(Gap(**row))
        elif kind == "snapshot":
            self.snapshots.append(Sealed(**row))
        elif kind == "dropped":
            self.snapshots = [one for one in self.snapshots if one.file != row["file"]]
        else:
            raise KeyError(kind)


def read(directory: Path) -> ManifestContents:
    """Raises NoArchive, and ArchiveError where a line is not what was written; a torn last line does not count."""
    try:
        text = (directory / NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NoArchive(f"{directory} is not an archive: it has no {NAME}.") from None
    return contents_of(_whole_lines(text), str(directory / NAME))


def contents_of(lines: Iterable[bytes], where: str) -> ManifestContents:
    """Raises ArchiveError."""
    contents = ManifestContents()
    for number, line in enumerate(lines, 1):
        try:
            contents.add(json.loads(line), where)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ArchiveError(f"Line {number} of {where} is damaged: {line[:80]!r}.") from None
    return contents


def _whole_lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")[:-1]


class Manifest:
    """The manifest of an archive that is being written."""

    def __init__(self, directory: Path, store_id: str) -> None:
        """Reads what is there, and makes it where nothing is. Raises ArchiveError for an archive of another store."""
        self.file = directory / NAME
        if not self.file.exists():
            self.contents = ManifestContents(store_id)
            self._write({"kind": "store", "store": store_id, "version": VERSION})
            sync_directory(directory)
            return
        text = self.file.read_bytes()
        lines = _whole_lines(text)
        whole = sum(len(line) + 1 for line in lines)
        if whole < len(text):
            os.truncate(self.file, whole)
        self.contents = contents_of(lines, str(self.file))
        if not lines:
            self._write({"kind": "store", "store": store_id, "version": VERSION})
        elif self.contents.store_id != store_id:
            raise ArchiveError(
                f"{directory} is the archive of store {self.contents.store_id}, and this is store {store_id}: "
                "give another directory with --to."
            )

    def sealed(self, one: Sealed) -> None:
        """Adds a line: that file exists."""
        self._write({"kind": "file" if one.log else "snapshot", **asdict(one)})

    def gap(self, gap: Gap) -> None:
        """Adds a line: the archive does not have those records, and never will."""
        self._write({"kind": "gap", **asdict(gap)})

    def dropped(self, snapshot: Sealed) -> None:
        """Adds a line: a later snapshot has taken its place."""
        self._write({"kind": "dropped", "file": snapshot.file})

    def _write(self, row: dict[str, Any]) -> None:
        with self.file.open("ab") as opened:
            opened.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        self.contents.add(dict(row), str(self.file))


def sync_directory(directory: Path) -> None:
    """Syncs the directory: what was made, renamed or removed in it is on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def in_order(contents: ManifestContents) -> Iterator[tuple[tuple[str, int], list[Sealed | Gap]]]:
    """Yields, for each log and partition, its files and gaps, by offset."""
    by_partition: dict[tuple[str, int], list[Sealed | Gap]] = {}
    for one in contents.pieces:
        by_partition.setdefault((one.log, one.partition), []).append(one)
    for key in sorted(by_partition):
        yield key, sorted(by_partition[key], key=lambda one: (one.first, one.next))
