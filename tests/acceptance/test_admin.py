"""/admin: JSON requests, answered as JSON to their reply-to (contract 2, docs/OPERATING.md)."""

import base64
import json
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, adds_up
from tests.acceptance.wire import Wire

CONFIG = """\
[create]
queues = true
topics = true
[queue."memory.#"]
persistent = false
[queue."declared"]
[fanout."events"]
children = ["a", "b"]
"""


@pytest.fixture(params=["durable", "memory"])
def queue(request: pytest.FixtureRequest, name: str) -> str:
    return f"/queue/{request.param}.{name}"


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    return dict(json.loads(wire.admin(json.dumps(request).encode())))


def fill(wire: Wire, queue: str, count: int) -> None:
    for number in range(count):
        wire.send(queue, f"m{number}")


def short(queue: str) -> str:
    return queue.removeprefix("/queue/")


def test_answer_is_json_with_the_request_s_correlation_id(wire: Wire) -> None:
    headers = {"destination": "/admin", "reply-to": "/temp-queue/a", "correlation-id": "c:1"}
    wire.send_frame("SEND", headers, b'{"do": "stats"}')
    answer = wire.message()
    assert answer["content-type"] == "application/json"
    assert answer["correlation-id"] == "c:1"
    assert answer["subscription"] == "/temp-queue/a"
    assert json.loads(answer.body)["ok"] is True


def test_request_without_reply_to_is_receipted(wire: Wire) -> None:
    wire.send("/admin", b'{"do": "stats"}')


def test_stats_have_every_number(wire: Wire, queue: str) -> None:
    fill(wire, queue, 2)
    wire.subscribe(queue)
    wire.ack(wire.message())
    wire.message()
    answer = ask(wire, do="stats")
    assert {
        "version",
        "store_id",
        "boot",
        "uptime_s",
        "connections",
        "subscriptions",
        "transactions",
        "parked",
    } <= answer.keys()
    assert {"memory_bytes", "batches", "store", "counters", "queues", "fanouts", "topics"} <= answer.keys()
    assert {"used_bytes", "map_size", "high_water_bytes", "disk_free_bytes", "disk_free_min"} <= answer["store"].keys()
    numbers = answer["queues"][short(queue)]
    assert adds_up(numbers)
    assert numbers["persistent"] is (short(queue).startswith("durable"))
    assert (numbers["messages"], numbers["unacked"], numbers["consumers"]) == (1, 1, 1)
    assert (numbers["accepted"], numbers["acked"]) == (2, 1)
    assert (numbers["accepted_bytes"], numbers["stored_bytes"], numbers["acked_bytes"]) == (4, 2, 2)
    assert answer["connections"] >= 1


def test_queues_names_each_queue(wire: Wire, queue: str) -> None:
    fill(wire, queue, 1)
    found = {one["name"]: one for one in ask(wire, do="queues")["queues"]}
    assert found[short(queue)]["messages"] == 1
    assert found["declared"]["persistent"] is True


def test_peek_shows_and_changes_nothing(wire: Wire, queue: str) -> None:
    wire.send(queue, "text", {"colour": "red", "clock": "12:30"})
    wire.send(queue, b"\xff\x00")
    wire.subscribe(queue)
    taken = wire.message()
    text, binary = ask(wire, do="peek", queue=short(queue))["messages"]
    assert text["message_id"] == taken["message-id"]
    assert text["destination"] == queue
    assert text["headers"] == [["colour", "red"], ["clock", "12:30"]]
    assert (text["body"], text["redelivered"], text["state"]) == ("text", False, "unacked")
    assert text["timestamp"] == int(taken["timestamp"])
    assert binary["body"] is None
    assert base64.b64decode(binary["body_base64"]) == b"\xff\x00"
    assert binary["state"] == "ready"
    wire.ack(taken)
    assert wire.message().body == b"\xff\x00"


@pytest.mark.parametrize(("count", "shown"), [(None, 10), (3, 3), (15, 12), (1000, 12)])
def test_peek_shows_as_many_as_asked_for(wire: Wire, queue: str, count: int | None, shown: int) -> None:
    fill(wire, queue, 12)
    more = {} if count is None else {"count": count}
    messages = ask(wire, do="peek", queue=short(queue), **more)["messages"]
    assert [one["body"] for one in messages] == [f"m{number}" for number in range(shown)]


