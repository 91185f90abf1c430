"""The story of a message out of an archive."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radiator.model.story import Happened
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.history import History

_MAY_BE_NULL = (
    "client", "other_id", "other_queue", "reason", "address", "message_id", "traceparent", "correlation_id",
)  # fmt: skip


class ArchivedTeller:
    """The journal of an archive."""

    def __init__(self, directory: Path, progress: Progress = unheard) -> None:
        """Raises ArchiveError where there is no archive, or no journal in it."""
        self._history = History(directory)
        self._progress = progress
        self.store_id = self._history.contents.store_id

    def of(self, ids: set[str]) -> list[Happened]:
        """The events that name one of these ids, in order."""
        return [_happened(row) for row in self._history.of(ids, self._progress)]

    def traced(self, trace_id: str) -> Iterator[str]:
        """Returns the message-ids that were accepted with that trace id, in order."""
        return self._history.traced(trace_id, self._progress)

    def correlated(self, correlation_id: str) -> Iterator[str]:
        """Returns the message-ids that were accepted with that correlation-id."""
        return self._history.correlated(correlation_id, self._progress)


def _happened(row: dict[str, Any]) -> Happened:
    ms = int(row.pop("ts").timestamp() * 1000 + 0.5)
    texts = {name: row.get(name) or "" for name in _MAY_BE_NULL}
    return Happened(ms=ms, **{**row, **texts})
