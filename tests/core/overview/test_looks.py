"""Looks that go on in slices, and one that is shared."""

from collections.abc import Iterator

from radiator.core.answers import AwaitedRow
from radiator.core.overview.looks import COST_MESSAGES, SLICE_LOOKS, Looks, Pace, SharedLook
from radiator.core.turn import TurnContext
from radiator.model.limits import LOOK_KEPT_S
from radiator.model.numbers import PAUSE, PauseRow
from tests.core.bare import context


def made(turns: TurnContext) -> Looks:
    turns.schedule = lambda task: None
    return Looks(turns)


def slices(name: str, done: list[str], count: int) -> Iterator[PauseRow]:
    for _ in range(count):
        done.append(name)
        yield PAUSE


def test_they_go_on_in_turns_and_cost_their_turn_something() -> None:
    turns, done = context(), list[str]()
    scheduled: list[object] = []
    looks = made(turns)
    turns.schedule = scheduled.append
    looks.begin(slices("a", done, 2))
    looks.begin(slices("b", done, 1))
    assert scheduled == [looks], "it is one task, however many looks there are"
    looks.step()
    assert done == ["a"] and turns.handled == COST_MESSAGES
    while looks.can_go_on:
        looks.step()
    assert done == ["a", "b", "a"] and looks.is_done
    looks.begin(slices("c", done, 1))
    assert scheduled == [looks, looks]


def test_a_slice_ends_when_enough_was_looked_at() -> None:
    pace = Pace()
    assert not pace.is_over(SLICE_LOOKS - 1) and pace.is_over(1)
    assert not pace.is_over(SLICE_LOOKS - 1) and pace.is_over(10**6) and not pace.is_over()


class Counting:
    """A look of two slices; what it finds is how often it was made."""

    def __init__(self) -> None:
        self.count = 0

    def make(self) -> Iterator[int | PauseRow]:
        self.count += 1
        yield PAUSE
        yield self.count


def test_all_who_ask_share_it_and_who_has_nothing_waits() -> None:
    turns, counting = context(), Counting()
    looks = made(turns)
    shared = SharedLook[int](looks)
    first, second = shared.ask(counting.make, 5, 10), shared.ask(counting.make, 5, 10)
    waits = [next(first), next(second)]
    called: list[int] = []
    for nth, wait in enumerate(waits):
        assert isinstance(wait, AwaitedRow)
        wait.then = lambda nth=nth: called.append(nth)  # type: ignore[misc]
    while looks.can_go_on:
        looks.step()
    assert called == [0, 1] and [*first] == [*second] == [1] and counting.count == 1
    assert [*shared.ask(counting.make, 5, 10)] == [1] and not looks.can_go_on


def test_what_is_a_little_old_is_given_and_looked_for_again() -> None:
    turns, counting = context(), Counting()
    looks = made(turns)
    shared = SharedLook[int](looks)
    next(shared.ask(counting.make, 5, 10))
    while looks.can_go_on:
        looks.step()
    turns.now_s += 5
    assert [*shared.ask(counting.make, 5, 10)] == [1] and shared.age_s() == 5
    while looks.can_go_on:
        looks.step()
    assert [*shared.ask(counting.make, 5, 10)] == [2] and shared.age_s() == 0
    turns.now_s += 10
    assert isinstance(next(shared.ask(counting.make, 5, 10)), AwaitedRow)


def test_what_nobody_asks_for_is_forgotten() -> None:
    turns, counting = context(), Counting()
    looks = made(turns)
    shared = SharedLook[int](looks)
    next(shared.ask(counting.make, 5, 10))
    turns.now_s += LOOK_KEPT_S
    assert not shared.is_forgotten(), "it is under way"
    while looks.can_go_on:
        looks.step()
    assert shared.is_forgotten()
    shared.forget()
    assert isinstance(next(shared.ask(counting.make, 5, 10)), AwaitedRow)
