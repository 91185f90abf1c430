"""The broker's answers to the commands of model/administration.py. Units are those of model/numbers.py.

An answer that may be long has Rows, which are made while the answer is written, some in each turn: a row shows the
moment at which it is made, and Rows can be iterated once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from radiator.model.connections import ConnectionAnswer
from radiator.model.consumers import ActiveConsumer, Consumer, ConsumerAnswer, HotKey
from radiator.model.itself import ItselfAnswer
from radiator.model.numbers import BrokerNumbers, Holder, Later, NamedRows, PeerNumbers, QueueNumbers, Rows
from radiator.model.overview import OverviewAnswer
from radiator.model.peeking import Peeked
from radiator.model.questions import RightJudged, RouteFound
from radiator.model.returning import MessagesReturned
from radiator.model.settings import LogSettings, QueueSettings
from radiator.model.story import Happened
from radiator.model.unacked import UnackedAnswer

Row = TypeVar("Row")


@dataclass(slots=True)
class SectionNumbers:
    """Rows of one section of the numbers. section: which."""

    section: str
    rows: NamedRows[Any]


@dataclass(slots=True)
class NotReady:
    """reason: of administration.REASONS."""

    reason: str
    sentence: str


@dataclass(slots=True)
class Readiness:
    """reasons: why it is not ready, given only to clients that may see everything."""

    ready: bool
    reasons: list[NotReady]


@dataclass(slots=True)
class Named(Generic[Row]):
    """Numbers of a thing, and its name."""

    name: str
    numbers: Row


@dataclass(slots=True)
class Queues:
    """All queues that have a name, ordered by name."""

    queues: Rows[Named[QueueNumbers]]


@dataclass(slots=True)
class Pressure:
    """blocked_by_disk, blocked_by_memory: connections that wait for room on the disk, or in memory, for any queue."""

    blocked_by_disk: int
    blocked_by_memory: int
    is_disk_tight: bool
    is_memory_tight: bool
    memory_holders: list[Holder]


@dataclass(slots=True)
class QueueExplained:
    """verdict: one word; sentence: the reason. next_due_ms: since the epoch, of the first delayed message."""

    verdict: str
    sentence: str
    numbers: QueueNumbers
    pressure: Pressure
    is_full: bool
    next_due_ms: int | None
    consumer_list: list[Consumer]


@dataclass(slots=True)
class LogExplained:
    """Why nothing moves in a log; see QueueExplained. readers, groups: how many; unread: by group, for the first
    groups.
    """

    verdict: str
    sentence: str
    records: int
    readers: int
    groups: int
    unread: Mapping[str, int]
    pressure: Pressure
    consumer_list: list[Consumer]


# ---- topology -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Declared:
    """created: it is new. warnings: sentences about settings that have no effect."""

    created: bool
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class QueueDeclared:
    """A queue that is declared, and what it holds. ready: messages that a consumer could have at once."""

    messages: int
    ready: int
    consumers: int
    created: bool
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Deleted:
    """deleted: how many messages or records were deleted with it, or 1, or 0 where it did not exist."""

    deleted: int


@dataclass(slots=True)
class DestinationDescribed:
    """numbers: what its kind has in `stats` of one, a record."""

    numbers: Any


@dataclass(slots=True)
class BindingOfQueue:
    """A binding, in the description of a queue."""

    exchange: str
    key: str


@dataclass(slots=True)
class BindingOfExchange:
    """A binding, in the description of an exchange. queue: its name, `/log/NAME` or `/exchange/NAME`."""

    key: str
    queue: str


@dataclass(slots=True)
class QueueDescribed:
    """bindings: the first of bindings_count. oldest_ms: age of the oldest ready message, or None. Of a partitioned
    queue: active_keys: keys with messages that memory knows of; key_moves: how often one went to another consumer than
    before; hot_key: the one with most messages; else None. exclusive_to: the connection that alone may use it, with its
    channels; None: anybody. active_consumer: of a queue with single_active_consumer, where there is one.
    """

    settings: QueueSettings
    bindings: Rows[BindingOfQueue]
    bindings_count: int
    messages: int
    bytes: int
    ready: int
    unacked: int
    delayed: int
    checked_out: int
    consumers: int
    oldest_ms: int | None
    active_keys: int | None
    key_moves: int | None
    hot_key: HotKey | None
    exclusive_to: int | None = None
    active_consumer: ActiveConsumer | None = None


@dataclass(slots=True)
class ExchangeDescribed:
    """bindings: the first of bindings_count."""

    type: str
    durable: bool
    auto_delete: bool
    alternate: str | None
    internal: bool
    accepted: int
    unrouted: int
    bindings: Rows[BindingOfExchange]
    bindings_count: int


@dataclass(slots=True)
class FanoutDescribed:
    """outboxes: the queues where copies wait for other nodes."""

    children: Rows[str]
    outboxes: list[str]
    accepted: int


@dataclass(slots=True)
class PartitionsDescribed:
    """One value for each partition: offsets first and next, bytes, and when the first and the last record were accepted
    (since the epoch; None: there is no record).
    """

    first: list[int]
    next: list[int]
    bytes: list[int]
    first_ms: list[int | None]
    last_ms: list[int | None]


@dataclass(slots=True)
class LogDescribed:
    """incarnation: a text that no other log of this name has had. groups: the names of the first."""

    settings: LogSettings
    incarnation: str
    partitions: PartitionsDescribed
    readers: Later[int]
    groups: Rows[str]


# ---- messages -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Purged:
    """How many messages were removed."""

    purged: int


@dataclass(slots=True)
class Moved:
    """How many messages are in the other queue, on the disk."""

    moved: int


@dataclass(slots=True)
class QueueReady:
    """How many messages are ready; 0: the time has run out."""

    ready: int


@dataclass(slots=True)
class CheckedOut:
    """What the group has: the numbers from `first` to before `next` in the log of that name and incarnation."""

    log: str
    incarnation: str
    first: int
    next: int


@dataclass(slots=True)
class CheckoutAcked:
    """first: the first number that the group still has."""

    first: int


@dataclass(slots=True)
class CheckoutReleased:
    """How many messages went back."""

    released: int


@dataclass(slots=True)
class PrefetchSet:
    """The window from now on, in messages."""

    prefetch: int


@dataclass(slots=True)
class AckTimeoutExtended:
    """due_ms: until when (since the epoch) the message may be unacked; None: for ever."""

    due_ms: int | None


# ---- logs -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Offsets:
    """One for each partition."""

    offsets: list[int]


@dataclass(slots=True)
class LogEnds:
    """For each partition the next offset, and the first that is there."""

    next: list[int]
    first: list[int]


@dataclass(slots=True)
class LogsEnds:
    """The ends of several logs, by name, in the order in which they were asked for."""

    logs: NamedRows[LogEnds]


@dataclass(slots=True)
class Position:
    """The group's offset in each partition; None: it has no position."""

    offsets: list[int] | None


