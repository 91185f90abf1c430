"""`why` of a partitioned queue whose messages wait for their keys."""

from typing import Any

import pytest

from tests.core.node import Node
from tests.core.words import nack, queue, send, subscribe


def keyed(key: bytes, body: bytes = b"x", **more: object) -> Any:
    return send(9, "q", body, headers=b"key:%b\n" % key, **more)


def why(node: Node) -> dict[str, Any]:
    return node.admin(9, do="why", queue="q")


@pytest.fixture(params=[True, False])
def node(request: pytest.FixtureRequest) -> Node:
    node = Node(queue(persistent=request.param, partition_key=("header:key",)))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=9))
    return node


def test_a_key_that_holds_the_rest_back_is_named_with_who_has_it(node: Node) -> None:
    node.say(keyed(b"hot"), keyed(b"hot"), keyed(b"hot"), keyed(b"cold"))
    answer = why(node)
    assert answer["verdict"] == "keys"
    assert answer["sentence"] == (
        "2 messages are ready, and a consumer has room, but each of their keys already has a message with a "
        "consumer, or a delayed one: a key is processed in order. Most wait for the key 'hot', which has 3 messages; "
        "connection 1 has 1 of them, not acked yet."
    )


def test_a_key_that_is_delayed_is_told_so(node: Node) -> None:
    node.say(keyed(b"hot", b"1"), keyed(b"hot", b"2"))
    node.say(nack(node.message(1), delay_ms=60_000))
    answer = why(node)
    assert answer["verdict"] == "keys"
    assert (
        "the key 'hot', which has 2 messages; the first of them is delayed until it is delivered again."
        in answer["sentence"]
    )


def test_what_no_consumer_takes_is_no_matter_of_keys() -> None:
    node = Node(queue(partition_key=("header:key",)))
    node.open(1, 9)
    node.say(keyed(b"a"), keyed(b"a"))
    assert why(node)["verdict"] == "no-consumer"
    node.say(subscribe(1, "q", prefetch_count=1))
    node.say(keyed(b"b"))
    assert why(node)["verdict"] == "window"


def test_consumers_that_are_held_are_told_so() -> None:
    node = Node(queue(partition_key=("header:key",)))
    node.open(1, 9)
    node.admin(9, do="consumer-register", queue="q", name="a", ready=False)
    node.say(subscribe(1, "q", consumer_name="a"), keyed(b"a"))
    answer = why(node)
    assert answer["verdict"] == "held" and answer["consumer_list"][0]["stands"] == "held"
