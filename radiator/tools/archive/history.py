"""The journal of an archive, read back: its events in order, and what was stored at its last snapshot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from radiator.model.settings import JOURNAL
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.manifest import ArchiveError, ManifestContents, Sealed, read
from radiator.tools.archive.sealing import rows_of

COLUMNS = ("seq", "event", "queue", "message_id", "other_id", "other_queue", "number")  # what an audit reads


@dataclass(slots=True)
class StoredNow:
    """The messages that queues held at one offset of the journal."""

    offset: int
    boot: int
    ids: Iterator[str]


class History:
    """The journal of an archive."""

    def __init__(self, directory: Path) -> None:
        """Raises ArchiveError where there is none."""
        self.directory = directory
        self.contents: ManifestContents = read(directory)
        self.files: list[Sealed] = sorted(
            (one for one in self.contents.files if one.log == JOURNAL), key=lambda one: one.first
        )
        if not self.files:
            raise ArchiveError(
                f"The archive {directory} has no journal: there was none in the store, or `--log` left it out."
            )

    @property
    def rows(self) -> int:
        """How many events it has."""
        return sum(one.rows for one in self.files)

    def columns(self, names: Sequence[str] = COLUMNS) -> Iterator[list[list[Any]]]:
        """Yields some events at a time, column by column."""
        for file in self.files:
            for batch in rows_of(self.directory, file.file, list(names)):
                yield [batch.column(name).to_pylist() for name in names]

    def stored(self) -> StoredNow | None:
        """Returns the last snapshot up to which the journal is there."""
        end = self.files[-1].next
        usable = [one for one in self.contents.snapshots if one.next <= end]
        if not usable:
            return None
        last = usable[-1]
        return StoredNow(last.next, last.boot, self._ids(last))

    def _ids(self, snapshot: Sealed) -> Iterator[str]:
        for batch in rows_of(self.directory, snapshot.file, ["message_id"]):
            yield from batch.column(0).to_pylist()

    def of(self, ids: set[str], progress: Progress = unheard) -> list[dict[str, object]]:
        """Returns the events that name one of these ids, in order."""
        wanted = pa.array(sorted(ids), pa.string())
        found: list[dict[str, object]] = []
        for batch in self._batches(progress):
            named = pc.or_kleene(
                pc.is_in(batch.column("message_id"), value_set=wanted),
                pc.is_in(batch.column("other_id"), value_set=wanted),
            )
            if named.true_count:
                found += batch.filter(named).to_pylist()
        return found

    def traced(self, trace_id: str, progress: Progress = unheard) -> Iterator[str]:
        """Yields the message-ids that were accepted with that trace id, in order."""
        for batch in self._batches(progress, ["message_id", "traceparent"]):
            if "traceparent" in batch.schema.names:
                is_of_it = pc.match_substring(batch.column("traceparent"), f"-{trace_id}-")
                yield from batch.column("message_id").filter(is_of_it).to_pylist()

    def correlated(self, correlation_id: str, progress: Progress = unheard) -> Iterator[str]:
        """Yields the message-ids that were accepted with that correlation-id."""
        for batch in self._batches(progress, ["message_id", "correlation_id"]):
            if "correlation_id" in batch.schema.names:
                is_it = pc.equal(batch.column("correlation_id"), correlation_id)
                yield from batch.column("message_id").filter(is_it).to_pylist()

    def _batches(self, progress: Progress, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields all rows. columns: of those that a file has; None: all."""
        done, whole = 0, self.rows
        for file in self.files:
            for batch in rows_of(self.directory, file.file, columns):
                yield batch
                done += batch.num_rows
                progress("looking through the journal", "events", done, whole)
