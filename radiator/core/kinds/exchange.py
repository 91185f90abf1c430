"""`/exchange/NAME/KEY`: a copy goes into each queue, or log, with a binding that matches the key."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Kind, Subscriber
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import EXCHANGE
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal


class ExchangeKind(Kind):
    """See above."""

    name = EXCHANGE

    __slots__ = ()

    def whole_address(self, address: str) -> str:
        """With a key, be it empty."""
        return address if "/" in address else f"{address}/"

    def can_delay(self, name: str) -> bool:
        return True

    def plan(self, plan: Plan, connection: Connection, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        name, _, key = name.partition("/")
        exchange = self.destinations.exchanges.get(name)
        exchange.check_key(key, for_send=True)
        own, leaving = self.destinations.exchanges.own, self.destinations.exchanges.leaving
        before = exchange.queues.steps
        matching = list(exchange.matching(key))
        if leaving:
            matching = [queue for queue in matching if queue not in leaving]
        plan.steps += exchange.queues.steps - before
        queues = [queue for queue in matching if queue not in own]
        copies = [queue for queue in matching if queue in own] if len(queues) < len(matching) else []
        if not matching:
            if command.mandatory:
                raise Refusal(
                    "no-subscriber", f"{command.destination} matches no binding, and the message is mandatory."
                )
            if command.immediate:
                raise no_consumer(command.destination, "it matches no binding")
            plan.unrouted.append(exchange)
        plan.through.append(exchange)
        self.incoming.put_into(plan, command, headers, queues, due_ms)
        if copies:
            message = self.incoming.message(command, command.destination, headers, None)
            plan.copies.extend((queue, message, due_ms) for queue in copies)
        if command.immediate:
            plan.immediate.update(dict.fromkeys(copies, command.destination))

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """With a queue of its own, in memory or, where it is durable, on the disk."""
        exchange, _, pattern = name.partition("/")
        exchanges = self.destinations.exchanges
        if command.durable:
            if not exchanges.get(exchange).durable:
                raise Refusal(
                    "declared-otherwise", f"/exchange/{exchange} is not durable, so it has no durable subscriptions."
                )
            subscriber.consume_durably(connection, command, self.name, name, (exchange, pattern))
            return None
        queue = exchanges.make_own(exchange, pattern)
        exchanges.own[queue] = subscription = subscriber.consume(connection, command, queue)
        subscriber.receipt(connection, command)
        queue.join(subscription)
        return None
