"""Work that may be long: returning the messages of a lost connection, sweeping a deleted queue, releasing delayed
messages, moving messages. It goes on in slices, one a turn, each small enough for one batch; other events are handled
in between.
"""

from collections import deque
from collections.abc import Callable, Iterable

from radiator.core.connections import ConsumedQueue, Delivery
from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue
from radiator.core.reading import Reading, one_slice
from radiator.core.states import Event
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.journal import MOVED, CameFrom
from radiator.model.limits import BATCH_BYTES, COMMANDS_PER_TURN, STEP_MESSAGES
from radiator.model.message import Message


class Requeue:
    """Returns deliveries to their queues by `event`: LOST, when their connection has ended, or OVERDUE. `then` is
    called with those queues when all are back.

    lacking: deliveries whose bytes must be read back first, one slice after another.
    """

    __slots__ = ("context", "event", "is_reading", "lacking", "left", "queues", "then")

    def __init__(
        self,
        context: TurnContext,
        event: Event,
        out: Iterable[Delivery],
        then: Callable[[dict[ConsumedQueue, None]], None],
    ) -> None:
        self.context = context
        self.event = event
        self.left = deque(out)
        self.lacking: list[Delivery] = []
        self.is_reading = False
        self.queues: dict[ConsumedQueue, None] = {}
        self.then = then

    @property
    def is_done(self) -> bool:
        return not (self.left or self.lacking or self.is_reading)

    @property
    def can_go_on(self) -> bool:
        return bool(self.left) and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        context, touched = self.context, dict[ConsumedQueue, None]()
        before = context.dead_letters_cost
        for _ in range(min(STEP_MESSAGES, COMMANDS_PER_TURN, len(self.left))):
            if context.open.size >= BATCH_BYTES or context.dead_letters_cost - before >= COMMANDS_PER_TURN:
                break
            delivery = self.left.popleft()
            context.handled += 1
            if self.is_lacking(delivery):
                self.lacking.append(delivery)
            else:
                touched[self.give(delivery)] = None
        if self.lacking and not self.left and not self.is_reading:
            self.is_reading = True
            some = one_slice(self.lacking)
            del self.lacking[: len(some)]
            Reading(some, lambda _: self.read(some))
        context.handled += context.dead_letters_cost - before
        for queue in touched:
            queue.pump()
        self.queues |= touched
        if self.is_done:
            self.then(self.queues)

    def read(self, some: list[Delivery]) -> None:
        """Called when these deliveries have been read back."""
        self.is_reading = False
        self.left.extend(some)

    def finish(self) -> None:
        """Called when the broker stops: returns all at once. What would have to be read back stays unacked."""
        while self.left:
            delivery = self.left.popleft()
            if not self.is_lacking(delivery):
                self.give(delivery)

    def is_lacking(self, delivery: Delivery) -> bool:
        """Whether it must be read back first."""
        return delivery.is_out and delivery.subscription.queue.needs_bytes(delivery.entry, self.event)

    def give(self, delivery: Delivery) -> ConsumedQueue:
        """Takes it off its connection's window and returns it to its queue, unless it was found damaged. Returns the
        queue.
        """
        queue = delivery.subscription.queue
        delivery.leave_window()
        if delivery.is_out and not queue.is_gone:
            queue.give_back(delivery, self.event)
        return queue


class Expiring:
    """Removes expired messages from the head of a queue, up to the first that has not expired."""

    __slots__ = ("context", "queue")

    def __init__(self, context: TurnContext, queue: Queue) -> None:
        self.context = context
        self.queue = queue

    @property
    def is_done(self) -> bool:
        if self.queue.is_gone or self.queue.ledger.stored_expiring == 0:
            return True
        if self.queue.head() is None:
            return self.queue.is_exhausted
        return not self._has_expired_head

    @property
    def _has_expired_head(self) -> bool:
        head = None if self.queue.is_gone else self.queue.head()
        return head is not None and 0 < head.message.expires_ms <= self.context.now_ms and head.is_over

    @property
    def can_go_on(self) -> bool:
        # one that is done before its step must have that step: until then the queue's head is not watched
        return self._has_work or self.is_done

    @property
    def _has_work(self) -> bool:
        return self._has_expired_head and self.queue.peek_head() is not None and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        queue, context = self.queue, self.context
        most, before = context.handled + STEP_MESSAGES, context.dead_letters_cost
        while context.handled < most and context.dead_letters_cost - before < COMMANDS_PER_TURN and self._has_work:
            context.handled += 1
            queue.take_head()
        context.handled += context.dead_letters_cost - before
        if self.is_done:
            queue.is_expiring = False
            queue.watch_head()
        elif queue.peek_head() is None:
            queue.refill()


class ReleaseDelayed:
    """Releases delayed messages of a memory queue, when many are due. (Those of a persistent queue are released as they
    are read.)
    """

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @property
    def is_done(self) -> bool:
        return self.queue.is_gone or not self.queue.has_due

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        if not self.queue.is_gone:
            self.queue.release_due()


class Moving:
    """`move FROM TO`: moves messages from one queue into another, each slice in one batch; stops when the target is
    full.

    done: called with the number of messages moved, once they are on the disk.
    """

    __slots__ = ("context", "done", "is_done", "left", "moved", "source", "target", "total")

    def __init__(
        self,
        context: TurnContext,
        source: Queue,
        target: Queue,
        count: int,
        moved: Callable[[Queue, Entry, Queue, str | None], Message],
        done: Callable[[int], None],
    ) -> None:
        self.context = context
        self.source = source
        self.target = target
        self.left = count
        self.moved = moved
        self.done = done
        self.total = 0
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.source.peek_head() is not None and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        source, target = self.source, self.target
        is_full = source.is_gone or target.is_gone
        for _ in range(min(STEP_MESSAGES, self.left)):
            if self.context.open.size >= BATCH_BYTES or is_full:
                break
            head = source.peek_head()
            if head is None:
                source.refill()
                break
            if not target.has_capacity(1, head.size):
                is_full = True
                break
            entry = source.take_head()
            self.context.handled += 1
            if entry is not None:
                came_from = CameFrom(MOVED, entry.position, source.name)
                target.put(self.moved(source, entry, target, None), came_from)
                source.withdraw(entry, target.name)
                self.total += 1
            self.left -= 1
        target.pump()
        source.watch_head()
        if self.left == 0 or is_full or source.is_exhausted:
            self.is_done = True
            total = self.total
            self.context.open.then.append(lambda: self.done(total))


class BackgroundTasks(deque[BackgroundTask]):
    """All tasks that are under way, in the order of their turns. have_waited: the last turn was full before any had its
    slice.
    """

    have_waited = False

    def step_all(self, context: TurnContext) -> None:
        """Runs one slice of each, while the open batch has room and the turn has handled under STEP_MESSAGES. If they
        have waited, the first has its slice in any case: commands, and queues with something due, may fill every turn.
        """
        least = 1 if self.have_waited else 0
        for stepped in range(len(self)):
            is_turn_full = context.handled >= STEP_MESSAGES and stepped >= least
            if context.open.size >= BATCH_BYTES or is_turn_full:
                self.have_waited = not stepped
                return
            task = self.popleft()
            task.step()
            if not task.is_done:
                self.append(task)
        self.have_waited = False

    def can_go_on(self, context: TurnContext) -> bool:
        """Whether another turn would do something. While the open batch is full all wait for Committed."""
        return context.open.size < BATCH_BYTES and any(task.can_go_on for task in self)

    def stop(self) -> None:
        """Called when the broker stops: returns what is left of lost connections at once."""
        for task in self:
            if isinstance(task, Requeue):
                task.finish()
