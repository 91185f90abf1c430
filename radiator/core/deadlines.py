"""Things that are over at a time, and may end before it: each is added, removed and found in constant time."""

import heapq
from math import ceil
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Kept by steps of step_s seconds: a thing is found up to that much after its time, never before it."""

    __slots__ = ("buckets", "keys", "step_s")

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self.buckets: dict[int, dict[T, None]] = {}
        # a heap of the buckets' keys; an empty one stays until its time, so that none is in it twice
        self.keys: list[int] = []

    def add(self, thing: T, due_s: float) -> None:
        """It is over at due_s, in monotonic seconds."""
        key = ceil(due_s / self.step_s)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = {}
            heapq.heappush(self.keys, key)
        bucket[thing] = None

    def remove(self, thing: T, due_s: float) -> None:
        """It has ended otherwise. due_s: as it was added; it may be gone already."""
        bucket = self.buckets.get(ceil(due_s / self.step_s))
        if bucket is not None:
            bucket.pop(thing, None)

    def take_due(self, now_s: float, most: int) -> list[T]:
        """Takes out what is over, at most so much."""
        found: list[T] = []
        while self.keys and self.keys[0] * self.step_s <= now_s and len(found) < most:
            bucket = self.buckets[self.keys[0]]
            while bucket and len(found) < most:
                found.append(bucket.popitem()[0])
            if not bucket:
                del self.buckets[heapq.heappop(self.keys)]
        return found
