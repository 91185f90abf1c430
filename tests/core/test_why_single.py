"""`why` of a queue with a single active consumer."""

from typing import Any

from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe, unsubscribe


def why(node: Node) -> dict[str, Any]:
    return node.admin(9, do="why", queue="q")


def node_of(**settings: object) -> Node:
    node = Node(queue(**settings))
    node.open(1, 2, 3, 9)
    return node


def test_it_says_who_is_active_and_how_many_stand_by() -> None:
    node = node_of(single_active_consumer=True)
    assert "active consumer" not in why(node)["sentence"]
    node.say(subscribe(1, "q"))
    assert why(node)["sentence"].endswith("Connection 1 has its single active consumer.")
    node.say(subscribe(2, "q"), subscribe(3, "q"))
    answer = why(node)
    assert "Connection 1 has its single active consumer, and 2 others stand by." in answer["sentence"]
    assert [one["stands"] for one in answer["consumer_list"]] == ["has-room", "stand-by", "stand-by"]


def test_of_another_queue_it_says_nothing_of_that() -> None:
    node = node_of()
    node.say(subscribe(1, "q", consumer_priority=4), subscribe(2, "q"), send(9, "q"))
    answer = why(node)
    assert "active consumer" not in answer["sentence"]
    assert [(one["stands"], one["priority"]) for one in answer["consumer_list"]] == [("window", 4), ("has-room", 0)]


def test_it_says_what_the_next_one_waits_for() -> None:
    node = node_of(single_active_consumer=True)
    node.say(subscribe(1, "q", prefetch_count=2), subscribe(2, "q"), *(send(9, "q") for _ in range(4)))
    assert why(node)["verdict"] == "window"
    node.say(unsubscribe(1, "q"))
    answer = why(node)
    assert answer["verdict"] == "taking-over"
    assert "it has left, and 2 messages are unacked with connection 1." in answer["sentence"]
    node.say(*map(ack, node.messages(1)))
    assert why(node)["verdict"] == "window" and "Connection 2 has its single" in why(node)["sentence"]
