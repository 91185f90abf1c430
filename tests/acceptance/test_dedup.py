"""dedup-id: remembered for the window, with the message's own commit (contract 5)."""

import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[limits]
block_timeout_s = 0.3
[create]
queues = true
[queue."once.*"]
dedup_window_s = 60
[queue."short.*"]
dedup_window_s = 1
[queue."full.*"]
dedup_window_s = 60
max_messages = 1
overflow = "reject"
[queue."wait.*"]
dedup_window_s = 60
max_messages = 1
"""

SAME = {"dedup-id": "same"}


def test_second_send_is_receipted_and_not_stored(broker: BrokerProcess, wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    wire.send(queue, "first", SAME)
    wire.send(queue, "second", SAME)
    wire.send(queue, "third", {"dedup-id": "other"})
    assert queue_stats(broker, queue)["accepted"] == 2
    wire.subscribe(queue, ack="auto")
    assert wire.bodies(2) == ["first", "third"]


def test_second_send_in_the_same_breath_is_not_stored(broker: BrokerProcess, wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    asked = [wire.begin_ask("SEND", {"destination": queue, **SAME}, b"x") for _ in range(10)]
    assert [wire.read("RECEIPT")["receipt-id"] for _ in asked] == asked
    assert queue_stats(broker, queue)["accepted"] == 1


def test_it_is_remembered_after_the_message_has_left(broker: BrokerProcess, wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    wire.subscribe(queue)
    wire.send(queue, "first", SAME)
    wire.ack(wire.message())
    wire.send(queue, "second", SAME)
    assert wire.is_silent()


@pytest.mark.parametrize("kind", ["full", "wait"])
def test_it_is_judged_before_the_bound(wire: Wire, name: str, kind: str) -> None:
    queue = f"/queue/{kind}.{name}"
    wire.send(queue, "first", SAME)
    wire.send(queue, "second", SAME)  # full, and receipted all the same
    wire.send_frame("SEND", {"destination": queue, "dedup-id": "other"}, b"x")
    wire.refusal()


def test_a_refused_send_is_not_remembered(connect: Connect, wire: Wire, name: str) -> None:
    queue = f"/queue/full.{name}"
    wire.subscribe(queue)
    wire.send(queue, "first")
    refused = connect()
    refused.send_frame("SEND", {"destination": queue, **SAME}, b"x")
    refused.refusal()
    wire.ack(wire.message())
    wire.send(queue, "second", SAME)
    assert wire.message().body == b"second"


def test_each_queue_remembers_for_itself(broker: BrokerProcess, wire: Wire, name: str) -> None:
    for number in range(2):
        wire.send(f"/queue/once.{name}-{number}", "x", SAME)
        assert queue_stats(broker, f"/queue/once.{name}-{number}")["accepted"] == 1


def test_queue_without_a_window_remembers_nothing(broker: BrokerProcess, wire: Wire, queue: str) -> None:
    wire.send(queue, "first", SAME)
    wire.send(queue, "second", SAME)
    assert queue_stats(broker, queue)["accepted"] == 2


def test_it_travels_as_a_header(wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    wire.subscribe(queue, ack="auto")
    wire.send(queue, "x", SAME)
    assert wire.message()["dedup-id"] == "same"


def test_id_of_255_bytes_works_and_of_256_is_refused(broker: BrokerProcess, wire: Wire, name: str) -> None:
    queue = f"/queue/once.{name}"
    for _ in range(2):
        wire.send(queue, "x", {"dedup-id": "é" * 127 + "x"})
    assert queue_stats(broker, queue)["accepted"] == 1
    wire.send_frame("SEND", {"destination": queue, "dedup-id": "é" * 128}, b"x")
    assert b"255" in wire.refusal().body


@pytest.mark.slow
def test_it_is_forgotten_after_the_window(broker: BrokerProcess, wire: Wire, name: str) -> None:
    queue = f"/queue/short.{name}"
    wire.send(queue, "first", SAME)
    time.sleep(1.1)
    wire.send(queue, "second", SAME)
    assert queue_stats(broker, queue)["accepted"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_is_remembered_over_a_restart(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path, CONFIG)
    with broker:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.subscribe("/queue/once.restart")
            wire.send("/queue/once.restart", "first", SAME)
            wire.ack(wire.message())
        broker.stop() if end == "stop" else broker.kill()
    with broker, Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.send("/queue/once.restart", "second", SAME)
        wire.send("/queue/once.restart", "third", {"dedup-id": "other"})
        wire.subscribe("/queue/once.restart", ack="auto")
        assert wire.message().body == b"third"
