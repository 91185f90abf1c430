"""Fanout: a copy into each child, in all of them or in none (contract 2, 5)."""

import json

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[limits]
block_timeout_s = 0.3
max_batch_bytes = "64KiB"
max_frame_bytes = "64KiB"
[create]
queues = true
[queue."memory"]
persistent = false
[queue."tiny"]
max_messages = 1
overflow = "reject"
[queue."waits"]
max_messages = 1
[queue."thin"]
max_bytes = 100
[queue."once"]
dedup_window_s = 60
[fanout."events"]
children = ["audit", "mail", "memory"]
[fanout."refuses"]
children = ["refuses.first", "tiny", "refuses.last"]
[fanout."waiting"]
children = ["waiting.first", "waits"]
[fanout."narrow"]
children = ["narrow.first", "thin"]
[fanout."wide"]
children = ["wide.1", "wide.2", "wide.3", "wide.4"]
[fanout."dedup"]
children = ["once", "always"]
"""


def test_send_puts_a_copy_into_each_child(connect: Connect, wire: Wire) -> None:
    wire.send("/fanout/events", "news", {"kind": "test"})
    copies = []
    for child in ("audit", "mail", "memory"):  # nobody was subscribed when it was sent
        reader = connect()
        reader.subscribe(f"/queue/{child}")
        copies.append(reader.message())
        reader.ack(copies[-1])
    assert [copy.body for copy in copies] == [b"news"] * 3
    assert [copy["kind"] for copy in copies] == ["test"] * 3
    assert [copy["destination"] for copy in copies] == ["/fanout/events"] * 3
    assert len({copy["message-id"] for copy in copies}) == 3
    assert len({copy["fanout-message-id"] for copy in copies}) == 1


def test_subscribe_is_refused_naming_the_children(wire: Wire) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "1", "destination": "/fanout/events"})
    body = wire.refusal().body.decode()
    assert all(f"/queue/{child}" in body for child in ("audit", "mail", "memory"))


def test_one_child_that_rejects_refuses_it_whole(broker: BrokerProcess, connect: Connect) -> None:
    connect().send("/queue/tiny", "full")
    sender = connect()
    sender.begin_ask("SEND", {"destination": "/fanout/refuses"}, b"x")
    assert b"tiny" in sender.refusal().body
    for child in ("refuses.first", "refuses.last"):
        assert queue_stats(broker, child)["accepted"] == 0
    assert queue_stats(broker, "tiny")["accepted"] == 1


def test_send_waits_while_one_child_blocks(broker: BrokerProcess, connect: Connect, wire: Wire) -> None:
    wire.send("/queue/waits", "full")
    sender, reader = connect(), connect()
    asked = sender.begin_ask("SEND", {"destination": "/fanout/waiting"}, b"x")
    assert queue_stats(broker, "waiting.first")["accepted"] == 0
    reader.subscribe("/queue/waits")
    reader.ack(reader.message())
    sender.await_receipt(asked)
    assert queue_stats(broker, "waiting.first")["accepted"] == 1
    assert reader.message().body == b"x"


def test_send_that_waits_too_long_is_refused_whole(broker: BrokerProcess, connect: Connect) -> None:
    before = queue_stats(broker, "waiting.first")["accepted"]
    connect().send_frame("SEND", {"destination": "/queue/waits"}, b"fills it")
    sender = connect()
    sender.begin_ask("SEND", {"destination": "/fanout/waiting"}, b"x")
    sender.refusal()
    assert queue_stats(broker, "waiting.first")["accepted"] == before


def test_message_too_large_for_one_child_is_refused_at_once(broker: BrokerProcess, wire: Wire) -> None:
    wire.begin_ask("SEND", {"destination": "/fanout/narrow"}, b"x" * 101)
    assert b"thin" in wire.refusal().body
    assert queue_stats(broker, "narrow.first")["accepted"] == 0


@pytest.mark.parametrize(("size", "fits"), [(15_000, True), (17_000, False)])
def test_all_copies_together_are_bounded_by_max_batch_bytes(connect: Connect, size: int, fits: bool) -> None:
    sender = connect()
    asked = sender.begin_ask("SEND", {"destination": "/fanout/wide"}, b"x" * size)
    if fits:
        sender.await_receipt(asked)
    else:
        assert b"max_batch_bytes" in sender.refusal().body


def test_dedup_id_is_judged_for_each_child(broker: BrokerProcess, wire: Wire) -> None:
    for _ in range(2):
        wire.send("/fanout/dedup", "x", {"dedup-id": "same"})
    assert queue_stats(broker, "once")["accepted"] == 1
    assert queue_stats(broker, "always")["accepted"] == 2


def test_fanout_in_a_transaction_is_all_or_nothing(broker: BrokerProcess, connect: Connect, wire: Wire) -> None:
    before = {child: queue_stats(broker, child)["accepted"] for child in ("audit", "mail", "memory")}
    wire.ask("BEGIN", {"transaction": "t"})
    wire.send("/fanout/events", "in it", {"transaction": "t"})
    assert {child: queue_stats(broker, child)["accepted"] for child in before} == before
    wire.ask("COMMIT", {"transaction": "t"})
    after = {child: queue_stats(broker, child)["accepted"] for child in before}
    assert after == {child: count + 1 for child, count in before.items()}


def test_stats_name_the_children(wire: Wire) -> None:
    fanouts = json.loads(wire.admin(b'{"do": "stats"}'))["fanouts"]
    assert fanouts["events"]["children"] == ["audit", "mail", "memory"]
