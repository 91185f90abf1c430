"""Short ways to a partitioned queue: a message `a1` has the key `a`; one that begins with a digit has none."""

from typing import Any

from radiator.core.queues.partitioned import Partitioned
from radiator.core.queues.partitions import Partitions
from radiator.model.commands import CLIENT_INDIVIDUAL, Send, Subscribe
from radiator.model.replies import Deliver
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, queues, send, subscribe

KEY = ("header:key",)


def keyed(persistent: bool = True, window: int = 1, **more: Any) -> Node:
    """A node with the partitioned queue `q`; 9 sends, 1 and 2 are there too."""
    node = Node(queues(q=settings(persistent=persistent, partition_window=window, **more)))
    node.open(1, 2, 9)
    return node


def settings(**more: Any) -> QueueSettings:
    return QueueSettings(partition_key=KEY, **more)


def word(body: str, to: str = "q", **more: object) -> Send:
    headers = b"" if body[0].isdigit() else b"key:%b\n" % body[:1].encode()
    return send(9, to, body.encode(), headers=headers, **more)


def consume(connection: int, to: str = "q", ack: str = CLIENT_INDIVIDUAL, prefetch_count: int = 100) -> Subscribe:
    return subscribe(connection, to, ack, prefetch_count=prefetch_count)


def say(node: Node, words: str, **more: object) -> None:
    """Sends them, one after the other."""
    node.say(*(word(body, **more) for body in words.split()))


def got(node: Node, connection: int = 1) -> dict[str, Deliver]:
    """The new MESSAGEs, by their bodies."""
    return {deliver.message.body.decode(): deliver for deliver in node.messages(connection)}


def names(node: Node, connection: int = 1) -> str:
    """Their bodies, in order."""
    return " ".join(got(node, connection))


def drained(node: Node, connection: int = 1) -> list[str]:
    """What a consumer gets that acks one after another."""
    seen = []
    while out := node.messages(connection):
        for deliver in out:
            seen.append(deliver.message.body.decode())
            node.say(ack(deliver))
    return seen


def of_key(seen: list[str], key: str) -> list[str]:
    return [body for body in seen if body.startswith(key)]


def partitions(node: Node, name: str = "q") -> Partitions:
    found = node.broker.destinations.queues.all[name]
    assert isinstance(found, Partitioned)
    return found.partitions


def is_clean(node: Node, name: str = "q") -> bool:
    """Whether nothing is remembered of what has left the queue."""
    one = partitions(node, name)
    one.look()
    left = (
        one.entries, one.at, one.keyed, one.free, one.lacking, one.wanting, one.early, one.behind, one.touched,
        one.found_held, one.held_by_hash, one.held_back,
    )  # fmt: skip
    assert not any(left), left
    return one.behind_count == one.assignments.total == one.held_bytes == 0
