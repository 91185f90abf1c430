"""Where a delayed message of a queue on the disk goes when its time has come."""

from typing import Protocol

from radiator.core.journal_writer import JournalWriter
from radiator.core.queues.delayed import Delayed
from radiator.core.queues.entry import DelayedEntry, Entry, Stub
from radiator.core.queues.purge import Purge
from radiator.core.queues.window import Window
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import WRITE_COST_BYTES, Stored, TurnContext
from radiator.model.journal import DUE
from radiator.model.message import Message
from radiator.model.reads import StoredMessage
from radiator.model.writes import Count, Put

PASSED_OVER_MS = 5000  # how long a message that must let others go first is not read again; there may be very many


class DueQueue(Stored, Protocol):
    """What Due needs of its queue."""

    name: str
    number: int
    journal: JournalWriter | None
    purge: Purge
    delayed: Delayed

    def expire(self, entry: Entry) -> None:
        """Removes a message whose time to live is over."""


class Due:
    """Puts due messages of one queue at their places."""

    __slots__ = ("context", "queue", "window")

    def __init__(self, queue: DueQueue, window: Window, context: TurnContext) -> None:
        self.queue = queue
        self.window = window
        self.context = context

    def place(self, due_ms: int, message: Message, stored: StoredMessage) -> bool:
        """Moves a message DELAYED -> DUE, to its own place, unless it has expired or is purged. Returns False if the
        window has no room for it. A place beyond the window needs no room.
        """
        queue, window, position, size = self.queue, self.window, stored.position, message.size
        redeliveries, redelivered = stored.redeliveries, stored.redelivered
        was_out = redeliveries > 0  # what another node hands over is delayed only when it has come back
        entry = DelayedEntry(position, message, State.DELAYED, size, redeliveries, redelivered, was_out, due_ms)
        if queue.purge.through:
            if queue.purge.spares(position):
                queue.delayed.pass_over(due_ms)
            else:
                queue.purge.let_go(entry)
            return True
        # a message that is due when it expires has expired, even if the clock was set back since the read
        if 0 < message.expires_ms <= max(due_ms, self.context.now_ms):
            queue.expire(entry)
            return True
        fits = window.takes(size)
        is_behind = position > window.end
        is_apart = self.is_apart(message, position)
        # an empty window takes a message of any size, as a stub if need be: otherwise it would never be asked for
        is_stub = not (fits or is_behind or is_apart) and (window.count == 0 or self.is_awaited(entry))
        if not (fits or is_behind or is_apart or is_stub):
            if self.is_before_others():
                queue.delayed.pass_over(self.context.now_ms + PASSED_OVER_MS)
                return True
            queue.delayed.blocked_bytes = max(1, size)
            return False
        # D20: the MakeDue and the Put are in one batch
        queue.delayed.end_delay(entry)
        self.context.write(Put(queue.number, position, message, self.hash_of(message)), size + WRITE_COST_BYTES)
        if entry.redeliveries:
            self.context.write(Count(queue.number, position, entry.redeliveries))
        move(entry, Event.DUE, PERSISTENT_MOVES)
        if queue.journal is not None:
            queue.journal.write(DUE, queue.name, entry)
        part = self.context.part(queue)
        if is_apart:
            self.is_beyond(message, position, is_apart=True)
            return True
        if is_behind and (window.beyond or not fits):
            window.beyond += 1
            part.beyond += 1
            self.is_beyond(message, position, is_apart=False)
            return True
        if is_behind:
            window.end = position
        window.due[position] = entry
        part.due.append(entry)
        self.is_coming(entry)
        if is_stub:
            entry.message = Stub(message)
            window.add_stub(size)
        else:
            window.add(size)
        return True

    # ---- what differs in a partitioned queue (key_due.py) -----------------------------------------------------------

    def hash_of(self, message: Message) -> bytes:
        """Returns the hash of the message's key; b"": it has none."""
        return b""

    def hash_held(self, entry: DelayedEntry) -> bytes:
        """Returns the hash of the key that a delayed message holds; b"": it holds none."""
        return b""

    def is_apart(self, message: Message, position: int) -> bool:
        """Whether its place is among messages of its key that were passed over and are read back with that key."""
        return False

    def is_awaited(self, entry: DelayedEntry) -> bool:
        """Whether other messages wait for it: then it needs no room."""
        return False

    def is_before_others(self) -> bool:
        """Whether a message that is due later must get its place first, or there would never be room."""
        return False

    def is_beyond(self, message: Message, position: int, *, is_apart: bool) -> None:
        """Called when it is on its way to a place from which it is read back."""

    def is_coming(self, entry: Entry) -> None:
        """Called when it is in memory, and on its way to READY."""
