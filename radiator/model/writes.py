"""The writes that the broker may ask of the disk. A batch of these is one LMDB transaction: all of it or nothing.

Queues are numbers here: only Declare has the name. The store carries the writes of a batch out in order, except that it
may sort Puts by key, since no two writes of one batch may contradict each other in their order (see Batch in
core/turn.py).
"""

from dataclasses import dataclass, fields
from operator import attrgetter

from radiator.model.commands import Send
from radiator.model.journal import JournalEvent
from radiator.model.message import Message


@dataclass(slots=True)
class Ledger:
    """A queue's counters, in messages and bytes (header block + body).

    accepted = stored + acked + expired + dropped + purged + dead_lettered, in both columns, always.
    `stored_expiring`: how many of the stored messages have an expiry; shows a start which heads to watch.
    `stored_delayed`, `stored_delayed_bytes`: those of the stored ones that wait for their time.
    """

    accepted: int = 0
    accepted_bytes: int = 0
    stored: int = 0
    stored_bytes: int = 0
    acked: int = 0
    acked_bytes: int = 0
    expired: int = 0
    expired_bytes: int = 0
    dropped: int = 0
    dropped_bytes: int = 0
    purged: int = 0
    purged_bytes: int = 0
    dead_lettered: int = 0
    dead_lettered_bytes: int = 0
    stored_expiring: int = 0
    stored_delayed: int = 0
    stored_delayed_bytes: int = 0

    def copy(self) -> "Ledger":
        """As it is now."""
        return Ledger(*_columns(self))

    def accept(self, size: int, expires_ms: int) -> None:
        """Adds a message of `size` bytes. expires_ms: when it expires, 0: never."""
        self.accepted += 1
        self.accepted_bytes += size
        self.stored += 1
        self.stored_bytes += size
        if expires_ms:
            self.stored_expiring += 1

    def adds_up(self) -> bool:
        """Whether both columns balance and nothing is negative."""
        left = self.stored + self.acked + self.expired + self.dropped + self.purged + self.dead_lettered
        left_bytes = self.stored_bytes + self.acked_bytes + self.expired_bytes + self.dropped_bytes
        left_bytes += self.purged_bytes + self.dead_lettered_bytes
        return (
            self.accepted == left
            and self.accepted_bytes == left_bytes
            and 0 <= self.stored_expiring <= self.stored
            and 0 <= self.stored_delayed <= self.stored
            and 0 <= self.stored_delayed_bytes <= self.stored_bytes
            and min(map(self.__getattribute__, self.__slots__)) >= 0
        )


_columns = attrgetter(*(field.name for field in fields(Ledger)))  # copy.copy takes four times as long, in each batch


@dataclass(slots=True)
class Declare:
    """A queue exists from now on, under this number and name. Numbers are never used again."""

    queue: int
    name: str


@dataclass(slots=True)
class Put:
    """Store a message at its place. key: the hash of its key, 8 bytes, by which it is found too; b"": it has none."""

    queue: int
    position: int
    message: Message
    key: bytes = b""


@dataclass(slots=True)
class Remove:
    """The message leaves the queue; its redelivery count goes with it. key: as its Put had it."""

    queue: int
    position: int
    key: bytes = b""


@dataclass(slots=True)
class Count:
    """Keeps the redelivery count of a message; redelivered marks it even where the count is 0 (a clean stop)."""

    queue: int
    position: int
    redeliveries: int
    redelivered: bool = True


@dataclass(slots=True)
class SaveLedger:
    """The queue's ledger as it is after this batch: written once for each queue that the batch touches."""

    queue: int
    ledger: Ledger


@dataclass(slots=True)
class Delay:
    """Store a message until its time, which is not 0. Where it is at its place, the same batch has its Remove.

    held: the hash of the key that it holds meanwhile, 8 bytes; b"": it holds none.
    """

    queue: int
    due_ms: int
    position: int
    message: Message
    redeliveries: int = 0
    redelivered: bool = False
    held: bytes = b""


