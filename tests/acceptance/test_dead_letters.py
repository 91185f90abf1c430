"""Dead letters: when, where to, and what they carry (contract 5)."""

import time

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[queue."durable.*"]
max_redeliveries = 2
dead_letter = "durable-dead"
dedup_window_s = 60
[queue."memory.*"]
persistent = false
max_redeliveries = 2
dead_letter = "memory-dead"
[queue."durable-dead"]
max_messages = 1
overflow = "reject"
dedup_window_s = 60
[queue."memory-dead"]
persistent = false
max_messages = 1
overflow = "reject"
[queue."never.*"]
max_redeliveries = 0
dead_letter = "durable-dead"
[queue."default.*"]
dead_letter = "durable-dead"
[queue."first.*"]
dead_letter = "second"
[queue."second"]
dead_letter = "durable-dead"
[queue."full.*"]
max_messages = 1
overflow = "dead-letter"
dead_letter = "durable-dead"
[queue."full.*.memory"]
persistent = false
max_messages = 1
overflow = "dead-letter"
dead_letter = "memory-dead"
[queue."cross.*"]
persistent = false
max_redeliveries = 0
dead_letter = "durable-dead"
"""


@pytest.fixture(params=["durable", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def dead_lettered(connect: Connect, kind: str) -> Frame:
    """The dead letter that there is, taken out."""
    wire = connect()
    wire.subscribe(f"/queue/{kind}-dead")
    message = wire.message()
    wire.ack(message)
    assert wire.is_silent(), "there is one only"
    wire.close()
    return message


def assert_is_dead_letter(dead: Frame, original: Frame, reason: str, queue: str, count: str | None) -> None:
    assert dead["dead-letter-reason"] == reason
    assert dead["original-destination"] == queue
    assert dead["original-message-id"] == original["message-id"]
    assert dead["message-id"] != original["message-id"]
    if count is not None:
        assert dead["redelivery-count"] == count
    assert dead.body == original.body


def test_one_and_n_deliveries_then_dead_letter(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "poison", {"own": "header"})
    wire.subscribe(queue)
    counts = []
    for _ in range(3):
        message = wire.message()
        counts.append(message.get("redelivery-count"))
        wire.nack(message)
    assert counts == [None, "1", "2"], "1 + max_redeliveries deliveries"
    assert wire.is_silent()
    dead = dead_lettered(connect, kind)
    assert_is_dead_letter(dead, message, "redeliveries", queue, None)
    assert dead["redelivery-count"] == "2", "as it was last delivered"
    assert dead["destination"] == f"/queue/{kind}-dead"
    assert dead["own"] == "header"


def test_max_redeliveries_is_16_by_default(connect: Connect, wire: Wire, name: str) -> None:
    wire.send(f"/queue/default.{name}", "poison")
    wire.subscribe(f"/queue/default.{name}")
    for _ in range(17):
        wire.nack(wire.message())
    assert wire.is_silent()
    dead_lettered(connect, "durable")


def test_max_redeliveries_0_means_one_delivery(connect: Connect, wire: Wire, name: str) -> None:
    wire.send(f"/queue/never.{name}", "poison")
    wire.subscribe(f"/queue/never.{name}")
    wire.nack(wire.message())
    assert wire.is_silent()
    dead_lettered(connect, "durable")


def test_lost_connections_count_too(connect: Connect, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    connect().send(queue, "poison")
    for _ in range(3):
        reader = connect()
        reader.subscribe(queue)
        message = reader.message()
        reader.ask("DISCONNECT")
    assert_is_dead_letter(dead_lettered(connect, kind), message, "redeliveries", queue, None)


def test_nack_without_requeue_is_a_dead_letter_now(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "bad")
    wire.subscribe(queue)
    message = wire.message()
    wire.nack(message, {"requeue": "false"})
    assert_is_dead_letter(dead_lettered(connect, kind), message, "rejected", queue, None)


def test_expired_message_is_a_dead_letter(
    broker: BrokerProcess, connect: Connect, wire: Wire, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.{name}"
    expires_ms = int(time.time() * 1000) + 100
    headers = {"expiration": "100", "expires": str(expires_ms), "colour": "red"}
    wire.send(queue, "late", headers)
    reader = connect()
    reader.subscribe(f"/queue/{kind}-dead")
    dead = reader.message(3)
    reader.ack(dead)
    assert dead["dead-letter-reason"] == "expired"
    assert dead["original-destination"] == queue
    assert dead["colour"] == "red"
    assert "expiration" not in dead, "a dead letter keeps none of the three"
    assert "expires" not in dead
    assert queue_stats(broker, queue)["stored"] == 0


@pytest.mark.slow
def test_dead_letter_does_not_expire_again(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    wire.send(queue, "bad", {"expiration": "400"})
    wire.nack(wire.message(), {"requeue": "false"})
    time.sleep(0.9)
    assert dead_lettered(connect, kind)["dead-letter-reason"] == "rejected"


@pytest.mark.parametrize("kind", ["durable", "memory"])
def test_overflow_is_a_dead_letter(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/full.{name}" + (".memory" if kind == "memory" else "")
    wire.send(queue, "old")
    wire.send(queue, "new")
    dead = dead_lettered(connect, kind)
    assert (dead.body, dead["dead-letter-reason"], dead["original-destination"]) == (b"old", "overflow", queue)
    wire.subscribe(queue)
    assert wire.message().body == b"new"


def test_move_ignores_its_target_s_bound(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    for number in range(3):  # the target has room for one
        wire.send(queue, str(number))
        wire.nack(wire.message(), {"requeue": "false"})
    reader = connect()
    reader.subscribe(f"/queue/{kind}-dead")
    for number in range(3):
        message = reader.message()
        assert message.body.decode() == str(number)
        reader.ack(message)


def test_move_ignores_its_target_s_dedup_id(connect: Connect, wire: Wire, name: str) -> None:
    for number in range(2):
        queue = f"/queue/durable.{name}-{number}"
        wire.subscribe(queue, id=str(number))
        wire.send(queue, str(number), {"dedup-id": "same"})
        wire.nack(wire.message(), {"requeue": "false"})
    reader = connect()
    reader.subscribe("/queue/durable-dead")
    for _ in range(2):
        message = reader.message()
        assert message["dedup-id"] == "same"
        reader.ack(message)


def test_forged_headers_of_a_dead_letter_are_not_believed(connect: Connect, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    wire.send(queue, "x", {"dead-letter-reason": "forged", "original-destination": "forged", "redelivery-count": "99"})
    message = wire.message()
    assert "dead-letter-reason" not in message
    wire.nack(message, {"requeue": "false"})
    dead = dead_lettered(connect, kind)
    assert [value for header, value in dead.pairs if header == "dead-letter-reason"] == ["rejected"]
    assert [value for header, value in dead.pairs if header == "original-destination"] == [queue]


def test_second_death_tells_of_the_second_queue(connect: Connect, wire: Wire, name: str) -> None:
    wire.subscribe(f"/queue/first.{name}", id="1")
    wire.subscribe("/queue/second", id="2")
    wire.send(f"/queue/first.{name}", "unlucky")
    wire.nack(wire.message(), {"requeue": "false"})
    second = wire.message()
    assert second["original-destination"] == f"/queue/first.{name}"
    wire.nack(second, {"requeue": "false"})
    dead = dead_lettered(connect, "durable")
    assert [value for header, value in dead.pairs if header == "original-destination"] == ["/queue/second"]
    assert [value for header, value in dead.pairs if header == "original-message-id"] == [second["message-id"]]
    assert len([header for header, _ in dead.pairs if header == "redelivery-count"]) <= 1


def test_memory_queue_may_bury_in_a_persistent_one(connect: Connect, wire: Wire, name: str) -> None:
    queue = f"/queue/cross.{name}"
    wire.subscribe(queue)
    wire.send(queue, "x")
    message = wire.message()
    wire.nack(message)
    assert_is_dead_letter(dead_lettered(connect, "durable"), message, "redeliveries", queue, None)
