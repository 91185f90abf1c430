"""The end of queues: by a command, or by themselves when nobody uses them any more."""

from collections.abc import Callable
from math import inf

from radiator.core.connections import ConsumedQueue
from radiator.core.farewell import Farewell
from radiator.core.logs.checkouts import Checkouts
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.unbinding import Unbinding, unbound_first
from radiator.core.routing.waiting import Waitable
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.limits import BATCH_BYTES, STEP_MESSAGES, UNBINDINGS_PER_STEP


class Lifetimes:
    """begin: begins a background task; unblocked: what may have room for those who wait."""

    __slots__ = ("begin", "checkouts", "context", "destinations", "unblocked")

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        checkouts: Checkouts,
        begin: Callable[[BackgroundTask], None],
        unblocked: dict[Waitable, None],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.checkouts = checkouts
        self.begin = begin
        self.unblocked = unblocked

    def outlived(self, queue: Queue) -> None:
        """Ends a queue that nobody has used for as long as its `expires` says."""
        expires_ms = queue.settings.expires_ms
        if expires_ms is not None and self._unused_s(queue) * 1000 >= expires_ms and not self.checkouts.has(queue):
            self.end(queue)

    def _unused_s(self, queue: Queue) -> float:
        """Returns for how long nobody has used it, counted from the first Tick that finds it unused: each Tick asks
        this.
        """
        if not queue.is_idle:
            queue.unused_since_s = inf
        elif queue.unused_since_s == inf:
            queue.used()
        return self.context.now_s - queue.unused_since_s

    def left(self, queue: ConsumedQueue) -> None:
        """Ends an auto_delete queue if its last consumer has gone, and nothing is unacked that it waits for."""
        is_over = queue.settings.auto_delete and queue.had_consumer and queue.is_left and not queue.is_gone
        if is_over and not self.context.is_stopping:
            named = self.destinations.queues.find(queue.name)
            if named is not None and named is queue and not self.checkouts.has(named):
                self.end(named)

    def end(self, queue: Queue) -> None:
        """Ends a queue that no command deletes: at once, unless it has very many bindings."""
        exchanges = self.destinations.exchanges
        if len(exchanges.bound.get(queue, ())) <= STEP_MESSAGES and queue not in exchanges.unbinding:
            self.delete(queue, takes_unacked=True)
        elif queue not in exchanges.unbinding:
            self.begin(unbound_first(self.context, exchanges, queue, lambda: self.delete(queue, takes_unacked=True)))

    def owner_left(self, number: int) -> None:
        """Deletes the queues that the connection owned, with all that is in them."""
        queues = self.destinations.queues.owned.left_by(number)
        if queues:
            task = OwnerLeft(self, queues)
            task.step()
            if not task.is_done:
                self.begin(task)

    def delete(self, queue: Queue, takes_unacked: bool = False) -> None:
        """Deletes a queue now, with all that is in it. takes_unacked: as for DeleteDestination."""
        farewell = Farewell(self.context, queue.subscriptions, queue.entries_out.values() if takes_unacked else ())
        self.destinations.queues.delete(queue)
        if not queue.is_short_lived or queue.ledger.stored:
            self.context.note("info", "queue_deleted", queue=queue.name, messages=queue.ledger.stored)
        if queue.waiters:
            self.unblocked[queue] = None
        farewell.step()
        if not farewell.is_done:
            self.begin(farewell)


class OwnerLeft:
    """A background task: deletes the queues of a connection that is gone, some in each turn."""

    __slots__ = ("is_done", "left", "lifetimes")

    def __init__(self, lifetimes: Lifetimes, left: list[Queue]) -> None:
        self.lifetimes = lifetimes
        self.left = left
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.lifetimes.context.open.size < BATCH_BYTES

    def step(self) -> None:
        for _ in range(UNBINDINGS_PER_STEP):
            if not self.left:
                break
            self.lifetimes.context.handled += STEP_MESSAGES // UNBINDINGS_PER_STEP
            self._end(self.left.pop())
        self.is_done = not self.left

    def _end(self, queue: Queue) -> None:
        """Deletes a queue, even if somebody uses it meanwhile."""
        lifetimes, exchanges = self.lifetimes, self.lifetimes.destinations.exchanges

        def bindings() -> list[tuple[str, str]]:
            return [*exchanges.bound.get(queue, ())]

        def undo(binding: tuple[str, str]) -> None:
            if binding in exchanges.bound.get(queue, ()):
                exchanges.undo(*binding, queue)

        def delete() -> None:
            if not queue.is_gone:
                lifetimes.delete(queue)

        found = bindings()
        if len(found) <= STEP_MESSAGES:
            delete()
        else:
            lifetimes.begin(Unbinding(lifetimes.context, found, bindings, undo, delete))
