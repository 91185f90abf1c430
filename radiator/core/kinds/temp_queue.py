"""`/temp-queue/NAME`: a queue of one connection, which answers come to."""

from collections.abc import Iterator

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Kind, Round, Subscriber
from radiator.core.producer import Producer
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import TEMP
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.patterns import is_pattern


class TempQueueKind(Kind):
    """See above."""

    name = TEMP

    __slots__ = ()

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        assert isinstance(producer, Connection), "only a connection has temp queues"
        self.incoming.put_into(plan, command, headers, (self.destinations.temp_queues.of(producer, name),), 0)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        if is_pattern(name):
            raise Refusal(
                "wildcard", f"/{self.name}/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`."
            )
        queue = self.destinations.temp_queues.of(connection, name)
        subscription = subscriber.consume(connection, command, queue)
        subscriber.receipt(connection, command)
        queue.join(subscription)
        return None

    def looks(self, round_: Round) -> Iterator[int]:
        for queue in [*self.destinations.temp_queues.by_id.values()]:
            yield from round_.watch(queue)
