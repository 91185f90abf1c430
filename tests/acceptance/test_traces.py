"""The headers of W3C Trace Context pass through the broker, whichever way a message comes and goes, and the journal has
what they say.
"""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.acceptance.test_metrics import WEB, web_port
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess

CONFIG = WEB + '[fanout.f]\nchildren = ["a", "b"]\n[queue.a]\n[queue.b]\n' + EVERYTHING_MAY_BE_CREATED
TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "shop=t61rcWkgMzE,congo=a:b",
}


def asked(broker: BrokerProcess, path: str, body: bytes, headers: dict[str, str]) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", web_port(broker), timeout=20)
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status in (200, 201), answer
    return answer


def traced(headers: Any) -> dict[str, str]:
    return {name: value for name, value in dict(headers).items() if name.startswith("trace")}


def test_from_http_to_stomp_through_a_fanout(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker, Client(broker.address) as client:
        asked(broker, "/v1/fanouts/f/messages", b"x", {"Content-Type": "text/plain", **TRACE})
        for queue in ("a", "b"):
            client.subscribe(f"/queue/{queue}")
            assert traced(client.receive(10).headers) == TRACE


def test_the_journal_has_the_trace_of_each_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIG + "[journal]\nenabled = true\n"
    with BrokerProcess(tmp_path, config) as broker, Client(broker.address) as client:
        asked(broker, "/v1/fanouts/f/messages", b"x", {"Content-Type": "text/plain", **TRACE})
        client.send("/queue/c", "x", headers=TRACE)
        client.send("/queue/c", "x", headers={"traceparent": "00-1-2-01"})
        asked(broker, "/v1/queues/d/messages", b"x", {"Content-Type": "text/plain"})
        client.subscribe("/log/journal", headers={"from": "earliest"})
        traces: dict[str, list[str | None]] = {}
        while "d" not in traces:
            record = json.loads(client.receive(10).body)
            if record["event"] == "accepted":
                traces.setdefault(record["queue"], []).append(record.get("traceparent"))
            else:
                assert "traceparent" not in record
        assert main(["explain", "--data", str(broker.data_dir), "--trace", TRACE["traceparent"], "--json"]) == 0
    trace = TRACE["traceparent"]
    assert traces == {"a": [trace], "b": [trace], "c": [trace, None], "d": [None]}
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["queue"] for event in found if event["event"] == "accepted"] == ["a", "b", "c"]


def test_the_journal_is_read_over_http(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG + "[journal]\nenabled = true\n") as broker:
        asked(broker, "/v1/queues/a/messages", b"x", {"Content-Type": "text/plain", **TRACE})
        connection = http.client.HTTPConnection("127.0.0.1", web_port(broker), timeout=20)
        connection.request("GET", "/v1/logs/journal/events?from=earliest")
        lines = iter(connection.getresponse().readline, b"")
        records = (json.loads(json.loads(line[6:])["body"]) for line in lines if line.startswith(b"data: "))
        accepted = next(record for record in records if record["event"] == "accepted")
        connection.close()
    assert (accepted["queue"], accepted["traceparent"]) == ("a", TRACE["traceparent"])


def test_the_journal_has_the_correlation_id_of_each_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exchange = '[exchange.x]\ntype = "topic"\n[queue.d]\n'
    config = CONFIG + exchange + "[journal]\nenabled = true\n[queue.m]\npersistent = false\n"
    name = {"correlation-id": "task:7"}
    with BrokerProcess(tmp_path, config) as broker, Client(broker.address) as client:
        client.admin({"do": "bind", "exchange": "x", "key": "#", "queue": "d"})
        plain = {"Content-Type": "text/plain", "Correlation-Id": "task:7"}
        asked(broker, "/v1/fanouts/f/messages", b"x", plain)
        asked(broker, "/v1/exchanges/x/messages?key=k", b"x", plain)
        batch = {"messages": [{"body": "y", "headers": name}, {"body": "z"}]}
        asked(broker, "/v1/queues/c/messages", json.dumps(batch).encode(), {"Content-Type": "application/json"})
        for to in ("/queue/e", "/queue/m", "/topic/none"):
            client.send(to, "x", headers=name)
        client.send("/queue/e", "x", headers={"correlation-id": "x" * 256})
        client.subscribe("/queue/e", ack="client-individual")
        message = client.receive(10)
        assert message.headers["correlation-id"] == "task:7"
        client.ack(message)
        assert main(["explain", "--data", str(broker.data_dir), "--correlation-id", "task:7", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    accepted = [(one["queue"], one["address"], one["correlation_id"]) for one in found if one["event"] == "accepted"]
    assert accepted == [
        ("a", "/fanout/f", "task:7"), ("b", "/fanout/f", "task:7"), ("d", "/exchange/x/k", "task:7"),
        ("c", "", "task:7"), ("e", "", "task:7"),
    ]  # fmt: skip
    assert [one["event"] for one in found if one["queue"] == "e"] == ["accepted", "delivered", "acked"]


def test_from_stomp_to_http_and_in_a_batch(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker, Client(broker.address) as client:
        client.send("/queue/a", "x", headers=TRACE)
        batch = {"messages": [{"body": "y", "headers": TRACE}, {"body": "z"}]}
        asked(broker, "/v1/queues/a/messages", json.dumps(batch).encode(), {"Content-Type": "application/json"})
        body = json.dumps({"max": 3}).encode()
        found = asked(broker, "/v1/queues/a/receive", body, {"Content-Type": "application/json"})["messages"]
        assert [traced(one["headers"]) for one in found] == [TRACE, TRACE, {}]


def test_in_a_batch_the_headers_of_the_request_are_of_no_message(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker, Client(broker.address) as client:
        body = json.dumps({"messages": [{"body": "x"}]}).encode()
        asked(broker, "/v1/queues/a/messages", body, {"Content-Type": "application/json", **TRACE})
        client.subscribe("/queue/a")
        assert traced(client.receive(10).headers) == {}
