"""/admin of logs from outside: what is declared, where a group goes on, and who waits for more."""

import json
import time
from typing import Any

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[log."declared"]
partitions = 2
[fanout."events"]
children = ["work", "/log/declared"]
"""


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    return dict(json.loads(wire.admin(json.dumps(request).encode())))


def test_what_is_declared_is_there_after_kill_9(broker: BrokerProcess, connect: Connect, name: str) -> None:
    wire = connect()
    assert ask(wire, do="declare", log=name, partitions=3, partition_key="/a/b")["created"]
    for number in range(5):
        wire.send(f"/log/{name}", json.dumps({"a": {"b": number}}))
    assert ask(wire, do="position", log=name, group="g", offsets=[0, 0, 0])["offsets"] == [0, 0, 0]
    before = ask(wire, do="describe", log=name)
    assert sum(before["partitions"]["next"]) == 5 and before["groups"] == ["g"]
    broker.kill()
    broker.start()
    wire = connect()
    assert ask(wire, do="describe", log=name) == before
    assert ask(wire, do="position", log=name, group="g")["offsets"] == [0, 0, 0]


def test_who_waits_is_told_of_what_is_appended(connect: Connect, name: str) -> None:
    writer, waiter = connect(), connect()
    ask(writer, do="declare", log=name)
    asked = {"do": "await", "log": name, "next": [0], "timeout_ms": 30_000}
    headers = {"destination": "/admin", "reply-to": "/temp-queue/a"}
    waiter.send_frame("SEND", headers, json.dumps(asked).encode())
    began_s = time.monotonic()
    writer.send(f"/log/{name}", "x")
    answer = json.loads(waiter.message().body)
    assert (answer["next"], answer["first"]) == ([1], [0])
    assert time.monotonic() - began_s < 10


def test_who_waits_is_answered_after_its_time(wire: Wire, name: str) -> None:
    ask(wire, do="declare", log=name)
    began_s = time.monotonic()
    assert ask(wire, do="await", log=name, next=[0], timeout_ms=300) == {"ok": True, "next": [0], "first": [0]}
    assert 0.3 <= time.monotonic() - began_s < 5


def test_a_tap_is_described_and_its_times_are_found(wire: Wire) -> None:
    for number in range(3):
        wire.send("/fanout/events", str(number))
    partitions = ask(wire, do="describe", log="declared")["partitions"]
    assert sum(partitions["next"]) == 3
    last_ms = max(ms for ms in partitions["last_ms"] if ms is not None)
    assert ask(wire, do="offsets", log="declared", time_ms=0)["offsets"] == [0, 0]
    assert ask(wire, do="offsets", log="declared", time_ms=last_ms + 1)["offsets"] == partitions["next"]


def test_a_wrong_request_keeps_the_connection(wire: Wire) -> None:
    for request in ({"do": "await", "log": "declared"}, {"do": "describe", "log": "none"}, {"do": "offsets", "log": 5}):
        assert ask(wire, **request)["ok"] is False
    assert ask(wire, do="describe", log="declared")["ok"]
