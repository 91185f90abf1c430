"""Redelivery, dead letters, expiry, ack timeouts, exclusive, auto_delete, for both kinds of queue."""

import pytest

from radiator.model.commands import AUTO, CLIENT, Read
from radiator.model.limits import Limits
from radiator.model.replies import Deliver
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, queue, queues, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def shown(deliver: Deliver) -> tuple[bytes, bool, int]:
    return deliver.message.body, deliver.redelivered, deliver.redeliveries


# ---- redelivery -----------------------------------------------------------------------------------------------------


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


# ---- dead letters ---------------------------------------------------------------------------------------------------


def dead_letter(reason: str, persistent: bool) -> Node:
    settings = QueueSettings(
        persistent=persistent, dead_letter="dead", max_redeliveries=0, max_messages=1, overflow="dead-letter"
    )
    node = Node(queues(q=settings))
    node.open(1, 2)
    headers = b"a:1\nexpires:9\nredelivery-count:77\ndead-letter-reason:forged\noriginal-message-id:forged\nb:2\n"
    node.say(send(1, "q", b"body", headers=headers, expiration_ms=60_000))
    if reason == "expired":
        node.wait(60)
    elif reason == "overflow":
        node.say(send(1, "q", b"next"))
    else:
        node.say(subscribe(2, "q"))
        node.say(nack(node.message(2), requeue=reason == "redeliveries"))
    return node


@BOTH
@pytest.mark.parametrize("reason", ["rejected", "redeliveries", "expired", "overflow"])
def test_dead_letter_says_where_it_comes_from_and_why(reason: str, persistent: bool) -> None:
    node = dead_letter(reason, persistent)
    assert node.numbers("q")["dead_lettered"] == 1 and node.numbers("dead")["accepted"] == 1
    node.say(subscribe(1, "dead"))
    deliver = node.message(1)
    message = deliver.message
    assert message.destination == "/queue/dead" and message.body == b"body"
    assert message.headers == (
        b"a:1\nb:2\ndead-letter-reason:%b\noriginal-destination:/queue/q\n"
        b"original-message-id:feedfacecafebeef-1-1\nredelivery-count:0\n" % reason.encode()
    )
    assert deliver.message_id != b"feedfacecafebeef-1-1"
    assert message.expires_ms == 0 and not deliver.redelivered


@pytest.mark.durability("D9")
def test_dead_letter_is_put_and_removed_in_one_batch() -> None:
    node = Node(queue(dead_letter="dead", max_redeliveries=0))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    deliver = node.message(1)
    node.auto = False
    node.say(nack(deliver, b"r"))
    batch = node.broker.seal()
    assert batch is not None
    assert [type(w).__name__ for w in batch.writes] == ["Put", "Remove", "SaveLedger", "SaveLedger"]
    assert node.receipts(1) == []


def test_dead_letter_ignores_the_bound_and_dedup_of_its_target() -> None:
    node = Node(
        queues(
            q=QueueSettings(dead_letter="dead", max_redeliveries=0),
            dead=QueueSettings(max_messages=1, overflow="reject", dedup_window_s=60),
        )
    )
    node.open(1)
    node.say(subscribe(1, "q"))
    for _ in range(3):
        node.say(send(1, "q", headers=b"dedup-id:same\n", dedup_id=b"same"))
        node.say(nack(node.message(1)))
    assert node.numbers("dead")["messages"] == 3


def test_dead_letter_gets_the_time_to_live_of_its_new_queue() -> None:
    node = Node(
        queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=QueueSettings(message_ttl_ms=5000))
    )
    node.open(1)
    node.say(send(1, "q", expiration_ms=1000), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    node.wait(4.9)
    assert node.numbers("dead")["messages"] == 1
    node.wait(0.2)
    assert node.numbers("dead")["expired"] == 1


def test_dead_letters_may_go_on_to_a_third_queue() -> None:
    node = Node(
        queues(
            q=QueueSettings(dead_letter="one", max_redeliveries=0),
            one=QueueSettings(dead_letter="two", max_redeliveries=0),
        )
    )
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"), subscribe(1, "one"), subscribe(1, "two"))
    node.say(nack(node.message(1)))
    node.say(nack(node.message(1)))
    message = node.message(1).message
    assert message.destination == "/queue/two" and header(message, b"original-destination") == b"/queue/one"
    assert message.headers.count(b"original-destination") == 1


@BOTH
def test_reject_without_a_dead_letter_queue_drops_and_counts(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    node.say(nack(node.message(1), b"r", requeue=False))
    assert node.receipts(1) == [b"r"]
    assert node.numbers("q")["dropped"] == 1 and node.numbers("q")["messages"] == 0


# ---- expiry ---------------------------------------------------------------------------------------------------------


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
    (temp,) = node.broker.destinations.replies.values()
    assert temp.ledger.stored == 2
    node.wait(1)
    assert temp.ledger.expired == 1


# ---- ack_timeout_s --------------------------------------------------------------------------------------------------


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


# ---- exclusive, auto_delete -----------------------------------------------------------------------------------------


@BOTH
def test_second_consumer_of_an_exclusive_queue_is_refused(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, exclusive=True))
    node.open(1, 2)
    node.say(subscribe(1, "q"), subscribe(2, "q", receipt=b"r"))
    assert node.refusal(2).code == "exclusive"
    node.say(unsubscribe(1, "q"))
    node.open(3)
    node.say(subscribe(3, "q", receipt=b"r"))
    assert node.receipts(3) == [b"r"]


def test_exclusive_subscription_suffers_nobody_beside_it() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.say(subscribe(1, "a", exclusive=True), subscribe(2, "a"))
    assert node.refusal(2).code == "exclusive"
    node.say(subscribe(1, "b"), subscribe(3, "b", exclusive=True))
    assert node.refusal(3).code == "exclusive"


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
