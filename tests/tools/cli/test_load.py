"""The generator of the load: what it counts must be what the broker has confirmed."""

import os
import time
from collections.abc import Iterator

import pytest

from radiator.client import Client
from radiator.tools.cli.load import BODY_BYTES, Load, LoadFailed, Shape, StompWire, body_tail, measured, process_cpu_s
from tests.broker_process import BrokerProcess

BODY = b"%020d" % 7 + body_tail(BODY_BYTES)
STOMP = b"\nRECEIPT\nreceipt-id:a\n\n\0MESSAGE\ndestination:/queue/q\nack:k1\n\n%b\0" % BODY


def test_wire_finds_a_message_only_once_it_is_whole() -> None:
    wire = StompWire("/queue/q")
    assert wire.next_message(STOMP + b"rest") == (b"k1", b"%020d" % 7, len(STOMP))
    for cut in range(len(STOMP) - 1):
        assert wire.next_message(STOMP[:cut]) is None


@pytest.mark.parametrize("body_bytes", [100, BODY_BYTES, 64 * 1024])
def test_a_send_has_a_body_of_the_size_that_was_asked_for(body_bytes: int) -> None:
    head, tail = StompWire("/queue/q", body_bytes=body_bytes, headers="x:y").send()
    whole = b"%b%020d%b" % (head, 7, tail)
    headers, _, body = whole.partition(b"\n\n")
    assert headers.split(b"\n")[:3] == [b"SEND", b"destination:/queue/q", b"x:y"]
    assert b"content-length:%d" % body_bytes in headers
    assert len(body) == body_bytes + 1 and body.endswith(b"~\0")


def test_wire_notices_complaints() -> None:
    assert StompWire("/queue/q").complaint(b"RECEIPT\nreceipt-id:s\n\n\0ERROR\nmessage:no\n\n\0")
    assert not StompWire("/queue/q").complaint(STOMP)


def test_measured_tells_percentiles_and_rate() -> None:
    found = measured([number * 1_000_000 for number in range(1000, 0, -1)], 2.0, 1.0, 0.5)
    assert (found.per_s, found.messages, found.generator_share) == (500, 1000, 0.5)
    assert (found.p50_ms, found.p99_ms, found.p999_ms) == (501, 991, 1000)
    with pytest.raises(LoadFailed, match="Not one message"):
        measured([], 2.0, 1.0, 0.5)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


def load_on(broker: BrokerProcess, queue: str, shape: Shape) -> Load:
    return Load((broker.host, broker.port), StompWire(queue), shape, lambda: process_cpu_s(broker.pid))


def test_cpu_of_a_process_is_counted_finer_than_ticks() -> None:
    """Ticks of 10 ms find nothing of what takes a few."""
    before_s = process_cpu_s(os.getpid())
    ended_s = time.process_time() + 0.001
    while time.process_time() < ended_s:
        pass
    assert 0.001 <= process_cpu_s(os.getpid()) - before_s < 0.01
    with pytest.raises(OSError):
        process_cpu_s(2**22 + 1)  # past the largest number of a process (pid_max)


def ledger(broker: BrokerProcess, queue: str) -> dict[str, int]:
    with Client(broker.address) as client:
        found: dict[str, int] = client.admin({"do": "stats"})["queues"][queue]
        return found


def test_load_leaves_as_many_messages_as_it_says(broker: BrokerProcess) -> None:
    load = load_on(broker, "/queue/left", Shape(name="x", producers=3, window=10))
    found = load.measure(1.0)
    left = load.settle()
    load.close()
    assert ledger(broker, "left")["stored"] == left >= found.messages > 0
    assert 0 < found.p50_ms <= found.p99_ms <= found.p999_ms
    assert found.per_s == pytest.approx(found.messages / 1.0, rel=0.5)


@pytest.mark.parametrize("ack_receipts", [False, True])
def test_load_takes_out_what_it_has_put_in(broker: BrokerProcess, ack_receipts: bool) -> None:
    queue = f"through-{ack_receipts}".lower()
    shape = Shape(name="x", producers=2, window=1, consumers=2, ack_receipts=ack_receipts)
    load = load_on(broker, f"/queue/{queue}", shape)
    assert load.measure(1.0).messages > 0
    assert load.settle() == 0
    load.close()
    books = ledger(broker, queue)
    assert books["accepted"] > 0
    assert books["accepted"] - books["acked"] <= 2, "the last ACKs may still be on their way"


def test_load_fills_exactly(broker: BrokerProcess) -> None:
    load = load_on(broker, "/queue/filled", Shape(name="x", producers=3, window=10))
    load.fill(100)
    load.close()
    assert ledger(broker, "filled")["stored"] == 100


def test_load_says_that_it_was_refused(broker: BrokerProcess) -> None:
    with pytest.raises(LoadFailed, match="refused"):
        load_on(broker, "/nowhere", Shape(name="x", producers=0, window=1, consumers=1))
    load = load_on(broker, "/nowhere", Shape(name="x", producers=1, window=1))
    with pytest.raises(LoadFailed, match="ended the load: .*unknown-destination"):
        load.measure(1)
    load.close()


def test_load_of_large_bodies_is_written_bit_by_bit(broker: BrokerProcess) -> None:
    load = Load((broker.host, broker.port), StompWire("/queue/large", body_bytes=1 << 20),
                Shape(name="x", producers=2, window=20))  # fmt: skip
    load.measure(1.0)
    left = load.settle()
    load.close()
    assert ledger(broker, "large")["stored"] == left > 0
