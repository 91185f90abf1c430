"""AMQP as the load speaks it: what is sent is whole, what comes is taken once it is, and each confirm is counted."""

from pathlib import Path
from typing import Any

import pytest
from pamqp import body, commands, frame, header

from benchmarks import amqp
from benchmarks.amqp_wires import BODY_MAX_BYTES, AmqpWire, Confirms
from radiator.client import Client
from radiator.tools.cli.load import BODY_BYTES, BODY_END, Load, LoadFailed, Shape, body_tail
from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.broker_process import BrokerProcess

STAMP = b"%020d" % 7
BODY = STAMP + body_tail(BODY_BYTES)


def frames_of(data: bytes) -> list[tuple[int, Any]]:
    """As somebody else reads them: of which channel, and what."""
    found = []
    while data:
        size, channel, one = frame.unmarshal(data)
        found.append((channel, one))
        data = data[size:]
    return found


def delivery(tag: int) -> bytes:
    parts = (
        commands.Basic.Deliver("c", tag, False, "", "q"),
        header.ContentHeader(0, BODY_BYTES, commands.Basic.Properties(delivery_mode=2)),
        body.ContentBody(BODY),
    )
    return b"".join(frame.marshal(part, 1) for part in parts)


def confirm(tag: int, is_multiple: bool = False) -> bytes:
    return frame.marshal(commands.Basic.Ack(tag, is_multiple), 1)


def test_a_message_is_found_only_once_it_is_whole() -> None:
    wire, data = AmqpWire("q", True), delivery(258)
    assert wire.next_message(data + delivery(259)) == ((258).to_bytes(8), STAMP, len(data))
    for cut in range(len(data)):
        assert wire.next_message(data[:cut]) is None, f"cut at {cut}"
    assert not wire.complaint(data)
    with pytest.raises(LoadFailed, match=r"no basic\.deliver"):
        wire.next_message(confirm(1))


@pytest.mark.parametrize("body_bytes", [100, BODY_BYTES, BODY_MAX_BYTES])
@pytest.mark.parametrize(("is_persistent", "mode"), [(True, 2), (False, 1)])
def test_a_send_is_one_message(body_bytes: int, is_persistent: bool, mode: int) -> None:
    head, tail = AmqpWire("q", is_persistent, body_bytes).connection().send()
    (on, publish), (_, properties), (_, sent) = frames_of(head + STAMP + tail)
    assert (on, publish.exchange, publish.routing_key, publish.mandatory) == (1, "", "q", False)
    assert (properties.body_size, properties.properties.delivery_mode) == (body_bytes, mode)
    assert sent.value == STAMP + body_tail(body_bytes) and sent.value.endswith(BODY_END)


def test_an_ack_is_of_one_message() -> None:
    ((on, ack),) = frames_of(AmqpWire("q", True).ack((258).to_bytes(8), False))
    assert (on, ack.name, ack.delivery_tag, ack.multiple) == (1, "Basic.Ack", 258, False)


def test_a_greeting_ends_with_what_the_broker_says_last() -> None:
    for is_consumer, names in ((False, ["Confirm.Select"]), (True, ["Basic.Qos", "Basic.Consume"])):
        greeting, last = AmqpWire("q", True).hello(is_consumer)
        assert greeting.startswith(amqp.HELLO)
        found = frames_of(greeting.removeprefix(amqp.HELLO))
        assert [one.name for _, one in found] == names
        ((on, answer),) = frames_of(last)
        assert (on, answer.name) == (1, f"{names[-1]}Ok")


def test_confirms_are_counted_however_reads_split_them() -> None:
    data = confirm(1) + confirm(5, True) + confirm(7) + confirm(6) + confirm(9, True)
    for cut in range(len(data)):
        wire = AmqpWire("q", True).connection()
        assert wire.answers(data[:cut]) + wire.answers(data[cut:]) == 9, f"cut at {cut}"
        assert not wire.complaint(data)
    with pytest.raises(LoadFailed, match=r"no basic\.ack"):
        AmqpWire("q", True).answers(frame.marshal(commands.Basic.Nack(1), 1))


@pytest.mark.parametrize(
    ("confirms", "counts"),
    [
        ([(1, False), (2, False)], [1, 1]),
        ([(2, False), (1, False), (2, True)], [1, 1, 0]),
        ([(3, False), (4, True), (5, True)], [1, 3, 1]),
        ([(3, False), (1, True), (2, False), (3, False), (4, False)], [1, 1, 1, 0, 1]),
        ([(5, True), (3, True), (6, False)], [5, 0, 1]),
    ],
)
def test_each_message_is_confirmed_once(confirms: list[tuple[int, bool]], counts: list[int]) -> None:
    """In whatever order, as RabbitMQ may have it."""
    one = Confirms()
    assert [one.took(*confirm) for confirm in confirms] == counts


def test_each_connection_counts_by_itself() -> None:
    wire = AmqpWire("q", True)
    one, other = wire.connection(), wire.connection()
    assert one.answers(confirm(3, True)) == 3
    assert other.answers(confirm(3, True)) == 3


@pytest.mark.parametrize(
    "sent",
    [commands.Connection.Close(320, "bye", 0, 0), commands.Channel.Close(404, "x" * 200, 60, 40),
     commands.Basic.Return(312, "NO_ROUTE", "", "q"), commands.Basic.Nack(1)],
    ids=lambda one: one.name,
)  # fmt: skip
def test_complaints_are_noticed(sent: Any) -> None:
    channel = 0 if sent.name.startswith("Connection") else 1
    assert AmqpWire("q", True).complaint(confirm(1) + frame.marshal(sent, channel))


@pytest.mark.parametrize("is_persistent", [True, False])
def test_a_broker_gets_all_of_a_load(tmp_path: Path, is_persistent: bool) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        address = broker.host, port_of(broker)
        amqp.declare_queue(address[1], "q", is_persistent)
        wire = AmqpWire("q", is_persistent)
        load = Load(address, wire, Shape(name="x", producers=3, window=5))
        load.fill(40)
        load.close()
        with Client(broker.address) as client:
            assert client.admin({"do": "stats"})["queues"]["q"]["ready"] == 40
        load = Load(address, wire, Shape(name="x", producers=2, window=1, consumers=3))
        found = load.measure(0.5)
        left = load.settle()
        load.close()
    assert found.messages > 40 and 0 < found.p50_ms <= found.p999_ms
    assert left <= 0, "what was there before came too"
