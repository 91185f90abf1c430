"""What a client of AMQP that has logged in tries to fill the broker with, or to break it by."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.model.amqp_limits import AMQP_CHANNELS_MAX, TABLE_DEPTH_MAX, TABLE_FIELDS_MAX
from radiator.model.amqp_tables import encode_table
from radiator.protocols.amqp.connection_methods import ConnectionUpdateSecret
from radiator.protocols.amqp.frame import encode_frame
from radiator.protocols.amqp.methods import (
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
    QueueDeclareOk,
)
from radiator.protocols.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.acceptance.amqp_wire import AmqpWire
from tests.acceptance.test_amqp_strangers import bomb
from tests.broker_process import BrokerProcess
from tests.campaigns.growth import anonymous_bytes
from tests.protocols.amqp.talking import content, method, publish

MIB = 1 << 20
EXPIRES_SOON = (1 << 8).to_bytes(2) + b"\4soon"  # `expiration`, which is no number
HEADERS = (1 << 13).to_bytes(2)  # the one property that is a table


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[AmqpWire]:
    with AmqpWire(port_of(broker)) as found:
        found.greet()
        found.open()
        found.send(method(1, QueueDeclare(0, "q")))
        found.hear(QueueDeclareOk)
        yield found


def count_of(broker: BrokerProcess, name: str = "q") -> int:
    """How many messages it has, as another client is told."""
    with AmqpWire(port_of(broker)) as other:
        other.greet()
        other.open()
        other.send(method(1, QueueDeclare(0, name)))
        return int(other.hear(QueueDeclareOk).message_count)


def head(size: int, properties: bytes = b"\0\0") -> bytes:
    return encode_frame(FRAME_HEADER, 1, (60).to_bytes(2) + bytes(2) + size.to_bytes(8) + properties)


# ---- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "body"), [(3, b"1234"), (0, b"1"), (1, b"12")])
def test_a_body_longer_than_its_header_says_ends_the_connection(
    broker: BrokerProcess, wire: AmqpWire, size: int, body: bytes
) -> None:
    before = count_of(broker)
    empty = size == 0  # it is whole with its header
    wire.send(method(1, BasicPublish(0, "", "q")), head(size), encode_frame(FRAME_BODY, 1, body))
    assert wire.ending()[0] in (501, 505)
    assert count_of(broker) == before + empty


@pytest.mark.parametrize("size", [16 * MIB + 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_body_that_is_declared_too_large_is_refused_by_its_header(
    broker: BrokerProcess, wire: AmqpWire, size: int
) -> None:
    wire.send(method(1, BasicPublish(0, "", "q")), head(size))
    close = next(found for found in iter(wire.next, None) if isinstance(found, ChannelClose))
    assert close.reply_code == 406 and f"message size {size + 2} is larger than" in close.reply_text


def test_bodies_that_never_end_on_very_many_channels_are_bounded_by_the_memory_of_all(tmp_path: Path) -> None:
    """Up to 100 MiB of each of five connections, less than one alone may have, where 64 MiB are for all."""
    small = CONFIG + "[limits]\nmax_memory_bytes = 67108864\n"
    with BrokerProcess(tmp_path, small) as broker, contextlib.ExitStack() as stack:
        before_bytes = most_bytes = anonymous_bytes(broker.pid)
        codes = []
        for _ in range(5):
            wire = stack.enter_context(AmqpWire(port_of(broker)))
            wire.greet()
            try:
                for channel in range(1, 11):
                    start_long_body(wire, channel, 10 * MIB)
                    most_bytes = max(most_bytes, anonymous_bytes(broker.pid))
            except (ConnectionError, TimeoutError, AssertionError):
                codes.append(wire.ending()[0])
        assert most_bytes - before_bytes < 200 * MIB, (most_bytes - before_bytes) >> 20
        assert codes and set(codes) <= {0, 320}
        broker.wait_for_log("max_memory_bytes")
        assert count_of(broker, "other") == 0


def start_long_body(wire: AmqpWire, channel: int, sent_bytes: int) -> None:
    """A message of 15 MiB on a new channel, of which no more than that is sent."""
    wire.open(channel)
    wire.send(
        method(channel, BasicPublish(0, "", "q")),
        head(15 * MIB).replace(b"\2\0\1", bytes([2, 0, channel]), 1),
    )
    piece = encode_frame(FRAME_BODY, channel, bytes(128_000))
    for _ in range(sent_bytes // 128_000):
        wire.send(piece)


# ---- tables ---------------------------------------------------------------------------------------------------------

BOMBS = {
    "arrays": bomb(20_000),
    "tables": bomb(9_000, b"F"),
    "one-too-deep": bomb(TABLE_DEPTH_MAX),
    "fields": encode_table({f"f{number}": number for number in range(TABLE_FIELDS_MAX + 1)}),
    "length-beyond": (1 << 31).to_bytes(4),
    "half": encode_table({"a": "b" * 100})[:50],
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("place", ["properties", "arguments"])
def test_a_table_that_is_a_bomb_ends_its_connection_alone(
    broker: BrokerProcess, wire: AmqpWire, name: str, place: str
) -> None:
    table, before = BOMBS[name], count_of(broker)
    if len(table) > 60_000 and place == "properties":
        table = table[:60_000]
    began_s = time.monotonic()
    if place == "properties":
        wire.send(method(1, BasicPublish(0, "", "q")), head(1, HEADERS + table), encode_frame(FRAME_BODY, 1, b"x"))
    else:
        whole = encode_frame(FRAME_METHOD, 1, (50).to_bytes(2) + (10).to_bytes(2) + bytes(2) + b"\1d\0" + table)
        wire.send(whole)
    assert wire.ending()[0] in (501, 502)
    assert time.monotonic() - began_s < 2
    assert count_of(broker) == before


def test_tables_at_the_bounds_are_taken(broker: BrokerProcess, wire: AmqpWire) -> None:
    before = count_of(broker)
    fields = encode_table({f"f{number}": number for number in range(TABLE_FIELDS_MAX)})
    wire.send(publish(1, "q", properties=HEADERS + fields))
    wire.send(publish(1, "q", properties=HEADERS + bomb(TABLE_DEPTH_MAX - 1)))
    wire.send(method(1, QueueDeclare(0, "q")))
    wire.hear(QueueDeclareOk)
    assert count_of(broker) == before + 2


# ---- channels -------------------------------------------------------------------------------------------------------


def test_channels_at_the_bound_and_one_past_it_take_little(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker, AmqpWire(port_of(broker)) as wire:
        wire.greet()
        wire.open(1)
        before_bytes = anonymous_bytes(broker.pid)
        wire.send(*(method(number, ChannelOpen()) for number in range(2, AMQP_CHANNELS_MAX + 1)))
        for _ in range(2, AMQP_CHANNELS_MAX + 1):
            wire.hear(ChannelOpenOk)
        each_bytes = (anonymous_bytes(broker.pid) - before_bytes) / AMQP_CHANNELS_MAX
        wire.send(method(AMQP_CHANNELS_MAX + 1, ChannelOpen()))
        code, text = wire.ending()
        assert code == 530 and "channel 2048 cannot be opened: 2047 are open" in text
        assert each_bytes < 2 * 3 * 1024  # the core takes it for 3 KiB
        assert count_of(broker) == 0


def test_a_channel_that_is_refused_leaves_nothing_of_what_it_was_refused_for(tmp_path: Path) -> None:
    """200 times 100 KB, on one channel that is opened anew each time: no collector comes by while it goes on."""
    with BrokerProcess(tmp_path, CONFIG) as broker, AmqpWire(port_of(broker)) as wire:
        wire.greet()
        wire.open()
        before_bytes = anonymous_bytes(broker.pid)
        refused = publish(1, "q", bytes(100_000), properties=EXPIRES_SOON)
        for _ in range(200):
            wire.send(refused)
            assert wire.hear(ChannelClose).reply_code == 406
            wire.send(method(1, ChannelCloseOk()), method(1, ChannelOpen()))
            wire.hear(ChannelOpenOk)
        assert anonymous_bytes(broker.pid) - before_bytes < 8 * MIB
        assert count_of(broker) == 0


@pytest.mark.parametrize("code", [0, 9, 127, 255])
def test_a_frame_of_no_type_ends_the_connection(broker: BrokerProcess, wire: AmqpWire, code: int) -> None:
    wire.send(bytes([code]) + (1).to_bytes(2) + (4).to_bytes(4) + b"abcd\xce")
    assert wire.ending()[0] == 501


def test_a_frame_larger_than_agreed_on_is_refused_by_its_seventh_byte(broker: BrokerProcess) -> None:
    with AmqpWire(port_of(broker)) as wire:
        wire.greet(frame_max=8192)
        wire.open()
        wire.send(encode_frame(FRAME_METHOD, 1, content(1)[:10])[:3] + (8192 + 1).to_bytes(4))
        code, text = wire.ending(1)
        assert code == 501 and "at most 8200" in text


def test_who_asks_and_does_not_read_is_not_read_from(broker: BrokerProcess, wire: AmqpWire) -> None:
    """Each of these is answered by the session itself."""
    asked = b"".join(
        [method(1, ChannelFlow(True)), method(1, BasicQos(0, 1)), method(0, ConnectionUpdateSecret(b"x", ""))]
    )
    asked *= 2000
    before_bytes = most_bytes = anonymous_bytes(broker.pid)
    wire.socket.settimeout(1)
    sent, until_s = 0, time.monotonic() + 6
    try:
        while time.monotonic() < until_s and sent < 256 * MIB:
            sent += wire.socket.send(asked[sent % len(asked) :])
            most_bytes = max(most_bytes, anonymous_bytes(broker.pid))
    except (TimeoutError, ConnectionError):
        pass
    assert most_bytes - before_bytes < 64 * MIB
    assert count_of(broker) >= 0


@pytest.mark.parametrize("how", ["returned", "got"])
def test_messages_that_come_back_and_are_not_read_are_bounded(tmp_path: Path, how: str) -> None:
    """600 MiB are asked for, by who does not read; 64 MiB are for all."""
    small = CONFIG + "[limits]\nmax_memory_bytes = 67108864\n"
    with BrokerProcess(tmp_path, small) as broker, AmqpWire(port_of(broker)) as wire:
        wire.greet()
        wire.open()
        wire.send(method(1, QueueDeclare(0, "q")), publish(1, "q", bytes(MIB)), method(1, QueueDeclare(0, "q")))
        wire.hear(QueueDeclareOk)
        wire.hear(QueueDeclareOk)
        before_bytes = most_bytes = anonymous_bytes(broker.pid)
        wire.socket.settimeout(2)
        returned = method(1, BasicPublish(0, "", "nobody", True)) + content(1, bytes(MIB), step=128_000)
        got = method(1, BasicGet(0, "q")) + method(1, BasicRecover(True))
        try:
            for _ in range(600):
                wire.send(returned if how == "returned" else got)
                most_bytes = max(most_bytes, anonymous_bytes(broker.pid))
        except (TimeoutError, ConnectionError):
            pass
        time.sleep(1)
        most_bytes = max(most_bytes, anonymous_bytes(broker.pid))
        assert most_bytes - before_bytes < 200 * MIB
        assert count_of(broker, "other") == 0
