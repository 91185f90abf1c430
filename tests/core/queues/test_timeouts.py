"""Ack timeouts: how long a message may be out, and more time for one that needs it."""

from itertools import pairwise

import pytest

from radiator.core.deliveries import extend
from radiator.model.commands import AUTO, Read
from radiator.model.errors import Refusal
from radiator.model.limits import COMMANDS_PER_TURN, LOOKS_PER_TURN, REFUSED_LOOKS, STALE_TIMEOUTS, WATCHED_LOOKS
from radiator.model.replies import Deliver, Refuse
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


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
    timeouts = node.broker.destinations.queues.all["q"].timeouts
    assert len(timeouts) <= STALE_TIMEOUTS + 3
    node.say(send(9, "q"))
    node.wait(1_000_000)
    assert node.is_refused(1)


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
    assert len(node.broker.destinations.queues.all["q"].timeouts) <= STALE_TIMEOUTS + 3
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


def shown(deliver: Deliver) -> tuple[bytes, bool, int]:
    return deliver.message.body, deliver.redelivered, deliver.redeliveries


@BOTH
def test_overdue_message_comes_back_and_its_connection_is_closed_with_one_error(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, ack_timeout_s=5))
    node.open(1, 2)
    node.say(subscribe(1, "q", prefetch_count=9), send(2, "q", b"1"), send(2, "q", b"2"))
    node.messages(1)
    node.wait(4.9)
    assert not node.is_refused(1)
    node.say(subscribe(2, "q", prefetch_count=9))
    node.wait(0.2)
    assert node.refusal(1).code == "ack-timeout"
    assert [shown(d) for d in node.messages(2)] == [(b"1", True, 1), (b"2", True, 1)]
    node.close(1)
    assert node.numbers("q")["unacked"] == 2


def test_each_delivery_has_its_own_clock() -> None:
    node = Node(queue(ack_timeout_s=5))
    node.open(1, 2)
    node.say(subscribe(1, "q", prefetch_count=9), send(2, "q", b"1"))
    first = node.message(1)
    node.wait(3)
    node.say(send(2, "q", b"2"))
    second = node.message(1)
    node.say(ack(first))
    node.wait(3)
    assert not node.is_refused(1)
    node.say(nack(second))
    (second,) = node.messages(1)
    node.wait(4)
    assert not node.is_refused(1), "handed over anew"
    node.wait(1.5)
    assert node.is_refused(1)


def test_clock_of_a_parked_connection_stands_still() -> None:
    node = Node(queues(q=QueueSettings(ack_timeout_s=5), full=QueueSettings(max_messages=1)))
    node.open(1, 2, 3)
    node.say(subscribe(1, "q"), send(2, "q"), send(2, "full"))
    deliver = node.message(1)
    node.wait(2)
    node.say(send(1, "full"))
    assert 1 in node.paused
    node.wait(30)
    assert not node.is_refused(1)
    node.say(subscribe(3, "full", AUTO))
    assert 1 not in node.paused
    node.wait(2.9)
    assert not node.is_refused(1)
    node.say(ack(deliver, b"r"))
    assert node.receipts(1) == [b"r"]


def test_clock_of_a_parked_connection_goes_on_afterwards() -> None:
    node = Node(queues(q=QueueSettings(ack_timeout_s=5), full=QueueSettings(max_messages=1)))
    node.open(1, 2, 3)
    node.say(subscribe(1, "q"), send(2, "q"), send(2, "full"))
    node.wait(2)
    node.say(send(1, "full"))
    node.wait(30)
    node.say(subscribe(3, "full", AUTO))
    node.wait(3.1)
    assert node.refusal(1).code == "ack-timeout"


@BOTH
def test_auto_message_that_cannot_be_written_is_overdue_too(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, ack_timeout_s=5))
    node.open(1, 2, 3)
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", AUTO), send(2, "q"))
    node.wait(6)
    assert node.refusal(1).code == "ack-timeout"
    assert node.numbers("q")["ready"] == 1
    node.reads_slowly.clear()
    node.turn([])
    assert node.numbers("q")["messages"] == 1, "written too late: it came back already"
    node.close(1)
    node.say(subscribe(3, "q"))
    assert shown(node.message(3)) == (b"x", True, 1)


def test_message_whose_commit_is_on_its_way_to_the_disk_is_not_overdue() -> None:
    node = Node(queues(memory=QueueSettings(persistent=False, ack_timeout_s=5)))
    node.open(1)
    node.say(subscribe(1, "memory"), send(1, "memory"))
    deliver = node.message(1)
    node.auto = False
    node.say(begin(1), ack(deliver, transaction=b"t"), send(1, "q", transaction=b"t"), commit(1, receipt=b"c"))
    node.wait(6)
    assert not node.is_refused(1)
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"c"] and node.numbers("memory")["acked"] == 1


