"""A queue in memory: a message is READY as soon as it is accepted, and gone when the broker stops."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from radiator.core.queues.entry import Entry, cost_of
from radiator.core.queues.evicting import came_back
from radiator.core.queues.finding import Finder, MemoryFinder
from radiator.core.queues.picking import InOneLine, MemoryPicker, Picker
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.states import MEMORY_MOVES, Event, State, move
from radiator.core.turn import TurnContext, entry_for
from radiator.model.journal import CameFrom
from radiator.model.limits import COMMANDS_PER_TURN, STEP_MESSAGES
from radiator.model.message import Message
from radiator.model.settings import QueueSettings


@dataclass(slots=True)
class Contents:
    """What a queue held, in the queue's own containers: taking these over takes constant time, however much they hold.
    others: what a partitioned queue held.
    """

    ready: deque[Entry]
    returned: list[tuple[int, Entry]]
    delayed: list[tuple[int, int, Entry]]
    others: dict[int, Entry] = field(default_factory=dict)

    def take(self) -> Entry | None:
        """Takes one message out; None: there is none left."""
        if self.ready:
            return self.ready.popleft()
        if self.returned:
            return self.returned.pop()[1]
        if self.others:
            return self.others.popitem()[1]
        return self.delayed.pop()[2] if self.delayed else None


class MemoryQueue(Queue):
    """See Queue. Its ledger is kept like a persistent queue's, and ends with the queue. `delayed`: a heap of delayed
    messages, by time and position.
    """

    __slots__ = ("delayed",)

    moves = MEMORY_MOVES
    is_persistent = False

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports)
        self.delayed: list[tuple[int, int, Entry]] = []

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry:
        """Accepts a message, which is READY at once; the caller delivers it by `pump`."""
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        entry = self.made(message, size)
        self.ready.append(entry)
        return entry

    def made(self, message: Message, size: int) -> Entry:
        """Returns an entry for a message that is accepted now."""
        context = self.context
        return entry_for(self, context.next_position(), message, State.READY, size, context.passing)

    def remove(self, entry: Entry, event: Event) -> None:
        """Removes the message."""
        move(entry, event, MEMORY_MOVES)

    def keep_count(self, entry: Entry) -> None:
        """Does nothing: the entry itself keeps the count."""

    # ---- delayed messages -------------------------------------------------------------------------------------------

    def put_delayed(self, message: Message, due_ms: int) -> None:
        self.ledger.accept(message.size, message.expires_ms)
        self.delay(Entry(self.context.next_position(), message, State.DELAYED, message.size), due_ms)

    def delay(self, entry: Entry, due_ms: int) -> None:
        if entry.message.expires_ms:
            due_ms = min(due_ms, entry.message.expires_ms)
        self.ledger.stored_delayed += 1
        self.ledger.stored_delayed_bytes += entry.size
        heapq.heappush(self.delayed, (due_ms, entry.position, entry))
        self.next_due_ms = self.delayed[0][0]
        self.context.due_soon.add(self, due_ms, self.context.now_ms)

    def end_delay(self, entry: Entry) -> None:
        self.ledger.stored_delayed -= 1
        self.ledger.stored_delayed_bytes -= entry.size
        self.next_due_ms = self.delayed[0][0] if self.delayed else 0

    def release_due(self) -> bool:
        """Moves due messages DELAYED -> READY, at their own places, unless they have expired; at most STEP_MESSAGES,
        fewer if they become dead letters.
        """
        context, now_ms = self.context, self.context.now_ms
        before = context.dead_letters_cost
        for _ in range(STEP_MESSAGES):
            if not 0 < self.next_due_ms <= now_ms or context.dead_letters_cost - before >= COMMANDS_PER_TURN:
                break
            context.handled += 1
            _, _, entry = heapq.heappop(self.delayed)
            self.end_delay(entry)
            if 0 < entry.message.expires_ms <= now_ms:
                self.expire(entry)
            else:
                move(entry, Event.DUE, MEMORY_MOVES)
                self.to_place(entry)
        context.handled += context.dead_letters_cost - before
        self.has_due = not self.is_gone and 0 < self.next_due_ms <= now_ms
        self.pump()
        came_back(self)
        if self.next_due_ms > now_ms:
            context.due_soon.add(self, self.next_due_ms, now_ms)
        return self.has_due

    def take_all(self) -> "Contents":
        """Takes out at once all messages that are not in flight. They are counted later, when they are discarded."""
        contents = Contents(self.ready, self.returned, self.delayed)
        self.ready, self.returned, self.delayed = deque(), [], []
        self.next_due_ms = 0
        return contents

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return MemoryPicker(InOneLine(self), through, positions)

    def finder(self) -> Finder:
        return MemoryFinder(self, InOneLine(self))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def empty(self, done: Callable[[int], None]) -> None:
        self.context.schedule(Purging(self.context, self, done))

    def delete(self) -> None:
        if self.ledger.stored > STEP_MESSAGES:
            # freeing all of it at once, with the queue, would take long
            self.empty(lambda count: None)
        self.end()

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned)

    @property
    def memory_bytes(self) -> int:
        return cost_of(self.ledger.stored, self.ledger.stored_bytes)


class Purging:
    """A background task that counts as removed what a queue in memory held; `done` gets the number."""

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
        for _ in range(STEP_MESSAGES):
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
