"""STOMP over HTTP at a real broker, also where answers are lost on their way."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import Answer, request
from tests.server.web import OPEN, WebBroker, WebClient, basic, port_of

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


class HttpStomp:
    """A session, two connections for it, and the frames that have come. is_lost: whether the next answer gets lost, so
    that its request is made again.
    """

    def __init__(self, port: int, authorization: str | None = None, losses: random.Random | None = None) -> None:
        self.port = port
        self.authorization = authorization
        self.losses = losses
        self.lost = 0
        self.clients = {"send": WebClient(port), "poll": WebClient(port)}
        self.sent = self.fetched = 0
        self.unread = b""
        self.name = json.loads(self.ask("send", "POST", "/v1/stomp", 201).body)["session"]

    def ask(self, way: str, method: str, path: str, status: int | None = None, body: bytes = b"") -> Answer:
        asked = request(method, path, body, Authorization=self.authorization)
        client = self.clients[way]
        client.send(asked)
        if self.losses is not None and path != "/v1/stomp" and self.losses.random() < 0.2:
            self.lost += 1
            if self.losses.random() < 0.5:
                client.answer()
            client.socket.close()
            client = self.clients[way] = WebClient(self.port)
            client.send(asked)
        answer = client.answer()
        assert status is None or answer.status == status, answer
        return answer

    def send(self, data: bytes) -> None:
        while data:
            answer = self.ask("send", "POST", f"/v1/stomp/{self.name}/send?at={self.sent}", 200, data)
            at = json.loads(answer.body)["at"]
            data, self.sent = data[at - self.sent :], at

    def poll(self, wait_ms: int = 5000) -> Answer:
        answer = self.ask("poll", "POST", f"/v1/stomp/{self.name}/poll?from={self.fetched}&wait_ms={wait_ms}")
        if answer.status == 200:
            self.fetched += len(answer.body)
            self.unread += answer.body
        return answer

    def frame(self) -> bytes:
        while b"\0" not in self.unread:
            assert self.poll().status == 200
        frame, _, self.unread = self.unread.partition(b"\0")
        return frame.lstrip(b"\n")

    def close(self) -> None:
        for client in self.clients.values():
            client.socket.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), OPEN) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.mark.durability("D42")
@pytest.mark.parametrize("seed", range(3))
def test_every_frame_comes_once_where_answers_are_lost(broker: BrokerProcess, seed: int) -> None:
    stomp = HttpStomp(port_of(broker.log, "http"), losses=random.Random(seed))
    queue = b"/queue/lossy%d" % seed
    stomp.send(CONNECT)
    assert stomp.frame().startswith(b"CONNECTED\n")
    stomp.send(b"SUBSCRIBE\nid:1\ndestination:%b\nack:client-individual\n\n\0" % queue)
    bodies = [b"%03d" % number for number in range(100)]
    for body in bodies:
        stomp.send(b"SEND\ndestination:%b\nreceipt:%b\n\n%b\0" % (queue, body, body))
    receipts: list[bytes] = []
    received: list[bytes] = []
    while len(receipts) < len(bodies) or len(received) < len(bodies):
        head, _, body = stomp.frame().partition(b"\n\n")
        headers = dict(line.split(b":", 1) for line in head.splitlines()[1:])
        if head.startswith(b"RECEIPT"):
            receipts.append(headers[b"receipt-id"])
        else:
            assert head.startswith(b"MESSAGE"), head
            received.append(body)
            stomp.send(b"ACK\nid:%b\n\n\0" % headers[b"ack"])
    assert (receipts, received) == (bodies, bodies)
    assert stomp.lost > 10
    stomp.send(b"DISCONNECT\nreceipt:bye\n\n\0")
    assert stomp.frame() == b"RECEIPT\nreceipt-id:bye\n\n"
    assert stomp.poll().status == 410
    stomp.close()


def test_what_a_closed_session_had_not_acked_comes_again(broker: BrokerProcess) -> None:
    port = port_of(broker.log, "http")
    subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/again\nack:client-individual\n\n\0"
    first, second = HttpStomp(port), HttpStomp(port)
    first.send(CONNECT + subscribe + b"SEND\ndestination:/queue/again\n\nhello\0")
    assert first.frame().startswith(b"CONNECTED") and first.frame().endswith(b"\n\nhello")
    second.send(CONNECT + subscribe)
    assert second.frame().startswith(b"CONNECTED") and second.poll(200).status == 204
    first.ask("poll", "DELETE", f"/v1/stomp/{first.name}", 204)
    assert b"redelivered:true" in second.frame()
    first.close()
    second.close()


def test_a_large_message_comes_and_goes_in_pieces(broker: BrokerProcess) -> None:
    body = random.Random(1).randbytes(2_000_000)
    stomp = HttpStomp(port_of(broker.log, "http"))
    stomp.send(CONNECT + b"SUBSCRIBE\nid:1\ndestination:/queue/large\n\n\0")
    assert stomp.frame().startswith(b"CONNECTED")
    data = b"SEND\ndestination:/queue/large\ncontent-length:%d\n\n%b\0" % (len(body), body)
    for begin in range(0, len(data), 200_000):
        stomp.send(data[begin : begin + 200_000])
    while body not in stomp.unread:
        assert stomp.poll().status == 200
    stomp.close()


def test_a_session_is_in_the_name_of_who_makes_its_requests(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        port = port_of(broker.log, "http")
        bob = HttpStomp(port, basic("bob"))
        bob.send(CONNECT + b"SEND\ndestination:/queue/of-bob\nreceipt:1\n\nx\0")
        assert bob.frame().startswith(b"CONNECTED") and bob.frame().startswith(b"RECEIPT")
        own, bob.authorization = bob.authorization, basic("ann")
        assert bob.poll().status == 410, "another one's"
        bob.authorization = own
        bob.clients["send"] = WebClient(port)
        bob.send(b"SEND\ndestination:/queue/of-ann\n\nx\0")
        assert b"code:forbidden" in bob.frame() and bob.poll().status == 410
        other = HttpStomp(port, basic("bob"))
        other.send(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:x\n\n\0")
        assert b"code:forbidden" in other.frame()
        stranger = WebClient(port)
        assert stranger.ask("POST", "/v1/stomp").status == 401
        for one in (bob, other):
            one.close()


def test_sessions_without_a_connect_are_closed_as_all_connections_are(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, OPEN + "[limits]\nconnect_timeout_s = 1\nmax_connections = 11\n") as broker:
        broker.wait_for_log("listening address=http://")
        port = port_of(broker.log, "http")
        stomp = HttpStomp(port)
        assert stomp.poll(5000).status == 410
        several = [HttpStomp(port) for _ in range(2)]
        for one in several:  # two connections each, and two places for the session
            one.send(CONNECT)
            assert one.frame().startswith(b"CONNECTED\n")
        refused = WebClient(port).ask("POST", "/v1/stomp")
        assert refused.status == 503 and b"a session needs two" in refused.body
        for one in several:
            one.close()
