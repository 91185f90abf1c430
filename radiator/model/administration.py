"""What operators and programs may ask of the broker besides messages: its topology, its numbers, and why messages wait.

Each request is a command with typed fields, and has one answer in model/answers.py, which is named in its docstring. A
protocol reads a request and writes its answer by a `Rendering` (model/rendering.py) of its own; JSON is the first one
(protocols/administration).

Names are without the kind before them (`orders`, not `/queue/orders`), and are valid: the maker of a command has
checked that. Where the core cannot do what a command asks it raises Refusal; its codes are listed in docs/PROTOCOL.md:
`no-such-destination` for a name that does not exist, and those that a docstring names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radiator.model.addresses import KINDS
from radiator.model.connections import CloseConnection as CloseConnection
from radiator.model.connections import DescribeConnection as DescribeConnection
from radiator.model.connections import ListConnections as ListConnections
from radiator.model.consumers import DrainConsumer as DrainConsumer
from radiator.model.consumers import ListConsumers as ListConsumers
from radiator.model.consumers import ReadScale as ReadScale
from radiator.model.consumers import RegisterConsumer as RegisterConsumer
from radiator.model.correlations import ExplainCorrelation as ExplainCorrelation
from radiator.model.itself import ItselfCommand
from radiator.model.itself import ReadBounds as ReadBounds
from radiator.model.itself import ReadConfiguration as ReadConfiguration
from radiator.model.itself import ReadDisk as ReadDisk
from radiator.model.itself import ReadLogLines as ReadLogLines
from radiator.model.overview import OverviewCommand as OverviewCommand
from radiator.model.peeking import PeekQueue as PeekQueue
from radiator.model.questions import AskRight as AskRight
from radiator.model.questions import FindRoute as FindRoute
from radiator.model.returning import ReturnMessages as ReturnMessages
from radiator.model.unacked import ExtendUnacked as ExtendUnacked
from radiator.model.unacked import ListUnacked as ListUnacked

Settings = Mapping[str, Any]
"""Settings by their names in config.toml, with values as JSON has them: only those that are given. model/validation.py
checks them against those in force.
"""


# ---- numbers --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadStats:
    """The numbers of the whole broker: BrokerNumbers."""


@dataclass(slots=True)
class ReadSection:
    """The rows of one section of those numbers, by name: SectionNumbers.

    section: one of `sections`. after: only names after this one; limit: at most that many rows; match: only names that
    this pattern (patterns.py) matches; None: all.
    """

    section: str
    after: str | None = None
    limit: int | None = None
    match: str | None = None


REASONS = ("disk", "memory", "store", "certificate", "draining", "links")
"""Why a broker may not be ready, in the order in which they are listed."""


@dataclass(slots=True)
class ReadReadiness:
    """Whether clients should be sent to this broker now: Readiness. exclude: reasons of REASONS that do not count."""

    exclude: tuple[str, ...] = ()


PEERS = "peers"
USERS = "users"


def sections() -> tuple[str, ...]:
    """All of them, in their order: of what can be declared, of the other nodes, of users, of the rest."""
    kinds = [kind for kind in KINDS.values() if kind.section]
    declared = [kind.section for kind in kinds if kind.is_declared]
    return (*declared, PEERS, USERS, *(kind.section for kind in kinds if not kind.is_declared))


@dataclass(slots=True)
class ListQueues:
    """All queues that have a name, or those of them that ReadSection would have: Queues."""

    after: str | None = None
    limit: int | None = None
    match: str | None = None


@dataclass(slots=True)
class ExplainQueue:
    """Why a queue delivers nothing: QueueExplained."""

    queue: str


@dataclass(slots=True)
class ExplainLog:
    """Why a log delivers nothing to its consumers: LogExplained."""

    log: str


@dataclass(slots=True)
class ExplainMessage:
    """What has become of a message, and of what it came from and went on as: StoryExplained. Refused (`no-journal`)
    without a journal, where that has nothing about it (`no-events`), and while too many ask (`blocked`).

    message_id: looks like one. after: only events after that place in the journal; limit: at most that many.
    """

    message_id: str
    after: int
    limit: int


@dataclass(slots=True)
class ExplainTrace:
    """What has become of a trace's first messages (story.py). trace_id: 32 hexadecimal digits."""

    trace_id: str
    after: int
    limit: int


