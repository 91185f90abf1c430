"""What operators and programs may ask of the broker beside messages: its topology, its numbers, and what is in its way.

Each request is a command with typed fields, and has one answer in model/answers.py, which is named in its docstring.
A protocol reads a request and writes its answer by a `Rendering` (model/rendering.py) of its own; JSON is the first one
(protocols/administration.py).

Names are without the kind before them (`orders`, not `/queue/orders`), and are valid: who makes a command has checked
that. Where the core cannot do what a command asks it raises Refusal; its codes are listed in docs/PROTOCOL.md:
`no-such-destination` for a name that nothing has, and those that a docstring names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]
"""Settings by their names in config.toml, with values as JSON has them: only those that are given. model/validation.py
checks them against what is there already."""


# ---- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadStats:
    """The numbers of the whole broker: BrokerNumbers."""


@dataclass(frozen=True, slots=True)
class ReadSection:
    """The rows of one section of those numbers, by name: SectionNumbers.

    section: a name in SECTIONS. after: only names behind this one; limit: at most so many rows; None: all.
    """

    section: str
    after: str | None = None
    limit: int | None = None


SECTIONS = ("queues", "fanouts", "exchanges", "logs", "peers", "topics")


@dataclass(frozen=True, slots=True)
class ListQueues:
    """All queues that have a name, or a page of them, as of ReadSection: Queues."""

    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ExplainQueue:
    """Why nothing moves in a queue: QueueExplained."""

    queue: str


@dataclass(frozen=True, slots=True)
class ExplainLog:
    """Why nothing moves to the consumers of a log: LogExplained."""

    log: str


# ---- queues ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclareQueue:
    """A queue of that name with these settings is there from now on: QueueDeclared, once that is on the disk.

    passive: it must be there. create: its dead-letter queue need not be there, if a SEND could make it. Raises Refusal
    `bad-request` for settings that are wrong.
    """

    queue: str
    settings: Settings
    passive: bool = False
    create: bool = True


@dataclass(frozen=True, slots=True)
class DescribeQueue:
    """Settings, bindings and numbers of a queue: QueueDescribed."""

    queue: str


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """The queue goes, with all messages in it: Deleted, with the count of messages.

    if_unused: refused (`in-use`) while it has consumers; if_empty: refused (`not-empty`) while it has messages. Refused
    too while it is declared in config.toml (`declared`), or messages are in doubt or checked out (`in-use`).
    """

    queue: str
    if_unused: bool = True
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """All messages go that are not unacked: Purged."""

    queue: str


@dataclass(frozen=True, slots=True)
class PeekQueue:
    """The oldest messages, at most `count`, unacked or not; nothing changes: Peeked."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class MoveMessages:
    """Messages that are ready go from one queue to another, the oldest first: Moved.

    count: at most so many; None: all that are ready now. create: the target need not be there, if a SEND could make it.
    """

    source: str
    target: str
    count: int | None = None
    create: bool = True


@dataclass(frozen=True, slots=True)
class AwaitQueue:
    """Answered as soon as a message of the queue is ready, or after timeout_ms: QueueReady."""

    queue: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class TakeCheckout:
    """A group takes up to max_messages more of the queue's ready messages: CheckedOut.

    max_bytes: at most so many bytes, but at least one message; None: no bound.
    """

    queue: str
    group: str
    max_messages: int
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AckCheckout:
    """The group has processed all numbers below `before`: CheckoutAcked, once that is on the disk."""

    queue: str
    group: str
    before: int


@dataclass(frozen=True, slots=True)
class ReleaseCheckout:
    """What the group has taken goes back to the queue, and the group is over: CheckoutReleased."""

    queue: str
    group: str


# ---- exchanges and fanouts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclareExchange:
    """An exchange of that name is there from now on: Declared, once that is on the disk. passive: it must be there."""

    exchange: str
    settings: Settings
    passive: bool = False


@dataclass(frozen=True, slots=True)
class DescribeExchange:
    """What it is, its numbers and its bindings: ExchangeDescribed."""

    exchange: str


@dataclass(frozen=True, slots=True)
class DeleteExchange:
    """The exchange goes, and its bindings with it: Deleted, with 1."""

    exchange: str


@dataclass(frozen=True, slots=True)
class AddBinding:
    """What is sent to the exchange with a key that matches goes into the target too: Declared, once that is on the
    disk. target: the name of a queue, or /log/NAME.
    """

    exchange: str
    key: str
    target: str


@dataclass(frozen=True, slots=True)
class RemoveBinding:
    """That binding goes: Deleted, with 0 where there was none."""

    exchange: str
    key: str
    target: str


@dataclass(frozen=True, slots=True)
class DeclareFanout:
    """A fanout of that name is there from now on: Declared, once that is on the disk. settings: its `children`.
    passive: it must be there. create: its children need not be there, if a SEND could make them.
    """

    fanout: str
    settings: Settings
    passive: bool = False
    create: bool = True


@dataclass(frozen=True, slots=True)
class DescribeFanout:
    """Its children, and how much was sent to it: FanoutDescribed."""

    fanout: str


@dataclass(frozen=True, slots=True)
class DeleteFanout:
    """The fanout goes; its children stay: Deleted, with 1."""

    fanout: str


