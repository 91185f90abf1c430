"""What is asked and answered about the broker at a glance: its last hour, its queues as a table, what needs attention;
see administration.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from radiator.model.numbers import Rows

BY_NAME = "name"
SORTS = (BY_NAME, "ready", "unacked", "delayed", "in", "out", "consumers", "oldest", "bytes")
"""What the table of queues can be sorted by."""
NEEDS = "needs"
"""Its filter for queues that need attention."""


@dataclass(slots=True)
class ReadHistory:
    """The samples of the broker that are later than after_ms: History."""

    after_ms: int = 0


@dataclass(slots=True)
class ReadQueueHistory:
    """Asks for the history of a queue. Refused (`no-history`) if the queue is not among the busiest."""

    queue: str
    after_ms: int = 0


@dataclass(slots=True)
class ReadQueueTable:
    """A page of the queues, and why each is in its state: QueueTable. match: a pattern of names; text: what their
    names have in them, in upper or lower case; by: of SORTS; first: how many come before the page; count: rows of it,
    at most. needs: only those that ReadAttention would name.
    """

    match: str | None
    text: str
    by: str
    is_descending: bool
    first: int
    count: int
    needs: bool


@dataclass(slots=True)
class ReadAttention:
    """What needs attention: Attention."""


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Samples:
    """first_ms: when the first was taken, since the epoch; each next one is every_ms later. None: there are none.
    names: of the numbers. samples: a column for each of them; null where there was no sample.
    """

    every_ms: int
    first_ms: int | None
    names: tuple[str, ...]
    samples: Rows[list[int | float | None]]


@dataclass(slots=True)
class QueueOfTable:
    """A row of the table. dead: it is a dead-letter queue. in_per_s, out_per_s: in the last interval of the history;
    None: not known yet. verdict, sentence: as QueueExplained has them. blocked: connections that wait for room in it.
    """

    name: str
    ready: int
    unacked: int
    delayed: int
    checked_out: int
    dead: bool
    in_per_s: float | None
    out_per_s: float | None
    consumers: int
    oldest_ms: int | None
    messages: int
    bytes: int
    verdict: str
    sentence: str
    persistent: bool
    is_full: bool
    blocked: int


@dataclass(slots=True)
class QueueTable:
    """count: how many queues the whole table has; all: how many there are that the asker may see."""

    queues: Rows[QueueOfTable]
    count: int
    all: int


@dataclass(slots=True)
class NeedsAttention:
    """kind and name lead to where to look: a queue, log, peer, user's certificate, or the broker itself."""

    kind: str
    name: str
    verdict: str
    sentence: str


@dataclass(slots=True)
class Attention:
    """The worst first, at most ATTENTION_ITEMS. counts: of all, by verdict, for who sees everything, or None. age_ms:
    how long ago the broker has looked.
    """

    items: Rows[NeedsAttention]
    counts: Mapping[str, int] | None
    age_ms: int


OverviewCommand = ReadHistory | ReadQueueHistory | ReadQueueTable | ReadAttention
OverviewAnswer = Samples | QueueTable | Attention
