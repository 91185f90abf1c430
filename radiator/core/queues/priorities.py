"""The messages of a queue with priorities, as far as memory knows of them: a lane for each priority."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from radiator.core.queues.entry import Entry
from radiator.model.message import Message
from radiator.model.priorities import hash_of_priority, priority_of


@dataclass(slots=True, eq=False)
class PriorityLane:
    """The messages of one priority.

    hash: what finds them in the store. line: a heap of the places of those that are READY in memory; some may have
    left. count: how many are READY in memory; coming: those in memory that are on their way to READY; size: the bytes
    of all these. is_open: there may be some on the disk alone; all of these are behind the place `after`, and none that
    is in memory, or has been, is. put_in: the last batch that put one there. nothing_at: the last batch on the disk
    when a read found none there.
    """

    priority: int
    hash: bytes
    line: list[int] = field(default_factory=list)
    count: int = 0
    coming: dict[int, Entry] = field(default_factory=dict)
    size: int = 0
    is_open: bool = False
    after: int = 0
    put_in: int = 0
    nothing_at: int = -1

    def opened_by(self, position: int, batch: int) -> None:
        """One comes that is on the disk alone, behind all others of it."""
        if not self.is_open:
            self.is_open = True
            self.after = position - 1
        self.put_in = batch


class Priorities:
    """lanes: by priority; down: the highest one first. at: the lane of each message that is in memory, or was picked
    out on the disk, until it has left the queue. entries: those that are READY in memory. All by place.
    """

    __slots__ = ("at", "down", "entries", "highest", "lanes")

    def __init__(self, highest: int, *, is_open: bool = False) -> None:
        self.highest = highest
        self.lanes = [PriorityLane(one, hash_of_priority(one), is_open=is_open) for one in range(highest + 1)]
        self.down = self.lanes[::-1]
        self.at: dict[int, PriorityLane] = {}
        self.entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        """How many are READY in memory."""
        return len(self.entries)

    def of(self, message: Message) -> PriorityLane:
        """The lane that a message with all its bytes belongs to."""
        return self.lanes[priority_of(message, self.highest)]

    # ---- in and out -------------------------------------------------------------------------------------------------

    def is_coming(self, lane: PriorityLane, entry: Entry) -> None:
        """One is in memory, and not READY yet."""
        self.at[entry.position] = lane
        lane.coming[entry.position] = entry
        lane.size += entry.size

    def put(self, lane: PriorityLane, entry: Entry) -> None:
        """One is READY in memory."""
        position = entry.position
        self.at[position] = lane
        self.entries[position] = entry
        lane.count += 1
        if lane.coming and lane.coming.pop(position, None) is not None:
            lane.size -= entry.size
        lane.size += entry.size
        heapq.heappush(lane.line, position)

    def add(self, entry: Entry) -> None:
        """One is READY at its own place: it came back, or was on its way."""
        self.put(self.at.get(entry.position) or self.of(entry.message), entry)

    def take(self, entry: Entry) -> None:
        """One that was READY is not any more."""
        position = entry.position
        lane = self.at[position]
        del self.entries[position]
        lane.count -= 1
        lane.size -= entry.size
        if lane.line[0] == position:
            heapq.heappop(lane.line)

    def gone(self, position: int) -> None:
        """One has left the queue, or is delayed from now on; it is not READY."""
        lane = self.at.pop(position, None)
        if lane is not None and lane.coming:
            entry = lane.coming.pop(position, None)
            lane.size -= 0 if entry is None else entry.size

    def take_all(self) -> dict[int, Entry]:
        """Takes out all that are READY, by place; each is to leave the queue."""
        taken, self.entries = self.entries, {}
        for lane in self.lanes:
            lane.line, lane.count = [], 0
            lane.size = sum(entry.size for entry in lane.coming.values())
        return taken

    def clear(self) -> None:
        """The queue is deleted."""
        self.take_all()
        self.at.clear()
        for lane in self.lanes:
            lane.coming.clear()
            lane.size, lane.is_open = 0, False

    # ---- which is next ----------------------------------------------------------------------------------------------

    def first(self, lane: PriorityLane) -> Entry | None:
        """The READY one of a lane that has its place before the others."""
        line, entries = lane.line, self.entries
        while line:
            found = entries.get(line[0])
            if found is not None:
                return found
            heapq.heappop(line)
        return None

    def head(self) -> Entry | None:
        """The READY one that is next. None: there is none, or one that is on the disk alone may be before it."""
        for lane in self.down:
            if lane.count:
                return self.first(lane)
            if lane.is_open:
                return None
        return None

    def firsts(self) -> Iterator[Entry]:
        """The first one of each lane that has any READY in memory, the highest first."""
        return filter(None, map(self.first, self.down))

    def before(self, lane: PriorityLane) -> int:
        """How many in memory are READY before what a lane has on the disk alone."""
        return sum(one.count for one in self.lanes[lane.priority :])

    # ---- what is on the disk alone ----------------------------------------------------------------------------------

    @property
    def open_lanes(self) -> list[PriorityLane]:
        """The highest first."""
        return [lane for lane in self.down if lane.is_open]

    def close(self) -> None:
        """Nothing of the queue is on the disk alone."""
        for lane in self.lanes:
            lane.is_open = False

    def is_on_disk_alone(self, message: Message, position: int) -> bool:
        """Of one that a read has found, with all its headers."""
        lane = self.of(message)
        return lane.is_open and position > lane.after

    # ---- what may be dropped ----------------------------------------------------------------------------------------

    def droppable(self) -> tuple[int, int]:
        """How many in memory may be dropped, what is least urgent and oldest first, before anything must be read, and
        their bytes.
        """
        count = size = 0
        for lane in self.lanes:
            count += lane.count + len(lane.coming)
            size += lane.size
            if lane.is_open:
                break
        return count, size

    def in_order(self) -> list[Entry]:
        """Those that are READY in memory, by their places."""
        return [self.entries[position] for position in sorted(self.entries)]
