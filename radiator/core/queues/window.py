"""The window of one queue on the disk: the head of the queue, READY in memory, in order, without a gap.

`beyond` messages follow it on the disk (or on their way there). A new message stays in memory only if nothing is
beyond and the window has room; otherwise it is read back when the window runs low (read_back.py). Delayed messages
(delayed.py) are not part of it.

A returned message may be a stub: its place and counts are in memory, its bytes only on the disk.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TypeVar

from radiator.core.connections import Subscription
from radiator.core.queues.entry import Entry, Stub
from radiator.core.queues.windows import Windows
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES, WINDOW_BYTES, WINDOW_MESSAGES

_Placed = TypeVar("_Placed", int, tuple[int, Entry])


class Window:
    """ready, returned, ring: the queue's own. storing, due: entries, by position, that become READY once their batch is
    committed. beyond: how many messages follow the window; end: the position of the last one in it. size: the bytes in
    it, without stubs; stubs, stub_bytes: how many of `returned` and `due` are stubs, and their bytes.
    is_loading: messages of the queue are being read back.
    """

    __slots__ = (
        "beyond", "end", "is_loading", "ready", "returned", "ring", "size", "storing", "stub_bytes", "stubs", "due",
        "windows",
    )  # fmt: skip

    def __init__(
        self,
        windows: Windows,
        ready: deque[Entry],
        returned: list[tuple[int, Entry]],
        ring: OrderedDict[Subscription, None],
        beyond: int,
    ) -> None:
        self.windows = windows
        self.ready = ready
        self.returned = returned
        self.ring = ring
        self.storing: dict[int, Entry] = {}
        self.due: dict[int, Entry] = {}
        self.beyond = beyond
        self.end = 0
        self.size = 0
        self.stubs = self.stub_bytes = 0
        self.is_loading = False

    @property
    def count(self) -> int:
        """The number of messages that have their place in the window."""
        return len(self.ready) + len(self.returned) + len(self.storing) + len(self.due)

    @property
    def oldest_is_stub(self) -> bool:
        """Whether the oldest returned message is a stub, so that its bytes must be read back before it is dropped."""
        return bool(self.returned) and self.returned[0][1].is_stub

    def takes(self, size: int) -> bool:
        """Whether one more message fits; an empty window takes one of any size for a consumer that has room."""
        # `count`, inlined: each message comes here
        return self.takes_beside(len(self.ready) + len(self.returned) + len(self.storing) + len(self.due), size)

    def takes_beside(self, count: int, size: int) -> bool:
        """Returns what `takes` would return if there were `count` messages in the window."""
        if count == 0 and self.ring:
            return True
        return (
            count < WINDOW_MESSAGES
            and (self.size + size <= WINDOW_BYTES or count == 0)
            and self.windows.size + size <= self.windows.size_max
        )

    def takes_again(self, size: int) -> bool:
        """Whether a message that found no room would find it now, with room for others too, so that few are read back
        in vain: the window must hold no more than one read brings.
        """
        count = len(self.ready) + len(self.returned) + len(self.due)
        has_little = count <= LOAD_MESSAGES and self.size <= LOAD_BYTES
        return has_little and (self.count == 0 or self.takes(size))

    # ---- what is in it, in bytes ------------------------------------------------------------------------------------

    def add(self, size: int) -> None:
        """Counts that many more bytes as in the window."""
        self.size += size
        self.windows.size += size

    def add_stub(self, size: int) -> None:
        """Counts one more stub among `returned` or `due`."""
        self.stubs += 1
        self.stub_bytes += size

    def left(self, entry: Entry) -> None:
        """Called when an entry is delivered or leaves: its bytes, if they are in memory, now count as in flight."""
        size = entry.size
        if type(entry.message) is Stub:
            self.stubs -= 1
            self.stub_bytes -= size
            return
        self.size -= size
        self.windows.size -= size
        self.windows.out += size

    def put_back(self, entry: Entry) -> None:
        """Puts back at its place a READY entry that was taken from the head."""
        self.add(entry.size)
        self.windows.out -= entry.size
        heapq.heappush(self.returned, (entry.position, entry))

    def came_back(self, entry: Entry) -> None:
        """Takes back a delivered entry. Its bytes stay in memory if the window has room."""
        size = entry.size
        if type(entry.message) is not Stub:
            self.windows.out -= size
            if self.takes(size):
                self.add(size)
                return
            entry.message = Stub(entry.message)
        self.add_stub(size)

    def shrink(self) -> None:
        """Makes stubs of all `ready` entries: no consumer has room for them, and all windows together are full."""
        while self.ready:
            entry = self.ready.popleft()
            self.size -= entry.size
            self.windows.size -= entry.size
            self.add_stub(entry.size)
            entry.message = Stub(entry.message)
            heapq.heappush(self.returned, (entry.position, entry))

    def take_returned(self) -> list[tuple[int, Entry]]:
        """Takes out all entries that came back, with their positions, in no order."""
        returned = self.returned[:]
        self.returned.clear()
        return returned

    def drop_returned(self, position: int) -> None:
        """Removes a damaged entry from those that came back."""
        self.returned[:] = [pair for pair in self.returned if pair[0] != position]
        heapq.heapify(self.returned)

    # ---- what is in it, in order ------------------------------------------------------------------------------------

    def next_stubs(self, bytes_max: int, is_crowded: bool, is_needed: bool) -> dict[int, Entry]:
        """Returns the next stubs to read back, by position, ascending. They are among the first LOAD_MESSAGES that came
        back or, if is_needed, after any number of entries whose bytes are in memory.
        """
        asked: dict[int, Entry] = {}
        for count, (position, entry) in enumerate(ascending(self.returned)):
            if entry.is_stub:
                if asked and (is_crowded or bytes_max < entry.size):
                    break
                asked[position] = entry
                bytes_max -= entry.size
            if len(asked) == LOAD_MESSAGES or (count == LOAD_MESSAGES and not is_needed):
                break
        return asked


def ascending(heap: list[_Placed]) -> Iterator[_Placed]:
    """Yields what a heap holds, in order, without taking it out. The cost grows with how many items are consumed."""
    next_ones = [(heap[0], 0)] if heap else []
    while next_ones:
        pair, place = heapq.heappop(next_ones)
        yield pair
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                heapq.heappush(next_ones, (heap[below], below))
