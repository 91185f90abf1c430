"""Partitioned queues in memory and on the disk."""

from collections.abc import Callable, Sequence

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry, PassingEntry
from radiator.core.queues.finding import DurableFinder, Finder, MemoryFinder
from radiator.core.queues.key_due import KeyDue
from radiator.core.queues.key_read_back import KeyReadBack
from radiator.core.queues.memory_queue import Contents, MemoryQueue
from radiator.core.queues.partition_window import PartitionWindow
from radiator.core.queues.partitioned import Partitioned
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.picking import ByKeys, KeyedPicker, MemoryPicker, Picker
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.queue_partition import KEY_COST_BYTES
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, entry_for
from radiator.model.journal import CameFrom
from radiator.model.keys import KeySource
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES
from radiator.model.message import Message
from radiator.model.reads import Loaded, ReadQueue, StoredMessage
from radiator.model.settings import DEAD_LETTER, QueueSettings
from radiator.model.writes import Put, Remove


class PartitionedMemoryQueue(MemoryQueue, Partitioned):
    """See MemoryQueue and Partitioned."""

    __slots__ = ("partitions",)

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports)
        self.partitions = partitions_of(self)

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry:
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        entry = self.made(message, size)
        self.partitions.put(self.partitions.of(message), entry)
        return entry

    def remove(self, entry: Entry, event: Event) -> None:
        super().remove(entry, event)
        self.partitions.gone(entry.position)

    def delay(self, entry: Entry, due_ms: int) -> None:
        super().delay(entry, due_ms)
        if entry.position in self.partitions.at:
            self.partitions.hold(entry.position)

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return MemoryPicker(ByKeys(self.partitions, self.left_ready), through, positions)

    def finder(self) -> Finder:
        return MemoryFinder(self, ByKeys(self.partitions, self.left_ready))

    def take_all(self) -> Contents:
        contents = super().take_all()
        contents.others = self.partitions.take_all()
        return contents

    @property
    def ready_count(self) -> int:
        return len(self.partitions)

    @property
    def memory_bytes(self) -> int:
        known = len(self.partitions.keyed) + self.partitions.keyless
        return super().memory_bytes + known * KEY_COST_BYTES


