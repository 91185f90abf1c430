"""SUBSCRIBE and UNSUBSCRIBE: which queue, or topic, a subscription is to, and what becomes of that when it ends.

A durable subscription is a queue with a binding: both are there until an UNSUBSCRIBE says `durable:true`.
"""

from collections.abc import Callable

from radiator.core.connections import MESSAGE_COST_BYTES, Connection, ConsumedQueue, Subscription, TopicSubscription
from radiator.core.logs.log import Log
from radiator.core.logs.log_consumer import LogConsumer
from radiator.core.queues.queue import Queue
from radiator.core.routing.admission import Waitable, WaitList
from radiator.core.routing.destinations import DURABLE_PREFIX, PEERS_TOPIC, Destinations, address_of
from radiator.core.routing.exchanges import TOPICS
from radiator.core.turn import TurnContext
from radiator.model.addresses import EXCHANGE, EXISTING, FANOUT, LOG, QUEUE, TEMP, TOPIC, split
from radiator.model.commands import AUTO, CLIENT, Subscribe, Unsubscribe
from radiator.model.errors import Refusal, count_text, shown
from radiator.model.limits import Limits
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.replies import Receipt


class OffsetSearch(WaitList):
    """A SUBSCRIBE waits here while it is read where its new group begins, which is at a time. offsets: that, then."""

    __slots__ = ("command", "log", "offsets")

    def __init__(self, log: Log, command: Subscribe) -> None:
        super().__init__(f"the search for a time in {log.name}")
        self.log = log
        self.command = command
        self.offsets: list[int] | None = None


