"""stomp.py, in each version of STOMP that it speaks."""

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stomp

from tests.broker_process import BrokerProcess

VERSIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
TIMEOUT_S = 10


class Client(stomp.ConnectionListener):
    """A connection, and what came over it."""

    def __init__(self, version: str, broker: BrokerProcess, **options: Any) -> None:
        self.version = version
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.disconnected: queue.Queue[bool] = queue.Queue()
        self.connected: queue.Queue[Any] = queue.Queue()
        self.heart_beat_timeouts = 0
        self.connection = VERSIONS[version]([(broker.host, broker.port)], **options)
        self.connection.set_listener("client", self)
        self.connection.connect(wait=True)

    def on_connected(self, frame: Any) -> None:
        self.connected.put(frame)

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_disconnected(self) -> None:
        self.disconnected.put(True)

    def on_heartbeat_timeout(self) -> None:
        self.heart_beat_timeouts += 1

    def send(self, destination: str, body: str, **headers: str) -> None:
        """Returns with the RECEIPT."""
        self.connection.send(destination, body, receipt="sent", headers=headers)
        assert self.receipts.get(timeout=TIMEOUT_S) == "sent"

    def subscribe(self, destination: str, ack: str = "client-individual", **headers: str) -> None:
        if self.version == "1.0" and ack == "client-individual":
            ack = "client"  # 1.0 knows no other; with one unacked it is the same
        self.connection.subscribe(destination, id="0", ack=ack, headers={"receipt": "subscribed", **headers})
        assert self.receipts.get(timeout=TIMEOUT_S) == "subscribed"

    def message(self) -> Any:
        return self.messages.get(timeout=TIMEOUT_S)

    def answer(self, frame: Any, how: str = "ack", **options: Any) -> None:
        """ACK or NACK as each version's API has it."""
        call = getattr(self.connection, how)
        if self.version == "1.2":
            call(frame.headers["ack"], **options)
        elif self.version == "1.1":
            call(frame.headers["message-id"], frame.headers["subscription"], **options)
        else:
            call(frame.headers["message-id"], **options)


Make = Callable[..., Client]
SINCE_1_1 = pytest.mark.parametrize("client", ["1.1", "1.2"], indirect=True)  # 1.0 has no NACK and no heart-beats


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Make]:
    """`client()` connects one."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(Client(request.param, broker, **options))
        return made[-1]

    yield make
    for one in made:
        if one.connection.is_connected():
            one.connection.disconnect()


def test_version_is_agreed(client: Make) -> None:
    one = client()
    assert one.connected.get(timeout=TIMEOUT_S).headers["version"] == one.version


def test_message_makes_the_round_trip(client: Make, name: str) -> None:
    one = client()
    one.subscribe(f"/queue/{name}")
    text = "zwölf Boxkämpfer\n\n:\\ and €"
    one.send(f"/queue/{name}", text, colour="red", clock="12:30" if one.version != "1.0" else "noon")
    frame = one.message()
    assert frame.body == text
    assert frame.headers["colour"] == "red"
    assert frame.headers["clock"] == ("12:30" if one.version != "1.0" else "noon")
    assert frame.headers["destination"] == f"/queue/{name}"
    one.answer(frame)


def test_acks_let_the_next_one_come(client: Make, name: str) -> None:
    one = client()
    for number in range(5):
        one.send(f"/queue/{name}", str(number))
    one.subscribe(f"/queue/{name}")
    for number in range(5):
        frame = one.message()
        assert frame.body == str(number)
        assert one.messages.empty()
        one.answer(frame)


@SINCE_1_1
def test_nack_brings_it_again(client: Make, name: str) -> None:
    one = client()
    one.send(f"/queue/{name}", "x")
    one.subscribe(f"/queue/{name}")
    one.answer(one.message(), "nack")
    frame = one.message()
    assert (frame.headers["redelivered"], frame.headers["redelivery-count"]) == ("true", "1")
    one.answer(frame)


def test_unacked_message_comes_again_to_the_next_connection(client: Make, name: str) -> None:
    one = client()
    one.send(f"/queue/{name}", "x")
    one.subscribe(f"/queue/{name}")
    one.message()
    one.connection.disconnect()
    two = client()
    two.subscribe(f"/queue/{name}")
    frame = two.message()
    assert frame.headers["redelivered"] == "true"
    two.answer(frame)


def test_topic_reaches_all(client: Make, name: str) -> None:
    listeners = [client(), client()]
    for listener in listeners:
        listener.subscribe(f"/topic/{name}.#", ack="auto")
    client().send(f"/topic/{name}.news", "x")
    assert [listener.message().body for listener in listeners] == ["x", "x"]


def test_transaction_happens_at_commit(client: Make, name: str) -> None:
    one = client()
    one.subscribe(f"/queue/{name}", ack="auto")
    for transaction, end in (("no", "abort"), ("yes", "commit")):
        one.connection.begin(transaction)
        one.connection.send(f"/queue/{name}", transaction, transaction=transaction)
        getattr(one.connection, end)(transaction)
    one.send(f"/queue/{name}", "last")
    assert [one.message().body, one.message().body] == ["yes", "last"]


def test_ack_in_a_transaction(client: Make, name: str) -> None:
    one = client()
    one.send(f"/queue/{name}", "1")
    one.send(f"/queue/{name}", "2")
    one.subscribe(f"/queue/{name}")
    frame = one.message()
    one.connection.begin("t")
    one.answer(frame, transaction="t")
    one.connection.commit("t")
    assert one.message().body == "2"


def test_refusal_is_an_error_and_the_end(client: Make) -> None:
    one = client()
    one.connection.send("/nowhere/x", "x", receipt="bad")
    error = one.errors.get(timeout=TIMEOUT_S)
    assert error.headers["receipt-id"] == "bad"
    assert "/nowhere/x" in error.body
    assert one.disconnected.get(timeout=TIMEOUT_S)


def test_body_may_be_binary(client: Make, name: str) -> None:
    one = client(auto_decode=False)
    body = bytes(range(256)) * 10
    one.subscribe(f"/queue/{name}", ack="auto")
    one.connection.send(f"/queue/{name}", body)
    assert one.message().body == body


@pytest.mark.slow
@SINCE_1_1
def test_heart_beats_keep_a_silent_connection(client: Make, name: str) -> None:
    one = client(heartbeats=(400, 400))
    time.sleep(2.5)
    assert one.heart_beat_timeouts == 0
    assert one.connection.is_connected()
    one.send(f"/queue/{name}", "still here")
