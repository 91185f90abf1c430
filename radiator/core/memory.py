"""What the broker holds that is nowhere else, who holds it, and who must wait or go for it.

Weighed from each Tick on (rounds.py), with all that has come in since. What is on the disk too (windows, messages in
flight of persistent queues, what is read of logs) has bounds of its own, and is never a reason to refuse anybody.
"""

from heapq import heappush, heapreplace
from typing import TYPE_CHECKING

from radiator.core.connections import Connection
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.exchanges import OWN_SETTINGS
from radiator.model.limits import HOLDERS_TOLD, MEMORY_SHARE, MEMORY_TIGHT, NEXT_TO_NOTHING_BYTES, Limits

if TYPE_CHECKING:
    from radiator.core.routing.destinations import Destinations


class Memory:
    """bytes: as last weighed (`weighed_bytes`), and what has come in since that began, gone again or not. tight_bytes:
    past it only those go on who hold little. share_bytes: what a connection may hold then; least_bytes: next to
    nothing. waiting_bytes: what goes on when a batch is on the disk. parts_bytes: of large messages that come from
    other nodes, and are not whole. is_awaited: whether somebody has found no room in a memory queue since it was last
    weighed.
    holders: who held most then, with bytes: `connection NUMBER`, and addresses of memory queues. outbox_bytes: what all
    outgoing buffers held then, and outbox_largest_bytes the one that held most.
    """

    __slots__ = (
        "bound_bytes", "bytes", "destinations", "holders", "is_awaited", "least_bytes", "outbox_bytes",
        "outbox_largest_bytes", "parts_bytes", "share_bytes", "tight_bytes", "waiting_bytes", "weighed_bytes",
    )  # fmt: skip

    def __init__(self, destinations: "Destinations", limits: Limits) -> None:
        self.destinations = destinations
        self.bound(limits)
        self.bytes = self.weighed_bytes = 0
        self.waiting_bytes = 0
        self.parts_bytes = 0
        self.outbox_bytes = self.outbox_largest_bytes = 0
        self.is_awaited = False
        self.holders: list[tuple[str, int]] = []

    def bound(self, limits: Limits) -> None:
        """These limits hold from now on."""
        self.bound_bytes = bound = limits.max_memory_bytes
        self.tight_bytes = int(MEMORY_TIGHT * bound)
        self.share_bytes = max(bound // MEMORY_SHARE, min(limits.max_frame_bytes, bound // 2))
        self.least_bytes = min(NEXT_TO_NOTHING_BYTES, bound // 64)

    @property
    def on_disk_too(self) -> int:
        """Bytes in memory of what can be read back."""
        windows = self.destinations.windows
        return windows.size + windows.out + self.destinations.readers.memory_bytes

    def is_above_share(self, connection: Connection) -> bool:
        """Whether its SENDs wait while memory is tight. Past the bound, until the largest have gone, nearly all do."""
        return held_by(connection) > (self.share_bytes if self.bytes <= self.bound_bytes else self.least_bytes)

    def has_room(self, queue: Target, size: int) -> bool:
        """While memory is tight: whether so much more may come into a memory queue. It may hold as much as is free: one
        that holds little goes on, however full the others are, and one that holds next to nothing in any case.
        """
        if queue.memory_bytes + size <= max(self.least_bytes, self.bound_bytes - self.bytes):
            return True
        self.is_awaited = True
        return False

    def told(self) -> str:
        """Who holds most, in words."""
        return ", ".join(f"{name}: {size} bytes" for name, size in self.holders) or "nobody"


class Weighing:
    """All that is nowhere else, one after the other: first the memory queues, then the connections. Others may have
    their turns in between, so that no byte is counted twice that moves from a connection into a queue.

    bytes: what was found; unread: of that, what outgoing buffers hold, and unread_most the fullest of them; largest:
    who holds most; large: connections that hold more than next to nothing, with how much; growing: those above their
    share that held less the last time; awaited: queues that somebody waits for.
    """

    __slots__ = (
        "awaited", "began_bytes", "began_waiting_bytes", "bytes", "found", "growing", "has_own", "large", "largest",
        "memory", "unread", "unread_most",
    )  # fmt: skip

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.began_bytes = memory.bytes
        self.began_waiting_bytes = memory.waiting_bytes
        self.bytes = self.unread = self.unread_most = self.found = 0
        self.has_own = False
        self.large: list[tuple[int, Connection]] = []
        self.growing: list[Connection] = []
        self.awaited: list[Queue] = []
        self.largest: list[tuple[int, int, Queue | Connection]] = []

    def queue(self, queue: Queue) -> None:
        """One in memory that is no connection's own."""
        if queue.ledger.stored:
            size = queue.memory_bytes
            self.bytes += size
            self.tell(size, queue)
        if queue.waiters:
            self.awaited.append(queue)

    def begin_connections(self) -> None:
        """The queues have been weighed."""
        memory = self.memory
        self.bytes += memory.waiting_bytes + memory.parts_bytes
        self.began_waiting_bytes -= memory.waiting_bytes
        self.has_own = bool(memory.destinations.replies or memory.destinations.exchanges.own)

    def connection(self, connection: Connection) -> None:
        """One that is not being closed: what it holds would be let go of already."""
        held = connection.held_bytes
        memory = self.memory
        if held > memory.share_bytes and held > connection.weighed_bytes:
            self.growing.append(connection)
        connection.weighed_bytes = held
        unread = connection.outbox_bytes
        self.unread += unread
        if unread > self.unread_most:
            self.unread_most = unread
        size = held + own_bytes(connection) if self.has_own else held
        if size:
            self.bytes += size
            self.tell(size, connection)
        size += connection.rest_bytes
        if size >= memory.least_bytes:
            self.large.append((size, connection))

    def tell(self, size: int, who: Queue | Connection) -> None:
        """It may be one of the largest; who holds next to nothing is none."""
        largest = self.largest
        if size < self.memory.least_bytes:
            return
        if len(largest) < HOLDERS_TOLD:
            self.found += 1
            heappush(largest, (size, self.found, who))
        elif size > largest[0][0]:
            self.found += 1
            heapreplace(largest, (size, self.found, who))

    def end(self) -> None:
        """All has been weighed. What may have been missed, since it came or moved meanwhile, counts for who wants to
        bring more, and for nobody who would have to go.
        """
        memory = self.memory
        since = max(0, memory.bytes - self.began_bytes) + max(0, self.began_waiting_bytes)
        memory.weighed_bytes = self.bytes
        memory.outbox_bytes, memory.outbox_largest_bytes = self.unread, self.unread_most
        memory.bytes = self.bytes + since
        memory.holders = [
            (who.address if isinstance(who, Queue) else f"connection {who.number}", size)
            for size, _, who in sorted(self.largest, reverse=True)
        ]


def held_by(connection: Connection) -> int:
    """Memory that goes when this connection goes."""
    return connection.held_bytes + connection.rest_bytes + own_bytes(connection)


def own_bytes(connection: Connection) -> int:
    """What is in the queues that go with it: temp queues, and those of its subscriptions to exchanges."""
    own = sum(queue.memory_bytes for queue in connection.temp_queues.values())
    for subscription in connection.queue_subscriptions.values():
        if subscription.queue.settings is OWN_SETTINGS:
            own += subscription.queue.memory_bytes
    return own
