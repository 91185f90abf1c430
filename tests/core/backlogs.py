"""A backlog of numbered messages in one queue: how it is made, and what a consumer gets of it."""

from radiator.core.queues.durable_queue import DurableQueue
from tests.core.node import Node
from tests.core.words import ack, send


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def fill(node: Node, end: int, first: int = 0) -> None:
    for body in numbered(first, end):
        node.say(send(9, "q", body))


def durable(node: Node, name: str = "q") -> DurableQueue:
    found = node.broker.destinations.queues.all[name]
    assert isinstance(found, DurableQueue)
    return found


def drained(node: Node, connection: int = 1) -> list[bytes]:
    """What a consumer gets that acks one after another."""
    seen = []
    while out := node.messages(connection):
        for deliver in out:
            seen.append(deliver.message.body)
            node.say(ack(deliver))
    return seen
