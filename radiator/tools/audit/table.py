"""The table of verdicts, as docs/ARCHIVE.md has it under "Verdicts": one table for two engines. Pure.

`radiator audit` applies it message by message, Spark's `conserve` to a whole journal at once. So a row is a condition
made only of arithmetic, comparisons, `&` and `|`, which mean the same for numbers and for Spark's columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LOST, DOUBLED, GHOST = "lost", "doubled", "ghost"
STORED, OPEN, UNKNOWN_BEGINNING, UNKNOWN_END = "stored", "open", "unknown-beginning", "unknown-end"
ITS_END = ""
"""Stands for the name of the one end that the message has."""

WRONG = (LOST, DOUBLED, GHOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about a message: numbers and truth values, or columns of them.

    accepted: how many `accepted` events it has; ends: how many events end it, or 1 where its queue was deleted; events:
    how many events are its own; stored: 1 where the snapshot has it, else 0. is_in_hole: the journal has nothing of the
    time in which its id was assigned; is_hole_after: a hole begins after its `accepted`. has_snapshot: there is one.
    """

    accepted: Any
    ends: Any
    events: Any
    stored: Any
    is_in_hole: Any
    is_hole_after: Any
    has_snapshot: Any


Row = tuple[str, Callable[[Facts], Any]]

VERDICTS: tuple[Row, ...] = (
    (DOUBLED, lambda of: (of.accepted >= 2) | (of.ends + of.stored >= 2)),
    (UNKNOWN_BEGINNING, lambda of: (of.accepted == 0) & of.is_in_hole),
    (LOST, lambda of: (of.accepted == 0) & (of.stored == 0) & (of.events == 0)),
    (GHOST, lambda of: of.accepted == 0),
    (ITS_END, lambda of: of.ends == 1),
    (STORED, lambda of: of.stored == 1),
    (UNKNOWN_END, lambda of: of.is_hole_after),
    (LOST, lambda of: of.has_snapshot),
)
"""The first row that fits is the verdict; where none does, it is OPEN."""


def verdict(of: Facts) -> str:
    """Returns the verdict on one message."""
    return next((name for name, fits in VERDICTS if fits(of)), OPEN)