# ---- destinations of any kind that can be declared (model/addresses.py) ----------------------------------------------


@dataclass(slots=True)
class DeclareDestination:
    """Ensures that there is one with these settings: Declared, or of a queue QueueDeclared, once that is on the disk.

    passive: it must exist. create: the queues that it leads to need not exist, if a SEND could create them. is_owned: a
    queue in memory that only the connection which declares it and its channels use, and that ends with it. is_exact: a
    queue declared with more settings, or fewer, counts as declared otherwise, whatever their values. if_new: settings
    of one made now; an existing one may have others. Raises Refusal `bad-request` for invalid settings.
    """

    kind: str
    name: str
    settings: Settings
    passive: bool = False
    create: bool = True
    is_owned: bool = False
    is_exact: bool = False
    if_new: Settings = field(default_factory=dict)


@dataclass(slots=True)
class DescribeDestination:
    """The settings and numbers of a destination: QueueDescribed, for example, or DestinationDescribed."""

    kind: str
    name: str


@dataclass(slots=True)
class DeleteDestination:
    """Deletes it with everything in it; what came from it and is elsewhere stays: Deleted, with the count of messages
    or records, or 1 for a kind that has none.

    Of queues: if_unused: refused (`in-use`) while it has consumers; if_empty: refused (`not-empty`) while it has
    messages; refused too (`in-use`) while messages are in doubt or checked out; takes_unacked: what is unacked leaves
    the windows of its consumers at once, not with its ACK, and counts for no if_empty. Of exchanges: if_unbound:
    refused (`in-use`) while it has bindings. Of logs: refused (`in-use`) while it has consumers, or a fanout leads to
    it. All: refused (`declared`) while config.toml declares it.
    """

    kind: str
    name: str
    if_unused: bool = True
    if_empty: bool = False
    takes_unacked: bool = False
    if_unbound: bool = False


# ---- queues ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PurgeQueue:
    """Removes all messages that are not unacked: Purged."""

    queue: str


@dataclass(slots=True)
class MoveMessages:
    """Moves ready messages from one queue to another, the oldest first: Moved.

    count: at most that many; None: all ready now. create: the target need not exist, if a SEND could create it.
    """

    source: str
    target: str
    count: int | None = None
    create: bool = True


@dataclass(slots=True)
class AwaitQueue:
    """Answered as soon as a message of the queue is ready, or after timeout_ms: QueueReady."""

    queue: str
    timeout_ms: int


@dataclass(slots=True)
class TakeCheckout:
    """A group takes up to max_messages more of the queue's ready messages: CheckedOut.

    max_bytes: at most that many bytes, but at least one message; None: no bound.
    """

    queue: str
    group: str
    max_messages: int
    max_bytes: int | None = None


@dataclass(slots=True)
class AckCheckout:
    """The group has processed all numbers below `before`: CheckoutAcked, once that is on the disk."""

    queue: str
    group: str
    before: int


@dataclass(slots=True)
class ReleaseCheckout:
    """Returns what the group has taken to the queue, and ends the group: CheckoutReleased."""

    queue: str
    group: str


# ---- bindings --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AddBinding:
    """Messages sent to the exchange with a matching key go into the target too: Declared, once that is on the disk.
    target: the name of a queue, /log/NAME or /exchange/NAME. key: for type headers the arguments, as JSON. if_headers:
    the arguments, if they are given beside a key that counts for all other types; "": they are not.
    """

    exchange: str
    key: str
    target: str
    if_headers: str = ""


@dataclass(slots=True)
class RemoveBinding:
    """Removes that binding: Deleted, with 0 where there was none. if_headers: as of AddBinding."""

    exchange: str
    key: str
    target: str
    if_headers: str = ""


# ---- logs -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FindOffsets:
    """For each partition the offset of the first record that was accepted at time_ms (since the epoch) or later:
    Offsets.
    """

    log: str
    time_ms: int


@dataclass(slots=True)
class AwaitLog:
    """Answered as soon as a partition's next offset is larger than in `known` (one for each partition, else
    `bad-request`), or after timeout_ms: LogEnds.
    """

    log: str
    known: Sequence[int]
    timeout_ms: int


