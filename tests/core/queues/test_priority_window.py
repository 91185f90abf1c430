"""The window of a queue with priorities."""

import pytest

from tests.core.backlogs import durable
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.prior import consume, drained, got, is_clean, priorities, say, urgent
from tests.core.words import nack


def in_memory(node: Node) -> list[int]:
    """How many of each priority."""
    return [lane.count for lane in priorities(node).lanes]


def test_each_priority_has_its_share_though_others_fill_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 12, "LOAD_MESSAGES": 4})
    node = urgent(highest=2)
    say(node, " ".join(f"0{n}" for n in range(10)))
    assert in_memory(node) == [6, 0, 0]
    say(node, "1a 1b 1c 2a 2b 2c")
    assert in_memory(node) == [6, 2, 2] and durable(node).window.beyond == 6
    assert durable(node).window.count == 10


def test_bytes_have_their_shares_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_BYTES": 400, "LOAD_BYTES": 100})
    node = urgent(highest=1)
    say(node, " ".join(f"0{n:060}" for n in range(6)))
    count, _ = in_memory(node)
    assert 1 <= count < 6
    say(node, "1a " + f"1{1:0300}")
    assert in_memory(node) == [count, 1]


def test_what_came_back_without_room_is_read_again_in_order(small: None) -> None:
    node = urgent(highest=1)
    node.say(consume(1, prefetch_count=30))
    say(node, " ".join(f"{n % 2}{n:02}" for n in range(30)))
    out = got(node)
    node.say(*map(nack, reversed(out.values())))
    node.close(1)
    assert durable(node).window.stubs > 0
    node.say(consume(2, prefetch_count=1))
    assert drained(node, 2).split() == [f"1{n:02}" for n in range(1, 30, 2)] + [f"0{n:02}" for n in range(0, 30, 2)]
    assert is_clean(node) and durable(node).window.size == durable(node).window.stubs == 0


def test_where_all_windows_are_full_it_keeps_places_alone(small: None) -> None:
    node = urgent(highest=1)
    say(node, "0a 1a 0b")
    queue = durable(node)
    queue.windows.size_max = 1
    queue.window.shrink()
    assert queue.window.stubs == 3 and queue.window.size == 0
    node.say(consume(1, prefetch_count=1))
    assert drained(node) == "1a 0a 0b" and is_clean(node)
