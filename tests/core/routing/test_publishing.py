"""A publish: as a whole or not at all, answered once it is synced, and refused where a SEND would wait."""

from typing import Any

import pytest

from radiator.model.commands import Open, PublishAll, Send
from radiator.model.replies import Published, Refuse, Scope
from radiator.model.settings import Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import queue, queues, send, subscribe


def publish(*sends: Send, receipt: bytes = b"r") -> PublishAll:
    return PublishAll(1, receipt, [*sends])


def opened(declared: Declarations, **more: Any) -> Node:
    node = Node(declared, **more)
    come(node)
    return node


def come(node: Node) -> None:
    """One whom refusals leave."""
    node.inbox[1], node.delivers[1] = [], 0
    node.turn([Open(1, closes_at=Scope.CONNECTION)])


def answers(node: Node) -> list[Published | Refuse]:
    return [reply for reply in node.take(1) if isinstance(reply, Published | Refuse)]


def code(node: Node) -> str:
    (refused,) = answers(node)
    assert isinstance(refused, Refuse) and refused.scope is Scope.COMMAND
    return refused.code


def test_it_is_answered_once_it_is_synced_with_the_id_of_each() -> None:
    node = opened(queues(a=QueueSettings(), b=QueueSettings()), auto=False)
    node.say(publish(send(1, "a", b"1"), send(1, "b", b"2"), send(1, "a", b"3")))
    assert answers(node) == []
    node.seal()
    assert answers(node) == []
    node.commit()
    node.turn([])
    (published,) = answers(node)
    assert isinstance(published, Published) and len(set(published.ids)) == 3 and published.duplicates == 0
    assert node.stored("a") == [b"1", b"3"] and node.stored("b") == [b"2"]


def test_the_ids_are_those_that_a_consumer_gets() -> None:
    node = opened(queues(a=QueueSettings(), m=QueueSettings(persistent=False)))
    node.open(2)
    node.say(subscribe(2, "a", prefetch_count=9), subscribe(2, "m", prefetch_count=9))
    node.say(publish(send(1, "a"), send(1, "m"), send(1, "a")))
    (published,) = answers(node)
    assert isinstance(published, Published)
    assert sorted(published.ids) == sorted(one.message_id for one in node.messages(2))


def test_a_topic_a_fanout_an_exchange_and_a_log_take_it_as_a_send() -> None:
    declared = Declarations(
        queues={"a": QueueSettings(), "b": QueueSettings()},
        fanouts={"f": ("a", "b")},
        exchanges={"x": ExchangeSettings()},
        logs={"l": LogSettings()},
        create_topics=True,
    )
    node = opened(declared)
    node.open(2)
    node.say(subscribe(2, "/topic/t", "auto"))
    node.say(publish(send(1, "/topic/t", b"t"), send(1, "/fanout/f", b"f"), send(1, "/log/l", b"l")))
    (published,) = answers(node)
    assert isinstance(published, Published)
    assert len(published.ids) == 4, "one of the topic, two copies, one record"
    assert b"0:0" in published.ids and node.bodies(2) == [b"t"]
    node.say(publish(send(1, "/exchange/x/k")))
    (published,) = answers(node)
    assert isinstance(published, Published) and published.ids == [], "nothing is bound"


@pytest.mark.parametrize(("overflow", "refused"), [("block", "blocked"), ("reject", "queue-full")])
def test_nothing_of_it_happens_where_one_finds_no_room(overflow: str, refused: str) -> None:
    node = opened(queues(a=QueueSettings(), full=QueueSettings(max_messages=2, overflow=overflow)))
    node.say(publish(send(1, "full", b"1")))
    assert answers(node)
    node.say(publish(send(1, "a", b"2"), send(1, "full", b"3"), send(1, "full", b"4")))
    assert code(node) == refused
    assert node.stored("a") == [] and node.stored("full") == [b"1"] and node.paused == set()
    node.say(publish(send(1, "a", b"2"), send(1, "full", b"3")))
    (published,) = answers(node)
    assert isinstance(published, Published) and node.stored("full") == [b"1", b"3"]


def test_more_than_a_queue_can_ever_hold_is_never_tried_again() -> None:
    node = opened(queue(max_messages=1))
    node.say(publish(send(1, "q"), send(1, "q")))
    assert code(node) == "queue-full"


def test_a_queue_that_is_not_there_refuses_all() -> None:
    node = opened(Declarations(queues={"q": QueueSettings()}))
    node.say(publish(send(1, "q", b"1"), send(1, "none", b"2")))
    assert code(node) == "no-such-destination" and node.stored("q") == []


def test_what_came_twice_is_counted_and_not_stored() -> None:
    node = opened(queue(dedup_window_s=60))
    node.say(publish(send(1, "q", b"1", dedup_id=b"k"), send(1, "q", b"2")))
    node.say(publish(send(1, "q", b"1", dedup_id=b"k"), receipt=b"s"))
    first, second = answers(node)
    assert isinstance(first, Published) and len(first.ids) == 2 and first.duplicates == 0
    assert second == Published(1, b"s", [], 1) and node.stored("q") == [b"1", b"2"]


def test_what_came_twice_is_known_after_a_restart() -> None:
    """The window is looked up on the disk then, for which the publish waits."""
    before = opened(queue(dedup_window_s=60))
    before.say(publish(send(1, "q", b"1", dedup_id=b"k")))
    node = before.crashed()
    come(node)
    node.say(publish(send(1, "q", b"1", dedup_id=b"k")))
    assert answers(node) == [Published(1, b"r", [], 1)] and node.stored("q") == [b"1"]


@pytest.mark.parametrize("to", ["plain", "/topic/t", "/fanout/f", "/exchange/x/k", "/log/l"])
def test_a_dedup_id_is_refused_where_nothing_would_heed_it(to: str) -> None:
    declared = Declarations(
        queues={"plain": QueueSettings(), "dedup": QueueSettings(dedup_window_s=60)},
        fanouts={"f": ("dedup", "plain")},
        exchanges={"x": ExchangeSettings()},
        bindings=[Binding("x", "k", "plain")],
        logs={"l": LogSettings()},
        topics=["t"],
    )
    node = opened(declared)
    node.say(publish(send(1, to, dedup_id=b"k")))
    assert code(node) == "no-dedup" and node.stored("dedup") == node.stored("plain") == []


def test_it_waits_for_a_batch_that_is_full_and_is_not_refused_for_it() -> None:
    node = opened(queue(), auto=False)
    node.open(2)
    node.say(send(2, "q", b"x" * 4_000_000, b"s"))
    node.say(publish(*(send(1, "q", b"y" * 1_000_000) for _ in range(4))))
    node.auto = True
    node.seal()
    node.turn([])
    (published,) = answers(node)
    assert isinstance(published, Published) and len(published.ids) == 4
