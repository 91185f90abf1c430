"""Prepared transactions from outside: kept over a kill, carried out once, waiting where there is no room."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, adds_up, queue_stats, stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
topics = true
[queue."small.#"]
max_messages = 3
[queue."once.#"]
dedup_window_s = 600
[queue."memory.#"]
persistent = false
[fanout."both"]
children = ["left", "right"]
[log."events"]
partitions = 2
"""

T = {"transaction": "t"}
WIDE = {"prefetch-count": "10000"}


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    return dict(json.loads(wire.admin(json.dumps(request).encode())))


def prepare(wire: Wire, name: str, *sends: tuple[str, str] | tuple[str, str, dict[str, str]]) -> None:
    wire.ask("BEGIN", T)
    for destination, body, *more in sends:
        headers = {"destination": destination, **T, **(more[0] if more else {})}
        wire.send_frame("SEND", headers, body.encode())
    wire.ask("COMMIT", {**T, "prepare": name})


def commit(wire: Wire, name: str, version: int, app: str = "") -> None:
    wire.ask("COMMIT", {"transaction": name, "producer-id": app or f"app-{name}", "txn-version": str(version)})


def bodies(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def await_end(wire: Wire) -> None:
    """Until all that is committed is in its destinations."""
    until_s = time.monotonic() + 10
    while any(one["is_committed"] for one in ask(wire, do="prepared")["prepared"]):
        assert time.monotonic() < until_s, ask(wire, do="prepared")
        time.sleep(0.02)


def test_it_is_carried_out_by_another_connection_and_once(connect: Connect, wire: Wire, queue: str, name: str) -> None:
    prepare(wire, name, *((queue, body) for body in bodies(1000)))
    wire.close()
    other = connect()
    other.subscribe(queue, ack="auto")
    assert other.is_silent()
    for _ in range(3):
        commit(other, name, 7)
    assert other.bodies(1000) == bodies(1000) and other.is_silent()
    assert ask(other, do="version", app=f"app-{name}")["version"] == 7


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_version_of_the_protocol_has_it(connect: Connect, queue: str, name: str, version: str) -> None:
    wire = connect(version)
    prepare(wire, name, (queue, "x"))
    commit(wire, name, 1)
    wire.subscribe(queue)
    assert wire.bodies(1) == ["x"]


def test_fanouts_exchanges_logs_and_memory_queues_are_reached(connect: Connect, wire: Wire, name: str) -> None:
    assert ask(wire, do="declare", queue="bound")["ok"]
    assert ask(wire, do="bind", exchange="amq.direct", key=name, queue="bound")["created"]
    targets = ["/fanout/both", f"/exchange/amq.direct/{name}", "/log/events", f"/queue/memory.{name}"]
    log = connect()
    log.subscribe("/log/events", ack="auto", headers={"from": "latest"})
    prepare(wire, name, *((target, target) for target in targets))
    commit(wire, name, 1)
    for queue, wanted in (("left", 0), ("right", 0), ("bound", 1), (f"memory.{name}", 3)):
        wire.subscribe(f"/queue/{queue}", id=queue, ack="auto")
        assert wire.bodies(1) == [targets[wanted]]
    assert log.bodies(1) == ["/log/events"]


def test_several_are_committed_at_once(wire: Wire, queue: str, name: str) -> None:
    names = [f"{name}-{number}" for number in range(20)]
    for one in names:
        prepare(wire, one, (queue, one), (queue, one))
    assert ask(wire, do="commit", prepared=names, app=name, version=3) == {
        "ok": True,
        "committed": True,
        "messages": 40,
    }
    await_end(wire)
    assert ask(wire, do="commit", prepared=names, app=name, version=3)["committed"] is False
    wire.subscribe(queue, headers=WIDE)
    assert sorted(wire.bodies(40)) == sorted(names * 2) and wire.is_silent()


def test_a_name_in_use_and_one_that_is_not_there(connect: Connect, wire: Wire, queue: str, name: str) -> None:
    prepare(wire, name, (queue, "x"))
    wire.ask("BEGIN", T)
    wire.begin_ask("COMMIT", {**T, "prepare": name})
    assert wire.refusal()["code"] == "prepared"
    other = connect()
    other.begin_ask("COMMIT", {"transaction": f"{name}-none", "txn-app-id": "a", "txn-version": "1"})
    assert other.refusal()["code"] == "not-prepared"
    third = connect()
    assert ask(third, do="abort", prepared=[name, "none"])["aborted"] == 1
    third.begin_ask("COMMIT", {"transaction": name, "txn-app-id": "a", "txn-version": "1"})
    assert third.refusal()["code"] == "not-prepared"


@pytest.mark.parametrize("destination", ["/topic/t", "/temp-queue/t"])
def test_what_cannot_be_prepared_is_refused(wire: Wire, destination: str, name: str) -> None:
    wire.ask("BEGIN", T)
    wire.ask("SEND", {"destination": destination, **T})
    wire.begin_ask("COMMIT", {**T, "prepare": name})
    assert wire.refusal()["code"] == "not-preparable"


def test_a_full_queue_is_waited_for(broker: BrokerProcess, connect: Connect, wire: Wire, name: str) -> None:
    queue = f"/queue/small.{name}"
    prepare(wire, name, *((queue, body) for body in bodies(200)))
    commit(wire, name, 1)
    (one,) = [one for one in ask(wire, do="prepared")["prepared"] if one["name"] == name]
    assert one["is_committed"] and one["messages"] == 200 and queue in (one["waits"] or queue)
    reader = connect()
    reader.subscribe(queue, ack="client-individual")
    got = []
    for _ in range(200):
        message = reader.message()
        got.append(message.body.decode())
        reader.ack(message)
    assert got == bodies(200)
    await_end(wire)
    assert adds_up(queue_stats(broker, queue))


def test_dedup_ids_of_a_writer_that_retries_everything(wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    for attempt in range(3):
        prepare(wire, f"{name}-{attempt}", *((queue, body, {"dedup-id": body}) for body in bodies(700)))
        commit(wire, f"{name}-{attempt}", attempt, app=name)
    await_end(wire)
    wire.subscribe(queue, headers=WIDE)
    assert wire.bodies(700) == bodies(700) and wire.is_silent()


# ---- over a kill ----------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    yield BrokerProcess(tmp_path, CONFIG)


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def committed_of(wire: Wire) -> list[str]:
    """The names of those that are committed, and not completely in their destinations by the open batch."""
    return [one["name"] for one in ask(wire, do="prepared")["prepared"] if one["is_committed"]]


@pytest.mark.slow
def test_prepared_committed_and_applied_over_kills(own: BrokerProcess) -> None:
    count = 5000
    with own:
        wire = connected(own)
        prepare(wire, "p", *(("/queue/a", body) for body in bodies(count)))
        prepare(wire, "q", ("/queue/b", "x"))
        own.kill()
    with own:
        wire = connected(own)
        assert [one["name"] for one in ask(wire, do="prepared")["prepared"]] == ["p", "q"]
        commit(wire, "p", 1, app="app")
        own.kill()
    kills = 0
    while True:
        with own:
            wire = connected(own)
            if not committed_of(wire):
                break
            kills += 1
            time.sleep(0.003 * kills)  # later each time: one that is killed before its first commit comes nowhere
            own.kill()
    with own:
        wire = connected(own)
        # the kill at the end of the loop may have come before the last slice was committed: then it comes now
        while committed_of(wire):
            time.sleep(0.01)
        commit(wire, "p", 1, app="app")
        numbers = stats(own)["queues"]["a"]
        assert numbers["accepted"] == count and adds_up(numbers)
        wire.subscribe("/queue/a", ack="client", headers=WIDE)
        assert wire.bodies(count) == bodies(count) and wire.is_silent()
        assert own.stop() == 0, own.log