@pytest.mark.parametrize("count", [0, -1, 1001, "3", 1.5, True])
def test_peek_with_a_senseless_count_is_refused(wire: Wire, queue: str, count: object) -> None:
    fill(wire, queue, 1)
    answer = ask(wire, do="peek", queue=short(queue), count=count)
    assert answer["ok"] is False
    assert "count" in answer["error"]


def test_purge_spares_what_is_in_flight(wire: Wire, connect: Connect, queue: str) -> None:
    fill(wire, queue, 5)
    reader = connect()
    reader.subscribe(queue)
    taken = reader.message()
    assert ask(wire, do="purge", queue=short(queue)) == {"ok": True, "purged": 4}
    numbers = ask(wire, do="stats")["queues"][short(queue)]
    assert (numbers["purged"], numbers["messages"]) == (4, 1)
    reader.nack(taken)
    assert reader.message().body == b"m0"


def test_purge_of_a_long_queue_is_whole(wire: Wire, queue: str) -> None:
    for _ in range(2500):
        wire.send_frame("SEND", {"destination": queue}, b"x")
    wire.fence()
    assert ask(wire, do="purge", queue=short(queue))["purged"] == 2500
    numbers = ask(wire, do="stats")["queues"][short(queue)]
    assert (numbers["messages"], numbers["bytes"]) == (0, 0)


def test_delete_takes_the_queue_and_what_is_in_it(wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    assert ask(wire, do="delete", queue=short(queue)) == {"ok": True, "deleted": 3}
    assert short(queue) not in ask(wire, do="stats")["queues"]
    wire.send(queue, "new")
    wire.subscribe(queue, ack="auto")
    assert wire.message().body == b"new"


def test_delete_is_refused_while_in_use_or_declared(wire: Wire, connect: Connect, queue: str) -> None:
    fill(wire, queue, 1)
    reader = connect()
    reader.subscribe(queue)
    message = reader.message()
    assert ask(wire, do="delete", queue=short(queue))["ok"] is False
    reader.ask("UNSUBSCRIBE", {"id": "0"})
    assert ask(wire, do="delete", queue=short(queue)) == {"ok": True, "deleted": 1}, "unacked or not"
    reader.ack(message)
    answer = ask(wire, do="delete", queue="declared")
    assert answer["ok"] is False
    assert "declared" in answer["error"]


@pytest.mark.parametrize(("count", "moved"), [(None, 4), (2, 2), (9, 4)])
def test_move_moves_what_is_ready(wire: Wire, connect: Connect, queue: str, count: int | None, moved: int) -> None:
    fill(wire, queue, 5)
    reader = connect()
    reader.subscribe(queue)
    reader.message()  # m0 is in flight
    more = {} if count is None else {"count": count}
    answer = ask(wire, do="move", **{"from": short(queue)}, to=f"{short(queue)}-to", **more)
    assert answer == {"ok": True, "moved": moved}
    wire.subscribe(f"{queue}-to", ack="auto")
    assert wire.bodies(moved) == [f"m{number + 1}" for number in range(moved)]
    assert wire.is_silent()
    queues = ask(wire, do="stats")["queues"]
    assert adds_up(queues[short(queue)])
    assert queues[short(queue)]["messages"] == 5 - moved


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"\xff",
        b"{}",
        b'{"do": "explode"}',
        b'{"do": 1}',
        b'{"do": "peek"}',
        b'{"do": "peek", "queue": 1}',
        b'{"do": "peek", "queue": "no such queue"}',
        b'{"do": "purge", "queue": "no such queue"}',
        b'{"do": "delete", "queue": "no such queue"}',
        b'{"do": "move", "from": "no such queue", "to": "x"}',
        b'{"do": "move", "from": "declared", "to": "declared"}',
        b'{"do": "move", "from": "declared"}',
        b"[" * 60_000,
    ],
)
def test_wrong_request_is_answered_and_nobody_is_closed(wire: Wire, body: bytes) -> None:
    answer = json.loads(wire.admin(body))
    assert answer["ok"] is False
    assert answer["code"]
    assert answer["error"].endswith((".", "!", "?"))
    assert ask(wire, do="stats")["ok"] is True


def test_hostile_names_travel_through_stats(wire: Wire, connect: Connect) -> None:
    hostile = '/queue/"quoted" \\ back / ünï\U0001f600 <b>'
    wire.send(hostile, "x")
    assert short(hostile) in ask(wire, do="stats")["queues"]
