"""The server around the broker, as it reports of itself, for requests about it. The broker decides nothing by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from radiator.model.log_lines import KeptLines, ReadLogLines
from radiator.model.settings import Config


def _of_nobody() -> tuple[Config, Path | None]:
    return Config(data_dir=Path("data").absolute()), None


@dataclass(slots=True, frozen=True, kw_only=True)
class ServerView:
    """Each is called within a turn, and takes some microseconds. A broker without a server has these defaults.

    configuration: what is in force, and the file that it is of; lines: of the log; uses: of the bounds that the server
    keeps, by their names in core/bounds.py: each bound, and how much of it is in use; None: it is not known.
    """

    configuration: Callable[[], tuple[Config, Path | None]] = _of_nobody
    lines: Callable[[ReadLogLines], KeptLines] = lambda asked: KeptLines()
    uses: Callable[[], Mapping[str, tuple[int | None, int | None]]] = dict
