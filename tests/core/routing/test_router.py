"""Which kind an address is of, and what its SEND would do: a plan, and nothing has changed."""

import pytest

from radiator.core.kinds.table import KINDS
from radiator.core.routing.plan import Plan
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from tests.core.node import Node
from tests.core.words import send


def planned(node: Node, command: Send, plan: Plan | None = None) -> Plan:
    return node.broker.parts.admission.router.plan(node.broker.connections[1], command, plan or Plan())


@pytest.fixture
def node() -> Node:
    node = Node()
    node.open(1)
    return node


def test_there_is_one_of_each_kind(node: Node) -> None:
    kinds = node.broker.parts.admission.router.kinds
    assert {type(kind) for kind in kinds.values()} == set(KINDS.values()) and len(kinds) == len(KINDS)


def test_several_sends_make_one_plan_and_store_nothing(node: Node) -> None:
    plan = planned(node, send(1, "b", b"2"), planned(node, send(1, "a", b"1")))
    assert [(target.name, message.body) for target, message, _, _ in plan.puts] == [("a", b"1"), ("b", b"2")]
    assert node.stored("a") == [] and node.numbers("a")["messages"] == 0


@pytest.mark.parametrize(
    ("more", "wait_ms"),
    [({"delay_ms": 0}, 0), ({"delay_ms": 5}, 5), ({"deliver_at_ms": 1}, 0), ({"delay_ms": 5, "deliver_at_ms": 1}, 5)],
)
def test_the_later_of_delay_and_time_counts_and_neither_in_the_past(
    node: Node, more: dict[str, int], wait_ms: int
) -> None:
    ((_, _, _, due_ms),) = planned(node, send(1, "q", **more)).puts
    assert due_ms == (node.now_ms + wait_ms if wait_ms else 0)


def test_a_kind_that_keeps_nothing_back_refuses_a_delay(node: Node) -> None:
    with pytest.raises(Refusal) as refused:
        planned(node, send(1, "/topic/t", delay_ms=5))
    assert refused.value.code == "no-delay"


def test_what_is_no_address_is_refused(node: Node) -> None:
    with pytest.raises(Refusal) as refused:
        planned(node, send(1, "/nothing/q"))
    assert refused.value.code == "unknown-destination"
