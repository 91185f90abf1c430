"""The order of the queues in the table: by one of their numbers, of those whose names are searched for.

An order may be some seconds old, while the rows are current: sorting 10,000 queues takes 10 ms in slices, whoever asks.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from radiator.core.answers import AwaitedRow
from radiator.core.overview.counters import Counters
from radiator.core.overview.looks import Looks, SharedLook
from radiator.core.queues.queue import Queue
from radiator.model.limits import MATCH_STEPS, QUEUE_ORDERS_KEPT, SAMPLED_AT_ONCE
from radiator.model.numbers import PAUSE, PauseRow
from radiator.model.patterns import matches

FRESH_S = 2.0  # how old an order may be, with few queues
QUEUES_PER_S = 2000  # with more, one second for each of so many


@dataclass(frozen=True, slots=True)
class Sorting:
    """by: one of SORTS. text: in lower case. most: how many names; None: all that there are. needs: only those that
    need somebody.
    """

    by: str
    is_descending: bool
    match: str | None = None
    text: str = ""
    most: int | None = None
    needs: bool = False


@dataclass(slots=True)
class Order:
    """names: the first, in order. count: of all that are searched for."""

    names: list[str]
    count: int


def keys_of(counters: Counters) -> Mapping[str, Callable[[Queue], float]]:
    """Returns, for each of SORTS but the name, the function of a queue. What is not known comes below all."""
    return {
        "ready": lambda queue: queue.ready_count,
        "unacked": lambda queue: len(queue.entries_out),
        "delayed": lambda queue: queue.delayed_count,
        "in": lambda queue: counters.rate_of(counters.in_rate, queue),
        "out": lambda queue: counters.rate_of(counters.out_rate, queue),
        "consumers": lambda queue: len(queue.subscriptions),
        "oldest": lambda queue: -1 if (oldest_ms := queue.oldest_ms) is None else oldest_ms,
        "bytes": lambda queue: queue.ledger.stored_bytes,
    }


def sort(queues: Collection[Queue], sorting: Sorting, counters: Counters) -> Iterator[Order | PauseRow]:
    """Sorts these queues. Yields PAUSEs, then their order."""
    keys = keys_of(counters)
    key = keys.get(sorting.by)
    is_reversed = key is None and sorting.is_descending
    sign = -1 if sorting.is_descending else 1
    runs: list[list[Any]] = []
    count = 0
    waiting = iter(queues)
    while some := [*islice(waiting, SAMPLED_AT_ONCE)]:
        if sorting.text or sorting.match is not None:
            found = []
            for queue in _searched(some, sorting):
                if queue is PAUSE:
                    yield PAUSE
                else:
                    found.append(queue)
            some = found
        run: list[Any] = [one.name for one in some] if key is None else [(sign * key(one), one.name) for one in some]
        count += len(run)
        run.sort(reverse=is_reversed)
        runs.append(run[: sorting.most])
        yield PAUSE
    names: list[str] = []
    for nth, one in enumerate(islice(heapq.merge(*runs, reverse=is_reversed), sorting.most), 1):
        names.append(one if key is None else one[1])
        if nth % SAMPLED_AT_ONCE == 0:
            yield PAUSE
    yield Order(names, count)


def _searched(queues: list[Queue], sorting: Sorting) -> Iterator[Queue | PauseRow]:
    """Yields those whose names have the text, and match the pattern, with PAUSEs."""
    text, match, steps = sorting.text, sorting.match, 0
    for queue in queues:
        if text and text not in queue.name.lower():
            continue
        if match is None:
            yield queue
            continue
        if matches(match, queue.name):
            yield queue
        steps += (match.count(".") + 1) * (queue.name.count(".") + 1)
        if steps >= MATCH_STEPS:
            steps = 0
            yield PAUSE


class Orders:
    """The orders that were asked for last, each shared by all who want it."""

    __slots__ = ("counters", "kept", "looks")

    def __init__(self, looks: Looks, counters: Counters) -> None:
        self.looks = looks
        self.counters = counters
        self.kept: dict[Sorting, SharedLook[Order]] = {}

    def ask(self, sorting: Sorting, queues: Callable[[], Collection[Queue]]) -> Iterator[Order | AwaitedRow]:
        """Yields an order of these queues that is not old, perhaps after a wait."""
        found = self.kept.pop(sorting, None) or SharedLook[Order](self.looks)
        self.kept[sorting] = found
        while len(self.kept) > QUEUE_ORDERS_KEPT:
            del self.kept[next(iter(self.kept))]
        old_s = max(FRESH_S, len(self.counters.places) / QUEUES_PER_S)
        yield from found.ask(lambda: sort(queues(), sorting, self.counters), old_s, old_s)

    def ticked(self) -> None:
        """Drops orders that nobody asks for any more."""
        for sorting in [sorting for sorting, look in self.kept.items() if look.is_forgotten()]:
            del self.kept[sorting]
