"""What connections wait for: first come, first served; only what needs room has an end by time."""

from radiator.core.routing.waiting import FLUSH, WaitList
from tests.core.bare import connection


def test_those_who_wait_are_in_the_order_in_which_they_came() -> None:
    room = WaitList("disk")
    some = [connection(number) for number in range(3)]
    room.waiters.extend(some)
    assert room.waiters.popleft() is some[0] and [*room.waiters] == some[1:]


def test_room_has_a_time_and_is_not_tight_unless_it_is_said() -> None:
    assert WaitList("disk").is_timed and not WaitList("disk").is_tight
    assert not WaitList("a search", is_timed=False).is_timed


def test_nobody_waits_for_the_end_of_a_turn_by_name() -> None:
    assert not FLUSH.waiters
