"""`/amq/queue/NAME`: a queue that is there; its use makes none, and what is sent to none is dropped and counted."""

import pytest

from tests.core.node import Node
from tests.core.words import send, subscribe


@pytest.fixture
def node() -> Node:
    node = Node()
    node.open(1, 2)
    return node


def test_it_is_the_same_queue_as_by_its_other_address(node: Node) -> None:
    node.say(subscribe(2, "q"), send(1, "/amq/queue/q", b"1"))
    assert node.bodies(2) == [b"1"]
    node.open(3)
    node.say(subscribe(3, "/amq/queue/q"), send(1, "q", b"2"))
    assert node.bodies(3) == [b"2"] and node.numbers("q")["unacked"] == 2


def test_what_is_sent_to_none_is_receipted_dropped_and_counted(node: Node) -> None:
    node.say(send(1, "/amq/queue/none", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and not node.has("none")
    assert node.broker.context.counters["unrouted"] == 1


@pytest.mark.parametrize(
    ("more", "code"), [({"mandatory": True}, "no-subscriber"), ({"immediate": True}, "no-consumer")]
)
def test_one_who_wants_to_know_is_told(node: Node, more: dict[str, bool], code: str) -> None:
    node.say(send(1, "/amq/queue/none", **more))
    assert node.refusal(1).code == code and not node.has("none")


def test_a_subscribe_to_none_is_refused(node: Node) -> None:
    node.say(subscribe(1, "/amq/queue/none"))
    assert node.refusal(1).code == "no-such-destination" and not node.has("none")
