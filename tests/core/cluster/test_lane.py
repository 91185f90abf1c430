"""How many bytes may go, or come, on one link."""

from radiator.core.cluster.lane import Lane


def test_what_is_left_is_what_may_go_without_what_has_gone() -> None:
    lane = Lane()
    assert (lane.left, lane.wanted, lane.granted_turn, lane.waiting) == (0, 0, 0, {})
    lane.through, lane.used = 100, 30
    assert lane.left == 70
    lane.used = 110
    assert lane.left == -10, "a large one may go beyond, and is paid for by the next"


def test_those_who_wait_are_those_of_one_lane() -> None:
    one, other = Lane(), Lane()
    one.waiting[print] = None
    assert not other.waiting
