"""What the random histories of tests/sim have found of logs, checkouts and prepared transactions, told step by step."""

import pytest

from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, EARLIEST, Commit
from radiator.model.limits import Limits
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, send, subscribe


def test_a_record_acked_beyond_the_position_is_not_given_again_when_it_is_read_back_behind_it(small: None) -> None:
    node = Node(Declarations(logs={"l": LogSettings()}))
    node.open(1, 2, 3)
    for number in range(12):
        node.say(send(1, "/log/l", b"%d" % number))
    node.say(subscribe(2, "/log/l", CLIENT_INDIVIDUAL, group="g", start=(EARLIEST, 0), prefetch_count=50))
    first, *others = node.messages(2)
    for deliver in others:
        node.say(ack(deliver))
    node.close(2)
    node.auto = False
    node.say(subscribe(3, "/log/l", CLIENT_INDIVIDUAL, group="g", start=(EARLIEST, 0), prefetch_count=1))
    node.answer()
    again = node.message(3)
    assert again.message.body == first.message.body and node.read_requests
    node.say(ack(again))  # the position is behind all others now, and some are on their way back from the disk
    node.auto = True
    node.say(send(1, "/log/l", b"new"))
    assert node.bodies(3) == [b"new"]


def test_records_kept_in_memory_for_readers_do_not_keep_producers_waiting() -> None:
    node = Node(Declarations(logs={"l": LogSettings()}), limits=Limits(max_memory_bytes=4000))
    node.open(1, 2)
    node.say(subscribe(2, "/log/l", AUTO, prefetch_count=50))
    for number in range(30):
        node.say(send(1, "/log/l", b"%d" % number, b"%d" % number))
        node.wait(0.25)
    assert len(node.receipts(1)) == 30 and not node.broker.blocking.connections
    assert len(node.bodies(2)) == 30


def test_all_that_is_committed_is_applied_though_only_some_are_in_memory_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 200, "STEP_MESSAGES": 1, "APPLIES_AT_ONCE": 2})
    node = Node(Declarations(queues={"tight": QueueSettings(max_messages=1), "wide": QueueSettings()}))
    node.open(1, 2)
    for number in range(12):
        for part in range(3):
            if part == 0:
                node.say(begin(1))
            node.say(send(1, "tight" if part == 1 else "wide", b"%d.%d" % (number, part), transaction=b"t"))
        node.say(Commit(1, b"t", None, prepare=f"p{number}"))
        node.say(Commit(1, b"p%d" % number, None, app=f"a{number}", version=1))
    node.say(subscribe(2, "tight", AUTO), subscribe(2, "wide", AUTO))
    for _ in range(20):
        node.wait(1)
    assert sorted(node.bodies(2)) == sorted(b"%d.%d" % (number, part) for number in range(12) for part in range(3))
    assert node.disk.platter.transactions == {}


def test_a_checkout_begins_where_it_was_acked_though_that_is_within_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL | {"SEGMENT_RECORDS": 3})
    node = Node(Declarations(queues={"q": QueueSettings()}))
    node.open(1)
    for number in range(8):
        node.say(send(1, "q", b"%d" % number))
    answer = node.admin(1, do="checkout", queue="q", group="g", max_messages=8)
    assert (answer["first"], answer["next"]) == (0, 8)
    assert node.admin(1, do="checkout-ack", queue="q", group="g", before=4)["first"] == 4
    assert node.admin(1, do="checkout", queue="q", group="g", max_messages=0)["first"] == 4
