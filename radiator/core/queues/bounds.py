"""The bounds of a queue, `max_messages` and `max_bytes`: when full, it blocks or refuses, or its oldest go."""

from typing import Protocol

from radiator.core.queues.entry import Entry
from radiator.core.states import Event
from radiator.model.errors import Refusal, count_text
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, READY, QueueSettings
from radiator.model.writes import Ledger

OVERFLOW = "overflow"  # a dead-letter-reason


class BoundedQueue(Protocol):
    """The part of a queue that its bounds need. is_evicting: a background task drops what exceeds them."""

    name: str
    settings: QueueSettings
    ledger: Ledger
    reserved: int
    reserved_bytes: int
    keeps_nothing: bool
    is_evicting: bool

    def uncounted(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that its bounds leave out."""

    def kept(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that may not be dropped."""

    def beyond_memory(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that can be dropped only once they have been read back."""

    def may_evict(self, messages: int, size: int) -> bool:
        """Whether dropping the oldest messages that are not in flight makes room."""

    def refill(self, is_needed: bool = False) -> None:
        """Asks for more messages to be read back."""


class EvictingQueue(BoundedQueue, Protocol):
    """The part of a queue that dropping its oldest messages needs."""

    def has_capacity(self, messages: int, size: int) -> bool:
        """Whether there is room for that many more messages, of `size` bytes in all."""

    def oldest(self) -> Entry | None:
        """Takes out the oldest entry in memory that is not in flight; None: there is none."""

    def must_read_oldest(self) -> bool:
        """Whether the next message to be dropped must be read back first: it is only on the disk, or it becomes a dead
        letter and its bytes are only there.
        """

    def discard(self, entry: Entry, event: Event, reason: str) -> None:
        """Makes the entry a dead letter, or counts it as expired or dropped."""

    def count_dropped(self, entry: Entry, reason: str) -> None:
        """Counts the entry as dropped."""

    def leave(self, entry: Entry, event: Event) -> None:
        """Removes the entry from the queue."""


class PassingQueue(EvictingQueue, Protocol):
    """The part of a queue whose messages may not wait (passing.py)."""

    is_gone: bool

    def head(self) -> Entry | None:
        """Returns the message that is next."""

    def watch_head(self) -> None:
        """Called when another message may be at the head: the broker has a turn when that message expires."""

    def peek_head(self) -> Entry | None:
        """Returns the message that is next; None: there is none, or its bytes must be read back first."""

    def take_head(self) -> Entry | None:
        """Takes out the next message; None: that message has expired."""

    def expire(self, entry: Entry) -> None:
        """Removes a message whose time to live is over."""


Passing = tuple[PassingQueue, Entry]
"""A message that may not wait, with its queue."""


def too_large(queue: BoundedQueue, size: int) -> Refusal:
    """Returns the refusal of a message that could never fit."""
    return Refusal(
        "too-large",
        f"A message of {size} bytes is larger than max_bytes of /queue/{queue.name}, {queue.settings.max_bytes}.",
    )


def judge_full(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether a full queue may accept that many more messages, because the oldest can be dropped for them. False: the
    producer waits. Raises Refusal `queue-full`.
    """
    settings = queue.settings
    if queue.keeps_nothing:
        return True
    if queue.is_evicting:
        return False  # or more would come in than a slice drops
    if drops_later(queue, messages, size):
        return True
    too_many = settings.max_messages is not None and messages > settings.max_messages
    too_large = settings.max_bytes is not None and size > settings.max_bytes
    if settings.overflow == BLOCK and not (too_many or too_large):
        return False
    if settings.overflow in (DROP_OLDEST, DEAD_LETTER) and not (too_many or too_large):
        return queue.may_evict(messages, size)
    given = {"max_messages": settings.max_messages, "max_bytes": settings.max_bytes}
    bounds = ", ".join(f"{name} {bound}" for name, bound in given.items() if bound is not None)
    if too_many or too_large:
        at_once = f"{count_text(messages, 'message')} of {size} bytes at once"
        sentence = f"/queue/{queue.name} can never hold {at_once} ({bounds}): send fewer in a transaction or batch."
        raise Refusal("queue-full", sentence)
    raise Refusal("queue-full", f"/queue/{queue.name} is full: it holds {held_text(queue)} ({bounds}).")


def drops_later(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether so many messages at once, with those that are reserved, exceed even an empty queue's bound and are
    accepted all the same: if the bounds count ready messages, the oldest, some of these too, are dropped once these are
    ready.
    """
    settings = queue.settings
    if settings.bounds_count != READY or settings.overflow not in (DROP_OLDEST, DEAD_LETTER):
        return False
    kept, kept_bytes = held_fast(queue)
    most, most_bytes = settings.max_messages, settings.max_bytes
    if (most is not None and kept >= most) or (most_bytes is not None and kept_bytes >= most_bytes):
        return False  # none of these messages would be left
    too_many = most is not None and messages + queue.reserved > most
    return too_many or (most_bytes is not None and size + queue.reserved_bytes > most_bytes)


def held_text(queue: BoundedQueue) -> str:
    """Returns the text that says what the queue holds, as its bounds count it."""
    unacked, unacked_bytes = queue.uncounted()
    messages, size = queue.ledger.stored - unacked, queue.ledger.stored_bytes - unacked_bytes
    held = f"{count_text(messages, 'message')} of {count_text(size, 'byte')}"
    return f"{held}, and {unacked} unacked" if unacked else held


def held_fast(queue: BoundedQueue) -> tuple[int, int]:
    """Counts the messages, and their bytes, that the bounds count but that may not be dropped."""
    kept, kept_bytes = queue.kept()
    unacked, unacked_bytes = queue.uncounted()
    return kept - unacked, kept_bytes - unacked_bytes


def fits(queue: BoundedQueue, messages: int, size: int) -> bool:
    """Whether a queue that holds that much, besides what is reserved, is within its bounds."""
    settings = queue.settings
    if settings.max_messages is not None and messages + queue.reserved > settings.max_messages:
        return False
    return settings.max_bytes is None or size + queue.reserved_bytes <= settings.max_bytes


def pushes_out(queue: EvictingQueue, size: int) -> bool:
    """Whether an unacked message of that size pushes out a message, perhaps itself, when it becomes ready again."""
    return queue.keeps_nothing or (queue.settings.bounds_count == READY and not queue.has_capacity(1, size))


def push_out(queue: EvictingQueue, entry: Entry, event: Event) -> None:
    """Removes a message for which there is no room: as a dead letter, or dropped and counted."""
    if queue.settings.overflow == DEAD_LETTER:
        queue.discard(entry, event, OVERFLOW)
    else:
        queue.count_dropped(entry, OVERFLOW)
        queue.leave(entry, event)
