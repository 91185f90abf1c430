"""`/fanout/NAME`: a copy in each child, or none at all."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, header, send, subscribe


def fanout(**settings: QueueSettings) -> Node:
    children = {"a": QueueSettings(), "b": QueueSettings(), **settings}
    return Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)


def run(node: Node) -> None:
    node.auto = True
    node.turn([])


@pytest.mark.durability("D5")
def test_fanout_is_one_batch_over_all_children() -> None:
    node = fanout(c=QueueSettings())
    run(node)
    node.auto = False
    node.open(1, 9)
    node.say(send(9, "/fanout/f", b"x", b"r", headers=b"h:1\n"))
    batch = node.broker.seal()
    assert batch is not None and [type(w).__name__ for w in batch.writes].count("Put") == 3
    assert node.receipts(9) == []
    node.being_committed = batch
    node.commit()
    assert node.receipts(9) == [b"r"]
    run(node)
    for name in "abc":
        node.say(subscribe(1, name, AUTO))
    out = node.messages(1)
    assert len({d.message_id for d in out}) == 3
    assert {d.message.destination for d in out} == {"/fanout/f"}
    assert len({header(d.message, b"fanout-message-id") for d in out}) == 1
    assert header(out[0].message, b"fanout-message-id") not in {d.message_id for d in out}


def test_fanout_waits_while_a_blocking_child_is_full_and_is_then_applied_whole() -> None:
    node = fanout(b=QueueSettings(max_messages=1))
    run(node)
    node.open(1, 9)
    node.say(send(9, "b", b"full"), send(9, "/fanout/f", b"x", b"r"))
    assert node.paused == {9} and node.stored("a") == []
    node.say(subscribe(1, "b"))
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"r"] and node.stored("a") == node.stored("b") == [b"x"]


def test_fanout_is_refused_if_a_rejecting_child_is_full_even_where_another_blocks() -> None:
    node = fanout(a=QueueSettings(max_messages=1), b=QueueSettings(max_messages=1, overflow="reject"))
    run(node)
    node.open(1, 9)
    node.say(send(9, "a", b"full"), send(9, "b", b"full"), send(9, "/fanout/f", b"x", b"r"))
    assert node.refusal(9).code == "queue-full"
    assert node.stored("a") == node.stored("b") == [b"full"]


def test_fanout_with_a_memory_child_delivers_there_when_it_is_synced() -> None:
    node = fanout(m=QueueSettings(persistent=False))
    run(node)
    node.auto = False
    node.open(1, 9)
    node.say(subscribe(1, "m", AUTO), send(9, "/fanout/f", b"x", b"r"))
    node.seal()
    assert node.messages(1) == [] and node.numbers("m")["accepted"] == 0
    node.commit()
    assert node.bodies(1) == [b"x"] and node.receipts(9) == [b"r"]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("loaded", [3, 4])
def test_full_child_that_gets_dead_letters_of_another_lets_go_of_what_it_can(
    loaded: int, persistent: bool, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"LOAD_MESSAGES": loaded})
    a = QueueSettings(persistent=persistent, max_messages=2, overflow="dead-letter", dead_letter="b")
    b = QueueSettings(persistent=persistent, max_messages=10, overflow="drop-oldest")
    node = Node(Declarations(queues={"a": a, "b": b}, fanouts={"f": ("a", "b")}))
    node.open(9)
    node.say(*(send(9, "b") for _ in range(10)), *(send(9, "a") for _ in range(2)))
    for _ in range(10):
        node.say(send(9, "/fanout/f"), send(9, "b"), send(9, "/fanout/f", receipt=b"r"))
        assert node.numbers("a")["messages"] == 2 and 10 <= node.numbers("b")["messages"] <= 12
    assert len(node.receipts(9)) == 10


def test_fanout_of_memory_children_happens_at_once() -> None:
    children = {name: QueueSettings(persistent=False) for name in "ab"}
    node = Node(Declarations(queues=children, fanouts={"f": ("a", "b")}), auto=False)
    node.open(9)
    node.say(send(9, "/fanout/f", b"x", b"r"))
    assert node.receipts(9) == [b"r"] and node.numbers("a")["messages"] == node.numbers("b")["messages"] == 1


def test_fanout_beyond_max_batch_bytes_with_all_its_copies_is_refused() -> None:
    node = fanout()
    node.broker.parts.limits.max_batch_bytes = 10_000
    run(node)
    node.open(8, 9)
    node.say(send(9, "/fanout/f", bytes(4000), b"1"), send(9, "/fanout/f", bytes(5000)))
    assert node.receipts(9) == [b"1"] and node.refusal(9).code == "too-large"
    node.say(send(8, "a", bytes(20_000), b"single"))
    assert node.receipts(8) == [b"single"]


def test_subscribe_to_a_fanout_is_refused_naming_its_children() -> None:
    node = fanout()
    node.open(1)
    node.say(subscribe(1, "/fanout/f"))
    refuse = node.refusal(1)
    assert refuse.code == "send-only" and "/queue/a, /queue/b" in refuse.sentence
