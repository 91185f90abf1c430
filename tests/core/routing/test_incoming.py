"""What a SEND becomes on its way in: a copy for each queue, and the temp queue that its answer comes to."""

import pytest

from radiator.core.routing.incoming import Incoming
from radiator.core.routing.plan import Plan
from radiator.model.commands import AUTO
from radiator.model.errors import Refusal
from radiator.model.limits import Limits
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import queues, send, subscribe


def incoming(node: Node) -> Incoming:
    return node.broker.parts.admission.incoming


@pytest.fixture
def node() -> Node:
    node = Node(queues(a=QueueSettings(), b=QueueSettings(message_ttl_ms=50)), Limits(max_subscriptions=2))
    node.open(1)
    return node


def test_each_queue_gets_a_copy_with_its_own_end(node: Node) -> None:
    plan, there = Plan(), node.broker.destinations.queues.all
    incoming(node).put_into(plan, send(1, "/fanout/f", b"x", dedup_id=b"d"), b"a:b\n", (there["a"], there["b"]), 0)
    assert [(message.body, message.headers, i) for _, message, i, _ in plan.puts] == [(b"x", b"a:b\n", b"d")] * 2
    assert [message.expires_ms for _, message, _, _ in plan.puts] == [0, node.now_ms + 50]


def test_what_is_immediate_is_not_kept_back(node: Node) -> None:
    plan, there = Plan(), node.broker.destinations.queues.all
    command = send(1, "q", immediate=True)
    incoming(node).put_into(plan, command, b"", (there["a"],), 0)
    assert plan.immediate == {there["a"]: "/queue/q"}
    with pytest.raises(Refusal, match="kept back until later"):
        incoming(node).put_into(plan, command, b"", (there["a"],), node.now_ms + 5)


def test_an_asker_has_one_subscription_for_its_answers(node: Node) -> None:
    connection = node.broker.connections[1]
    first = incoming(node).asker(connection, "t")
    assert incoming(node).asker(connection, "t") is first and len(first.subscriptions) == 1
    assert [*connection.queue_subscriptions] == [b"/temp-queue/t"]
    node.say(subscribe(1, "a", AUTO))
    with pytest.raises(Refusal, match="max_subscriptions"):
        incoming(node).asker(connection, "u")


def test_an_id_that_is_needed_for_answers_may_not_be_another_subscription_s(node: Node) -> None:
    node.say(subscribe(1, "a", name=b"/temp-queue/t"))
    with pytest.raises(Refusal, match="is needed for replies, but in use otherwise"):
        incoming(node).asker(node.broker.connections[1], "t")


def test_the_receiver_sees_where_to_answer(node: Node) -> None:
    command = send(1, "a", headers=b"a:b\n")
    block = incoming(node).with_reply_to(node.broker.connections[1], command, "t")
    queue = incoming(node).asker(node.broker.connections[1], "t")
    assert block == b"a:b\nreply-to:/reply-queue/" + queue.reply_id.encode() + b"\n"
