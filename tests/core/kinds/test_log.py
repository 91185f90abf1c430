"""`/log/NAME`: what is sent to it is appended, whatever nobody may do with a record is refused."""

import pytest

from radiator.model.commands import EARLIEST, LATEST
from radiator.model.replies import LogReceipt
from radiator.model.settings import JOURNAL, Declarations, LogSettings
from tests.core.node import Node
from tests.core.words import send, subscribe


@pytest.fixture
def node() -> Node:
    node = Node(Declarations(logs={"l": LogSettings(partitions=1)}))
    node.open(1, 2)
    return node


def test_what_is_sent_is_read_by_whoever_reads(node: Node) -> None:
    node.say(send(1, "/log/l", b"1", receipt=b"r"), subscribe(2, "/log/l", start=(EARLIEST, 0)))
    assert node.receipts(1) == [b"r"] and node.bodies(2) == [b"1"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"expiration_ms": 5}, "no-delay"),
        ({"expires_ms": 5}, "no-delay"),
        ({"immediate": True}, "no-consumer"),
        ({"delay_ms": 5}, "no-delay"),
    ],
)
def test_a_record_has_no_end_no_delay_and_no_consumer(node: Node, more: dict[str, int], code: str) -> None:
    node.say(send(1, "/log/l", **more))
    assert node.refusal(1).code == code
    assert node.disk.platter.logs is not None


def test_an_expiry_of_never_is_none(node: Node) -> None:
    node.say(send(1, "/log/l", receipt=b"r", expires_ms=0))
    assert node.receipts(1) == [b"r"]


def test_the_journal_is_written_by_the_broker_alone(node: Node) -> None:
    node.say(send(1, f"/log/{JOURNAL}"))
    assert node.refusal(1).code == "reserved"


def test_one_that_is_not_there_is_refused(node: Node) -> None:
    node.say(send(1, "/log/none"), subscribe(2, "/log/none"))
    assert node.refusal(1).code == node.refusal(2).code == "no-such-destination"


def places_told(node: Node) -> list[LogReceipt]:
    return [one for one in node.log if isinstance(one, LogReceipt)]


def test_who_asks_is_told_where_it_begins_in_each_partition_that_it_reads() -> None:
    node = Node(Declarations(logs={"l": LogSettings(partitions=3)}))
    node.open(1, 2, 3)
    node.say(*(send(1, "/log/l", b"1", headers=b"partition-key:a\n") for _ in range(2)))
    node.say(subscribe(2, "/log/l", receipt=b"r", start=(LATEST, 0), offsets_max=3))
    (all_three,) = places_told(node)
    assert sorted(all_three.offsets.values()) == [0, 0, 2] and [*all_three.offsets] == [0, 1, 2]
    node.say(subscribe(3, "/log/l", receipt=b"r", start=(EARLIEST, 0), partition=1, offsets_max=1))
    assert places_told(node)[1] == LogReceipt(3, b"r", {1: 0}) and node.receipts(3) == [b"r"]


@pytest.mark.durability("D41")
def test_places_that_are_told_are_on_the_disk() -> None:
    node = Node(Declarations(logs={"l": LogSettings(partitions=1)}), auto=False)
    node.open(1, 2)
    node.say(send(1, "/log/l", b"1"))
    node.say(subscribe(2, "/log/l", receipt=b"r", start=(LATEST, 0), offsets_max=1))
    assert places_told(node) == [LogReceipt(2, b"r", {0: 0})], "the record may be gone after a crash"
