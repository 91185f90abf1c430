"""Each Tick begins a round over every queue and connection, some in each turn: what is due by time is done, and memory
is weighed. A few thousand of them take one turn; the next round begins with the first Tick after this one's end.
"""

from collections.abc import Callable, Iterator

from radiator.core.background import Expiring, ReleaseDelayed, Requeue
from radiator.core.blocking import Blocking
from radiator.core.connections import WINDOW_HELP, Connection, Delivery
from radiator.core.kinds.table import Kinds
from radiator.core.lease_owner import Owner
from radiator.core.lifetimes import Lifetimes
from radiator.core.memory import Weighing
from radiator.core.memory_pressure import MemoryPressure
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.queue import Queue
from radiator.core.queues.timeouts import LOOKED_AT_ONCE
from radiator.core.states import Event
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.core.usage import Usage, Usages
from radiator.model.commands import CLIENT
from radiator.model.errors import shown
from radiator.model.limits import (
    COMMANDS_PER_TURN,
    DELETED_LOOKS,
    LOOKS_PER_TURN,
    REFUSED_LOOKS,
    STEP_MESSAGES,
    WATCHED_LOOKS,
    WINDOW_FULL_S,
)
from radiator.model.replies import Scope


class Rounds:
    """begin_task: schedules a background task; forget_dedup_ids: called at the end of a round that has found a queue
    with a dedup window. awake: connections that may hold memory; no other does. looks: the rest of the round that a
    Tick has begun, or None once it is over. weighing, has_dedup: this round's. owners: of leases. returning:
    gives back overdue deliveries that a turn has no time for, or whose bytes must be read back first. has_due_waited:
    the last turn was full before `look_at_due` had looked at any queue.
    """

    __slots__ = (
        "awake", "begin_task", "blocking", "context", "forget_dedup_ids", "has_dedup", "has_due_waited", "kinds",
        "lifetimes", "looks", "memory", "owners", "returning", "transactions", "usages", "weighing",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        kinds: Kinds,
        awake: list[Connection],
        owners: dict[str, Owner],
        memory: MemoryPressure,
        blocking: Blocking,
        transactions: Transactions,
        lifetimes: Lifetimes,
        usages: Usages,
        *,
        begin_task: Callable[[BackgroundTask], None],
        forget_dedup_ids: Callable[[], None],
    ) -> None:
        self.context = context
        self.kinds = kinds
        self.awake = awake
        self.owners = owners
        self.memory = memory
        self.blocking = blocking
        self.transactions = transactions
        self.lifetimes = lifetimes
        self.usages = usages
        self.begin_task = begin_task
        self.forget_dedup_ids = forget_dedup_ids
        self.looks: Iterator[int] | None = None
        self.weighing = Weighing(memory.memory)
        self.has_dedup = False
        self.has_due_waited = False
        self.returning: Requeue | None = None

    def begin(self) -> None:
        """Called at a Tick: begins the next round, unless the last one still runs."""
        if self.looks is None:
            self.looks = self._looks()
            self.step()

    def step(self) -> None:
        """Does one slice of a round that is not over, however full the open batch is: weighing memory does not wait for
        the disk.
        """
        assert self.looks is not None, "no round is under way"
        left = LOOKS_PER_TURN
        for cost in self.looks:
            left -= cost
            if left <= 0:
                return
        self.looks = None

    def _looks(self) -> Iterator[int]:
        """Yields what each look costs; 1: about a microsecond."""
        self.weighing = weighing = Weighing(self.memory.memory)
        self.has_dedup = False
        if self.usages.all:
            yield from self.usages.begin_weighing()
        for kind in self.kinds.values():
            yield from kind.looks(self)
        weighing.begin_connections()
        yield from self._weigh_connections(weighing)
        yield from self.memory.judge(weighing)
        if self.usages.all:
            yield from self.usages.weighed()
        # else it would keep closed connections until the next round, and thousands would be freed in one turn
        self.weighing = weighing = Weighing(self.memory.memory)
        yield from self.blocking.refuse_late()
        yield from self.transactions.refuse_late()
        if self.has_dedup:
            self.forget_dedup_ids()

    def _weigh_connections(self, weighing: Weighing) -> Iterator[int]:
        """Weighs those that are awake; one that holds nothing becomes idle. 10,000 waiting clients cost
        nothing here.
        """
        awake = self.awake[::-1]
        self.awake.clear()
        while awake:
            connection = awake.pop()
            if not connection.is_closing:
                if weighing.connection(connection):
                    connection.is_idle = True
                    if connection.usage is not None:
                        connection.usage.idle(connection)
                else:
                    self.awake.append(connection)
            yield 1
        for owner in [*self.owners.values()]:
            if not owner.is_closing:
                weighing.connection(owner)
            yield 1

    def look_at(self, queue: Queue) -> Iterator[int]:
        """Looks at a queue that has a name of its own."""
        yield from self.watch(queue)
        if queue.ready_count and queue.subscriptions:
            yield from self._look_at_windows(queue)
        if queue.settings.dedup_window_s:
            self.has_dedup = True
        if not queue.is_persistent and not queue.is_gone:
            self.weighing.queue(queue)
        self.weighing.held += queue.held_keys_bytes
        if queue.maker is not None:
            self.look_at_stored(queue.maker, queue.ledger.stored_bytes)

    def look_at_stored(self, maker: Usage, size: int) -> None:
        """Counts what is in a queue or log that a user has made."""
        maker.weighed_stored_bytes += size

    def _look_at_windows(self, queue: Queue) -> Iterator[int]:
        """Logs a consumer whose window stays full: if it waits for more messages before it acks, it waits for ever."""
        context = self.context
        for one in [*queue.subscriptions]:
            if one.ack == CLIENT and one.full_for_s(context.now_s) >= WINDOW_FULL_S and not one.is_noted:
                one.is_noted = True
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

    def watch(self, queue: Queue) -> Iterator[int]:
        """Handles what time has made due in a queue: expiry at its head, consumer or not, what is due, and overdue
        deliveries; ends it if it is unused.
        """
        is_timed = queue.ledger.stored_expiring or queue.timeouts or queue.next_due_ms or queue.settings.expires_ms
        if not is_timed or queue.is_gone:
            yield 1
            return
        handled = self.context.handled
        self.handle_due(queue)
        self.lifetimes.outlived(queue)
        if queue.is_gone:
            yield DELETED_LOOKS + queue.in_memory_count // 4
            return
        yield WATCHED_LOOKS + self.context.handled - handled
        yield from self.watch_timeouts(queue)

    def watch_timeouts(self, queue: Consumable) -> Iterator[int]:
        """Gives back deliveries that were not acked within their ack timeout, some in each slice."""
        while queue.may_be_overdue:
            yield WATCHED_LOOKS * LOOKED_AT_ONCE + REFUSED_LOOKS * self.give_back_overdue(queue)
        yield 1

    def handle_due(self, queue: Queue) -> None:
        """Handles what has expired at its head, and what is no longer delayed."""
        context = self.context
        if queue.ledger.stored_expiring and not queue.is_expiring:
            expiring = Expiring(context, queue)
            if not expiring.is_done:
                queue.is_expiring = True
                self.begin_task(expiring)
        if 0 < queue.next_due_ms <= context.now_ms:
            had_due = queue.has_due
            if queue.release_due() and not had_due:
                self.begin_task(ReleaseDelayed(queue))
        context.due_soon.watch(queue, context.now_ms)

    def look_at_due(self) -> None:
        """Called between the rounds: handles the queues with something due now, some in each turn. If the last turn was
        full before any was handled, one is handled in any case: others may fill every turn.
        """
        context, least = self.context, 1 if self.has_due_waited else 0
        self.has_due_waited = False
        for looked in range(LOOKS_PER_TURN // WATCHED_LOOKS):
            is_turn_full = context.handled >= STEP_MESSAGES and looked >= least
            queue: Queue | None = None if is_turn_full else context.due_soon.take(context.now_ms)
            if queue is None:
                self.has_due_waited = is_turn_full and not looked
                return
            if not queue.is_gone:
                self.handle_due(queue)

    def give_back_overdue(self, queue: Consumable) -> int:
        """Gives back what was not acked within its ack timeout, and refuses its connection. Returns how many were
        refused.
        """
        context, later = self.context, list[Delivery]()
        refused = 0
        for delivery in queue.overdue():
            connection = delivery.subscription.connection
            # in their order: once some must wait, all that follow do
            is_turn_full = bool(later) or self.is_returning or context.dead_letters_cost >= COMMANDS_PER_TURN
            if is_turn_full or queue.needs_bytes(delivery.entry, Event.OVERDUE):
                later.append(delivery)
            else:
                delivery.leave_window()
                queue.give_back(delivery, Event.OVERDUE)
            if connection.is_closing:
                continue
            refused += 1
            connection.refuse(
                self.context,
                "ack-timeout",
                f"{shown(delivery.message_id)} of {queue.address} was not acked within "
                f"{delivery.subscription.ack_timeout_s or 0:g} s.",
                scope=Scope.CHANNEL,
            )
        if self.returning is not None and self.is_returning:
            self.returning.left.extend(later)
        elif later:
            self.returning = Requeue(context, Event.OVERDUE, later, lambda _: None)
            self.begin_task(self.returning)
        queue.pump()
        return refused

    @property
    def is_returning(self) -> bool:
        """Whether a background task gives back overdue deliveries."""
        return self.returning is not None and not self.returning.is_done
