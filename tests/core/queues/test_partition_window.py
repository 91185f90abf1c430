"""The window of a partitioned queue: a hot key does not fill it, others get through, and its sums are right."""

from collections import OrderedDict

import pytest

from radiator.core.connections import Subscription
from radiator.core.queues.entry import Stub
from radiator.core.queues.partition_window import PartitionWindow
from radiator.core.queues.partitions import Partitions
from radiator.model.limits import LOAD_MESSAGES, WINDOW_BYTES, WINDOW_MESSAGES
from tests.core import bare
from tests.core.backlogs import durable
from tests.core.keyed import consume, drained, got, is_clean, keyed, of_key, partitions, say
from tests.core.node import Node
from tests.core.words import ack, send


def hot(node: Node, count: int, first: int = 0) -> None:
    say(node, " ".join(f"a{number}" for number in range(first, count)))


# ---- a hot key ------------------------------------------------------------------------------------------------------


def test_a_long_backlog_of_one_key_does_not_hide_others(small: None) -> None:
    node = keyed()
    hot(node, 100)
    say(node, "b1 c1 b2 1")
    node.say(consume(1, prefetch_count=10))
    out = got(node)
    assert {*out} == {"a0", "b1", "c1", "1"}
    node.say(ack(out["b1"]))
    assert [*got(node)] == ["b2"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_others_go_on_while_the_hot_key_is_stuck_at_a_consumer(small: None, is_restarted: bool) -> None:
    node = keyed()
    hot(node, 60)
    if is_restarted:
        node = node.crashed()
        node.open(1, 2, 9)
    node.say(consume(1, prefetch_count=1))
    assert [*got(node)] == ["a0"]
    node.say(consume(2))
    seen = []
    for number in range(60):
        say(node, f"b{number} a{60 + number} c{number}")
        seen += drained(node, 2)
        assert durable(node).window.count <= 6 + 4
    assert of_key(seen, "b") == [f"b{number}" for number in range(60)] and of_key(seen, "a") == []
    assert of_key(seen, "c") == [f"c{number}" for number in range(60)]
    node.close(1)
    assert drained(node, 2) == [f"a{number}" for number in range(120)]
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


def test_memory_stays_small_however_long_the_backlog_of_a_key_is() -> None:
    node = keyed()
    hot(node, 3000)
    window = durable(node).window
    assert window.count <= 16 and window.beyond == 0
    for number in range(5):
        say(node, f"b{number}")
    node.say(consume(1, prefetch_count=1))
    seen = []
    while out := node.messages(1):
        seen += [one.message.body.decode() for one in out]
        node.say(*map(ack, out))
        assert window.count <= 2 * 16 + LOAD_MESSAGES
    assert of_key(seen, "a") == [f"a{number}" for number in range(3000)] and len(seen) == 3005


def test_keys_without_end_stay_within_the_window() -> None:
    node = keyed(max_messages=10**6)
    node.say(*(send(9, "q", b"x", headers=b"key:%d\n" % number) for number in range(2 * WINDOW_MESSAGES)))
    window = durable(node).window
    assert window.count == WINDOW_MESSAGES and window.beyond == WINDOW_MESSAGES
    node.say(consume(1, prefetch_count=10))
    assert len(drained(node)) == 2 * WINDOW_MESSAGES and is_clean(node)


def test_what_waits_takes_only_half_of_it(small: None) -> None:
    node = keyed()
    node.say(consume(1))
    hot(node, 20)
    say(node, "b1 b2 b3 b4 c1 c2 c3")
    assert {*got(node)} == {"a0", "b1", "c1"}
    assert len(partitions(node)) <= 3 and partitions(node).behind_count >= 20


# ---- the window by itself -------------------------------------------------------------------------------------------


def window(beyond: int = 0) -> PartitionWindow:
    ring: OrderedDict[Subscription, None] = OrderedDict()
    return PartitionWindow(bare.windows(), Partitions(lambda message: None, 1, ring), ring, beyond)


def put(one: PartitionWindow, position: int, size: int = 10) -> None:
    entry = bare.entry(position, size)
    one.partitions.put(one.partitions.of(entry.message), entry)
    one.add(size)


def exact(one: PartitionWindow) -> bool:
    entries = [*one.partitions.entries.values()]
    size = sum(entry.size for entry in entries if not entry.is_stub)
    stubs = [entry.size for entry in entries if entry.is_stub]
    return (one.size, one.windows.size, one.stubs, one.stub_bytes) == (size, size, len(stubs), sum(stubs))


def test_it_takes_messages_up_to_its_count() -> None:
    one = window()
    for position in range(1, WINDOW_MESSAGES + 1):
        assert one.takes(1)
        put(one, position, 1)
    assert not one.takes(1) and not one.takes(0) and one.count == WINDOW_MESSAGES


@pytest.mark.parametrize(("size", "takes"), [(WINDOW_BYTES - 10, True), (WINDOW_BYTES - 9, False)])
def test_it_takes_bytes_up_to_their_bound(size: int, takes: bool) -> None:
    one = window()
    put(one, 1)
    assert one.takes(size) is takes


def test_an_empty_one_takes_any_size() -> None:
    assert window().takes(WINDOW_BYTES + 1)


def test_all_windows_together_bound_each() -> None:
    one = window()
    put(one, 1, 0)
    one.windows.size = one.windows.size_max - 5
    assert one.takes(5) and not one.takes(6)


def test_who_found_no_room_is_asked_again_when_nothing_is_free_or_little_is_left() -> None:
    one = window()
    for position in range(1, LOAD_MESSAGES + 2):
        put(one, position, 1)
    assert one.takes_again(1), "nobody has looked yet"
    one.partitions.look()
    assert one.takes(1) and not one.takes_again(1)
    entry = one.partitions.entries[1]
    one.partitions.take(entry)
    one.left(entry)
    one.partitions.gone(1)
    assert one.takes_again(1)


def test_one_that_nobody_wants_keeps_its_places_alone() -> None:
    one = window()
    for position in range(1, 6):
        put(one, position)
    one.shrink()
    one.shrink()
    assert exact(one) and one.stub_bytes == 50 and one.count == 5
    one.partitions.look()
    assert not one.partitions.free and len(one.partitions.lacking) == 5


@pytest.mark.parametrize(
    ("bytes_max", "is_crowded", "asked"),
    [(1000, False, [1, 3, 4]), (25, False, [1, 3]), (0, False, [1]), (1000, True, [1])],
)
def test_the_next_stubs_are_asked_for_in_order_within_so_many_bytes(
    bytes_max: int, is_crowded: bool, asked: list[int]
) -> None:
    one = window()
    for position in (4, 2, 3, 1, 5):
        put(one, position)
    for position in (1, 3, 4):
        entry = one.partitions.entries[position]
        entry.message = Stub(entry.message)
    assert [*one.next_stubs(bytes_max, is_crowded, is_needed=False)] == asked
    assert [*one.next_stubs(bytes_max, is_crowded, is_needed=True)] == asked and one.count == 5


def test_all_that_came_back_is_taken_at_once() -> None:
    one = window()
    for position in (3, 1, 2):
        put(one, position)
    assert sorted(position for position, _ in one.take_returned()) == [1, 2, 3]
    assert one.take_returned() == [] and one.count == 0


def test_a_damaged_one_is_dropped() -> None:
    one = window()
    for position in (1, 2):
        put(one, position)
    one.drop_returned(1)
    assert [*one.partitions.entries] == [2] and one.partitions.at.keys() == {2}
