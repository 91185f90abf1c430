"""Temp queues: each belongs to one connection, and is found by others by its address only."""

from radiator.model.commands import AUTO
from radiator.model.limits import Limits
from tests.core.node import Node
from tests.core.words import begin, commit, header, send, subscribe, unsubscribe


def test_temp_queues_at_the_limit_and_one_past() -> None:
    node = Node(limits=Limits(max_subscriptions=2))
    node.open(1, 2)
    node.say(send(1, "/temp-queue/a"), send(1, "/temp-queue/b"), send(1, "/temp-queue/a", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(send(1, "/temp-queue/c"), send(2, "/temp-queue/c", receipt=b"r"))
    assert node.refusal(1).code == "too-many-destinations" and node.receipts(2) == [b"r"]


def asked(node: Node, reply_to: str = "t") -> str:
    """Connection 1 asks, connection 2 hears the address of the reply."""
    node.say(subscribe(2, "work", AUTO), send(1, "work", b"question", headers=b"correlation-id:7\n", reply_to=reply_to))
    message = node.messages(2)[-1].message
    assert header(message, b"correlation-id") == b"7"
    address = header(message, b"reply-to")
    assert address is not None
    node.say(unsubscribe(2, "work"))
    return address.decode()


def test_reply_address_is_random_and_one_for_each_temp_queue() -> None:
    node = Node()
    node.open(1, 2)
    addresses = {asked(node), asked(node), asked(node, "u")}
    assert len(addresses) == 2
    assert all(len(bytes.fromhex(a.removeprefix("/reply-queue/"))) == 16 for a in addresses)


def test_temp_queue_belongs_to_its_own_connection() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t"), subscribe(2, "/temp-queue/t"), send(2, "/temp-queue/t", b"two"))
    assert node.bodies(1) == [] and node.bodies(2) == [b"two"]


def test_temp_queue_dies_with_its_connection() -> None:
    node = Node()
    node.open(1, 2, 3)
    address = asked(node)
    node.close(1)
    node.say(send(2, address, b"late", b"r"))
    assert node.receipts(2) == [b"r"] and node.broker.context.counters["replies_dropped"] == 1
    node.say(send(3, address, mandatory=True))
    assert node.refusal(3).code == "no-subscriber"
    assert not node.broker.destinations.temp_queues.by_id


def test_reply_of_a_transaction_comes_at_commit() -> None:
    node = Node()
    node.open(1, 2)
    address = asked(node)
    node.say(begin(2), send(2, address, b"answer", transaction=b"t"))
    assert node.messages(1) == []
    node.say(commit(2))
    assert node.bodies(1) == [b"answer"]
