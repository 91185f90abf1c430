"""What queues with priorities in memory and on the disk have in common: priorities.py in place of one line.

`ready` and `returned` stay empty: whatever is READY is in `priorities`.
"""

from collections.abc import Iterator
from itertools import chain

from radiator.core.queues.entry import Entry
from radiator.core.queues.priorities import Priorities
from radiator.core.queues.queue import Queue


class Prioritized(Queue):
    """A Queue that delivers messages of the highest priority first, those of one priority in their order."""

    __slots__ = ()

    has_lanes = True
    priorities: Priorities

    # ---- out --------------------------------------------------------------------------------------------------------

    def take_head(self) -> Entry | None:
        entry = self.head()
        assert entry is not None
        self.priorities.take(entry)
        self.left_ready(entry)
        if 0 < entry.message.expires_ms <= self.context.now_ms and entry.is_over:
            self.expire(entry)
            return None
        return entry

    def to_place(self, entry: Entry) -> None:
        self.priorities.add(entry)

    # ---- what is in memory ------------------------------------------------------------------------------------------

    def head(self) -> Entry | None:
        return self.priorities.head()

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        ready, out = [*self.priorities.entries.values()], [*self.entries_out.values()]
        return chain(ready, (delivery.entry for delivery in out))

    @property
    def in_memory_count(self) -> int:
        return len(self.priorities) + len(self.entries_out)

    @property
    def oldest_ms(self) -> int | None:
        return self.oldest_known_ms()

    def oldest_known_ms(self) -> int | None:
        """Returns what oldest_ms does, for what is in memory."""
        oldest = min(self.priorities.firsts(), key=_position, default=None)
        return None if oldest is None else max(0, self.context.now_ms - oldest.message.accepted_ms)

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def droppable(self) -> list[Entry]:
        return self.priorities.in_order()

    def oldest(self) -> Entry | None:
        """Takes out the oldest entry of the lowest priority that is in memory."""
        priorities = self.priorities
        entry = next(filter(None, map(priorities.first, priorities.lanes)), None)
        if entry is not None:
            priorities.take(entry)
            self.left_ready(entry)
        return entry

    def end(self) -> None:
        super().end()
        self.priorities.clear()


def _position(entry: Entry) -> int:
    return entry.position
