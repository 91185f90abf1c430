"""`/topic/NAME`: whoever is subscribed gets it; a copy goes into the queue of each durable subscription."""

from collections.abc import Iterable, Sequence

from radiator.core.connections import Connection, TopicSubscription
from radiator.core.kinds.kind import Kind, Subscriber
from radiator.core.ports import TopologyPort
from radiator.core.producer import Producer
from radiator.core.queues.target import Target
from radiator.core.routing.exchanges import TOPICS
from radiator.core.routing.plan import Plan, dedup_id_of_copies, no_consumer, with_ttl
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.routing.topic import PEERS_TOPIC
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import TOPIC
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.limits import PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX
from radiator.model.numbers import TopicNumbers
from radiator.model.patterns import is_pattern, matches, overlaps
from radiator.model.replies import MESSAGE_COST_BYTES


def check_words(topic: str) -> None:
    """Raises Refusal for a topic, or pattern of topics, that would be costly to match."""
    words = topic.split(".")
    wildcards = words.count("*") + words.count("#")
    for what, count, most in (("words", len(words), TOPIC_WORDS_MAX), ("wildcards", wildcards, PATTERN_WILDCARDS_MAX)):
        if count > most:
            raise Refusal("too-many-words", f"/topic/{topic} has {count} {what}: at most {most} are allowed.")


class TopicKind(Kind):
    """See above."""

    name = TOPIC
    instead = " Subscribe to it."

    __slots__ = ()

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        destinations = self.destinations
        self.check_topic(name, for_send=True)
        topics = destinations.topics
        durable: list[Target] = []
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
        message = command.message(headers, self.context.now_ms, None)
        for queue in durable:
            copy = with_ttl(message, queue.settings.message_ttl_ms, self.context.now_ms)
            plan.puts.append((queue, copy, command.dedup_id, 0))
        if copied:
            # D19: as a fanout's, in the batch of the local durable subscriptions
            dedup_id = dedup_id_of_copies(command.destination, command.dedup_id)
            kept = [destinations.queues.outboxes[node] for node in copied]
            plan.unkept.extend((outbox, message.size) for outbox in kept if outbox in destinations.copies_dropped)
            kept = [outbox for outbox in kept if outbox in destinations.copies_to]
            plan.puts.extend((outbox, message, dedup_id, 0) for outbox in kept)
            copied = [outbox.name.removeprefix(OUTBOX_PREFIX) for outbox in kept]
        plan.publishes.append((name, message, copied))

    def nodes_with_durable(self, topic: str) -> Sequence[str]:
        """Returns the other listed nodes where a durable subscription wants it."""
        topics = self.destinations.topics
        if topics.standing is None or topics.gossip is None or not topics.gossip.is_cluster(topic):
            return ()
        return topics.standing.nodes(topic)

    def is_wanted_elsewhere(self, topic: str) -> bool:
        """Whether another node has a subscription to it."""
        gossip = self.destinations.topics.gossip
        return gossip is not None and gossip.is_wanted(topic)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        destinations = self.destinations
        if command.durable:
            if name == PEERS_TOPIC and destinations.is_clustered:
                raise Refusal("reserved", f"/topic/{name} has live events only: it has no durable subscriptions.")
            self.check_topic(name, for_send=False, is_new=False)
            subscriber.consume_durably(connection, command, self.name, name, (TOPICS, name))
            return None
        self.check_topic(name, for_send=False)
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
        subscriber.receipt(connection, command)
        return None

    def check_topic(self, name: str, for_send: bool, is_new: bool = True) -> None:
        """Raises Refusal where this topic, or pattern of topics, may not be used. is_new: it will be one more to count,
        unless it has a subscription.
        """
        pattern = is_pattern(name)
        if pattern and for_send:
            raise Refusal("wildcard", f"/topic/{name} has a wildcard: only a SUBSCRIBE may use `*` and `#`.")
        if name == PEERS_TOPIC and self.destinations.is_clustered:
            if for_send:
                raise Refusal("reserved", f"/topic/{name} has the broker's own events: it can only be subscribed to.")
            return
        check_words(name)
        declarations = self.destinations.declarations
        if not declarations.create_topics and not any(
            overlaps(declared, name) if pattern else matches(declared, name) for declared in declarations.topics
        ):
            raise Refusal(
                "no-such-destination",
                f"/topic/{name} is not declared, and [create] does not allow topics to be created by first use.",
            )
        if is_new and not for_send and not pattern and name not in self.destinations.topics.exact:
            self.destinations.check_total()

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.destinations.topics.exact)

    def names(self) -> Iterable[str]:
        return self.destinations.topics.exact

    def numbers(self, port: TopologyPort, name: str) -> TopicNumbers | None:
        there = self.destinations.topics.exact.get(name)
        return None if there is None else TopicNumbers(len(there))
