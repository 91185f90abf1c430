"""The story of a message out of an archive."""

from pathlib import Path
from typing import Any

from radiator.storage.report import Progress, unheard
from radiator.tools.archive.history import History
from radiator.tools.audit.story import Happened


class ArchivedTeller:
    """The journal of an archive."""

    def __init__(self, directory: Path, progress: Progress = unheard) -> None:
        """Raises ArchiveError where there is no archive, or no journal in it."""
        self._history = History(directory)
        self._progress = progress
        self.store_id = self._history.contents.store_id

    def of(self, ids: set[str]) -> list[Happened]:
        """Those that name one of these ids, in order."""
        return [_happened(row) for row in self._history.of(ids, self._progress)]


def _happened(row: dict[str, Any]) -> Happened:
    ms = int(row.pop("ts").timestamp() * 1000 + 0.5)
    texts = {name: row[name] or "" for name in ("client", "other_id", "other_queue", "reason", "address", "message_id")}
    return Happened(ms=ms, **{**row, **texts})
