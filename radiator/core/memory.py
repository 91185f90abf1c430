"""Memory that holds the only copy of something: its size, its holders, and which of these wait or are closed for it.

It is weighed from each Tick on (rounds.py), and what has come in since is added. What is on the disk too (windows,
unacked messages of persistent queues, what is read of logs) has its own bounds, and never causes a refusal.
"""

from heapq import heappush, heapreplace
from typing import TYPE_CHECKING

from radiator.core.connections import Connection
from radiator.core.producer import Producer
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.exchanges import PRIVATE_SETTINGS
from radiator.model.limits import (
    HOLDERS_SHOWN,
    MEMORY_SHARE,
    MEMORY_TIGHT,
    NEXT_TO_NOTHING_BYTES,
    Limits,
)

if TYPE_CHECKING:
    from radiator.core.routing.destinations import Destinations


class Memory:
    """bytes: as last weighed (`weighed_bytes`), plus all that has come in since that began, even if gone again.
    tight_bytes: past it only those that hold little go on. share_bytes: what a connection may hold then; least_bytes:
    holders of less are never closed. waiting_bytes: of messages that go on when a batch is on the disk. parts_bytes: of
    large messages from other nodes that are incomplete. frames_grown_bytes: by how much incomplete frames have grown
    since the last weighing began, which `bytes` does not follow. is_awaited: whether a producer has found no room in a
    memory queue since the last weighing.
    holders: the largest then, with bytes: `connection NUMBER`, and addresses of memory queues. outbox_bytes: in all
    outgoing buffers then, and outbox_largest_bytes in the fullest.
    """

    __slots__ = (
        "bound_bytes", "bytes", "destinations", "frames_grown_bytes", "holders", "is_awaited", "least_bytes",
        "outbox_bytes", "outbox_largest_bytes", "parts_bytes", "share_bytes", "tight_bytes", "waiting_bytes",
        "weighed_bytes",
    )  # fmt: skip

    def __init__(self, destinations: "Destinations", limits: Limits) -> None:
        self.destinations = destinations
        self.bound(limits)
        self.bytes = self.weighed_bytes = 0
        self.waiting_bytes = 0
        self.parts_bytes = 0
        self.frames_grown_bytes = 0
        self.outbox_bytes = self.outbox_largest_bytes = 0
        self.is_awaited = False
        self.holders: list[tuple[str, int]] = []

    def bound(self, limits: Limits) -> None:
        """Takes these limits from now on."""
        self.bound_bytes = bound = limits.max_memory_bytes
        self.tight_bytes = int(MEMORY_TIGHT * bound)
        self.share_bytes = max(bound // MEMORY_SHARE, min(limits.max_frame_bytes, bound // 2))
        self.least_bytes = min(NEXT_TO_NOTHING_BYTES, bound // 64)

    @property
    def is_weighing_due(self) -> bool:
        """Whether so much has come in since the last weighing that the next Tick would be too late."""
        bytes_now = self.bytes + self.frames_grown_bytes
        return bytes_now > self.bound_bytes and bytes_now - self.weighed_bytes > self.share_bytes

    @property
    def on_disk_too(self) -> int:
        """Bytes in memory of what can be read back."""
        windows = self.destinations.windows
        return windows.size + windows.out + windows.held + self.destinations.readers.memory_bytes

    @property
    def in_all_bytes(self) -> int:
        """The bytes last weighed, and those of what can be read back."""
        return self.weighed_bytes + self.on_disk_too

    def is_above_share(self, producer: Producer) -> bool:
        """Whether its SENDs wait while memory is tight. Past the bound, until the largest have gone, nearly all do."""
        return held_by(producer) > (self.share_bytes if self.bytes <= self.bound_bytes else self.least_bytes)

    def has_capacity(self, queue: Target, size: int) -> bool:
        """While memory is tight: whether `size` more bytes may come into a memory queue. It may hold as much as is
        free, so one that holds little goes on however full the others are; up to least_bytes it always may.
        """
        if queue.memory_bytes + size <= max(self.least_bytes, self.bound_bytes - self.bytes):
            return True
        self.is_awaited = True
        return False

    def holders_text(self) -> str:
        """Returns who holds most, in words."""
        return ", ".join(f"{name}: {size} bytes" for name, size in self.holders) or "nobody"


class Weighing:
    """Adds up what has no other copy: first the memory queues, then the connections. In this order a byte that moves
    from a connection into a queue between two slices is not counted twice.

    bytes: found so far; unread: of these, in outgoing buffers, and unread_most in the fullest; largest: the holders of
    most; large: connections that hold least_bytes or more, a heap of (-bytes, number, connection); growing: those above
    their share that held less at the last weighing; awaited: queues that producers wait for; held: bytes of the keys
    that delays hold, which are on the disk too.
    """

    __slots__ = (
        "awaited", "began_bytes", "began_frames_grown_bytes", "began_waiting_bytes", "bytes", "found", "growing",
        "has_private", "held", "large", "largest", "memory", "unread", "unread_most",
    )  # fmt: skip

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.began_bytes = memory.bytes
        self.began_frames_grown_bytes = memory.frames_grown_bytes
        self.began_waiting_bytes = memory.waiting_bytes
        self.bytes = self.unread = self.unread_most = self.found = self.held = 0
        self.has_private = False
        self.large: list[tuple[int, int, Connection]] = []
        self.growing: list[Connection] = []
        self.awaited: list[Queue] = []
        self.largest: list[tuple[int, int, Queue | Connection]] = []

    def queue(self, queue: Queue) -> None:
        """Weighs a queue in memory that does not belong to a connection."""
        if queue.ledger.stored:
            size = queue.memory_bytes
            self.bytes += size
            self.note_holder(size, queue)
        if queue.waiters:
            self.awaited.append(queue)

    def begin_connections(self) -> None:
        """Called when the queues have been weighed."""
        memory = self.memory
        self.bytes += memory.waiting_bytes + memory.parts_bytes
        self.began_waiting_bytes -= memory.waiting_bytes
        self.has_private = bool(memory.destinations.temp_queues.by_id or memory.destinations.exchanges.private)

    def connection(self, connection: Connection) -> bool:
        """Weighs a connection that is not being closed (what such a one holds is freed soon). Returns whether it holds
        nothing, and will not before it wakes.
        """
        held = connection.held_bytes
        memory = self.memory
        if held > memory.share_bytes and held > connection.weighed_bytes:
            self.growing.append(connection)
        connection.weighed_bytes = held
        unread = connection.outbox_bytes
        self.unread += unread
        if unread > self.unread_most:
            self.unread_most = unread
        size = held + private_bytes(connection) if self.has_private else held
        if connection.usage is not None:
            connection.usage.weigh(connection, size)
        if size:
            self.bytes += size
            self.note_holder(size, connection)
        size += connection.rest_bytes
        if size >= memory.least_bytes:
            heappush(self.large, (-size, connection.number, connection))
        # what others send into its own queues does not wake it
        return not size and connection.waits_for is None and not (self.has_private and has_private(connection))

    def note_holder(self, size: int, holder: Queue | Connection) -> None:
        """Keeps it if it is one of the largest, and holds least_bytes or more."""
        largest = self.largest
        if size < self.memory.least_bytes:
            return
        if len(largest) < HOLDERS_SHOWN:
            self.found += 1
            heappush(largest, (size, self.found, holder))
        elif size > largest[0][0]:
            self.found += 1
            heapreplace(largest, (size, self.found, holder))

    def end(self) -> None:
        """Called when all has been weighed. What came or moved meanwhile, and may have been missed, counts when a
        producer asks for room, but not when it is decided which connections are closed.
        """
        memory = self.memory
        since = max(0, memory.bytes - self.began_bytes) + max(0, self.began_waiting_bytes)
        memory.weighed_bytes = self.bytes
        memory.destinations.windows.held = self.held
        memory.outbox_bytes, memory.outbox_largest_bytes = self.unread, self.unread_most
        memory.bytes = self.bytes + since
        memory.frames_grown_bytes -= self.began_frames_grown_bytes
        memory.holders = [(holder.address, size) for size, _, holder in sorted(self.largest, reverse=True)]


def held_by(producer: Producer) -> int:
    """Returns the bytes of memory that are freed when it ends. What is read back of a prepared transaction is in
    `waiting_bytes` instead.
    """
    if isinstance(producer, Connection):
        return producer.held_bytes + producer.rest_bytes + private_bytes(producer)
    return producer.rest_bytes


def private_bytes(connection: Connection) -> int:
    """Returns the bytes in the queues that end with it: temp queues, and those of its subscriptions to exchanges."""
    own = sum(queue.memory_bytes for queue in connection.temp_queues.values())
    for subscription in connection.queue_subscriptions.values():
        if subscription.queue.settings is PRIVATE_SETTINGS:
            own += subscription.queue.memory_bytes
    return own


def has_private(connection: Connection) -> bool:
    """Whether it has such a queue."""
    subscriptions = connection.queue_subscriptions.values()
    return bool(connection.temp_queues) or any(one.queue.settings is PRIVATE_SETTINGS for one in subscriptions)
