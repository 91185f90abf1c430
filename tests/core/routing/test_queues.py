"""Queues by name: made by first use, declared, found by a start, and deleted."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.errors import StoreError
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import queue, send, subscribe


def test_queue_is_created_by_its_first_use_where_create_allows_it() -> None:
    node = Node(Declarations(create_queues=True))
    node.open(1, 2)
    node.say(send(1, "a", receipt=b"1"), subscribe(2, "b", receipt=b"2"))
    assert node.receipts(1) == [b"1"] and node.receipts(2) == [b"2"] and node.has("a") and node.has("b")


@pytest.mark.parametrize("first", [send(1, "q"), subscribe(1, "q"), send(1, "/fanout/f"), subscribe(1, "/fanout/f")])
def test_destination_that_is_not_declared_is_refused_otherwise(first: object) -> None:
    node = Node(Declarations())
    node.open(1)
    node.say(first)  # type: ignore[arg-type]
    assert node.refusal(1).code == "no-such-destination" and not node.has("q")


def test_pattern_declares_every_queue_that_it_matches() -> None:
    node = Node(Declarations(queue_patterns=[("cache.*", QueueSettings(persistent=False))]))
    node.open(1, 2)
    node.say(send(1, "cache.a", receipt=b"r"), send(2, "other"))
    assert node.receipts(1) == [b"r"] and not node.numbers("cache.a")["persistent"] and node.is_refused(2)


def test_created_queue_outlives_a_restart_if_it_is_persistent() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "empty"), send(1, "full"))
    again = node.again_on(node.disk.platter, declarations=Declarations())
    again.open(1)
    again.say(send(1, "empty", receipt=b"1"), subscribe(1, "full", AUTO))
    assert again.receipts(1) == [b"1"] and again.bodies(1) == [b"x"]


def test_receipt_of_a_subscribe_that_creates_a_queue_waits_for_the_disk() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(subscribe(1, "new", receipt=b"r"))
    assert node.receipts(1) == []
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"r"]


def test_declared_queues_exist_from_the_start() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(), "m": QueueSettings(persistent=False)}))
    assert node.has("a") and node.has("m")
    assert [name for name, _ in node.disk.platter.queues.values()] == ["a"]


def test_stored_messages_of_a_queue_now_declared_as_memory_stop_the_start() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q"))
    with pytest.raises(StoreError, match="/queue/q .* 1 messages"):
        node.again_on(node.disk.platter, declarations=queue(persistent=False))


@pytest.mark.parametrize("name", ["*", "#", "a.*", "#.b", "a.#.b"])
def test_wildcard_for_a_queue_is_refused(name: str) -> None:
    node = Node()
    node.open(1, 2, 3, 4)
    node.say(send(1, name), subscribe(2, name), subscribe(3, f"/temp-queue/{name}"), send(4, f"/temp-queue/{name}"))
    assert [node.refusal(c).code for c in (1, 2, 3, 4)] == ["wildcard"] * 4


@pytest.mark.parametrize("name", ["a*", "#b", "a.b#", "test/ruby/stomp", "/", "ä.ö", "a b", "queue/x"])
def test_other_characters_are_characters_like_any_other(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(send(1, f"/queue/{name}", b"x", b"r"), subscribe(1, f"/queue/{name}", AUTO))
    assert node.receipts(1) == [b"r"] and node.message(1).message.destination == f"/queue/{name}"
