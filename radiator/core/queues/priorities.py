"""The messages of a queue with priorities, as far as memory knows them: a lane for each priority."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from radiator.core.queues.entry import Entry
from radiator.model.message import Message
from radiator.model.priorities import hash_of_priority, priority_of


@dataclass(slots=True, eq=False)
class PriorityLane:
    """The messages of one priority.

    hash: finds them in the store. line: a heap of the positions of those that are READY in memory; some may have left.
    count: how many are READY in memory; coming: those in memory that are on their way to READY; size: the bytes of all
    these. is_open: some may be only on the disk: all of these are after the position `after`, and none that is or was
    in memory is. put_in: the last batch that put one only on the disk. nothing_at: the last batch on the disk when a
    read found none there.
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
        """Called when a message comes that is only on the disk, after all others of this lane."""
        if not self.is_open:
            self.is_open = True
            self.after = position - 1
        self.put_in = batch


class Priorities:
    """lanes: by priority; down: the highest one first. at: the lane of each message that is in memory, or was picked
    out on the disk, until it has left the queue. entries: the READY ones in memory. Both are by position.
    """

    __slots__ = ("at", "down", "entries", "highest", "lanes")

    def __init__(self, highest: int, *, is_open: bool = False) -> None:
        self.highest = highest
        self.lanes = [PriorityLane(one, hash_of_priority(one), is_open=is_open) for one in range(highest + 1)]
        self.down = self.lanes[::-1]
        self.at: dict[int, PriorityLane] = {}
        self.entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        """Returns how many messages are READY in memory."""
        return len(self.entries)

    def of(self, message: Message) -> PriorityLane:
        """Returns the lane to which a message, which must have its bytes, belongs."""
        return self.lanes[priority_of(message, self.highest)]

    # ---- in and out -------------------------------------------------------------------------------------------------

    def is_coming(self, lane: PriorityLane, entry: Entry) -> None:
        """Adds an entry that is in memory, and not READY yet."""
        self.at[entry.position] = lane
        lane.coming[entry.position] = entry
        lane.size += entry.size

    def put(self, lane: PriorityLane, entry: Entry) -> None:
        """Adds an entry that is READY in memory to this lane."""
        position = entry.position
        self.at[position] = lane
        self.entries[position] = entry
        lane.count += 1
        if lane.coming and lane.coming.pop(position, None) is not None:
            lane.size -= entry.size
        lane.size += entry.size
        heapq.heappush(lane.line, position)

    def add(self, entry: Entry) -> None:
        """Adds an entry that is READY at its own place: it came back, or was on its way."""
        self.put(self.at.get(entry.position) or self.of(entry.message), entry)

    def take(self, entry: Entry) -> None:
        """Takes out an entry that is no longer READY."""
        position = entry.position
        lane = self.at[position]
        del self.entries[position]
        lane.count -= 1
        lane.size -= entry.size
        if lane.line[0] == position:
            heapq.heappop(lane.line)

    def gone(self, position: int) -> None:
        """Called when a message that is not READY has left the queue, or is delayed from now on."""
        lane = self.at.pop(position, None)
        if lane is not None and lane.coming:
            entry = lane.coming.pop(position, None)
            lane.size -= 0 if entry is None else entry.size

    def take_all(self) -> dict[int, Entry]:
        """Takes out all READY entries, by position; each is to leave the queue."""
        taken, self.entries = self.entries, {}
        for lane in self.lanes:
            lane.line, lane.count = [], 0
            lane.size = sum(entry.size for entry in lane.coming.values())
        return taken

    def clear(self) -> None:
        """Called when the queue is deleted: drops everything."""
        self.take_all()
        self.at.clear()
        for lane in self.lanes:
            lane.coming.clear()
            lane.size, lane.is_open = 0, False

    # ---- which is next ----------------------------------------------------------------------------------------------

    def first(self, lane: PriorityLane) -> Entry | None:
        """Returns the first READY entry of a lane."""
        line, entries = lane.line, self.entries
        while line:
            found = entries.get(line[0])
            if found is not None:
                return found
            heapq.heappop(line)
        return None

    def head(self) -> Entry | None:
        """Returns the READY entry that is next. None: there is none, or one that is only on the disk may go first."""
        for lane in self.down:
            if lane.count:
                return self.first(lane)
            if lane.is_open:
                return None
        return None

    def firsts(self) -> Iterator[Entry]:
        """Yields the first READY entry in memory of each lane that has one, the highest lane first."""
        return filter(None, map(self.first, self.down))

    def before(self, lane: PriorityLane) -> int:
        """Returns how many READY entries in memory go before what a lane has only on the disk."""
        return sum(one.count for one in self.lanes[lane.priority :])

    # ---- what is only on the disk -----------------------------------------------------------------------------------

    @property
    def open_lanes(self) -> list[PriorityLane]:
        """The lanes that may have messages only on the disk, the highest first."""
        return [lane for lane in self.down if lane.is_open]

    def close(self) -> None:
        """Called when no message of the queue is only on the disk."""
        for lane in self.lanes:
            lane.is_open = False

    def is_on_disk_alone(self, message: Message, position: int) -> bool:
        """Whether a message that a read has found, with all its headers, is only on the disk."""
        lane = self.of(message)
        return lane.is_open and position > lane.after

    # ---- what may be dropped ----------------------------------------------------------------------------------------

    def droppable(self) -> tuple[int, int]:
        """Counts the messages in memory, and their bytes, that may be dropped, the least urgent and oldest first, until
        something must be read.
        """
        count = size = 0
        for lane in self.lanes:
            count += lane.count + len(lane.coming)
            size += lane.size
            if lane.is_open:
                break
        return count, size

    def in_order(self) -> list[Entry]:
        """Returns the READY entries in memory, in order of position."""
        return [self.entries[position] for position in sorted(self.entries)]
