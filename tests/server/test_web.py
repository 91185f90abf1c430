"""Requests over HTTP at a real broker: what they do there, and what clients that do wrong can not."""

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.auth.tokens import text_of
from radiator.model.limits import HTTP_ANSWERS_BYTES, HTTP_PIPELINED, READ_BYTES
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import answers, request
from tests.server.web import OPEN, SECRET, TOKEN, WebBroker, WebClient, basic, port_of

TEXT = {"Content_Type": "text/plain"}
QUICK = (
    OPEN
    + """
[limits]
connect_timeout_s = 1
frame_timeout_s = 3
block_timeout_s = 60
[queue.full]
max_messages = 1
[queue.refusing]
max_messages = 1
overflow = "reject"
[queue.once]
dedup_window_s = 60
"""
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WebClient]:
    with WebClient(port_of(broker.log, "http")) as made:
        yield made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("secured")) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def consumer(broker: BrokerProcess, queue: str, version: str = "1.2", **headers: str) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect({"accept-version": version, **headers})
    wire.send_frame("SUBSCRIBE", {"id": "s", "destination": queue, "ack": "auto", "prefetch-count": "10"})
    return wire


def test_what_is_published_is_there_for_a_consumer(broker: BrokerProcess, client: WebClient) -> None:
    answer = client.ask("POST", "/v1/queues/a%2Fb/messages", b"hello", message_colour="blue", **TEXT)
    assert answer.status == 201 and len(json.loads(answer.body)["ids"]) == 1
    with consumer(broker, "/queue/a/b") as wire:
        frame = wire.message()
        assert frame["message-id"] == json.loads(answer.body)["ids"][0]
        assert frame["colour"] == "blue" and frame.body == b"hello"
        assert frame["content-type"] == "text/plain" and frame["destination"] == "/queue/a/b"


@pytest.mark.parametrize(("version", "colour"), [("1.0", None), ("1.1", "re\\d\nb:1"), ("1.2", "re\\d\nb:1")])
def test_a_consumer_of_each_version_sees_one_header(
    broker: BrokerProcess, client: WebClient, version: str, colour: str | None
) -> None:
    batch = json.dumps({"messages": [{"body": "x", "headers": {"colour": "re\\d\nb:1", "n\nb": "1"}}]}).encode()
    queue = f"escaped-{version}"
    assert client.ask("POST", f"/v1/queues/{queue}/messages", batch, Content_Type="application/json").status == 201
    with consumer(broker, f"/queue/{queue}", version) as wire:
        frame = wire.message()
        assert frame.get("colour") == colour, "1.0 cannot say it, and leaves it out"
        assert frame.body == b"x" and frame.get("b") is None


def test_a_full_queue_is_answered_at_once(client: WebClient) -> None:
    for queue, code, status in (("full", "blocked", 503), ("refusing", "queue-full", 429)):
        assert client.ask("POST", f"/v1/queues/{queue}/messages", b"1", **TEXT).status == 201
        answer = client.ask("POST", f"/v1/queues/{queue}/messages", b"2", **TEXT)
        found = json.loads(answer.body)
        assert (answer.status, found["code"]) == (status, code) and queue in found["detail"]
        assert answer.headers["Retry-After"] == "1"


def test_a_batch_is_stored_whole_or_not_at_all(broker: BrokerProcess, client: WebClient) -> None:
    batch = json.dumps({"messages": [{"body": str(number)} for number in range(1000)]}).encode()
    answer = client.ask("POST", "/v1/queues/batch/messages", batch, Content_Type="application/json")
    assert answer.status == 201 and len(set(json.loads(answer.body)["ids"])) == 1000
    answer = client.ask(
        "POST", "/v1/queues/refusing2/messages", batch[:-2] + b', {"x": 1}]}', Content_Type="application/json"
    )
    assert answer.status == 400
    assert json.loads(client.ask("GET", "/v1/queues/batch").body)["ready"] == 1000
    assert client.ask("GET", "/v1/queues/refusing2").status == 404


