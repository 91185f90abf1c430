"""The window of a queue: what of it is in memory, and where each message has its place."""

import heapq
from collections import OrderedDict, deque

import pytest

from radiator.core.queues.entry import Stub
from radiator.core.queues.window import Window
from radiator.model.commands import AUTO
from radiator.model.limits import GIB, LOAD_MESSAGES, MIB, WINDOW_BYTES, WINDOW_MESSAGES
from tests.core import bare
from tests.core.backlogs import drained, durable, fill, numbered
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, send, subscribe


def test_new_messages_line_up_behind_what_is_beyond(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 10)
    node.say(subscribe(1, "q"))
    seen = []
    for number in range(10, 40):
        fill(node, number + 1, number)
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen + drained(node) == numbered(0, 40)


def test_bodies_in_memory_are_bounded_whatever_the_backlog(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 1000, "WINDOW_BYTES": 2500, "LOAD_BYTES": 1200})
    node = Node()
    node.open(1, 9)
    for number in range(50):
        node.say(send(9, "q", b"%d" % number + bytes(500)))
    assert node.broker.destinations.windows.size <= 2500
    node.say(subscribe(1, "q"))
    seen = []
    while out := node.messages(1):
        seen.append(out[0].message.body.rstrip(b"\0"))
        assert node.broker.destinations.windows.size <= 2500 + 1200
        node.say(ack(out[0]))
    assert seen == numbered(0, 50)
    assert node.broker.destinations.windows.size == node.broker.destinations.windows.out == 0


def test_empty_window_takes_one_message_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_BYTES": 100, "LOAD_BYTES": 100})
    node = Node()
    node.open(1, 9)
    for number in range(3):
        node.say(send(9, "q", b"%d" % number + bytes(1000)))
    assert len(durable(node).ready) == 1
    node.say(subscribe(1, "q"))
    assert [body[:1] for body in drained(node)] == numbered(0, 3)


def test_put_keeps_its_place_behind_an_entry_that_is_still_storing(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO))
    fill(node, 4)
    node.seal()
    fill(node, 20, 4)
    node.commit()
    assert node.bodies(1) == numbered(0, 4)
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(4, 20)


# ---- the window by itself -------------------------------------------------------------------------------------------


def window(beyond: int = 0, max_memory_bytes: int = GIB) -> Window:
    return Window(bare.windows(max_memory_bytes), deque(), [], OrderedDict(), beyond)


def exact(one: Window) -> bool:
    """The sums are those of what is in it."""
    entries = [*one.ready, *(entry for _, entry in one.returned)]
    size = sum(entry.size for entry in entries if not entry.is_stub)
    stubs = [entry.size for entry in entries if entry.is_stub]
    return (one.size, one.windows.size, one.stubs, one.stub_bytes) == (size, size, len(stubs), sum(stubs))


def test_it_takes_messages_up_to_its_count() -> None:
    one = window()
    for position in range(WINDOW_MESSAGES):
        assert one.takes(1)
        one.ready.append(bare.entry(position))
        one.add(1)
    assert not one.takes(1) and not one.takes(0) and one.count == WINDOW_MESSAGES


@pytest.mark.parametrize(("size", "takes"), [(WINDOW_BYTES - 10, True), (WINDOW_BYTES - 9, False)])
def test_it_takes_bytes_up_to_their_bound(size: int, takes: bool) -> None:
    one = window()
    one.ready.append(bare.entry(1, 10))
    one.add(10)
    assert one.takes(size) is takes


def test_an_empty_one_takes_any_size_where_somebody_consumes_or_memory_has_room() -> None:
    one = window(max_memory_bytes=MIB)
    assert one.takes(one.windows.size_max) and not one.takes(one.windows.size_max + 1)
    one.ring[bare.consumer(bare.durable())] = None
    assert one.takes(GIB)


def test_all_windows_together_bound_each() -> None:
    one = window()
    one.windows.size = one.windows.size_max - 5
    assert one.takes(5) and not one.takes(6)


def test_who_found_no_room_is_asked_again_once_little_is_left() -> None:
    one = window()
    for position in range(LOAD_MESSAGES + 1):
        one.ready.append(bare.entry(position))
        one.add(1)
    assert one.takes(1) and not one.takes_again(1)
    one.left(one.ready.popleft())
    assert one.takes_again(1)


def test_what_goes_out_and_comes_back_keeps_the_sums() -> None:
    one = window()
    first = bare.entry(1, 10)
    one.ready.append(first)
    one.add(10)
    one.left(one.ready.popleft())
    assert exact(one) and one.windows.out == 10
    one.put_back(first)
    assert exact(one) and one.windows.out == 0 and one.returned == [(1, first)]


def test_what_comes_back_to_a_full_window_leaves_its_bytes_on_the_disk() -> None:
    one = window()
    came = bare.entry(1, 10)
    one.windows.out = 10
    one.windows.size = one.windows.size_max - 9
    one.returned.append((2, bare.entry(2, 0)))
    one.came_back(came)
    assert came.is_stub and (one.stubs, one.stub_bytes, one.windows.out) == (1, 10, 0)


def test_a_stub_that_comes_back_is_one() -> None:
    one = window()
    came = bare.entry(1, 10)
    came.message = Stub(came.message)
    one.came_back(came)
    one.returned.append((1, came))
    assert exact(one) and one.stubs == 1
    one.left(one.returned.pop()[1])
    assert exact(one) and one.stubs == 0


def test_one_that_nobody_wants_keeps_its_places_alone() -> None:
    one = window()
    for position in range(5):
        one.ready.append(bare.entry(position, 10))
        one.add(10)
    one.shrink()
    assert exact(one) and not one.ready and one.stub_bytes == 50
    assert [position for position, _ in sorted(one.returned)] == [0, 1, 2, 3, 4]


def with_returned(stubs: set[int], count: int) -> Window:
    one = window()
    for position in range(count):
        came = bare.entry(position, 10)
        if position in stubs:
            came.message = Stub(came.message)
        heapq.heappush(one.returned, (position, came))
    return one


@pytest.mark.parametrize(
    ("bytes_max", "is_crowded", "asked"),
    [(1000, False, [1, 3, 4]), (25, False, [1, 3]), (0, False, [1]), (1000, True, [1])],
)
def test_the_next_stubs_are_asked_for_in_order_within_so_many_bytes(
    bytes_max: int, is_crowded: bool, asked: list[int]
) -> None:
    one = with_returned({1, 3, 4}, 5)
    assert [*one.next_stubs(bytes_max, is_crowded, is_needed=False)] == asked
    assert [position for position, _ in sorted(one.returned)] == [0, 1, 2, 3, 4], "nothing is taken out"


@pytest.mark.parametrize(("is_needed", "asked"), [(False, []), (True, [LOAD_MESSAGES + 1])])
def test_stubs_behind_many_others_are_asked_for_only_where_they_are_needed(is_needed: bool, asked: list[int]) -> None:
    one = with_returned({LOAD_MESSAGES + 1}, LOAD_MESSAGES + 2)
    assert [*one.next_stubs(1000, False, is_needed)] == asked


def test_a_damaged_one_is_dropped_and_the_others_stay_in_order() -> None:
    one = with_returned(set(), 7)
    one.drop_returned(3)
    assert [heapq.heappop(one.returned)[0] for _ in range(6)] == [0, 1, 2, 4, 5, 6]
