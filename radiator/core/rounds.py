"""From each Tick on every queue and every connection is looked at, some in each turn: time has passed, and memory is
weighed. With a few thousand of them that is one turn; the next round begins with the first Tick after this one's end.
"""

from collections.abc import Callable, Iterator

from radiator.core.background import Expiring, ReleaseDelayed, Requeue
from radiator.core.blocking import Blocking
from radiator.core.connections import WINDOW_HELP, Connection, Delivery
from radiator.core.lifetimes import Lifetimes
from radiator.core.memory import Weighing
from radiator.core.memory_pressure import MemoryPressure
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.states import Event
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.commands import CLIENT
from radiator.model.errors import shown
from radiator.model.limits import DELETED_LOOKS, LOOKS_PER_TURN, WATCHED_LOOKS, WINDOW_FULL_S
from radiator.model.replies import Scope


class Rounds:
    """begin_task: has a background task go on; forget_dedup_ids: called at the end of a round that has found a queue
    with a dedup window. expiring: queues from whose heads something goes.
    """

    __slots__ = (
        "begin_task", "blocking", "connections", "context", "destinations", "expiring", "forget_dedup_ids", "lifetimes",
        "looks", "memory", "transactions",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        connections: dict[int, Connection],
        memory: MemoryPressure,
        blocking: Blocking,
        transactions: Transactions,
        lifetimes: Lifetimes,
        *,
        begin_task: Callable[[BackgroundTask], None],
        forget_dedup_ids: Callable[[], None],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.connections = connections
        self.memory = memory
        self.blocking = blocking
        self.transactions = transactions
        self.lifetimes = lifetimes
        self.begin_task = begin_task
        self.forget_dedup_ids = forget_dedup_ids
        self.expiring: set[Queue] = set()
        self.looks: Iterator[int] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a Tick has begun a round that is not over."""
        return self.looks is not None

    def begin(self) -> None:
        """A Tick: the next round, unless the last one goes on."""
        if self.looks is None:
            self.looks = self._looks()
            self.step()

    def step(self) -> None:
        """A slice. However full the open batch is: memory does not wait for the disk."""
        if self.looks is None:
            return
        left = LOOKS_PER_TURN
        for cost in self.looks:
            left -= cost
            if left <= 0:
                return
        self.looks = None

    def _looks(self) -> Iterator[int]:
        """What each look costs; 1: about a microsecond."""
        weighing = Weighing(self.memory.memory)
        has_dedup = False
        for queue in self.destinations.everything():
            yield self._watch(queue)
            if queue.ready_count and queue.subscriptions:
                yield from self._look_at_windows(queue)
            if queue.settings.dedup_window_s:
                has_dedup = True
            if not queue.is_persistent and not queue.is_gone:
                weighing.queue(queue)
        for queue in self.destinations.own_queues():
            yield self._watch(queue)
        weighing.begin_connections()
        for connection in [*self.connections.values()]:
            if not connection.is_closing:
                weighing.connection(connection)
            yield 1
        yield from self.memory.judge(weighing)
        yield from self.blocking.refuse_late()
        yield from self.transactions.refuse_late()
        if has_dedup:
            self.forget_dedup_ids()

    def _look_at_windows(self, queue: Queue) -> Iterator[int]:
        """Consumers that wait for more before they ack, with a window that has no more, wait for ever."""
        context = self.context
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
        self.watch(queue)
        return DELETED_LOOKS + queue.in_memory_count // 4 if queue.is_gone else WATCHED_LOOKS

    def watch(self, queue: Queue) -> None:
        """Expiry at its head, consumer or not; what is due; deliveries that are overdue; whether it is used at all."""
        if queue.ledger.stored_expiring and queue not in self.expiring:
            expiring = Expiring(self.context, queue, self.expiring.discard)
            if not expiring.is_done:
                self.expiring.add(queue)
                self.begin_task(expiring)
        if 0 < queue.next_due_ms <= self.context.now_ms:
            had_due = queue.has_due
            if queue.release_due() and not had_due:
                self.begin_task(ReleaseDelayed(queue))
        self.lifetimes.outlived(queue)
        if queue.timeouts:
            self.give_back_overdue(queue)

    def give_back_overdue(self, queue: Queue) -> None:
        """What was not acked within its ack timeout comes back, and its connection is refused."""
        lacking: list[Delivery] = []
        for delivery in queue.overdue():
            connection = delivery.subscription.connection
            if queue.needs_bytes(delivery.entry, Event.OVERDUE):
                lacking.append(delivery)
            else:
                delivery.leave_window()
                queue.give_back(delivery, Event.OVERDUE)
            if connection.is_closing:
                continue
            connection.refuse(
                self.context,
                "ack-timeout",
                f"{shown(delivery.message_id)} of {queue.address} was not acked within "
                f"{delivery.subscription.ack_timeout_s or 0:g} s.",
                scope=Scope.CHANNEL,
            )
        if lacking:
            self.begin_task(Requeue(self.context, Event.OVERDUE, lacking, lambda _: queue.pump()))
        queue.pump()