def test_the_same_key_twice_stores_once(client: WebClient) -> None:
    first = client.ask("POST", "/v1/queues/once/messages", b"x", Idempotency_Key="k", **TEXT)
    again = client.ask("POST", "/v1/queues/once/messages", b"x", Idempotency_Key="k", **TEXT)
    assert (first.status, again.status) == (201, 200) and json.loads(again.body)["duplicates"] == 1
    other = client.ask("POST", "/v1/queues/never/messages", b"x", Idempotency_Key="k", **TEXT)
    assert other.status == 422 and json.loads(other.body)["code"] == "no-dedup"


def test_requests_in_one_packet_are_answered_in_order(client: WebClient) -> None:
    sizes = [number % 7 for number in range(200)]
    client.send(b"".join(request("POST", "/v1/queues/many/messages", b"x" * (size + 1), **TEXT) for size in sizes))
    ids = [json.loads(client.answer().body)["ids"][0] for _ in sizes]
    assert ids == sorted(ids, key=lambda one: int(one.rpartition("-")[2])) and len(set(ids)) == 200


def rss_bytes(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_does_not_read_is_not_read_from(broker: BrokerProcess, client: WebClient) -> None:
    asked = 10_000  # of some 4 KiB of answer each
    one = request("GET", "/v1/stats")
    before_bytes = rss_bytes(broker)
    client.socket.setblocking(False)
    data = memoryview(one * asked)
    sent, quiet = 0, 0
    while sent < len(data) and quiet < 50:
        try:
            sent += client.socket.send(data[sent : sent + 65_536])
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.01)
    with WebClient(port_of(broker.log, "http")) as other:
        assert other.ask("GET", "/healthz").status == 200
    assert rss_bytes(broker) - before_bytes < 16 << 20
    client.socket.settimeout(10)
    for _ in range(3 * HTTP_PIPELINED):
        assert client.answer().status == 200


def test_clients_who_do_not_read_long_answers_cost_little_memory(broker: BrokerProcess) -> None:
    """The answers that wait for them are in nobody's count."""
    port = port_of(broker.log, "http")
    with contextlib.ExitStack() as stack:
        other, *clients = [stack.enter_context(WebClient(port)) for _ in range(41)]
        session = json.loads(other.ask("POST", "/v1/stomp").body)["session"]
        path = f"/v1/stomp/{session}"
        body = b"x" * 200_000
        frames = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/long\n\n\0"
        assert other.ask("POST", f"{path}/send?at=0", frames).status == 200
        assert other.ask("POST", f"{path}/poll?from=0&wait_ms=5000").status == 200
        assert other.ask("POST", "/v1/topics/long/messages", body, **TEXT).status == 201
        while len(other.ask("POST", f"{path}/poll?from=0").body) < len(body):
            pass
        before_bytes = rss_bytes(broker)
        for client in clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            client.send(request("POST", f"{path}/poll?from=0") * 100)
        for _ in range(100):  # nobody else waits for them
            assert other.ask("POST", "/v1/queues/beside/messages", b"x", **TEXT).status == 201
        assert rss_bytes(broker) - before_bytes < len(clients) * 2 * (HTTP_ANSWERS_BYTES + len(body)) + (8 << 20)
        assert other.ask("DELETE", path).status == 204


def counted_bytes(client: WebClient) -> int:
    """What the broker counts of its memory, as weighed last."""
    return int(json.loads(client.ask("GET", "/v1/stats").body)["memory_counted_bytes"])


