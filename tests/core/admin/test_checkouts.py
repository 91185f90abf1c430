"""Requests about checkouts: what each of them answers. What becomes of messages: tests/core/logs/test_checkouts.py."""

import pytest

from radiator.model.settings import QueueSettings
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import queues, send


@pytest.fixture
def node() -> Node:
    node = Node(queues(q=QueueSettings(), mem=QueueSettings(persistent=False, max_messages=9, max_bytes=9)))
    node.open(1, 9)
    node.say(*(send(1, "q", b"%d" % number) for number in range(3)))
    return node


def take(node: Node, most: int = 2) -> dict[str, object]:
    return node.admin(9, do="checkout", queue="q", group="g", max_messages=most)


def test_what_is_taken_is_numbered_and_acked_below_a_number(node: Node) -> None:
    first = take(node)
    assert (first["first"], first["next"]) == (0, 2) and node.numbers("q")["messages"] == 1
    assert node.admin(9, do="checkout-ack", queue="q", group="g", before=1)["first"] == 1
    again = take(node)
    assert (again["first"], again["next"], again["incarnation"]) == (1, 3, first["incarnation"])


def test_what_is_not_acked_is_released_and_the_group_is_over(node: Node) -> None:
    take(node)
    node.admin(9, do="checkout-ack", queue="q", group="g", before=1)
    assert node.admin(9, do="checkout-release", queue="q", group="g") == {"ok": True, "released": 1}
    assert node.numbers("q")["messages"] == 2
    assert [note.event for note in node.notes][-2:] == ["checkout_released", "administered"]
    assert code(node, do="checkout-ack", queue="q", group="g", before=1)


def test_who_awaits_is_answered_by_what_is_ready(node: Node) -> None:
    assert node.admin(9, do="await", queue="q", timeout_ms=60_000) == {"ok": True, "ready": 3}


@pytest.mark.parametrize("what", ["checkout", "await"])
@pytest.mark.parametrize("queue", ["none", "mem"])
def test_only_a_queue_on_the_disk_that_is_there_has_any(node: Node, what: str, queue: str) -> None:
    more = {"group": "g", "max_messages": 1} if what == "checkout" else {"timeout_ms": 0}
    assert code(node, do=what, queue=queue, **more)
    assert not node.has("none")
