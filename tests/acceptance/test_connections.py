"""Who is connected, and what is out with whom, as operators see it over HTTP; and the end of one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from radiator.client import Client
from radiator.model.errors import Refusal
from tests.acceptance.wire import Gone, Wire
from tests.nodes.cluster import Nodes, mesh
from tests.server.test_stomp_over_http import CONNECT, HttpStomp
from tests.server.web import SECRET, USERS, WebBroker, WebClient, basic, port_of

OPERATOR = basic("ann")
JSON = "application/json"
QUEUES = '[queue.timed]\nack_timeout_s = 30\n[queue.keyed]\npartition_key = "header:key"\n[log.clicks]\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("broker"), USERS + QUEUES) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def web(broker: WebBroker) -> Iterator[WebClient]:
    with broker.client() as client:
        # The broker has accepted it by this answer, so what a test opens now has a higher number: two listeners whose
        # connections wait at the same time are served in any order.
        ask(client, "/v1/queues")
        yield client


def ask(web: WebClient, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> dict[str, Any]:
    text, kind = (b"", None) if body is None else (json.dumps(body).encode(), JSON)
    answer = web.ask(method, path, text, Authorization=OPERATOR, Content_Type=kind)
    found: dict[str, Any] = json.loads(answer.body)
    assert found.setdefault("status", answer.status) == answer.status
    return found


def connections(web: WebClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(web, "/v1/connections")["connections"]
    return found


def newest(web: WebClient) -> dict[str, Any]:
    return connections(web)[-1]


def stomp(broker: WebBroker, user: str = "ann", **more: str) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect({"login": user, "passcode": SECRET, **{key.replace("_", "-"): text for key, text in more.items()}})
    return wire


# ---- who is connected -----------------------------------------------------------------------------------------------


def test_each_protocol_is_named_with_its_tls_and_its_user(broker: WebBroker, web: WebClient) -> None:
    with stomp(broker, client_id="shop") as plain:
        row = newest(web)
        port = plain.socket.getsockname()[1]
        assert (row["protocol"], row["tls"], row["client"]) == ("STOMP 1.2", None, "shop")
        assert (row["user"], row["recognised_by"], row["address"]) == ("ann", "password", f"127.0.0.1:{port}")
    with broker.wire() as encrypted:
        encrypted.connect({"login": "bob", "passcode": SECRET})
        row = newest(web)
        assert (row["protocol"], row["tls"], row["client"], row["user"]) == ("STOMP 1.2", "TLSv1.3", None, "bob")
    with broker.client(is_encrypted=True) as https:
        https.ask("GET", "/v1/queues", Authorization=basic("ann"), User_Agent="curl/8")
        row = newest(web)
        assert (row["protocol"], row["tls"], row["client"]) == ("HTTP", "TLSv1.3", "curl/8")
    with connect(f"ws://127.0.0.1:{port_of(broker.log, 'http')}/ws") as page:
        page.send(f"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:{SECRET}\n\n\0")
        assert bytes(page.recv(decode=False)).startswith(b"CONNECTED\n")
        row = newest(web)
        assert (row["protocol"], row["tls"]) == ("STOMP 1.2 over WebSocket", None)
    tunnel = HttpStomp(port_of(broker.log, "http"), OPERATOR)
    tunnel.send(CONNECT)
    assert tunnel.frame().startswith(b"CONNECTED\n")
    row = newest(web)
    assert row["protocol"] == "STOMP 1.2 over HTTP" and row["address"].endswith(" over HTTP")
    tunnel.close()
    with Client(f"stomp+unix:{broker.unix_path}") as local:
        local.admin({"do": "ready"})
        row = newest(web)
        assert row["address"].startswith("unix/pid:") and row["recognised_by"] == "peer-credentials"


def test_one_is_shown_with_what_it_has(broker: WebBroker, web: WebClient) -> None:
    with stomp(broker) as wire:
        wire.subscribe("/queue/held", "s1", headers={"prefetch-count": "5", "consumer-name": "pod\u202e-3"})
        wire.subscribe("/log/clicks", "s2")
        wire.send("/queue/held", "1")
        wire.send("/log/clicks", "2")
        wire.messages(2)
        number = newest(web)["number"]
        found = ask(web, f"/v1/connections/{number}")
        assert (found["unacked"], found["subscriptions"], found["client"]) == (2, 2, "pod\u202e-3")
        by_id = {one["id"]: one for one in found["subscription_list"]}
        assert by_id["s1"] == {
            "id": "s1", "destination": "/queue/held", "ack": "client-individual", "consumer": "pod\u202e-3",
            "window": 5, "unacked": 1, "stands": "has-room",
        }  # fmt: skip
        assert (by_id["s2"]["destination"], by_id["s2"]["unacked"]) == ("/log/clicks", 1)
        page = ask(web, f"/v1/connections?user=ann&after={number - 1}&limit=1")
        assert [one["number"] for one in page["connections"]] == [number] and page["count"] >= 2


@pytest.mark.parametrize(("path", "status", "code"), [
    ("999999999", 404, "no-such-connection"), ("0", 400, "bad-request"), ("999999999999999", 404, "no-such-connection"),
    ("9999999999999999", 400, "bad-request"), ("-1", 400, "protocol"), ("%E2%80%AE1", 400, "protocol"),
])  # fmt: skip
def test_a_number_that_is_none_is_refused(web: WebClient, path: str, status: int, code: str) -> None:
    for method in ("GET", "DELETE"):
        found = ask(web, f"/v1/connections/{path}", method)
        assert (found["status"], found["code"]) == (status, code) and found["detail"].endswith(".")


def test_who_may_not_see_everything_is_refused(broker: WebBroker) -> None:
    with broker.client() as client:
        for method, path in (("GET", "/v1/connections"), ("GET", "/v1/connections/1"), ("DELETE", "/v1/connections/1")):
            assert client.ask(method, path, Authorization=basic("bob")).status == 403
        assert client.ask("GET", "/v1/queues/held/unacked", Authorization=basic("bob")).status == 403


# ---- the end of one -------------------------------------------------------------------------------------------------


def test_a_connection_is_closed_and_its_messages_come_again(broker: WebBroker, web: WebClient) -> None:
    with stomp(broker) as closed, stomp(broker) as other:
        closed.subscribe("/queue/again")
        closed.send("/queue/again", "1")
        assert closed.message().body == b"1"
        number = next(one["number"] for one in connections(web) if one["unacked"])
        answer = ask(web, f"/v1/connections/{number}", "DELETE")
        port = closed.socket.getsockname()[1]
        assert answer == {
            "ok": True, "number": number, "user": "ann", "address": f"127.0.0.1:{port}", "status": 200,
        }  # fmt: skip
        error = closed.read("ERROR")
        assert error["code"] == "disconnected" and b"closed by an operator: 'ann', on connection" in error.body
        with pytest.raises(Gone):
            closed.read_frame()
        other.subscribe("/queue/again")
        message = other.message()
        assert message.body == b"1" and message["redelivered"] == "true"
        other.ack(message)
    broker.wait_for_log(f'act=disconnect on="connection {number}" outcome=done')


def test_one_that_http_keeps_open_is_closed_and_ones_own_is_not(broker: WebBroker, web: WebClient) -> None:
    with broker.client() as kept:
        kept.ask("GET", "/v1/queues", Authorization=OPERATOR, User_Agent="kept")
        number = next(one["number"] for one in connections(web) if one["client"] == "kept")
        assert ask(web, f"/v1/connections/{number}", "DELETE")["ok"] is True
        assert kept.rest() == b""
        own = newest(web)["number"]
        found = ask(web, f"/v1/connections/{own}", "DELETE")
        assert (found["status"], found["code"]) == (409, "own-connection")
        assert ask(web, f"/v1/connections/{own}")["blocked"] is None


# ---- what is out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", ["timed", "keyed"])
def test_what_is_out_is_shown_and_extended(broker: WebBroker, web: WebClient, queue: str) -> None:
    path = f"/v1/queues/{queue}/unacked"
    with stomp(broker) as wire:
        wire.subscribe(f"/queue/{queue}", "s1")
        wire.send(f"/queue/{queue}", "hello", {"key": "a"})
        message_id = wire.message()["message-id"]
        found = ask(web, path)
        (row,) = found["unacked"]
        assert (row["message_id"], row["subscription"], row["user"]) == (message_id, "s1", "ann")
        assert (found["count"], found["next"], row["is_leased"]) == (1, None, False)
        assert ask(web, f"/v1/connections/{row['connection']}")["address"] == row["address"]
        given = {"message_id": message_id, "seconds": 600}
        extended = ask(web, f"{path}/extend", "POST", given)
        if queue == "keyed":
            assert (extended["status"], extended["code"]) == (409, "no-ack-timeout")
            return
        assert extended["due_ms"] > row["due_ms"] + 500_000
        assert abs(ask(web, path)["unacked"][0]["due_ms"] - extended["due_ms"]) < 1000
        wire.ask("UNSUBSCRIBE", {"id": "s1"})
    assert ask(web, f"{path}/extend", "POST", {**given, "message_id": "feedfacecafebeef-1-1"})["status"] == 404
    assert ask(web, f"{path}/extend", "POST", {**given, "seconds": 0})["status"] == 400
    assert ask(web, "/v1/queues/none/unacked")["status"] == 404


def test_a_lease_is_shown_extended_and_settled(broker: WebBroker, web: WebClient) -> None:
    with stomp(broker) as wire:
        wire.send("/queue/leased", "1")
    (message,) = ask(web, "/v1/queues/leased/receive", "POST", {"lease_ms": 5000})["messages"]
    (row,) = ask(web, "/v1/queues/leased/unacked")["unacked"]
    assert row["is_leased"] and row["connection"] is row["address"] is row["subscription"] is None
    assert row["user"] == "ann" and row["message_id"] == message["id"]
    given = {"message_id": message["id"], "seconds": 3600}
    extended = ask(web, "/v1/queues/leased/unacked/extend", "POST", given)
    assert extended["due_ms"] > row["due_ms"] + 3_500_000
    wrong = ask(web, "/v1/queues/leased/unacked/extend", "POST", {**given, "seconds": 43_201})
    assert wrong["status"] == 400 and "a lease is extended by 1 to 43200" in wrong["detail"]
    settled = ask(web, "/v1/settle", "POST", {"settlements": [{"lease": message["lease"], "action": "ack"}]})
    assert settled["verdicts"] == [{"ok": True}]
    assert ask(web, "/v1/queues/leased/unacked")["unacked"] == []


# ---- links ----------------------------------------------------------------------------------------------------------


def test_a_link_is_shown_with_the_node_and_is_not_closed(tmp_path: Path) -> None:
    with Nodes(tmp_path, mesh("ab"), "[create]\nqueues = true\n") as nodes, Client(nodes["a"].address) as client:
        (link,) = (one for one in client.admin({"do": "connections"})["connections"] if one["protocol"] == "peer")
        assert (link["user"], link["recognised_by"], link["client"]) == ("b", "link-proof", None)
        assert client.admin({"do": "connections", "user": "b"})["count"] == 1
        with pytest.raises(Refusal, match=r"link with node b, which .* remove \[peer.b\] from the conf") as refused:
            client.admin({"do": "disconnect", "number": link["number"]})
        assert refused.value.code == "linked"
        (still,) = (one for one in client.admin({"do": "connections"})["connections"] if one["protocol"] == "peer")
        assert still["number"] == link["number"] and still["blocked"] is None
