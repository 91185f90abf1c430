"""Whose turn it is among the consumers of a queue."""

import pytest

from tests.core.node import Node
from tests.core.words import queue, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


@BOTH
def test_second_consumer_of_an_exclusive_queue_is_refused(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, exclusive=True))
    node.open(1, 2)
    node.say(subscribe(1, "q"), subscribe(2, "q", receipt=b"r"))
    assert node.refusal(2).code == "exclusive"
    node.say(unsubscribe(1, "q"))
    node.open(3)
    node.say(subscribe(3, "q", receipt=b"r"))
    assert node.receipts(3) == [b"r"]


def test_exclusive_subscription_suffers_nobody_beside_it() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.say(subscribe(1, "a", exclusive=True), subscribe(2, "a"))
    assert node.refusal(2).code == "exclusive"
    node.say(subscribe(1, "b"), subscribe(3, "b", exclusive=True))
    assert node.refusal(3).code == "exclusive"


def test_consumers_of_one_queue_take_turns() -> None:
    node = Node()
    node.open(1, 2, 3, 9)
    for number in (1, 2, 3):
        node.say(subscribe(number, "q", prefetch_count=100))
    for number in range(9):
        node.say(send(9, "q", b"%d" % number))
    assert [node.bodies(c) for c in (1, 2, 3)] == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]


def test_consumer_without_room_is_passed_over() -> None:
    node = Node()
    node.open(1, 2, 9)
    node.say(subscribe(1, "q"), subscribe(2, "q", prefetch_count=3))
    for number in range(5):
        node.say(send(9, "q", b"%d" % number))
    assert (node.bodies(1), node.bodies(2)) == ([b"0"], [b"1", b"2", b"3"])


def test_two_subscriptions_of_a_connection_to_one_queue_take_turns() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", name=b"1", prefetch_count=2), subscribe(1, "q", name=b"2", prefetch_count=2))
    for number in range(5):
        node.say(send(9, "q", b"%d" % number))
    assert [(d.subscription, d.message.body) for d in node.messages(1)] == [
        (b"1", b"0"),
        (b"2", b"1"),
        (b"1", b"2"),
        (b"2", b"3"),
    ]
