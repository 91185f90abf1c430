"""The generator of the load: what it counts must be what the broker has confirmed."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.cli.load import BODY_BYTES, BeanstalkWire, Load, LoadFailed, Shape, StompWire, Wire, process_cpu_s
from radiator.client import Client
from tests.broker_process import BrokerProcess

BODY = b"%020d" % 7 + b"x" * (BODY_BYTES - 20)
STOMP = b"\nRECEIPT\nreceipt-id:a\n\n\0MESSAGE\ndestination:/queue/q\nack:k1\n\n%b\0" % BODY
BEANSTALK = b"DELETED\r\nRESERVED 12 %d\r\n%b\r\n" % (BODY_BYTES, BODY)


@pytest.mark.parametrize(
    ("wire", "data", "key"), [(StompWire("/queue/q"), STOMP, b"k1"), (BeanstalkWire(), BEANSTALK, b"12")]
)
def test_wire_finds_a_message_only_once_it_is_whole(wire: Wire, data: bytes, key: bytes) -> None:
    assert wire.next_message(data + b"rest") == (key, b"%020d" % 7, len(data))
    for cut in range(len(data) - 1):
        assert wire.next_message(data[:cut]) is None
    head, tail = wire.send()
    assert len(head + b"%020d" % 7 + tail) == len(head) + BODY_BYTES + len(tail) - (BODY_BYTES - 20)


def test_wire_notices_complaints() -> None:
    assert StompWire("/queue/q").complaint(b"RECEIPT\nreceipt-id:s\n\n\0ERROR\nmessage:no\n\n\0")
    assert not StompWire("/queue/q").complaint(STOMP)
    assert BeanstalkWire().complaint(b"INSERTED 4\r\nOUT_OF_MEMORY\r\n")
    assert not BeanstalkWire().complaint(BEANSTALK)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


def load_on(broker: BrokerProcess, queue: str, shape: Shape) -> Load:
    return Load((broker.host, broker.port), StompWire(queue), shape, lambda: process_cpu_s(broker.pid))


def ledger(broker: BrokerProcess, queue: str) -> dict[str, int]:
    with Client(broker.address) as client:
        found: dict[str, int] = client.admin({"do": "stats"})["queues"][queue]
        return found


def test_load_leaves_as_many_messages_as_it_says(broker: BrokerProcess) -> None:
    load = load_on(broker, "/queue/left", Shape(name="x", producers=3, window=10))
    measured = load.measure(0.2)
    left = load.settle()
    load.close()
    assert ledger(broker, "left")["stored"] == left >= measured.messages > 0
    assert 0 < measured.p50_ms <= measured.p99_ms
    assert measured.per_s == pytest.approx(measured.messages / 0.2, rel=0.5)


@pytest.mark.parametrize("ack_receipts", [False, True])
def test_load_takes_out_what_it_has_put_in(broker: BrokerProcess, ack_receipts: bool) -> None:
    queue = f"through-{ack_receipts}".lower()
    shape = Shape(name="x", producers=2, window=1, consumers=2, ack_receipts=ack_receipts)
    load = load_on(broker, f"/queue/{queue}", shape)
    assert load.measure(0.2).messages > 0
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


@pytest.mark.skipif(shutil.which("beanstalkd") is None, reason="beanstalkd is not installed")
@pytest.mark.parametrize("is_pipelined", [False, True])
def test_load_speaks_to_beanstalkd(tmp_path: Path, is_pipelined: bool) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shape = Shape(name="x", producers=2, window=5, consumers=2)
    process = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 5
        while True:
            try:
                load = Load(("127.0.0.1", port), BeanstalkWire(is_pipelined), shape)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end_s
        assert load.measure(0.1).messages > 0
        assert load.settle() == 0
        load.close()
    finally:
        process.kill()
        process.wait()
