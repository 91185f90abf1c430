"""One file of an archive: written under a temporary name, synced, renamed, its directory synced, then listed in the
manifest. What a crash leaves at each of these steps: nothing, a temporary file, or a finished one to be adopted.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from radiator.model.errors import count_text
from radiator.tools.archive.manifest import ArchiveError, Manifest, Sealed, sync_directory
from radiator.tools.archive.rows import Checksum

SNAPSHOTS = "_snapshots"
TEMPORARY = ".sealing-"
_FOOTER = b"radiator"  # the line of the manifest, within the file: a finished file needs nothing else to be known
_ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 64 * 1024 * 1024
_WIDE = frozenset({"key", "value", "message_id", "other_id", "offset", "seq", "timestamp", "ts"})  # few values repeat


def now_text() -> str:
    """Returns the time as the manifest has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def date_of(ms: int) -> str:
    """Returns the day of a time, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def folder_of(log: str, date: str) -> str:
    """Returns where files of a log go, as Hive and Spark name partitions: characters that a path may not have as
    %XX.
    """
    return f"log={quote(log, safe='$ ')}/date={date}"


class Sealing:
    """A file of an archive that is being written. Without `seal`, nothing of it stays."""

    def __init__(self, directory: Path, file: str, schema: pa.Schema) -> None:
        self._directory = directory
        self._file = file
        self._schema = schema
        self._checksum = Checksum(schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0
        target = directory / file
        made = [parent for parent in (target.parent, target.parent.parent) if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for parent in made:
            sync_directory(parent.parent)
        self._temporary = target.with_name(f"{TEMPORARY}{target.name}")
        dictionary = [name for name in schema.names if name not in _WIDE]
        self._writer = pq.ParquetWriter(
            self._temporary, schema, compression="zstd", use_dictionary=dictionary, store_schema=True
        )

    def __enter__(self) -> "Sealing":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer.is_open:
            self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows."""
        self._checksum.feed(batch)
        self.rows += batch.num_rows
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._pending.clear()
            self._pending_rows = self._pending_bytes = 0

    def seal(
        self, manifest: Manifest, log: str, incarnation: str, partition: int, first: int, following: int, boot: int = 0
    ) -> Sealed:
        """Gives the file its name, and adds it to the manifest. following: the offset after its last row."""
        self._flush()
        sealed = Sealed(
            self._file, log, incarnation, partition, first, following, self.rows, self._checksum.text(), 0,
            now_text(), boot,
        )  # fmt: skip
        self._writer.add_key_value_metadata({_FOOTER: json.dumps(asdict(sealed)).encode()})
        self._writer.close()
        target = self._directory / self._file
        with self._temporary.open("rb") as opened:
            os.fsync(opened.fileno())
        self._temporary.rename(target)
        sync_directory(target.parent)
        sealed = replace(sealed, bytes=target.stat().st_size, sha256=sha256_of(target))
        # D31: listed only once it is there
        manifest.sealed(sealed)
        return sealed


# ---- what is there already ------------------------------------------------------------------------------------------


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def misfit_of(directory: Path, one: Sealed) -> str:
    """Returns what is wrong with a file of the manifest, as far as its size tells, or ""."""
    try:
        size = (directory / one.file).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return f"{one.file} is missing."
    return "" if size == one.bytes else f"{one.file} has {count_text(size, 'byte')}; the manifest says {one.bytes}."


def _unreadable(path: Path, error: Exception) -> ArchiveError:
    if isinstance(error, FileNotFoundError):
        return ArchiveError(f"{path} is missing.")
    if isinstance(error, OSError) and error.strerror:
        return ArchiveError(f"{path} cannot be read: {error.strerror}.")
    sentences = str(error).partition("\n")[0][:200].rstrip(".")
    return ArchiveError(f"{path} cannot be read as a file of an archive: {sentences or type(error).__name__}.")


def footer_of(directory: Path, file: str) -> Sealed:
    """Returns what a finished file says of itself. Raises ArchiveError where it is not one of ours, or torn."""
    path = directory / file
    try:
        found = (pq.read_metadata(path).metadata or {})[_FOOTER]
        return replace(Sealed(**json.loads(found)), bytes=path.stat().st_size, sha256=sha256_of(path))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from None


def schema_of(directory: Path, file: str) -> pa.Schema:
    """Returns the columns of a file. Raises ArchiveError."""
    path = directory / file
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def rows_of(directory: Path, file: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file, in their order. Raises ArchiveError."""
    path = directory / file
    try:
        with pq.ParquetFile(path) as opened:
            yield from opened.iter_batches(_ROW_GROUP_ROWS, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def checksum_of(directory: Path, file: str) -> tuple[int, str]:
    """Returns how many rows a file has, and their checksum. Raises ArchiveError."""
    checksum = Checksum(schema_of(directory, file))
    rows = 0
    for batch in rows_of(directory, file):
        checksum.feed(batch)
        rows += batch.num_rows
    return rows, checksum.text()


def finished_files(directory: Path) -> list[str]:
    """Returns every Parquet file that has its name, sorted."""
    found = (*directory.glob("log=*/date=*/*.parquet"), *directory.glob(f"{SNAPSHOTS}/*.parquet"))
    return sorted(str(path.relative_to(directory)) for path in found if not path.name.startswith("."))


def clear(directory: Path) -> None:
    """Removes what a crash has left unfinished."""
    for path in (*directory.glob(f"log=*/date=*/{TEMPORARY}*"), *directory.glob(f"{SNAPSHOTS}/{TEMPORARY}*")):
        path.unlink(missing_ok=True)


def adopt(directory: Path, manifest: Manifest) -> list[str]:
    """Repairs what a crash left between the renaming of a file and its line in the manifest: the line is written now.

    A file that does not begin where the manifest ends, or is not whole, is removed, and its rows are copied again.
    Returns a sentence for each.
    """
    sentences = []
    contents = manifest.contents
    known = {one.file for one in (*contents.files, *contents.snapshots)}
    for file in finished_files(directory):
        if file in known:
            continue
        try:
            sealed = footer_of(directory, file)
            is_whole = checksum_of(directory, file) == (sealed.rows, sealed.checksum)
        except ArchiveError:
            is_whole = False
        if is_whole and sealed.log and contents.next_of(sealed.log, sealed.partition) in (None, sealed.first):
            manifest.sealed(sealed)
            sentences.append(f"{file} was finished when the last run ended: adopted.")
        else:
            (directory / file).unlink()
            sync_directory((directory / file).parent)
            sentences.append(f"{file} does not belong to what the manifest has: removed, it is copied once more.")
    return sentences
