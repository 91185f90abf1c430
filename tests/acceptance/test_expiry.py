"""Expiry: `expiration`, `expires` and message_ttl_ms (contract 5)."""

import time

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[queue."memory.*"]
persistent = false
[queue."durable-ttl.*"]
message_ttl_ms = 100
[queue."memory-ttl.*"]
persistent = false
message_ttl_ms = 100
"""

LONG_MS = 60_000

pytestmark = pytest.mark.slow


@pytest.fixture(params=["durable", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def now_ms() -> int:
    return int(time.time() * 1000)


def wait_for(broker: BrokerProcess, queue: str, field: str, value: int, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while (numbers := queue_stats(broker, queue))[field] != value:
        assert time.monotonic() < deadline_s, numbers
        time.sleep(0.02)


def test_expired_message_leaves_the_head_within_a_second_without_a_consumer(
    broker: BrokerProcess, wire: Wire, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "x", {"expiration": "50"})
    wait_for(broker, queue, "expired", 1, 0.05 + 1 + 0.5)
    assert queue_stats(broker, queue)["stored"] == 0


def test_expired_message_is_never_delivered(wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "late", {"expiration": "1"})
    wire.send(queue, "good")
    time.sleep(0.01)
    wire.subscribe(queue, ack="auto")
    assert wire.message().body == b"good"
    assert wire.is_silent()


def test_expired_message_behind_another_is_never_delivered(
    broker: BrokerProcess, wire: Wire, kind: str, name: str
) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    for body, headers in (("first", {}), ("late", {"expiration": "30"}), ("last", {})):
        wire.send(queue, body, headers)
    message = wire.message()
    time.sleep(0.05)
    wire.ack(message)
    assert wire.message().body == b"last"
    wait_for(broker, queue, "expired", 1, 1.5)


@pytest.mark.parametrize(
    ("headers", "lives"),
    [
        ({}, True),
        ({"expires": "0"}, True),
        ({"expires": "1"}, False),
        ({"expiration": str(LONG_MS)}, True),
        ({"expiration": "1"}, False),
        ({"expiration": "1", "expires": "0"}, False),
        ({"expiration": str(LONG_MS), "expires": "1"}, False),
        ({"expiration": "1", "expires": str(10**14)}, False),
        ({"expiration": str(LONG_MS), "expires": str(10**14)}, True),
    ],
)
def test_earliest_counts(wire: Wire, kind: str, name: str, headers: dict[str, str], lives: bool) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "x", headers)
    time.sleep(0.01)
    wire.subscribe(queue, ack="auto")
    if lives:
        assert wire.message().body == b"x"
    assert wire.is_silent()


def test_expires_is_an_absolute_time(wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "x", {"expires": str(now_ms() + LONG_MS)})
    wire.subscribe(queue, ack="auto")
    assert wire.message().body == b"x"
    wire.ask("UNSUBSCRIBE", {"id": "0"})
    wire.send(queue, "y", {"expires": str(now_ms() - 1)})
    wire.subscribe(queue, ack="auto")
    assert wire.is_silent()


@pytest.mark.parametrize("headers", [{}, {"expiration": str(LONG_MS)}, {"expires": "0"}])
def test_message_ttl_of_the_queue_counts_for_every_message(
    broker: BrokerProcess, wire: Wire, kind: str, name: str, headers: dict[str, str]
) -> None:
    queue = f"/queue/{kind}-ttl.{name}"
    wire.send(queue, "x", headers)
    wait_for(broker, queue, "expired", 1, 1.6)


def test_expired_message_in_flight_can_be_acked(broker: BrokerProcess, wire: Wire, kind: str, name: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    wire.send(queue, "x", {"expiration": "100"})
    message = wire.message()
    time.sleep(0.6)
    wire.ack(message)
    numbers = queue_stats(broker, queue)
    assert (numbers["acked"], numbers["expired"]) == (1, 0)


@pytest.mark.parametrize("way", ["NACK", "lost"])
def test_expired_message_in_flight_expires_if_it_comes_back(
    broker: BrokerProcess, connect: Connect, wire: Wire, kind: str, name: str, way: str
) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.subscribe(queue)
    wire.send(queue, "x", {"expiration": "50"})
    message = wire.message()
    time.sleep(0.06)
    if way == "NACK":
        wire.nack(message)
        assert wire.is_silent()
    else:
        wire.close()
        reader = connect()
        reader.subscribe(queue)
        assert reader.is_silent()
    wait_for(broker, queue, "expired", 1, 1.5)


@pytest.mark.parametrize("header", ["expiration", "expires"])
@pytest.mark.parametrize("value", ["-1", "soon", "1.5", "", "1e3"])
def test_senseless_time_is_refused(wire: Wire, queue: str, header: str, value: str) -> None:
    wire.send_frame("SEND", {"destination": queue, header: value}, b"x")
    assert header.encode() in wire.refusal().body
