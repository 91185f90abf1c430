"""exclusive, auto_delete and ack_timeout_s (contract 5)."""

import time

import pytest

from tests.acceptance.conftest import Connect, stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[limits]
block_timeout_s = 1.2
[create]
queues = true
[queue."memory.#"]
persistent = false
[queue."one.*"]
max_messages = 1
[queue."exclusive.*"]
exclusive = true
[queue."durable.gone.*"]
auto_delete = true
[queue."memory.gone.*"]
auto_delete = true
persistent = false
[queue."durable.hasty.*"]
ack_timeout_s = 0.4
[queue."memory.hasty.*"]
ack_timeout_s = 0.4
persistent = false
"""


@pytest.fixture(params=["durable", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def exists(broker: BrokerProcess, queue: str) -> bool:
    return queue.removeprefix("/queue/") in stats(broker)["queues"]


# ---- exclusive


def test_exclusive_queue_has_at_most_one_consumer(connect: Connect, wire: Wire, name: str) -> None:
    queue = f"/queue/exclusive.{name}"
    wire.subscribe(queue)
    second = connect()
    asked = second.begin_ask("SUBSCRIBE", {"id": "1", "destination": queue})
    error = second.refusal()
    assert error["receipt-id"] == asked
    assert queue.encode() in error.body
    wire.send(queue, "x")
    wire.ack(wire.message())
    wire.ask("UNSUBSCRIBE", {"id": "0"})
    connect().subscribe(queue)


def test_exclusive_queue_refuses_a_second_subscription_of_one_connection(wire: Wire, name: str) -> None:
    queue = f"/queue/exclusive.{name}"
    wire.subscribe(queue, id="1")
    wire.send_frame("SUBSCRIBE", {"id": "2", "destination": queue})
    wire.refusal()


def test_exclusive_queue_is_free_when_its_consumer_is_lost(connect: Connect, name: str) -> None:
    queue = f"/queue/exclusive.{name}"
    first = connect()
    first.subscribe(queue)
    first.ask("DISCONNECT")
    assert first.is_closed()
    time.sleep(0.05)
    connect().subscribe(queue)


def test_subscription_may_ask_to_be_exclusive(connect: Connect, wire: Wire, queue: str) -> None:
    wire.subscribe(queue, headers={"activemq.exclusive": "true"})
    second = connect()
    second.send_frame("SUBSCRIBE", {"id": "1", "destination": queue})
    second.refusal()


def test_exclusive_subscription_is_refused_where_there_is_a_consumer(connect: Connect, wire: Wire, queue: str) -> None:
    wire.subscribe(queue)
    second = connect()
    second.send_frame("SUBSCRIBE", {"id": "1", "destination": queue, "activemq.exclusive": "true"})
    second.refusal()


# ---- auto_delete


def test_auto_delete_queue_goes_when_its_last_consumer_has_gone(
    broker: BrokerProcess, connect: Connect, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.gone.{name}"
    sender, first, second = connect(), connect(), connect()
    sender.send(queue, "0")
    sender.send(queue, "1")
    assert exists(broker, queue), "it never had a consumer"
    first.subscribe(queue)
    second.subscribe(queue)
    first.ack(first.message())
    first.ask("UNSUBSCRIBE", {"id": "0"})
    assert exists(broker, queue)
    message = second.message()
    second.ask("UNSUBSCRIBE", {"id": "0"})
    assert exists(broker, queue), "something is unacked"
    sender.send(queue, "2")
    second.ack(message)
    assert not exists(broker, queue), "and what is in it goes too"
    sender.send(queue, "new")
    sender.subscribe(queue, ack="auto")
    assert sender.message().body == b"new"


def test_auto_delete_queue_goes_with_a_lost_connection(
    broker: BrokerProcess, connect: Connect, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.gone.{name}"
    reader = connect()
    reader.send(queue, "x")
    reader.subscribe(queue)
    reader.message()
    reader.close()
    deadline_s = time.monotonic() + 3
    while exists(broker, queue):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


# ---- ack_timeout_s


@pytest.mark.slow
def test_message_unacked_for_too_long_comes_back_and_its_connection_is_closed(
    connect: Connect, wire: Wire, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.hasty.{name}"
    slow = connect()
    slow.subscribe(queue)
    wire.send(queue, "x")
    slow.message()
    began_s = time.monotonic()
    assert b"0.4" in slow.refusal(3).body
    assert 0.3 < time.monotonic() - began_s < 2
    wire.subscribe(queue)
    back = wire.message()
    assert (back["redelivered"], back["redelivery-count"]) == ("true", "1")
    wire.ack(back)


@pytest.mark.slow
def test_acked_in_time_is_left_alone(wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.hasty.{name}"
    wire.subscribe(queue)
    for _ in range(4):
        wire.send(queue, "x")
        message = wire.message()
        time.sleep(0.2)
        wire.ack(message)
    wire.fence()


@pytest.mark.slow
def test_ack_timeout_stands_still_while_its_connection_is_blocked(
    connect: Connect, wire: Wire, kind: str, name: str
) -> None:
    """Nothing is read from it, so it could not ACK: it is refused for the block (1.2 s), not for the timeout (0.4)."""
    queue, full = f"/queue/{kind}.hasty.{name}", f"/queue/one.{name}"
    wire.send(queue, "x")
    wire.send(full, "1")
    blocked = connect()
    blocked.subscribe(queue)
    blocked.message()
    blocked.send_frame("SEND", {"destination": full, "receipt": "blocked"}, b"2")
    assert blocked.refusal(3)["receipt-id"] == "blocked"
