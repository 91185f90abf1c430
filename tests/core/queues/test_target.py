"""What a message can be put into: queues on the disk and in memory, and logs, keep the same contract."""

import inspect

import pytest

from radiator.core.queues.target import Target
from radiator.model.commands import AUTO
from radiator.model.limits import GIB
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.bare import message
from tests.core.node import Node
from tests.core.words import subscribe

KINDS = ("durable", "memory", "log")


@pytest.fixture
def node() -> Node:
    declared = Declarations(
        queues={
            "durable": QueueSettings(),
            "memory": QueueSettings(persistent=False, max_messages=100, max_bytes=1000),
        },
        logs={"log": LogSettings(partitions=1)},
    )
    made = Node(declared)
    made.open(1)
    return made


def target(node: Node, kind: str) -> Target:
    destinations = node.broker.destinations
    return destinations.logs.get("log") if kind == "log" else destinations.queues.all[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_each_has_all_that_is_asked_of_one(node: Node, kind: str) -> None:
    one = target(node, kind)
    names = [*inspect.get_annotations(Target), *(name for name in vars(Target) if name[0] != "_")]
    assert len(names) > 15 and [name for name in names if not hasattr(one, name)] == []
    assert one.address.startswith("/") and one.address.endswith(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_on_the_disk_has_a_number_there(node: Node, kind: str) -> None:
    one = target(node, kind)
    assert one.is_persistent is (kind != "memory") and (one.number > 0) is one.is_persistent
    assert (one.dedup is not None) is (kind == "durable")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_handed_over", [False, True])
def test_what_comes_in_counts_once(node: Node, kind: str, is_handed_over: bool) -> None:
    one = target(node, kind)
    assert one.judge(1, 1) and one.has_capacity(1, 1)
    one.check_size(1)
    if is_handed_over:
        one.put_handed_over(message(b"123"), 2, True, "b")
    else:
        one.take_in(message(b"123"), 0)
    node.turn([])
    assert (one.ledger.accepted, one.ledger.accepted_bytes) == (1, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_hands_on_nothing_while_nobody_consumes_and_a_log_takes_all(node: Node, kind: str) -> None:
    one = target(node, kind)
    assert one.can_hand(1) is (kind == "log")
    if kind != "log":
        node.say(subscribe(1, kind, AUTO))
        assert one.can_hand(1) and one.can_hand(10**6)


@pytest.mark.parametrize(("kind", "has_any"), [("durable", True), ("memory", False), ("log", True)])
def test_only_what_has_bounds_is_ever_full(node: Node, kind: str, has_any: bool) -> None:
    one = target(node, kind)
    assert one.has_capacity(10**9, GIB) is has_any
    assert one.has_capacity(100, 1000)
