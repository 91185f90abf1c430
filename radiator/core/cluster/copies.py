"""Copies of messages to fanouts and topics for the other nodes of the list: the bound of each outbox, and the nodes for
which no copies are kept.

A node that is away must not stop the others, so its outbox is bounded: by `peer_outbox_max_bytes`, and by the free room
on the disk, however large map_size is. At the bound, SENDs to that fanout or topic wait, and no others. An operator may
say that no copies are kept for a node; that lasts until it is linked again.
"""

from collections.abc import Callable

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.limits import Limits
from radiator.model.settings import Node
from radiator.model.writes import DropDeclared, KeepDeclared

KIND = "no-copies"  # the kind of the rows that name the nodes for which no copies are kept


class Copies:
    """Maintains Destinations.copies_to and copies_dropped. Only the outboxes of nodes of the list get new copies."""

    __slots__ = ("context", "destinations", "limits", "node")

    def __init__(
        self, context: TurnContext, destinations: Destinations, limits: Limits, node: Node, dropped: set[str]
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.limits = limits
        self.node = node
        destinations.copies_to = [destinations.queues.outbox(name) for name in node.peers if name not in dropped]
        destinations.copies_dropped = [destinations.queues.outbox(name) for name in node.peers if name in dropped]
        for queue in self.all:
            queue.is_declared = True
            queue.settings.max_bytes = node.peer_outbox_max_bytes
            queue.settings.overflow = node.peer_outbox_overflow

    @property
    def all(self) -> list[DurableQueue]:
        """Returns the outboxes of all nodes of the list."""
        return [*self.destinations.copies_to, *self.destinations.copies_dropped]

    def is_dropped(self, name: str) -> bool:
        """Whether no copies are kept for that node."""
        return self.destinations.queues.outboxes.get(name) in self.destinations.copies_dropped

    def bound(self, left_bytes: int) -> None:
        """Bounds the outboxes, in equal shares of half of what they hold and the disk has left (left_bytes)."""
        outboxes = self.all
        if not outboxes:
            return
        held = sum(queue.ledger.stored_bytes for queue in outboxes)
        share = max((held + max(0, left_bytes)) // (2 * len(outboxes)), self.limits.max_frame_bytes)
        given = self.node.peer_outbox_max_bytes
        for queue in outboxes:
            queue.settings.max_bytes = share if given is None else min(given, share)
            queue.unblock_waiters()

    def drop(self, name: str, done: Callable[[int], None]) -> None:
        """Keeps no copies for that node from now on, and drops those that wait; `done` is called with their number.
        Copies in doubt stay in doubt.
        """
        queue = self.destinations.queues.outboxes[name]
        if queue in self.destinations.copies_to:
            self.destinations.copies_to.remove(queue)
            self.destinations.copies_dropped.append(queue)
            self.context.write(KeepDeclared(KIND, name, "{}"))
        queue.empty(done)
        queue.unblock_waiters()

    def keep(self, name: str) -> bool:
        """Keeps copies for that node again; returns whether that is new."""
        queue = self.destinations.queues.outboxes.get(name)
        if queue is None or queue not in self.destinations.copies_dropped:
            return False
        self.destinations.copies_dropped.remove(queue)
        self.destinations.copies_to.append(queue)
        self.context.write(DropDeclared(KIND, name))
        self.context.note("info", "copies_kept", node=name, dropped=queue.ledger.dropped)
        return True
