"""What is asked and answered about the last lines of the broker's own log; see administration.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from radiator.model.numbers import Rows


@dataclass(slots=True)
class ReadLogLines:
    """Lines that the broker has logged and still keeps: LogLines. after: those behind the line of that number, the
    oldest first; None, or a number that no line has yet, as those of an earlier start: the last ones. limit: at most so
    many; level: none of a lower one.
    """

    after: int | None
    limit: int
    level: str


@dataclass(slots=True, frozen=True)
class LogLine:
    """number: from 1 on at each start. time_ms: since the epoch, by the system's clock. fields: as the line has them;
    a long text is cut.
    """

    number: int
    time_ms: int
    level: str
    event: str
    fields: Mapping[str, str | int | float | bool]


@dataclass(slots=True)
class KeptLines:
    """Some of the lines that are kept. first: the number of the oldest of all; next: of the last one that was looked
    at, behind which who asks again goes on. Both 0: there was none yet.
    """

    lines: list[LogLine] = field(default_factory=list)
    first: int = 0
    next: int = 0


@dataclass(slots=True)
class LogLines:
    """The answer with lines of the log; see KeptLines."""

    lines: Rows[LogLine]
    first: int
    next: int
