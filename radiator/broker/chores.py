"""Work that may be long: messages of a lost connection, sweeping a deleted queue, waking and moving messages.

It goes on in slices, one a turn, each small enough for one batch, with everybody else in between.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from radiator.broker.consumers import Delivery
from radiator.broker.entry import Entry
from radiator.broker.kinds.queue import Queue
from radiator.broker.states import Event
from radiator.broker.turn import WRITE_COST_BYTES, Desk
from radiator.journal import MOVED, CameFrom
from radiator.limits import BATCH_BYTES, CHORE_MESSAGES
from radiator.message import Message
from radiator.writes import Sweep


class Chore(Protocol):
    """`step` does one slice. `can_go_on`: another step would do something without a further event."""

    @property
    def is_done(self) -> bool: ...

    @property
    def can_go_on(self) -> bool: ...

    def step(self) -> None: ...


class Give:
    """LOST: what was out with a connection that ended comes back; `then` is called when all has."""

    __slots__ = ("desk", "left", "then")

    def __init__(self, desk: Desk, lost: Iterable[Delivery], then: Callable[[], None]) -> None:
        self.desk = desk
        self.left = deque(lost)
        self.then = then

    @property
    def is_done(self) -> bool:
        return not self.left

    @property
    def can_go_on(self) -> bool:
        return self.desk.open.size < BATCH_BYTES

    def step(self) -> None:
        touched: dict[Queue, None] = {}
        for _ in range(min(CHORE_MESSAGES, len(self.left))):
            if self.desk.open.size >= BATCH_BYTES:
                break
            touched[self._give_one()] = None
        for queue in touched:
            queue.pump()
        if not self.left:
            self.then()

    def finish(self) -> None:
        """All at once: the broker stops."""
        while self.left:
            self._give_one()

    def _give_one(self) -> Queue:
        delivery = self.left.popleft()
        queue = delivery.subscription.queue
        delivery.leave_window()
        if not queue.is_gone:
            queue.give_back(delivery, Event.LOST)
        return queue


class Sweeping:
    """What a deleted queue stored is removed, one slice a batch."""

    __slots__ = ("desk", "in_batch", "left", "number")

    def __init__(self, desk: Desk, number: int, left: int) -> None:
        self.desk = desk
        self.number = number
        self.left = left
        self.in_batch = 0

    @property
    def is_done(self) -> bool:
        return self.left <= 0

    @property
    def can_go_on(self) -> bool:
        return self.in_batch != self.desk.open.number

    def step(self) -> None:
        if self.can_go_on:
            self.in_batch = self.desk.open.number
            self.left -= CHORE_MESSAGES
            self.desk.write(Sweep(self.number, CHORE_MESSAGES), CHORE_MESSAGES * WRITE_COST_BYTES)


class Expiring:
    """What has expired at the head of a queue leaves, until something that has not is there; `then` is told the end."""

    __slots__ = ("desk", "queue", "then")

    def __init__(self, desk: Desk, queue: Queue, then: Callable[[Queue], None]) -> None:
        self.desk = desk
        self.queue = queue
        self.then = then

    @property
    def is_done(self) -> bool:
        if self.queue.is_gone or self.queue.ledger.stored_expiring == 0:
            return True
        return self.queue.ready_count == 0 if self.queue.peek_head() is None else not self._has_expired_head

    @property
    def _has_expired_head(self) -> bool:
        head = None if self.queue.is_gone else self.queue.peek_head()
        return head is not None and 0 < head.message.expires_ms <= self.desk.now_ms

    @property
    def can_go_on(self) -> bool:
        return self._has_expired_head and self.desk.open.size < BATCH_BYTES

    def step(self) -> None:
        queue = self.queue
        for _ in range(CHORE_MESSAGES):
            if not self._has_expired_head or self.desk.open.size >= BATCH_BYTES:
                break
            queue.take_head()
        if queue.peek_head() is None:
            queue.refill()
        if self.is_done:
            self.then(queue)


class Waking:
    """Many delayed messages of a memory queue are due at once. (Those of a persistent queue come as they are read.)"""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @property
    def is_done(self) -> bool:
        return self.queue.is_gone or not self.queue.is_waking

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        if not self.queue.is_gone:
            self.queue.wake_due()


class Moving:
    """`move FROM TO`: out of one queue and into the other, each slice in one batch; it stops where the target is full.

    done: gets the number of messages moved, once they are on the disk.
    """

    __slots__ = ("desk", "done", "is_done", "left", "moved", "source", "target", "total")

    def __init__(
        self,
        desk: Desk,
        source: Queue,
        target: Queue,
        count: int,
        moved: Callable[[Queue, Entry, Queue, str | None], Message],
        done: Callable[[int], None],
    ) -> None:
        self.desk = desk
        self.source = source
        self.target = target
        self.left = count
        self.moved = moved
        self.done = done
        self.total = 0
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.source.peek_head() is not None and self.desk.open.size < BATCH_BYTES

    def step(self) -> None:
        source, target = self.source, self.target
        is_full = source.is_gone or target.is_gone
        for _ in range(min(CHORE_MESSAGES, self.left)):
            if self.desk.open.size >= BATCH_BYTES or is_full:
                break
            head = source.peek_head()
            if head is None:
                source.refill()
                break
            if not target.has_room(1, head.size):
                is_full = True
                break
            entry = source.take_head()
            if entry is not None:
                came_from = CameFrom(MOVED, entry.position, source.name)
                target.put(self.moved(source, entry, target, None), came_from)
                source.discard(entry, target.name)
                self.total += 1
            self.left -= 1
        target.pump()
        if self.left == 0 or is_full or source.ready_count == 0:
            self.is_done = True
            total = self.total
            self.desk.open.then.append(lambda: self.done(total))
