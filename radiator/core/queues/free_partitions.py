"""The partitions of a queue of which the first message may go to anybody: which is the oldest of all, of those of one
consumer, and of those of nobody.

Each is in heaps, by the place of its first message, and leaves none of them when it is free no more: what a heap has is
compared with what is known now, when it comes to its top.
"""

import heapq

from radiator.core.queues.assignments import Assignee
from radiator.core.queues.queue_partition import QueuePartition

HEAPIFY_SHARE = 8  # of a heap: where a larger part of it comes, making it anew is quicker than pushing each
STALE_PLACES = 64  # heaps are made anew when so many more places than messages are in them, twice over


class FreePartitions:
    """by_place: all of them, by the place of their first message. heads: a heap of these places; unassigned: of those
    that are assigned to nobody who is there; each consumer that is has one of its own.
    """

    __slots__ = ("by_place", "heads", "unassigned")

    def __init__(self) -> None:
        self.by_place: dict[int, QueuePartition] = {}
        self.heads: list[int] = []
        self.unassigned: list[int] = []

    def add(self, partition: QueuePartition, position: int) -> Assignee | None:
        """It is free; the consumer that it is assigned to, if that is there."""
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
        """It is not, if it was."""
        if partition.free_at:
            self.by_place.pop(partition.free_at, None)
            partition.free_at = 0

    def oldest(self) -> int | None:
        """The first place of all."""
        return self._top(self.heads)

    def oldest_of(self, assignee: Assignee) -> int | None:
        """The first place of what is assigned to that consumer, or to nobody who is there."""
        own = self._top(assignee.heads, assignee) if assignee.heads else None
        if self.unassigned:
            nowhere = self._top(self.unassigned)
            if own is None or (nowhere is not None and nowhere < own):
                return nowhere
        return own

    def has_any_of(self, assignee: Assignee) -> bool:
        """Whether one is assigned to that consumer."""
        return self._top(assignee.heads, assignee) is not None

    def go_away(self, assignee: Assignee) -> None:
        """A consumer is not there: what is assigned to it is for others, and in its own heap, too, until it is back."""
        if HEAPIFY_SHARE * len(assignee.heads) > len(self.unassigned):
            self.unassigned += assignee.heads
            heapq.heapify(self.unassigned)
        else:  # a thousand consumers may go at once, each with some of very many keys
            for place in assignee.heads:
                heapq.heappush(self.unassigned, place)
        self._trim(self.unassigned)

    def clear(self) -> None:
        """None is free."""
        for partition in self.by_place.values():
            partition.free_at = 0
        self.by_place.clear()
        self.heads.clear()
        self.unassigned.clear()

    def _list(self, position: int, heap: list[int], assignee: Assignee | None = None) -> None:
        """Puts a place into a heap; now and then those that have left go."""
        heapq.heappush(heap, position)
        self._trim(heap, assignee)

    def _trim(self, heap: list[int], assignee: Assignee | None = None) -> None:
        if len(heap) > 2 * (len(self.by_place) + STALE_PLACES):
            known = self.by_place
            heap[:] = sorted({one for one in heap if one in known and self._belongs(heap, known[one], assignee)})

    def _top(self, heap: list[int], assignee: Assignee | None = None) -> int | None:
        """The first place of a heap whose partition is free, and assigned to that consumer. None, for `unassigned`: to
        nobody who is there.
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
