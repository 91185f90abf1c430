"""The bounds of a queue, `max_messages` and `max_bytes`: at them producers wait or are refused, or the oldest go."""

from typing import Protocol

from radiator.core.queues.entry import Entry, PassingEntry
from radiator.core.states import Event
from radiator.model.errors import Refusal, count_text
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, READY, QueueSettings
from radiator.model.writes import Ledger

OVERFLOW = "overflow"  # a dead-letter-reason


class BoundedQueue(Protocol):
    """What is asked of a queue that is full."""

    name: str
    settings: QueueSettings
    ledger: Ledger
    reserved: int
    reserved_bytes: int
    keeps_nothing: bool

    def uncounted(self) -> tuple[int, int]:
        """Messages that its bounds leave out, and their bytes."""

    def kept(self) -> tuple[int, int]:
        """Messages that may not be dropped, and their bytes."""

    def beyond_memory(self) -> tuple[int, int]:
        """Messages that can be dropped only once they have been read back, and their bytes."""

    def may_evict(self, messages: int, size: int) -> bool:
        """Whether dropping the oldest that are not in flight makes room."""

    def refill(self, is_needed: bool = False) -> None:
        """Have more read back."""


class EvictingQueue(BoundedQueue, Protocol):
    """What drops its oldest."""

    def has_capacity(self, messages: int, size: int) -> bool:
        """Whether there is room for so much more."""

    def oldest(self) -> Entry | None:
        """Takes out the oldest entry in memory that is not in flight, if there is one."""

    def must_read_oldest(self) -> bool:
        """Whether the oldest becomes a dead letter, and its bytes are on the disk alone."""

    def discard(self, entry: Entry, event: Event, reason: str) -> None:
        """Makes it a dead letter, or counts it."""

    def count_dropped(self, entry: Entry, reason: str) -> None:
        """Counts it as dropped."""

    def leave(self, entry: Entry, event: Event) -> None:
        """Removes it."""


class PassingQueue(EvictingQueue, Protocol):
    """What has messages that may not wait (passing.py)."""

    is_gone: bool

    def head(self) -> Entry | None:
        """The message that is next."""

    def take_head(self) -> Entry | None:
        """Takes it out; None: it has expired."""


Passing = tuple[PassingQueue, PassingEntry]
"""One that may not wait, and its queue."""


def too_large(queue: BoundedQueue, size: int) -> Refusal:
    """Of a message that could never fit."""
    return Refusal(
        "too-large",
        f"A message of {size} bytes is larger than max_bytes of /queue/{queue.name}, {queue.settings.max_bytes}.",
    )


def judge_full(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether a full queue may take so much more, because the oldest messages can be dropped for it. False: the
    producer waits. Raises Refusal `queue-full`.
    """
    settings = queue.settings
    if queue.keeps_nothing or drops_later(queue, messages, size):
        return True
    too_many = settings.max_messages is not None and messages > settings.max_messages
    too_large = settings.max_bytes is not None and size > settings.max_bytes
    if settings.overflow == BLOCK and not (too_many or too_large):
        return False
    if settings.overflow in (DROP_OLDEST, DEAD_LETTER) and not (too_many or too_large):
        return queue.may_evict(messages, size)
    given = {"max_messages": settings.max_messages, "max_bytes": settings.max_bytes}
    bounds = ", ".join(f"{name} {bound}" for name, bound in given.items() if bound is not None)
    raise Refusal("queue-full", f"/queue/{queue.name} is full: it holds {held_text(queue)} ({bounds}).")


def drops_later(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether so much at once, with what is reserved, is more than would find room in the empty queue, and comes in all
    the same: where the bounds count what is ready, the oldest go once it is (came_back), some of it among them.
    """
    settings = queue.settings
    if settings.bounds_count != READY or settings.overflow not in (DROP_OLDEST, DEAD_LETTER):
        return False
    kept, kept_bytes = held_fast(queue)
    most, most_bytes = settings.max_messages, settings.max_bytes
    if most is not None and kept < most < messages + queue.reserved:
        return True
    return most_bytes is not None and kept_bytes < most_bytes < size + queue.reserved_bytes


def held_text(queue: BoundedQueue) -> str:
    """What it holds, as its bounds count it."""
    unacked, unacked_bytes = queue.uncounted()
    messages, size = queue.ledger.stored - unacked, queue.ledger.stored_bytes - unacked_bytes
    held = f"{count_text(messages, 'message')} of {count_text(size, 'byte')}"
    return f"{held}, and {unacked} unacked" if unacked else held


def may_evict(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether dropping the oldest that are not in flight makes room. False: they must be read back first."""
    kept, kept_bytes = held_fast(queue)
    if not _fits(queue, kept + messages, kept_bytes + size):
        raise Refusal(
            "queue-full",
            f"/queue/{queue.name} is full, and too many of its messages ({kept}) are unacked or delayed to drop "
            "the oldest.",
        )
    beyond, beyond_bytes = queue.beyond_memory()
    if _fits(queue, kept + beyond + messages, kept_bytes + beyond_bytes + size):
        return True
    queue.refill(is_needed=True)
    return False


def held_fast(queue: BoundedQueue) -> tuple[int, int]:
    """Messages that its bounds count and that may not be dropped, and their bytes."""
    kept, kept_bytes = queue.kept()
    unacked, unacked_bytes = queue.uncounted()
    return kept - unacked, kept_bytes - unacked_bytes


def _fits(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether a queue that holds so much, beside what is reserved, is within its bounds."""
    settings = queue.settings
    if settings.max_messages is not None and messages + queue.reserved > settings.max_messages:
        return False
    return settings.max_bytes is None or size + queue.reserved_bytes <= settings.max_bytes


def pushes_out(queue: EvictingQueue, size: int) -> bool:
    """Whether an unacked message of that size pushes one out as it becomes ready again, itself perhaps."""
    return queue.keeps_nothing or (queue.settings.bounds_count == READY and not queue.has_capacity(1, size))


def came_back(queue: PassingQueue) -> None:
    """More is ready, which was unacked or delayed: where the bounds count what is ready, the oldest may have to go."""
    if queue.settings.overflow not in (DROP_OLDEST, DEAD_LETTER):
        return
    while has_too_much(queue):
        # where many are on the disk alone, to look for one that is not would take long, for each that comes back
        entry = None if queue.must_read_oldest() else queue.oldest()
        if entry is None:
            queue.refill(is_needed=True)
            return
        push_out(queue, entry, Event.DROP)


def has_too_much(queue: PassingQueue) -> bool:
    """Whether the oldest that is ready must go: where the queue keeps nothing, whatever nobody has got."""
    if queue.keeps_nothing:
        return queue.head() is not None
    return queue.settings.bounds_count == READY and not queue.has_capacity(0, 0)


def evict(queue: EvictingQueue, messages: int, size: int) -> None:
    """Drops the oldest until there is room for so much more; none that a queue has which keeps nothing."""
    while not (queue.keeps_nothing or queue.has_capacity(messages, size)):
        entry = queue.oldest()
        if entry is None:
            return
        push_out(queue, entry, Event.DROP)


def push_out(queue: EvictingQueue, entry: Entry, event: Event) -> None:
    """Removes a message for which there is no room."""
    if queue.settings.overflow == DEAD_LETTER:
        queue.discard(entry, event, OVERFLOW)
    else:
        queue.count_dropped(entry, OVERFLOW)
        queue.leave(entry, event)
