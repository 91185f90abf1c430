"""What memory knows of the messages of a queue with priorities."""

from radiator.core.queues.entry import Entry
from radiator.core.queues.priorities import Priorities
from radiator.core.states import State
from radiator.model.message import Message


def entry(position: int, priority: int = 0) -> Entry:
    message = Message("/queue/q", b"priority:%d\n" % priority, 2, b"x", 0)
    return Entry(position, message, State.READY, 10)


def filled(*places: tuple[int, int]) -> Priorities:
    """Those places and priorities are READY."""
    one = Priorities(3)
    for position, priority in places:
        one.add(entry(position, priority))
    return one


def taken(one: Priorities) -> list[int]:
    found = []
    while (head := one.head()) is not None:
        one.take(head)
        one.gone(head.position)
        found.append(head.position)
    return found


def test_the_head_is_the_first_of_the_highest() -> None:
    one = filled((1, 0), (2, 3), (3, 1), (4, 3), (5, 9))
    assert [first.position for first in one.firsts()] == [2, 3, 1]
    assert taken(one) == [2, 4, 5, 3, 1] and not one.at


def test_nothing_below_is_the_head_where_more_may_be_on_the_disk() -> None:
    one = filled((1, 0), (2, 2))
    one.lanes[2].opened_by(7, 1)
    assert one.lanes[2].after == 6 and one.head() is one.entries[2]
    one.take(one.entries[2])
    assert one.head() is None and len(one) == 1
    one.lanes[2].is_open = False
    assert one.head() is one.entries[1]


def test_one_that_is_on_the_disk_alone_stands_behind_the_place_of_its_lane() -> None:
    one = filled()
    one.lanes[2].opened_by(7, 1)
    one.lanes[2].opened_by(9, 2)
    assert (one.lanes[2].after, one.lanes[2].put_in) == (6, 2)
    found = {
        (place, priority): one.is_on_disk_alone(entry(place, priority).message, place)
        for place in (6, 7)
        for priority in (1, 2)
    }
    assert found == {(6, 1): False, (6, 2): False, (7, 1): False, (7, 2): True}


def test_one_that_leaves_the_middle_is_passed_over() -> None:
    one = filled((1, 0), (2, 0), (3, 0))
    one.take(one.entries[2])
    one.gone(2)
    assert one.lanes[0].count == 2 and one.lanes[0].size == 20 and taken(one) == [1, 3]


def test_what_is_coming_counts_until_it_is_ready_or_gone() -> None:
    one = filled((1, 0))
    lane, coming = one.lanes[0], entry(2)
    one.is_coming(lane, coming)
    one.is_coming(lane, entry(3))
    assert (lane.count, lane.size, one.droppable()) == (1, 30, (3, 30))
    one.add(coming)
    one.gone(3)
    assert (lane.count, lane.size, len(lane.coming)) == (2, 20, 0)
    one.gone(4)  # nobody knows it


def test_what_is_more_urgent_than_what_is_on_the_disk_may_not_be_dropped() -> None:
    one = filled((1, 0), (2, 1), (3, 3))
    assert one.droppable() == (3, 30)
    one.lanes[1].opened_by(9, 1)
    assert one.droppable() == (2, 20)


def test_all_are_taken_at_once_but_for_what_is_coming() -> None:
    one = filled((1, 0), (2, 3))
    one.is_coming(one.lanes[3], entry(3, 3))
    assert [*one.take_all()] == [1, 2] and one.head() is None and {*one.at} == {1, 2, 3}
    assert one.lanes[3].size == 10 and one.lanes[0].size == 0
    one.clear()
    assert not one.at and one.lanes[3].size == 0


def test_how_many_are_before_what_is_on_the_disk() -> None:
    one = filled((1, 0), (2, 1), (3, 3))
    assert [one.before(lane) for lane in one.lanes] == [3, 2, 1, 1]
