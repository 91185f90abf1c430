"""Queues that go by themselves: unused for `expires_ms`, or with their last consumer."""

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.getting import Get
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


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
    node.broker.destinations.queues.all["q"].used()
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


@BOTH
def test_auto_delete_queue_goes_with_its_last_consumer_and_all_that_is_in_it(persistent: bool) -> None:
    node = Node(queue("tmp", persistent=persistent, auto_delete=True))
    node.open(1, 2)
    node.say(send(1, "tmp", b"1"), send(1, "tmp", b"2"))
    assert node.has("tmp"), "it has had no consumer yet"
    node.say(subscribe(1, "tmp"), subscribe(2, "tmp"))
    node.close(1)
    assert node.has("tmp")
    node.say(unsubscribe(2, "tmp"))
    assert node.has("tmp"), "a message is unacked"
    node.close(2)
    assert not node.has("tmp") and not node.disk.platter.messages
    assert not node.disk.platter.queues and not node.disk.platter.retired


@BOTH
@pytest.mark.parametrize("way", ["ack", "nack", "commit", "close"])
def test_auto_delete_waits_for_what_is_unacked(persistent: bool, way: str) -> None:
    node = Node(queue("tmp", persistent=persistent, auto_delete=True))
    node.open(1, 2)
    node.say(send(1, "tmp"), subscribe(2, "tmp"))
    deliver = node.message(2)
    node.say(unsubscribe(2, "tmp"))
    assert node.has("tmp")
    if way == "commit":
        node.say(begin(2), ack(deliver, transaction=b"t"), send(2, "other", transaction=b"t"), commit(2))
    elif way == "close":
        node.close(2)
    else:
        node.say((ack if way == "ack" else nack)(deliver))
    assert not node.has("tmp")


@BOTH
def test_auto_delete_queue_goes_with_its_last_consumer_of_amqp_whatever_is_unacked(persistent: bool) -> None:
    node = Node(queue("tmp", persistent=persistent, auto_delete=True))
    node.open(1, 2, 3)
    node.say(*(send(1, "tmp") for _ in range(4)))
    node.say(subscribe(2, "tmp", prefetch_count=1, reports_end=True), subscribe(3, "tmp", prefetch_count=1))
    mine, other = node.message(2), node.message(3)
    node.say(unsubscribe(2, "tmp"))
    assert node.has("tmp"), "another consumer is there"
    node.say(subscribe(2, "tmp", prefetch_count=1, reports_end=True), unsubscribe(3, "tmp"), Get(3, "/queue/tmp", b"r"))
    more, got = node.message(2), node.message(3)
    node.say(unsubscribe(2, "tmp"))
    assert not node.has("tmp")
    node.say(ack(mine), nack(other), nack(more), ack(got))
    assert not (node.is_refused(2) or node.is_refused(3)), "an answer to what is gone has no effect"
    node.say(subscribe(2, "other", prefetch_count=1), send(1, "other"))
    assert node.message(2), "its window is free"


def test_auto_delete_queue_of_an_auto_consumer_goes_when_its_last_message_is_written() -> None:
    node = Node(queue("tmp", auto_delete=True))
    node.open(1)
    node.reads_slowly.add(1)
    node.say(send(1, "tmp"), subscribe(1, "tmp", AUTO), unsubscribe(1, "tmp"))
    assert node.has("tmp")
    node.reads_slowly.clear()
    node.turn([])
    assert not node.has("tmp")


def test_auto_delete_queue_stays_when_the_broker_stops() -> None:
    node = Node(queue("tmp", auto_delete=True))
    node.open(1)
    node.say(send(1, "tmp"), subscribe(1, "tmp", CLIENT))
    node.stop()
    again = node.again_on(node.disk.platter)
    assert again.has("tmp") and again.numbers("tmp")["messages"] == 1


def test_auto_delete_queue_is_made_anew_by_its_next_use() -> None:
    node = Node(queue("tmp", auto_delete=True))
    node.open(1, 2)
    node.say(send(1, "tmp", b"old"), subscribe(1, "tmp", CLIENT))
    node.close(1)
    node.say(send(2, "tmp", b"new", b"r"))
    assert node.receipts(2) == [b"r"] and node.stored("tmp") == [b"new"]


def test_parked_send_to_a_queue_that_is_deleted_goes_to_the_new_one() -> None:
    node = Node(queue("tmp", auto_delete=True, max_messages=1))
    node.open(1, 2)
    node.say(send(1, "tmp", b"old"), send(1, "tmp", b"new", b"r"), subscribe(2, "tmp"))
    node.close(2)
    assert node.receipts(1) == [b"r"] and node.stored("tmp") == [b"new"] and node.paused == set()
