"""Checkout from outside: taken under consecutive numbers, read as often as wanted, acked, released; over a kill too."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, adds_up, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[queue."memory.#"]
persistent = false
"""


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    return dict(json.loads(wire.admin(json.dumps(request).encode())))


def fill(wire: Wire, queue: str, first: int, end: int) -> None:
    for number in range(first, end):
        wire.send_frame("SEND", {"destination": queue, "n": str(number)}, b"body %d" % number)
    wire.send(f"{queue}.fence", "x")
    wire.fence()


def take(wire: Wire, queue: str, count: int, **more: Any) -> dict[str, Any]:
    answer = ask(wire, do="checkout", queue=queue, group="g", max_messages=count, **more)
    assert answer["ok"], answer
    return answer


def read(broker: BrokerProcess, log: str, first: int, end: int) -> list[str]:
    """The records from `first` to `end`, by a reader of its own."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        where = {"from": f"offset:{first}", "until": f"offset:{end}", "prefetch-count": "60000"}
        wire.subscribe(f"/log/{log}", headers=where)
        found = []
        while (message := wire.message()).get("end") is None:
            assert int(message["offset"]) == first + len(found) and message["partition"] == "0"
            found.append(message.body.decode())
        return found


def bodies(first: int, end: int) -> list[str]:
    return [f"body {number}" for number in range(first, end)]


def test_taken_read_again_and_acked(broker: BrokerProcess, wire: Wire, queue: str) -> None:
    fill(wire, queue, 0, 3000)
    one = take(wire, queue, 2500)
    assert (one["first"], one["next"]) == (0, 2500)
    assert read(broker, one["log"], 0, 2500) == read(broker, one["log"], 0, 2500) == bodies(0, 2500)
    assert ask(wire, do="checkout-ack", queue=queue, group="g", before=2500)["first"] == 2500
    two = take(wire, queue, 2500)
    assert (two["first"], two["next"], two["incarnation"]) == (2500, 3000, one["incarnation"])
    assert read(broker, two["log"], 2500, 3000) == bodies(2500, 3000)
    numbers = queue_stats(broker, queue)
    assert numbers["messages"] == 0 and numbers["acked"] == 3000 and numbers["checked_out"] == 500
    assert adds_up(numbers)


def test_consumers_and_a_group_share_a_queue(connect: Connect, broker: BrokerProcess, wire: Wire, queue: str) -> None:
    fill(wire, queue, 0, 100)
    consumer = connect()
    consumer.subscribe(queue, headers={"prefetch-count": "10"})
    mine = consumer.messages(10)
    taken = take(wire, queue, 1000)
    assert read(broker, taken["log"], 0, taken["next"]) == bodies(10, 100)
    assert [message.body.decode() for message in mine] == bodies(0, 10)


def test_released_to_the_end_of_its_queue(broker: BrokerProcess, wire: Wire, queue: str) -> None:
    fill(wire, queue, 0, 1200)
    take(wire, queue, 1100)
    refused = ask(wire, do="delete", queue=queue)
    assert refused["code"] == "in-use" and "radiator release" in refused["error"]
    assert ask(wire, do="checkout-release", queue=queue, group="g") == {"ok": True, "released": 1100}
    wire.subscribe(queue, ack="client", headers={"prefetch-count": "2000"})
    messages = wire.messages(1200)
    assert [m.body.decode() for m in messages] == bodies(1100, 1200) + bodies(0, 1100)
    assert [m["n"] for m in messages[-2:]] == ["1098", "1099"] and "partition" not in messages[-1]
    assert ask(wire, do="checkout-release", queue=queue, group="g")["code"] == "no-such-destination"


def test_a_memory_queue_is_refused(wire: Wire, name: str) -> None:
    queue = f"/queue/memory.{name}"
    wire.send(queue, "x")
    answer = ask(wire, do="checkout", queue=queue, group="g", max_messages=1)
    assert answer["code"] == "bad-request" and "in memory" in answer["error"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_same_numbers_are_the_same_messages_after_a_restart(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path, CONFIG)
    with broker:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            fill(wire, "/queue/q", 0, 900)
            log = take(wire, "/queue/q", 600)["log"]
            ask(wire, do="checkout-ack", queue="q", group="g", before=200)
        broker.stop() if end == "stop" else broker.kill()
    with broker:
        assert read(broker, log, 200, 600) == bodies(200, 600)
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            answer = take(wire, "/queue/q", 1000)
            assert (answer["first"], answer["next"]) == (200, 900)
            assert ask(wire, do="checkout-release", queue="q", group="g")["released"] == 700
            numbers = queue_stats(broker, "/queue/q")
            assert numbers["messages"] == 700 and numbers["accepted"] == 1600 and adds_up(numbers)
        assert broker.stop() == 0, broker.log
