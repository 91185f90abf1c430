"""Exchanges and durable subscriptions from outside, over a real wire and a real disk."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, queues_that_do_not_add_up
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[exchange."orders"]
type = "topic"
bindings = [{{ key = "*.new", queue = "new" }}, {{ key = "#", queue = "audit" }}]
"""

DURABLE = {"durable": "true", "auto-delete": "false"}


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    answer = json.loads(wire.admin(json.dumps(request).encode()))
    assert answer["ok"], answer
    return dict(answer)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_configured_exchange_routes_by_its_bindings(connect: Connect, version: str) -> None:
    wire = connect(version)
    wire.subscribe("/queue/new", "new", ack="auto")
    wire.subscribe("/queue/audit", "audit", ack="auto")
    wire.send("/exchange/orders/eu.new", "1")
    wire.send("/exchange/orders/eu.paid", "2")
    found = sorted((frame["subscription"], frame["destination"], frame.body) for frame in wire.messages(3))
    assert found == [
        ("audit", "/exchange/orders/eu.new", b"1"),
        ("audit", "/exchange/orders/eu.paid", b"2"),
        ("new", "/exchange/orders/eu.new", b"1"),
    ]


def test_declared_and_bound_at_run_time(wire: Wire, name: str) -> None:
    assert ask(wire, do="declare", exchange=name, type="direct")["created"]
    assert ask(wire, do="declare", queue=name)["created"]
    assert ask(wire, do="bind", exchange=name, key="a/b", queue=name)["created"]
    wire.subscribe(f"/queue/{name}", ack="auto")
    wire.send(f"/exchange/{name}/a/b", "1", {"mandatory": "true"})
    assert wire.message()["destination"] == f"/exchange/{name}/a/b"
    wire.send(f"/exchange/{name}/a", "dropped")
    assert ask(wire, do="unbind", exchange=name, key="a/b", queue=name)["deleted"] == 1
    wire.send_frame("SEND", {"destination": f"/exchange/{name}/a/b", "mandatory": "true"})
    assert wire.refusal()["code"] == "no-subscriber"


def test_immediate_is_refused_without_a_consumer(connect: Connect, queue: str) -> None:
    consumer, sender, late = connect(), connect(), connect()
    consumer.subscribe(queue, ack="client-individual")
    sender.send(queue, "1", {"immediate": "true"})
    message = consumer.message()
    sender.send_frame("SEND", {"destination": queue, "immediate": "true"})
    assert sender.refusal()["code"] == "no-consumer"
    consumer.ack(message)
    late.send(queue, "2", {"immediate": "true"})
    assert consumer.message().body == b"2"


def test_subscriber_of_an_exchange_has_a_queue_of_its_own(connect: Connect) -> None:
    one, two, sender = connect(), connect(), connect()
    one.subscribe("/exchange/amq.topic/mine.*")
    two.subscribe("/exchange/amq.topic/mine.#", ack="auto")
    for body in ("1", "2"):
        sender.send("/exchange/amq.topic/mine.x", body)
    assert two.bodies(2) == ["1", "2"]
    first = one.message()
    assert first.body == b"1" and one.is_silent()
    one.nack(first)
    again = one.message()
    assert (again.body, again["redelivered"]) == (b"1", "true")
    one.ack(again)
    assert one.message().body == b"2"


@pytest.mark.slow
def test_durable_subscription_lasts_over_kills_until_its_end(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, CONFIG)

    def connected() -> Wire:
        wire = Wire((broker.host, broker.port))
        wire.connect()
        return wire

    places = {"/topic/t.*": "/topic/t.a", "/exchange/orders/x.#": "/exchange/orders/x.y"}
    with broker:
        for address in places:
            connected().subscribe(address, "id/1", headers=DURABLE)
        broker.kill()
    with broker:
        wire = connected()
        for to in places.values():
            wire.send(to, "collected")
        broker.kill()
    with broker:
        for address in places:
            wire = connected()
            wire.subscribe(address, "id/1", headers=DURABLE)
            wire.ack(wire.message())
            wire.ask("UNSUBSCRIBE", {"id": "id/1", **DURABLE})
        broker.kill()
    with broker:
        wire = connected()
        queues = ask(wire, do="stats")["queues"]
        assert not [name for name in queues if name.startswith("$durable/")]
        for to in places.values():
            wire.send(to, "not collected")
        assert queues_that_do_not_add_up(broker) == []
        assert broker.stop() == 0