@dataclass(slots=True)
class MakeDue:
    """The message is no longer delayed: the same batch puts it at its place, or drops it. held: as of its Delay."""

    queue: int
    due_ms: int
    position: int
    held: bytes = b""


@dataclass(slots=True)
class KeepSettings:
    """What the queue was declared with at run time: JSON, its keys those of config.toml. It goes with a Retire."""

    queue: int
    text: str


@dataclass(slots=True)
class KeepDeclared:
    """A durable exchange or fanout that was declared at run time. kind: `exchange` or `fanout`; text: JSON."""

    kind: str
    name: str
    text: str


@dataclass(slots=True)
class DropDeclared:
    """An exchange or fanout is no longer declared, or config.toml declares it now."""

    kind: str
    name: str


@dataclass(slots=True)
class Bind:
    """Messages sent to that exchange with a matching key go into the queue. exchange "": topics."""

    exchange: str
    key: str
    queue: int


@dataclass(slots=True)
class Unbind:
    """Removes a binding. A Retire of the queue, or the end of the exchange, comes with one for each of its bindings."""

    exchange: str
    key: str
    queue: int


@dataclass(slots=True)
class Retire:
    """The queue is deleted: its name is free at once, its messages are swept later (also after a restart).

    stored: how many those are, as its ledger says after this batch.
    """

    queue: int
    name: str
    stored: int


@dataclass(slots=True)
class Sweep:
    """Delete the first `count` messages of a retired queue, delayed ones after the others. left: how many it has then;
    its row is deleted with the last of them. As many rows of keys go with them, or all, where there are fewer.
    """

    queue: int
    count: int
    left: int


@dataclass(slots=True)
class Remember:
    """Keep a dedup-id for the queue until that time (ms since the epoch)."""

    queue: int
    dedup_id: bytes
    until_ms: int


@dataclass(slots=True)
class Forget:
    """Drop up to `limit` dedup-ids whose time is before `before_ms`."""

    before_ms: int
    limit: int


@dataclass(frozen=True, slots=True)
class PeerStore:
    """The state of both hand-overs with a store that a linked node had before. The fields are those of KeepPeer."""

    store_id: str
    out_taken: int = 0
    out_offered: int = 0
    in_epoch: int = 0
    in_last: int = 0


@dataclass(slots=True)
class KeepPeer:
    """What is known of a linked node: written once for each that the batch touches.

    store_id: of the store that it had when last linked; earlier: those before, the latest last. out_*: of messages that
    this node hands over: the epoch of its last connection, the last sequence that the peer has taken, the last that was
    offered. in_*: of messages that the peer hands over: the highest epoch, and the last sequence accepted.
    """

    peer: str
    store_id: str
    out_epoch: int
    out_taken: int
    out_offered: int
    in_epoch: int
    in_last: int
    earlier: tuple[PeerStore, ...] = ()


@dataclass(slots=True)
class Doubt:
    """The message is offered to that node under that sequence: until it is settled it is given to nobody else."""

    peer: str
    sequence: int
    queue: int
    position: int


@dataclass(slots=True)
class Settle:
    """A message is no longer in doubt: the same batch removes it, or it is ready again."""

    peer: str
    sequence: int


@dataclass(slots=True)
class DeclareLog:
    """A log exists from now on, under this number and name. Numbers are those of queues, and never used again."""

    log: int
    name: str


@dataclass(slots=True)
class DropLog:
    """The log is deleted: its name is free at once, its positions go; each segment goes by a DropSegment, later."""

    log: int


@dataclass(slots=True)
class Append:
    """The next record of a partition. Those of one batch are without a gap, in order."""

    log: int
    partition: int
    offset: int
    message: Message


@dataclass(slots=True)
class AppendEvent:
    """The next records of the journal: events of the same batch, in order. offset: of the first of them."""

    log: int
    partition: int
    offset: int
    events: list[JournalEvent]


