"""The samples of the broker as a whole, one a second, and how a second's latencies are computed from a histogram."""

from array import array
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Any

from radiator.core.overview.periods import Periods
from radiator.model.limits import HISTORY_S

COUNT, SIZE, TIME = "I", "Q", "f"
COUNT_MAX = 2**32 - 1
COLUMNS: Mapping[str, str] = {
    "in": COUNT,
    "out": COUNT,
    "delivered": COUNT,
    "appended": COUNT,
    "stored": COUNT,
    "ready": COUNT,
    "unacked": COUNT,
    "delayed": COUNT,
    "connections": COUNT,
    "parked": COUNT,
    "receipt_p50_ms": TIME,
    "receipt_p99_ms": TIME,
    "memory_bytes": SIZE,
}
"""The names of the numbers, in their order, and how each is kept. The first four are of that second alone."""
EVERY_MS = 1000
SPARE = 20  # places beyond an hour


class Series:
    """An hour of samples. A few more places than that are kept, so that an answer which takes some turns has them all
    to its end.
    """

    __slots__ = ("columns", "periods")

    def __init__(self) -> None:
        self.periods = Periods(EVERY_MS, HISTORY_S * 1000 // EVERY_MS + SPARE)
        zeros = self.periods.capacity
        self.columns: dict[str, array[Any]] = {
            name: array(code, bytes(array(code).itemsize * zeros)) for name, code in COLUMNS.items()
        }

    def put(self, places: range, sample: Mapping[str, float | None]) -> None:
        """Puts a sample at these places of `periods`. A latency is None where there was none."""
        for name, code in COLUMNS.items():
            value = sample[name]
            column = self.columns[name]
            if code == TIME:
                kept: float = nan if value is None else value
            else:
                kept = int(value or 0) if code == SIZE else min(int(value or 0), COUNT_MAX)
            for place in places:
                column[place % len(column)] = kept

    def values(self, name: str, places: range) -> list[int | float | None]:
        """Returns the values of that number; None where there is no sample."""
        column, periods = self.columns[name], self.periods
        size = periods.capacity
        if not places:
            return []
        begin, end = places[0] % size, places[-1] % size + 1
        in_order = column[begin:end] if begin < end else column[begin:] + column[:end]
        values = map(_rounded, in_order) if COLUMNS[name] == TIME else in_order
        return [value if is_there else None for value, is_there in zip(values, periods.there(places), strict=True)]


def _rounded(latency_ms: float) -> float | None:
    """Rounds to three digits: more are not known."""
    return None if isnan(latency_ms) else float(f"{latency_ms:.3g}")


def quantile_ms(buckets_ms: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Returns what that share of the values is at most, as if the values of a bucket lay evenly in it; None: there are
    none. A value beyond the last bucket counts as its end.
    """
    wanted = sum(counts) * share
    if not wanted:
        return None
    below_ms = 0.0
    for end_ms, count in zip(buckets_ms, counts[:-1], strict=True):
        if wanted <= count:
            return below_ms + (end_ms - below_ms) * wanted / count
        wanted -= count
        below_ms = end_ms
    return below_ms
