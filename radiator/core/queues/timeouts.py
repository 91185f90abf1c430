"""The ack timeouts of one queue: finds the deliveries that have been unacked for too long."""

import heapq

from radiator.core.connections import Delivery
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO
from radiator.model.limits import LOOKS_PER_TURN, REFUSED_LOOKS, STALE_TIMEOUTS, TICK_S

LOOKED_AT_ONCE = LOOKS_PER_TURN // REFUSED_LOOKS  # deliveries of one slice: each may be of another connection


class AckTimeouts:
    """heap: deliveries by the time to look at them, including settled ones. entries_out: the queue's own."""

    __slots__ = ("begun", "context", "entries_out", "heap")

    def __init__(self, context: TurnContext, entries_out: dict[int, Delivery]) -> None:
        self.context = context
        self.entries_out = entries_out
        self.heap: list[tuple[float, int, Delivery]] = []
        self.begun = 0

    def __len__(self) -> int:
        return len(self.heap)

    def begin(self, delivery: Delivery, timeout_s: float) -> None:
        """Starts the ack timeout of a delivery."""
        delivery.due_s = self.context.now_s + timeout_s
        delivery.blocked_before_s = delivery.subscription.connection.blocked_total_s
        if len(self.heap) <= 2 * len(self.entries_out) + STALE_TIMEOUTS:
            self._look_at(delivery, delivery.due_s)
            return
        self.heap.clear()
        for out in self.entries_out.values():
            if out.due_s:
                self._look_at(out, out.due_s)

    def _look_at(self, delivery: Delivery, at_s: float) -> None:
        """Schedules a look at the delivery: it may be overdue then."""
        self.begun += 1
        heapq.heappush(self.heap, (at_s, self.begun, delivery))

    @property
    def may_be_overdue(self) -> bool:
        """Whether the time has come to look at some delivery."""
        return bool(self.heap) and self.heap[0][0] <= self.context.now_s

    def overdue(self) -> list[Delivery]:
        """Returns those of the next LOOKED_AT_ONCE deliveries that have been out for longer than their ack timeout.
        While a connection is blocked, its timeouts do not run.
        """
        late: dict[Delivery, None] = {}
        now_s = self.context.now_s
        for _ in range(LOOKED_AT_ONCE):
            if not self.may_be_overdue:
                break
            _, _, delivery = heapq.heappop(self.heap)
            if not delivery.is_out:
                continue
            connection = delivery.subscription.connection
            due_s = end_s(delivery, now_s)
            # a delivery whose COMMIT is being committed is no longer unacked
            is_unacked = delivery.subscription.ack == AUTO or delivery.message_id in connection.unacked
            if due_s <= now_s and is_unacked:
                late[delivery] = None
            else:
                self._look_at(delivery, max(due_s, now_s + TICK_S))
        return list(late)


def end_s(delivery: Delivery, now_s: float) -> float:
    """Returns when the delivery's ack timeout is over, as far as is known now, in monotonic seconds."""
    connection = delivery.subscription.connection
    due_s = delivery.due_s + connection.blocked_total_s - delivery.blocked_before_s
    return due_s if connection.waits_for is None else due_s + now_s - connection.blocked_since_s
