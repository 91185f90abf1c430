"""Prepares what comes in by a SEND: the message, its header block, and the queue that answers to it come to."""

from collections.abc import Iterable

from radiator.core.connections import Connection, Subscription
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, Send
from radiator.model.errors import Refusal
from radiator.model.headers import REPLY_TO, block_of
from radiator.model.limits import Limits


class Incoming:
    """See above. It changes nothing, except that it makes the subscription that answers come to."""

    __slots__ = ("context", "destinations", "limits")

    def __init__(self, context: TurnContext, destinations: Destinations, limits: Limits) -> None:
        self.context = context
        self.destinations = destinations
        self.limits = limits

    def put_into(self, plan: Plan, command: Send, headers: bytes, queues: Iterable[Target], due_ms: int) -> None:
        """Plans a copy for each of the queues."""
        common = command.message(headers, self.context.now_ms, None)
        for queue in queues:
            ttl_ms = queue.settings.message_ttl_ms
            message = common if ttl_ms is None else command.message(headers, self.context.now_ms, ttl_ms)
            plan.puts.append((queue, message, command.dedup_id, due_ms))
            if command.immediate:
                plan.immediate[queue] = command.destination
        if command.immediate and due_ms:
            raise no_consumer(command.destination, "it is kept back until later")

    def named_by(self, plan: Plan, command: Send, first: Target | None) -> list[Target]:
        """Returns the queue that a SEND to a queue goes into, and those that its further keys name, each once."""
        found: dict[Target, None] = {} if first is None else {first: None}
        for name in command.more_keys:
            queue = self.destinations.queues.all.get(name)
            if queue is not None:
                found[queue] = None
        plan.missing += not found
        return [*found]

    def due_ms(self, command: Send) -> int:
        """Returns until when the message is delayed; 0: it is not."""
        if command.delay_ms is None and command.deliver_at_ms is None:
            return 0
        due_ms = max(self.context.now_ms + (command.delay_ms or 0), command.deliver_at_ms or 0)
        return due_ms if due_ms > self.context.now_ms else 0

    def with_reply_to(self, connection: Connection, command: Send, name: str) -> bytes:
        """Returns the header block that the receiver of a request gets: with the address of the sender's temp queue."""
        reply_id = self.asker(connection, name).reply_id
        return command.headers + block_of(command.escaping, (REPLY_TO, b"/reply-queue/" + reply_id.encode()))

    def asker(self, connection: Connection, name: str) -> Queue:
        """Returns the temp queue that answers come to; makes a subscription with its address as id if it has none."""
        queue = self.destinations.temp_queues.of(connection, name)
        if not queue.subscriptions:
            address = f"/temp-queue/{name}".encode()
            if address in connection.queue_subscriptions or address in connection.topic_subscriptions:
                raise Refusal(
                    "subscription",
                    f"The subscription id {address.decode()} is needed for replies, but in use otherwise.",
                )
            connection.check_subscriptions(self.limits.max_subscriptions)
            subscription = Subscription(connection, address, queue, AUTO, None, False, True, connection.next_place)
            connection.next_place += 1
            connection.had_auto = True
            connection.queue_subscriptions[address] = subscription
            queue.subscribe(subscription)
            queue.join(subscription)
        return queue
