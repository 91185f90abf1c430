"""What the broker holds that is nowhere else, who holds it, and who must wait or go for it.

Weighed at each Tick, with all that has come in since. What is on the disk too (windows, messages in flight of
persistent queues, what is read of logs) has bounds of its own, and is never a reason to refuse anybody.
"""

from collections.abc import Collection
from heapq import nlargest
from typing import TYPE_CHECKING

from radiator.broker.consumers import Connection
from radiator.broker.exchanges import OWN_SETTINGS
from radiator.broker.kinds.queue import Queue
from radiator.limits import HOLDERS_TOLD, MEMORY_SHARE, MEMORY_TIGHT, NEXT_TO_NOTHING_BYTES, Limits

if TYPE_CHECKING:
    from radiator.broker.destinations import Destinations


class Memory:
    """bytes: as last weighed (`weighed_bytes`), and what has come in since, gone again or not. tight_bytes: past it
    only those go on who hold little. share_bytes: what a connection may hold then; least_bytes: next to nothing.
    waiting_bytes: what goes on when a batch is on the disk. parts_bytes: of large messages that come from other nodes,
    and are not whole. is_awaited: whether somebody has found no room in a memory queue since it was last weighed.
    holders: who held most then, with bytes: `connection NUMBER`, and addresses of memory queues.
    """

    __slots__ = (
        "bound_bytes", "bytes", "destinations", "holders", "is_awaited", "least_bytes", "parts_bytes", "share_bytes",
        "tight_bytes", "waiting_bytes", "weighed_bytes",
    )  # fmt: skip

    def __init__(self, destinations: "Destinations", limits: Limits) -> None:
        self.destinations = destinations
        self.bound_bytes = bound = limits.max_memory_bytes
        self.tight_bytes = int(MEMORY_TIGHT * bound)
        self.share_bytes = max(bound // MEMORY_SHARE, min(limits.max_frame_bytes, bound // 2))
        self.least_bytes = min(NEXT_TO_NOTHING_BYTES, bound // 64)
        self.bytes = self.weighed_bytes = 0
        self.waiting_bytes = 0
        self.parts_bytes = 0
        self.is_awaited = False
        self.holders: list[tuple[str, int]] = []

    def queues(self) -> list[Queue]:
        """Those in memory that are no connection's own."""
        return [queue for queue in self.destinations.queues.values() if not queue.is_persistent]

    def weigh(self, connections: Collection[Connection]) -> int:
        """All that is nowhere else; who holds most of it is known until the next time."""
        # those that are being closed for what they hold have let go of it
        held = [
            (size, f"connection {one.number}") for one in connections if (size := one.held_bytes) and not one.is_closing
        ]
        if self.destinations.replies or self.destinations.exchanges.own:
            held = [
                (size, f"connection {one.number}")
                for one in connections
                if not one.is_closing and (size := held_by(one) - one.rest_bytes)
            ]
        held += [(queue.memory_bytes, queue.address) for queue in self.queues() if queue.ledger.stored]
        self.holders = [(name, size) for size, name in nlargest(HOLDERS_TOLD, held)]
        self.weighed_bytes = sum(size for size, _ in held) + self.waiting_bytes + self.parts_bytes
        return self.weighed_bytes

    @property
    def on_disk_too(self) -> int:
        """Bytes in memory of what can be read back."""
        windows = self.destinations.windows
        return windows.size + windows.out + self.destinations.readers.memory_bytes

    def is_above_share(self, connection: Connection) -> bool:
        """Whether its SENDs wait while memory is tight. Past the bound, until the largest have gone, nearly all do."""
        return held_by(connection) > (self.share_bytes if self.bytes <= self.bound_bytes else self.least_bytes)

    def has_room(self, queue: Queue, size: int) -> bool:
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
