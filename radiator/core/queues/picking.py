"""Takes READY messages out of a queue at any position, not only at its head: the others keep their places, and
consumers get them meanwhile as always.

A queue on the disk is read through from its beginning, whatever of it is in memory. By the time a message that was read
has its turn, it may have left or come into the window: only then is its present state looked at.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from radiator.core.queues.entry import Entry
from radiator.core.queues.in_doubt import InDoubt
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES
from radiator.model.message import Message
from radiator.model.reads import Loaded, ReadQueue, StoredMessage


class Picker(Protocol):
    """Picks messages out of one queue. found: the next messages to look at, the oldest first. is_asked: more are being
    read; is_over: no others follow those found.
    """

    found: deque[StoredMessage]
    is_asked: bool
    is_over: bool

    def ask(self) -> None:
        """Looks for the next messages, or asks for them to be read."""

    def begin(self) -> None:
        """Begins a slice: until its `end` nothing else happens to the queue."""

    def entry(self, stored: StoredMessage) -> Entry | None:
        """Returns the entry of the message, if it is READY now; None: it is not."""

    def is_behind(self, stored: StoredMessage) -> bool:
        """Whether the message is ready, but cannot be picked before others of its key have gone."""

    def pick(self, entry: Entry, stored: StoredMessage) -> None:
        """Takes the entry out of the READY messages; the caller settles it within this slice."""

    def end(self) -> None:
        """Ends the slice."""


# ---- what is in memory ----------------------------------------------------------------------------------------------


class InLine(Protocol):
    """The READY messages of a queue that are in memory."""

    def begin(self) -> None:
        """Begins a slice."""

    def entry(self, position: int) -> Entry | None:
        """Returns the READY message at that position; None: there is none."""

    def behind(self, after: int, most: int) -> list[Entry]:
        """Returns at most that many messages after that position, the oldest first."""

    def pick(self, entry: Entry) -> None:
        """Takes the entry out of the READY messages."""

    def end(self) -> None:
        """Ends the slice."""


class LinedPicked(Protocol):
    """What InOneLine needs of its queue."""

    ready: deque[Entry]
    returned: list[tuple[int, Entry]]

    def left_ready(self, entry: Entry) -> None: ...


class InOneLine:
    """See InLine. at: the messages that came back, by position, in this slice. picked: the positions of those picked:
    they are taken out of the line all at once, at the end of the slice. next: the index in `ready` where the next one
    may be, since most are asked for in order.
    """

    __slots__ = ("at", "next", "picked", "queue")

    def __init__(self, queue: LinedPicked) -> None:
        self.queue = queue
        self.at: dict[int, Entry] = {}
        self.picked: set[int] = set()
        self.next = 0

    def begin(self) -> None:
        self.at = dict(self.queue.returned)

    def entry(self, position: int) -> Entry | None:
        if position in self.picked:
            return None
        found = self.at.get(position)
        if found is not None:
            return found
        ready = self.queue.ready
        index = self.next
        if index >= len(ready) or ready[index].position != position:
            index = bisect_left(ready, position, key=_position)
            if index == len(ready) or ready[index].position != position:
                return None
        self.next = index + 1
        return ready[index]

    def behind(self, after: int, most: int) -> list[Entry]:
        ready = self.queue.ready
        first = bisect_right(ready, after, key=_position)
        ready.rotate(-first)  # going through all entries before them, one by one, would take far longer
        found = [*islice(ready, min(most, len(ready) - first))]
        ready.rotate(first)
        if self.queue.returned:
            returned = [entry for position, entry in self.queue.returned if position > after]
            found = heapq.nsmallest(most, [*found, *returned], key=_position)
        return found

    def pick(self, entry: Entry) -> None:
        self.picked.add(entry.position)
        self.queue.left_ready(entry)

    def end(self) -> None:
        queue, picked = self.queue, self.picked
        if not picked:
            return
        count = len(queue.returned)
        queue.returned[:] = [pair for pair in queue.returned if pair[0] not in picked]
        left = len(picked) - (count - len(queue.returned))
        if len(queue.returned) < count:
            heapq.heapify(queue.returned)
        if left:
            take_out(queue.ready, picked, left)
        picked.clear()


class FoundByPlace(Protocol):
    """What ByKeys needs of its partitions. entries: the READY ones in memory, by position."""

    entries: dict[int, Entry]

    def take(self, entry: Entry) -> None:
        """Takes one entry out."""


class ByKeys:
    """See InLine: for a queue with keys, or with priorities. places: the positions of all READY entries when `behind`
    was first called.
    """

    __slots__ = ("left_ready", "partitions", "places")

    def __init__(self, partitions: FoundByPlace, left_ready: Callable[[Entry], None]) -> None:
        self.partitions = partitions
        self.left_ready = left_ready
        self.places: list[int] | None = None

    def begin(self) -> None: ...

    def entry(self, position: int) -> Entry | None:
        return self.partitions.entries.get(position)

    def behind(self, after: int, most: int) -> list[Entry]:
        entries = self.partitions.entries
        if self.places is None:
            self.places = sorted(entries)
        first = bisect_right(self.places, after)
        there = (entries[place] for place in islice(self.places, first, None) if place in entries)
        return [*islice(there, most)]

    def pick(self, entry: Entry) -> None:
        self.partitions.take(entry)
        self.left_ready(entry)

    def end(self) -> None: ...


def take_out(ready: deque[Entry], picked: set[int], count: int) -> None:
    """Takes the `count` entries at the picked positions out of an ordered line. The cost is the stretch they span."""
    first = bisect_left(ready, min(picked), key=_position)
    ready.rotate(-first)
    stays: list[Entry] = []
    while count:
        entry = ready.popleft()
        if entry.position in picked:
            count -= 1
        else:
            stays.append(entry)
    ready.extendleft(reversed(stays))
    ready.rotate(first)


# ---- pickers --------------------------------------------------------------------------------------------------------


class MemoryPicker:
    """See Picker: for a queue in memory. after: the position after which the next ones are."""

    __slots__ = ("after", "found", "in_line", "is_asked", "is_over", "positions", "through")

    def __init__(self, in_line: InLine, through: int, positions: Sequence[int] | None) -> None:
        self.in_line = in_line
        self.through = through
        self.positions = positions
        self.after = 0
        self.found: deque[StoredMessage] = deque()
        self.is_asked = self.is_over = False

    def ask(self) -> None:
        if self.positions is None:
            some = self.in_line.behind(self.after, LOAD_MESSAGES)
        else:
            self.in_line.begin()
            some = [*filter(None, map(self.in_line.entry, self.positions))]
        for one in some:
            if one.position <= self.through:
                self.found.append(StoredMessage(one.position, one.message, one.redeliveries, one.redelivered))
        self.after = some[-1].position if some else self.through
        self.is_over = self.positions is not None or len(some) < LOAD_MESSAGES or self.after >= self.through

    def begin(self) -> None:
        self.in_line.begin()

    def entry(self, stored: StoredMessage) -> Entry | None:
        return self.in_line.entry(stored.position)

    def is_behind(self, stored: StoredMessage) -> bool:
        return False

    def pick(self, entry: Entry, stored: StoredMessage) -> None:
        self.in_line.pick(entry)

    def end(self) -> None:
        self.in_line.end()


class DurablePicked(Protocol):
    """What DurablePicker needs of its queue."""

    number: int
    context: TurnContext
    in_doubt: InDoubt
    window: Window
    windows: Windows

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None: ...

    def first_changed(self) -> None:
        """Called when the first message beyond the window may have changed though the window's end has not."""


