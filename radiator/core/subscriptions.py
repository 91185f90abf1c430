"""SUBSCRIBE and UNSUBSCRIBE: which queue or topic a subscription is to, and what happens to that when it ends.

A durable subscription is a queue with a binding: both are there until an UNSUBSCRIBE says `durable:true`.
"""

from collections.abc import Callable, Mapping

from radiator.core.authorization import Authorization
from radiator.core.connections import Connection, ConsumedQueue, Subscription
from radiator.core.kinds.kind import Kind
from radiator.core.logs.log import Log
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.queue_settings import DURABLE_PREFIX
from radiator.core.routing.waiting import Waitable, WaitList
from radiator.core.turn import TurnContext
from radiator.model.addresses import split
from radiator.model.commands import AUTO, CLIENT, Subscribe, Unsubscribe
from radiator.model.errors import Refusal, count_text, shown
from radiator.model.limits import Limits
from radiator.model.patterns import name_mistake
from radiator.model.replies import Receipt


class OffsetSearch:
    """Searches a log for the offsets at which a SUBSCRIBE's new group begins, given as a time. offsets: the result,
    once it is known; waiting: the connections that wait for it.
    """

    __slots__ = ("command", "log", "offsets", "waiting")

    def __init__(self, log: Log, command: Subscribe) -> None:
        self.log = log
        self.command = command
        self.offsets: list[int] | None = None
        self.waiting = WaitList(f"the search for a time in {log.name}", is_timed=False)


