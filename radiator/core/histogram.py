"""Counts how long things take, in fixed buckets: constant memory, and one bisect for each that is counted."""

from bisect import bisect_left

from radiator.model.numbers import LatencyNumbers

# upper ends of the buckets in milliseconds; one more counts what is longer than the last
COMMIT_BUCKETS_MS = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
# a message's times are whole milliseconds, and one may wait for hours
DELIVERY_BUCKETS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 600_000, 3_600_000)


class Histogram:
    """counts: one for each bucket, and one for what is longer. sum_ms: of all.

    last_ms, repeats: the last value added, and how often it was repeated since, which is not in the counts yet. Most
    deliveries of a turn took as long as the one before: for those only `repeats` is incremented.
    """

    __slots__ = ("buckets_ms", "counts", "last_ms", "repeats", "sum_ms")

    def __init__(self, buckets_ms: tuple[float, ...]) -> None:
        self.buckets_ms = buckets_ms
        self.counts = [0] * (len(buckets_ms) + 1)
        self.sum_ms = 0.0
        self.last_ms = 0.0
        self.repeats = 0

    def add(self, ms: float) -> None:
        """Counts one time. If clocks disagree it may be below 0, and counts as 0."""
        if self.repeats:
            self._count(self.last_ms, self.repeats)
            self.repeats = 0
        self._count(ms, 1)
        self.last_ms = ms

    def _count(self, ms: float, times: int) -> None:
        self.counts[bisect_left(self.buckets_ms, ms)] += times
        if ms > 0:
            self.sum_ms += times * ms

    def numbers(self) -> LatencyNumbers:
        """Returns the numbers as of now."""
        self._count(self.last_ms, self.repeats)
        self.repeats = 0
        return LatencyNumbers([*self.buckets_ms], [*self.counts], round(self.sum_ms, 3))
