"""Delays from outside: a real process, a real clock."""

import time

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """
[create]
queues = true
topics = true

[queue."slow.#"]
redelivery_delay_ms = 300
redelivery_delay_factor = 1

[queue."memory.#"]
persistent = false

[queue."short.#"]
expires_ms = 500
"""
LATE_MAX_S = 0.02 + 0.98  # the promise, and what a busy test machine may add


def waited_s(wire: Wire, begun_s: float) -> float:
    wire.message()
    return time.time() - begun_s


@pytest.mark.parametrize("kind", ["", "memory."])
def test_message_comes_at_its_time(wire: Wire, connect: Connect, name: str, kind: str) -> None:
    consumer = connect()
    consumer.subscribe(f"/queue/{kind}{name}", ack="auto")
    begun_s = time.time()
    wire.send(f"/queue/{kind}{name}", "x", {"delay": "600"})
    assert 0.6 <= waited_s(consumer, begun_s) <= 0.6 + LATE_MAX_S
    begun_s = time.time()
    wire.send(f"/queue/{kind}{name}", "x", {"deliver-at": str(int(begun_s * 1000) + 400)})
    assert 0.399 <= waited_s(consumer, begun_s) <= 0.4 + LATE_MAX_S


def test_message_waits_on_over_a_kill(broker: BrokerProcess, connect: Connect, name: str) -> None:
    due_s = time.time() + 3
    connect().send(f"/queue/{name}", "x", {"deliver-at": str(int(due_s * 1000))})
    connect().send(f"/queue/{name}", "now")
    broker.kill()
    broker.start()
    consumer = connect()
    consumer.subscribe(f"/queue/{name}", headers={"prefetch-count": "2"})
    assert consumer.message().body == b"now"
    numbers = queue_stats(broker, f"/queue/{name}")
    assert numbers["delayed"] == 1 and numbers["messages"] == 2
    assert consumer.message().body == b"x" and due_s - 0.001 <= time.time() <= due_s + LATE_MAX_S


def test_nack_with_a_delay_and_a_queue_that_delays_what_comes_back(wire: Wire, name: str) -> None:
    wire.subscribe(f"/queue/{name}")
    wire.send(f"/queue/{name}", "x")
    begun_s = time.time()
    wire.nack(wire.message(), {"delay": "500"})
    message = wire.message()
    assert 0.5 <= time.time() - begun_s <= 0.5 + LATE_MAX_S and message["redelivery-count"] == "1"
    wire.ack(message)
    wire.subscribe(f"/queue/slow.{name}", "1")
    wire.send(f"/queue/slow.{name}", "y")
    begun_s = time.time()
    wire.nack(wire.message())
    message = wire.message()
    assert 0.3 <= time.time() - begun_s <= 0.3 + LATE_MAX_S and message["redelivery-count"] == "1"


def test_delay_is_refused_where_nothing_can_be_kept_back(connect: Connect, name: str) -> None:
    for to in (f"/topic/{name}", "/temp-queue/x", "/reply-queue/x"):
        wire = connect()
        wire.send_frame("SEND", {"destination": to, "delay": "1"}, b"x")
        assert wire.refusal()["code"] == "no-delay"


def test_subscription_with_an_ack_timeout_of_its_own(connect: Connect, name: str) -> None:
    wire = connect()
    wire.subscribe(f"/queue/{name}", headers={"ack-timeout-s": "1"})
    wire.send(f"/queue/{name}", "x")
    wire.message()
    assert wire.refusal()["code"] == "ack-timeout"


def test_queue_that_nobody_uses_goes(broker: BrokerProcess, wire: Wire, name: str) -> None:
    wire.send(f"/queue/short.{name}", "x", {"delay": "60000"})
    broker.wait_for_log(f"queue=short.{name}")
