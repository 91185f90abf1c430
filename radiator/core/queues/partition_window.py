"""The window of a partitioned queue: not its head, but what is READY of each key, see Partitions.has_place.

Beyond it are, in order, the messages that no read has passed; and, for each key, those that reads have passed over.
"""

from collections import OrderedDict, deque
from itertools import islice

from radiator.core.connections import Subscription
from radiator.core.queues.entry import Entry, Stub
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES


class PartitionWindow(Window):
    """See Window, and Partitions. `ready` and `returned` stay empty."""

    __slots__ = ("partitions",)

    def __init__(
        self, windows: Windows, partitions: Partitions, ring: OrderedDict[Subscription, None], beyond: int
    ) -> None:
        super().__init__(windows, deque(), [], ring, beyond)
        self.partitions = partitions

    @property
    def count(self) -> int:
        return len(self.partitions.entries) + len(self.storing) + len(self.due)

    @property
    def oldest_is_stub(self) -> bool:
        oldest = self.partitions.head()
        return oldest is not None and oldest.is_stub

    def takes(self, size: int) -> bool:
        return self.takes_beside(self.count, size)

    def takes_again(self, size: int) -> bool:
        if not self.partitions.free or self.partitions.held_bytes >= self.windows.held_max:
            return True  # everything in memory may be waiting for what is due
        has_little = self.count <= LOAD_MESSAGES and self.size <= LOAD_BYTES
        return has_little and (self.count == 0 or self.takes(size))

    def shrink(self) -> None:
        for entry in self.partitions.entries.values():
            if not entry.is_stub:
                self.size -= entry.size
                self.windows.size -= entry.size
                self.add_stub(entry.size)
                entry.message = Stub(entry.message)
        self.partitions.look_at_all()

    def take_returned(self) -> list[tuple[int, Entry]]:
        return [*self.partitions.take_all().items()]

    def drop_returned(self, position: int) -> None:
        self.partitions.gone(position)

    def next_stubs(self, bytes_max: int, is_crowded: bool, is_needed: bool) -> dict[int, Entry]:
        asked: dict[int, Entry] = {}
        for entry in islice(self.partitions.stubs(is_needed), LOAD_MESSAGES):
            if asked and (is_crowded or bytes_max < entry.size):
                break
            asked[entry.position] = entry
            bytes_max -= entry.size
        return asked
