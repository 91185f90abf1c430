"""Topics: whoever is subscribed now gets the message; there is no other state and no flow control.

A subscriber whose outgoing buffer is over its bound when a further message comes is closed: kill the slow client,
not the topic. Names are looked up in a dict, patterns in a trie of words that is walked once for a publish,
whatever the patterns.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from radiator.broker.consumers import MESSAGE_COST_BYTES, Connection
from radiator.broker.turn import Desk
from radiator.commands import AUTO
from radiator.message import Message
from radiator.patterns import is_pattern
from radiator.replies import Deliver, Refuse

if TYPE_CHECKING:
    from radiator.broker.cluster.spreading import Spreading


@dataclass(slots=True, eq=False)
class TopicSubscription:
    """One SUBSCRIBE to a topic or a pattern of topics. The bounds are those of its connection's outgoing buffer."""

    connection: Connection
    name: bytes
    pattern: str
    ack: str
    is_named: bool
    buffer_max_bytes: int
    buffer_max_messages: int | None

    def is_over(self, size: int) -> bool:
        """Whether one more message passes the bound; an empty buffer takes one of any size."""
        connection = self.connection
        if not connection.unwritten:
            return False
        if self.buffer_max_messages is not None and len(connection.unwritten) >= self.buffer_max_messages:
            return True
        return connection.outbox_bytes + size + MESSAGE_COST_BYTES > self.buffer_max_bytes


@dataclass(slots=True, eq=False)
class Node:
    """A word of the trie: what follows it, and who subscribed up to here."""

    words: dict[str, "Node"] = field(default_factory=dict)
    subscriptions: dict[TopicSubscription, None] = field(default_factory=dict)


class Topics:
    """All topics of the broker."""

    __slots__ = ("desk", "exact", "patterns", "spreading")

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.exact: dict[str, dict[TopicSubscription, None]] = {}
        self.patterns = Node()
        self.spreading: Spreading | None = None  # tells other nodes what is wanted here

    def subscribe(self, subscription: TopicSubscription) -> None:
        """From now on it gets what matches."""
        if self.spreading is not None:
            self.spreading.subscribed(subscription.pattern)
        if not is_pattern(subscription.pattern):
            self.exact.setdefault(subscription.pattern, {})[subscription] = None
            return
        node = self.patterns
        for word in subscription.pattern.split("."):
            node = node.words.setdefault(word, Node())
        node.subscriptions[subscription] = None

    def unsubscribe(self, subscription: TopicSubscription) -> None:
        """It gets nothing more; words that nobody needs go."""
        if self.spreading is not None:
            self.spreading.unsubscribed(subscription.pattern)
        if not is_pattern(subscription.pattern):
            there = self.exact[subscription.pattern]
            del there[subscription]
            if not there:
                del self.exact[subscription.pattern]
            return
        path = [self.patterns]
        words = subscription.pattern.split(".")
        for word in words:
            path.append(path[-1].words[word])
        del path[-1].subscriptions[subscription]
        for word, parent, node in zip(reversed(words), reversed(path[:-1]), reversed(path[1:]), strict=True):
            if node.subscriptions or node.words:
                return
            del parent.words[word]

    def matching(self, name: str) -> list[TopicSubscription]:
        """Every subscription that gets a message sent to this topic."""
        found = list(self.exact.get(name, ()))
        if not self.patterns.words:
            return found
        hashes: set[int] = set()
        active = _with_empty_hashes([self.patterns], hashes)
        for word in name.split("."):
            following: list[Node] = []
            for node in active:
                if id(node) in hashes:
                    following.append(node)  # `#` takes one more word and stays
                for key in (word, "*"):
                    child = node.words.get(key)
                    if child is not None:
                        following.append(child)
            active = _with_empty_hashes(following, hashes)
        for node in active:
            found.extend(node.subscriptions)
        return found

    def must_flush(self, subscriptions: list[TopicSubscription], size: int) -> bool:
        """Whether a subscriber is over its bound only because this turn's replies have not been written yet."""
        turn = self.desk.turn_number
        return any(s.connection.posted_turn == turn and s.is_over(size) for s in subscriptions)

    def new_id(self) -> bytes:
        """A message id, marked as a topic's by its `t`."""
        return self.desk.message_id(self.desk.next_position()) + b"t"

    def publish(self, message: Message, subscriptions: list[TopicSubscription], message_id: bytes) -> None:
        """Hand it to those subscribed now. One that was published on another node keeps its id."""
        desk = self.desk
        size = message.size
        for subscription in subscriptions:
            connection = subscription.connection
            if connection.is_closing:
                continue
            if connection.posted_turn != desk.turn_number and subscription.is_over(size):
                connection.is_closing = True
                for lost in connection.topic_subscriptions.values():
                    self.unsubscribe(lost)
                connection.topic_subscriptions.clear()
                desk.count("slow_topic_subscribers")
                desk.note("warning", "slow_subscriber", connection=connection.number, topic=message.destination)
                sentence = (
                    f"This connection reads too slowly for {message.destination}: {connection.outbox_bytes} bytes in "
                    f"{len(connection.unwritten)} messages wait to be sent to it."
                )
                connection.say(desk, Refuse(connection.number, "slow-subscriber", sentence))
                continue
            connection.post(
                desk,
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


def _with_empty_hashes(nodes: list[Node], hashes: set[int]) -> list[Node]:
    """The nodes once each, and behind them every `#` that may stand for no word at all; `hashes` learns which those
    are.
    """
    seen: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            child = node.words.get("#")
            if child is not None:
                hashes.add(id(child))
                waiting.append(child)
    return list(seen.values())
