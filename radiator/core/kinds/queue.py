"""`/queue/NAME`: a queue, which first use may create."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Door, Kind, Subscriber
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import QUEUE
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.patterns import is_pattern


class QueueKind(Kind):
    """See above."""

    name = QUEUE

    __slots__ = ()

    def send(self, door: Door, connection: Connection, command: Send, name: str) -> Waitable | None:
        if command.immediate:
            return door.send_planned(connection, command)
        return door.send_to(connection, self.destinations.queue(name), command)

    def can_delay(self, name: str) -> bool:
        return True

    def plan(self, plan: Plan, connection: Connection, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        if command.immediate and name not in self.destinations.queues:
            raise no_consumer(command.destination, "there is no such queue")
        self.incoming.put_into(plan, command, headers, (self.destinations.queue(name),), due_ms)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        if is_pattern(name):
            raise Refusal(
                "wildcard", f"/{self.name}/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`."
            )
        is_new = name not in self.destinations.queues
        queue = self.destinations.queue(name)
        subscription = subscriber.consume(connection, command, queue)
        subscriber.receipt(connection, command, durable=queue.is_persistent and is_new)
        queue.join(subscription)
        return None
