"""What becomes of those who hold memory when it runs short: some wait, some are refused, the largest goes."""

from collections import deque
from collections.abc import Callable, Iterator
from operator import itemgetter

from radiator.core.connections import Connection
from radiator.core.memory import Memory, Weighing, held_by
from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import Waitable
from radiator.core.turn import TurnContext
from radiator.model.limits import REFUSED_LOOKS, Limits


class MemoryPressure:
    """Judges what was weighed (memory.py)."""

    __slots__ = ("connections", "context", "admission", "limits", "memory", "unblocked")

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        memory: Memory,
        admission: Admission,
        connections: dict[int, Connection],
        unblocked: dict[Waitable, None],
    ) -> None:
        self.context = context
        self.limits = limits
        self.memory = memory
        self.admission = admission
        self.connections = connections
        self.unblocked = unblocked

    def in_use(self) -> int:
        """All that is held now, what is on the disk too included, in bytes. Takes long where there is much."""
        weighing = Weighing(self.memory)
        for queue in self.admission.destinations.queues.values():
            if not queue.is_persistent:
                weighing.queue(queue)
        weighing.begin_connections()
        for connection in self.connections.values():
            if not connection.is_closing:
                weighing.connection(connection)
        return weighing.bytes + self.memory.on_disk_too

    def judge(self, weighing: Weighing) -> Iterator[int]:
        """Past 80 % of the bound who holds much waits, or goes where it goes on; past it the largest holder goes. What
        that costs as it goes on, as in rounds.py.
        """
        memory, room, destinations = self.memory, self.admission.memory_room, self.admission.destinations
        weighing.end()
        size = weighing.bytes
        is_tight = size > memory.tight_bytes
        if is_tight and destinations.readers.tails_bytes:
            for log in destinations.logs.values():
                log.clear_tails()
        destinations.topics.is_pressed = size > memory.bound_bytes // 2
        gone: dict[Connection, None] = {}
        if is_tight != room.is_tight:
            room.is_tight = is_tight
            if is_tight:
                self.context.note(
                    "warning", "memory_tight", bytes=size, bound=memory.bound_bytes, holders=memory.told()
                )
            else:
                self.context.note("info", "memory_has_room", bytes=size, bound=memory.bound_bytes)
        elif is_tight:
            # few: each holds more than its share
            gone = dict.fromkeys(one for one in weighing.growing if self.is_refused_for_growing(one))
            size -= sum(one.weighed_bytes for one in gone)
        is_unread = memory.is_awaited and weighing.unread > size // 2
        memory.is_awaited = False
        if room.waiters:
            room.waiters = deque(sorted(room.waiters, key=held_by))
            self.unblocked[room] = None
        self.unblocked.update((queue, None) for queue in weighing.awaited if queue.waiters)
        if size > memory.bound_bytes:
            there = [pair for pair in weighing.large if pair[1] not in gone]
            yield from self.close_largest(held_by, there, memory.bound_bytes, size)
        elif is_unread:
            # a queue may be consumed, but who does not read never will: without this, producers wait for nothing
            there = [(one.outbox_bytes, one) for _, one in weighing.large if one not in gone]
            yield from self.close_largest(_outbox_bytes, there, memory.tight_bytes, size)

    def is_refused_for_growing(self, connection: Connection) -> bool:
        """One that holds more than its share, and more than when it was last weighed, is refused. Not one that waits:
        it is not read from.
        """
        if connection.waits_for is not None or connection.is_closing:
            return False
        memory = self.memory
        connection.refuse(
            self.context,
            "memory",
            f"Memory is short (max_memory_bytes {memory.bound_bytes}): this connection holds "
            f"{connection.weighed_bytes} bytes, more than its share of {memory.share_bytes}, and takes more.",
        )
        return True

    def close_largest(
        self,
        held_by: Callable[[Connection], int],
        there: list[tuple[int, Connection]],
        mark: int,
        size: int,
    ) -> Iterator[int]:
        """As many of the largest holders as it takes to come below the mark; nobody who holds next to nothing."""
        sentence = f"Out of memory (max_memory_bytes {self.limits.max_memory_bytes}): this connection holds most, "
        there.sort(key=itemgetter(0), reverse=True)
        for held, largest in there:
            if size <= mark or held < self.memory.least_bytes:
                return
            size -= held
            held = held_by(largest)
            # it may have let go of it while others had their turns
            if held >= self.memory.least_bytes and not largest.is_closing:
                largest.refuse(self.context, "memory", f"{sentence}{held} bytes.")
            yield REFUSED_LOOKS


def _outbox_bytes(connection: Connection) -> int:
    return connection.outbox_bytes