# ---- logs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclareLog:
    """A log of that name is there from now on: Declared, once that is on the disk. passive: it must be there."""

    log: str
    settings: Settings
    passive: bool = False


@dataclass(frozen=True, slots=True)
class DescribeLog:
    """Its settings, what each partition has on the disk, and who reads it: LogDescribed."""

    log: str


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """The log goes, with its records and the positions of its groups: Deleted, with the count of records. Refused while
    it is declared in config.toml (`declared`) or has consumers (`in-use`).
    """

    log: str


@dataclass(frozen=True, slots=True)
class FindOffsets:
    """Of each partition the offset of the first record that was accepted at time_ms (since the epoch) or later:
    Offsets.
    """

    log: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class AwaitLog:
    """Answered as soon as a partition's next offset is larger than in `known` (one for each partition, else
    `bad-request`), or after timeout_ms: LogEnds.
    """

    log: str
    known: Sequence[int]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AwaitLogs:
    """The same of several logs: LogsEnds. known: the offsets of one log after the other."""

    logs: tuple[str, ...]
    known: Sequence[int]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Where a group goes on: Position."""

    log: str
    group: str


@dataclass(frozen=True, slots=True)
class SetPosition:
    """The group goes on from these offsets, one for each partition (else `bad-request`): Position, once that is on the
    disk. Refused (`in-use`) while the group has consumers.
    """

    log: str
    group: str
    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class ForgetPosition:
    """The group has no position any more: Position, once that is on the disk. Refused as SetPosition is."""

    log: str
    group: str


# ---- what the asking connection has ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetPrefetch:
    """Another window, of `count` messages, for a subscription of the asking connection: PrefetchSet. subscription: its
    id; None: for all that share the connection's window.
    """

    subscription: bytes | None
    count: int


@dataclass(frozen=True, slots=True)
class ExtendAckTimeout:
    """More time for a message that is unacked on the asking connection: AckTimeoutExtended. ack: its ack id. seconds:
    from now; None: the whole ack timeout again.
    """

    ack: bytes
    seconds: float | None = None


# ---- prepared transactions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    """Several prepared transactions are committed at once, as one version of an app: PreparedCommitted, once that is on
    the disk.
    """

    names: tuple[str, ...]
    app: str
    version: int


@dataclass(frozen=True, slots=True)
class AbortPrepared:
    """What is prepared under these names is dropped: PreparedAborted, once that is on the disk."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AbortPrefix:
    """What is prepared under names that begin so is dropped: PreparedAborted, once that is on the disk. refuse_s: for
    so many seconds nothing more may be prepared under such names.
    """

    prefix: str
    refuse_s: int = 0


@dataclass(frozen=True, slots=True)
class ListPrepared:
    """All prepared transactions that are not over: Prepared."""


@dataclass(frozen=True, slots=True)
class ReadAppVersion:
    """The last version that was committed for an app: AppVersion. forget: the app is over, and has none."""

    app: str
    forget: bool = False


# ---- nodes, configuration -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListPeers:
    """The nodes that this one is linked with, and those reached through them: Peers. Refused (`no-node`), as the others
    of this section are, where the broker is alone.
    """


@dataclass(frozen=True, slots=True)
class ReleasePeer:
    """What is in doubt with a node that is gone for good is ready again, and may be processed twice: PeerReleased."""

    peer: str


@dataclass(frozen=True, slots=True)
class DropCopies:
    """No copies are kept for a node until it is linked again, and those that wait go: CopiesDropped."""

    peer: str


@dataclass(frozen=True, slots=True)
class KeepCopies:
    """Copies are kept for that node again: CopiesKept."""

    peer: str


@dataclass(frozen=True, slots=True)
class DrainNode:
    """This node's messages go to other nodes: Draining. stop: no longer."""

    stop: bool = False


@dataclass(frozen=True, slots=True)
class ReloadConfiguration:
    """config.toml is read again, and what has changed takes effect: ConfigurationReloaded. is_trial: it is only listed
    in the answer. Refused with all mistakes (`configuration`), or while another reload is under way (`in-use`).
    """

    is_trial: bool = False


AdminCommand = (
    ReadStats
    | ReadSection
    | ListQueues
    | ExplainQueue
    | ExplainLog
    | DeclareQueue
    | DescribeQueue
    | DeleteQueue
    | PurgeQueue
    | PeekQueue
    | MoveMessages
    | AwaitQueue
    | TakeCheckout
    | AckCheckout
    | ReleaseCheckout
    | DeclareExchange
    | DescribeExchange
    | DeleteExchange
    | AddBinding
    | RemoveBinding
    | DeclareFanout
    | DescribeFanout
    | DeleteFanout
    | DeclareLog
    | DescribeLog
    | DeleteLog
    | FindOffsets
    | AwaitLog
    | AwaitLogs
    | ReadPosition
    | SetPosition
    | ForgetPosition
    | SetPrefetch
    | ExtendAckTimeout
    | CommitPrepared
    | AbortPrepared
    | AbortPrefix
    | ListPrepared
    | ReadAppVersion
    | ListPeers
    | ReleasePeer
    | DropCopies
    | KeepCopies
    | DrainNode
    | ReloadConfiguration
)
