"""Flow control: windows, round robin, outgoing buffers, and who waits."""

import pytest

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL
from radiator.model.limits import Limits
from radiator.model.replies import Receipt
from tests.core.node import Node
from tests.core.words import ack, nack, queue, send, subscribe, unsubscribe

MODES = (CLIENT, CLIENT_INDIVIDUAL)


def test_worked_example_holds_step_by_step() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "Q1"), subscribe(1, "Q2"), subscribe(1, "/topic/T1"))
    node.say(send(2, "Q1", b"M1"), send(2, "Q1", b"M2"))
    m1 = node.message(1)
    assert m1.message.body == b"M1"
    node.say(send(2, "Q2", b"M3"))
    assert node.bodies(1) == []
    node.say(ack(m1))
    m3 = node.message(1)
    assert m3.message.body == b"M3"
    node.say(send(2, "/topic/T1", b"M4"))
    assert node.bodies(1) == [b"M4"]
    node.say(ack(m3))
    m2 = node.message(1)
    assert m2.message.body == b"M2"
    node.say(ack(m2))
    assert node.take(1) == [] and node.stored("Q1") == node.stored("Q2") == []


@pytest.mark.parametrize("mode", MODES)
def test_connection_gets_one_message_at_a_time_over_all_its_queues(mode: str) -> None:
    node = Node()
    node.open(1, 2)
    for name in ("a", "b", "c"):
        node.say(subscribe(1, name, mode))
        for number in range(3):
            node.say(send(2, name, b"%b%d" % (name.encode(), number)))
    seen = []
    for _ in range(9):
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]
    assert node.messages(1) == []


def test_round_robin_skips_subscriptions_that_have_nothing() -> None:
    node = Node()
    node.open(1, 2)
    for name in ("a", "b", "c"):
        node.say(subscribe(1, name))
    for name in ("c", "c", "a", "a"):
        node.say(send(2, name, name.encode()))
    seen = []
    for _ in range(4):
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen == [b"c", b"a", b"c", b"a"]


def test_nacked_message_waits_for_its_turn_behind_other_queues() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a"), subscribe(1, "b"), send(2, "a", b"a"), send(2, "b", b"b"))
    node.say(nack(node.message(1)))
    assert node.bodies(1) == [b"b"]


def test_window_opens_when_the_ack_is_read_not_when_it_is_synced() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q"), send(2, "q", b"1"), send(2, "q", b"2"))
    first = node.message(1)
    node.auto = False
    node.say(ack(first, b"r"))
    assert node.bodies(1) == [b"2"] and node.receipts(1) == []
    assert node.stored("q") == [b"1", b"2"]
    while node.step():
        pass
    assert node.receipts(1) == [b"r"] and node.stored("q") == [b"2"]


def test_prefetch_count_gives_a_window_of_its_own() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "shared"), subscribe(1, "own", prefetch_count=3))
    for number in range(5):
        node.say(send(2, "own", b"o%d" % number), send(2, "shared", b"s%d" % number))
    first = node.messages(1)
    assert [d.message.body for d in first] == [b"o0", b"s0", b"o1", b"o2"]
    node.say(ack(first[3]))
    assert node.bodies(1) == [b"o3"]
    node.say(ack(first[1]))
    assert node.bodies(1) == [b"s1"]


@pytest.mark.parametrize("prefetch_count", [1, 65535])
def test_prefetch_count_at_its_limits(prefetch_count: int) -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q", prefetch_count=prefetch_count))
    for number in range(4):
        node.say(send(2, "q", b"%d" % number))
    assert len(node.messages(1)) == min(prefetch_count, 4)


def test_auto_is_not_limited_by_the_window() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q", AUTO), subscribe(1, "other"), send(2, "other"))
    for number in range(50):
        node.say(send(2, "q", b"%d" % number))
    assert node.bodies(1) == [b"x", *(b"%d" % number for number in range(50))]
    assert node.stored("q") == []


def test_auto_message_counts_as_acked_only_when_it_is_written() -> None:
    node = Node()
    node.open(1, 2)
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", AUTO), send(2, "q"))
    deliver = node.message(1)
    assert deliver.written_due and not deliver.ack_due and node.stored("q") == [b"x"]
    assert node.numbers("q")["unacked"] == 1
    node.reads_slowly.clear()
    node.turn([])
    assert node.stored("q") == [] and node.numbers("q")["acked"] == 1


def test_auto_message_that_was_not_written_comes_back_redelivered() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", AUTO), send(2, "q", b"a"), send(2, "q", b"b"))
    node.close(1)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=5))
    back = node.messages(3)
    assert [(d.message.body, d.redelivered, d.redeliveries) for d in back] == [(b"a", True, 1), (b"b", True, 1)]


