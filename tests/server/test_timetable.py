import time
import weakref

import gevent
import pytest

from radiator.model.limits import LOOK_EVERY_S, LOOKS_AT_ONCE
from radiator.server.timetable import Timetable
from tests.server.shell import until


class Looked:
    """Notes when it was looked at; `again` says when next."""

    def __init__(self, again: list[float] | None = None) -> None:
        self.look_at_s = 0.0
        self.looks: list[float] = []
        self.again = again or []

    def look(self, now_s: float) -> float:
        self.looks.append(now_s)
        return now_s + self.again.pop(0) if self.again else 0.0


@pytest.fixture
def timetable() -> Timetable:
    return Timetable(gevent.get_hub().loop)


def test_look_comes_when_it_is_due_and_not_before(timetable: Timetable) -> None:
    looked, due_s = Looked(), time.monotonic() + 0.1
    timetable.enter(looked, due_s)
    until(lambda: looked.looks)
    assert len(looked.looks) == 1
    assert due_s <= looked.looks[0] < due_s + 5 * LOOK_EVERY_S


def test_earlier_entry_takes_the_place_of_a_later_one(timetable: Timetable) -> None:
    looked, now_s = Looked(), time.monotonic()
    timetable.enter(looked, now_s + 0.15)
    timetable.enter(looked, now_s + 0.05)
    timetable.enter(looked, now_s + 0.30)
    gevent.sleep(0.1)
    assert len(looked.looks) == 1
    gevent.sleep(0.3)
    assert len(looked.looks) == 1


def test_look_says_when_to_look_again(timetable: Timetable) -> None:
    looked = Looked([0.05, 0.05])
    timetable.enter(looked, time.monotonic() + 0.03)
    until(lambda: len(looked.looks) == 3)
    assert looked.looks[2] - looked.looks[0] >= 0.1


def test_gone_entry_is_not_looked_at(timetable: Timetable) -> None:
    gone, other = Looked(), Looked()
    timetable.enter(gone, time.monotonic() + 0.03)
    timetable.enter(other, time.monotonic() + 0.06)
    gone.look_at_s = 0.0
    until(lambda: other.looks)
    assert gone.looks == [] and len(other.looks) == 1


def test_what_nobody_else_keeps_is_gone_at_once_and_not_looked_at(timetable: Timetable) -> None:
    gone, other = Looked(), Looked()
    looks, kept = gone.looks, weakref.ref(gone)
    timetable.enter(gone, time.monotonic() + 0.03)
    timetable.enter(other, time.monotonic() + 0.06)
    del gone
    assert kept() is None
    until(lambda: other.looks)
    assert looks == [] and len(other.looks) == 1


def test_many_entries_share_one_timer(timetable: Timetable) -> None:
    crowd, now_s = [Looked() for _ in range(1000)], time.monotonic()
    for number, looked in enumerate(crowd):
        timetable.enter(looked, now_s + 0.05 + number / 10_000)
    until(lambda: all(looked.looks for looked in crowd))
    assert all(len(looked.looks) == 1 for looked in crowd)
    assert len({looked.looks[0] for looked in crowd}) < 20


def look_at_a_crowd(timetable: Timetable) -> float:
    """How long it takes to look at more of them than may be looked at without a pause."""
    order: list[str] = []

    class Noted(Looked):
        def look(self, now_s: float) -> float:
            if not order:
                gevent.get_hub().loop.run_callback(order.append, "other")
            order.append("look")
            return super().look(now_s)

    crowd, due_s = [Noted() for _ in range(4 * LOOKS_AT_ONCE)], time.monotonic() + 0.05
    for looked in crowd:
        timetable.enter(looked, due_s)
    until(lambda: all(looked.looks for looked in crowd))
    assert all(len(looked.looks) == 1 for looked in crowd)
    assert order.index("other") <= LOOKS_AT_ONCE
    return crowd[-1].looks[0] - crowd[0].looks[0]


def test_crowd_that_is_due_at_once_lets_others_have_their_turn(timetable: Timetable) -> None:
    """What was spawned before the first look comes between the looks, and nobody waits for the next tick: three of them
    would take longer in each try; a machine that is busy elsewhere makes one try longer, and not all.
    """
    assert min(look_at_a_crowd(timetable) for _ in range(5)) < 2 * LOOK_EVERY_S
