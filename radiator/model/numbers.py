"""The broker's numbers, and rows of them.

Counts are of messages (of a log: records) and sizes in bytes, header block and body. A field `..._ms` is a duration, or
a time since the epoch where its docstring says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


class PauseRow(Enum):
    """The type of PAUSE."""

    PAUSE = "pause"


PAUSE = PauseRow.PAUSE
"""In place of a row: this turn has looked at enough, and the next one continues here."""


@dataclass(slots=True)
class Rows(Generic[Row]):
    """A list that is made row by row."""

    rows: Iterator[Row | PauseRow]


@dataclass(slots=True)
class NamedRows(Generic[Row]):
    """The same for things that have names, ordered by name."""

    rows: Iterator[tuple[str, Row] | PauseRow]


@dataclass(slots=True)
class Later(Generic[Row]):
    """One value that takes several turns to find: the last row."""

    rows: Iterator[Row | PauseRow]


# ---- numbers --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Holder:
    """One of the largest holders of memory: a connection or a queue."""

    name: str
    bytes: int


@dataclass(slots=True)
class QueueNumbers:
    """One queue: the states of its messages, and its ledger (model/writes.py) from `accepted` to
    `stored_delayed_bytes`.

    messages, bytes: all that it has. useful_consumers: how many could be busy. active_keys, key_moves: of a partitioned
    queue, keys with messages that memory knows of, and how often one went to another consumer. oldest_ms: age of the
    oldest ready message; None: none, or still to be read from the disk. max_messages, max_bytes: None: no bound.
    blocked: connections that wait for room in it. damaged: messages that cannot be read. adds_up: whether the ledger
    balances.
    """

    persistent: bool
    messages: int
    bytes: int
    ready: int
    unacked: int
    storing: int
    delayed: int
    in_doubt: int
    set_aside: int
    checked_out: int
    consumers: int
    useful_consumers: int
    active_keys: int | None
    key_moves: int | None
    oldest_ms: int | None
    max_messages: int | None
    max_bytes: int | None
    accepted: int
    accepted_bytes: int
    stored: int
    stored_bytes: int
    acked: int
    acked_bytes: int
    expired: int
    expired_bytes: int
    dropped: int
    dropped_bytes: int
    purged: int
    purged_bytes: int
    dead_lettered: int
    dead_lettered_bytes: int
    stored_expiring: int
    stored_delayed: int
    stored_delayed_bytes: int
    redelivered: int
    blocked: int
    damaged: int
    adds_up: bool


@dataclass(slots=True)
class FanoutNumbers:
    """One fanout. accepted: SENDs since the start."""

    children: tuple[str, ...]
    accepted: int


@dataclass(slots=True)
class ExchangeNumbers:
    """One exchange. accepted, unrouted: SENDs since the start; bindings: how many."""

    type: str
    durable: bool
    auto_delete: bool
    accepted: int
    unrouted: int
    bindings: int


@dataclass(slots=True)
class LogNumbers:
    """One log. readers: consumers; unread: for each group, how many records are beyond its positions."""

    partitions: int
    records: int
    bytes: int
    retention_bytes: int | None
    accepted: int
    accepted_bytes: int
    readers: Later[int]
    unread: NamedRows[int]
    damaged: int


@dataclass(slots=True)
class PeerNumbers:
    """One node that this one has been linked with. since_s: how long it has been in its state; lag_ms: age of the
    oldest message that is in doubt or waits for it; hops: links to it, 0 where it is not reached.
    """

    address: str
    state: str
    cause: str
    since_s: float
    in_doubt: int
    outbox: int
    outbox_bytes: int
    outbox_max_bytes: int | None
    outbox_blocked: int
    outbox_dropped: int
    copies_kept: bool
    lag_ms: int
    out_epoch: int
    in_epoch: int
    handed_over: int
    taken_in: int
    hops: int
    store_id: str
    declared_otherwise: Mapping[str, Any]


@dataclass(slots=True)
class UserNumbers:
    """What one user has in use, and the bounds of that; None: no bound. blocked: connections that wait because of them.
    unacked_bytes: of messages that are unacked with its connections; memory_bytes: what these hold; stored_bytes: of
    the queues and logs that it has made.
    """

    connections: int
    subscriptions: int
    destinations: int
    unacked_bytes: int
    memory_bytes: int
    stored_bytes: int
    blocked: int
    max_connections: int | None
    max_subscriptions: int | None
    max_destinations: int | None
    max_unacked_bytes: int | None
    max_memory_bytes: int | None
    max_stored_bytes: int | None
    max_messages_per_s: int | None


@dataclass(slots=True)
class TopicNumbers:
    """One topic without wildcards that has subscribers."""

    subscribers: int


@dataclass(slots=True)
class LatencyNumbers:
    """A histogram: counts[i] took more than buckets_ms[i - 1] and at most buckets_ms[i], the last one more than all.
    sum_ms: of all.
    """

    buckets_ms: list[float]
    counts: list[int]
    sum_ms: float


@dataclass(slots=True)
class BrokerNumbers:
    """The whole broker. docs/OPERATING.md defines each number.

    limits, store, counters: numbers by name. certificate_left_s: of the certificate that ends first;
    certificates_left_s: by the address of a listener with its own. channels: of AMQP; `connections` does not count
    them, and that request has a row for each. parked: connections that wait for room. sections:
    by the names of administration.sections, the numbers of each thing of one kind, such as QueueNumbers.
    """

    version: str
    store_id: str
    boot: int
    uptime_s: float
    clock_ahead_s: int
    connections: int
    channels: int
    subscriptions: Later[int]
    transactions: Later[int]
    prepared: int
    parked: int
    half_open: int
    certificate_left_s: int | None
    certificates_left_s: Mapping[str, int]
    memory_bytes: int
    memory_counted_bytes: int
    memory_holders: list[Holder]
    outbox_bytes: int
    outbox_largest_bytes: int
    destinations: int
    bindings: int
    positions: int
    limits: Mapping[str, int]
    batches: int
    commit_latency: LatencyNumbers
    delivery_latency: LatencyNumbers
    store: Mapping[str, int]
    counters: Mapping[str, int]
    sections: Mapping[str, NamedRows[Any]]
