"""Measures what moves in each queue: its rates in the last interval, and since when nothing has left it."""

from array import array
from collections.abc import Iterable
from heapq import heappush, heapreplace
from math import isnan, nan
from typing import NamedTuple

from radiator.core.overview.looks import Slices
from radiator.core.overview.rings import Ring
from radiator.core.queues.queue import Queue
from radiator.model.limits import HISTORY_QUEUES, SAMPLED_AT_ONCE
from radiator.model.numbers import PAUSE

SCORE_KEPT = 0.9  # the part of a score that is kept from interval to interval
CANDIDATES = 20  # queues that get a ring in place of others in one interval, at most
_MASK = 2**32 - 1  # the bits that are kept of a ledger's column: between two looks they do not wrap around


class Rates(NamedTuple):
    """Messages in a second; None: the queue was not looked at twice yet. out: acked, or handed over."""

    in_per_s: float | None
    out_per_s: float | None


_UNKNOWN = Rates(None, None)


class Totals:
    """Sums over all queues that a look has seen. came, left: since the look before."""

    __slots__ = ("came", "delayed", "left", "ready", "stored", "unacked")

    def __init__(self) -> None:
        self.came = self.left = self.stored = self.ready = self.unacked = self.delayed = 0


class Counters:
    """Each queue has a place in some columns: 28 bytes, and what the dict `places` takes.

    seen_in, seen_out: the ledger's columns at the last look; base_in, base_out: at the last one of rates. in_rate,
    out_rate: what these found. score: what has moved lately. still_s: the last second, from since_s on, in which the
    queue had nothing or something left it.
    """

    __slots__ = (
        "base_in", "base_out", "free", "has_looked", "in_rate", "out_rate", "places", "score", "seen_in", "seen_out",
        "since_s", "still_s",
    )  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.has_looked = False
        self.places: dict[Queue, int] = {}
        self.free: list[int] = []
        self.seen_in, self.seen_out, self.base_in, self.base_out, self.still_s = (array("I") for _ in range(5))
        self.in_rate, self.out_rate, self.score = (array("f") for _ in range(3))

    # ---- each second ------------------------------------------------------------------------------------------------

    def look(self, queues: Iterable[Queue], totals: Totals, now_s: float) -> None:
        """Adds what these have, and what has moved in them. Each queue costs some 0.5 µs, so no functions are
        called.
        """
        places, seen_in, seen_out, still_s = self.places, self.seen_in, self.seen_out, self.still_s
        second = int(now_s - self.since_s)
        came = left = stored = ready = unacked = delayed = 0
        for queue in queues:
            place = places.get(queue)
            if place is None:
                place = self._take(queue, second)
            ledger = queue.ledger
            accepted, acked = ledger.accepted & _MASK, ledger.acked & _MASK
            if accepted != seen_in[place]:
                came += (accepted - seen_in[place]) & _MASK
                seen_in[place] = accepted
            if acked != seen_out[place]:
                left += (acked - seen_out[place]) & _MASK
                seen_out[place] = acked
                still_s[place] = second
            if ledger.stored:
                stored += ledger.stored
                delayed += ledger.stored_delayed
                unacked += len(queue.entries_out)
                ready += queue.ready_count
            else:
                still_s[place] = second
        totals.came += came
        totals.left += left
        totals.stored += stored
        totals.ready += ready
        totals.unacked += unacked
        totals.delayed += delayed

    def _take(self, queue: Queue, second: int) -> int:
        """Gives a place to a queue that has none. What the store had at the start does not count as having
        come since.
        """
        columns = (self.seen_in, self.seen_out, self.base_in, self.base_out)
        counts = (0, 0, 0, 0) if self.has_looked else (queue.ledger.accepted, queue.ledger.acked) * 2
        if self.free:
            place = self.free.pop()
        else:
            place = len(self.score)
            for column in (*columns, self.still_s, self.in_rate, self.out_rate, self.score):
                column.append(0)
        for column, count in zip(columns, counts, strict=True):
            column[place] = count & _MASK
        self.in_rate[place] = self.out_rate[place] = nan
        self.score[place] = 0.0
        self.still_s[place] = second
        self.places[queue] = place
        return place

    def let_go(self) -> Slices:
        """Frees the places of queues that are gone."""
        for begin in range(0, len(all_of_them := [*self.places]), SAMPLED_AT_ONCE):
            for queue in all_of_them[begin : begin + SAMPLED_AT_ONCE]:
                if queue.is_gone:
                    self.free.append(self.places.pop(queue))
            yield PAUSE

    # ---- each interval ----------------------------------------------------------------------------------------------

    def rate(
        self,
        queues: Iterable[Queue],
        elapsed_s: float,
        rings: dict[Queue, Ring],
        at: range,
        share: float,
        candidates: list[tuple[float, str, Queue]],
        most: int,
    ) -> None:
        """Computes the rates of these, and samples those that have a ring; of the others, the `most` with the highest
        scores are kept as candidates for one. elapsed_s: since the last time; 0: this is the first. at, share: see
        periods.py.
        """
        base_in, base_out, score, places = self.base_in, self.base_out, self.score, self.places
        in_rate, out_rate = self.in_rate, self.out_rate
        per_s = 1 / elapsed_s if elapsed_s else nan
        for queue in queues:
            place = places.get(queue)
            if place is None:
                continue
            ledger = queue.ledger
            accepted, acked = ledger.accepted & _MASK, ledger.acked & _MASK
            came, left = (accepted - base_in[place]) & _MASK, (acked - base_out[place]) & _MASK
            base_in[place], base_out[place] = accepted, acked
            in_rate[place], out_rate[place] = came * per_s, left * per_s
            # one that holds messages is of more interest than one that is empty
            now = score[place] * SCORE_KEPT + came + left + (1 if ledger.stored else 0)
            score[place] = now
            ring = rings.get(queue)
            if ring is not None:
                ring.score = now
                if share != 1.0:
                    came, left = round(came * share), round(left * share)
                ring.put(at, (came, left, queue.ready_count, len(queue.entries_out)))
            elif len(candidates) < most:
                heappush(candidates, (now, queue.name, queue))
            elif now > candidates[0][0]:
                heapreplace(candidates, (now, queue.name, queue))

    def rates(self, queue: Queue) -> Rates:
        """Returns its rates in the last interval."""
        place = self.places.get(queue)
        if place is None or isnan(self.in_rate[place]):
            return _UNKNOWN
        return Rates(round(self.in_rate[place], 1), round(self.out_rate[place], 1))

    def rate_of(self, column: "array[float]", queue: Queue) -> float:
        """Returns its rate in that column, to compare it by; -1: it is not known."""
        place = self.places.get(queue)
        rate = nan if place is None else column[place]
        return -1.0 if isnan(rate) else rate

    def still_for_s(self, queue: Queue, now_s: float) -> float:
        """Returns for how long it has held messages and none has left it, as far as was seen; to a second or two."""
        place = self.places.get(queue)
        return 0.0 if place is None else max(0.0, now_s - self.since_s - self.still_s[place])


def candidates_of(rings: int) -> int:
    """Returns how many queues may get a ring at once, if `rings` have one: as many as are free, but some at least."""
    return max(CANDIDATES, HISTORY_QUEUES - rings)
