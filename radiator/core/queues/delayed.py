"""The delayed messages of one persistent queue. They are only on the disk, ordered by the time when each is due;
however many there are, memory keeps only the time when the first is due.

When that time has come, a *pass* reads them back in slices, from the first on. A message that finds no room stays where
it is, and the pass goes on when there is room. A purge is a pass over all of them.
"""

from typing import Protocol

from radiator.core.queues.due_soon import TimedQueue
from radiator.core.queues.entry import DelayedEntry
from radiator.core.queues.purge import Purge
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.core.turn import WRITE_COST_BYTES, Stored, TurnContext
from radiator.model.errors import StoreError, count_text
from radiator.model.limits import COMMANDS_PER_TURN, LOAD_BYTES, LOAD_MESSAGES, TIME_MAX_MS
from radiator.model.message import Message
from radiator.model.reads import LoadedDelayed, ReadDelayed, StoredMessage
from radiator.model.writes import Delay, MakeDue

_FIRST = (0, 0)
_ALL_MS = 2 * TIME_MAX_MS + 1  # later than any time that can be asked for


class DelayingQueue(Stored, TimedQueue, Protocol):
    """What Delayed needs of its queue."""

    name: str
    number: int
    is_gone: bool
    window: Window
    windows: Windows
    purge: Purge

    @property
    def ready_count(self) -> int:
        """The number of messages that a consumer could be given now or after a read."""

    @property
    def held_keys_bytes(self) -> int:
        """The memory of the keys that delays hold: from `Windows.held_max` on, nothing is delivered."""

    def make_due(self, due_ms: int, message: Message, stored: StoredMessage) -> bool:
        """Puts a due message at its place. Returns False if there is no room for it."""

    def report_damaged(self, position: int) -> None:
        """Reports a message that cannot be read: nothing waits for it any longer."""

    def hash_held(self, entry: DelayedEntry) -> bytes:
        """Returns the hash of the key that it holds."""

    def released(self) -> None:
        """Called when a slice of due messages has gone to its places."""


