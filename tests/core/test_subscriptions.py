"""SUBSCRIBE and UNSUBSCRIBE: windows of their own, and which ids, queues and topics they may name."""

from collections.abc import Callable

import pytest

from radiator.core.admin.subscriptions import set_window
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL
from radiator.model.errors import Refusal
from radiator.model.limits import Limits
from tests.core.node import Node
from tests.core.words import ack, send, subscribe


def in_a_turn(node: Node, do: Callable[[], None]) -> None:
    """As an answer to a request would."""
    node.broker.context.open.then.append(do)
    node.turn([])


def test_wider_window_is_filled_at_once_and_a_narrower_one_as_messages_leave_it() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=1, name=b"s"), *(send(9, "q", b"%d" % n) for n in range(9)))
    connection = node.broker.connections[1]
    out = node.messages(1)
    assert len(out) == 1
    in_a_turn(node, lambda: set_window(connection, b"s", 4))
    out += node.messages(1)
    assert len(out) == 4
    set_window(connection, b"s", 2)
    node.say(ack(out[0]), ack(out[1]))
    assert node.messages(1) == []
    node.say(ack(out[2]))
    assert len(node.messages(1)) == 1


def test_window_that_was_widened_while_the_buffer_was_full_is_filled_later() -> None:
    node = Node()
    node.open(1, 9)
    connection = node.broker.connections[1]
    connection.outbox_max_bytes = 1
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", prefetch_count=1, name=b"s"), *(send(9, "q", b"%d" % n) for n in range(3)))
    in_a_turn(node, lambda: set_window(connection, b"s", 9))
    assert len(node.messages(1)) == 1
    node.reads_slowly.clear()
    node.turn([])
    assert len(node.messages(1)) == 2


@pytest.mark.parametrize("mode, prefetch", [(CLIENT_INDIVIDUAL, None), (AUTO, 5), (AUTO, None)])
def test_subscription_without_a_window_of_its_own_gets_none(mode: str, prefetch: int | None) -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "q", mode, prefetch_count=prefetch, name=b"s"), subscribe(1, "/topic/t", name=b"t"))
    for name, code in ((b"s", "bad-request"), (b"t", "bad-request"), (b"u", "subscription")):
        with pytest.raises(Refusal) as refused:
            set_window(node.broker.connections[1], name, 3)
        assert refused.value.code == code


def test_subscriptions_at_the_limit_and_one_past() -> None:
    node = Node(limits=Limits(max_subscriptions=3))
    node.open(1)
    node.say(subscribe(1, "a"), subscribe(1, "/topic/b"), subscribe(1, "/temp-queue/c", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(subscribe(1, "d"))
    assert node.refusal(1).code == "too-many-subscriptions"


def test_subscription_id_in_use_is_refused() -> None:
    for second in ("b", "/topic/b"):
        node = Node()
        node.open(1)
        node.say(subscribe(1, "a", name=b"1"), subscribe(1, second, name=b"1"))
        assert node.refusal(1).code == "subscription"
