"""stomp.py, in each version of STOMP that it speaks."""

import json
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import stomp
from stomp.exception import ConnectFailedException, NotConnectedException

from tests.broker_process import BrokerProcess
from tests.tls_broker import TlsBroker

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

    def unsubscribe(self, destination: str, headers: dict[str, str]) -> None:
        """Returns with the RECEIPT."""
        which = {"destination": destination} if self.version == "1.0" else {}
        self.connection.unsubscribe(id="0", headers={"receipt": "unsubscribed", **headers}, **which)
        assert self.receipts.get(timeout=TIMEOUT_S) == "unsubscribed"

    def subscribe_and_leave(self, destination: str, headers: dict[str, str]) -> None:
        self.subscribe(destination, **headers)
        self.connection.disconnect()

    def admin(self, request: dict[str, Any]) -> dict[str, Any]:
        headers = {"reply-to": "/temp-queue/admin", "correlation-id": "a"}
        self.connection.send("/admin", json.dumps(request), headers=headers)
        answer: dict[str, Any] = json.loads(self.message().body)
        return answer

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
        # one that the broker has refused is about to be closed: stomp.py may notice in between
        with suppress(NotConnectedException, OSError):
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


def test_patterns_of_an_exchange(client: Make, name: str) -> None:
    """As the users of RabbitMQ know it: amq.topic is there, and SUBSCRIBE gets a queue of its own."""
    one, two = client(), client()
    one.subscribe(f"/exchange/amq.topic/{name}.*.error")
    two.subscribe(f"/exchange/amq.topic/{name}.#", ack="auto")
    sender = client()
    sender.send(f"/exchange/amq.topic/{name}.disk.warning", "1")
    sender.send(f"/exchange/amq.topic/{name}.disk.error", "2")
    frame = one.message()
    assert (frame.body, frame.headers["destination"]) == ("2", f"/exchange/amq.topic/{name}.disk.error")
    one.answer(frame)
    assert [two.message().body, two.message().body] == ["1", "2"]


def test_queues_are_declared_and_bound_through_admin(client: Make, name: str) -> None:
    one = client()
    for request in (
        {"do": "declare", "exchange": name, "type": "direct"},
        {"do": "declare", "queue": name},
        {"do": "bind", "exchange": name, "key": "k", "queue": name},
    ):
        assert one.admin(request)["ok"]
    one.send(f"/exchange/{name}/k", "x")
    one.send(f"/exchange/{name}/other", "y")
    assert one.admin({"do": "describe", "queue": name})["messages"] == 1
    assert one.admin({"do": "describe", "exchange": name})["unrouted"] == 1
    assert one.admin({"do": "delete", "exchange": name})["deleted"] == 1
    one.subscribe(f"/queue/{name}")
    frame = one.message()
    assert frame.body == "x"
    one.answer(frame)


def test_mandatory_without_a_binding_is_refused(client: Make, name: str) -> None:
    one = client()
    one.connection.send(f"/exchange/amq.direct/{name}", "x", mandatory="true")
    assert one.errors.get(timeout=TIMEOUT_S).headers["code"] == "no-subscriber"


@pytest.mark.parametrize("kind", ["topic", "exchange/amq.topic"])
def test_durable_subscription_collects_while_its_subscriber_is_away(client: Make, name: str, kind: str) -> None:
    address, durable = f"/{kind}/{name}.#", {"durable": "true", "auto-delete": "false"}
    client().subscribe_and_leave(address, durable)
    sender = client()
    sender.send(f"/{kind}/{name}.a", "while you were away")
    two = client()
    two.subscribe(address, **durable)
    frame = two.message()
    assert frame.body == "while you were away"
    two.answer(frame)
    # the end of it is said
    two.unsubscribe(address, durable)
    sender.send(f"/{kind}/{name}.a", "after the end")
    two.subscribe(address, **durable)
    sender.send(f"/{kind}/{name}.a", "anew")
    frame = two.message()
    assert frame.body == "anew"
    two.answer(frame)
    two.unsubscribe(address, durable)


