"""Things that are over at a time, and may end before it: each is added, removed and found in constant time."""

import heapq
from math import ceil
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Kept by steps: a thing is found up to one step after its time, never before it. All times have one unit: seconds
    of the monotonic clock, or whole milliseconds since the epoch.
    """

    __slots__ = ("buckets", "keys", "step")

    def __init__(self, step: float) -> None:
        self.step = step
        self.buckets: dict[int, dict[T, None]] = {}
        # a heap of the buckets' keys; an empty one stays until its time, so that none is in it twice
        self.keys: list[int] = []

    def add(self, thing: T, due: float) -> None:
        """Adds a thing that is over at that time."""
        key = ceil(due / self.step)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = {}
            heapq.heappush(self.keys, key)
        bucket[thing] = None

    def remove(self, thing: T, due: float) -> None:
        """Removes a thing that has ended otherwise. due: as for `add`; it may have been removed already."""
        bucket = self.buckets.get(ceil(due / self.step))
        if bucket is not None:
            bucket.pop(thing, None)

    @property
    def first(self) -> float | None:
        """When the first of them is found; None: there is none."""
        while self.keys and not self.buckets[self.keys[0]]:
            del self.buckets[heapq.heappop(self.keys)]
        return self.keys[0] * self.step if self.keys else None

    def take_due(self, now: float, most: int) -> list[T]:
        """Removes and returns things that are over, at most `most`."""
        found: list[T] = []
        while self.keys and self.keys[0] * self.step <= now and len(found) < most:
            bucket = self.buckets[self.keys[0]]
            while bucket and len(found) < most:
                found.append(bucket.popitem()[0])
            if not bucket:
                del self.buckets[heapq.heappop(self.keys)]
        return found
