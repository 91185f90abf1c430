"""What breaks the protocol gets an ERROR naming it and is closed; nobody else notices (contract 8)."""

import random
import socket

import pytest

from tests.acceptance.conftest import Connect, stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(190))


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /queue/x HTTP/1.1\r\ncontent-length:5\r\n\r\nhello",
        TLS_HELLO,
        b"\x80\x00\x01\x02\xff" * 100,
        b"\0" * 10,
        b"A" * 100_000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"SEND\ndestination:/queue/x\n\nbefore CONNECT\0",
        b"SUBSCRIBE\nid:1\ndestination:/queue/x\n\n\0",
        b"DISCONNECT\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0",
        b"connect\naccept-version:1.2\nhost:x\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:x\ncontent-length:3\n\nabc\0",
        b"CONNECT\naccept-version:1.2\nno colon\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:x\nheart-beat:often\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:x\nheart-beat:-1,5\n\n\0",
    ],
)
def test_noise_instead_of_connect_is_closed(broker: BrokerProcess, noise: bytes) -> None:
    with Wire((broker.host, broker.port)) as wire:
        try:
            wire.send_raw(noise)
            frame = wire.read_frame(3)
            assert frame.command == "ERROR"
            assert wire.is_closed()
        except (Gone, ConnectionError):
            pass  # closed without a word, or reset for what was not read


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"JUMP\n\n\0", b"JUMP"),
        (b"send\ndestination:/queue/x\n\n\0", b"send"),
        (b"X" * 5000 + b"\n\n\0", b"XXX"),
        (b"MESSAGE\ndestination:/queue/x\nmessage-id:1\nsubscription:1\n\n\0", b"MESSAGE"),
        (b"SEND\n\nbody\0", b"destination"),
        (b"SUBSCRIBE\ndestination:/topic/x\ndurable:true\n\n\0", b"id"),
        (b"SUBSCRIBE\ndestination:/topic/x\nactivemq.subscriptionName:x\n\n\0", b"client-id"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/x\nx-durable:yes\n\n\0", b"x-durable"),
        (b"SUBSCRIBE\nid:1\n\n\0", b"destination"),
        (b"ACK\n\n\0", b"id"),
        (b"ACK\nmessage-id:1\nsubscription:1\n\n\0", b"id"),
        (b"NACK\n\n\0", b"id"),
        (b"UNSUBSCRIBE\n\n\0", b"id"),
        (b"BEGIN\n\n\0", b"transaction"),
        (b"COMMIT\n\n\0", b"transaction"),
        (b"ABORT\n\n\0", b"transaction"),
        (b"SEND\ndestination:/queue/x\nbad:\\t\n\n\0", b"\\t"),
        (b"SEND\ndestination:/queue/x\nbad:end\\\n\n\0", b"end"),
        (b"SEND\ndestination:/queue/x\nno colon\n\n\0", b"no colon"),
        (b"SEND\ndestination:/queue/x\n:no name\n\n\0", b"no name"),
        (b"SEND\ndestination:/queue/x\na:\x00b\n\n\0", b""),
        (b"SEND\ndestination:/queue/x\na:\xff\n\n\0", b"UTF-8"),
        (b"SEND\ndestination:/queue/x\ncontent-length:3\n\nabcdef\0", b"3"),
        (b"SEND\ndestination:/queue/x\ncontent-length:-1\n\nabc\0", b"-1"),
        (b"SEND\ndestination:/queue/x\ncontent-length:+3\n\nabc\0", b"+3"),
        (b"SEND\ndestination:/queue/x\ncontent-length:0x3\n\nabc\0", b"0x3"),
        (b"SEND\ndestination:/queue/x\ncontent-length:1e1\n\nabc\0", b"1e1"),
        (b"SEND\ndestination:/queue/x\ncontent-length:\n\nabc\0", b"content-length"),
        ("SEND\ndestination:/queue/x\ncontent-length:٣\n\nabc\0".encode(), b"content-length"),
        (b"SEND\ndestination:/queue/x\ncontent-length:99999999999999999999\n\nabc\0", b""),
        (b"SEND\ndestination:/queue/x\ncontent-length:99999999999\n\nabc\0", b""),
        (b"SEND\ndestination:/queue/x\nmandatory:maybe\n\n\0", b"maybe"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/x\nack:perhaps\n\n\0", b"perhaps"),
        (b"BEGIN\ntransaction:1\n\nbody\0", b"body"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/x\n\nbody\0", b"body"),
        (b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", b"CONNECT"),
        (b"STOMP\naccept-version:1.2\nhost:x\n\n\0", b"STOMP"),
        (b"NACK\nid:1\nrequeue:perhaps\n\n\0", b"perhaps"),
    ],
)
def test_broken_frame_gets_an_error_naming_it(connect: Connect, data: bytes, named: bytes) -> None:
    wire = connect()
    wire.send_raw(data)
    assert named in wire.refusal().body


def test_error_does_not_carry_control_characters_of_the_client(wire: Wire) -> None:
    wire.send_raw(b"J\x1b[31mUMP\x07\n\n\0")
    error = wire.refusal()
    assert b"\x1b" not in error.body
    assert b"\x07" not in error.body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_commands_of_a_later_version_are_unknown(connect: Connect, version: str) -> None:
    wire = connect(version)
    wire.send_raw(b"STOMP\n\n\0" if version == "1.1" else b"NACK\nmessage-id:1\n\n\0")
    wire.refusal()


def test_one_client_s_noise_is_nobody_else_s_matter(broker: BrokerProcess, connect: Connect, queue: str) -> None:
    good = connect()
    good.subscribe(queue)
    chaos = random.Random(7)
    for round_ in range(60):
        with socket.create_connection((broker.host, broker.port)) as bad:
            if round_ % 2:
                bad.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            frame = good.frame("SEND", {"destination": queue, "content-length": "5"}, b"noise")
            data = bytearray(frame)
            for _ in range(chaos.randrange(1, 6)):
                data[chaos.randrange(len(data))] = chaos.randrange(256)
            bad.sendall(bytes(data)[: chaos.randrange(len(data))])
        good.send(queue, f"good {round_}")
    seen = 0
    while seen < 60:
        message = good.message()
        seen += message.body.startswith(b"good ")
        good.ack(message)


def test_client_that_leaves_at_once_leaves_nothing_behind(broker: BrokerProcess, wire: Wire) -> None:
    for _ in range(50):
        socket.create_connection((broker.host, broker.port)).close()
    wire.fence()
    deadline = 100
    while stats(broker)["connections"] > 2:  # this one and the one that asks
        deadline -= 1
        assert deadline, "connections that are gone are forgotten"


def test_log_has_one_line_an_event_whatever_clients_say(broker: BrokerProcess, connect: Connect) -> None:
    wire = connect()
    wire.send_frame("SEND", {"destination": "/nowhere/x\\n level=error event=forged \x1b[31m"}, b"")
    wire.refusal()
    wire = connect()
    wire.send_frame("COMMIT", {"transaction": "line\nlevel=error event=forged"})
    wire.refusal()
    assert not [line for line in broker.log.splitlines() if line.startswith("level=error event=forged")]
    assert "\x1b" not in broker.log