# ---- prepared transactions ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PreparedCommitted:
    """committed: False where that version, or a higher one, had been committed before. messages: how many."""

    committed: bool
    messages: int


@dataclass(slots=True)
class PreparedAborted:
    """How many transactions were dropped."""

    aborted: int


@dataclass(slots=True)
class PreparedTransaction:
    """One that is not finished. name: empty for one that was committed before a restart. applied: how many of its
    messages are in their destinations. waits: why it does not proceed, or None.
    """

    name: str
    messages: int
    bytes: int
    age_ms: int
    applied: int
    is_committed: bool
    waits: str | None


@dataclass(slots=True)
class Prepared:
    """The committed transactions, then the others, the oldest first; count: of all."""

    prepared: Rows[PreparedTransaction]
    count: int


@dataclass(slots=True)
class AppVersion:
    """The last version that was committed, on the disk, or None."""

    version: int | None


# ---- nodes, configuration -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Peers:
    """node: this one's name. nodes: those that are reached, each with `name`, `hops`, and `via`, a linked one."""

    node: str
    draining: bool
    peers: Rows[Named[PeerNumbers]]
    nodes: Rows[Mapping[str, str | int]]


@dataclass(slots=True)
class PeerReleased:
    """How many messages are ready again."""

    released: int


@dataclass(slots=True)
class CopiesDropped:
    """How many copies were dropped."""

    dropped: int


@dataclass(slots=True)
class CopiesKept:
    """changed: no copies were kept before."""

    changed: bool


@dataclass(slots=True)
class Draining:
    """left: messages still to be handed to other nodes; stays: those that are not handed over."""

    draining: bool
    left: int
    stays: int


@dataclass(slots=True)
class ConfigurationReloaded:
    """changes: for each difference `setting`, `old`, `new`, and `takes_effect`, `now` or `restart`. warnings: sentences
    about settings that have no effect.
    """

    applied: bool
    changes: Rows[Mapping[str, Any]]
    warnings: list[str]


@dataclass(slots=True)
class StoryExplained:
    """Events in the order of the journal. has_more: there are more, after the last of them. is_cut: there are more
    messages than a story may have; of those beyond, nothing is here.
    """

    events: Rows[Happened]
    has_more: bool
    is_cut: bool


AdminAnswer = (
    BrokerNumbers
    | SectionNumbers
    | Readiness
    | ItselfAnswer
    | Queues
    | OverviewAnswer
    | QueueExplained
    | LogExplained
    | StoryExplained
    | Declared
    | QueueDeclared
    | Deleted
    | DestinationDescribed
    | QueueDescribed
    | ExchangeDescribed
    | FanoutDescribed
    | LogDescribed
    | Peeked
    | Purged
    | Moved
    | MessagesReturned
    | RouteFound
    | RightJudged
    | QueueReady
    | CheckedOut
    | CheckoutAcked
    | CheckoutReleased
    | PrefetchSet
    | AckTimeoutExtended
    | Offsets
    | LogEnds
    | LogsEnds
    | Position
    | PreparedCommitted
    | PreparedAborted
    | Prepared
    | AppVersion
    | Peers
    | PeerReleased
    | CopiesDropped
    | CopiesKept
    | Draining
    | ConsumerAnswer
    | ConnectionAnswer
    | UnackedAnswer
    | ConfigurationReloaded
)
