"""`/queue/NAME`: made by its first use where that may be; nothing in it is a pattern."""

import json

import pytest

from radiator.model.addresses import QUEUE
from radiator.model.administration import DeclareDestination
from radiator.model.replies import Answered
from radiator.model.settings import UNLIMITED, Declarations, QueueSettings
from tests.core.asked import ask
from tests.core.node import Node
from tests.core.words import send, subscribe


def node_of(**declared: bool) -> Node:
    node = Node(Declarations(**declared))
    node.open(1, 2)
    return node


def was_created(node: Node, connection: int) -> bool:
    (answer,) = node.take(connection)
    assert isinstance(answer, Answered)
    created: bool = json.loads(answer.body)["created"]
    return created


def test_first_use_makes_it_by_a_send_or_a_subscribe() -> None:
    node = node_of(create_queues=True)
    node.say(send(1, "a/b", b"1"), subscribe(2, "c"), subscribe(2, "a/b", name=b"other"))
    assert node.has("a/b") and node.has("c") and node.bodies(2) == [b"1"]


def test_where_first_use_may_not_both_are_refused() -> None:
    for word in (send(1, "q"), subscribe(1, "q")):
        node = node_of()
        node.say(word)
        assert node.refusal(1).code == "no-such-destination" and not node.has("q")


@pytest.mark.parametrize("name", ["a.*", "#", "a.#.b"])
def test_a_pattern_is_no_queue_to_subscribe_to(name: str) -> None:
    node = node_of(create_queues=True)
    node.say(subscribe(1, name))
    assert node.refusal(1).code == "wildcard"


def test_an_immediate_send_needs_a_consumer_and_makes_no_queue() -> None:
    node = node_of(create_queues=True)
    node.say(send(1, "q", immediate=True))
    assert node.refusal(1).code == "no-consumer" and not node.has("q")
    node.open(3)
    node.say(subscribe(2, "q"), send(3, "q", b"now", immediate=True))
    assert node.bodies(2) == [b"now"]


def test_it_keeps_back_what_is_delayed() -> None:
    node = node_of(create_queues=True)
    node.say(subscribe(2, "q"), send(1, "q", b"later", delay_ms=5000))
    assert node.bodies(2) == []
    node.wait(5)
    assert node.bodies(2) == [b"later"]


def test_what_one_gets_that_is_made_now_another_need_not_have() -> None:
    bounded = {"max_messages": 5, "overflow": "reject"}
    again = DeclareDestination(QUEUE, "q", bounded, is_exact=True, if_new={"bounds_count": "ready"})
    node = node_of()
    node.say(ask(1, again), ask(2, again))
    assert node.admin(1, do="describe", queue="q")["settings"]["bounds_count"] == "ready"
    for declarations in (Declarations(), Declarations(queues={"q": QueueSettings(max_messages=5, overflow="reject")})):
        node = Node(declarations)
        node.open(1)
        if not declarations.queues:
            node.admin(1, do="declare", queue="q", **bounded)
        node.say(ask(1, again))
        assert was_created(node, 1) is False
        assert node.admin(1, do="describe", queue="q")["settings"]["bounds_count"] == "stored"


def test_a_bound_that_is_left_out_is_named_and_not_what_it_counts() -> None:
    bounded = {"overflow": "reject", "max_messages": 5}
    node = node_of()
    node.say(ask(1, DeclareDestination(QUEUE, "q", bounded, is_exact=True, if_new={"bounds_count": "ready"})))
    node.say(ask(2, DeclareDestination(QUEUE, "q", {}, is_exact=True)))
    (answer,) = node.take(2)
    assert str(answer).count("bounds_count") == 0 and "overflow" in str(answer), answer


def test_a_limit_of_a_pattern_or_a_table_holds_for_one_that_is_declared_without_any() -> None:
    letters = {"dead_letter_exchange": "amq.fanout"}
    again = DeclareDestination(QUEUE, "q", letters, is_exact=True, if_new={"max_redeliveries": UNLIMITED})
    limited = QueueSettings(max_redeliveries=5, **letters)  # type: ignore[arg-type]
    without = QueueSettings(dead_letter_exchange="amq.fanout")
    for declarations, most in (
        (Declarations(), UNLIMITED),
        (Declarations(queue_patterns=[("#", limited)]), 5),
        (Declarations(queue_patterns=[("#", without)]), UNLIMITED),
        (Declarations(queues={"q": limited}), 5),
        (Declarations(queues={"q": without}), 16),
    ):
        node = Node(declarations)
        node.open(1)
        node.say(ask(1, again), ask(1, again))
        node.take(1)
        assert node.admin(1, do="describe", queue="q")["settings"]["max_redeliveries"] == most
    other = DeclareDestination(QUEUE, "q", {**letters, "max_redeliveries": 5}, is_exact=True)
    node = node_of()
    node.say(ask(1, again), ask(1, other))
    assert "declared-otherwise" in str(node.take(1)[-1])


def test_a_declare_waits_for_the_disk_only_while_the_queue_is_not_there() -> None:
    node = node_of()
    node.auto = False
    declare = DeclareDestination(QUEUE, "q", {"persistent": True}, is_exact=True)
    node.say(ask(1, declare), ask(2, declare))
    assert node.take(1) == node.take(2) == [], "said of a queue that a power cut takes away"
    node.seal()
    node.commit()
    assert [was_created(node, connection) for connection in (1, 2)] == [True, False]

    node.say(send(1, "q", b"1", receipt=b"stored"), ask(2, declare))
    assert node.take(1) == [] and was_created(node, 2) is False, "waits for a message, of which it says nothing"
