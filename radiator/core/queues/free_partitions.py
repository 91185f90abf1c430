"""The partitions of a queue whose first message may go to any consumer: finds the oldest of all, of those assigned to
one consumer, and of those assigned to nobody.

Each is in heaps, by the position of its first message, and stays in them when it is no longer free: an item of a heap
is checked against the present state when it comes to the top.
"""

import heapq

from radiator.core.queues.assignments import Assignee
from radiator.core.queues.queue_partition import QueuePartition

HEAPIFY_SHARE = 8  # if more than this fraction (one in 8) of a heap is added, heapifying is quicker than pushing each
STALE_PLACES = 64  # heaps are rebuilt at twice the sum of this and the number of partitions or entries known


class FreePartitions:
    """by_place: all of them, by the position of their first message. heads: a heap of these positions; unassigned: a
    heap of those assigned to nobody who is there; each consumer has a heap of its own.
    """

    __slots__ = ("by_place", "heads", "unassigned")

    def __init__(self) -> None:
        self.by_place: dict[int, QueuePartition] = {}
        self.heads: list[int] = []
        self.unassigned: list[int] = []

    def add(self, partition: QueuePartition, position: int) -> Assignee | None:
        """Adds a free partition. Returns the consumer to which it is assigned; None: that consumer is not there."""
        partition.free_at = position
        self.by_place[position] = partition
        self._list(position, self.heads)
        assignee = partition.assignee
        if assignee is not None:
            self._list(position, assignee.heads, assignee)
        if assignee is None or not assignee.is_there:
            self._list(position, self.unassigned)
            return None
        return assignee

    def discard(self, partition: QueuePartition) -> None:
        """Removes a partition, if it was free."""
        if partition.free_at:
            self.by_place.pop(partition.free_at, None)
            partition.free_at = 0

    def oldest(self) -> int | None:
        """Returns the lowest of all first positions."""
        return self._top(self.heads)

    def oldest_of(self, assignee: Assignee) -> int | None:
        """Returns the lowest first position of the partitions assigned to that consumer, or to no consumer that is
        there.
        """
        own = self._top(assignee.heads, assignee) if assignee.heads else None
        if self.unassigned:
            nowhere = self._top(self.unassigned)
            if own is None or (nowhere is not None and nowhere < own):
                return nowhere
        return own

    def has_any_of(self, assignee: Assignee) -> bool:
        """Whether a free partition is assigned to that consumer."""
        return self._top(assignee.heads, assignee) is not None

    def go_away(self, assignee: Assignee) -> None:
        """Called when a consumer goes away: other consumers may take the partitions assigned to it, which its own heap
        keeps too.
        """
        if HEAPIFY_SHARE * len(assignee.heads) > len(self.unassigned):
            self.unassigned += assignee.heads
            heapq.heapify(self.unassigned)
        else:  # a thousand consumers may go at once, each with some of very many keys
            for place in assignee.heads:
                heapq.heappush(self.unassigned, place)
        self._trim(self.unassigned)

    def clear(self) -> None:
        """Removes all: no partition is free."""
        for partition in self.by_place.values():
            partition.free_at = 0
        self.by_place.clear()
        self.heads.clear()
        self.unassigned.clear()

    def _list(self, position: int, heap: list[int], assignee: Assignee | None = None) -> None:
        """Puts a position into a heap; now and then removes those that have left."""
        heapq.heappush(heap, position)
        self._trim(heap, assignee)

    def _trim(self, heap: list[int], assignee: Assignee | None = None) -> None:
        if len(heap) > 2 * (len(self.by_place) + STALE_PLACES):
            known = self.by_place
            heap[:] = sorted({one for one in heap if one in known and self._belongs(heap, known[one], assignee)})

    def _top(self, heap: list[int], assignee: Assignee | None = None) -> int | None:
        """Returns the first position in a heap whose partition is free and assigned to that consumer. assignee: None
        for `unassigned`: assigned to nobody who is there.
        """
        while heap:
            partition = self.by_place.get(heap[0])
            if partition is not None and self._belongs(heap, partition, assignee):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _belongs(self, heap: list[int], partition: QueuePartition, assignee: Assignee | None) -> bool:
        if heap is self.heads:
            return True
        if assignee is not None:
            return partition.assignee is assignee
        return partition.assignee is None or not partition.assignee.is_there
