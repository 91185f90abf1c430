"""Topics: every subscriber connected now gets every message, without flow control (contract 2, 4)."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess

CONFIG = EVERYTHING_MAY_BE_CREATED + '[limits]\noutbox_max_bytes = "256KiB"\n'


def test_every_subscriber_gets_every_message(connect: Connect, wire: Wire, name: str) -> None:
    subscribers = [connect() for _ in range(3)]
    for subscriber in subscribers:
        subscriber.subscribe(f"/topic/{name}", ack="auto")
    for body in ("one", "two", "three"):
        wire.send(f"/topic/{name}", body)
    for subscriber in subscribers:
        assert subscriber.bodies(3) == ["one", "two", "three"]


def test_nothing_is_kept_for_who_comes_later(connect: Connect, wire: Wire, name: str) -> None:
    wire.send(f"/topic/{name}", "before")
    wire.subscribe(f"/topic/{name}", ack="auto")
    wire.send(f"/topic/{name}", "after")
    assert wire.message().body == b"after"


def test_unsubscribed_gets_nothing_more(wire: Wire, name: str) -> None:
    wire.subscribe(f"/topic/{name}", ack="auto")
    wire.ask("UNSUBSCRIBE", {"id": "0"})
    wire.send(f"/topic/{name}", "x")
    assert wire.is_silent()


def test_mandatory_without_a_subscriber_is_refused(connect: Connect, wire: Wire, name: str) -> None:
    wire.subscribe(f"/topic/{name}", ack="auto")
    connect().send(f"/topic/{name}", "heard", {"mandatory": "true"})
    assert wire.message().body == b"heard"
    wire.ask("UNSUBSCRIBE", {"id": "0"})
    wire.send_frame("SEND", {"destination": f"/topic/{name}", "mandatory": "true"}, b"x")
    assert name.encode() in wire.refusal().body


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("stocks.*.nyse", "stocks.ibm.nyse", True),
        ("stocks.*.nyse", "stocks.nyse", False),
        ("stocks.*.nyse", "stocks.a.b.nyse", False),
        ("stocks.#", "stocks", True),
        ("stocks.#", "stocks.ibm", True),
        ("stocks.#", "stocks.ibm.nyse", True),
        ("stocks.#", "stocksibm", False),
        ("#", "anything.at.all", True),
        ("*", "one", True),
        ("*", "one.two", False),
        ("#.nyse", "stocks.ibm.nyse", True),
        ("#.nyse", "nyse", True),
        ("a.#.z", "a.z", True),
        ("a.#.z", "a.b.c.z", True),
        ("a.#.z", "a.b.c", False),
        ("*.*", "a.b", True),
        ("#.*", "a", True),
        ("stocks.*", "Stocks.x", False),
    ],
)
def test_wildcards_match_whole_words(wire: Wire, name: str, pattern: str, topic: str, matches: bool) -> None:
    wire.subscribe(f"/topic/{pattern}", ack="auto")
    wire.send(f"/topic/{topic}", "x")
    if matches:
        assert wire.message()["destination"] == f"/topic/{topic}", "the concrete topic"
    assert wire.is_silent()


def test_two_matching_subscriptions_get_two_messages(wire: Wire, name: str) -> None:
    wire.subscribe(f"/topic/{name}.x", id="exact", ack="auto")
    wire.subscribe(f"/topic/{name}.*", id="star", ack="auto")
    wire.subscribe(f"/topic/{name}.x", id="again", ack="auto")
    wire.send(f"/topic/{name}.x", "x")
    assert sorted(message["subscription"] for message in wire.messages(3)) == ["again", "exact", "star"]
    assert wire.is_silent()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_topic_has_no_window_and_its_acks_mean_nothing(connect: Connect, name: str, ack: str, version: str) -> None:
    wire = connect(version)
    wire.subscribe(f"/topic/{name}", ack=ack)
    for number in range(5):
        wire.send(f"/topic/{name}", str(number))
    messages = wire.messages(5)
    assert all("ack" in message for message in messages)
    wire.ack(messages[3])
    wire.ack(messages[3])
    wire.nack(messages[0])
    wire.nack(messages[1], {"requeue": "false"})
    assert wire.is_silent()


def test_auto_carries_no_ack_header(wire: Wire, name: str) -> None:
    wire.subscribe(f"/topic/{name}", ack="auto")
    wire.send(f"/topic/{name}", "x")
    assert "ack" not in wire.message()


def test_topic_message_passes_a_connection_whose_window_is_full(wire: Wire, queue: str, name: str) -> None:
    wire.subscribe(queue, id="q")
    wire.subscribe(f"/topic/{name}", id="t")
    wire.send(queue, "unacked")
    assert wire.message().body == b"unacked"
    wire.send(f"/topic/{name}", "passes")
    assert wire.message().body == b"passes"


def read_to_the_end(wire: Wire) -> list[str]:
    """The commands of what comes until the broker closes."""
    commands = []
    try:
        while True:
            commands.append(wire.read_frame().command)
    except Gone:
        return commands


def test_slow_subscriber_is_closed_with_an_error_and_the_others_are_not(
    connect: Connect, wire: Wire, name: str
) -> None:
    slow, good = connect(), connect()
    slow.subscribe(f"/topic/{name}", ack="auto")
    good.subscribe(f"/topic/{name}", ack="auto")
    # far more than any socket buffer holds: the slow one does not read meanwhile
    for _ in range(64):
        wire.send(f"/topic/{name}", b"x" * 200_000)
        assert len(good.message().body) == 200_000
    commands = read_to_the_end(slow)
    assert commands[-1] == "ERROR"
    assert 0 < len(commands) < 64
    wire.send(f"/topic/{name}", "still here")
    assert good.message().body == b"still here"


@pytest.mark.parametrize(("count", "size"), [(2, 3 << 20), (40, 1 << 19), (2, (16 << 20) - 300)])
def test_burst_of_large_messages_closes_nobody_who_reads(tmp_path: Path, count: int, size: int) -> None:
    """At default limits, while it looks elsewhere for a moment."""
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as reader, Wire(address) as sender:
            reader.connect()
            sender.connect()
            reader.subscribe("/topic/t", ack="auto")
            frame = sender.frame("SEND", {"destination": "/topic/t"}, b"x" * size)
            for _ in range(count):
                sender.send_raw(frame)
            sender.fence()
            for _ in range(count):
                assert len(reader.message().body) == size
            reader.send("/topic/t", "still here")


def test_bound_that_is_set_is_the_bound(connect: Connect, wire: Wire, name: str) -> None:
    slow = connect()
    slow.subscribe(f"/topic/{name}", ack="auto")
    frame = wire.frame("SEND", {"destination": f"/topic/{name}"}, b"x" * 16 * 1024)
    for _ in range(1200):
        wire.send_raw(frame)
    wire.fence()
    commands = read_to_the_end(slow)
    assert commands[-1] == "ERROR" and len(commands) < 600


def test_subscriber_may_ask_for_a_smaller_buffer_in_messages(connect: Connect, wire: Wire, name: str) -> None:
    slow = connect()
    slow.subscribe(f"/topic/{name}", ack="auto", headers={"buffer-max-messages": "5"})
    for _ in range(64):
        wire.send(f"/topic/{name}", b"x" * 200_000)
    assert read_to_the_end(slow)[-1] == "ERROR"


def test_subscriber_may_ask_for_a_smaller_buffer_in_bytes(connect: Connect, wire: Wire, name: str) -> None:
    slow = connect()
    slow.subscribe(f"/topic/{name}", ack="auto", headers={"buffer-max-bytes": "1000"})
    for _ in range(64):
        wire.send(f"/topic/{name}", b"x" * 200_000)
    assert read_to_the_end(slow)[-1] == "ERROR"


def test_empty_buffer_takes_one_message_of_any_size(connect: Connect, wire: Wire, name: str) -> None:
    """The message is larger than outbox_max_bytes, and far larger than what was asked for."""
    subscriber = connect()
    subscriber.subscribe(f"/topic/{name}", ack="auto", headers={"buffer-max-bytes": "10"})
    for _ in range(3):
        wire.send(f"/topic/{name}", b"x" * 10_000_000)
        assert len(subscriber.message().body) == 10_000_000


@pytest.mark.parametrize(
    "headers", [{"buffer-max-bytes": "0"}, {"buffer-max-messages": "-1"}, {"buffer-max-bytes": "x"}]
)
def test_senseless_buffer_is_refused(wire: Wire, name: str, headers: dict[str, str]) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "1", "destination": f"/topic/{name}", **headers})
    assert next(iter(headers)).encode() in wire.refusal().body


def test_topic_message_in_a_transaction_comes_at_commit(connect: Connect, wire: Wire, name: str) -> None:
    subscriber = connect()
    subscriber.subscribe(f"/topic/{name}", ack="auto")
    wire.ask("BEGIN", {"transaction": "t"})
    wire.send(f"/topic/{name}", "x", {"transaction": "t"})
    assert subscriber.is_silent()
    wire.ask("COMMIT", {"transaction": "t"})
    assert subscriber.message().body == b"x"
