"""Work that may be long: messages of a lost connection, sweeping a deleted queue, waking and moving messages.

It goes on in slices, one a turn, each small enough for one batch, with everybody else in between.
"""

from collections import deque
from collections.abc import Callable, Iterable

from radiator.core.connections import ConsumedQueue, Delivery
from radiator.core.queues.entry import Entry
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue
from radiator.core.reading import Reading, one_slice
from radiator.core.states import Event, State
from radiator.core.turn import WRITE_COST_BYTES, BackgroundTask, TurnContext
from radiator.model.journal import MOVED, CameFrom
from radiator.model.limits import BATCH_BYTES, CHORE_MESSAGES
from radiator.model.message import Message
from radiator.model.writes import Sweep


class Requeue:
    """LOST: what was out with a connection that ended comes back, or OVERDUE; `then` is called when all has, with the
    queues that it was of.

    lacking: what must be read back first, a slice after the other.
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
        touched: dict[ConsumedQueue, None] = {}
        for _ in range(min(CHORE_MESSAGES, len(self.left))):
            if self.context.open.size >= BATCH_BYTES:
                break
            delivery = self.left.popleft()
            self.context.handled += 1
            if self.is_lacking(delivery):
                self.lacking.append(delivery)
            else:
                touched[self.give(delivery)] = None
        if self.lacking and not self.left and not self.is_reading:
            self.is_reading = True
            some = one_slice(self.lacking)
            del self.lacking[: len(some)]
            Reading(some, lambda _: self.read(some))
        for queue in touched:
            queue.pump()
        self.queues |= touched
        if self.is_done:
            self.then(self.queues)

    def read(self, some: list[Delivery]) -> None:
        """They have their bytes."""
        self.is_reading = False
        self.left.extend(some)

    def finish(self) -> None:
        """All at once: the broker stops. What would have to be read back counts as still out."""
        while self.left:
            delivery = self.left.popleft()
            if not self.is_lacking(delivery):
                self.give(delivery)

    def is_lacking(self, delivery: Delivery) -> bool:
        """Whether it must be read back first."""
        return delivery.is_out and delivery.subscription.queue.needs_bytes(delivery.entry, self.event)

    def give(self, delivery: Delivery) -> ConsumedQueue:
        """It leaves its connection's window; one that was found damaged is out no more."""
        queue = delivery.subscription.queue
        delivery.leave_window()
        if delivery.is_out and not queue.is_gone:
            queue.give_back(delivery, self.event)
        return queue


class Sweeping:
    """What a deleted queue stored is removed, one slice a batch."""

    __slots__ = ("context", "in_batch", "left", "number")

    def __init__(self, context: TurnContext, number: int, left: int) -> None:
        self.context = context
        self.number = number
        self.left = left
        self.in_batch = 0

    @property
    def is_done(self) -> bool:
        return self.left <= 0

    @property
    def can_go_on(self) -> bool:
        return self.in_batch != self.context.open.number

    def step(self) -> None:
        if self.can_go_on:
            self.in_batch = self.context.open.number
            count = min(self.left, CHORE_MESSAGES)
            self.left -= count
            self.context.write(Sweep(self.number, count, self.left), count * WRITE_COST_BYTES)


class Expiring:
    """What has expired at the head of a queue leaves, until something that has not is there; `then` is told the end."""

    __slots__ = ("context", "queue", "then")

    def __init__(self, context: TurnContext, queue: Queue, then: Callable[[Queue], None]) -> None:
        self.context = context
        self.queue = queue
        self.then = then

    @property
    def is_done(self) -> bool:
        if self.queue.is_gone or self.queue.ledger.stored_expiring == 0:
            return True
        return self.queue.ready_count == 0 if self.queue.head() is None else not self._has_expired_head

    @property
    def _has_expired_head(self) -> bool:
        head = None if self.queue.is_gone else self.queue.head()
        return head is not None and 0 < head.message.expires_ms <= self.context.now_ms

    @property
    def can_go_on(self) -> bool:
        return self._has_expired_head and self.queue.peek_head() is not None and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        queue = self.queue
        for _ in range(CHORE_MESSAGES):
            if not self.can_go_on:
                break
            self.context.handled += 1
            queue.take_head()
        if self.is_done:
            self.then(queue)
        elif queue.peek_head() is None:
            queue.refill()


class ReleaseDelayed:
    """Many delayed messages of a memory queue are due at once. (Those of a persistent queue come as they are read.)"""

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
            self.queue.context.handled += CHORE_MESSAGES
            self.queue.release_due()


class Purging:
    """What a queue in memory held leaves its books; `done` gets the number."""

    __slots__ = ("contents", "count", "context", "done", "is_done", "queue")

    def __init__(self, context: TurnContext, queue: MemoryQueue, done: Callable[[int], None]) -> None:
        self.context = context
        self.queue = queue
        self.contents = queue.take_all()
        self.done = done
        self.count = 0
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        for _ in range(CHORE_MESSAGES):
            entry = self.contents.take()
            if entry is None:
                self.is_done = True
                self.done(self.count)
                return
            self.context.handled += 1
            self.count += 1
            if entry.state is State.DELAYED:
                self.queue.end_delay(entry)
            self.queue.withdraw(entry)


class Moving:
    """`move FROM TO`: out of one queue and into the other, each slice in one batch; it stops where the target is full.

    done: gets the number of messages moved, once they are on the disk.
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
        for _ in range(min(CHORE_MESSAGES, self.left)):
            if self.context.open.size >= BATCH_BYTES or is_full:
                break
            head = source.peek_head()
            if head is None:
                source.refill()
                break
            if not target.has_room(1, head.size):
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
        if self.left == 0 or is_full or source.ready_count == 0:
            self.is_done = True
            total = self.total
            self.context.open.then.append(lambda: self.done(total))


class BackgroundTasks(deque[BackgroundTask]):
    """All that go on, in the order of their turns."""

    def step_all(self, context: TurnContext) -> None:
        """A slice of each, while the open batch has room, and this turn."""
        for _ in range(len(self)):
            if context.open.size >= BATCH_BYTES or context.handled >= CHORE_MESSAGES:
                return
            task = self.popleft()
            task.step()
            if not task.is_done:
                self.append(task)

    def can_go_on(self, context: TurnContext) -> bool:
        """Whether another turn would do something. A full batch keeps all of them waiting: Committed goes on."""
        return context.open.size < BATCH_BYTES and any(task.can_go_on for task in self)

    def stop(self) -> None:
        """The broker stops: what is on its way back from lost connections is back now."""
        for task in self:
            if isinstance(task, Requeue):
                task.finish()