class PartitionedDurableQueue(DurableQueue, Partitioned):
    """See DurableQueue and Partitioned.

    On the disk, each message that has a key has a row under the key's hash; each that came back and is delayed has one
    that holds its key across a restart.
    """

    __slots__ = ("key_read_back", "partition_window", "partitions")

    def make_window(self, windows: Windows, beyond: int) -> PartitionWindow:
        self.partitions = partitions_of(self)
        self.partition_window = PartitionWindow(windows, self.partitions, self.ring, beyond)
        return self.partition_window

    def make_read_back(self, window: Window) -> KeyReadBack:
        is_recovering = self.ledger.stored_delayed > 0
        self.key_read_back = KeyReadBack(self, window, self.context, self.partitions, is_recovering=is_recovering)
        return self.key_read_back

    def make_due_places(self, window: Window) -> KeyDue:
        return KeyDue(self, window, self.context, self.partitions)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        context, window, partitions = self.context, self.partition_window, self.partitions
        position = context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, size, came_from)
        part = context.part(self)
        if window.beyond:
            key_hash = partitions.hash_of(message)
            context.write(Put(self.number, position, message, key_hash), size + WRITE_COST_BYTES)
            window.beyond += 1
            part.beyond += 1
            return None
        partition = partitions.of(message)
        context.write(Put(self.number, position, message, partition.hash), size + WRITE_COST_BYTES)
        count = len(partitions.entries) + len(window.storing) + len(window.due)  # `window.count`, written out
        if window.takes_beside(count, size) and partitions.has_place(partition, count):
            entry = entry_for(self, position, message, State.STORING, size, part.passing)
            part.storing.append(entry)
            window.storing[position] = entry
            window.end = position
            window.size += size
            self.windows.size += size
            partitions.coming(partition, position)
            return entry
        if not partition.is_empty:
            partitions.skip(partition, position, context.open.number)
            window.end = position
            return None
        window.beyond += 1
        part.beyond += 1
        partitions.touched[partition] = None
        return None

    def make_ready(self, part: QueueChanges) -> None:
        window, partitions = self.window, self.partitions
        if partitions.touched:
            partitions.look()
        for entry in part.due:
            if entry.state is State.DUE:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del window.due[entry.position]
                partitions.came(entry)
        may_go = self.ring and not (self.purge.through or self.is_recovering() or self.holds_too_many)
        out_bytes = self.out_bytes
        for entry in part.storing:
            if entry.state is State.STORING:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del window.storing[entry.position]
                may_be_handed = may_go and not entry.message.expires_ms and type(entry) is not PassingEntry
                if may_be_handed and (consumer := partitions.hand_at_once(entry)) is not None:
                    self.left_ready(entry)
                    self.ring.move_to_end(consumer)
                    self.deliver(entry, consumer)
                else:
                    partitions.came(entry)
        if self.windows.out > self.windows.out_max:
            self.let_go_of_bytes(self.out_bytes - out_bytes)

    def committed(self, part: QueueChanges) -> None:
        super().committed(part)
        if self.waiters and self.partitions.behind:
            self.refill(is_needed=True)

    # ---- out --------------------------------------------------------------------------------------------------------

    def remove(self, entry: Entry, event: Event) -> None:
        state = entry.state
        DurableQueue.remove(self, entry, event)  # each message comes here, and each `super()` makes an object
        self.partitions.gone(entry.position, state is State.STORING or state is State.DUE)

    def write_remove(self, position: int) -> bytes:
        key_hash = self.partitions.at[position].hash
        self.context.write(Remove(self.number, position, key_hash))
        return key_hash

    def report_damaged(self, position: int) -> None:
        super().report_damaged(position)
        assert isinstance(self.read_back, KeyReadBack)
        self.read_back.damaged.add(position)
        self.partitions.gone(position)

    def pump(self) -> None:
        window, partitions = self.window, self.partitions
        if self.key_read_back.is_recovering:
            self.is_recovering()
            return
        if partitions.touched:
            partitions.look()
        if (partitions.matched or (partitions.free and self.ring)) and not self.holds_too_many:
            out_bytes = self.out_bytes
            Partitioned.pump(self)
            if self.windows.out > self.windows.out_max:
                self.let_go_of_bytes(self.out_bytes - out_bytes)
        else:
            self.watch_head()
        if self.has_due:
            self.delayed.ask()
        # most queues have nothing that is only on the disk, and each message comes here
        if (window.beyond or window.stubs or partitions.behind) and self.subscriptions:
            has_few = window.beyond > 0 and 2 * len(partitions.free) < LOAD_MESSAGES
            if has_few or partitions.wanting or partitions.early or partitions.lacking:
                self.refill()
        for observer in self.observers:
            observer()

    # ---- what is only on the disk -----------------------------------------------------------------------------------

    def is_recovering(self) -> bool:
        """Whether it is not known yet which keys are held; if so, asks for that."""
        read_back = self.key_read_back
        if read_back.is_recovering:
            read_back.refill(is_needed=True)
        return read_back.is_recovering

    def refill(self, is_needed: bool = False) -> None:
        if self.window.beyond or self.window.stubs or self.partitions.behind:
            self.read_back.refill(is_needed)

    @property
    def is_exhausted(self) -> bool:
        partitions = self.partitions
        partitions.look()
        return not (self.window.beyond or partitions.free or partitions.wanting or partitions.lacking)

    def read_beyond(self, count: int, answer: Callable[[Loaded], None]) -> None:
        """Reads what was passed over, too: it is between messages in memory, which are read with it and left out."""
        partitions, window = self.partitions, self.window
        if not partitions.behind:
            super().read_beyond(count, answer)
            return

        def loaded(found: Loaded) -> None:
            found.messages = [one for one in found.messages if one.position > window.end or self.is_passed_over(one)]
            answer(found)

        after = min(window.end, *(partition.after for partition in partitions.behind))
        request, most = self.context.next_position(), count + self.in_memory_count
        self.windows.ask(self.context, ReadQueue(request, self.number, after, most, 4 * LOAD_BYTES), loaded)

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return KeyedPicker(self, ByKeys(self.partitions, self.left_ready), through, positions)

    def finder(self) -> Finder:
        return DurableFinder(self, ByKeys(self.partitions, self.left_ready), is_keyed=True)

    def is_passed_over(self, stored: StoredMessage) -> bool:
        """Whether a message before the end of the window is only on the disk."""
        key = None if stored.message is None else self.partitions.find_key(stored.message)
        partition = None if key is None else self.partitions.keyed.get(key)
        return partition is not None and partition.behind > 0 and stored.position > partition.after

    def has_apart(self, through: int) -> bool:
        return any(partition.after < through for partition in self.partitions.behind)

    # ---- delayed messages -------------------------------------------------------------------------------------------

    @property
    def held_keys_bytes(self) -> int:
        return self.partitions.held_bytes

    @property
    def holds_too_many(self) -> bool:
        """Whether delays hold so many keys that nothing is delivered before some are due: what is not delivered cannot
        come back and hold more.
        """
        return self.held_keys_bytes >= self.windows.held_max

    def delay(self, entry: Entry, due_ms: int) -> None:
        super().delay(entry, due_ms)
        self.partitions.hold(entry.position)

    def release_due(self) -> bool:
        if not self.is_recovering():
            return super().release_due()
        self.has_due = True
        return False

    def read_delayed(self) -> None:
        if not self.is_recovering():
            super().read_delayed()

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.partitions) + self.window.beyond + self.partitions.behind_count

    @property
    def oldest_ms(self) -> int | None:
        return self.oldest_known_ms() if self.partitions.entries else super().oldest_ms

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def oldest_of(self, due: dict[int, Entry]) -> Entry | None:
        """Returns the older one of `due` and the READY entries; no READY stub, if it becomes a dead letter."""
        oldest = self.partitions.head()
        if oldest is not None and oldest.is_stub and self.settings.overflow == DEAD_LETTER:
            oldest = next((entry for entry in self.partitions.in_order() if not entry.is_stub), None)
        first = min(due, default=0)
        if oldest is not None and not (first and first < oldest.position):
            self.partitions.take(oldest)
            self.left_ready(oldest)
            return oldest
        return due[first] if first else next(iter(self.window.storing.values()), None)


def partitions_of(queue: Queue) -> Partitions:
    """Returns the partitions of a new queue."""
    settings = queue.settings
    return Partitions(KeySource(settings.partition_key).finder, settings.partition_window, queue.ring)
