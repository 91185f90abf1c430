"""The samples of the busiest queues, one each five seconds."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from radiator.core.overview.periods import Periods
from radiator.core.overview.series import COUNT, COUNT_MAX
from radiator.core.queues.queue import Queue
from radiator.model.limits import HISTORY_QUEUE_EVERY_S, HISTORY_QUEUES, HISTORY_S

NAMES = ("in", "out", "ready", "unacked")
"""The numbers of a queue, in order; the first two are of that interval alone."""
EVERY_MS = HISTORY_QUEUE_EVERY_S * 1000
PLACES = HISTORY_S // HISTORY_QUEUE_EVERY_S
BUSIER = 2.0  # by this factor more must move in a queue that gets the ring of another


def _zeros() -> "array[int]":
    return array(COUNT, bytes(array(COUNT).itemsize * len(NAMES) * PLACES))


@dataclass(slots=True, eq=False)
class Ring:
    """begun: the first place that is this queue's. values: those of a place beside each other."""

    begun: int
    score: float
    values: "array[int]" = field(default_factory=_zeros)

    def put(self, places: range, sample: tuple[int, ...]) -> None:
        for place in places:
            for at, value in enumerate(sample, place % PLACES * len(NAMES)):
                self.values[at] = min(value, COUNT_MAX)


class Rings:
    """At most HISTORY_QUEUES of them, of those queues that had the highest scores. periods: when they were sampled."""

    __slots__ = ("all", "periods")

    def __init__(self) -> None:
        self.all: dict[Queue, Ring] = {}
        self.periods = Periods(EVERY_MS, PLACES)

    def let_go(self) -> None:
        """Drops the rings of queues that are gone."""
        for queue in [queue for queue in self.all if queue.is_gone]:
            del self.all[queue]

    def choose(self, candidates: Iterable[tuple[float, Queue]]) -> None:
        """Gives these queues, which have no ring, one while one is free, or that of a queue whose score is lower by the
        factor BUSIER: an hour of samples is worth more than a small difference.
        """
        least = sorted(((ring.score, queue.name, queue) for queue, ring in self.all.items()), reverse=True)
        for score, queue in candidates:
            if len(self.all) >= HISTORY_QUEUES:
                if not least or score <= least[-1][0] * BUSIER:
                    return
                del self.all[least.pop()[2]]
            self.all[queue] = Ring(self.periods.newest + 1, score)

    def samples(self, ring: Ring, after_ms: int) -> tuple[range, list[list[int | float | None]]]:
        """Returns the places of the samples later than that time, and a column for each of NAMES."""
        places, width = self.periods.after(after_ms, ring.begun), len(NAMES)
        there = self.periods.there(places)
        at = [place % PLACES * width if is_there else -1 for place, is_there in zip(places, there, strict=True)]
        columns: list[list[int | float | None]] = [
            [ring.values[begin + nth] if begin >= 0 else None for begin in at] for nth in range(width)
        ]
        return places, columns
