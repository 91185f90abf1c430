"""Queues with priorities, in memory and on the disk."""

from collections.abc import Callable, Sequence
from functools import partial

from radiator.core.queues import evicting
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.queues.finding import DurableFinder, Finder, MemoryFinder
from radiator.core.queues.memory_queue import Contents, MemoryQueue
from radiator.core.queues.picking import ByKeys, DurablePicker, InLine, MemoryPicker, Picker
from radiator.core.queues.priorities import Priorities, PriorityLane
from radiator.core.queues.prioritized import Prioritized
from radiator.core.queues.priority_due import PriorityDue
from radiator.core.queues.priority_read_back import PriorityReadBack
from radiator.core.queues.priority_window import PriorityWindow
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, entry_for
from radiator.model.journal import CameFrom
from radiator.model.limits import LOAD_BYTES
from radiator.model.message import Message
from radiator.model.reads import Loaded, ReadQueue, StoredMessage
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, QueueSettings
from radiator.model.writes import Put, Remove


class PriorityMemoryQueue(MemoryQueue, Prioritized):
    """See MemoryQueue and Prioritized."""

    __slots__ = ("priorities",)

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports)
        self.priorities = Priorities(settings.max_priority or 0)

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry:
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        entry = self.made(message, size)
        self.priorities.put(self.priorities.of(message), entry)
        return entry

    def remove(self, entry: Entry, event: Event) -> None:
        super().remove(entry, event)
        self.priorities.gone(entry.position)

    def delay(self, entry: Entry, due_ms: int) -> None:
        super().delay(entry, due_ms)
        self.priorities.gone(entry.position)

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return MemoryPicker(ByKeys(self.priorities, self.left_ready), through, positions)

    def finder(self) -> Finder:
        return MemoryFinder(self, ByKeys(self.priorities, self.left_ready))

    def take_all(self) -> Contents:
        contents = super().take_all()
        contents.others = self.priorities.take_all()
        return contents

    @property
    def ready_count(self) -> int:
        return len(self.priorities)


