"""Removes what is too old in a log, or too much: whole segments, the oldest first. Readers lose them at once; from the
disk each batch removes as much as one full segment has, so that nothing has to wait for it.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping

from radiator.core.logs.log import Log
from radiator.core.logs.partition import Partition
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.limits import BATCH_WRITES, PARTITIONS_PER_TICK, SEGMENT_RECORDS, STEP_MESSAGES
from radiator.model.writes import DropSegment, KeepSegment

# the records that a segment counts for at least: a batch adds no more segments than another removes
SEGMENT_COUNTS = SEGMENT_RECORDS // BATCH_WRITES


class Retention:
    """A background task. round: the logs still to be looked at in this round. dropping: segments that are gone for
    readers, and still on the disk; after a crash they are found there, and removed again.
    """

    __slots__ = ("context", "in_batch", "dropping", "logs", "round")

    def __init__(self, context: TurnContext, logs: Mapping[str, Log]) -> None:
        self.context = context
        self.logs = logs
        self.round: deque[Log] = deque()
        self.dropping: deque[DropSegment] = deque()
        self.in_batch = 0

    def look(self) -> bool:
        """Looks at some logs, at each Tick; returns whether there is something to drop."""
        if not self.round:
            self.round.extend(self.logs.values())
        left = PARTITIONS_PER_TICK
        while self.round and left > 0:
            log = self.round.popleft()
            left -= len(log.partitions)
            if not log.is_gone:
                self.look_at(log)
        return bool(self.dropping)

    def look_at(self, log: Log) -> None:
        """Drops what is too old, or was given up; then what is too much."""
        settings = log.log_settings
        before_ms = 0 if settings.retention_ms is None else self.context.now_ms - settings.retention_ms
        for partition in log.partitions:
            if partition.last_ms > self.context.now_ms:
                for segment in partition.settle_times(self.context.now_ms):
                    log.touch(partition, segment)
            while partition.segments and _is_over(partition.segments[0], before_ms) and self.take_off(log, partition):
                pass
        if settings.retention_bytes is None:
            return
        beyond = log.size - settings.retention_bytes
        # the segment that is appended to stays: it is a small part of all
        full = [_oldest(partition) for partition in log.partitions if beyond > 0 and len(partition.segments) > 1]
        heapq.heapify(full)
        while full and beyond > 0:
            partition = log.partitions[heapq.heappop(full)[1]]
            beyond -= partition.segments[0].size
            if not self.take_off(log, partition):
                return
            if len(partition.segments) > 1:
                heapq.heappush(full, _oldest(partition))

    def keep_within(self, log: Log, size: int) -> bool:
        """Removes the oldest segments of the log's first partition while that is larger. Returns whether it has removed
        any.
        """
        partition, has_gone = log.partitions[0], False
        while partition.size > size and len(partition.segments) > 1 and self.take_off(log, partition):
            has_gone = True
        return has_gone

    def take_off(self, log: Log, partition: Partition) -> bool:
        """Removes the partition's oldest segment. False: not yet, because the open batch still changes it."""
        segment = partition.segments[0]
        if (partition.index, segment.first) in log.touched:
            return False
        if len(partition.segments) == 1:
            log.begin_segment(partition)
        partition.segments.popleft()
        partition.size -= segment.size
        self.drop([segment])
        return True

    def drop(self, segments: Iterable[KeepSegment]) -> None:
        """Has them removed from the disk, in the background."""
        self.dropping.extend(DropSegment(s.log, s.partition, s.first, s.first + s.count) for s in segments)

    # ---- the background task ----------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return not self.dropping

    @property
    def can_go_on(self) -> bool:
        return bool(self.dropping) and self.in_batch != self.context.open.number

    def step(self) -> None:
        if self.can_go_on:
            self.in_batch = self.context.open.number
            left = SEGMENT_RECORDS
            while self.dropping and left > 0:
                dropped = self.dropping.popleft()
                records = max(SEGMENT_COUNTS, dropped.end - dropped.first)
                self.context.write(dropped, STEP_MESSAGES * WRITE_COST_BYTES * records // SEGMENT_RECORDS)
                left -= records


def _is_over(segment: KeepSegment, before_ms: int) -> bool:
    return segment.count > 0 and (segment.last_ms < before_ms or segment.begin == segment.first + segment.count)


def _oldest(partition: Partition) -> tuple[int, int]:
    """Returns when its oldest segment began, and which partition that is of."""
    return partition.segments[0].first_ms, partition.index