class Subscriptions:
    """The subscriptions of all connections. delete: deletes a queue whose durable subscription has ended; on_left:
    called with a queue that has lost a consumer. unblocked: those whose waiters are to be tried again.
    searches: those that SUBSCRIBEs wait for.
    """

    __slots__ = (
        "authorization", "context", "delete", "destinations", "kinds", "limits", "on_left", "searches", "unblocked",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        limits: Limits,
        delete: Callable[[Queue], None],
        on_left: Callable[[ConsumedQueue], None],
        unblocked: dict[Waitable, None],
        kinds: Mapping[str, Kind],
        authorization: Authorization,
    ) -> None:
        self.authorization = authorization
        self.context = context
        self.destinations = destinations
        self.limits = limits
        self.delete = delete
        self.on_left = on_left
        self.unblocked = unblocked
        self.kinds = kinds
        self.searches: dict[Connection, OffsetSearch] = {}

    def subscribe(self, connection: Connection, command: Subscribe) -> Waitable | None:
        """Carries it out, or returns what it must wait for first. Raises Refusal."""
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
        return self.kinds[kind].subscribe(self, connection, command, name)

    def search(self, connection: Connection, command: Subscribe, log: Log) -> list[int] | Waitable:
        """Returns the offsets at which its new group begins, given as a time, among all that is in the log now; or what
        to wait for while they are searched for.
        """
        search = self.searches.get(connection)
        if search is None or search.command is not command or search.log is not log:
            search = self.searches[connection] = OffsetSearch(log, command)
            self.begin_search(search)
        if search.offsets is None:
            return search.waiting
        del self.searches[connection]
        return search.offsets

    def begin_search(self, search: OffsetSearch) -> None:
        """Begins a search. The connections that wait for it go on when it is over."""
        assert search.command.start is not None
        _, time_ms = search.command.start

        def found(offsets: list[int]) -> None:
            search.offsets = offsets
            self.unblocked[search.waiting] = None

        # what is in the open batch cannot be read yet
        self.context.open.then.append(
            lambda: search.log.find_offsets(time_ms, found, lambda: not search.waiting.waiters)
        )

    def consume_durably(
        self, connection: Connection, command: Subscribe, kind: str, address: str, binding: tuple[str, str]
    ) -> None:
        """Adds a consumer to a persistent queue that exists already, or is made and bound now."""
        destinations = self.destinations
        queue_name = name_of(self.kinds[kind], address, command.durable_name or command.subscription)
        there = destinations.queues.durables.get(queue_name)
        if there is None or binding not in destinations.exchanges.bound.get(there, ()):
            destinations.exchanges.check_binding(*binding)
        queue = destinations.queues.durable(queue_name)
        subscription = self.consume(connection, command, queue)
        destinations.exchanges.bind(*binding, queue)
        # D24: an existing one may have been made a moment ago, and not be on the disk yet
        self.receipt(connection, command, durable=True)
        queue.join(subscription)

    def consume(self, connection: Connection, command: Subscribe, queue: Consumable) -> Subscription:
        """Adds a consumer, without delivering to it yet: the RECEIPT comes first. Raises Refusal `exclusive`."""
        window = command.prefetch_count
        if window is None and not command.shares_window and command.ack == CLIENT and self.limits.ack_client_window > 1:
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
            destination=command.destination,
            consumer_name=command.consumer_name,
            shares_window=command.shares_window,
            reports_end=command.reports_end,
            priority=command.consumer_priority,
        )
        queue.subscribe(subscription)
        connection.next_place += 1
        connection.queue_subscriptions[command.subscription] = subscription
        connection.had_auto = connection.had_auto or command.ack == AUTO
        return subscription

    # ---- the end ----------------------------------------------------------------------------------------------------

    def unsubscribe(self, connection: Connection, command: Unsubscribe) -> None:
        """Carries it out. Raises Refusal."""
        if command.durable and not self.is_of_queue(connection, command):
            self.end_durable(connection, command)
            return
        if not self.end(connection, command.subscription, lambda: self.receipt(connection, command)):
            raise Refusal(
                "subscription",
                f"There is no subscription with the id {shown(command.subscription)} on this connection.",
            )

    def end(self, connection: Connection, name: bytes, ended: Callable[[], None] = lambda: None) -> bool:
        """Ends the subscription of that name. Returns whether there was one. ended: called before its queue, which may
        have lost its last consumer, is looked at.
        """
        subscription = connection.queue_subscriptions.pop(name, None)
        topic_subscription = connection.topic_subscriptions.pop(name, None)
        if subscription is not None:
            subscription.queue.unsubscribe(subscription)
            self.destinations.exchanges.drop_private(subscription.queue)
            ended()
            self.on_left(subscription.queue)
        elif topic_subscription is not None:
            self.destinations.topics.unsubscribe(topic_subscription)
            ended()
        return subscription is not None or topic_subscription is not None

    def is_of_queue(self, connection: Connection, command: Unsubscribe) -> bool:
        """Whether it ends a subscription to a plain queue, on which words for durable ones have no effect."""
        subscription = connection.queue_subscriptions.get(command.subscription)
        durables = self.destinations.queues.durables
        if subscription is None or command.destination is not None:
            return False
        queue, name = subscription.queue, command.durable_name
        is_private = queue in self.destinations.exchanges.private
        means_another = name is not None and any(other.endswith("/" + name_part(name)) for other in durables)
        return not is_private and queue.name not in durables and not means_another

    def end_durable(self, connection: Connection, command: Unsubscribe) -> None:
        """Deletes its queue, with what is in it. Raises Refusal, also if others still consume it."""
        if command.mistake is not None:
            raise Refusal("protocol", command.mistake)
        queue = self.durable_named(connection, command)
        self.authorization.check_ending(connection, destination_of(queue.name))
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
        """Returns the queue of the durable subscription that an UNSUBSCRIBE means. Raises Refusal."""
        durables = self.destinations.queues.durables
        durable = command.durable_name or command.subscription
        end = "/" + name_part(durable)
        subscription = connection.queue_subscriptions.get(command.subscription)
        found: list[ConsumedQueue]
        if subscription is not None:
            found = [subscription.queue] if subscription.queue.name.endswith(end) else []
        elif command.destination is not None:
            kind, address = split(command.destination)
            found = [durables[name]] if (name := name_of(self.kinds[kind], address, durable)) in durables else []
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
        """Ends all subscriptions of a connection that is closed. Returns the queues that they consumed."""
        destinations = self.destinations
        for topic_subscription in connection.topic_subscriptions.values():
            destinations.topics.unsubscribe(topic_subscription)
        destinations.temp_queues.drop(connection)
        self.searches.pop(connection, None)
        queues = {subscription.queue: None for subscription in connection.queue_subscriptions.values()}
        for subscription in connection.queue_subscriptions.values():
            subscription.queue.unsubscribe(subscription)
            destinations.exchanges.drop_private(subscription.queue)
        # no reference cycle is left: 1000 reply queues go now, not when garbage is collected (COLLECT_EVERY_S)
        connection.queue_subscriptions.clear()
        connection.topic_subscriptions.clear()
        return queues

    def receipt(self, connection: Connection, command: Subscribe | Unsubscribe, durable: bool = False) -> None:
        if command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt), durable)


def name_of(kind: Kind, address: str, durable: bytes) -> str:
    """Returns the name of the queue of the durable subscription to that address with that id; no two have the same.
    Raises Refusal.
    """
    name = f"{DURABLE_PREFIX}{kind.name}/{kind.whole_address(address)}/{name_part(durable)}"
    mistake = name_mistake(name)
    if mistake:
        raise Refusal(
            "protocol", f"The queue of this durable subscription would be called {name!r:.80}, which {mistake}."
        )
    return name


def destination_of(durable: str) -> str:
    """Returns the destination of the durable subscription whose queue has that name."""
    return "/" + durable.removeprefix(DURABLE_PREFIX).rpartition("/")[0]


def name_part(subscription: bytes) -> str:
    """Returns that id as the last part of its queue's name."""
    return subscription.decode().replace("%", "%25").replace("/", "%2F")
