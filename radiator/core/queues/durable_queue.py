"""A queue on the disk: a message is stored before it is READY, removed after its ACK; a window of it is in memory.

Its parts: the window (window.py), what is read back into it (read_back.py), delayed messages (delayed.py, due.py),
dedup-ids (dedup.py), messages offered to another node (in_doubt.py) and a purge (purge.py).

A message that is in flight, or was returned, may be a stub: its place and counts are in memory, its bytes only on the
disk. They are read back before it is delivered again or stored elsewhere.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from radiator.core.connections import Delivery
from radiator.core.queues import bounds, evicting
from radiator.core.queues.dedup import Dedup
from radiator.core.queues.delayed import Delayed
from radiator.core.queues.due import Due
from radiator.core.queues.entry import DelayedEntry, Entry, Stub
from radiator.core.queues.finding import DurableFinder, Finder
from radiator.core.queues.in_doubt import InDoubt
from radiator.core.queues.picking import DurablePicker, InOneLine, Picker
from radiator.core.queues.purge import Purge
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.read_back import ReadBack
from radiator.core.queues.sweeping import let_go, retire
from radiator.core.queues.window import Window
from radiator.core.queues.windows import Windows
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, entry_for
from radiator.model.journal import DELAYED, CameFrom
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES
from radiator.model.message import Message
from radiator.model.reads import Loaded, StoredMessage
from radiator.model.settings import DEAD_LETTER, QueueSettings
from radiator.model.writes import Count, Ledger, Put, Remove, SaveLedger

# each message needs them, and looking one up in its Enum costs as much as a call
_STORING, _UNACKED, _COMMITTED = State.STORING, State.UNACKED, Event.COMMITTED


class DurableQueue(Queue):
    """See Queue. `number` identifies it on the disk. observers: functions that are called after each `pump`."""

    __slots__ = (
        "dedup", "delayed", "due", "in_doubt", "number", "observers", "purge", "read_back", "window", "windows",
    )  # fmt: skip

    moves = PERSISTENT_MOVES
    is_persistent = True

    def __init__(
        self,
        number: int,
        name: str,
        settings: QueueSettings,
        ledger: Ledger,
        ports: QueuePorts,
        windows: Windows,
    ) -> None:
        super().__init__(name, settings, ports)
        self.number = number
        self.ledger = ledger
        self.windows = windows
        beyond = ledger.stored - ledger.stored_delayed
        self.window = window = self.make_window(windows, beyond)
        self.dedup: Dedup = Dedup(number, self.context)
        self.in_doubt = InDoubt(self, window, self.context)
        self.purge = Purge(self, window, self.context)
        self.delayed = Delayed(self, self.context)
        self.read_back = self.make_read_back(window)
        self.due = self.make_due_places(window)
        self.observers: tuple[Callable[[], None], ...] = ()

    def make_window(self, windows: Windows, beyond: int) -> Window:
        """Returns its window, as it is at the start."""
        return Window(windows, self.ready, self.returned, self.ring, beyond)

    def make_read_back(self, window: Window) -> ReadBack:
        """Returns the part that reads messages back."""
        return ReadBack(self, window, self.context)

    def make_due_places(self, window: Window) -> Due:
        """Returns the part that puts due messages at their places."""
        return Due(self, window, self.context)

    def observe(self, observer: Callable[[], None]) -> None:
        self.observers = (*self.observers, observer)

    def ignore(self, observer: Callable[[], None]) -> None:
        self.observers = tuple(other for other in self.observers if other != observer)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        """Stores a message, which is STORING: it becomes READY, and deliverable, only when its batch is committed."""
        size = message.size
        self.ledger.accept(size, message.expires_ms)
        context = self.context
        position = context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, size, came_from)
        part = context.part(self)
        context.write(Put(self.number, position, message), size + WRITE_COST_BYTES)
        window = self.window
        if window.beyond == 0 and window.takes(size):
            entry = entry_for(self, position, message, _STORING, size, part.passing)
            part.storing.append(entry)
            window.storing[position] = entry
            window.end = position
            window.size += size
            self.windows.size += size
            return entry
        window.beyond += 1
        part.beyond += 1
        return None

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        super().put_handed_over(message, redeliveries, redelivered, node)
        if redeliveries or redelivered:
            self.context.write(Count(self.number, self.context.last_position, redeliveries, redelivered))

    def drop_unkept(self, size: int) -> None:
        """Counts as accepted and dropped, without storing it, a copy for a node for which no copies are kept."""
        ledger = self.ledger
        ledger.accepted += 1
        ledger.accepted_bytes += size
        ledger.dropped += 1
        ledger.dropped_bytes += size
        self.context.part(self)

    def committed(self, part: QueueChanges) -> None:
        """Makes the messages that this batch stored READY, and so deliverable. Goes on with what waited for it."""
        # D2: READY comes from Committed, or from a read, which sees nothing that is not committed
        window, read_back = self.window, self.read_back
        self.make_ready(part)
        if part.passing:
            self.context.passing += part.passing
        for entry in part.removing:
            move(entry, _COMMITTED, PERSISTENT_MOVES)
        read_back.wait_for_commit = False
        read_back.unseen += part.beyond
        if self.dedup.pending:
            self.dedup.committed()
        if self.delayed.unseen:
            self.delayed.committed()
        if self.waiters and (window.beyond or window.stubs):
            self.refill(is_needed=bool(window.stubs))
        if self.purge.through:
            self.purge.go_on()
        self.pump()
        evicting.came_back(self)  # delays may be over, consumers gone that had room, or more have come than had room

    def unawaited(self, part: QueueChanges) -> int:
        # with priorities or partitions `ready` and `returned` are empty: there a new message may go before ready ones;
        # a producer may wait for room until what is stored here can be read back and dropped
        is_next = self.observers or self.waiters or len(self.ready) + len(self.returned) < len(self.subscriptions)
        return len(part.removing) + (0 if is_next else len(part.storing) + part.beyond)

    def make_ready(self, part: QueueChanges) -> None:
        """Makes READY what this batch brought to the disk."""
        window = self.window
        storing, ready = window.storing, self.ready
        for entry in part.storing:
            if entry.state is _STORING:
                move(entry, _COMMITTED, PERSISTENT_MOVES)
                del storing[entry.position]
                ready.append(entry)
        for entry in part.due:
            if entry.state is State.DUE:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del window.due[entry.position]
                self.to_place(entry)

    # ---- out --------------------------------------------------------------------------------------------------------

    def remove(self, entry: Entry, event: Event) -> None:
        """Makes the entry REMOVING: its Remove is in the open batch. It is GONE when that is committed."""
        # D3: only `delay` writes another Remove, with a Delay; every call here is for a row of PERSISTENT_MOVES
        if entry.state is not _UNACKED:
            if isinstance(entry, DelayedEntry) and entry.state is State.DELAYED:
                self.delayed.end_delay(entry)
                move(entry, event, PERSISTENT_MOVES)
                self.context.part(self).removing.append(entry)
                return
            if entry.state in (State.STORING, State.DUE):
                window = self.window
                del (window.storing if entry.state is State.STORING else window.due)[entry.position]
                window.left(entry)
        if type(entry.message) is not Stub:
            self.windows.out -= entry.size
        move(entry, event, PERSISTENT_MOVES)
        self.context.part(self).removing.append(entry)
        self.write_remove(entry.position)

    def write_remove(self, position: int) -> bytes:
        """Writes the Remove of the message at this position. Returns the hash of its key there; b"": it has none."""
        self.context.write(Remove(self.number, position))
        return b""

    def keep_count(self, entry: Entry) -> None:
        """Writes the redelivery count. The message's bytes stay in memory if the window has room."""
        # D4: the count is on the disk before the RECEIPT of the NACK leaves
        self.window.came_back(entry)
        self.context.part(self)
        self.context.write(Count(self.number, entry.position, entry.redeliveries))

    def left_ready(self, entry: Entry) -> None:
        if type(entry.message) is Stub:
            self.window.left(entry)
            return
        # `Window.left`, inlined: each message comes here
        size, windows = entry.size, self.windows
        self.window.size -= size
        windows.size -= size
        windows.out += size

    def as_write(self) -> SaveLedger:
        return SaveLedger(self.number, self.ledger.copy())

    def pump(self) -> None:
        window = self.window
        if self.ring or self.order is not None:
            out_bytes = self.out_bytes
            Queue.pump(self)  # each message comes here, and each `super()` makes an object
            if self.windows.out > self.windows.out_max:
                self.let_go_of_bytes(self.out_bytes - out_bytes)
        else:
            self.watch_head()
        if self.has_due:
            self.delayed.ask()
        if (
            window.beyond
            and self.subscriptions
            and len(self.ready) < LOAD_MESSAGES // 2
            and window.size < LOAD_BYTES // 2
        ):
            self.refill()
        for observer in self.observers:
            observer()

    # ---- what is only on the disk -----------------------------------------------------------------------------------

    def refill(self, is_needed: bool = False) -> None:
        # checked here, before the call of `ReadBack.refill`: each pump that leaves nothing READY comes here
        if self.window.beyond or self.window.stubs:
            self.read_back.refill(is_needed)

    def went_on(self) -> None:
        """Called when more messages are in memory."""
        if self.purge.through:
            self.purge.go_on()
        self.unblock_waiters()
        if self.has_due:
            self.delayed.ask()  # its reads take turns with those of messages beyond the window
        self.pump()
        evicting.came_back(self)

    def peek_head(self) -> Entry | None:
        head = self.head()
        return None if head is None or type(head.message) is Stub else head

    def has_ready(self) -> bool:
        """Whether a message is READY in memory, with its bytes. If none is, asks for the next ones to be read back."""
        if self.peek_head() is not None:
            return True
        if self.window.stubs or self.window.beyond > self.in_doubt.unread:
            self.refill()
        return False

    def has_surplus(self) -> bool:
        """Whether a READY message has no local consumer that can take it: `pump` leaves none with room in the ring."""
        return self.has_ready() and not self.ring

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        return event is not Event.UNUSED and type(entry.message) is Stub and self.goes_elsewhere(entry, event, delay_ms)

    def goes_elsewhere(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        settings = self.settings
        is_dead = event is Event.GIVE_UP or 0 < entry.message.expires_ms <= self.context.now_ms
        if settings.has_dead_letters and (is_dead or entry.redeliveries >= settings.redeliveries_most):
            return True
        if settings.overflow == DEAD_LETTER and not is_dead and bounds.pushes_out(self, entry.size):
            return True
        return not is_dead and bool(self.redelivery_delay_ms(entry.redeliveries) if delay_ms is None else delay_ms)

    def let_go_of_bytes(self, handed_bytes: int) -> None:
        """Turns the last `handed_bytes` bytes of deliveries into stubs, until what is in flight is within its bound.

        Older deliveries keep their bytes: one that was read back is about to need them.
        """
        windows = self.windows
        for delivery in reversed(self.entries_out.values()):
            if handed_bytes <= 0 or windows.out <= windows.out_max:
                return
            entry = delivery.entry
            handed_bytes -= entry.size
            windows.out -= entry.size
            entry.message = Stub(entry.message)

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None:
        self.read_back.read(positions, answer)

    def read_beyond(self, count: int, answer: Callable[[Loaded], None]) -> None:
        self.read_back.read_beyond(count, answer)

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        return DurablePicker(self, InOneLine(self), through, positions)

    def finder(self) -> Finder:
        return DurableFinder(self, InOneLine(self))

    def first_changed(self) -> None:
        self.read_back.forget_first_age()

    def out_read(self, delivery: Delivery, found: dict[int, Message | None]) -> None:
        entry = delivery.entry
        if self.is_gone or not delivery.is_out or not entry.is_stub:
            return
        message = self.read_back.found_at(entry.position, found)
        if message is None:
            self.left_out(entry)
            self.report_damaged(entry.position)
        else:
            entry.message = message
            self.windows.out += entry.size

    def report_damaged(self, position: int) -> None:
        """Reports a damaged message: it stays where it is, and is no longer delivered."""
        self.damaged += 1
        self.context.note("error", "damaged_record", queue=self.name, position=f"{position:x}")

    # ---- delayed messages -------------------------------------------------------------------------------------------

    def put_delayed(self, message: Message, due_ms: int) -> None:
        self.ledger.accept(message.size, message.expires_ms)
        position = self.context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, message.size, None, due_ms)
        # D21: on the disk its key is the time at which it is due
        self.delayed.add(due_ms, position, message)

    def delay(self, entry: Entry, due_ms: int) -> None:
        """Delays a message: moves it, with its redelivery count, out of its place and out of memory."""
        self.windows.out -= entry.size
        # D20: its Remove and its Delay are in one batch
        key_hash = self.write_remove(entry.position)
        self.delayed.add(due_ms, entry.position, entry.message, entry.redeliveries, True, key_hash)
        if self.journal is not None:
            self.journal.write(DELAYED, self.name, entry, number=due_ms)
        if self.purge.through:
            self.purge.spared.add(entry.position)

    def release_due(self) -> bool:
        self.has_due = True
        self.delayed.ask()
        return False

    def read_delayed(self) -> None:
        """Asks for the next delayed messages to be read back."""
        self.delayed.ask()

    def make_due(self, due_ms: int, message: Message, stored: StoredMessage) -> bool:
        """Moves a message DELAYED -> DUE (see Due). Returns False if there is no room for it."""
        return self.due.place(due_ms, message, stored)

    def hash_held(self, entry: DelayedEntry) -> bytes:
        """Returns the hash of the key that a delayed message holds; b"": it holds none."""
        return self.due.hash_held(entry)

    def has_apart(self, through: int) -> bool:
        """Whether messages up to that position are only on the disk though they are not beyond the window."""
        return False

    def released(self) -> None:
        """Called when a slice of due messages has gone to its places."""
        if self.is_gone:
            return
        self.has_due = 0 < self.next_due_ms <= self.context.now_ms
        if self.purge.through:
            self.purge.go_on()
        self.pump()

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned) + self.window.beyond - self.in_doubt.unread

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not self.in_doubt.entries

    @property
    def storing_count(self) -> int:
        return len(self.window.storing) + len(self.window.due)

    @property
    def delayed_count(self) -> int:
        return self.ledger.stored_delayed - len(self.delayed.damaged)

    @property
    def doubt_count(self) -> int:
        return len(self.in_doubt.entries)

    @property
    def aside_count(self) -> int:
        return self.in_doubt.still_aside(self.in_memory)

    @property
    def oldest_ms(self) -> int | None:
        if self.head() is not None or self.ready_count == 0:
            return super().oldest_ms
        return self.read_back.first_age_ms()

    def read_oldest_age(self, done: Callable[[int | None], None]) -> None:
        if self.head() is not None or self.ready_count == 0:
            super().read_oldest_age(done)
        else:
            self.read_back.read_first_age(done)

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def kept(self) -> tuple[int, int]:
        kept, kept_bytes = super().kept()
        return kept + len(self.in_doubt.entries), kept_bytes + self.in_doubt.size

    def beyond_memory(self) -> tuple[int, int]:
        kept, kept_bytes = self.kept()
        window, ledger = self.window, self.ledger
        count, size = ledger.stored - kept - window.count, ledger.stored_bytes - kept_bytes - window.size
        if self.settings.overflow == DEAD_LETTER:
            return count + window.stubs, size
        return count, size - window.stub_bytes

    def must_read_oldest(self) -> bool:
        return self.settings.overflow == DEAD_LETTER and self.window.oldest_is_stub

    def may_evict(self, messages: int, size: int) -> bool:
        may = super().may_evict(messages, size)
        if may and self.settings.overflow == DEAD_LETTER and self.window.stubs and self.peek_head() is None:
            self.refill(is_needed=True)
            return False
        return may

    def droppable(self) -> list[Entry]:
        return super().droppable() + [*self.window.due.values(), *self.window.storing.values()]

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        coming = [*self.window.storing.values(), *self.window.due.values()]
        return chain(coming, super().in_memory(most))

    @property
    def in_memory_count(self) -> int:
        return super().in_memory_count + self.storing_count

    def oldest(self) -> Entry | None:
        """Takes out the oldest entry; if it becomes a dead letter, no stub: `may_evict` made sure of enough others."""
        stubs: list[tuple[int, Entry]] = []
        due = {} if self.keeps_nothing else self.window.due  # a consumer may have room by the time it is READY
        if self.settings.overflow == DEAD_LETTER:
            due = {position: entry for position, entry in due.items() if not entry.is_stub}
            while self.returned and self.returned[0][1].is_stub:
                stubs.append(heapq.heappop(self.returned))
        oldest = self.oldest_of(due)
        for pair in stubs:
            heapq.heappush(self.returned, pair)
        return oldest

    def oldest_of(self, due: dict[int, Entry]) -> Entry | None:
        """Returns the oldest entry: one of `due`, or one that has its place in the window."""
        if due:
            first, head = min(due), self.head()
            if head is None or first < head.position:
                return due[first]
        return super().oldest() or next(iter(self.window.storing.values()), None)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def empty(self, done: Callable[[int], None]) -> None:
        """Purges the queue. What is not in memory is removed as it is read back."""
        has_delayed = self.delayed_count > 0
        if has_delayed:
            self.delayed.begin_anew()
        self.purge.begin(done, is_of_delayed=has_delayed)

    def end(self) -> None:
        super().end()
        self.purge.end()

    def delete(self) -> None:
        self.windows.size -= self.window.size
        out = [delivery.entry for delivery in self.entries_out.values()]
        out += [entry for entry in self.in_doubt.entries.values() if entry is not None]
        self.windows.out -= sum(entry.size for entry in out if not entry.is_stub)
        self.end()
        if self.journal is not None:
            self.journal.deleted(self)
        retire(self.context, self, self.name, self.as_write())
        let_go(self, self.in_doubt, self.purge, self.delayed, self.read_back, self.due)