@pytest.mark.parametrize("mode", [AUTO, CLIENT, CLIENT_INDIVIDUAL])
@pytest.mark.parametrize("persistent", [True, False])
def test_queue_messages_wait_while_the_outgoing_buffer_is_at_its_bound(mode: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent), Limits(outbox_max_bytes=10_000))
    node.open(1, 2)
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", mode, prefetch_count=100))
    for number in range(30):
        node.say(send(2, "q", b"%03d" % number + bytes(1000)))
    connection = node.broker.connections[1]
    out = node.messages(1)
    size = 1003 + 256
    assert len(out) == -(-10_000 // size), "it is sent to while the buffer is below its bound"
    assert connection.outbox_bytes == len(out) * size
    node.reads_slowly.clear()
    node.turn([])
    out += node.messages(1)
    assert [d.message.body[:3] for d in out] == [b"%03d" % number for number in range(30)]
    assert not node.is_refused(1)


def test_auto_subscriptions_of_a_slow_reader_take_turns() -> None:
    node = Node(limits=Limits(outbox_max_bytes=1000))
    node.open(1, 2)
    node.reads_slowly.add(1)
    for name in ("a", "b"):
        node.say(subscribe(1, name, AUTO))
    for name in ("a", "b"):
        for number in range(10):
            node.say(send(2, name, b"%b%d" % (name.encode(), number) + bytes(500)))
    node.auto = False
    seen = []
    for _ in range(12):
        seen += [d.message.body[:1] for d in node.messages(1)]
        node.reads_slowly.clear()
        node.turn([])
        node.reads_slowly.add(1)
    assert b"b" in seen[:6], seen


def test_unsubscribed_messages_stay_with_the_connection_and_count_in_its_window() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a"), subscribe(1, "b"), send(2, "a", b"1"), send(2, "a", b"2"), send(2, "b", b"3"))
    first = node.message(1)
    node.say(unsubscribe(1, "a", b"r"))
    assert node.receipts(1) == [b"r"]
    assert node.messages(1) == [], "the unacked one still fills the shared window"
    node.say(ack(first))
    assert node.bodies(1) == [b"3"], "and nothing more comes from the subscription that ended"
    node.say(subscribe(2, "a"))
    assert node.bodies(2) == [b"2"]


def test_unsubscribed_messages_come_back_when_the_connection_ends() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a"), send(2, "a", b"1"))
    node.say(unsubscribe(1, "a"), subscribe(2, "a"))
    assert node.messages(2) == []
    node.close(1)
    assert [(d.message.body, d.redelivered) for d in node.messages(2)] == [(b"1", True)]


def test_subscription_that_waited_for_room_is_forgotten_when_it_ends() -> None:
    node = Node()
    node.open(1, 2)
    for name in ("a", "b"):
        node.say(send(1, name), send(1, name))
    node.say(subscribe(2, "a"), subscribe(2, "a", name=b"own", prefetch_count=1))
    for _ in range(3):
        node.say(subscribe(2, "b"), subscribe(2, "b", "auto", name=b"auto"))
        node.say(unsubscribe(2, "b"), unsubscribe(2, "auto"))
    node.say(unsubscribe(2, "a"), unsubscribe(2, "own"))
    connection = node.broker.connections[2]
    assert not connection.unlisted_shared and not connection.unlisted_private


def test_many_waiting_subscriptions_are_served_in_turn() -> None:
    node = Node(limits=Limits(max_subscriptions=200))
    node.open(1, 2)
    names = [f"q{number}" for number in range(100)]
    for name in names * 2:
        node.say(send(1, name))
    node.say(*(subscribe(2, name) for name in names))
    served = []
    for _ in names:
        deliver = node.message(2)
        served.append(deliver.message.destination.removeprefix("/queue/"))
        node.say(ack(deliver))
    assert served == names


def test_window_of_its_own_that_was_full_gets_the_next_message_after_an_ack() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(2, "a", prefetch_count=1), subscribe(2, "b", prefetch_count=1))
    for body in (b"1", b"2", b"3"):
        node.say(send(1, "a", body), send(1, "b", body))
    for body in (b"1", b"2", b"3"):
        first, second = node.messages(2)
        assert (first.message.body, second.message.body) == (body, body)
        node.say(ack(second), ack(first))
    assert node.messages(2) == []


def test_unsubscribe_of_an_unknown_id_is_refused() -> None:
    node = Node()
    node.open(1)
    node.say(unsubscribe(1, "nothing", b"r"))
    refuse = node.refusal(1)
    assert refuse.code == "subscription" and refuse.receipt == b"r"


def test_receipt_of_subscribe_leaves_before_its_first_message() -> None:
    node = Node()
    node.open(1, 2)
    node.say(send(2, "q"), subscribe(1, "q", receipt=b"r"))
    receipt, _ = node.take(1)
    assert receipt == Receipt(1, b"r")


def test_deliver_names_its_subscription_only_where_the_client_named_it() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q", name=b"/queue/q", named=False), send(2, "q"))
    assert node.message(1).subscription is None


@pytest.mark.parametrize(("window", "delivered"), [(1, 1), (2, 2), (5, 5), (9, 6)])
def test_ack_client_window_is_that_of_a_subscription_that_asks_for_none(window: int, delivered: int) -> None:
    node = Node(limits=Limits(ack_client_window=window))
    node.open(1, 2)
    node.say(*(send(1, "q", b"%d" % number) for number in range(6)))
    node.say(subscribe(2, "q", CLIENT))
    out = node.messages(2)
    assert len(out) == delivered
    node.say(ack(out[-1]))
    assert len(node.messages(2)) == min(window, 6 - delivered)


@pytest.mark.parametrize(("mode", "prefetch_count", "delivered"), [(CLIENT, 2, 2), (CLIENT_INDIVIDUAL, None, 1)])
def test_ack_client_window_is_of_no_other_subscription(mode: str, prefetch_count: int | None, delivered: int) -> None:
    node = Node(limits=Limits(ack_client_window=5))
    node.open(1, 2)
    node.say(*(send(1, "q") for _ in range(6)), subscribe(2, "q", mode, prefetch_count=prefetch_count))
    assert len(node.messages(2)) == delivered
