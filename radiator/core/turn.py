"""A Turn is what one step of the broker wants done; a Batch is the part that must be on the disk first. Destinations
act through the TurnContext.

A reply that promises that something is on the disk is `held`: it exists only in its Batch, and is sent only in the turn
that handles `Committed`. So no receipt can be sent early.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from radiator.core.histogram import COMMIT_BUCKETS_MS, DELIVERY_BUCKETS_MS, Histogram
from radiator.core.queues.bounds import Passing, PassingQueue
from radiator.core.queues.due_soon import DueSoon
from radiator.core.queues.entry import Entry, PassingEntry
from radiator.core.states import State
from radiator.model.leases import Leased, Settled
from radiator.model.message import Message, message_id, position_of
from radiator.model.reads import ReadRequest
from radiator.model.replies import MESSAGE_COST_BYTES, Answered, Receipt, RefusedReceipt, Reply, Returned
from radiator.model.writes import Write

NoteValue = str | int | float | bool

# what a write costs in a batch besides the bytes of a message: the object, its key, its share of the ledger
WRITE_COST_BYTES = 64


@dataclass(slots=True)
class Note:
    """One event worth a log line. level: `info`, `warning` or `error`. Values may hold a client's words: the log
    escapes them.
    """

    level: str
    event: str
    fields: dict[str, NoteValue] = field(default_factory=dict)


@dataclass(slots=True)
class Turn:
    """Everything that one step wants done. `again`: there is work that needs no further event; is_background: some of
    it may wait until others have had their turn; `stopped`: no more replies will come. dials: name and address of each
    node to link with besides the configured ones. reread: a client asks for config.toml to be read again; applied: what
    was read is in force from this turn on; reread_over: the reload has ended, applied or not, and another may begin.
    not_ready: the REASONS (model/administration.py) to send clients elsewhere; None: they have not changed.
    wake_in_s: another turn is wanted then, whatever else happens; None: nothing is due soon.
    """

    replies: list[Reply] = field(default_factory=list)
    read_requests: list[ReadRequest] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    dials: Sequence[tuple[str, str]] = ()
    again: bool = False
    is_background: bool = False
    stopped: bool = False
    reread: bool = False
    applied: bool = False
    reread_over: bool = False
    not_ready: frozenset[str] | None = None
    wake_in_s: float | None = None


class Stored(Protocol):
    """A queue, or a node, that has a part in a batch."""

    def as_write(self) -> Write:
        """Returns its present row (a queue's ledger), to be written with the batch."""

    def committed(self, part: "QueueChanges") -> None:
        """Called when the batch, with its part, is on the disk."""

    def unawaited(self, part: "QueueChanges") -> int:
        """Returns how many of its writes in the open batch nobody waits for."""


class BackgroundTask(Protocol):
    """Work that goes on in slices. `step` does one slice, and adds the messages that it has handled to
    TurnContext.handled: once that reaches STEP_MESSAGES, no further task is stepped in this turn. `can_go_on`: another
    step would do something without a further event.
    """

    @property
    def is_done(self) -> bool: ...

    @property
    def can_go_on(self) -> bool: ...

    def step(self) -> None: ...


class QueueChanges:
    """The changes of a batch in one queue. storing, due, removing: the entries that it stores, releases from a delay
    and removes. passing: those of the stored ones that may not wait.

    beyond, delayed: how many messages it stores beyond the window, and as delayed; these are only on the disk.
    """

    __slots__ = ("beyond", "delayed", "due", "passing", "removing", "storing")

    def __init__(self) -> None:
        # not a dataclass: a fanout needs one for each of its queues, and the factories would double its cost
        self.beyond = self.delayed = 0
        self.storing: list[Entry] = []
        self.passing: list[Passing] = []
        self.due: list[Entry] = []
        self.removing: list[Entry] = []


def entry_for(
    queue: PassingQueue, position: int, message: Message, state: State, size: int, passing: list[Passing]
) -> Entry:
    """Returns the entry of a message that the queue accepts now. One that may not wait (queues/passing.py) is also
    added to `passing`.
    """
    if 0 < message.expires_ms == message.accepted_ms or queue.keeps_nothing:
        entry = PassingEntry(position, message, state, size)
        passing.append((queue, entry))
        return entry
    return Entry(position, message, state, size)


@dataclass(slots=True)
class Batch:
    """The changes that one commit must make durable, and what waits for it.

    held: replies that are sent, in this order, once the batch is on the disk.
    then: functions called after that (the memory part of a transaction). sealed_s, sealed_ms: the time of the turn
    that sealed it, by the broker's clock.
    """

    number: int
    writes: list[Write] = field(default_factory=list)
    size: int = 0
    parts: dict[Stored, QueueChanges] = field(default_factory=dict)
    held: list[Reply] = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)
    sealed_s: float = 0.0
    sealed_ms: int = 0

    @property
    def disk_bytes(self) -> int:
        """The most room that it will take on the disk, in bytes."""
        return self.size + self.size // 2


