"""Topics: a message goes to all subscriptions that exist when it is sent. There is no flow control, and no state but
the bindings of durable subscriptions, each of a pattern to a queue.

A subscriber whose outgoing buffer is over its bound when another message comes is disconnected, so that one slow client
does not stop the topic.
"""

from typing import TYPE_CHECKING

from radiator.core.connections import TopicSubscription
from radiator.core.routing.trie import Trie
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO
from radiator.model.message import TOPIC_MARK, Message
from radiator.model.replies import Deliver

if TYPE_CHECKING:
    from radiator.core.cluster.gossip import Gossip
    from radiator.core.cluster.standing import StandingPatterns
    from radiator.core.queues.target import Target

PEERS_TOPIC = "system.peers"  # what happens to nodes and links


class Topics:
    """All topics of the broker. is_pressed: half of the memory that the broker may have is used."""

    __slots__ = ("context", "durable", "is_pressed", "gossip", "standing", "subscriptions")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.is_pressed = False
        self.subscriptions: Trie[TopicSubscription] = Trie()
        self.durable: Trie[Target] = Trie()  # the queues of durable subscriptions
        self.gossip: Gossip | None = None  # tells other nodes what is wanted here
        self.standing: StandingPatterns | None = None  # tells them what durable subscriptions want

    @property
    def exact(self) -> dict[str, dict[TopicSubscription, None]]:
        """The topics that have a subscription by name."""
        return self.subscriptions.exact

    def subscribe(self, subscription: TopicSubscription) -> None:
        """Adds a subscription: from now on it gets the messages that match."""
        if self.gossip is not None:
            self.gossip.subscribed(subscription.pattern)
        self.subscriptions.add(subscription.pattern, subscription)

    def unsubscribe(self, subscription: TopicSubscription) -> None:
        """Removes a subscription."""
        if self.gossip is not None:
            self.gossip.unsubscribed(subscription.pattern)
        self.subscriptions.remove(subscription.pattern, subscription)

    def bind(self, pattern: str, queue: "Target") -> None:
        """Adds a durable subscription: from now on its queue gets the messages that match."""
        if self.gossip is not None:
            self.gossip.subscribed(pattern)
        if self.standing is not None:
            self.standing.subscribed(pattern)
        self.durable.add(pattern, queue)

    def unbind(self, pattern: str, queue: "Target") -> None:
        """Removes a durable subscription."""
        if self.gossip is not None:
            self.gossip.unsubscribed(pattern)
        if self.standing is not None:
            self.standing.unsubscribed(pattern)
        self.durable.remove(pattern, queue)

    def matching(self, name: str) -> list[TopicSubscription]:
        """Returns every subscription, durable ones aside, that gets a message sent to this topic."""
        return self.subscriptions.matching(name)

    def must_flush(self, subscriptions: list[TopicSubscription], size: int) -> bool:
        """Whether a subscriber is over its bound only because this turn's replies have not been written yet."""
        turn = self.context.turn_number
        return any(s.connection.posted_turn == turn and s.is_over(size, self.is_pressed) for s in subscriptions)

    def new_id(self) -> bytes:
        """Returns a new message id, marked as a topic's."""
        return self.context.message_id(self.context.next_position()) + TOPIC_MARK

    def publish(self, message: Message, subscriptions: list[TopicSubscription], message_id: bytes) -> None:
        """Hands the message to the present subscriptions. One that was published on another node keeps its id."""
        context = self.context
        size = message.size
        for subscription in subscriptions:
            connection = subscription.connection
            if connection.is_closing:
                continue
            if connection.posted_turn != context.turn_number and subscription.is_over(size, self.is_pressed):
                connection.is_closing = True
                for lost in connection.topic_subscriptions.values():
                    self.unsubscribe(lost)
                connection.topic_subscriptions.clear()
                context.count("slow_topic_subscribers")
                context.note("warning", "slow_subscriber", connection=connection.number, topic=message.destination)
                sentence = (
                    f"This connection reads too slowly for {message.destination}: {connection.outbox_bytes} bytes in "
                    f"{len(connection.unwritten)} messages wait to be sent to it."
                )
                connection.refuse(context, "slow-subscriber", sentence)
                continue
            connection.post(
                context,
                Deliver(
                    connection.number,
                    subscription.name if subscription.is_named else None,
                    message_id,
                    message,
                    subscription.ack != AUTO,
                    is_published=True,
                ),
                size,
                None,
            )
