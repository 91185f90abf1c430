"""Wrong arguments are told before anything is sent: the connection is as it was, and no queue is called "None"."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radiator.client import AddressError, Client, Message, Violation
from tests.broker_process import BrokerProcess

MESSAGE = Message({"message-id": "1", "ack": "1"}, b"", 1)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as one:
        yield one


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda c: c.send(None, "x"), "destination None is of type NoneType: it must be a str"),
        (lambda c: c.send(b"/queue/a", "x"), "destination b'/queue/a' is of type bytes"),
        (lambda c: c.send("/queue/a", None), "body None is of type NoneType: it must be bytes or str"),
        (lambda c: c.send("/queue/a", "x", 5), "headers 5 must be pairs"),
        (lambda c: c.send("/queue/a", "x", "a:b"), "headers have 'a'"),
        (lambda c: c.send("/queue/a", "x", {"a": 1}), "headers have ..a., 1."),
        (lambda c: c.send("/queue/a", "x", confirm="no"), "confirm 'no' must be True, False or None"),
        (lambda c: c.subscribe(None), "destination None"),
        (lambda c: c.subscribe("/queue/a", subscription=5), "subscription 5 is of type int"),
        (lambda c: c.subscribe("/queue/a", prefetch="many"), "prefetch 'many' is of type str"),
        (lambda c: c.subscribe("/queue/a", callback=5), "callback 5 cannot be called"),
        (lambda c: c.unsubscribe(None), "subscription None"),
        (lambda c: c.receive("5"), "timeout_s '5' is of type str: it must be a number of seconds"),
        (lambda c: c.receive(0, 5), "subscription 5"),
        (lambda c: next(c.messages("5")), "timeout_s '5'"),
        (lambda c: c.pump("5"), "timeout_s '5'"),
        (lambda c: c.ack(None), "None is of type NoneType: it must be a Message"),
        (lambda c: c.nack("1"), "'1' is of type str: it must be a Message"),
        (lambda c: c.nack(MESSAGE, delay_ms="x"), "delay_ms 'x'"),
        (lambda c: c.ack(MESSAGE, confirm=1), "confirm 1"),
        (lambda c: c.begin(5), "transaction 5"),
        (lambda c: c.commit(None), "transaction None"),
        (lambda c: c.request("/queue/a", "x", "soon"), "timeout_s 'soon'"),
        (lambda c: c.close("soon"), "timeout_s 'soon'"),
        (lambda _: Client(None), "address None must be a str or an Address"),
        (lambda _: Client([5]), "address 5"),
        (lambda _: Client(reconnect=5), "reconnect 5 must be True, False or a Reconnect"),
        (lambda _: Client(window="3"), "window '3'"),
        (lambda _: Client(connect_timeout_s="1"), "connect_timeout_s '1'"),
    ],
)
def test_a_wrong_type_is_a_type_error(client: Client, call: Callable[[Any], object], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        call(client)
    assert (client.is_open, client.connections) == (True, 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda c: c.subscribe("/queue/a", ack="sometimes"), "ack 'sometimes' must be auto"),
        (lambda c: c.subscribe("/queue/a", prefetch=0), "prefetch 0 must be 1 or more"),
        (lambda c: c.subscribe("/topic/a", durable=True), "needs an id"),
        (lambda c: c.unsubscribe("nothing"), "no subscription 'nothing'"),
        (lambda c: c.nack(MESSAGE, delay_ms=-1), "delay_ms -1"),
        (lambda c: c.send("/queue/a", "x", {"receipt": "r1"}), "set by its argument"),
        (lambda c: c.send("/queue/a", "x", transaction="t9"), "no open transaction"),
        (lambda c: c.commit("t9"), "no open transaction"),
        (lambda _: Client(window=0), "window 0 must be 1 or more"),
        (lambda _: Client(received_max_bytes=0), "received_max_bytes 0"),
        (lambda _: Client(heart_beats="never"), "must be .calls. or .thread."),
    ],
)
def test_a_wrong_value_is_a_violation(client: Client, call: Callable[[Any], object], sentence: str) -> None:
    with pytest.raises(Violation, match=sentence):
        call(client)
    assert (client.is_open, client.connections) == (True, 1)


def test_no_address_is_an_address_error() -> None:
    with pytest.raises(AddressError, match="a client needs one"):
        Client([])


def test_nothing_of_it_was_sent(client: Client) -> None:
    assert set(client.admin({"do": "stats"})["queues"]) <= {"dead", "tried"}, "these are of the configuration"


def test_version_may_be_one(broker: BrokerProcess) -> None:
    with Client(broker.address, versions="1.1") as one:
        one.send("/queue/versions", "x")
    with pytest.raises(Violation, match="must be some of"):
        Client(broker.address, versions=["1.3"])
    with pytest.raises(Violation, match="two whole numbers"):
        Client(broker.address, heart_beat_ms=5)  # type: ignore[arg-type]