def reply_cost_bytes(reply: Reply) -> int:
    """Returns the memory that a reply takes while it is held, in bytes."""
    if type(reply) is Receipt:
        return MESSAGE_COST_BYTES + len(reply.receipt)
    if isinstance(reply, RefusedReceipt):
        return MESSAGE_COST_BYTES + len(reply.receipt) + len(reply.sentence)
    if isinstance(reply, Answered):
        return MESSAGE_COST_BYTES + len(reply.body) + sum(map(len, reply.more))
    if isinstance(reply, Leased):
        return MESSAGE_COST_BYTES + sum(MESSAGE_COST_BYTES + one.message.size for one in reply.messages)
    if isinstance(reply, Returned):
        return MESSAGE_COST_BYTES + len(reply.headers) + len(reply.body)
    if isinstance(reply, Settled):
        return MESSAGE_COST_BYTES * (1 + len(reply.verdicts))
    return MESSAGE_COST_BYTES


class TurnContext:
    """The actions that a destination may take, and the time of this turn. A broker has one for its whole life.

    now_s: monotonic seconds; now_ms: milliseconds since the epoch. At most two batches exist: `open` fills while
    `being_committed` is being committed. deliveries: how long messages of queues took until their first delivery;
    commits: how long batches took from their seal until they were on the disk.
    """

    __slots__ = (
        "being_committed",
        "boot",
        "commits",
        "committed",
        "counters",
        "dead_letters_cost",
        "deliveries",
        "due_soon",
        "first_position",
        "on_forbidden",
        "handled",
        "id_beginning",
        "is_stopping",
        "now_ms",
        "now_s",
        "open",
        "passing",
        "sequence",
        "settled_cost",
        "store_id",
        "turn",
        "turn_number",
        "schedule",
    )

    def __init__(self, store_id: str, boot: int) -> None:
        self.store_id = store_id
        self.boot = boot
        self.sequence = 0
        self.first_position = position_of(boot, 0)
        self.id_beginning = message_id(store_id, self.first_position)[:-1]  # all ids of this boot begin with it
        self.now_s = 0.0
        self.now_ms = 0
        self.turn = Turn()
        self.turn_number = 0
        self.handled = 0  # messages that long-running tasks have handled in this turn
        self.dead_letters_cost = 0  # the cost of the dead letters made in this turn, measured against COMMANDS_PER_TURN
        self.settled_cost = 0  # the part of it that NACKs and settlements have caused (deliveries.py)
        self.open = Batch(1)
        # what has become READY in this turn, and may not wait
        self.passing: list[Passing] = []
        self.due_soon = DueSoon()
        self.being_committed: Batch | None = None
        self.committed = 0
        self.is_stopping = False  # True: nothing new is begun
        self.counters: dict[str, int] = {}
        self.deliveries = Histogram(DELIVERY_BUCKETS_MS)
        self.commits = Histogram(COMMIT_BUCKETS_MS)
        self.on_forbidden: Callable[[Any, str], None]  # writes down which right a connection lacks
        self.schedule: Callable[[BackgroundTask], None]  # starts a background task, at the end of this turn

    @property
    def batches(self) -> int:
        """The number of batches sealed since the start."""
        return self.open.number - 1

    def next_position(self) -> int:
        """Returns a position that was never assigned before."""
        # D8: the store has committed `boot` before the first use
        self.sequence += 1
        return self.first_position + self.sequence

    @property
    def last_position(self) -> int:
        """The position that was assigned last."""
        return self.first_position + self.sequence

    def message_id(self, position: int) -> bytes:
        """Returns the id that clients see for this position, of this boot (which is cheaper) or an earlier one."""
        if position > self.first_position:
            return b"%b%d" % (self.id_beginning, position - self.first_position)
        return message_id(self.store_id, position)

    def part(self, queue: Stored) -> QueueChanges:
        """Returns the queue's part of the open batch; calling this makes the batch save the queue's ledger."""
        part = self.open.parts.get(queue)
        if part is None:
            part = self.open.parts[queue] = QueueChanges()
        return part

    def uncommitted(self, queue: Stored) -> Iterator[QueueChanges]:
        """Yields the queue's parts of the batches that are not on the disk yet."""
        for batch in (self.being_committed, self.open):
            if batch is not None and batch.number > self.committed and queue in batch.parts:
                yield batch.parts[queue]

    def write(self, word: Write, size: int = WRITE_COST_BYTES) -> None:
        """Adds a write to the open batch."""
        self.open.writes.append(word)
        self.open.size += size

    def batch(self, number: int) -> Batch | None:
        """Returns the batch of that number, if it is not on the disk yet."""
        if number == self.open.number:
            return self.open
        return (
            self.being_committed if self.being_committed is not None and self.being_committed.number == number else None
        )

    def post(self, reply: Reply) -> None:
        """Sends this reply with the present turn."""
        self.turn.replies.append(reply)

    def note(self, level: str, event: str, **fields: NoteValue) -> None:
        """Adds a line to the log."""
        self.turn.notes.append(Note(level, event, fields))

    def count(self, name: str, number: int = 1) -> None:
        """Adds to one of the flat counters that `stats` shows."""
        self.counters[name] = self.counters.get(name, 0) + number
