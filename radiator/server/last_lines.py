"""The last lines of the log, kept for requests: at most LOG_KEPT_LINES lines, and LOG_KEPT_BYTES of them."""

from collections import deque
from collections.abc import Mapping

from radiator.model.limits import LOG_KEPT_BYTES, LOG_KEPT_LINES
from radiator.model.log_lines import KeptLines, LogLine
from radiator.model.settings import LOG_LEVELS

_LINE_COST_BYTES = 256  # what a line takes in memory besides its text


class LastLines:
    """Not thread-safe: the caller must lock it. size_bytes: what the kept lines take."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._lines: deque[tuple[LogLine, int]] = deque()
        self._last = 0

    def add(
        self, level: str, event: str, fields: Mapping[str, str | int | float | bool], now_s: float, size_bytes: int
    ) -> None:
        """Adds a line. fields: shortened already, and never changed. now_s: since the epoch. size_bytes: those of its
        text.
        """
        self._last += 1
        size_bytes += _LINE_COST_BYTES
        self._lines.append((LogLine(self._last, int(now_s * 1000), level, event, fields), size_bytes))
        self.size_bytes += size_bytes
        while len(self._lines) > LOG_KEPT_LINES or (self.size_bytes > LOG_KEPT_BYTES and len(self._lines) > 1):
            self.size_bytes -= self._lines.popleft()[1]

    def read(self, after: int | None, limit: int, level: str) -> KeptLines:
        """Returns lines as ReadLogLines asks for them."""
        if not self._lines:
            return KeptLines()
        least = LOG_LEVELS.index(level)
        found = [line for line, _ in self._lines if LOG_LEVELS.index(line.level) >= least]
        first = self._lines[0][0].number
        if after is None or after > self._last:
            return KeptLines(found[-limit:], first, self._last)
        found = [line for line in found if line.number > after]
        is_cut = len(found) > limit
        return KeptLines(found[:limit], first, found[limit - 1].number if is_cut else self._last)
