"""Queues of which something is due within a second: a message expires at the head, or a delay is over.

The rounds (rounds.py) look at all queues, some four times a second. What is due before the next look has a time here,
at which the broker has a turn for it. What is missing here is late, and never lost: the next look finds it.
"""

from typing import Any, Protocol

from radiator.core.deadlines import Deadlines
from radiator.core.queues.entry import Entry
from radiator.model.limits import DUE_STEP_MS, TICK_S
from radiator.model.writes import Ledger

NEVER_MS = 2**63 - 1
SOON_MS = int(4 * TICK_S * 1000)  # before that comes the next look at the queue, also where there are very many


class TimedQueue(Protocol):
    """due_soon_ms: its time here; NEVER_MS: it has none. is_expiring: its expired messages are being removed."""

    due_soon_ms: int
    is_expiring: bool
    ledger: Ledger
    next_due_ms: int

    def head(self) -> Entry | None:
        """The READY entry in memory that is next."""


class DueSoon:
    """Each queue is here once at most, at the earliest of its times. All are milliseconds since the epoch, as messages
    have them: whatever the clock does, a queue is taken out when it shows that time.
    """

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times: Deadlines[TimedQueue] = Deadlines(DUE_STEP_MS)

    def add(self, queue: TimedQueue, due_ms: int, now_ms: int) -> None:
        """Something of the queue is due at that time."""
        if due_ms < queue.due_soon_ms and due_ms <= now_ms + SOON_MS:
            if queue.due_soon_ms != NEVER_MS:
                self.times.remove(queue, queue.due_soon_ms)
            queue.due_soon_ms = due_ms
            self.times.add(queue, due_ms)

    def watch_head(self, queue: TimedQueue, now_ms: int) -> None:
        """Called when another message may be its head, if some of its messages expire."""
        if queue.is_expiring:
            return  # its end looks at the head again; before that, a further turn would do nothing
        head = queue.head()
        # of one that may not wait the turn in which it became READY sees to its end (passing.py)
        if head is not None and 0 < head.message.expires_ms < queue.due_soon_ms and head.is_over:
            self.add(queue, head.message.expires_ms, now_ms)

    def watch(self, queue: TimedQueue, now_ms: int) -> None:
        """Called when what was due of it is done, or has begun and goes on by itself."""
        if queue.next_due_ms > now_ms:
            self.add(queue, queue.next_due_ms, now_ms)
        if queue.ledger.stored_expiring:
            self.watch_head(queue, now_ms)

    def take(self, now_ms: int) -> Any:
        """Takes out a Queue (its file imports this one) of which something is due; None: there is none."""
        for queue in self.times.take_due(now_ms, 1):
            queue.due_soon_ms = NEVER_MS
            return queue
        return None

    def first_in_s(self, now_ms: int) -> float | None:
        """In how many seconds the first is due; None: none is."""
        first_ms = self.times.first
        return None if first_ms is None else max(0.0, (first_ms - now_ms) / 1000)
