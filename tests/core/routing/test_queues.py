"""Queues by name: made by first use, declared, found by a start, and deleted."""

import json

import pytest

from radiator.model.commands import AUTO
from radiator.model.errors import StoreError
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe


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


# ---- what messages are stored by ------------------------------------------------------------------------------------

BY_A, BY_B = ("header:a", "/a"), ("/b",)


def keyed(*sources: str) -> Declarations:
    return queue(partition_key=sources)


def kept(node: Node, name: str = "q") -> dict[str, object] | None:
    """What the store has of the settings of that queue."""
    (number,) = (number for number, (there, _) in node.disk.platter.queues.items() if there == name)
    text = node.disk.platter.settings.get(number)
    return None if text is None else json.loads(text)


def test_what_messages_are_stored_by_is_kept_with_the_queue() -> None:
    node = Node(keyed(*BY_A))
    assert kept(node) == {"keyed_by": [*BY_A]}
    again = node.again_on(node.disk.platter)
    assert kept(again) == {"keyed_by": [*BY_A]} and again.broker.destinations.queues.all["q"].given == ""
    assert kept(Node(queue())) is None


@pytest.mark.parametrize(("old", "new"), [((), BY_A), (BY_A, ()), (BY_A, BY_B), (BY_A, BY_A[::-1])])
def test_other_keys_are_refused_while_messages_are_stored_and_taken_when_they_are_gone(
    old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    node = Node(keyed(*old))
    node.open(1)
    node.say(send(1, "q"), send(1, "q", delay_ms=60_000))
    for _ in range(2):
        with pytest.raises(StoreError, match="/queue/q is declared with.* 2 messages of it are stored with.* purge"):
            node.again_on(node.disk.platter.copy(), declarations=keyed(*new))
    again = node.again_on(node.disk.platter)
    again.open(1)
    assert again.admin(1, do="purge", queue="q")["purged"] == 2
    third = again.again_on(again.disk.platter, declarations=keyed(*new))
    assert third.broker.destinations.queues.all["q"].settings.partition_key == new
    assert (kept(third) or {}) == ({"keyed_by": [*new]} if new else {})
    third.open(1)
    third.say(send(1, "q"))
    assert third.again_on(third.disk.platter.copy()).stored("q") == [b"x"]
    with pytest.raises(StoreError, match="1 message of it is stored"):
        third.again_on(third.disk.platter, declarations=keyed(*old))


def test_what_is_unacked_is_stored_still() -> None:
    node = Node(keyed(*BY_A))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    message = node.message(1)
    with pytest.raises(StoreError, match="1 message of it is stored"):
        node.again_on(node.disk.platter.copy(), declarations=keyed())
    node.say(ack(message))
    assert node.again_on(node.disk.platter, declarations=keyed()).has("q")


def test_a_queue_of_a_pattern_and_one_of_first_use_are_kept_alike() -> None:
    by_pattern = Declarations(queue_patterns=[("q.*", QueueSettings(partition_key=BY_A))], create_queues=True)
    node = Node(by_pattern)
    node.open(1)
    node.say(send(1, "q.1"), send(1, "other"))
    assert kept(node, "q.1") == {"keyed_by": [*BY_A]} and kept(node, "other") is None
    with pytest.raises(StoreError, match="^/queue/q.1 is declared without partition_key"):
        node.again_on(node.disk.platter, declarations=Declarations(create_queues=True))


def test_what_was_declared_at_run_time_is_kept_beside_it() -> None:
    node = Node(Declarations(create_queues=True))
    node.open(9)
    node.admin(9, do="declare", queue="q", partition_key="/b", partition_window=5)
    assert kept(node) == {"partition_key": "/b", "partition_window": 5, "keyed_by": ["/b"]}
    again = node.again_on(node.disk.platter)
    settings = again.broker.destinations.queues.all["q"].settings
    assert settings == QueueSettings(partition_key=BY_B, partition_window=5)
    by_table = again.again_on(again.disk.platter, declarations=keyed(*BY_A))
    assert kept(by_table) == {"partition_key": "/b", "partition_window": 5, "keyed_by": [*BY_A]}
    by_itself = by_table.again_on(by_table.disk.platter, declarations=Declarations())
    assert kept(by_itself) == kept(again) and by_itself.broker.destinations.queues.all["q"].settings == settings


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"partition_key": ["/a\n", "header:x"]}, 'partition_key is "/b", not ["/a\\n", "header:x"].'),
        ({"partition_key": None, "partition_window": 1}, 'partition_key is "/b", not null.'),
        ({"partition_window": 6}, "partition_window is 5, not 6."),
    ],
)
def test_a_queue_with_other_keys_is_declared_otherwise(given: dict[str, object], sentence: str) -> None:
    node = Node(queue(partition_key=BY_B, partition_window=5))
    node.open(9)
    for same in ({}, {"partition_key": "/b"}, {"partition_key": ["/b"], "partition_window": 5}):
        assert node.admin(9, do="declare", queue="q", **same)["created"] is False
    answer = node.admin(9, do="declare", queue="q", **given)
    assert answer["code"] == "declared-otherwise"
    assert answer["error"] == f"/queue/q already exists: its {sentence}"


def test_a_queue_in_memory_keeps_nothing() -> None:
    node = Node(queue(persistent=False, partition_key=BY_A))
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and node.disk.platter.settings == {}
    assert node.again_on(node.disk.platter, declarations=queue(persistent=False)).has("q")


def test_a_damaged_row_is_as_none() -> None:
    node = Node(keyed(*BY_A))
    node.open(1)
    node.say(send(1, "q"))
    (number,) = node.disk.platter.settings
    node.disk.platter.settings[number] = '{"keyed_by": 5}'
    with pytest.raises(StoreError, match="stored without partition_key"):
        node.again_on(node.disk.platter)
