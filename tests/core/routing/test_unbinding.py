"""Many bindings are taken off, some in each batch; who uses the queue meanwhile keeps it."""

from typing import Any

import pytest

from radiator.core.routing.unbinding import Unbinding
from radiator.model.limits import BATCH_BYTES, STEP_MESSAGES, UNBINDINGS_PER_STEP
from tests.core import bare


class Bindings:
    """So many. undone: those that were taken off, in order."""

    def __init__(self, count: int) -> None:
        self.there = [*range(count)]
        self.undone: list[int] = []
        self.ended = 0
        self.turns = bare.context()
        self.task = Unbinding(self.turns, [*self.there], lambda: [*self.there], self.undo, self.then)

    def undo(self, binding: Any) -> None:
        self.there.remove(binding)
        self.undone.append(binding)

    def then(self) -> None:
        self.ended += 1


@pytest.mark.parametrize(
    ("count", "steps"),
    [(0, 1), (1, 1), (UNBINDINGS_PER_STEP - 1, 1), (UNBINDINGS_PER_STEP, 2), (2 * UNBINDINGS_PER_STEP + 1, 3)],
)
def test_so_many_go_in_each_step_and_the_end_comes_once(count: int, steps: int) -> None:
    some = Bindings(count)
    for taken in range(steps):
        assert not some.task.is_done and len(some.undone) == min(count, taken * UNBINDINGS_PER_STEP)
        some.task.step()
    assert some.task.is_done and some.ended == 1 and not some.there


def test_each_step_costs_a_turn_what_it_may() -> None:
    some = Bindings(2 * UNBINDINGS_PER_STEP)
    some.task.step()
    assert STEP_MESSAGES - UNBINDINGS_PER_STEP < some.turns.handled <= STEP_MESSAGES


def test_a_full_batch_keeps_it_waiting() -> None:
    some = Bindings(3)
    some.turns.open.size = BATCH_BYTES
    assert not some.task.can_go_on
    some.task.step()
    assert not some.undone and not some.task.is_done
    bare.commit(some.turns)
    assert some.task.can_go_on


def test_what_comes_meanwhile_goes_too() -> None:
    some = Bindings(1)
    some.there.append(7)
    some.task.step()
    assert some.undone == [0, 7] and some.task.is_done
