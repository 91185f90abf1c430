"""SENDs wait where the disk has no room; nothing else does."""

import pytest

from radiator.model.commands import Tick
from tests.core.node import Node
from tests.core.words import send


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
