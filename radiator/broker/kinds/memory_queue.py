"""A queue in memory: a message is READY as soon as it is accepted, and gone when the broker stops."""

from radiator.broker.entry import Entry
from radiator.broker.kinds.queue import Queue, cost_of
from radiator.broker.states import MEMORY_MOVES, Event, State, move
from radiator.message import Message


class MemoryQueue(Queue):
    """See Queue. Its ledger is kept just as that of a persistent queue, and forgotten with it."""

    __slots__ = ()

    moves = MEMORY_MOVES
    is_persistent = False

    def put(self, message: Message) -> Entry:
        """READY at once; the caller pumps."""
        size = message.size
        self.enter(message, size)
        entry = Entry(self.desk.next_position(), message, State.READY, size)
        self.ready.append(entry)
        return entry

    def remove(self, entry: Entry, event: Event) -> None:
        """Gone."""
        move(entry, event, MEMORY_MOVES)

    def keep_count(self, entry: Entry) -> None:
        """Nothing to keep beyond the entry."""

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned)

    @property
    def memory_bytes(self) -> int:
        return cost_of(self.ledger.stored, self.ledger.stored_bytes)
