"""Sessions of browsers at a real broker: over TLS and without it, with streams, over a reload, and in a flood."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocols.http.asking import Answer, answers, request
from tests.server.web import HASH, SECRET, TOKEN, USERS, WebBroker, WebClient, basic

JSON = {"Content_Type": "application/json"}
STRANGER = {"ok": True, "user": None, "users": True}
UNIX = USERS.replace('"http://127.0.0.1:0"', '"http://127.0.0.1:0", "http+unix:web.sock"')


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("broker"), UNIX) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def log_in(client: WebClient, name: str = "ann", password: str = SECRET, **headers: str | None) -> Answer:
    body = json.dumps({"user": name, "password": password}).encode()
    return client.ask("POST", "/v1/session", body, **{**JSON, **headers})


def cookie(broker: WebBroker, name: str = "ann", is_encrypted: bool = False, **headers: str | None) -> str:
    with broker.client(is_encrypted) as client:
        answer = log_in(client, name, **headers)
        assert answer.status == 200, answer
        return answer.headers["Set-Cookie"].partition(";")[0]


def identity(broker: WebBroker, given: str, is_encrypted: bool = False) -> dict[str, object]:
    with broker.client(is_encrypted) as client:
        found: dict[str, object] = json.loads(client.ask("GET", "/v1/session", Cookie=given).body)
        return found


def log_out(broker: WebBroker, given: str) -> None:
    with broker.client() as client:
        assert client.ask("DELETE", "/v1/session", Cookie=given).status == 204


def stream(broker: WebBroker, given: str, path: str = "/v1/stats/events?every_s=3600") -> WebClient:
    """One whose first event is there."""
    client = broker.client()
    client.send(request("GET", path, Cookie=given))
    data = b""
    while b"data:" not in data:
        data += client.socket.recv(1 << 16)
    return client


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_browser_logs_in_works_and_logs_out_on_one_connection(broker: WebBroker, is_encrypted: bool) -> None:
    with broker.client(is_encrypted) as client:
        answer = log_in(client)
        given = answer.headers["Set-Cookie"]
        assert given.startswith("__Host-radiator=" if is_encrypted else "radiator=")
        assert ("; Secure;" in given) is is_encrypted
        by = {"Cookie": given.partition(";")[0]}
        batch = b'{"messages": [{"body": "x"}]}'
        assert client.ask("POST", "/v1/queues/of-ann/messages", batch, **JSON, **by).status == 201
        assert client.ask("GET", "/v1/queues", **by).status == 200
        assert client.ask("GET", "/metrics", **by).status == 200
        assert json.loads(client.ask("GET", "/v1/session", **by).body)["user"] == "ann"
        assert client.ask("DELETE", "/v1/session", **by).status == 204
        assert client.ask("GET", "/v1/queues", **by).status == 401


def test_a_session_may_do_what_its_user_may_and_the_connection_is_nobodys_else(broker: WebBroker) -> None:
    ann, bob = cookie(broker), cookie(broker, "bob")
    batch = b'{"messages": [{"body": "x"}]}'
    with broker.client() as client:
        assert log_in(client, "bob").status == 200
        for given, status in ((bob, 403), (ann, 201), (bob, 403)):
            assert client.ask("POST", "/v1/queues/of-ann/messages", batch, Cookie=given, **JSON).status == status
        token = {"Authorization": f"Bearer {TOKEN}", "Cookie": ann}
        assert client.ask("POST", "/v1/queues/of-ann/messages", batch, **token, **JSON).status == 403
        client.send(request("GET", "/v1/queues"))
        (answer,) = answers(client.rest())
        assert answer.status == 401


def test_over_a_unix_socket_it_is_as_over_loopback(broker: WebBroker) -> None:
    client = WebClient.__new__(WebClient)
    client.socket, client._read = socket.socket(socket.AF_UNIX), b""
    client.socket.settimeout(10)
    found = re.search(r'listening address="?http\+unix:([^"\s]+)', broker.log)
    assert found, broker.log
    client.socket.connect(found[1])
    with client:
        given = log_in(client, "bob").headers["Set-Cookie"]
        assert given.startswith("radiator=") and "Secure" not in given
        answer = client.ask("GET", "/v1/session", Cookie=given.partition(";")[0])
        assert json.loads(answer.body)["user"] == "bob"


@pytest.mark.parametrize("path", ["/v1/stats/events?every_s=3600", "/v1/topics/a/events"])
def test_a_logout_ends_the_streams_of_its_session_at_once_and_no_other(broker: WebBroker, path: str) -> None:
    given, other = cookie(broker), cookie(broker)
    with broker.client() as one, stream(broker, other) as stays, stream(broker, given) as two:
        one.send(request("GET", path, Cookie=given))
        while b"\r\n\r\n" not in one._read:
            one._read += one.socket.recv(1 << 16)
        began_s = time.monotonic()
        log_out(broker, given)
        for client in (one, two):
            rest = client.rest()
            assert b"event: refused\n" in rest and b'"code":"forbidden"' in rest.replace(b" ", b"")
            assert b"log in again" in rest
        assert time.monotonic() - began_s < 1
        stays.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            stays.socket.recv(1)
    log_out(broker, other)


def test_a_reload_ends_the_sessions_of_whose_login_is_another_and_no_others(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        ann, bob, ci = cookie(broker), cookie(broker, "bob"), None
        with broker.client() as client:
            answer = client.ask("POST", "/v1/session", json.dumps({"token": TOKEN}).encode(), **JSON)
            ci = answer.headers["Set-Cookie"].partition(";")[0]
        text = broker.config_file.read_text()
        begin = text.index("[user.bob]")
        other = str(HASH)[:-4] + "AAAA"
        with stream(broker, ann) as streaming:
            text = text[:begin].replace(str(HASH), other) + text[begin:]
            broker.config_file.write_text(text)
            broker.hang_up("reloaded")
            assert b"log in again" in streaming.rest(), "another password"
        assert identity(broker, ann) == STRANGER
        found = identity(broker, bob)
        assert found["user"] == "bob" and found["role"] == ""
        broker.config_file.write_text(text.replace('write = ["/queue/of-bob"]', 'role = "viewer"', 1))
        broker.hang_up("reloaded")
        assert identity(broker, bob)["role"] == "viewer", "his rights are those in force"
        with broker.client() as client:
            batch = b'{"messages": [{"body": "x"}]}'
            assert client.ask("POST", "/v1/queues/of-bob/messages", batch, Cookie=bob, **JSON).status == 403
        begin = text.index("[user.ci]")
        broker.config_file.write_text(text[:begin] + text[text.index("[user.anyone]") :])
        broker.hang_up("reloaded")
        assert identity(broker, ci) == STRANGER and identity(broker, bob)["user"] == "bob"


def test_a_login_that_comes_byte_by_byte_is_bounded_in_time(tmp_path: Path) -> None:
    with WebBroker(tmp_path, USERS + "[limits]\nconnect_timeout_s = 1\n") as broker, broker.client() as client:
        data = request("POST", "/v1/session", b'{"user": "ann", "password": "x"}', **JSON)
        pieces = [data[:-10], *(data[at : at + 1] for at in range(len(data) - 10, len(data)))]
        assert client.send_slowly(pieces, 0.3) < 2.5


def test_a_restart_ends_all(tmp_path: Path) -> None:
    broker = WebBroker(tmp_path)
    with broker:
        given = cookie(broker)
        assert identity(broker, given)["user"] == "ann"
        broker.stop()
        broker.start()
        assert identity(broker, given) == STRANGER


def test_neither_a_cookie_nor_a_password_is_in_the_log(broker: WebBroker) -> None:
    given = cookie(broker)
    with broker.client() as client:
        assert log_in(client, password="wr0ng").status == 401
    with broker.client() as client:
        assert client.ask("GET", f"/v1/queues?{given}", Cookie=given).status == 400
    with broker.client() as client:
        client.send(request("GET", "/v1/queues", Cookie=given).replace(b"HTTP/1.1", b"HTTP/9.9"))
        client.rest()
    value = given.partition("=")[2]
    for one in (value, SECRET, "wr0ng", HASH.digest.hex()):
        assert one not in broker.log
    with broker.client() as client:
        assert value.encode() not in client.ask("GET", "/v1/stats", Authorization=basic("ann")).body


def test_a_flood_of_wrong_cookies_costs_no_hash_and_keeps_nobody_out(broker: WebBroker) -> None:
    given, count = cookie(broker), 2_000
    with broker.client() as client:
        began_s = time.monotonic()
        flood = b"".join(request("GET", "/v1/session", Cookie=f"radiator={number:043}") for number in range(count))
        client.send(flood)
        for _ in range(count):
            assert json.loads(client.answer().body) == STRANGER
        took_s = time.monotonic() - began_s
    assert took_s < 5, "a hash each would take minutes"
    assert identity(broker, given)["user"] == "ann"
    with broker.client() as client:
        assert log_in(client).status == 200


def test_a_session_of_stomp_over_http_is_opened_by_a_cookie_from_its_own_page_alone(broker: WebBroker) -> None:
    given = cookie(broker)
    by = {"Cookie": given, "Content_Type": "application/octet-stream"}
    with broker.client() as client:
        answer = client.ask("POST", "/v1/stomp", **by)
        assert answer.status == 201
        path = f"/v1/stomp/{json.loads(answer.body)['session']}"
        connect = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
        assert client.ask("POST", f"{path}/send?at=0", connect, **by).status == 200
        polled = client.ask("POST", f"{path}/poll?from=0&wait_ms=5000", **by).body
        assert polled.startswith(b"CONNECTED\n")
        assert client.ask("DELETE", path, **by).status == 204
    for headers, status in (
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
    ):
        with broker.client() as client, contextlib.suppress(ConnectionAbortedError):
            assert client.ask("POST", "/v1/stomp", **{**by, **headers}).status == status
