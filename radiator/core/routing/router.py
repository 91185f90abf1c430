"""What a SEND is about to do: which queues get a copy, who is told, and what refuses it.

Nothing is changed by that, but for a queue that first use creates, and the subscription that answers come to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from radiator.core.connections import Connection, Subscription
from radiator.core.logs.log import Log
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import OUTBOX_PREFIX, Destinations, Fanout, is_reserved_log
from radiator.core.routing.exchanges import Exchange
from radiator.core.turn import TurnContext
from radiator.model.addresses import EXCHANGE, EXISTING, FANOUT, LOG, QUEUE, REPLY, TEMP, TOPIC, split
from radiator.model.commands import AUTO, Send
from radiator.model.errors import Refusal
from radiator.model.headers import FANOUT_MESSAGE_ID, REPLY_TO, block_of
from radiator.model.limits import Limits
from radiator.model.message import Message

Arrival = tuple[Target, Message, bytes | None, int]  # where to, what, its dedup-id, until when delayed (0: not)


class Plan:
    """What a SEND or a COMMIT is about to do. copies: for those who subscribe to an exchange. through, unrouted: what
    counts it; missing: how often there was no such queue. immediate: queues whose consumers must have room for what is
    put, and the address that says so. steps: what matching has cost. unkept: copies for nodes that none are kept for.
    answers: replies for who has asked at another node.
    """

    __slots__ = (
        "answers", "copies", "immediate", "missing", "publishes", "puts", "replies", "steps", "through", "unkept",
        "unrouted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.puts: list[Arrival] = []
        self.publishes: list[tuple[str, Message, Sequence[str]]] = []
        self.replies: list[tuple[Queue | None, Message]] = []
        self.answers: list[tuple[str, Message]] = []
        self.copies: list[tuple[Target, Message, int]] = []
        self.through: list[Fanout | Exchange] = []
        self.unrouted: list[Exchange] = []
        self.unkept: list[tuple[DurableQueue, int]] = []
        self.missing = 0
        self.steps = 0
        self.immediate: dict[Target, str] = {}


class Router:
    """See above. Several SENDs of a transaction make one Plan."""

    __slots__ = ("context", "destinations", "limits")

    def __init__(self, context: TurnContext, destinations: Destinations, limits: Limits) -> None:
        self.context = context
        self.destinations = destinations
        self.limits = limits

    def message(self, command: Send, destination: str, headers: bytes, ttl_ms: int | None) -> Message:
        """The message as accepted now. The earliest of `expiration`, `expires` and the queue's `message_ttl_ms`
        counts.
        """
        now_ms = self.context.now_ms
        expires_ms = command.expires_ms or 0
        if command.expiration_ms is not None:
            by_expiration = now_ms + command.expiration_ms
            expires_ms = min(expires_ms, by_expiration) if expires_ms else by_expiration
        if ttl_ms is not None:
            expires_ms = min(expires_ms, now_ms + ttl_ms) if expires_ms else now_ms + ttl_ms
        return Message(destination, headers, command.escaping, command.body, now_ms, expires_ms)

    def plan_send(self, connection: Connection, command: Send, plan: Plan) -> Plan:
        """Add what this SEND would do. Raises Refusal for a destination that is not there or cannot take it."""
        kind, name = split(command.destination)
        destinations = self.destinations
        due_ms = self.due_ms(command, kind, name)
        headers = command.headers
        if command.reply_to is not None:
            headers = self.with_reply_to(connection, command, command.reply_to)
        if kind == QUEUE:
            if command.immediate and name not in destinations.queues:
                raise no_consumer(command.destination, "there is no such queue")
            self.plan_puts(plan, command, headers, (destinations.queue(name),), due_ms)
        elif kind == EXISTING:
            found = destinations.queues.get(name)
            if found is not None:
                self.plan_puts(plan, command, headers, (found,), due_ms)
            elif command.mandatory:
                raise Refusal("no-subscriber", f"There is no /queue/{name}, and the message is mandatory.")
            elif command.immediate:
                raise no_consumer(command.destination, "there is no such queue")
            plan.missing += found is None
        elif kind == FANOUT:
            fanout = destinations.fanout(name)
            plan.through.append(fanout)
            common = self.context.message_id(self.context.next_position())
            headers += block_of(command.escaping, (FANOUT_MESSAGE_ID, common))
            self.plan_puts(plan, command, headers, [destinations.target(child) for child in fanout.children], due_ms)
            if name in destinations.declarations.cluster_fanouts:
                # D19: an entry for each other node, in the batch of the local children
                copy = self.message(command, command.destination, headers, None)
                dedup_id = _dedup_id_of_copies(name, command.dedup_id)
                plan.puts.extend((outbox, copy, dedup_id, 0) for outbox in destinations.copies_to)
                plan.unkept.extend((outbox, copy.size) for outbox in destinations.copies_dropped)
        elif kind == EXCHANGE:
            self.plan_exchange(plan, command, headers, name, due_ms)
        elif kind == LOG:
            self.plan_puts(plan, command, headers, (self.log(command, name),), 0)
        elif kind == TOPIC:
            self.plan_topic(plan, command, headers, name)
        elif kind == TEMP:
            self.plan_puts(plan, command, headers, (destinations.temp_queue(connection, name),), 0)
        elif kind == REPLY:
            self.plan_reply(plan, command, headers, name)
        else:
            raise Refusal("admin", "A SEND to /admin cannot be part of a transaction.")
        return plan

    def plan_puts(self, plan: Plan, command: Send, headers: bytes, queues: Iterable[Target], due_ms: int) -> None:
        """A copy for each of the queues."""
        common = self.message(command, command.destination, headers, None)
        for queue in queues:
            ttl_ms = queue.settings.message_ttl_ms
            message = common if ttl_ms is None else self.message(command, command.destination, headers, ttl_ms)
            plan.puts.append((queue, message, command.dedup_id, due_ms))
            if command.immediate:
                plan.immediate[queue] = command.destination
        if command.immediate and due_ms:
            raise no_consumer(command.destination, "it is kept back until later")

    def log(self, command: Send, name: str) -> Log:
        """The log that a SEND goes straight to. Raises Refusal."""
        if is_reserved_log(name):
            raise Refusal("reserved", f"/log/{name:.255} is written by the broker alone.")
        log = self.destinations.log(name)
        if command.expiration_ms is not None or command.expires_ms:
            raise Refusal(
                "no-delay", f"{log.name} keeps everything as long as it keeps it: a record has no `expiration`."
            )
        if command.immediate:
            raise no_consumer(command.destination, "it is a log")
        return log

    def plan_exchange(self, plan: Plan, command: Send, headers: bytes, address: str, due_ms: int) -> None:
        """A copy for each queue with a binding that matches."""
        name, _, key = address.partition("/")
        exchange = self.destinations.exchange(name)
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
        self.plan_puts(plan, command, headers, queues, due_ms)
        if copies:
            message = self.message(command, command.destination, headers, None)
            plan.copies.extend((queue, message, due_ms) for queue in copies)
        if command.immediate:
            plan.immediate.update(dict.fromkeys(copies, command.destination))

    def plan_topic(self, plan: Plan, command: Send, headers: bytes, name: str) -> None:
        """To whoever is subscribed; a copy for each durable subscription, and for each node of the list with one."""
        destinations = self.destinations
        destinations.check_topic(name, for_send=True)
        topics = destinations.topics
        durable: list[Queue] = []
        if topics.durable:
            before = topics.durable.steps
            durable = topics.durable.matching(name)
            plan.steps += topics.durable.steps - before
        copied = self.nodes_with_durable(name)
        if command.mandatory or command.immediate:
            is_live = bool(topics.matching(name)) or self.is_wanted_elsewhere(name)
            if command.mandatory and not is_live and not durable and not copied:
                raise Refusal(
                    "no-subscriber", f"{command.destination} has no subscriber, and the message is mandatory."
                )
            if command.immediate and not is_live and not any(queue.can_hand(1) for queue in durable):
                raise no_consumer(command.destination, "nobody is subscribed")
        message = self.message(command, command.destination, headers, None)
        for queue in durable:
            copy = with_ttl(message, queue.settings.message_ttl_ms, self.context.now_ms)
            plan.puts.append((queue, copy, command.dedup_id, 0))
        if copied:
            # D19: as a fanout's, in the batch of the local durable subscriptions
            dedup_id = _dedup_id_of_copies(command.destination, command.dedup_id)
            kept = [destinations.outboxes[node] for node in copied]
            plan.unkept.extend((outbox, message.size) for outbox in kept if outbox in destinations.copies_dropped)
            kept = [outbox for outbox in kept if outbox in destinations.copies_to]
            plan.puts.extend((outbox, message, dedup_id, 0) for outbox in kept)
            copied = [outbox.name.removeprefix(OUTBOX_PREFIX) for outbox in kept]
        plan.publishes.append((name, message, copied))

    def nodes_with_durable(self, topic: str) -> Sequence[str]:
        """The other nodes of the list where a durable subscription wants it."""
        topics = self.destinations.topics
        if topics.standing is None or topics.gossip is None or not topics.gossip.is_cluster(topic):
            return ()
        return topics.standing.nodes(topic)

    def plan_reply(self, plan: Plan, command: Send, headers: bytes, name: str) -> None:
        """To somebody's temp queue: dropped where that is gone or full, unless it must not be."""
        message = self.message(command, command.destination, headers, None)
        node = self.destinations.node_of_asker(name)
        if node:
            self.plan_answer(plan, command, message, node)
            return
        queue = self.destinations.replies.get(name)
        if command.mandatory:
            if queue is None:
                raise Refusal(
                    "no-subscriber",
                    f"{command.destination} is the address of nobody (any more), and the message is mandatory.",
                )
            if not queue.has_room(1, message.size):
                raise Refusal("queue-full", f"{command.destination} is full, and the message is mandatory.")
        if command.immediate:
            if queue is None:
                raise no_consumer(command.destination, "it is the address of nobody (any more)")
            plan.immediate[queue] = command.destination
        plan.replies.append((queue, message))

    def plan_answer(self, plan: Plan, command: Send, message: Message, node: str) -> None:
        """To a temp queue of another node."""
        gossip = self.destinations.topics.gossip
        if command.immediate:
            raise no_consumer(command.destination, f"it is at the node {node}")
        if command.mandatory and (gossip is None or gossip.way(node) is None):
            raise Refusal(
                "no-subscriber",
                f"{command.destination} is at the node {node}, which is not reached, and the message is mandatory.",
            )
        plan.answers.append((node, message))

    def due_ms(self, command: Send, kind: str, name: str) -> int:
        """Until when it is kept back; 0: it is not. Raises Refusal where nothing can be."""
        if command.delay_ms is None and command.deliver_at_ms is None:
            return 0
        fanouts = self.destinations.declarations.cluster_fanouts
        if kind in (TOPIC, LOG, TEMP, REPLY) or (kind == FANOUT and name in fanouts):
            raise Refusal(
                "no-delay",
                f"{command.destination} keeps nothing back: `delay` and `deliver-at` are for queues, exchanges, and "
                "fanouts of one node.",
            )
        due_ms = max(self.context.now_ms + (command.delay_ms or 0), command.deliver_at_ms or 0)
        return due_ms if due_ms > self.context.now_ms else 0

    def with_reply_to(self, connection: Connection, command: Send, name: str) -> bytes:
        """The header block as the receiver of a request sees it: with the address of the sender's temp queue."""
        reply_id = self.asker(connection, name).reply_id
        return command.headers + block_of(command.escaping, (REPLY_TO, b"/reply-queue/" + reply_id.encode()))

    def asker(self, connection: Connection, name: str) -> Queue:
        """The temp queue that answers come to; a subscription with its address as id is made where there is none."""
        queue = self.destinations.temp_queue(connection, name)
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

    def is_wanted_elsewhere(self, topic: str) -> bool:
        """Whether somebody on another node is subscribed."""
        gossip = self.destinations.topics.gossip
        return gossip is not None and gossip.is_wanted(topic)


def _dedup_id_of_copies(fanout: str, dedup_id: bytes | None) -> bytes | None:
    """In an outbox the ids of all fanouts meet: each gets its own, of a length that a key can hold."""
    return None if dedup_id is None else sha256(fanout.encode() + b"\0" + dedup_id).digest()


def with_ttl(message: Message, ttl_ms: int | None, now_ms: int) -> Message:
    """The message as a queue takes it in that lets messages live for so long; None: as long as they say."""
    if ttl_ms is None:
        return message
    by_queue = now_ms + ttl_ms
    return replace(message, expires_ms=min(message.expires_ms, by_queue) if message.expires_ms else by_queue)


def no_consumer(address: str, why: str) -> Refusal:
    return Refusal("no-consumer", f"{address} can hand the message to no consumer now ({why}), and it is immediate.")
