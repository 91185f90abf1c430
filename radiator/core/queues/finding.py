"""Finds one message of a queue by its position, in whatever state it is."""

from collections.abc import Callable, Mapping
from typing import Protocol

from radiator.core.connections import Delivery
from radiator.core.queues.entry import Entry
from radiator.core.queues.in_doubt import InDoubt
from radiator.core.queues.picking import InLine, Picker
from radiator.core.queues.read_back import ReadBack
from radiator.core.queues.window import Window
from radiator.model.reads import Loaded, StoredMessage

Placed = tuple[int, Entry] | tuple[int, int, Entry]


class Finder(Protocol):
    """Finds a message in one queue."""

    def at(self, position: int) -> Entry | None:
        """Returns the message at that position, if it is in memory and can be found at once; others are among
        `unordered`.
        """

    def unordered(self) -> list[Placed]:
        """Returns a copy of the heaps of entries in memory that came back, or are delayed."""

    def read(self, position: int, part: tuple[int, int], answer: Callable[[Loaded], None]) -> None:
        """Asks for the message on the disk at that position, with that part of its body (ReadQueue) or all of it."""

    def is_in_doubt(self, position: int) -> bool:
        """Whether the message at that position is offered to another node, read back or not."""


class FoundInMemory(Protocol):
    """What MemoryFinder needs of its queue."""

    @property
    def entries_out(self) -> Mapping[int, Delivery]: ...

    returned: list[tuple[int, Entry]]
    delayed: list[tuple[int, int, Entry]]


class MemoryFinder:
    """See Finder. in_line: its READY messages."""

    def __init__(self, queue: FoundInMemory, in_line: InLine) -> None:
        self.queue = queue
        self.in_line = in_line

    def at(self, position: int) -> Entry | None:
        delivery = self.queue.entries_out.get(position)
        return self.in_line.entry(position) if delivery is None else delivery.entry

    def unordered(self) -> list[Placed]:
        return [*self.queue.returned, *self.queue.delayed]

    def read(self, position: int, part: tuple[int, int], answer: Callable[[Loaded], None]) -> None:
        answer(Loaded(0))

    def is_in_doubt(self, position: int) -> bool:
        return False


class FoundOnDisk(Protocol):
    """What DurableFinder needs of its queue."""

    @property
    def entries_out(self) -> Mapping[int, Delivery]: ...

    @property
    def in_doubt(self) -> InDoubt: ...

    @property
    def read_back(self) -> ReadBack: ...

    @property
    def window(self) -> Window: ...

    returned: list[tuple[int, Entry]]


class DurableFinder:
    """See Finder. is_keyed: a message's key, which decides its place, may be anywhere in its body: it is read whole."""

    def __init__(self, queue: FoundOnDisk, in_line: InLine, is_keyed: bool = False) -> None:
        self.queue = queue
        self.in_line = in_line
        self.is_keyed = is_keyed

    def at(self, position: int) -> Entry | None:
        queue = self.queue
        delivery = queue.entries_out.get(position)
        if delivery is not None:
            return delivery.entry
        window = queue.window
        coming = window.storing.get(position) or window.due.get(position) or queue.in_doubt.entries.get(position)
        return coming or self.in_line.entry(position)

    def unordered(self) -> list[Placed]:
        return [*self.queue.returned]

    def read(self, position: int, part: tuple[int, int], answer: Callable[[Loaded], None]) -> None:
        self.queue.read_back.read([position], answer, None if self.is_keyed else part)

    def is_in_doubt(self, position: int) -> bool:
        return position in self.queue.in_doubt.entries


def is_ready_on_disk(picker: Picker, stored: StoredMessage) -> bool:
    """Whether a message that was read back is READY only on the disk; a read also finds messages that left a moment
    ago. picker: one for that position.
    """
    return picker.entry(stored) is not None or picker.is_behind(stored)
