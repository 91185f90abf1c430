"""A partition of a log: its segments, the last of its records, and how far each reader has come."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from radiator.model.message import Message
from radiator.model.writes import KeepSegment


class PartitionReader(Protocol):
    """A reader of partitions of a log."""

    def grown(self, cursor: "Cursor") -> None:
        """Called when the partition has more."""

    def pump(self) -> None:
        """Delivers what is there."""

    def yield_partition(self, cursor: "Cursor") -> None:
        """Lets another reader of its group have the partition when nothing of it is unacked."""

    def drop(self, cursor: "Cursor") -> None:
        """Stops reading the partition."""


class Partition:
    """segments: oldest first; records are appended to the last. next: the offset of the next record; committed: all
    offsets below it are on the disk. tail: the last records, as readers get them, from offset tail_first on; kept while
    there are readers. cursors: those of its readers.
    """

    __slots__ = ("committed", "cursors", "index", "next", "segments", "size", "tail", "tail_bytes", "tail_first")

    def __init__(self, index: int) -> None:
        self.index = index
        self.segments: deque[KeepSegment] = deque()
        self.next = 0
        self.committed = 0
        self.size = 0
        self.tail: list[Message] = []
        self.tail_first = 0
        self.tail_bytes = 0
        self.cursors: dict[Cursor, None] = {}

    def recover(self, segments: Iterable[KeepSegment]) -> None:
        """Restores the partition, as the start finds it."""
        self.segments.extend(segments)
        self.settle_times(self.last_ms)
        self.size = sum(segment.size for segment in self.segments)
        if self.segments:
            last = self.segments[-1]
            self.next = self.committed = self.tail_first = last.first + last.count

    def settle_times(self, latest_ms: int) -> list[KeepSegment]:
        """Lowers the times of segments that are later than the next segment's, or than latest_ms: their records came
        while the clock was ahead. Returns the changed ones.
        """
        settled = []
        for segment in reversed(self.segments):
            if segment.count and segment.last_ms > latest_ms:
                segment.last_ms = latest_ms
                segment.first_ms = min(segment.first_ms, latest_ms)
                settled.append(segment)
            elif segment.count:
                latest_ms = segment.last_ms
        return settled

    @property
    def first(self) -> int:
        """The first offset that is kept."""
        return next((s.begin for s in self.segments if s.begin < s.first + s.count), self.next)

    @property
    def first_ms(self) -> int:
        """When its oldest segment's first record was accepted; 0: it has none."""
        return next((segment.first_ms for segment in self.segments if segment.count), 0)

    @property
    def last_ms(self) -> int:
        """When the newest segment's last record was accepted; 0: it has none."""
        return next((segment.last_ms for segment in reversed(self.segments) if segment.count), 0)

    def segment_at(self, time_ms: int) -> int:
        """Returns the first offset of the segment in which the first record accepted then or later may be."""
        for segment in self.segments:
            if segment.last_ms >= time_ms and segment.begin < segment.first + segment.count:
                return segment.begin
        return self.next


class Cursor:
    """The place of a reader in a partition. began: its first offset; next: the offset to read next; end: where it
    stops, or None; from_ms: it passes over all before the first record that was accepted then or later; out: how many
    are unacked; is_leaving: another reader of the group gets it once none are; skipped: how many records the group has
    missed, until a delivery has reported it.
    """

    __slots__ = (
        "began",
        "end",
        "from_ms",
        "index",
        "is_leaving",
        "is_over",
        "next",
        "out",
        "partition",
        "reader",
        "skipped",
    )

    def __init__(
        self, reader: PartitionReader, partition: Partition, first: int, end: int | None, from_ms: int
    ) -> None:
        self.reader = reader
        self.partition = partition
        self.index = partition.index
        self.began = self.next = first
        self.end = end
        self.from_ms = from_ms
        self.out = 0
        self.skipped = 0
        self.is_leaving = False
        self.is_over = False

    @property
    def has_unread(self) -> bool:
        """Whether there are records that it has not read."""
        return self.next < self.partition.committed and (self.end is None or self.next < self.end)
