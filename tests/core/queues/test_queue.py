"""Redelivery, dead letters, expiry, ack timeouts, exclusive, auto_delete, for both kinds of queue."""

from collections.abc import Callable

import pytest

from radiator.model.commands import CLIENT, Read
from radiator.model.limits import Limits
from radiator.model.replies import Deliver
from tests.core.node import Node
from tests.core.words import ack, header, nack, queue, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def shown(deliver: Deliver) -> tuple[bytes, bool, int]:
    return deliver.message.body, deliver.redelivered, deliver.redeliveries


@BOTH
def test_lost_messages_come_back_in_their_own_places(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 2, 3)
    for number in range(5):
        node.say(send(3, "q", b"%d" % number))
    node.say(subscribe(1, "q", prefetch_count=3))
    out = node.messages(1)
    node.say(ack(out[1]))
    node.close(1)
    node.say(subscribe(2, "q", prefetch_count=9))
    assert [shown(d) for d in node.messages(2)] == [
        (b"0", True, 1),
        (b"2", True, 1),
        (b"3", True, 1),
        (b"4", False, 0),
    ]


@BOTH
def test_message_comes_back_without_limit_where_there_is_no_dead_letter_queue(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, max_redeliveries=1))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    for count in range(30):
        deliver = node.message(1)
        assert shown(deliver) == (b"x", count > 0, count)
        node.say(nack(deliver))
    assert node.numbers("q")["redelivered"] == 30


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("most", [0, 1, 3])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_message_that_comes_back_too_often_is_dropped_where_the_queue_says_so(
    is_lost: bool, most: int, persistent: bool
) -> None:
    node = Node(queue(persistent=persistent, drop_after_redeliveries=most))
    node.open(9)
    node.say(send(9, "q", b"a"))
    for number in range(1, most + 2):
        assert node.numbers("q")["dropped"] == 0
        node.open(number)
        node.say(subscribe(number, "q"))
        message = node.message(number)
        assert message.redeliveries == number - 1
        node.say(unsubscribe(number, "q"))
        if not is_lost:
            node.say(nack(message))
        node.close(number)
    assert (node.numbers("q")["dropped"], node.numbers("q")["messages"]) == (1, 0)
    assert not persistent or node.stored("q") == []


@BOTH
@pytest.mark.parametrize("most", [0, 1, 3])
def test_message_is_delivered_once_and_max_redeliveries_times(persistent: bool, most: int) -> None:
    node = Node(queue(persistent=persistent, dead_letter="dead", max_redeliveries=most))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    deliveries = []
    while out := node.messages(1):
        deliveries += out
        node.say(nack(out[0]))
    assert len(deliveries) == 1 + most
    assert node.numbers("q")["dead_lettered"] == 1 and node.numbers("q")["messages"] == 0
    node.say(subscribe(1, "dead"))
    dead = node.message(1)
    assert header(dead.message, b"redelivery-count") == b"%d" % most
    assert header(dead.message, b"dead-letter-reason") == b"redeliveries"


@BOTH
def test_lost_connections_count_as_returns_too(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, dead_letter="dead", max_redeliveries=1))
    node.open(1)
    node.say(send(1, "q"))
    for connection in (2, 3):
        node.open(connection)
        node.say(subscribe(connection, "q"))
        assert len(node.messages(connection)) == 1
        node.close(connection)
    assert node.numbers("q")["messages"] == 0 and node.numbers("dead")["messages"] == 1


@BOTH
def test_expired_message_is_never_delivered(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 2)
    node.say(send(1, "q", b"old", expiration_ms=100), send(1, "q", b"new"))
    node.now_ms += 100  # no tick has come
    node.say(subscribe(2, "q", prefetch_count=9))
    assert node.bodies(2) == [b"new"] and node.numbers("q")["expired"] == 1


@BOTH
def test_message_is_delivered_up_to_the_last_millisecond(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 2)
    node.say(send(1, "q", expiration_ms=100))
    node.now_ms += 99
    node.say(subscribe(2, "q"))
    assert node.bodies(2) == [b"x"]


