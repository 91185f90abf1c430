"""Queues with something due within a second: a message that expires at the head, or a delay that ends.

The rounds (rounds.py) look at every queue some four times a second. A queue with something due before its next look is
registered here, and the broker takes a turn at that time. What is not registered, such as a head that is only on the
disk, is handled late, but never lost: the next look finds it. Code that removes the head of a queue without a `pump`
calls the queue's `watch_head`.
"""

from typing import Any, Protocol

from radiator.core.deadlines import Deadlines
from radiator.core.queues.entry import Entry
from radiator.model.limits import DUE_STEP_MS, TICK_S
from radiator.model.writes import Ledger

NEVER_MS = 2**63 - 1
SOON_MS = int(4 * TICK_S * 1000)  # the next look at the queue comes earlier, however many queues there are


class TimedQueue(Protocol):
    """due_soon_ms: the time at which it is registered; NEVER_MS: it is not. is_expiring: a background task is removing
    its expired messages.
    """

    due_soon_ms: int
    is_expiring: bool
    ledger: Ledger
    next_due_ms: int

    def head(self) -> Entry | None:
        """Returns the READY entry in memory that is next."""


class DueSoon:
    """Registers each queue once at most, at the earliest of its times. Times are milliseconds since the epoch, as in
    messages: if the clock is set, a queue is still taken out when the clock shows its time.
    """

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times: Deadlines[TimedQueue] = Deadlines(DUE_STEP_MS)

    def add(self, queue: TimedQueue, due_ms: int, now_ms: int) -> None:
        """Registers the queue for that time, unless it is registered for an earlier one or the time is far off."""
        if due_ms < queue.due_soon_ms and due_ms <= now_ms + SOON_MS:
            if queue.due_soon_ms != NEVER_MS:
                self.times.remove(queue, queue.due_soon_ms)
            queue.due_soon_ms = due_ms
            self.times.add(queue, due_ms)

    def watch_head(self, queue: TimedQueue, now_ms: int) -> None:
        """Called when a queue with messages that expire may have another head."""
        if queue.is_expiring:
            return  # the task looks at the head again when it ends; a turn before that would do nothing
        head = queue.head()
        # a message that may not wait is ended by the turn in which it became READY (passing.py)
        if head is not None and 0 < head.message.expires_ms < queue.due_soon_ms and head.is_over:
            self.add(queue, head.message.expires_ms, now_ms)

    def watch(self, queue: TimedQueue, now_ms: int) -> None:
        """Called when everything that was due is done, or has begun and continues by itself."""
        if queue.next_due_ms > now_ms:
            self.add(queue, queue.next_due_ms, now_ms)
        if queue.ledger.stored_expiring:
            self.watch_head(queue, now_ms)

    def take(self, now_ms: int) -> Any:
        """Removes a Queue (whose file imports this one) that has something due, and returns it; None: there is none."""
        for queue in self.times.take_due(now_ms, 1):
            queue.due_soon_ms = NEVER_MS
            return queue
        return None

    def first_in_s(self, now_ms: int) -> float | None:
        """Returns the seconds until the first is due; None: none is registered."""
        first_ms = self.times.first
        return None if first_ms is None else max(0.0, (first_ms - now_ms) / 1000)
