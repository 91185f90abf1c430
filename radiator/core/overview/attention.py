"""Says what needs attention: which verdicts do, and what the last look has seen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from radiator.model.overview import NeedsAttention

STILL_S = 60.0  # how long nothing has moved before somebody is called
UNACKED_STILL_S = 600.0  # the same where all is with consumers: a job may take minutes

DOES_NOT_ADD_UP, DAMAGED, BLOCKED, FULL, NOT_LINKED = "does-not-add-up", "damaged", "blocked", "full", "not-linked"
GROUP_STILL, DEAD_LETTERS, CERTIFICATE = "group-still", "dead-letters", "certificate"
NO_CONSUMER, UNACKED = "no-consumer", "unacked"

NEEDS: Mapping[str, float] = {
    DOES_NOT_ADD_UP: 0.0,
    DAMAGED: 0.0,
    "disk": 0.0,
    "memory": 0.0,
    "store": 0.0,
    BLOCKED: 0.0,
    FULL: 0.0,
    NOT_LINKED: 0.0,
    "not-taken": STILL_S,
    "set-aside": 0.0,
    NO_CONSUMER: STILL_S,
    "outbox-full": STILL_S,
    "held": STILL_S,
    "taking-over": STILL_S,
    "window": STILL_S,
    "keys": STILL_S,
    GROUP_STILL: 0.0,
    DEAD_LETTERS: 0.0,
    UNACKED: UNACKED_STILL_S,
    CERTIFICATE: 0.0,
    "draining": 0.0,
}
"""The verdicts that need attention, the worst first, and for how long nothing must have left the queue: 0: at once.
docs/OPERATING.md has the reasons.
"""
RANKS: Mapping[str, int] = {verdict: rank for rank, verdict in enumerate(NEEDS)}

FINE = frozenset(
    {
        "asked-elsewhere", "checked-out", "closing", "delayed", "disk-tight", "empty", "in-doubt", "loading",
        "memory-tight", "moving", "not-kept", "resting", "storing", "waking",
    }
)  # fmt: skip
"""The other verdicts on a queue: it moves, has nothing, or waits for what has an item of its own."""


@dataclass(slots=True)
class Seen:
    """queues: the verdict on each that needs attention, the worst first; sentences: about the first of them, and those
    that were asked for. others: all else. counts: of all, by verdict. judged: how many verdicts it took.
    """

    queues: dict[str, str] = field(default_factory=dict)
    sentences: dict[str, str] = field(default_factory=dict)
    others: list[NeedsAttention] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    judged: int = 0