@pytest.mark.parametrize(
    "expiration, expires, ttl, lives_ms",
    [
        (100, None, None, 100),
        (None, 100, None, 100),
        (None, None, 100, 100),
        (100, 200, 300, 100),
        (300, 100, 200, 100),
        (200, 300, 100, 100),
        (None, 0, 100, 100),
        (100, 0, None, 100),
        (None, 0, None, None),
        (0, None, None, 0),
        (None, -5, None, 0),
    ],
)
@BOTH
def test_earliest_of_the_three_times_counts(
    expiration: int | None, expires: int | None, ttl: int | None, lives_ms: int | None, persistent: bool
) -> None:
    node = Node(queue(persistent=persistent, message_ttl_ms=ttl))
    node.open(1)
    expires_ms = expires if not expires else node.now_ms + expires
    node.say(send(1, "q", expiration_ms=expiration, expires_ms=expires_ms))
    if lives_ms is None:
        node.wait(1_000_000)
        assert node.numbers("q")["messages"] == 1
        return
    if lives_ms:
        node.wait((lives_ms - 1) / 1000)
        assert node.numbers("q")["messages"] == 1
    node.wait(0.25)
    assert node.numbers("q")["expired"] == 1 and node.stored("q") == []


@BOTH
def test_expired_message_leaves_without_a_consumer_and_behind_one_in_flight(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q", b"out"), send(1, "q", b"old", expiration_ms=100), send(1, "q", b"new"))
    node.wait(0.5)
    assert node.numbers("q")["expired"] == 1 and node.numbers("q")["messages"] == 2


def test_expired_message_of_an_earlier_run_leaves_its_head() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", expiration_ms=1000))
    again = node.crashed()
    again.wait(1)
    again.wait(0.25)
    assert again.numbers("q")["expired"] == 1 and again.stored("q") == []


@BOTH
def test_message_in_flight_can_be_acked_after_its_time(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1)
    node.say(send(1, "q", expiration_ms=100), subscribe(1, "q"))
    deliver = node.message(1)
    node.wait(10)
    node.say(ack(deliver, b"r"))
    assert node.receipts(1) == [b"r"] and node.numbers("q")["acked"] == 1 and node.numbers("q")["expired"] == 0


@BOTH
@pytest.mark.parametrize("dead", [None, "dead"])
def test_message_in_flight_expires_as_it_comes_back(persistent: bool, dead: str | None) -> None:
    node = Node(queue(persistent=persistent, dead_letter=dead))
    node.open(1)
    node.say(send(1, "q", expiration_ms=100), subscribe(1, "q"))
    deliver = node.message(1)
    node.wait(10)
    node.say(nack(deliver))
    assert node.messages(1) == []
    assert node.numbers("q")["expired" if dead is None else "dead_lettered"] == 1


def test_expired_reply_leaves_its_temp_queue() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/temp-queue/t"), send(1, "/temp-queue/t", b"out"))
    node.say(send(1, "/temp-queue/t", b"old", expiration_ms=100))
    (temp,) = node.broker.destinations.temp_queues.by_id.values()
    assert temp.ledger.stored == 2
    node.wait(1)
    assert temp.ledger.expired == 1


def test_long_list_of_lost_messages_comes_back_in_slices(small: None) -> None:
    node = Node()
    node.open(1, 2, 3)
    for number in range(20):
        node.say(send(1, "q", b"%d" % number))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=100))
    assert len(node.messages(2)) == 20
    node.close(2)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=100))
    assert [d.message.body for d in node.messages(3)] == [b"%d" % number for number in range(20)]


def test_frames_read_with_one_read_are_carried_out_in_order() -> None:
    node = Node(limits=Limits(max_subscriptions=1))
    node.open(1)
    node.turn([Read(1, [send(1, "q", b"1", b"1"), subscribe(1, "q", receipt=b"2"), send(1, "q", b"2", b"3")])])
    assert node.receipts(1) == [b"1", b"2", b"3"] and node.bodies(1) == [b"1"]


def in_a_turn(node: Node, do: Callable[[], None]) -> None:
    """As an answer to a request would."""
    node.broker.context.open.then.append(do)
    node.turn([])


def oldest_ms(node: Node) -> int | None:
    answer: list[int | None] = []
    in_a_turn(node, lambda: node.broker.destinations.queues.all["q"].read_oldest_age(answer.append))
    (age_ms,) = answer
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
