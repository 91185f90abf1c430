"""A timer for the earliest time that was asked for."""

import time

import gevent
import pytest

from radiator.server.wake_timer import WakeTimer
from tests.server.shell import until


class Woken:
    """Notes when it was woken."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.timer = WakeTimer(gevent.get_hub().loop, lambda: self.at_s.append(time.monotonic()))

    def wanted(self, *in_s: float) -> float:
        """Asks for these times, one after the other; now."""
        now_s = time.monotonic()
        for each_s in in_s:
            self.timer.at(now_s + each_s, now_s)
        return now_s


def test_it_wakes_once_at_its_time_and_not_before() -> None:
    woken = Woken()
    now_s = woken.wanted(0.1)
    until(lambda: woken.at_s)
    assert woken.at_s[0] >= now_s + 0.099, "its clock has milliseconds"
    gevent.sleep(0.15)
    assert len(woken.at_s) == 1


@pytest.mark.parametrize("in_s", [(60.0, 0.05), (0.05, 60.0), (60.0, 0.05, 30.0)])
def test_of_several_times_it_is_the_earliest(in_s: tuple[float, ...]) -> None:
    woken = Woken()
    woken.wanted(*in_s)
    until(lambda: woken.at_s)
    woken.wanted(0.05)
    until(lambda: len(woken.at_s) == 2)


def test_a_time_that_is_past_is_now() -> None:
    woken = Woken()
    woken.wanted(-1.0)
    assert woken.at_s == [], "not within the turn that asks for it"
    until(lambda: woken.at_s)


def test_it_counts_from_now_though_the_hub_has_not_looked_at_the_clock_for_long() -> None:
    woken = Woken()
    time.sleep(0.2)
    now_s = woken.wanted(0.1)
    until(lambda: woken.at_s)
    assert woken.at_s[0] >= now_s + 0.099


def test_one_that_was_stopped_wakes_nobody_and_may_be_asked_again() -> None:
    woken = Woken()
    woken.timer.stop()
    woken.wanted(0.01)
    woken.timer.stop()
    gevent.sleep(0.05)
    assert woken.at_s == []
    woken.wanted(0.01)
    until(lambda: woken.at_s)
