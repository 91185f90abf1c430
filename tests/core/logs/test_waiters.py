"""Who waits until there is something: first come, first, for so long at most, and each is answered once."""

import pytest

from radiator.core.logs.waiters import Waiters
from tests.core import bare


class Shelf:
    """Something that is there, or not; answered: who was told, in order."""

    def __init__(self) -> None:
        self.turns = bare.context()
        self.waiters = Waiters(self.turns)
        self.is_there = False
        self.over: set[str] = set()
        self.answered: list[str] = []

    def wait(self, name: str, timeout_ms: int = 1000, most: int = 10, again: int = 0) -> None:
        """again: how often it waits anew as soon as it is answered."""

        def done() -> None:
            self.answered.append(name)
            if again:
                self.wait(name + "'", timeout_ms, most, again - 1)

        self.waiters.wait(timeout_ms, most, is_met=lambda: self.is_there, done=done, is_over=lambda: name in self.over)


def test_what_is_there_already_and_no_time_at_all_are_answered_at_once() -> None:
    room = Shelf()
    room.wait("a", timeout_ms=0)
    room.is_there = True
    room.wait("b")
    assert room.answered == ["a", "b"] and not room.waiters.all


def test_all_are_answered_in_order_once_it_is_there() -> None:
    room = Shelf()
    for name in "abc":
        room.wait(name)
    room.waiters.wake(is_gone=False)
    assert room.answered == []
    room.is_there = True
    for _ in range(2):
        room.waiters.wake(is_gone=False)
    assert room.answered == ["a", "b", "c"]


@pytest.mark.parametrize(("later_s", "answered"), [(0.999, []), (1.0, ["a"])])
def test_a_time_ends_at_its_end_and_no_sooner(later_s: float, answered: list[str]) -> None:
    room = Shelf()
    room.wait("a", timeout_ms=1000)
    room.wait("b", timeout_ms=2000)
    room.turns.now_s += later_s
    room.waiters.wake(is_gone=False)
    assert room.answered == answered


def test_who_is_over_is_forgotten_without_an_answer() -> None:
    room = Shelf()
    room.wait("a")
    room.over.add("a")
    room.waiters.wake(is_gone=False)
    assert room.answered == [] and not room.waiters.all


def test_all_hear_that_it_is_gone() -> None:
    room = Shelf()
    room.wait("a")
    room.wait("b")
    room.waiters.wake(is_gone=True)
    assert room.answered == ["a", "b"] and not room.waiters.all


def test_of_one_too_many_the_first_is_answered() -> None:
    room = Shelf()
    for name in "abc":
        room.wait(name, most=2)
    assert room.answered == ["a"] and len(room.waiters.all) == 2


def test_who_waits_again_as_it_is_answered_is_asked_the_next_time() -> None:
    """Else one that always waits again would keep the turn for ever."""
    room = Shelf()
    room.wait("a", again=10**9)
    room.wait("b")
    room.turns.now_s += 1
    room.waiters.wake(is_gone=False)
    assert room.answered == ["a", "b"] and len(room.waiters.all) == 1
    room.waiters.wake(is_gone=False)
    assert room.answered == ["a", "b"]
    room.turns.now_s += 1
    room.waiters.wake(is_gone=False)
    assert room.answered == ["a", "b", "a'"]


def test_who_had_to_go_for_another_and_waits_again_loses_nobody() -> None:
    room = Shelf()
    room.wait("a", most=1, again=1)
    room.wait("b", most=1)
    assert room.answered == ["a"] and len(room.waiters.all) == 2
    room.is_there = True
    room.waiters.wake(is_gone=False)
    assert sorted(room.answered) == ["a", "a'", "b"] and not room.waiters.all


def test_one_that_had_to_go_for_another_answer_is_not_answered_twice() -> None:
    room = Shelf()
    room.wait("a", again=1, most=1)
    room.wait("b", most=5)
    room.turns.now_s += 1
    room.waiters.wake(is_gone=False)  # `a` waits again, where only one may: `b` goes for it, whose time is over too
    assert room.answered == ["a", "b"] and len(room.waiters.all) == 1
