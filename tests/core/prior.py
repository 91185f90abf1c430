"""Short ways to a queue with priorities: a message `5a` has the priority 5; one that begins with a letter has none."""

from typing import Any

from radiator.core.queues.priorities import Priorities
from radiator.core.queues.prioritized import Prioritized
from radiator.model.commands import CLIENT_INDIVIDUAL, Send, Subscribe
from radiator.model.replies import Deliver
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, queues, send, subscribe


def urgent(persistent: bool = True, highest: int = 5, **more: Any) -> Node:
    """A node with the queue `q`, which has priorities; 9 sends, 1 and 2 are there too."""
    node = Node(queues(q=QueueSettings(persistent=persistent, max_priority=highest, **more)))
    node.open(1, 2, 9)
    return node


def word(body: str, to: str = "q", **more: object) -> Send:
    headers = b"priority:%b\n" % body[:1].encode() if body[0].isdigit() else b""
    return send(9, to, body.encode(), headers=headers, **more)


def say(node: Node, words: str, **more: object) -> None:
    """Sends them, one after the other."""
    node.say(*(word(body, **more) for body in words.split()))


def consume(connection: int, to: str = "q", prefetch_count: int = 100) -> Subscribe:
    return subscribe(connection, to, CLIENT_INDIVIDUAL, prefetch_count=prefetch_count)


def got(node: Node, connection: int = 1) -> dict[str, Deliver]:
    """The new MESSAGEs, by their bodies."""
    return {deliver.message.body.decode(): deliver for deliver in node.messages(connection)}


def names(node: Node, connection: int = 1) -> str:
    """Their bodies, in order."""
    return " ".join(got(node, connection))


def drained(node: Node, connection: int = 1) -> str:
    """What a consumer gets that acks one after another."""
    seen = []
    while out := node.messages(connection):
        for deliver in out:
            seen.append(deliver.message.body.decode())
            node.say(ack(deliver))
    return " ".join(seen)


def priorities(node: Node, name: str = "q") -> Priorities:
    found = node.broker.destinations.queues.all[name]
    assert isinstance(found, Prioritized)
    return found.priorities


def back(node: Node) -> Node:
    """The node after a power cut, with the same clients."""
    again = node.crashed()
    again.open(1, 2, 9)
    return again


def is_clean(node: Node, name: str = "q") -> bool:
    """Whether nothing is remembered of what has left the queue."""
    one = priorities(node, name)
    assert not (one.at or one.entries or one.open_lanes), (one.at, one.entries, one.open_lanes)
    assert not any(lane.count or lane.coming or lane.size for lane in one.lanes)
    return True
