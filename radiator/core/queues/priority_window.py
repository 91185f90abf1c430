"""The window of a queue with priorities: the first messages of each priority, see PriorityLane.

Half of it is for whatever comes. The priorities share the other half, so that urgent messages have room however many
others there are.
"""

from collections import OrderedDict, deque
from itertools import chain

from radiator.core.connections import Subscription
from radiator.core.queues.entry import Entry, Stub
from radiator.core.queues.priorities import Priorities, PriorityLane
from radiator.core.queues.window import Window, ascending
from radiator.core.queues.windows import Windows
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES, WINDOW_BYTES, WINDOW_MESSAGES

_NO_END = 1 << 256  # after every position: what is only on the disk is after a position of its lane


class PriorityWindow(Window):
    """See Window, and Priorities. `ready` and `returned` stay empty."""

    __slots__ = ("priorities",)

    def __init__(
        self, windows: Windows, priorities: Priorities, ring: OrderedDict[Subscription, None], beyond: int
    ) -> None:
        super().__init__(windows, deque(), [], ring, beyond)
        self.priorities = priorities
        self.end = _NO_END

    @property
    def count(self) -> int:
        return len(self.priorities.entries) + len(self.storing) + len(self.due)

    @property
    def oldest_is_stub(self) -> bool:
        oldest = next(filter(None, map(self.priorities.first, self.priorities.lanes)), None)
        return oldest is not None and oldest.is_stub

    def takes(self, size: int) -> bool:
        return self.takes_beside(self.count, size)

    def takes_again(self, size: int) -> bool:
        has_little = self.count <= LOAD_MESSAGES and self.size <= LOAD_BYTES
        return has_little and (self.count == 0 or self.takes(size))

    def capacity(self, lane: PriorityLane) -> tuple[int, int]:
        """Returns how many more messages and bytes that lane may have in memory; either may be below 0."""
        shares = 2 * len(self.priorities.lanes)
        share = WINDOW_MESSAGES // shares - lane.count - len(lane.coming)
        messages = max(WINDOW_MESSAGES // 2 - self.count, share)
        return messages, max(WINDOW_BYTES // 2 - self.size, WINDOW_BYTES // shares - lane.size)

    def has_place(self, lane: PriorityLane, size: int) -> bool:
        """Whether one more message of that lane stays in memory."""
        if not self.takes(size):
            return False
        messages, capacity_bytes = self.capacity(lane)
        return self.count == 0 or (messages > 0 and size <= capacity_bytes)

    def shrink(self) -> None:
        for entry in self.priorities.entries.values():
            if not entry.is_stub:
                self.size -= entry.size
                self.windows.size -= entry.size
                self.add_stub(entry.size)
                entry.message = Stub(entry.message)

    def take_returned(self) -> list[tuple[int, Entry]]:
        return [*self.priorities.take_all().items()]

    def drop_returned(self, position: int) -> None:
        self.priorities.take(self.priorities.entries[position])
        self.priorities.gone(position)

    def next_stubs(self, bytes_max: int, is_crowded: bool, is_needed: bool) -> dict[int, Entry]:
        """See Window. is_needed: they are to be dropped, so those of the lowest priority come first."""
        priorities = self.priorities
        lanes = priorities.lanes if is_needed else priorities.down
        places = chain.from_iterable(ascending(lane.line) for lane in lanes)
        asked: dict[int, Entry] = {}
        for count, position in enumerate(places):
            entry = priorities.entries.get(position)
            if entry is not None and entry.is_stub:
                if asked and (is_crowded or bytes_max < entry.size):
                    break
                asked[position] = entry
                bytes_max -= entry.size
            if len(asked) == LOAD_MESSAGES or (count >= LOAD_MESSAGES and asked and not is_needed):
                break
        return asked
