"""Reads that the broker may ask for, and their answers, which come as events.

A read sees the last committed state, nothing of a batch that is open or being committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from radiator.model.journal import JournalEvent
from radiator.model.message import Message


@dataclass(slots=True)
class ReadQueue:
    """The queue's messages after a position (0: from its head), in order, up to either limit, at least one if there is
    any. With `positions`, ascending: those of them that are there, whatever the limits; with `part`, of each body only
    from that byte on so many.
    """

    request: int
    queue: int
    after: int
    messages_max: int
    bytes_max: int
    positions: Sequence[int] = ()
    part: tuple[int, int] | None = None


@dataclass(slots=True)
class ReadKeys:
    """The queue's messages of these keys: of each, those after its position and not after `through`, in order, at most
    messages_max. keys: hashes, and the position of each (0: from the first). They are read in this order, up to
    bytes_max for all together, at least one message if there is any.
    """

    request: int
    queue: int
    keys: Sequence[tuple[bytes, int]]
    through: int
    messages_max: int
    bytes_max: int


@dataclass(slots=True)
class ReadHeld:
    """Which of the queue's delayed messages hold their keys: up to count_max of those after a position, in order."""

    request: int
    queue: int
    after: int
    count_max: int


@dataclass(slots=True)
class ReadDelayed:
    """The queue's delayed messages that are due before a time, in the order of time and then position, up to either
    limit, at least one if there is any; damaged ones count for no limit. Only those after a time and a position (0 and
    0: from the first).
    """

    request: int
    queue: int
    before_ms: int
    messages_max: int
    bytes_max: int
    after_ms: int = 0
    after: int = 0


@dataclass(slots=True)
class DedupLookup:
    """Whether a dedup-id is remembered for the queue, and not past its time at `now_ms`."""

    request: int
    queue: int
    dedup_id: bytes
    now_ms: int


@dataclass(slots=True)
class ReadLog:
    """Records of a partition from that offset on, in order, up to either limit, at least one if any is there."""

    request: int
    log: int
    partition: int
    offset: int
    messages_max: int
    bytes_max: int


@dataclass(slots=True)
class ReadPrepared:
    """SENDs of a prepared transaction from that number on, in order, up to either limit; if any is there, one."""

    request: int
    transaction: int
    first: int
    messages_max: int
    bytes_max: int


@dataclass(slots=True)
class ReadEvents:
    """Events of the journal from that offset on and below `end`, in order: those that are about one of these messages,
    by their positions, or, with trace_id or correlation_id, whose message was accepted with it. One slice of a search:
    it ends after so much work, of which searching a byte is 1, but has looked at one block at least.
    """

    request: int
    log: int
    offset: int
    end: int
    positions: frozenset[int]
    trace_id: str
    work_max: int
    correlation_id: str = ""


ReadRequest = ReadQueue | ReadKeys | ReadHeld | ReadDelayed | DedupLookup | ReadLog | ReadPrepared | ReadEvents


@dataclass(slots=True)
class StoredMessage:
    """One message read back. redelivered: marked so on disk, or stored before an unclean stop. body_bytes: of the whole
    body, where only a part of it was asked for.

    message: None where the record is damaged: it stays where it is, is never delivered, and is reported.
    """

    position: int
    message: Message | None
    redeliveries: int
    redelivered: bool
    body_bytes: int | None = None


@dataclass(slots=True)
class Loaded:
    """The answer to a ReadQueue: the messages of the queue after a position, in order, as last committed.

    `request` is the number of the ReadQueue. has_more: whether the queue has further ones after them.
    """

    request: int
    messages: list[StoredMessage] = field(default_factory=list)
    has_more: bool = False


@dataclass(slots=True)
class KeyMessages:
    """The messages of one key. is_complete: it has no further ones up to `through`. False, without messages: it was not
    reached.
    """

    messages: list[StoredMessage] = field(default_factory=list)
    is_complete: bool = False


@dataclass(slots=True)
class LoadedKeys:
    """The answer to a ReadKeys: in the order of its keys, one for each."""

    request: int
    found: list[KeyMessages] = field(default_factory=list)


@dataclass(slots=True)
class LoadedHeld:
    """The answer to a ReadHeld: positions, and the hashes of the keys. has_more: there are further ones after them."""

    request: int
    held: list[tuple[int, bytes]] = field(default_factory=list)
    has_more: bool = False


@dataclass(slots=True)
class StoredDelayed:
    """One delayed message read back: see StoredMessage. It stays delayed until a MakeDue, a damaged one for good."""

    due_ms: int
    stored: StoredMessage


@dataclass(slots=True)
class LoadedDelayed:
    """The answer to a ReadDelayed. next_due_ms: of the first delayed one that is not in the answer; 0: none is left."""

    request: int
    messages: list[StoredDelayed] = field(default_factory=list)
    next_due_ms: int = 0


@dataclass(slots=True)
class StoredRecord:
    """One record of a log read back. message: None where it is damaged: it is skipped, and reported."""

    offset: int
    message: Message | None


@dataclass(slots=True)
class LoadedLog:
    """The answer to a ReadLog. An empty list: there is none from there on, as last committed."""

    request: int
    records: list[StoredRecord] = field(default_factory=list)


@dataclass(slots=True)
class LoadedEvents:
    """The answer to a ReadEvents: events with their offsets. next: where the search goes on; from `end` on it is over,
    as last committed. What is damaged is passed over.
    """

    request: int
    events: list[tuple[int, JournalEvent]] = field(default_factory=list)
    next: int = 0


@dataclass(slots=True)
class Found:
    """The answer to a DedupLookup: whether the dedup-id is remembered in the last committed state, not yet
    forgotten."""

    request: int
    found: bool
