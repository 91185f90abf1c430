"""SENDs wait where the disk has no room; what consumers do goes on, as far as it does not take the room of ACKs."""

import pytest

from radiator.model.commands import Tick
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


@pytest.mark.parametrize("used, free, is_tight", [(0, 0, False), (0, -1, True)])
def test_sends_wait_below_disk_free_min(used: int, free: int, is_tight: bool) -> None:
    node = Node()
    node.open(9)
    node.turn([Tick(free, used)])
    fill(node, 1)
    assert (node.paused == {9}) == is_tight


def test_sends_wait_above_the_high_water_mark_and_not_at_it() -> None:
    for above in (0, 1):
        node = Node()
        node.open(9)
        node.turn([Tick(10**12, node.broker.parts.disk.high_water_bytes + above)])
        fill(node, 1)
        assert (node.paused == {9}) == bool(above)


@pytest.mark.durability("D10")
def test_what_comes_back_stays_where_it_is_once_the_room_is_for_acks_alone() -> None:
    """Dead letters and delayed messages are stored anew, and the half-filled pages that they leave are not free."""
    node = Node(queues(q=QueueSettings(dead_letter="dead", max_redeliveries=1, redelivery_delay_ms=1000)))
    node.open(1, 9)
    fill(node, 6)
    node.say(subscribe(1, "q", prefetch_count=6))
    out = node.messages(1)
    disk = node.broker.parts.disk
    node.turn([Tick(10**12, disk.high_water_bytes + 1)])
    node.say(nack(out[0], requeue=False), nack(out[1]))
    assert node.numbers("dead")["messages"] == 1 and node.numbers("q")["delayed"] == 1, (
        "above the high-water mark they go on"
    )
    node.turn([Tick(10**12, disk.map_size + 1)])
    node.say(nack(out[2], requeue=False), nack(out[3]), nack(out[4], delay_ms=5000))
    again = node.messages(1)
    assert sorted(one.message.body for one in again) == [b"2", b"3", b"4"] and {one.redeliveries for one in again} == {
        1
    }
    node.say(*map(nack, again))
    node.say(*(ack(one, b"r") for one in node.messages(1)), ack(out[5]))
    assert node.receipts(1) == [b"r"] * 3 and node.numbers("q")["messages"] == 1, "the delayed one"
    node.turn([Tick(10**12, 0)])
    notes = [note.event for note in node.notes if note.event in ("disk_spent", "disk_has_reserve")]
    assert notes == ["disk_spent", "disk_has_reserve"] and node.numbers("dead")["messages"] == 1


def test_a_quarter_of_disk_free_min_is_for_what_comes_back() -> None:
    for gone, is_spent in ((250, False), (251, True)):
        node = Node()
        disk = node.broker.parts.disk
        disk.free_min = 1000
        node.turn([Tick(1000 - gone, 0)])
        assert node.broker.destinations.windows.is_disk_spent is is_spent
