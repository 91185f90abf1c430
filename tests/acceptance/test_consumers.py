"""Consumers that register, are drained and are counted, over HTTP, with their subscriptions over STOMP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import request
from tests.server.web import OPEN, WebClient, port_of

CONFIG = OPEN + '\n[queue.jobs]\npersistent = %s\npartition_key = "header:customer"\n'
PATH = "/v1/queues/jobs/consumers"


@pytest.fixture(params=["true", "false"], ids=["persistent", "memory"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, CONFIG % request.param) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def web(broker: BrokerProcess) -> Iterator[WebClient]:
    with WebClient(port_of(broker.log, "http")) as client:
        yield client


def register(web: WebClient, name: str, **more: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"name": name, **more}).encode()
    answer = web.ask("POST", PATH, body, content_type="application/json")
    return answer.status, json.loads(answer.body)


def consumers(web: WebClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(web.ask("GET", PATH).body)["consumers"]
    return found


def drain(web: WebClient, name: str, wait_ms: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(web.ask("DELETE", f"{PATH}/{name}?wait_ms={wait_ms}").body)
    return found


def test_a_consumer_from_its_registration_to_its_end(broker: BrokerProcess, web: WebClient) -> None:
    status, answer = register(web, "pod-3", ready=False)
    assert (status, answer["share"]) == (201, 1.0)
    with Client(broker.address, answer_timeout_s=10) as client:
        client.send("/queue/jobs", b"1", headers={"customer": "a"})
        subscribe = answer["subscribe"]
        client.subscribe(
            subscribe["destination"], ack="client-individual", consumer_name=subscribe["consumer-name"], prefetch=5
        )
        assert client.receive(0.3) is None
        assert register(web, "pod-3")[0] == 200
        message = client.receive(5)
        assert message is not None and message.body == b"1"
        (row,) = consumers(web)
        assert (row["name"], row["unacked"], row["keys"], row["lease_left_ms"]) == ("pod-3", 1, 1, None)
        assert drain(web, "pod-3", 300) == {"ok": True, "drained": False, "unacked": 1}
        client.ack(message)
        client.send("/queue/jobs", b"2", headers={"customer": "b"})
        assert drain(web, "pod-3", 10_000) == {"ok": True, "drained": True, "unacked": 0}
        assert client.receive(0.3) is None
    scale = json.loads(web.ask("GET", "/v1/queues/jobs/scale").body)
    assert (scale["backlog"], scale["active_keys"], scale["useful_consumers"]) == (1, 1, 1)


def test_a_newer_subscription_takes_a_name_over(broker: BrokerProcess) -> None:
    with Client(broker.address, answer_timeout_s=10) as old, Client(broker.address, answer_timeout_s=10) as new:
        old.subscribe("/queue/jobs", consumer_name="pod-3")
        new.subscribe("/queue/jobs", consumer_name="pod-3")
        broker.wait_for_log("consumer_replaced")
        for number in range(5):
            new.send("/queue/jobs", b"x", headers={"customer": str(number)})
        assert sum(new.receive(5) is not None for _ in range(5)) == 5 and old.receive(0.2) is None


def test_a_drain_waits_for_what_is_acked_behind_its_unsubscribe(broker: BrokerProcess, web: WebClient) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.subscribe("/queue/jobs", headers={"consumer-name": "pod-3"})
        wire.send("/queue/jobs", "1", {"customer": "a"})
        message = wire.message()
        web.send(request("DELETE", f"{PATH}/pod-3?wait_ms=10000"))
        with WebClient(port_of(broker.log, "http")) as other:
            while not consumers(other)[0]["draining"]:
                pass
        wire.ask("UNSUBSCRIBE", {"id": "0"})
        web.socket.settimeout(0.6)
        with pytest.raises(TimeoutError):
            web.answer()
        wire.ask("ACK", {"id": message["ack"]})
        web.socket.settimeout(10)
        assert json.loads(web.answer().body) == {"ok": True, "drained": True, "unacked": 0}


def test_what_is_wrong_is_a_problem_with_a_sentence(web: WebClient) -> None:
    assert register(web, "")[0] == 400 and register(web, "p", lease_ms=1)[0] == 400
    wrong = web.ask("GET", "/v1/queues/none/scale")
    assert wrong.status == 404 and json.loads(wrong.body)["code"] == "no-such-destination"