class Subscriptions:
    """The subscriptions of all connections. delete: a queue whose durable subscription has ended; on_left: told of a
    queue that has lost a consumer. freed: rooms whose waiters are to be tried again.
    """

    __slots__ = ("delete", "context", "destinations", "unblocked", "limits", "on_left")

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        limits: Limits,
        delete: Callable[[Queue], None],
        on_left: Callable[[ConsumedQueue], None],
        unblocked: dict[Waitable, None],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.limits = limits
        self.delete = delete
        self.on_left = on_left
        self.unblocked = unblocked

    def subscribe(self, connection: Connection, command: Subscribe) -> Waitable | None:
        """Carry it out; or what it must wait for first. Raises Refusal."""
        if (
            command.subscription in connection.queue_subscriptions
            or command.subscription in connection.topic_subscriptions
        ):
            raise Refusal(
                "subscription",
                f"The subscription id {shown(command.subscription)} is in use on this connection already.",
            )
        connection.check_subscriptions(self.limits.max_subscriptions)
        kind, name = split(command.destination)
        if kind in (TOPIC, EXCHANGE) and command.durable:
            self.subscribe_durable(connection, command, kind, name)
        elif kind == TOPIC:
            self.subscribe_topic(connection, command, name)
        elif kind == EXCHANGE:
            self.subscribe_exchange(connection, command, name)
        elif kind in (QUEUE, TEMP):
            self.subscribe_queue(connection, command, kind, name)
        elif kind == EXISTING:
            if name not in self.destinations.queues:
                raise Refusal("no-such-destination", f"There is no /queue/{name}, and this address makes none.")
            self.subscribe_queue(connection, command, QUEUE, name)
        elif kind == LOG:
            return self.subscribe_log(connection, command, name)
        elif kind == FANOUT:
            children = ", ".join(address_of(child) for child in self.destinations.fanout(name).children)
            raise Refusal(
                "send-only", f"/fanout/{name} can only be sent to; subscribe to one of its children: {children}."
            )
        else:
            raise Refusal("send-only", f"{command.destination} can only be sent to.")
        return None

    def subscribe_topic(self, connection: Connection, command: Subscribe, name: str) -> None:
        self.destinations.check_topic(name, for_send=False)
        limits, asked, pressed = self.limits, command.buffer_max_bytes, None
        most = limits.outbox_max_bytes if asked is None else min(asked, limits.outbox_max_bytes)
        if asked is None and limits.has_default_outbox:
            most += 2 * MESSAGE_COST_BYTES
            pressed = limits.outbox_filled_bytes
        subscription = TopicSubscription(
            connection,
            command.subscription,
            name,
            command.ack,
            command.named,
            most,
            command.buffer_max_messages,
            pressed,
        )
        connection.topic_subscriptions[command.subscription] = subscription
        connection.had_topic = True
        self.destinations.topics.subscribe(subscription)
        self.receipt(connection, command)

    def subscribe_queue(self, connection: Connection, command: Subscribe, kind: str, name: str) -> None:
        if is_pattern(name):
            raise Refusal(
                "wildcard", f"/{kind}/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`."
            )
        existed = name in self.destinations.queues
        queue = self.destinations.temp_queue(connection, name) if kind == TEMP else self.destinations.queue(name)
        subscription = self.consume(connection, command, queue)
        self.receipt(connection, command, durable=queue.is_persistent and not existed)
        queue.join(subscription)

    def subscribe_exchange(self, connection: Connection, command: Subscribe, address: str) -> None:
        """With a queue of its own."""
        name, _, pattern = address.partition("/")
        exchanges = self.destinations.exchanges
        queue = exchanges.make_own(name, pattern)
        exchanges.own[queue] = subscription = self.consume(connection, command, queue)
        self.receipt(connection, command)
        queue.join(subscription)

    def subscribe_log(self, connection: Connection, command: Subscribe, name: str) -> Waitable | None:
        """With a reader of its own; its group's position is on the disk with the RECEIPT."""
        destinations = self.destinations
        log = destinations.log(name)
        reader = LogConsumer(log, command, destinations.readers)
        if reader.needs_search(command):
            finding = connection.waits_for
            if not isinstance(finding, OffsetSearch) or finding.command is not command or finding.log is not log:
                return self.search(log, command)
            if finding.offsets is None:
                return finding
            reader.firsts = finding.offsets
        subscription = self.consume(connection, command, reader)
        reader.begin(subscription, command)
        # D26: behind the batch that has where a new group begins
        self.receipt(connection, command, durable=command.group is not None)
        reader.join(subscription)
        return None

    def search(self, log: Log, command: Subscribe) -> OffsetSearch:
        """It is read where that time is, among all that is in the log now."""
        assert command.start is not None
        _, time_ms = command.start
        finding = OffsetSearch(log, command)

        def found(offsets: list[int]) -> None:
            finding.offsets = offsets
            self.unblocked[finding] = None

        # what is in the open batch cannot be read yet
        self.context.open.then.append(lambda: log.tell_offsets(time_ms, found, lambda: not finding.waiters))
        return finding

    def subscribe_durable(self, connection: Connection, command: Subscribe, kind: str, address: str) -> None:
        """With a persistent queue that is there already, or is made and bound now."""
        destinations = self.destinations
        if kind == TOPIC:
            if address == PEERS_TOPIC and destinations.is_clustered:
                raise Refusal("reserved", f"/topic/{address} says what happens now: it has no durable subscriptions.")
            destinations.check_topic(address, for_send=False, is_new=False)
            name, pattern = TOPICS, address
        else:
            name, _, pattern = address.partition("/")
            if not destinations.exchange(name).durable:
                raise Refusal(
                    "declared-otherwise", f"/exchange/{name} is not durable, so it has no durable subscriptions."
                )
        queue_name = name_of(kind, address, command.durable_name or command.subscription)
        there = destinations.durables.get(queue_name)
        if there is None or (name, pattern) not in destinations.exchanges.bound.get(there, ()):
            destinations.exchanges.check_binding(name, pattern)
        queue = destinations.durable(queue_name)
        subscription = self.consume(connection, command, queue)
        destinations.exchanges.bind(name, pattern, queue)
        # D24: one that is there may have been made a moment ago, and be on no disk yet
        self.receipt(connection, command, durable=True)
        queue.join(subscription)

    def consume(self, connection: Connection, command: Subscribe, queue: Queue) -> Subscription:
        """A consumer of the queue, who is given nothing yet: the RECEIPT comes first. Raises Refusal `exclusive`."""
        window = command.prefetch_count
        if window is None and command.ack == CLIENT and self.limits.ack_client_window > 1:
            window = self.limits.ack_client_window
        subscription = Subscription(
            connection,
            command.subscription,
            queue,
            command.ack,
            window,
            command.exclusive,
            command.named,
            connection.next_place,
            is_getter=command.is_getter,
            ack_timeout_s=command.ack_timeout_s,
        )
        queue.subscribe(subscription)
        connection.next_place += 1
        connection.queue_subscriptions[command.subscription] = subscription
        connection.had_auto = connection.had_auto or command.ack == AUTO
        return subscription

    # ---- the end ----------------------------------------------------------------------------------------------------

    def unsubscribe(self, connection: Connection, command: Unsubscribe) -> None:
        """Carry it out. Raises Refusal."""
        if command.durable and not self.is_of_queue(connection, command):
            self.end_durable(connection, command)
            return
        subscription = connection.queue_subscriptions.pop(command.subscription, None)
        topic_subscription = connection.topic_subscriptions.pop(command.subscription, None)
        if subscription is not None:
            subscription.queue.unsubscribe(subscription)
            self.destinations.exchanges.drop_own(subscription.queue)
            self.receipt(connection, command)
            self.on_left(subscription.queue)
        elif topic_subscription is not None:
            self.destinations.topics.unsubscribe(topic_subscription)
            self.receipt(connection, command)
        else:
            raise Refusal(
                "subscription",
                f"There is no subscription with the id {shown(command.subscription)} on this connection.",
            )

    def is_of_queue(self, connection: Connection, command: Unsubscribe) -> bool:
        """Whether it ends a subscription on which words for durable ones say nothing, and can mean no other."""
        subscription = connection.queue_subscriptions.get(command.subscription)
        durables = self.destinations.durables
        if subscription is None or command.destination is not None:
            return False
        queue, name = subscription.queue, command.durable_name
        is_own = queue in self.destinations.exchanges.own
        means_another = name is not None and any(other.endswith("/" + name_part(name)) for other in durables)
        return not is_own and queue.name not in durables and not means_another

    def end_durable(self, connection: Connection, command: Unsubscribe) -> None:
        """Its queue goes, with what is in it; unless others consume it still. Raises Refusal."""
        if command.mistake is not None:
            raise Refusal("protocol", command.mistake)
        queue = self.durable_named(connection, command)
        subscription = next((one for one in queue.subscriptions if one.connection is connection), None)
        others = sum(other is not subscription for other in queue.subscriptions)
        if others:
            raise Refusal(
                "in-use", f"The durable subscription {queue.name} has {count_text(others, 'other consumer')}."
            )
        if subscription is not None:
            del connection.queue_subscriptions[subscription.name]
            queue.unsubscribe(subscription)
        self.delete(queue)
        self.receipt(connection, command, durable=True)

    def durable_named(self, connection: Connection, command: Unsubscribe) -> Queue:
        """The queue of the durable subscription that an UNSUBSCRIBE means. Raises Refusal."""
        durables = self.destinations.durables
        durable = command.durable_name or command.subscription
        end = "/" + name_part(durable)
        subscription = connection.queue_subscriptions.get(command.subscription)
        found: list[ConsumedQueue]
        if subscription is not None:
            found = [subscription.queue] if subscription.queue.name.endswith(end) else []
        elif command.destination is not None:
            kind, address = split(command.destination)
            found = [durables[name]] if (name := name_of(kind, address, durable)) in durables else []
        else:
            mine = connection.queue_subscriptions.values()
            found = [one.queue for one in mine if one.queue.name.endswith(end)]
            if not found and command.durable_name is not None:
                # ActiveMQ's words name it without its destination, on another connection too
                found = [queue for name, queue in durables.items() if name.endswith(end)]
        durable_ones = [durables[queue.name] for queue in found if durables.get(queue.name) is queue]
        if len(durable_ones) == 1:
            return durable_ones[0]
        if durable_ones:
            raise Refusal(
                "subscription",
                f"{shown(durable)} are {len(durable_ones)} durable subscriptions: the header 'destination' says which.",
            )
        raise Refusal(
            "subscription",
            f"There is no durable subscription with the id {shown(durable)}; one that is not on this connection is "
            "named by its destination too.",
        )

    def closed(self, connection: Connection) -> dict[ConsumedQueue, None]:
        """All of a connection that is gone end; the queues that they consumed."""
        destinations = self.destinations
        for topic_subscription in connection.topic_subscriptions.values():
            destinations.topics.unsubscribe(topic_subscription)
        destinations.drop_temp_queues(connection)
        queues = {subscription.queue: None for subscription in connection.queue_subscriptions.values()}
        for subscription in connection.queue_subscriptions.values():
            subscription.queue.unsubscribe(subscription)
            destinations.exchanges.drop_own(subscription.queue)
        # no circle is left: 1000 reply queues go now, not when garbage is collected (COLLECT_EVERY_S)
        connection.queue_subscriptions.clear()
        connection.topic_subscriptions.clear()
        return queues

    def receipt(self, connection: Connection, command: Subscribe | Unsubscribe, durable: bool = False) -> None:
        if command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt), durable)


def name_of(kind: str, address: str, durable: bytes) -> str:
    """The queue of the durable subscription to that address with that id; no two have the same. Raises Refusal."""
    if kind == EXCHANGE and "/" not in address:
        address += "/"
    name = f"{DURABLE_PREFIX}{kind}/{address}/{name_part(durable)}"
    mistake = name_mistake(name)
    if mistake:
        raise Refusal(
            "protocol", f"The queue of this durable subscription would be called {name!r:.80}, which {mistake}."
        )
    return name


def name_part(subscription: bytes) -> str:
    """That id as the last word of its queue's name."""
    return subscription.decode().replace("%", "%25").replace("/", "%2F")
