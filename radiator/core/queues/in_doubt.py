"""Messages of one queue that are in doubt: offered to another node, which has not yet confirmed that it has them on its
disk (cluster/handover.py). Until the offer is settled, no consumer and no other node gets them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from radiator.core.journal_writer import JournalWriter
from radiator.core.queues.entry import Entry
from radiator.core.queues.window import Window
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import Stored, TurnContext
from radiator.model.message import Message
from radiator.model.reads import StoredMessage
from radiator.model.writes import Ledger, Remove


class OfferingQueue(Stored, Protocol):
    """What InDoubt needs of its queue."""

    name: str
    number: int
    ledger: Ledger
    journal: JournalWriter | None

    def leave(self, entry: Entry, event: Event) -> None:
        """Removes the entry from the queue; the caller has already counted it in the ledger."""

    def unblock_waiters(self) -> None:
        """Called when there is room for more."""

    def report_damaged(self, position: int) -> None:
        """Reports a message that cannot be read."""


class InDoubt:
    """entries: by position; None: not read back since the start (`unread` of them). size: the bytes of all.
    taken_unread: unread ones that have left, to the other node or picked out (picking.py), but that a read under way
    may bring; forgotten_in: the last batch whose picked ones were dropped from it. freed_unread: those released as
    redelivered, so READY again. aside: those found that no link can carry; some may have left.
    """

    __slots__ = (
        "aside", "context", "entries", "forgotten_in", "freed_unread", "queue", "size", "taken_unread", "unread",
        "window",
    )  # fmt: skip

    def __init__(self, queue: OfferingQueue, window: Window, context: TurnContext) -> None:
        self.queue = queue
        self.window = window
        self.context = context
        self.entries: dict[int, Entry | None] = {}
        self.size = 0
        self.unread = 0
        self.aside: set[int] = set()
        self.taken_unread: set[int] = set()
        self.forgotten_in = 0
        self.freed_unread: set[int] = set()

    def recover(self, position: int, size: int) -> None:
        """Restores a message that was in doubt when the broker started."""
        self.entries[position] = None
        self.unread += 1
        self.size += size

    def offer(self, entry: Entry) -> None:
        """Moves READY -> IN_DOUBT an entry taken from the head, to be offered to another node."""
        move(entry, Event.OFFER, PERSISTENT_MOVES)
        self.entries[entry.position] = entry
        self.size += entry.size

    def give_back(self, position: int, size: int, redelivered: bool = False) -> None:
        """Moves IN_DOUBT -> READY, at its own place. redelivered: a consumer of the other node may have had it."""
        entry, window = self.entries.pop(position), self.window
        self.size -= size
        if entry is None:
            self.unread -= 1  # it is read back as READY, when its turn comes
            if redelivered and position > window.end:
                self.freed_unread.add(position)  # a read under way does not see the mark
            if position <= window.end:  # its turn has passed without it: it is damaged
                window.beyond -= 1
                self.queue.report_damaged(position)
            return
        entry.redelivered = entry.redelivered or redelivered
        move(entry, Event.NOT_TAKEN, PERSISTENT_MOVES)
        window.put_back(entry)

    def taken(self, position: int, size: int, expires: bool) -> None:
        """Moves IN_DOUBT -> REMOVING: another node has confirmed that it has the message, which counts as the ack."""
        entry, window, queue = self.entries.pop(position), self.window, self.queue
        self.size -= size
        ledger = queue.ledger
        ledger.acked += 1
        ledger.acked_bytes += size
        if entry is not None:
            queue.leave(entry, Event.TAKEN)
            return
        self.unread -= 1
        ledger.stored -= 1
        ledger.stored_bytes -= size
        ledger.stored_expiring -= expires
        window.beyond -= 1
        if position > window.end:
            self.taken_unread.add(position)
        self.context.part(queue)
        self.context.write(Remove(queue.number, position))
        queue.unblock_waiters()

    def journal_handed_over(self, position: int, size: int, node: str) -> None:
        """Writes to the journal which node has the message."""
        if self.queue.journal is not None:
            entry = self.entries[position]  # None: not read back since the start
            redeliveries = 0 if entry is None else entry.redeliveries
            self.queue.journal.handed_over(self.queue.name, position, size, redeliveries, node)

    # ---- as stretches of the queue are read back (read_back.py) -----------------------------------------------------

    def passes_over(self, stored: StoredMessage) -> bool:
        """Whether a message that was read back is skipped, neither READY nor counted as read: the other node has it, or
        it is in doubt and damaged, and stays beyond the window until the link settles it.
        """
        if stored.position in self.taken_unread:
            self.taken_unread.discard(stored.position)
            return True
        return stored.message is None and stored.position in self.entries

    def count_passed_over(self, messages: Sequence[StoredMessage], behind: int) -> int:
        """Returns what to add to `window.beyond - len(messages)` for the number still to be read. `messages` were read
        back after position `behind`: those in taken_unread no longer count as beyond (+1 each). In-doubt damaged ones
        of earlier answers still do, until the link settles them (-1 each).
        """
        count = 0
        if self.taken_unread:
            count += sum(1 for stored in messages if stored.position in self.taken_unread)
        if self.unread:
            count -= sum(1 for position, entry in self.entries.items() if entry is None and position <= behind)
        return count

    def is_marked(self, stored: StoredMessage) -> bool:
        """Whether a message is marked as redelivered: on the disk, or since the read began."""
        if stored.position not in self.freed_unread:
            return stored.redelivered
        self.freed_unread.discard(stored.position)
        return True

    def takes(self, stored: StoredMessage, message: Message) -> bool:
        """Whether a message that was read back is in doubt."""
        position = stored.position
        if position not in self.entries:
            return False
        # D17: as it was before the start
        size = message.size
        self.entries[position] = Entry(position, message, State.IN_DOUBT, size, stored.redeliveries, stored.redelivered)
        self.unread -= 1
        self.window.windows.out += size
        return True

    def read_up_to(self, position: int) -> None:
        """Called when everything up to that position has been read back."""
        if self.taken_unread:
            self.taken_unread = {taken for taken in self.taken_unread if taken > position}

    def forget(self, picked: Sequence[int], batch: int) -> None:
        """Called when the batch that removes the picked messages is on the disk: no read that begins now brings them.
        A read under way may, so then they are kept until the window has passed them.
        """
        if not self.window.is_loading:
            self.taken_unread.difference_update(picked)
            self.forgotten_in = batch

    # ---- what no link can carry -------------------------------------------------------------------------------------

    def set_aside(self, position: int) -> bool:
        """Leaves the message to consumers of this node; returns whether that is new."""
        is_new = position not in self.aside
        self.aside.add(position)
        return is_new

    def still_aside(self, in_memory: Callable[[], Iterator[Entry]]) -> int:
        """Forgets messages set aside that have left the queue, and returns how many are left."""
        if self.aside:
            self.aside.intersection_update([entry.position for entry in in_memory()])
        return len(self.aside)
