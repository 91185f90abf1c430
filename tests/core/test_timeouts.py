"""Times of a subscription and of a queue: ack timeouts of one's own, more time for one message, another window, the age
of the oldest message, and queues that nobody uses.
"""

from collections.abc import Callable

import pytest

from radiator.core.deliveries import extend
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL
from radiator.model.errors import Refusal
from radiator.model.limits import STALE_TIMEOUTS
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, queue, queues, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


def in_a_turn(node: Node, do: Callable[[], None]) -> None:
    """As an answer to a request would."""
    node.broker.context.open.then.append(do)
    node.turn([])


# ---- ack timeout ----------------------------------------------------------------------------------------------------


@BOTH
def test_subscription_has_its_own_ack_timeout_or_that_of_its_queue(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, ack_timeout_s=5))
    node.open(1, 2, 3, 9)
    node.say(subscribe(1, "q", ack_timeout_s=20), subscribe(2, "q"), subscribe(3, "q", ack_timeout_s=1))
    node.say(*(send(9, "q") for _ in range(3)))
    assert all(len(node.messages(connection)) == 1 for connection in (1, 2, 3))
    node.wait(1)
    assert [node.is_refused(connection) for connection in (1, 2, 3)] == [False, False, True]
    assert "within 1 s" in node.refusal(3).sentence
    node.wait(4)
    assert [node.is_refused(connection) for connection in (1, 2)] == [False, True]
    node.wait(14.9)
    assert not node.is_refused(1)
    node.wait(0.1)
    assert node.refusal(1).code == "ack-timeout"


def test_queue_without_ack_timeout_watches_only_subscriptions_that_have_one() -> None:
    node = Node()
    node.open(1, 2, 9)
    node.say(subscribe(1, "q"), subscribe(2, "q", ack_timeout_s=1), send(9, "q"), send(9, "q"))
    node.wait(1)
    assert node.is_refused(2) and not node.is_refused(1)
    node.wait(1_000_000)
    assert not node.is_refused(1)


def test_settled_deliveries_cost_no_memory_however_long_their_timeout_is() -> None:
    node = Node(queue(ack_timeout_s=1_000_000))
    node.open(1, 9)
    node.say(subscribe(1, "q"))
    for _ in range(1000):
        node.say(send(9, "q"))
        node.say(ack(node.message(1)))
    timeouts = node.broker.destinations.queues["q"].timeouts
    assert len(timeouts) <= STALE_TIMEOUTS + 3
    node.say(send(9, "q"))
    node.wait(1_000_000)
    assert node.is_refused(1)


# ---- extend ---------------------------------------------------------------------------------------------------------


@BOTH
def test_message_may_be_given_more_time_and_then_less(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, ack_timeout_s=5))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=2), send(9, "q", b"1"), send(9, "q", b"2"))
    first, second = node.messages(1)
    connection = node.broker.connections[1]
    node.wait(4)
    assert extend(connection, first.message_id, 60) == node.now_ms + 60_000
    assert extend(connection, second.message_id, None) == node.now_ms + 5000
    node.wait(4.9)
    assert not node.is_refused(1)
    node.say(ack(second))
    node.wait(50)
    assert not node.is_refused(1)
    assert extend(connection, first.message_id, 0.5) == node.now_ms + 500
    node.wait(0.4)
    assert not node.is_refused(1)
    node.wait(0.1)
    assert node.refusal(1).code == "ack-timeout" and node.numbers("q")["ready"] == 1


def test_extending_over_and_over_costs_no_memory_and_counts_once() -> None:
    node = Node(queue(ack_timeout_s=5))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    deliver = node.message(1)
    for _ in range(10_000):
        extend(node.broker.connections[1], deliver.message_id, 5)
    assert len(node.broker.destinations.queues["q"].timeouts) <= STALE_TIMEOUTS + 3
    node.wait(5)
    assert node.refusal(1).code == "ack-timeout" and node.numbers("q")["redelivered"] == 1


def test_message_without_ack_timeout_needs_no_more_time() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    assert extend(node.broker.connections[1], node.message(1).message_id, 5) is None
    node.wait(10)
    assert not node.is_refused(1)