@pytest.mark.parametrize("by", ["delay", "deliver-at"])
def test_delayed_message_comes_when_it_is_due(client: Make, name: str, by: str) -> None:
    one = client()
    one.subscribe(f"/queue/{name}")
    began_ms = int(time.time() * 1000)
    one.send(f"/queue/{name}", "later", **{by: "400" if by == "delay" else str(began_ms + 400)})
    one.send(f"/queue/{name}", "now")
    for wanted in ("now", "later"):
        frame = one.message()
        assert frame.body == wanted
        one.answer(frame)
    assert time.time() * 1000 - began_ms >= 399


@SINCE_1_1
def test_nack_with_a_delay_brings_it_again_after_it(client: Make, name: str) -> None:
    one = client()
    one.send(f"/queue/{name}", "x")
    one.subscribe(f"/queue/{name}")
    frame = one.message()
    began_s = time.monotonic()
    one.answer(frame, "nack", delay="400")
    frame = one.message()
    assert time.monotonic() - began_s >= 0.399
    assert (frame.headers["redelivered"], frame.headers["redelivery-count"]) == ("true", "1")
    one.answer(frame)


def test_request_and_reply_over_a_temp_queue(client: Make, name: str) -> None:
    server, asker = client(), client()
    server.subscribe(f"/queue/{name}")
    for word in ("one", "two"):
        headers = {"reply-to": "/temp-queue/answers", "correlation-id": word}
        asker.connection.send(f"/queue/{name}", word, headers=headers)
    for word in ("one", "two"):
        frame = server.message()
        server.connection.send(
            frame.headers["reply-to"], word.upper(), headers={"correlation-id": frame.headers["correlation-id"]}
        )
        server.answer(frame)
        reply = asker.message()
        assert (reply.body, reply.headers["correlation-id"]) == (word.upper(), word)


def test_late_reply_makes_no_new_queue(client: Make, name: str) -> None:
    """The reply queue goes with its asker; /amq/queue/ reaches it while it is there, and nothing afterwards."""
    asker, server = client(), client()
    assert asker.admin({"do": "declare", "queue": name, "auto_delete": True, "exclusive": True})["created"]
    asker.subscribe(f"/queue/{name}", ack="auto")
    server.send(f"/amq/queue/{name}", "in time")
    assert asker.message().body == "in time"
    asker.connection.disconnect()
    while server.admin({"do": "describe", "queue": name})["ok"]:
        time.sleep(0.01)
    server.send(f"/amq/queue/{name}", "late")
    assert server.admin({"do": "describe", "queue": name})["code"] == "no-such-destination"


@pytest.mark.slow
@SINCE_1_1
def test_heart_beats_keep_a_silent_connection(client: Make, name: str) -> None:
    one = client(heartbeats=(400, 400))
    time.sleep(2.5)
    assert one.heart_beat_timeouts == 0
    assert one.connection.is_connected()
    one.send(f"/queue/{name}", "still here")


def over_tls(broker: TlsBroker, ca_file: str, host: str = "localhost") -> stomp.Connection12:
    connection = stomp.Connection12([(host, broker.tls_port)], reconnect_attempts_max=1)
    connection.set_ssl([(host, broker.tls_port)], ca_certs=ca_file)
    return connection


def test_over_tls_with_its_own_verification(tmp_path: Path) -> None:
    with TlsBroker(tmp_path) as broker:
        connection = over_tls(broker, broker.ca_file)
        heard: queue.Queue[Any] = queue.Queue()
        listener = stomp.ConnectionListener()
        listener.on_message = heard.put
        connection.set_listener("one", listener)
        connection.connect(wait=True)
        connection.subscribe("/queue/q", id="0")
        connection.send("/queue/q", "x" * 100_000)
        assert len(heard.get(timeout=TIMEOUT_S).body) == 100_000
        connection.disconnect()
        other = broker.authority.pair("stranger", "/CN=stranger").certificate
        with pytest.raises(ConnectFailedException):
            over_tls(broker, str(other)).connect(wait=True)
        broker.wait_for_log("tls_failed")
