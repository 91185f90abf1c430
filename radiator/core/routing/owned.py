"""Queues that one connection alone may use, with its channels. They end with it.

Anybody who has the right may send to them. An operator, who asks by /admin or HTTP and not on a channel of AMQP, may
look at them, purge and delete them; nobody but the owner takes a message out, or binds them.
"""

from radiator.core.connections import Connection
from radiator.core.queues.queue import Queue
from radiator.model.errors import Refusal
from radiator.model.grounds import Locked


class OwnedQueues:
    """owners: the number of the connection that has declared each. all: the queues of each connection that is open."""

    __slots__ = ("all", "owners")

    def __init__(self) -> None:
        self.owners: dict[Queue, int] = {}
        self.all: dict[int, dict[Queue, None]] = {}

    def add(self, queue: Queue, owner: int) -> None:
        """Makes the queue that connection's."""
        self.owners[queue] = owner
        self.all.setdefault(owner, {})[queue] = None

    def remove(self, queue: Queue) -> None:
        """Called when the queue is deleted."""
        owner = self.owners.pop(queue, 0)
        queues = self.all.get(owner, {})
        queues.pop(queue, None)
        if not queues:
            self.all.pop(owner, None)

    def left_by(self, owner: int) -> list[Queue]:
        """Returns the queues of a connection that is gone. Nobody may use them until they are deleted."""
        return [*self.all.pop(owner, ())]

    def is_left(self, queue: Queue) -> bool:
        """Whether its owner is gone: it is about to be deleted."""
        return queue in self.owners and self.owners[queue] not in self.all

    def check(self, queue: Queue, user: Connection | None) -> None:
        """Raises Refusal where it is another connection's. user: None: a client that has no connection of its own."""
        owner = self.owners.get(queue)
        if owner is not None and (user is None or user.owner != owner):
            raise Refusal.on(Locked(queue.name, owner))

    def check_ended(self, queue: Queue, user: Connection) -> None:
        """Does the same for a purge or a delete, which operators may ask for too: refused only on channels of
        others.
        """
        if user.owner != user.number:
            self.check(queue, user)
