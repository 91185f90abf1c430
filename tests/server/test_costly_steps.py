"""Steps that take long: in which order, how many at once, and who has his turn between them."""

import time
from collections.abc import Callable

import gevent
import pytest

from radiator.model.limits import COSTLY_S
from radiator.server.costly_steps import CostlySteps
from tests.server.shell import until


@pytest.fixture
def steps() -> CostlySteps:
    return CostlySteps(gevent.get_hub().loop)


def test_each_has_one_step_in_the_order_in_which_they_came(steps: CostlySteps) -> None:
    done: list[str] = []

    def twice() -> None:
        done.append("1")
        if done.count("1") == 1:
            steps.add(1, twice)

    steps.add(1, twice)
    steps.add(2, lambda: done.append("2"))
    steps.add(3, lambda: done.append("3"))
    assert done == [], "not while it is added"
    until(lambda: len(done) == 4)
    assert done == ["1", "2", "3", "1"]


def test_one_that_is_dropped_is_not_done(steps: CostlySteps) -> None:
    done: list[int] = []
    for number in (1, 2):
        steps.add(number, lambda number=number: done.append(number))  # type: ignore[misc]
    steps.drop(1)
    steps.drop(9)
    until(lambda: done)
    assert done == [2]


def test_it_begins_again_after_it_had_nothing_to_do(steps: CostlySteps) -> None:
    done: list[int] = []
    for number in (1, 2):
        steps.add(number, lambda number=number: done.append(number))  # type: ignore[misc]
        until(lambda: len(done) == number)  # noqa: B023
    assert done == [1, 2]


def test_others_have_their_turn_between_them(steps: CostlySteps) -> None:
    order: list[str] = []

    def long_one(name: str) -> Callable[[], None]:
        def step() -> None:
            end_s = time.monotonic() + COSTLY_S
            while time.monotonic() < end_s:
                pass
            order.append(name)

        return step

    for number in range(3):
        steps.add(number, long_one("long"))
    other = gevent.get_hub().loop.timer(0, 0.001)
    other.start(lambda: order.append("other"))
    until(lambda: order.count("long") == 3)
    other.stop()
    other.close()
    first, last = order.index("long"), len(order) - 1 - order[::-1].index("long")
    between = order[first:last]
    assert all("other" in (one, following) for one, following in zip(between, between[1:], strict=False))


def test_it_rests_between_them_as_long_as_they_have_taken(steps: CostlySteps) -> None:
    began_s: list[float] = []
    ended_s: list[float] = []

    def step() -> None:
        began_s.append(time.monotonic())
        while time.monotonic() < began_s[-1] + 0.02:
            pass
        ended_s.append(time.monotonic())

    for number in range(3):
        steps.add(number, step)
    until(lambda: len(ended_s) == 3)
    rests_s = [began - ended for began, ended in zip(began_s[1:], ended_s, strict=False)]
    assert all(rest_s > 0.018 for rest_s in rests_s), rests_s