def test_message_in_an_open_transaction_is_overdue() -> None:
    node = Node(queue(ack_timeout_s=5))
    node.open(1, 2)
    node.say(subscribe(1, "q"), send(1, "q"))
    node.say(begin(1), ack(node.message(1), transaction=b"t"))
    node.wait(6)
    assert node.refusal(1).code == "ack-timeout"
    node.say(commit(1))
    node.close(1)
    assert node.stored("q") == [b"x"]


def test_what_is_overdue_and_dies_does_so_in_slices() -> None:
    settings = QueueSettings(ack_timeout_s=5, max_redeliveries=0, dead_letter_exchange="", dead_letter_key="dead")
    node = Node(queues(q=settings, dead=QueueSettings()))
    node.open(1, 9)
    count = COMMANDS_PER_TURN
    node.say(subscribe(1, "q", prefetch_count=count))
    node.turn([Read(9, [send(9, "q", b"%d" % number) for number in range(count)])])
    assert len(node.messages(1)) == count
    node.auto = False
    node.wait(6)
    made = [0, node.numbers("q")["dead_lettered"]]
    while made[-1] < count:
        node.turn([])
        made.append(node.numbers("q")["dead_lettered"])
    most = -(-COMMANDS_PER_TURN // 3)
    assert made[1] <= 2 * most and all(after - before <= most for before, after in pairwise(made[1:]))
    node.auto = True
    node.turn([])
    assert node.is_refused(1) and node.stored("dead") == [b"%d" % number for number in range(count)]


def count_refused(node: Node) -> int:
    return sum(isinstance(one, Refuse) for one in node.log)


@BOTH
@pytest.mark.parametrize("connections", [1, 400])
def test_very_many_that_are_overdue_come_back_in_slices(connections: int, persistent: bool) -> None:
    """Though their connections, which have been refused, are not closed yet: they may be hung."""
    node, count = Node(queue(persistent=persistent, ack_timeout_s=5)), 1200
    numbers = range(10, 10 + connections)
    node.open(1, 2, *numbers)
    node.say(*(subscribe(number, "q", prefetch_count=count // connections) for number in numbers))
    for first in range(0, count, 200):
        node.turn([Read(1, [send(1, "q", b"%d" % number) for number in range(first, first + 200)])])
    node.auto = False
    node.wait(6)
    out, refused = [count, node.numbers("q")["unacked"]], [0, count_refused(node)]
    while out[-1]:
        assert node.step()
        out.append(node.numbers("q")["unacked"])
        refused.append(count_refused(node))
    most, most_refused = LOOKS_PER_TURN // WATCHED_LOOKS, LOOKS_PER_TURN // REFUSED_LOOKS
    assert all(before - after <= most for before, after in pairwise(out)), "as many as a turn looks at"
    assert all(after - before <= most_refused for before, after in pairwise(refused))
    assert refused[-1] == connections and all(map(node.is_refused, numbers))
    node.auto = True
    node.say(subscribe(2, "q", prefetch_count=count))
    assert [shown(one) for one in node.messages(2)] == [(b"%d" % number, True, 1) for number in range(count)]


def test_those_that_die_in_slices_do_so_in_their_order() -> None:
    settings = QueueSettings(ack_timeout_s=5, max_redeliveries=0, dead_letter_exchange="", dead_letter_key="dead")
    node, count = Node(queues(q=settings, dead=QueueSettings())), 1200
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=count))
    for first in range(0, count, 200):
        node.turn([Read(9, [send(9, "q", b"%d" % number) for number in range(first, first + 200)])])
    node.auto = False
    node.wait(6)
    made = [0, node.numbers("q")["dead_lettered"]]
    while node.step():
        made.append(node.numbers("q")["dead_lettered"])
    most = COMMANDS_PER_TURN // 3 + 1
    assert made[1] <= 2 * most and all(after - before <= most for before, after in pairwise(made[1:]))
    assert node.stored("dead") == [b"%d" % number for number in range(count)]


def test_those_of_a_connection_that_waits_keep_none_behind_them() -> None:
    node = Node(queues(q=QueueSettings(ack_timeout_s=5), full=QueueSettings(max_messages=1)))
    node.open(1, 2, 3)
    node.say(subscribe(1, "q", prefetch_count=200), *(send(3, "q") for _ in range(200)), send(3, "full"))
    node.say(subscribe(2, "q", prefetch_count=3), *(send(3, "q", b"later") for _ in range(3)))
    node.say(send(1, "full"))
    assert node.paused == {1}
    node.wait(6)
    assert node.is_refused(2) and not node.is_refused(1)
    assert (node.numbers("q")["unacked"], node.numbers("q")["ready"]) == (200, 3)
