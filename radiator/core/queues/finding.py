"""Finds one message of a queue by its place, whatever becomes of it now."""

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.partitioned import Partitioned
from radiator.core.queues.queue import Queue
from radiator.model.reads import Loaded, StoredMessage

_position = attrgetter("position")


def at(queue: Queue, position: int) -> Entry | None:
    """The message in memory that stands there, as far as that is found at once; the others are among `unordered`."""
    delivery = queue.entries_out.get(position)
    if delivery is not None:
        return delivery.entry
    if isinstance(queue, DurableQueue):
        window = queue.window
        coming = window.storing.get(position) or window.due.get(position) or queue.in_doubt.entries.get(position)
        if coming is not None:
            return coming
    if isinstance(queue, Partitioned):
        return queue.partitions.entries.get(position)
    index = bisect_left(queue.ready, position, key=_position)
    found = index < len(queue.ready) and queue.ready[index].position == position
    return queue.ready[index] if found else None


Placed = tuple[int, Entry] | tuple[int, int, Entry]


def unordered(queue: Queue) -> list[Placed]:
    """Those in memory that came back, or are delayed there, as their heaps have them: a copy, and no work for each."""
    return [*queue.returned, *queue.delayed] if isinstance(queue, MemoryQueue) else [*queue.returned]


def read(queue: Queue, position: int, part: tuple[int, int], answer: Callable[[Loaded], None]) -> None:
    """Asks for what is on the disk at that place, with that part of its body (ReadQueue), or with all of it."""
    if isinstance(queue, DurableQueue):
        # a key may be anywhere in the body, and says where the message stands
        queue.read_back.read([position], answer, None if isinstance(queue, Partitioned) else part)
    else:
        answer(Loaded(0))


def is_in_doubt(queue: Queue, position: int) -> bool:
    """Whether it is offered to another node, be it read back or not."""
    return isinstance(queue, DurableQueue) and position in queue.in_doubt.entries


def is_ready_on_disk(queue: Queue, stored: StoredMessage) -> bool:
    """Whether what was read back is READY on the disk alone: a read finds too what has left a moment ago."""
    picker = queue.picker(stored.position, [stored.position])
    return picker.entry(stored) is not None or picker.is_behind(stored)
