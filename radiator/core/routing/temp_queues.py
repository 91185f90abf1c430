"""Temp queues: each belongs to one connection, and is found by others under the id of its reply address only."""

from collections.abc import Callable

from radiator.core.connections import Connection
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.model.errors import Refusal
from radiator.model.limits import Limits
from radiator.model.patterns import is_node_name, is_pattern
from radiator.model.settings import MEMORY_BYTES_MAX, MEMORY_MESSAGES_MAX, QueueSettings

REPLY_ID_BYTES = 16  # so that nobody can guess one
TEMP_SETTINGS = QueueSettings(
    persistent=False, max_messages=MEMORY_MESSAGES_MAX, max_bytes=MEMORY_BYTES_MAX, overflow="reject"
)


class TempQueues:
    """by_id: all of them, by reply id. at_node: what reply ids of this node end with, so that other nodes know where to
    send the reply. entropy: returns that many random bytes.
    """

    __slots__ = ("at_node", "by_id", "entropy", "limits", "ports")

    def __init__(self, limits: Limits, entropy: Callable[[int], bytes], ports: QueuePorts) -> None:
        self.limits = limits
        self.entropy = entropy
        self.ports = ports
        self.at_node = ""
        self.by_id: dict[str, Queue] = {}

    def of(self, connection: Connection, name: str) -> Queue:
        """Returns that connection's temp queue of that name; makes it where there is none. Its reply id cannot be
        guessed.
        """
        known = connection.temp_queues.get(name)
        if known is not None:
            return self.by_id[known.reply_id]
        if is_pattern(name):
            raise Refusal("wildcard", f"/temp-queue/{name} has a wildcard: only a topic's SUBSCRIBE may use them.")
        count = len(connection.temp_queues)
        if count >= self.limits.max_subscriptions:
            raise Refusal(
                "too-many-destinations",
                f"This connection has {count} temp queues: max_subscriptions bounds them too.",
            )
        queue = MemoryQueue(name, TEMP_SETTINGS, self.ports)
        queue.reply_id = self.entropy(REPLY_ID_BYTES).hex() + self.at_node
        connection.temp_queues[name] = queue
        self.by_id[queue.reply_id] = queue
        return queue

    def node_of_asker(self, reply_id: str) -> str:
        """Returns the other node that the id of a reply queue names; "" if it is of this node, or of none."""
        _, at, node = reply_id.rpartition("@")
        return node if at and self.at_node not in ("", at + node) and is_node_name(node) else ""

    def drop(self, connection: Connection) -> None:
        """Removes the temp queues of a connection that has ended."""
        for queue in connection.temp_queues.values():
            queue.end()
            del self.by_id[queue.reply_id]
        connection.temp_queues.clear()