class PriorityDurableQueue(DurableQueue, Prioritized):
    """See DurableQueue and Prioritized. On the disk, each message has a row under its priority."""

    __slots__ = ("priorities", "priority_read_back", "priority_window")

    def make_window(self, windows: Windows, beyond: int) -> PriorityWindow:
        self.priorities = Priorities(self.settings.max_priority or 0, is_open=beyond > 0)
        self.priority_window = PriorityWindow(windows, self.priorities, self.ring, beyond)
        return self.priority_window

    def make_read_back(self, window: Window) -> PriorityReadBack:
        self.priority_read_back = PriorityReadBack(self, self.priority_window, self.context)
        return self.priority_read_back

    def make_due_places(self, window: Window) -> PriorityDue:
        return PriorityDue(self, self.priority_window, self.context)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        context, window, priorities = self.context, self.priority_window, self.priorities
        position = context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, size, came_from)
        part = context.part(self)
        lane = priorities.of(message)
        context.write(Put(self.number, position, message, lane.hash), size + WRITE_COST_BYTES)
        if not lane.is_open and window.has_place(lane, size):
            entry = entry_for(self, position, message, State.STORING, size, part.passing)
            part.storing.append(entry)
            window.storing[position] = entry
            window.add(size)
            priorities.is_coming(lane, entry)
            return entry
        window.beyond += 1
        part.beyond += 1
        lane.opened_by(position, context.open.number)
        return None

    def make_ready(self, part: QueueChanges) -> None:
        window = self.window
        for entry in part.storing:
            if entry.state is State.STORING:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del window.storing[entry.position]
                self.priorities.add(entry)
        for entry in part.due:
            if entry.state is State.DUE:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del window.due[entry.position]
                self.priorities.add(entry)

    def committed(self, part: QueueChanges) -> None:
        super().committed(part)
        if self.waiters and self.window.beyond and self.settings.overflow in (DROP_OLDEST, DEAD_LETTER):
            self.refill(is_needed=True)

    # ---- out --------------------------------------------------------------------------------------------------------

    def remove(self, entry: Entry, event: Event) -> None:
        DurableQueue.remove(self, entry, event)  # each message comes here, and each `super()` makes an object
        self.priorities.gone(entry.position)

    def write_remove(self, position: int) -> bytes:
        """Writes the Remove. Returns b"": a delayed message of this queue holds no key."""
        self.context.write(Remove(self.number, position, self.priorities.at[position].hash))
        return b""

    def delay(self, entry: Entry, due_ms: int) -> None:
        super().delay(entry, due_ms)
        self.priorities.gone(entry.position)

    def report_damaged(self, position: int) -> None:
        super().report_damaged(position)
        self.priorities.gone(position)

    def pump(self) -> None:
        window = self.window
        if self.ring or self.order is not None:
            out_bytes = self.out_bytes
            Queue.pump(self)
            if self.windows.out > self.windows.out_max:
                self.let_go_of_bytes(self.out_bytes - out_bytes)
        else:
            self.watch_head()
        if self.has_due:
            self.delayed.ask()
        if window.beyond and self.subscriptions:
            self.refill()
        for observer in self.observers:
            observer()

    # ---- what is only on the disk -----------------------------------------------------------------------------------

    def read_beyond(self, count: int, answer: Callable[[Loaded], None]) -> None:
        """Reads what is only on the disk: it is between messages in memory, which are read with it and left out."""
        lanes = self.priorities.open_lanes
        if count <= 0 or not lanes:
            answer(Loaded(0))
            return

        def loaded(found: Loaded) -> None:
            found.messages = [one for one in found.messages if self.is_on_disk_alone(one)]
            answer(found)

        after = min(lane.after for lane in lanes)
        request, most = self.context.next_position(), count + self.in_memory_count
        self.windows.ask(self.context, ReadQueue(request, self.number, after, most, 4 * LOAD_BYTES), loaded)

    def is_on_disk_alone(self, stored: StoredMessage) -> bool:
        message = stored.message
        return message is not None and self.priorities.is_on_disk_alone(message, stored.position)

    def has_apart(self, through: int) -> bool:
        return any(lane.after < through for lane in self.priorities.open_lanes)

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return PriorityPicker(self, ByKeys(self.priorities, self.left_ready), through, positions)

    def finder(self) -> Finder:
        return DurableFinder(self, ByKeys(self.priorities, self.left_ready))

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.priorities) + self.window.beyond

    @property
    def oldest_ms(self) -> int | None:
        known_ms = self.oldest_known_ms()
        if not self.window.beyond:
            return known_ms
        return max(known_ms or 0, self.read_back.first_age_ms() or 0) or known_ms

    def read_oldest_age(self, done: Callable[[int | None], None]) -> None:
        if not self.window.beyond:
            done(self.oldest_known_ms())
            return

        def read(age_ms: int | None) -> None:
            known_ms = self.oldest_known_ms()
            done(known_ms if age_ms is None else max(age_ms, known_ms or 0))

        self.read_back.read_first_age(read)

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def beyond_memory(self) -> tuple[int, int]:
        """See Queue. Counts more urgent messages in memory, too: what is only on the disk is dropped before them."""
        kept, kept_bytes = self.kept()
        count, size = self.priorities.droppable()
        window, ledger = self.window, self.ledger
        if self.settings.overflow == DEAD_LETTER:
            count, size = max(0, count - window.stubs), max(0, size - window.stub_bytes)
        return ledger.stored - kept - count, ledger.stored_bytes - kept_bytes - size

    def may_evict(self, messages: int, size: int) -> bool:
        return evicting.may_evict(self, messages, size)

    def must_read_oldest(self) -> bool:
        is_on_disk_alone = self.window.beyond > 0 and self.priorities.droppable()[0] == 0
        return is_on_disk_alone or super().must_read_oldest()

    def oldest(self) -> Entry | None:
        return next(filter(None, map(self.oldest_in, self.priorities.lanes)), None)

    def oldest_in(self, lane: PriorityLane) -> Entry | None:
        """Takes out the oldest message of one lane; no stub, if it becomes a dead letter."""
        priorities, needs_bytes = self.priorities, self.settings.overflow == DEAD_LETTER
        oldest = priorities.first(lane)
        if oldest is not None and oldest.is_stub and needs_bytes:
            whole = (priorities.entries.get(position) for position in sorted(lane.line))
            oldest = next((entry for entry in whole if entry is not None and not entry.is_stub), None)
        # in a queue that keeps nothing a consumer may have room by the time that these are READY
        if lane.coming and not self.keeps_nothing and (oldest is None or self.window.due):
            coming = [entry for entry in lane.coming.values() if not (needs_bytes and entry.is_stub)]
            first = min(coming, key=lambda entry: entry.position, default=None)
            if first is not None and (oldest is None or first.position < oldest.position):
                return first
        if oldest is not None:
            priorities.take(oldest)
            self.left_ready(oldest)
        return oldest


class PriorityPicker(DurablePicker):
    """See DurablePicker: for a queue with priorities."""

    __slots__ = ("queue_of",)

    def __init__(
        self, queue: PriorityDurableQueue, in_line: InLine, through: int, positions: Sequence[int] | None
    ) -> None:
        super().__init__(queue, in_line, through, positions)
        self.queue_of = queue

    def entry(self, stored: StoredMessage) -> Entry | None:
        position, message = stored.position, stored.message
        found = self.in_line.entry(position)
        if found is not None or message is None:
            return None if message is None else found
        queue = self.queue_of
        if not queue.is_on_disk_alone(stored) or position in queue.in_doubt.taken_unread:
            return None
        return Entry(position, message, State.READY, message.size, stored.redeliveries, stored.redelivered)

    def known(self, position: int, message: Message) -> None:
        self.queue_of.priorities.at[position] = self.queue_of.priorities.of(message)

    def end(self) -> None:
        self.in_line.end()
        if self.unread:
            queue, unread, self.unread = self.queue_of, self.unread, []
            queue.first_changed()
            queue.priority_read_back.all_read()
            queue.context.open.then.append(partial(self.forget, unread, queue.context.open.number))

    def forget(self, picked: list[int], batch: int) -> None:
        """Called when that batch is on the disk. Waits for a read under way, which may still bring the picked ones."""
        queue = self.queue_of
        if queue.window.is_loading:
            queue.context.open.then.append(partial(self.forget, picked, batch))
        else:
            queue.in_doubt.forget(picked, batch)
