"""Who holds much keeps nobody else waiting: consumers that never ack, stalled readers, silent transactions."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from radiator.model.limits import MIB
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.bystander import Meter
from tests.campaigns.web_floods import UPGRADE
from tests.server.web import OPEN, port_of

CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[limits]
max_memory_bytes = "64MiB"
transaction_max_s = 3
"""
BODY_BYTES = 50_000
MESSAGES = 1500
SERVED_WITHIN_S = 1.0


@contextmanager
def opened(tmp_path: Path) -> Iterator[tuple[BrokerProcess, ExitStack]]:
    with BrokerProcess(tmp_path, CONFIG) as broker, ExitStack() as stack:
        yield broker, stack


def wire(broker: BrokerProcess, stack: ExitStack) -> Wire:
    one = stack.enter_context(Wire((broker.host, broker.port)))
    one.connect()
    return one


def body(number: int) -> bytes:
    return b"%d" % number + b"." * BODY_BYTES


def fill(broker: BrokerProcess, stack: ExitStack) -> Wire:
    """A producer that has sent them all."""
    producer = wire(broker, stack)
    for number in range(MESSAGES):
        producer.send_raw(producer.frame("SEND", {"destination": "/queue/q"}, body(number)))
    producer.fence()
    return producer


def is_served(broker: BrokerProcess, one: Wire) -> None:
    """A SEND to a queue of its own, and its MESSAGE, each within the time that a bystander is owed."""
    one.subscribe("/queue/bystander", "bystander")
    for _ in range(3):
        began_s = time.monotonic()
        one.send("/queue/bystander", "here")
        one.ack(one.message())
        took_s = time.monotonic() - began_s
        assert took_s < 2 * SERVED_WITHIN_S, f"{took_s:.1f} s"
        time.sleep(0.3)  # the memory is weighed at each Tick
    one.ask("UNSUBSCRIBE", {"id": "bystander"})
    assert "memory_tight" not in broker.log, broker.log


@pytest.mark.slow
def test_a_consumer_that_never_acks_keeps_nobody_waiting_even_when_it_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as (broker, stack):
        producer = fill(broker, stack)
        consumer = wire(broker, stack)
        consumer.subscribe("/queue/q", headers={"prefetch-count": "65535"})
        assert len([consumer.message() for _ in range(MESSAGES)]) == MESSAGES
        is_served(broker, producer)
        consumer.close()
        is_served(broker, wire(broker, stack))
        again = wire(broker, stack)
        again.subscribe("/queue/q", headers={"prefetch-count": "65535"})
        for number in range(MESSAGES):
            message = again.message()
            assert message.body == body(number) and message["redelivered"] == "true"
            again.ack(message)
        numbers = stats(broker)
        assert numbers["queues"]["q"]["messages"] == 0 and numbers["queues"]["q"]["redelivered"] == MESSAGES
        assert numbers["memory_bytes"] < 1 << 20, "all of it has left memory"


@pytest.mark.slow
def test_readers_that_stall_keep_nobody_waiting(tmp_path: Path) -> None:
    with opened(tmp_path) as (broker, stack):
        producer = fill(broker, stack)
        for _ in range(12):
            wire(broker, stack).subscribe("/queue/q", headers={"prefetch-count": "100"})
        is_served(broker, producer)


def test_silent_transactions_keep_nobody_waiting_and_end_after_a_while(tmp_path: Path) -> None:
    with opened(tmp_path) as (broker, stack):
        bystander = wire(broker, stack)
        holders = [wire(broker, stack) for _ in range(5)]
        for holder in holders:
            holder.ask("BEGIN", {"transaction": "t"})
            for _ in range(12):
                holder.send_frame("SEND", {"destination": "/queue/t", "transaction": "t"}, b"t" * 980_000)
            holder.fence()
        assert "holders=" in broker.wait_for_log("memory_tight")
        began_s = time.monotonic()
        bystander.send("/queue/other", "x")
        assert time.monotonic() - began_s < SERVED_WITHIN_S
        assert all(one["name"].startswith("connection ") for one in stats(broker)["memory_holders"])
        for holder in holders:
            error = holder.read("ERROR")
            assert error["code"] == "transaction-timeout" and b"transaction_max_s" in error.body, error
        deadline_s = time.monotonic() + 5
        while stats(broker)["transactions"]:
            assert time.monotonic() < deadline_s
        assert stats(broker)["queues"].get("t") is None


HALF_BYTES = 14_000_000  # less than one frame, or one request, may have
NO_MASK = bytes(4)


def half_a_send(one: socket.socket) -> bytes:
    one.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert one.recv(1000).startswith(b"CONNECTED")
    return b"SEND\ndestination:/queue/q\ncontent-length:15000000\n\n"


def half_a_request(_: socket.socket) -> bytes:
    return b"POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15000000\r\n\r\n"


def half_a_websocket_frame(one: socket.socket) -> bytes:
    one.sendall(UPGRADE)
    assert one.recv(1000).startswith(b"HTTP/1.1 101")
    connect = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
    one.sendall(bytes((0x82, 0x80 | len(connect))) + NO_MASK + connect)
    assert b"CONNECTED" in one.recv(1000)
    return bytes((0x82, 0xFF)) + (15_000_000).to_bytes(8) + NO_MASK


@pytest.mark.parametrize(
    ("scheme", "begin"), [("stomp", half_a_send), ("http", half_a_request), ("http", half_a_websocket_frame)]
)
def test_messages_that_never_end_of_many_connections_are_bounded(
    tmp_path: Path, scheme: str, begin: Callable[[socket.socket], bytes]
) -> None:
    """420 MiB of them come faster than any clock ticks. What was read goes as its connection is closed, though clients
    keep their ends.
    """
    config = f'{OPEN}\n[limits]\nmax_memory_bytes = "64MiB"\n'
    with BrokerProcess(tmp_path, config) as broker, ExitStack() as stack:
        meter = Meter(broker.pid)
        for _ in range(30):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(broker.log, scheme)), 10))
            with suppress(ConnectionError):
                one.sendall(begin(one))
                for _ in range(HALF_BYTES // 1_000_000):
                    one.sendall(bytes(1_000_000))
                    meter.look()
        assert meter.growth_bytes < 128 * MIB, meter.growth_bytes // MIB
        broker.wait_for_log("code=memory")
        began_s = time.monotonic()
        wire(broker, stack).send("/queue/bystander", "here")
        assert time.monotonic() - began_s < SERVED_WITHIN_S
