"""Drops the oldest messages of a queue that holds more than its bounds. Very many may have to go at once, after a large
transaction or a reload that lowers a bound: this goes on in slices, and producers wait until it is done.
"""

from typing import Protocol

from radiator.core.queues.bounds import BoundedQueue, PassingQueue, fits, held_fast, push_out
from radiator.core.states import Event
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal
from radiator.model.limits import BATCH_BYTES, COMMANDS_PER_TURN, STEP_MESSAGES
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, READY


class EvictedQueue(PassingQueue, BoundedQueue, Protocol):
    """The part of a queue that dropping its oldest messages needs."""

    context: TurnContext

    def unblock_waiters(self) -> None:
        """Called when there may be room for waiting producers."""


def may_evict(queue: EvictedQueue, messages: int, size: int) -> bool:
    """Whether dropping the oldest that are not in flight makes room. False: they must be read back first, or the queue
    exceeds its bounds by many, as after a reload that has lowered them: it is brought back to them in slices. Raises
    Refusal `queue-full`.
    """
    held, held_bytes = held_fast(queue)
    if not fits(queue, held + messages, held_bytes + size):
        raise Refusal(
            "queue-full",
            f"/queue/{queue.name} is full, and too many of its messages ({held}) are unacked or delayed to drop "
            "the oldest.",
        )
    if exceeds_by_many(queue):
        begin(queue)
        return False
    beyond, beyond_bytes = queue.beyond_memory()
    if fits(queue, held + beyond + messages, held_bytes + beyond_bytes + size):
        return True
    queue.refill(is_needed=True)
    return False


def exceeds_by_many(queue: EvictedQueue) -> bool:
    """Whether more messages exceed its bounds than one turn has time for. If bytes do, all may have to go."""
    if queue.has_capacity(0, 0):
        return False
    unacked, unacked_bytes = queue.uncounted()
    held, most = queue.ledger.stored - unacked, queue.settings.max_messages
    if not fits(queue, 0, queue.ledger.stored_bytes - unacked_bytes):
        return held > COMMANDS_PER_TURN
    return most is not None and held + queue.reserved - most > COMMANDS_PER_TURN


def evict(queue: EvictedQueue, messages: int, size: int) -> None:
    """Drops the oldest messages until there is room for that many more, but no more than a slice of them: the rest goes
    once the new messages are there. Drops none of a queue that keeps nothing. The queue may still exceed its bound by
    dead letters of other queues of the same plan that came in since `judge`: dead letters always may.
    """
    context, dropped = queue.context, 0
    while not (queue.keeps_nothing or queue.has_capacity(messages, size)):
        if dropped >= STEP_MESSAGES or (dropped and context.dead_letters_cost >= COMMANDS_PER_TURN):
            if queue.settings.bounds_count != READY:  # else came_back sees to it, once they are ready
                begin(queue)
            break
        entry = queue.oldest()
        if entry is None:
            break
        dropped += 1
        push_out(queue, entry, Event.DROP)
    if dropped:
        queue.watch_head()


def came_in(queue: EvictedQueue) -> None:
    """Called when a transaction has brought messages that are ready at once. A queue that keeps nothing drops none yet:
    consumers may take them until the turn ends (passing.py).
    """
    if not queue.keeps_nothing:
        came_back(queue)


def came_back(queue: EvictedQueue) -> None:
    """Called when messages became ready: drops the oldest if the bounds count ready messages, and there are too many.
    What this turn has no time for is dropped by a background task.
    """
    if queue.is_evicting or not has_too_much(queue):
        return
    context = queue.context
    is_turn_full = context.handled >= STEP_MESSAGES or context.dead_letters_cost >= COMMANDS_PER_TURN
    if is_turn_full or drop_slice(queue):
        begin(queue)


def begin(queue: EvictedQueue) -> None:
    """Has a background task drop what is too much."""
    queue.is_evicting = True
    queue.context.schedule(Evicting(queue))


def has_too_much(queue: EvictedQueue) -> bool:
    """Whether the oldest ready message must go: any that no consumer took, if the queue keeps nothing. What exceeds
    bounds that count all that is stored stays until a producer wants room.
    """
    if queue.settings.overflow not in (DROP_OLDEST, DEAD_LETTER):
        return False
    if queue.keeps_nothing:
        return queue.head() is not None
    return (queue.settings.bounds_count == READY or queue.is_evicting) and not queue.has_capacity(0, 0)


def drop_slice(queue: EvictedQueue) -> bool:
    """Drops the oldest ready messages that are too many: at most STEP_MESSAGES, fewer if they become dead letters.
    Returns whether more can go. Messages that are only on the disk are asked for, and dropped when they have been read
    back.
    """
    context = queue.context
    before = context.dead_letters_cost
    for _ in range(STEP_MESSAGES):
        is_slice = context.open.size >= BATCH_BYTES or context.dead_letters_cost - before >= COMMANDS_PER_TURN
        if is_slice or not has_too_much(queue):
            break
        # if many are only on the disk, each search for one in memory would take long
        entry = None if queue.must_read_oldest() else queue.oldest()
        if entry is None:
            queue.refill(is_needed=True)
            return False
        context.handled += 1
        push_out(queue, entry, Event.DROP)
    if queue.keeps_nothing:
        queue.refill()  # what is only on the disk goes too
    queue.watch_head()
    return has_too_much(queue)


class Evicting:
    """A background task that drops the oldest ready messages of a queue, until no more can go or its bounds hold."""

    __slots__ = ("queue",)

    def __init__(self, queue: EvictedQueue) -> None:
        self.queue = queue

    @property
    def is_done(self) -> bool:
        return not self.queue.is_evicting

    @property
    def can_go_on(self) -> bool:
        return self.queue.context.open.size < BATCH_BYTES

    def step(self) -> None:
        queue, context = self.queue, self.queue.context
        before, stored = context.dead_letters_cost, queue.ledger.stored
        queue.is_evicting = not queue.is_gone and drop_slice(queue)
        context.handled += context.dead_letters_cost - before
        # if none could go, they are being read back: producers are told then
        if self.is_done and (queue.ledger.stored < stored or queue.has_capacity(0, 0)):
            queue.unblock_waiters()
