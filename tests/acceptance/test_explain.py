"""`explain` of a running broker on a real disk, over STOMP and HTTP: as `radiator explain` tells it beside it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.server.web import HASH, OPEN, WebClient, basic, port_of

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
CONFIG = (
    OPEN
    + """
[journal]
enabled = true
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 1
[queue."orders.dead"]
[queue.mail]
"""
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def lived(broker: BrokerProcess, **headers: str) -> str:
    """The message-id of one that has become a dead letter, and was moved then."""
    with Client(broker.address, answer_timeout_s=10) as client:
        client.send("/queue/orders", b"poison", headers=headers)
        client.subscribe("/queue/orders", ack="client-individual")
        for _ in range(2):
            message = client.receive(5)
            assert message is not None
            client.nack(message)
        client.admin({"do": "move", "from": "orders.dead", "to": "mail"})
        return message.headers["message-id"]


def over_http(broker: BrokerProcess, query: str, **headers: str) -> tuple[int, dict[str, Any]]:
    with WebClient(port_of(broker.log, "http")) as web:
        answer = web.ask("GET", f"/v1/explain?{query}", **headers)
        return answer.status, json.loads(answer.body)


def beside(broker: BrokerProcess, capsys: pytest.CaptureFixture[str], *asked: str) -> list[dict[str, Any]]:
    """What the command prints, which reads the store by itself."""
    assert main(["explain", "--data", str(broker.data_dir), "--json", *asked]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_story_is_the_same_over_stomp_over_http_and_beside_the_broker(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lived(broker)
    with Client(broker.address, answer_timeout_s=10) as client:
        answer = client.admin({"do": "explain", "message": one})
    assert over_http(broker, f"message={one}") == (200, answer)
    assert answer["events"] == beside(broker, capsys, one)
    assert [event["event"] for event in answer["events"] if event["message_id"] == one] == [
        "accepted", "delivered", "nacked", "delivered", "nacked", "dead-lettered",
    ]  # fmt: skip
    assert [event["event"] for event in answer["events"]].count("accepted") == 3


def test_a_traces_story_is_the_same_beside_the_broker(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        lived(broker, traceparent=TRACEPARENT)
    status, answer = over_http(broker, f"trace={TRACE_ID}")
    assert status == 200 and len({event["message_id"] for event in answer["events"]}) == 9
    assert answer["events"] == beside(broker, capsys, "--trace", TRACE_ID)
    assert over_http(broker, f"trace={TRACEPARENT}") == (200, answer)


def test_a_correlation_ids_story_is_the_same_beside_the_broker(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("task 7: größe", "task 7: größe", "task 7"):
        lived(broker, **{"correlation-id": name})
    status, answer = over_http(broker, f"correlation_id={quote('task 7: größe')}")
    assert status == 200 and len({event["message_id"] for event in answer["events"]}) == 6
    names = [event["correlation_id"] for event in answer["events"]]
    assert {*names} == {"", "task 7: größe"} and names.count("task 7: größe") == 6
    assert answer["events"] == beside(broker, capsys, "--correlation-id", "task 7: größe")


def test_what_has_its_receipt_is_told_at_once(broker: BrokerProcess) -> None:
    """Though the tables have it up to half a second later."""
    with Client(broker.address, answer_timeout_s=10) as client, WebClient(port_of(broker.log, "http")) as web:
        client.subscribe("/queue/quick", ack="client-individual")
        for _ in range(20):
            client.send("/queue/quick", b"x")
            message = client.receive(5)
            assert message is not None
            client.ack(message)
            began_s = time.monotonic()
            answer = web.ask("GET", f"/v1/explain?message={message.headers['message-id']}")
            events = [event["event"] for event in json.loads(answer.body)["events"]]
            assert events == ["accepted", "delivered", "acked"], events
            assert time.monotonic() - began_s < 5


def test_a_story_survives_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        broker.wait_for_log("listening address=http://")
        one = lived(broker)
        _, answer = over_http(broker, f"message={one}")
        broker.kill()
        since = len(broker.log.splitlines())
        broker.start()
        broker.wait_for_log("listening address=http://", since=since)
        assert over_http(broker, f"message={one}") == (200, answer)


@pytest.mark.parametrize(("query", "status", "code", "sentence"), [
    ("", 400, "bad-request", "`explain` names one of message, trace, correlation_id; this has none."),
    (f"message=a-1-1&trace={TRACE_ID}", 400, "bad-request", "names one of message, trace, correlation_id"),
    ("message=a-1-1&correlation_id=c", 400, "bad-request", "names one of message, trace, correlation_id"),
    ("correlation_id=", 400, "bad-request", "`correlation_id` '' has 0 bytes; the journal keeps a correlation-id of 1"),
    (f"correlation_id={'x' * 256}", 400, "bad-request", "has 256 bytes; the journal keeps a correlation-id of 1 to"),
    (f"correlation_id={'x' * 255}", 404, "no-events", "The journal tells nothing of the correlation-id 'xxx"),
    ("message=nonsense", 400, "bad-request", "`message` 'nonsense' is not a message-id; one looks like"),
    ("trace=nonsense", 400, "bad-request", "`trace` 'nonsense' is not a trace id; one is 32 hexadecimal digits"),
    ("message=a-1-1&limit=1001", 400, "bad-request", "`limit` must be a whole number from 1 to 1000; it is 1001."),
    ("message=a-1-1&limit=x", 400, "protocol", "limit is 'x'; it must be a whole number."),
    ("message=a-1-1", 404, "no-events", "It is of store a, and this is store "),
    (f"trace={'1' * 32}", 404, "no-events", f"The journal tells nothing of trace {'1' * 32}."),
])  # fmt: skip
def test_what_cannot_be_told_is_a_problem(
    broker: BrokerProcess, query: str, status: int, code: str, sentence: str
) -> None:
    found = over_http(broker, query)
    assert (found[0], found[1]["code"]) == (status, code) and sentence in found[1]["detail"], found


def test_without_a_journal_it_is_said_how_to_get_one(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, OPEN) as broker:
        broker.wait_for_log("listening address=http://")
        status, problem = over_http(broker, "message=a-1-1")
        assert (status, problem["code"]) == (404, "no-journal") and "enabled = true" in problem["detail"]


def test_only_who_may_read_the_journal_is_told(tmp_path: Path) -> None:
    users = "".join(
        f'[user.{name}]\npassword = "{HASH}"\n{rules}\n'
        for name, rules in {
            "reader": 'read = ["/log/journal"]',
            "operator": 'role = "operator"',
            "viewer": 'role = "viewer"',
            "logs": 'read = ["/log/#", "/queue/#"]\nsee = ["/#"]\nwrite = ["/#"]',
        }.items()
    )
    with BrokerProcess(tmp_path, CONFIG + users) as broker:
        broker.wait_for_log("listening address=http://")
        for name, may in (("reader", True), ("operator", True), ("viewer", False), ("logs", False)):
            for query in ("message=a-1-1", f"trace={TRACE_ID}", "correlation_id=c"):
                status, problem = over_http(broker, query, Authorization=basic(name))
                assert (status, problem["code"]) == ((404, "no-events") if may else (403, "forbidden")), name
        assert over_http(broker, "message=a-1-1")[0] == 401