def test_no_more_is_read_of_a_client_that_asks_faster_than_it_is_answered(broker: BrokerProcess) -> None:
    """Each answer lets it be read from again: not before what was read is carried out."""
    with WebClient(port_of(broker.log, "http")) as client, WebClient(port_of(broker.log, "http")) as other:
        session = json.loads(client.ask("POST", "/v1/stomp").body)["session"]
        path = f"/v1/stomp/{session}"
        frame = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
        assert client.ask("POST", f"{path}/send?at=0", frame).status == 200
        data = request("POST", f"{path}/send?at=0", b"C") * 50
        before_bytes = counted_bytes(other)  # the broker has served other tests, and may hold something of theirs
        is_over = threading.Event()

        def ask() -> None:
            with contextlib.suppress(OSError):
                while not is_over.is_set():
                    client.send(data)

        def read() -> None:
            with contextlib.suppress(OSError):
                while client.socket.recv(1 << 16):
                    pass

        threads = [threading.Thread(target=ask), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        most_bytes = 0
        for _ in range(40):
            most_bytes = max(most_bytes, counted_bytes(other))
        is_over.set()
        client.socket.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        assert 0 < most_bytes < before_bytes + 4 * READ_BYTES


def test_strangers_who_do_not_read_are_answered_little(broker: BrokerProcess) -> None:
    count, one = 50, request("GET", "/v1/openapi.json")  # which needs no login, and is long
    with contextlib.ExitStack() as stack:
        other, *strangers = [stack.enter_context(WebClient(port_of(broker.log, "http"))) for _ in range(count + 1)]
        size = len(other.ask("GET", "/v1/openapi.json").body)
        before_bytes = rss_bytes(broker)
        for stranger in strangers:
            stranger.send(one * 100)
        for _ in range(100):  # nobody else waits for them
            assert other.ask("POST", "/v1/queues/beside/messages", b"x", **TEXT).status == 201
        assert rss_bytes(broker) - before_bytes < count * 2 * (HTTP_ANSWERS_BYTES + size) + (8 << 20)


def test_a_request_that_is_broken_in_its_body_ends_the_connection(client: WebClient) -> None:
    head = request("POST", "/v1/queues/a/messages", Transfer_Encoding="chunked", **TEXT)
    client.send(head + b"5\r\nhello\r\nx\r\n\r\nyyyyyyyy")
    (answer,) = answers(client.rest())
    assert answer.status == 400 and answer.headers["Connection"] == "close"


def test_a_request_that_is_broken_in_a_later_piece_of_its_body_ends_the_connection(client: WebClient) -> None:
    head = request("POST", "/v1/queues/a/messages", Transfer_Encoding="chunked", **TEXT)
    client.send(head + b"5\r\nhel")
    time.sleep(0.1)
    client.send(b"lo\r\nx\r\n\r\nyyyyyyyy")
    (answer,) = answers(client.rest())
    assert answer.status == 400


def test_the_last_request_of_a_connection_ends_it_however_it_is_answered(client: WebClient) -> None:
    data = request("POST", "/v1/queues/a/messages", b"{", Content_Type="application/json", Connection="close")
    client.send(data[:-1])
    time.sleep(0.1)
    client.send(data[-1:])
    (answer,) = answers(client.rest())
    assert answer.status == 400


@pytest.mark.parametrize("what", ["head", "body", "chunks"])
def test_who_sends_byte_by_byte_is_bounded_in_time(client: WebClient, what: str) -> None:
    if what == "head":
        took_s = client.send_slowly((b"G", *[b"x"] * 1000), 0.2)
    else:
        headers = {"Content_Length": "100000"} if what == "body" else {"Transfer_Encoding": "chunked"}
        client.send(request("POST", "/v1/queues/slow/messages", **TEXT, **headers))
        took_s = client.send_slowly([b"x"] * 1000 if what == "body" else [b"1\r\nx\r\n"] * 1000, 0.2)
    assert took_s < 8, "a head has connect_timeout_s, a body frame_timeout_s"


@pytest.mark.parametrize("left", [1, 4, 30])
def test_who_stops_in_a_body_before_it_or_in_a_head_is_closed(client: WebClient, left: int) -> None:
    assert client.ask("POST", "/v1/queues/a/messages", b"x", **TEXT).status == 201
    client.send(request("POST", "/v1/queues/a/messages", b"xxxx", **TEXT)[:-left])
    began_s = time.monotonic()
    client.rest()
    assert time.monotonic() - began_s < 5


def test_who_hangs_up_in_a_body_has_said_nothing(broker: BrokerProcess, client: WebClient) -> None:
    client.send(request("POST", "/v1/queues/cut/messages", b"hello", **TEXT)[:-1])
    client.socket.close()
    with WebClient(port_of(broker.log, "http")) as other:
        assert other.ask("GET", "/v1/queues/cut").status == 404


def test_who_hangs_up_before_the_answer_may_find_it_stored(broker: BrokerProcess, client: WebClient) -> None:
    client.send(request("POST", "/v1/queues/gone/messages", b"hello", **TEXT) * 3)
    client.socket.close()
    with WebClient(port_of(broker.log, "http")) as other:
        assert other.ask("GET", "/healthz").status == 200


# ---- users


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_user_may_do_what_he_may_and_no_more(secured: WebBroker, is_encrypted: bool) -> None:
    with secured.client(is_encrypted) as client:
        bob = {"Authorization": basic("bob"), **TEXT}
        assert client.ask("POST", "/v1/queues/of-bob/messages", b"x", **bob).status == 201
        answer = client.ask("POST", "/v1/queues/of-ann/messages", b"x", **bob)
        assert answer.status == 403 and json.loads(answer.body)["code"] == "forbidden"
        assert client.ask("POST", "/v1/drain", b"", **bob).status == 403
        # the same connection, in another name, and back
        ann = {"Authorization": basic("ann"), **TEXT}
        assert client.ask("POST", "/v1/queues/of-ann/messages", b"x", **ann).status == 201
        assert client.ask("POST", "/v1/queues/of-ann/messages", b"x", **bob).status == 403


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", basic("", TOKEN), basic("ci", TOKEN)])
def test_a_token_alone_is_a_login(secured: WebBroker, authorization: str) -> None:
    with secured.client() as client:
        token = {"Authorization": authorization, **TEXT}
        assert client.ask("POST", "/v1/queues/of-ci/messages", b"x", **token).status == 201
        assert client.ask("POST", "/v1/queues/of-ann/messages", b"x", **token).status == 403


WRONG_TOKEN = "Bearer " + text_of(bytes([1] * 32))


@pytest.mark.parametrize(
    "authorization", [None, "-", "", "Basic", "Basic Og==", basic("ann", "wrong"), "Bearer x", WRONG_TOKEN]
)
def test_nobody_else_gets_in(secured: WebBroker, authorization: str | None) -> None:
    with secured.client() as client:
        client.send(request("POST", "/v1/queues/of-ann/messages", b"x", Authorization=authorization, **TEXT))
        (answer,) = answers(client.rest())
        assert answer.status == 401 and "WWW-Authenticate" in answer.headers
        assert "Over HTTP the header Authorization has the login" in json.loads(answer.body)["detail"]
    with secured.client() as client:
        assert client.ask("GET", "/healthz").body == b"ok\n", "health is for everybody"


def test_a_secret_is_never_in_the_log(secured: WebBroker) -> None:
    with secured.client() as client:
        client.send(request("GET", f"/v1/queues?{SECRET.replace(' ', '+')}", Authorization=basic("ann", "wr0ng")))
        client.rest()
    for one in (SECRET, basic("ann"), basic("ann").split()[1], "wr0ng", basic("ann", "wr0ng").split()[1]):
        assert one not in secured.log


def test_no_line_of_the_log_is_made_by_a_client(secured: WebBroker) -> None:
    with secured.client() as client:
        client.send(request("GET", "/v1/queues", Authorization=basic("ann\nlevel=info event=fake", "x")))
        client.rest()
    assert not re.search(r"^level=info event=fake", secured.log, re.MULTILINE)


def test_headers_of_proxies_say_nothing(secured: WebBroker) -> None:
    far = "203.0.113.7"
    named = {"X_Forwarded_For": far, "X_Real_IP": far, "Forwarded": f"for={far}", "X_Forwarded_Host": "localhost"}
    for password, status in ((SECRET, 200), ("wr0ng", 401)):
        with secured.client() as client:
            answer = client.ask("GET", "/v1/queues", Authorization=basic("ann", password), **named)
            assert answer.status == status
    with secured.client() as client:
        client.send(f"PROXY TCP4 {far} 127.0.0.1 1 80\r\n".encode() + request())
        assert [one.status for one in answers(client.rest())] == [501]
    assert far not in secured.log
    with secured.client() as client:
        assert client.ask("GET", "/healthz", Host="evil.example", **named).status == 421


def test_a_user_that_is_taken_out_may_do_nothing_on_a_connection_that_is_there(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker, broker.client() as client:
        bob = {"Authorization": basic("bob"), **TEXT}
        assert client.ask("POST", "/v1/queues/of-bob/messages", b"x", **bob).status == 201
        text = broker.config_file.read_text()
        begin = text.index("[user.bob]")
        broker.config_file.write_text(text[:begin] + text[text.index("[user.anyone]") :])
        broker.hang_up("reloaded")
        client.socket.settimeout(5)
        with contextlib.suppress(ConnectionError):  # it may be closed already
            assert client.ask("POST", "/v1/queues/of-bob/messages", b"x", **bob).status in (401, 403)