@dataclass(slots=True)
class KeepSegment:
    """A stretch of a partition as it is after this batch: written once for each that the batch touches.

    first: its first offset, which names it. begin: earlier records are no longer readable; count: how many records it
    has had; so it ends before first + count. size: their bytes. first_ms, last_ms: accepted; 0 where it has none.
    """

    log: int
    partition: int
    first: int
    begin: int
    count: int = 0
    size: int = 0
    first_ms: int = 0
    last_ms: int = 0


@dataclass(slots=True)
class KeepSegments:
    """The segments of a log that the batch has touched."""

    log: int
    segments: list[KeepSegment]


@dataclass(slots=True)
class DropSegment:
    """The oldest segment of a partition goes, with its records, which end before `end`."""

    log: int
    partition: int
    first: int
    end: int


@dataclass(slots=True)
class KeepPosition:
    """A group's position: for each partition of the log the first offset that it has not acked."""

    log: int
    group: str
    offsets: list[int]


@dataclass(slots=True)
class DropPosition:
    """The group is forgotten."""

    log: int
    group: str


@dataclass(slots=True)
class KeepTransaction:
    """A prepared transaction as it is after this batch. name: "" once it is committed: the name is free again.

    count, size: of all its SENDs; applied: how many of the first are in their destinations.
    """

    transaction: int
    name: str
    count: int
    size: int
    applied: int
    prepared_ms: int


@dataclass(slots=True)
class StorePrepared:
    """SENDs of a prepared transaction; times in them are absolute. first: the number of the first, counted from 0."""

    transaction: int
    first: int
    sends: list[Send]


@dataclass(slots=True)
class RemovePrepared:
    """SENDs of a transaction, from number `first` to `end`, are put into their destinations by this batch, or
    given up.
    """

    transaction: int
    first: int
    end: int


@dataclass(slots=True)
class DropTransaction:
    """A prepared transaction is finished: SENDs that RemovePrepared has not named are removed too."""

    transaction: int


@dataclass(slots=True)
class KeepApp:
    """The last version that was committed for a `producer-id`."""

    app: str
    version: int
    committed_ms: int


@dataclass(slots=True)
class DropApp:
    """An application is forgotten: nothing was committed for it for too long, or it asked for that."""

    app: str


@dataclass(slots=True)
class Upgrade:
    """The store has the present format from now on: tables that its earlier one lacked exist, and are empty. Written by
    the store itself, at its start.
    """

    from_format: int


@dataclass(slots=True)
class KeepNode:
    """The node that owns the store. Written by the store itself, at its first start with a node's name."""

    node: str


@dataclass(slots=True)
class BeginBoot:
    """A run begins. Written by the store itself, at its start: no later start gets this boot again.

    redelivered_below: messages of earlier boots than this were stored before an unclean stop.
    """

    boot: int
    redelivered_below: int


@dataclass(slots=True)
class KeepTime:
    """The broker's time, in milliseconds since the epoch: a start compares the system's clock with it."""

    ms: int


@dataclass(slots=True)
class StoppedClean:
    """The last write of a clean stop: the next start need not mark as redelivered what was not unacked."""


Write = (
    Declare
    | Put
    | Remove
    | Count
    | SaveLedger
    | Delay
    | MakeDue
    | KeepSettings
    | KeepDeclared
    | DropDeclared
    | Bind
    | Unbind
    | Retire
    | Sweep
    | Remember
    | Forget
    | KeepPeer
    | Doubt
    | Settle
    | DeclareLog
    | DropLog
    | Append
    | AppendEvent
    | KeepSegments
    | DropSegment
    | KeepPosition
    | DropPosition
    | KeepTransaction
    | StorePrepared
    | RemovePrepared
    | DropTransaction
    | KeepApp
    | DropApp
    | Upgrade
    | KeepNode
    | BeginBoot
    | KeepTime
    | StoppedClean
)