@dataclass(slots=True)
class AwaitLogs:
    """Waits for several logs, and is answered by LogsEnds. known: the offsets of one log after the other."""

    logs: tuple[str, ...]
    known: Sequence[int]
    timeout_ms: int


@dataclass(slots=True)
class ReadPosition:
    """The position of a group: Position."""

    log: str
    group: str


@dataclass(slots=True)
class SetPosition:
    """Sets the offsets from which the group continues, one for each partition (else `bad-request`): Position, once that
    is on the disk. Refused (`in-use`) while the group has consumers.
    """

    log: str
    group: str
    offsets: Sequence[int]


@dataclass(slots=True)
class ForgetPosition:
    """Removes the group's position: Position, once that is on the disk. Refused as SetPosition is."""

    log: str
    group: str


# ---- what the asking connection has ---------------------------------------------------------------------------------


@dataclass(slots=True)
class SetPrefetch:
    """Sets another window, of `count` messages, for a subscription of the asking connection: PrefetchSet. subscription:
    its id; None: for all that share the connection's window.
    """

    subscription: bytes | None
    count: int


@dataclass(slots=True)
class ExtendAckTimeout:
    """Extends the time of a message that is unacked on the asking connection: AckTimeoutExtended. ack: its ack id.
    seconds: from now; None: the whole ack timeout again.
    """

    ack: bytes
    seconds: float | None = None


# ---- prepared transactions ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class CommitPrepared:
    """Commits several prepared transactions at once, as one version of an app: PreparedCommitted, once that is on the
    disk.
    """

    names: tuple[str, ...]
    app: str
    version: int


@dataclass(slots=True)
class AbortPrepared:
    """Drops the transactions prepared under these names: PreparedAborted, once that is on the disk."""

    names: tuple[str, ...]


@dataclass(slots=True)
class AbortPrefix:
    """Drops what is prepared under names with this prefix: PreparedAborted, once that is on the disk. refuse_s: for
    that many seconds no transaction may be prepared under such names.
    """

    prefix: str
    refuse_s: int = 0


@dataclass(slots=True)
class ListPrepared:
    """All prepared transactions that are not finished: Prepared."""


@dataclass(slots=True)
class ReadAppVersion:
    """The last version that was committed for an app: AppVersion. forget: removes it."""

    app: str
    forget: bool = False


# ---- nodes, configuration -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ListPeers:
    """The nodes that this one is linked with, and those reached through them: Peers. Refused (`no-node`), like the
    others of this section, where the broker has no [node].
    """


@dataclass(slots=True)
class ReleasePeer:
    """Messages in doubt with a node gone for good are ready again, and may be processed twice: PeerReleased."""

    peer: str


@dataclass(slots=True)
class DropCopies:
    """Keeps no copies for a node until it is linked again, and drops those that wait: CopiesDropped."""

    peer: str


@dataclass(slots=True)
class KeepCopies:
    """Keeps copies for that node again: CopiesKept."""

    peer: str


@dataclass(slots=True)
class DrainNode:
    """Hands this node's messages to other nodes: Draining. stop: no longer."""

    stop: bool = False


@dataclass(slots=True)
class ReloadConfiguration:
    """Reads config.toml again, and applies what has changed: ConfigurationReloaded. is_trial: the answer only lists the
    changes. Refused with all mistakes (`configuration`), or while another reload is under way (`in-use`).
    """

    is_trial: bool = False


AdminCommand = (
    ReadStats
    | ReadSection
    | ReadReadiness
    | ItselfCommand
    | ListQueues
    | OverviewCommand
    | ExplainQueue
    | ExplainLog
    | ExplainMessage
    | ExplainTrace
    | ExplainCorrelation
    | DeclareDestination
    | DescribeDestination
    | DeleteDestination
    | PurgeQueue
    | PeekQueue
    | MoveMessages
    | ReturnMessages
    | AwaitQueue
    | TakeCheckout
    | AckCheckout
    | ReleaseCheckout
    | ListConsumers
    | RegisterConsumer
    | DrainConsumer
    | ReadScale
    | ListConnections
    | DescribeConnection
    | CloseConnection
    | ListUnacked
    | ExtendUnacked
    | AddBinding
    | RemoveBinding
    | FindRoute
    | AskRight
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