class DurablePicker:
    """See Picker: for a queue on the disk. after: the position after which the next ones are read; positions: if given,
    these are read instead, one by one, as each may be large. asked_at: the last batch on the disk when the `found` ones
    were asked for. unread: positions of those picked in this slice that were never in a window.
    """

    __slots__ = (
        "after", "asked_at", "found", "in_line", "is_asked", "is_over", "positions", "queue", "through", "unread",
    )  # fmt: skip

    def __init__(self, queue: DurablePicked, in_line: InLine, through: int, positions: Sequence[int] | None) -> None:
        self.queue = queue
        self.in_line = in_line
        self.through = through
        self.positions = None if positions is None else deque(positions)
        self.found: deque[StoredMessage] = deque()
        self.after = self.asked_at = 0
        self.is_asked = False
        self.is_over = positions is not None and not positions
        self.unread: list[int] = []

    def ask(self) -> None:
        queue, context = self.queue, self.queue.context
        self.is_asked, self.asked_at = True, context.committed
        if self.positions is not None:
            queue.read([self.positions[0]], self.read)
            return
        read = ReadQueue(context.next_position(), queue.number, self.after, LOAD_MESSAGES, LOAD_BYTES)
        queue.windows.ask(context, read, self.read)

    def read(self, answer: Loaded) -> None:
        """Called with the next messages."""
        self.is_asked = False
        self.found.extend(one for one in answer.messages if one.position <= self.through)
        if self.positions is not None:
            self.positions.popleft()
            self.is_over = not self.positions
            return
        if answer.messages:
            self.after = answer.messages[-1].position
        self.is_over = not answer.has_more or not answer.messages or self.after >= self.through

    def begin(self) -> None:
        self.in_line.begin()
        if self.asked_at < self.queue.in_doubt.forgotten_in and self.found:
            # what was read may have left since, and nothing remembers that any longer
            if self.positions is not None:
                self.positions.extendleft(reversed([one.position for one in self.found]))
            else:
                self.after = self.found[0].position - 1
            self.found.clear()
            self.is_over = False

    def entry(self, stored: StoredMessage) -> Entry | None:
        position, message = stored.position, stored.message
        if message is None:
            return None
        found = self.in_line.entry(position)
        if found is not None:
            return found
        in_doubt = self.queue.in_doubt
        if position <= self.queue.window.end or position in in_doubt.entries or position in in_doubt.taken_unread:
            return None
        return Entry(position, message, State.READY, message.size, stored.redeliveries, stored.redelivered)

    def is_behind(self, stored: StoredMessage) -> bool:
        return False

    def pick(self, entry: Entry, stored: StoredMessage) -> None:
        queue, message = self.queue, stored.message
        assert message is not None, "what is damaged is not READY"
        if self.in_line.entry(entry.position) is not None:
            was_stub = entry.is_stub
            self.in_line.pick(entry)
            if was_stub:
                entry.message = message
                queue.windows.out += entry.size
            return
        self.known(entry.position, message)
        queue.windows.out += entry.size
        queue.window.beyond -= 1
        queue.in_doubt.taken_unread.add(entry.position)
        self.unread.append(entry.position)

    def known(self, position: int, message: Message) -> None:
        """Called with a message that was never in a window, before it leaves the queue."""

    def end(self) -> None:
        self.in_line.end()
        if self.unread:
            queue, unread, self.unread = self.queue, self.unread, []
            queue.first_changed()
            queue.context.open.then.append(partial(queue.in_doubt.forget, unread, queue.context.open.number))


class KeyedPicked(DurablePicked, Protocol):
    """What KeyedPicker needs of its queue."""

    partitions: Partitions

    def is_passed_over(self, stored: StoredMessage) -> bool: ...


class KeyedPicker(DurablePicker):
    """See DurablePicker: for a queue with keys. If a key has much in memory, its other messages are only on the disk,
    though the window has passed them: these cannot be picked.
    """

    __slots__ = ("keyed",)

    def __init__(self, queue: KeyedPicked, in_line: InLine, through: int, positions: Sequence[int] | None) -> None:
        super().__init__(queue, in_line, through, positions)
        self.keyed = queue

    def is_behind(self, stored: StoredMessage) -> bool:
        return self.keyed.is_passed_over(stored)

    def known(self, position: int, message: Message) -> None:
        self.keyed.partitions.keep(position, self.keyed.partitions.of(message))


def _position(entry: Entry) -> int:
    return entry.position
