"""From each Tick on every queue and every connection is looked at, some in each turn: time has passed, and memory is
weighed. With a few thousand of them that is one turn; the next round begins with the first Tick after this one's end.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from radiator.core.connections import WINDOW_HELP
from radiator.core.memory import Weighing
from radiator.core.queues.queue import Queue
from radiator.model.commands import CLIENT
from radiator.model.limits import DELETED_LOOKS, LOOKS_PER_TURN, WATCHED_LOOKS, WINDOW_FULL_S

if TYPE_CHECKING:
    from radiator.core.broker import Broker


class Round:
    """One round."""

    __slots__ = ("broker", "looks")

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.looks = self._looks()

    def step(self) -> bool:
        """A slice. Whether it was the last. However full the open batch is: memory does not wait for the disk."""
        left = LOOKS_PER_TURN
        for cost in self.looks:
            left -= cost
            if left <= 0:
                return False
        return True

    def _looks(self) -> Iterator[int]:
        """What each look costs; 1: about a microsecond."""
        broker, destinations = self.broker, self.broker.destinations
        weighing = Weighing(broker.memory)
        has_dedup = False
        for queue in destinations.everything():
            yield self._watch(queue)
            if queue.ready_count and queue.subscriptions:
                yield from self._look_at_windows(queue)
            if queue.settings.dedup_window_s:
                has_dedup = True
            if not queue.is_persistent and not queue.is_gone:
                weighing.queue(queue)
        for queue in destinations.own_queues():
            yield self._watch(queue)
        weighing.begin_connections()
        for connection in [*broker.connections.values()]:
            if not connection.is_closing:
                weighing.connection(connection)
            yield 1
        yield from broker.judge_memory(weighing)
        yield from broker.refuse_long_parked()
        yield from broker.refuse_long_open()
        if has_dedup:
            broker.forget_dedup_ids()

    def _look_at_windows(self, queue: Queue) -> Iterator[int]:
        """Consumers that wait for more before they ack, with a window that has no more, wait for ever."""
        context = self.broker.context
        for one in [*queue.subscriptions]:
            if one.ack == CLIENT and one.full_for_s(context.now_s) >= WINDOW_FULL_S and not one.is_told:
                one.is_told = True
                context.note(
                    "info",
                    "window_full",
                    connection=one.connection.number,
                    subscription=one.name.decode("utf-8", "replace"),
                    queue=queue.name,
                    unacked=one.in_flight,
                    sentence=f"It has acked nothing for {WINDOW_FULL_S:g} s. {WINDOW_HELP}",
                )
            yield 1

    def _watch(self, queue: Queue) -> int:
        is_timed = queue.ledger.stored_expiring or queue.timeouts or queue.next_due_ms or queue.settings.expires_ms
        if not is_timed or queue.is_gone:
            return 1
        self.broker.watch(queue)
        return DELETED_LOOKS + queue.in_memory_count // 4 if queue.is_gone else WATCHED_LOOKS