class Delayed:
    """place: how far the pass under way has come, as time and position; _FIRST: it has just begun, or there is none.
    blocked_bytes: the size of the message that found no room, 0: none. unseen: batches not yet on the disk -> the
    earliest due time in each; late_ms: the earliest due time that the pass under way may have missed, 0: none.
    released_in: the last batch that releases messages; begin_after: the batch that must be on the disk before the next
    pass begins. is_stale: the read under way belongs to a pass that is over. left: how many messages the pass under way
    must still find, if it goes on to the last one. at_once: how many the next read of it brings; fewer than
    LOAD_MESSAGES if these become dead letters. damaged: those that were reported.
    """

    __slots__ = (
        "at_once", "begin_after", "blocked_bytes", "damaged", "context", "is_asking", "is_stale", "late_ms", "left",
        "place", "queue", "unseen", "released_in",
    )  # fmt: skip

    def __init__(self, queue: DelayingQueue, context: TurnContext) -> None:
        self.queue = queue
        self.context = context
        self.place = _FIRST
        self.blocked_bytes = 0
        self.unseen: dict[int, int] = {}
        self.late_ms = 0
        self.released_in = 0
        self.begin_after = 0
        self.is_asking = False
        self.is_stale = False
        self.left = 0
        self.at_once = LOAD_MESSAGES
        self.damaged: set[tuple[int, int]] = set()

    # ---- in and out -------------------------------------------------------------------------------------------------

    def add(
        self,
        due_ms: int,
        position: int,
        message: Message,
        redeliveries: int = 0,
        redelivered: bool = False,
        held: bytes = b"",
    ) -> None:
        """Stores a delayed message in the open batch, and counts it. One that expires before due_ms is due when it
        expires. held: the hash of the key that it holds.
        """
        queue, context, size = self.queue, self.context, message.size
        if message.expires_ms:
            due_ms = min(due_ms, message.expires_ms)
        queue.ledger.stored_delayed += 1
        queue.ledger.stored_delayed_bytes += size
        context.part(queue).delayed += 1
        delay = Delay(queue.number, due_ms, position, message, redeliveries, redelivered, held)
        context.write(delay, size + WRITE_COST_BYTES)
        number = context.open.number
        self.unseen[number] = min(due_ms, self.unseen.get(number, due_ms))
        queue.next_due_ms = _earlier(queue.next_due_ms, due_ms)
        context.due_soon.add(queue, due_ms, context.now_ms)

    def end_delay(self, entry: DelayedEntry) -> None:
        """Ends a message's delay: in the same batch the caller puts it at its place, or removes it."""
        queue, context = self.queue, self.context
        queue.ledger.stored_delayed -= 1
        queue.ledger.stored_delayed_bytes -= entry.size
        context.part(queue)
        context.write(MakeDue(queue.number, entry.due_ms, entry.position, queue.hash_held(entry)))
        queue.windows.count_released(entry.size)
        self.released_in = context.open.number

    def committed(self) -> None:
        """Called when a batch that has changes of this queue is on the disk."""
        for number in [number for number in self.unseen if number <= self.context.committed]:
            due_ms = self.unseen.pop(number)
            if self.is_asking or self.place != _FIRST:
                self.late_ms = _earlier(self.late_ms, due_ms)

    # ---- a pass -----------------------------------------------------------------------------------------------------

    def begin_anew(self) -> None:
        """Ends the pass; the next begins only once the open batch is on the disk, so that it sees that batch too."""
        self.place = _FIRST
        self.blocked_bytes = 0
        self.is_stale = self.is_asking
        self.begin_after = self.context.open.number
        self.context.part(self.queue)

    def ask(self) -> None:
        """Asks for the next slice, unless it must wait for an answer, the disk, the next batch or room in the window.

        While the disk is short of room, it asks only if nothing else can be delivered: a message may take more room on
        the disk at its own place.
        """
        queue, context = self.queue, self.context
        if queue.is_gone or queue.window.is_loading:
            return
        can_deliver = queue.ready_count > 0 and queue.held_keys_bytes < queue.windows.held_max
        if queue.windows.is_disk_tight and can_deliver and not queue.purge.through:
            return
        if queue.windows.have_released_enough(context):
            context.part(queue)  # `committed` goes on
        elif self.place == _FIRST and max(self.begin_after, self.released_in) > context.committed:
            pass  # what was released would be found again; `committed` goes on
        elif not self.blocked_bytes or queue.window.takes_again(self.blocked_bytes):
            queue.windows.ask_delayed(context, self)

    def read_request(self) -> ReadDelayed:
        """Returns the request for the next slice."""
        if self.place == _FIRST:
            self.late_ms = 0
            self.at_once = LOAD_MESSAGES
            # what is not on the disk yet may be missing; what was released or purged is off it, or no pass would begin
            unseen = sum(part.delayed for part in self.context.uncommitted(self.queue))
            self.left = self.queue.ledger.stored_delayed - unseen
        self.blocked_bytes = 0
        self.is_asking = self.queue.window.is_loading = True
        before_ms = _ALL_MS if self.queue.purge.through else self.context.now_ms + 1
        request = self.context.next_position()
        return ReadDelayed(request, self.queue.number, before_ms, self.at_once, LOAD_BYTES, *self.place)

    def answered(self, answer: LoadedDelayed) -> None:
        """Called with a slice: the queue places each message, in order, until one finds no room, or as many have become
        dead letters as a turn has time for. The last slice ends the pass.
        """
        queue, context = self.queue, self.context
        before = context.dead_letters_cost
        self.is_asking = False
        if self.is_stale:
            self.is_stale = False
        elif not queue.is_gone:
            self.assert_in_order(answer)
            # what was delayed since this was asked for may be in it, and due only by the clock as it was then
            since_ms = _earlier(self.late_ms, min(self.unseen.values(), default=0))
            for count, row in enumerate(answer.messages):
                is_new = 0 < since_ms <= row.due_ms and row.due_ms > context.now_ms
                if is_new and not queue.purge.through:
                    self.end(row.due_ms)
                    break
                if context.dead_letters_cost - before >= COMMANDS_PER_TURN:
                    # the rest must be read again: the next read brings only as many as were placed
                    self.at_once = count
                    break
                if queue.windows.have_released_enough(context) or not self.make_due(row.due_ms, row.stored):
                    break
                self.place = (row.due_ms, row.stored.position)
                self.left -= 1
            else:
                next_ms = answer.next_due_ms
                if not next_ms and self.left > 0:
                    missing = count_text(self.left, "further one")
                    raise StoreError(f"the delayed messages of /queue/{queue.name} end, but its ledger has {missing}")
                if not next_ms or (next_ms > context.now_ms and not queue.purge.through):
                    self.end(next_ms)
        queue.window.is_loading = False
        queue.released()

    def assert_in_order(self, answer: LoadedDelayed) -> None:
        """Raises StoreError, a clause, if what was read back cannot be what was written."""
        # D32: as for messages at their places
        last = self.place
        for row in answer.messages:
            place = (row.due_ms, row.stored.position)
            if place <= last:
                raise StoreError(f"/queue/{self.queue.name} has delayed message {place[1]:x} after {last[1]:x}")
            last = place

    def make_due(self, due_ms: int, stored: StoredMessage) -> bool:
        """Puts a message at its place; False: no room. A damaged one stays where it is, and is reported once."""
        if stored.message is not None:
            return self.queue.make_due(due_ms, stored.message, stored)
        if (due_ms, stored.position) not in self.damaged:
            self.damaged.add((due_ms, stored.position))
            self.queue.report_damaged(stored.position)
        return True

    def pass_over(self, due_ms: int) -> None:
        """Leaves the message for the next pass."""
        self.late_ms = _earlier(self.late_ms, due_ms)

    def end(self, next_due_ms: int) -> None:
        """Ends the pass, and notes when the next message is due, among those that came in meanwhile too."""
        self.place = _FIRST
        next_due_ms = _earlier(next_due_ms, self.late_ms)
        for number, due_ms in self.unseen.items():
            next_due_ms = _earlier(next_due_ms, due_ms)
            self.begin_after = max(self.begin_after, number)
        self.queue.next_due_ms = next_due_ms
        if next_due_ms > self.context.now_ms:
            self.context.due_soon.add(self.queue, next_due_ms, self.context.now_ms)
        self.queue.purge.is_of_delayed = False


def _earlier(one_ms: int, other_ms: int) -> int:
    """Returns the earlier of two times; 0 is none."""
    return min(one_ms, other_ms) if one_ms and other_ms else one_ms or other_ms
