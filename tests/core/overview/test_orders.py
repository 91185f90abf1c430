"""The orders of queues."""

from typing import Any

import pytest

from radiator.core.answers import AwaitedRow
from radiator.core.overview.counters import Counters
from radiator.core.overview.looks import Looks
from radiator.core.overview.orders import FRESH_S, Order, Orders, Sorting, keys_of, sort
from radiator.model.limits import LOOK_KEPT_S, QUEUE_ORDERS_KEPT, SAMPLED_AT_ONCE
from radiator.model.numbers import PAUSE
from radiator.model.overview import BY_NAME, SORTS
from tests.core.bare import context, in_memory, message


def named(name: str, messages: int = 0, **more: Any) -> Any:
    queue = in_memory(more.pop("turns", None))
    queue.name = name
    for _ in range(messages):
        queue.put(message(b"x" * len(name)))
    return queue


QUEUES = [named("b", 2), named("a", 2), named("Cc", 0), named("d.e", 3)]


def order(queues: list[Any], sorting: Sorting) -> Order:
    *pauses, found = sort(queues, sorting, Counters(0.0))
    assert set(pauses) <= {PAUSE} and isinstance(found, Order)
    return found


@pytest.mark.parametrize(
    ("sorting", "names"),
    [
        (Sorting("ready", True), ["d.e", "a", "b", "Cc"]),
        (Sorting("ready", False), ["Cc", "a", "b", "d.e"]),
        (Sorting(BY_NAME, False), ["Cc", "a", "b", "d.e"]),
        (Sorting(BY_NAME, True), ["d.e", "b", "a", "Cc"]),
        (Sorting("bytes", True), ["d.e", "a", "b", "Cc"]),
        (Sorting("ready", True, text="c"), ["Cc"]),
        (Sorting("ready", True, text="none"), []),
        (Sorting("ready", True, match="*"), ["a", "b", "Cc"]),
        (Sorting("ready", True, match="#", text="e"), ["d.e"]),
    ],
)
def test_by_a_number_and_then_by_name(sorting: Sorting, names: list[str]) -> None:
    assert order(QUEUES, sorting) == Order(names, len(names))


def test_each_key_is_one_that_can_be_asked_for() -> None:
    assert {BY_NAME, *keys_of(Counters(0.0))} == {*SORTS}
    for by in SORTS:
        assert order(QUEUES, Sorting(by, True)).count == len(QUEUES)


@pytest.mark.parametrize("count", [SAMPLED_AT_ONCE - 1, SAMPLED_AT_ONCE, SAMPLED_AT_ONCE + 1, 3 * SAMPLED_AT_ONCE])
def test_many_are_sorted_in_slices_and_only_the_first_are_kept(count: int) -> None:
    turns = context()
    queues = [named(f"q{number:04}", turns=turns) for number in range(count)]
    assert order(queues[::-1], Sorting("ready", True, most=7)) == Order([f"q{number:04}" for number in range(7)], count)
    assert order(queues, Sorting(BY_NAME, True)).names == [queue.name for queue in queues[::-1]]
    assert [*sort(queues, Sorting("ready", True), Counters(0.0))].count(PAUSE) >= count // SAMPLED_AT_ONCE


def test_a_pattern_that_costs_much_is_compared_in_slices() -> None:
    queues = [named("a." * 60 + f"{number}") for number in range(20)]
    pauses = [*sort(queues, Sorting(BY_NAME, False, match="#.b.#"), Counters(0.0))].count(PAUSE)
    assert pauses > 1


def made() -> tuple[Orders, Looks]:
    turns = context()
    turns.schedule = lambda task: None
    looks = Looks(turns)
    return Orders(looks, Counters(turns.now_s)), looks


def ask(orders: Orders, looks: Looks, sorting: Sorting, queues: list[Any]) -> Order:
    asked = orders.ask(sorting, lambda: queues)
    found = next(asked)
    while looks.can_go_on:
        looks.step()
    if isinstance(found, AwaitedRow):
        found = next(asked)
    assert isinstance(found, Order)
    return found


def test_one_that_is_fresh_is_given_again_and_an_old_one_made_anew() -> None:
    orders, looks = made()
    sorting = Sorting(BY_NAME, False)
    assert ask(orders, looks, sorting, QUEUES[:1]).names == ["b"]
    assert ask(orders, looks, sorting, QUEUES[:2]).names == ["b"]
    assert ask(orders, looks, Sorting(BY_NAME, True), QUEUES[:2]).names == ["b", "a"]
    looks.context.now_s += FRESH_S
    assert ask(orders, looks, sorting, QUEUES[:2]).names == ["a", "b"]


def test_few_are_kept_and_none_that_nobody_asks_for() -> None:
    orders, looks = made()
    for number in range(QUEUE_ORDERS_KEPT + 1):
        ask(orders, looks, Sorting(BY_NAME, False, text=str(number)), QUEUES)
    assert [sorting.text for sorting in orders.kept] == [str(number) for number in range(1, QUEUE_ORDERS_KEPT + 1)]
    looks.context.now_s += LOOK_KEPT_S
    ask(orders, looks, Sorting(BY_NAME, True), QUEUES)
    orders.ticked()
    assert [*orders.kept] == [Sorting(BY_NAME, True)]
