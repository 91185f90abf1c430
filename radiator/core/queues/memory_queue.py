"""A queue in memory: a message is READY as soon as it is accepted, and gone when the broker stops."""

import heapq
from collections import deque
from dataclasses import dataclass

from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue, QueuePorts, cost_of
from radiator.core.states import MEMORY_MOVES, Event, State, move
from radiator.model.journal import CameFrom
from radiator.model.limits import CHORE_MESSAGES
from radiator.model.message import Message
from radiator.model.settings import QueueSettings


@dataclass(slots=True)
class Contents:
    """What a queue held, as it held it: however much that is, it was taken out in no time."""

    ready: deque[Entry]
    returned: list[tuple[int, Entry]]
    delayed: list[tuple[int, int, Entry]]

    def take(self) -> Entry | None:
        """One of them; None: that was all."""
        if self.ready:
            return self.ready.popleft()
        if self.returned:
            return self.returned.pop()[1]
        return self.delayed.pop()[2] if self.delayed else None


class MemoryQueue(Queue):
    """See Queue. Its ledger is kept just as that of a persistent queue, and forgotten with it. `delayed`: a heap of
    those that wait for their time, by that and their place.
    """

    __slots__ = ("delayed",)

    moves = MEMORY_MOVES
    is_persistent = False

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports)
        self.delayed: list[tuple[int, int, Entry]] = []

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry:
        """READY at once; the caller pumps."""
        size = message.size
        self.enter(message, size)
        entry = Entry(self.context.next_position(), message, State.READY, size)
        self.ready.append(entry)
        return entry

    def remove(self, entry: Entry, event: Event) -> None:
        """Gone."""
        move(entry, event, MEMORY_MOVES)

    def keep_count(self, entry: Entry) -> None:
        """Nothing to keep beyond the entry."""

    # ---- delayed messages -------------------------------------------------------------------------------------------

    def put_delayed(self, message: Message, due_ms: int) -> None:
        self.enter(message, message.size)
        self.delay(Entry(self.context.next_position(), message, State.DELAYED, message.size), due_ms)

    def delay(self, entry: Entry, due_ms: int) -> None:
        if entry.message.expires_ms:
            due_ms = min(due_ms, entry.message.expires_ms)
        self.ledger.stored_delayed += 1
        self.ledger.stored_delayed_bytes += entry.size
        heapq.heappush(self.delayed, (due_ms, entry.position, entry))
        self.next_due_ms = self.delayed[0][0]

    def end_delay(self, entry: Entry) -> None:
        self.ledger.stored_delayed -= 1
        self.ledger.stored_delayed_bytes -= entry.size
        self.next_due_ms = self.delayed[0][0] if self.delayed else 0

    def release_due(self) -> bool:
        """DELAYED -> READY, at its own place, unless it is expired; so many that a turn stays short."""
        now_ms = self.context.now_ms
        for _ in range(CHORE_MESSAGES):
            if not 0 < self.next_due_ms <= now_ms:
                break
            _, position, entry = heapq.heappop(self.delayed)
            self.end_delay(entry)
            if 0 < entry.message.expires_ms <= now_ms:
                self.expire(entry)
            else:
                move(entry, Event.DUE, MEMORY_MOVES)
                heapq.heappush(self.returned, (position, entry))
        self.has_due = not self.is_gone and 0 < self.next_due_ms <= now_ms
        self.pump()
        return self.has_due

    def take_all(self) -> "Contents":
        """All that is not in flight leaves at once; its books follow, as it is discarded."""
        contents = Contents(self.ready, self.returned, self.delayed)
        self.ready, self.returned, self.delayed = deque(), [], []
        self.next_due_ms = 0
        return contents

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned)

    @property
    def memory_bytes(self) -> int:
        return cost_of(self.ledger.stored, self.ledger.stored_bytes)