def test_what_is_not_unacked_on_this_connection_cannot_be_extended() -> None:
    node = Node(queue(ack_timeout_s=5))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    deliver = node.message(1)
    for number, message_id in ((2, deliver.message_id), (1, b"nonsense")):
        with pytest.raises(Refusal, match="not unacked") as refused:
            extend(node.broker.connections[number], message_id, 5)
        assert refused.value.code == "not-unacked"
    node.say(ack(deliver))
    with pytest.raises(Refusal):
        extend(node.broker.connections[1], deliver.message_id, 5)


# ---- prefetch of a live subscription --------------------------------------------------------------------------------


def test_wider_window_is_filled_at_once_and_a_narrower_one_as_messages_leave_it() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=1, name=b"s"), *(send(9, "q", b"%d" % n) for n in range(9)))
    connection = node.broker.connections[1]
    out = node.messages(1)
    assert len(out) == 1
    in_a_turn(node, lambda: connection.set_prefetch(b"s", 4))
    out += node.messages(1)
    assert len(out) == 4
    connection.set_prefetch(b"s", 2)
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
    in_a_turn(node, lambda: connection.set_prefetch(b"s", 9))
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
            node.broker.connections[1].set_prefetch(name, 3)
        assert refused.value.code == code


# ---- oldest_ms ------------------------------------------------------------------------------------------------------


def oldest_ms(node: Node) -> int | None:
    told: list[int | None] = []
    in_a_turn(node, lambda: node.broker.destinations.queues["q"].tell_oldest(told.append))
    (age_ms,) = told
    return age_ms


@BOTH
def test_age_of_the_oldest_message_that_is_ready(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    assert oldest_ms(node) is None
    node.say(send(9, "q", delay_ms=100_000))
    node.wait(1)
    assert oldest_ms(node) is None
    node.say(send(9, "q"))
    node.wait(2)
    node.say(send(9, "q"))
    node.wait(0.5)
    assert oldest_ms(node) == 2500
    node.say(subscribe(1, "q"))
    assert oldest_ms(node) == 500
    node.now_ms -= 1_000_000
    assert oldest_ms(node) == 0


def test_age_is_read_back_where_nothing_of_the_queue_is_in_memory() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "q"), send(9, "q"))
    node.wait(3)
    again = node.crashed()
    assert oldest_ms(again) == 3000


# ---- expires_ms -----------------------------------------------------------------------------------------------------


@BOTH
def test_queue_that_nobody_uses_is_deleted_with_what_is_in_it(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, expires_ms=10_000))
    node.open(9)
    node.say(send(9, "q", b"1"), send(9, "q", b"2", delay_ms=60_000))
    node.wait(9.9)
    assert node.has("q")
    node.wait(0.1)
    assert not node.has("q") and node.disk.platter.messages == {} == node.disk.platter.delayed
    assert [note.event for note in node.notes] == ["queue_deleted"]


@BOTH
def test_time_of_an_unused_queue_begins_when_its_last_use_ends(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, expires_ms=10_000))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    node.wait(100)
    deliver = node.message(1)
    node.say(unsubscribe(1, "q"))
    node.wait(100)
    assert node.has("q"), "one is unacked"
    node.say(ack(deliver))
    node.wait(9.9)
    assert node.has("q")
    node.broker.destinations.queues["q"].used()
    node.wait(9.9)
    node.say(subscribe(2, "q"), unsubscribe(2, "q"))
    node.wait(9.9)
    assert node.has("q"), "used between two Ticks"
    node.wait(0.2)
    assert not node.has("q")


def test_unused_queue_is_never_deleted_early() -> None:
    node = Node(queue(expires_ms=100))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q"), unsubscribe(1, "q"))
    node.wait(0.25)
    node.now_s += 0.24
    node.say(ack(node.message(1)))
    node.wait(0.01)
    assert node.has("q")
    node.wait(0.25)
    assert not node.has("q")


def test_time_begins_anew_with_a_start_and_others_are_not_touched() -> None:
    node = Node(queues(q=QueueSettings(expires_ms=10_000), other=QueueSettings()))
    node.open(9)
    node.say(send(9, "q"), send(9, "other"))
    node.wait(9)
    again = node.crashed()
    again.wait(9.9)
    assert again.has("q")
    again.wait(0.1)
    assert not again.has("q") and again.has("other")
