"""A queue on the disk: put before ready, remove after ack, and only a window of it in memory.

The window is the head of the queue: what is READY in memory, in order, without a gap. `beyond` messages follow it
on the disk (or on their way there). A new message stays in memory only where nothing is beyond and the window has
room; otherwise it is read back when the window runs low. Delayed messages (delayed.py) are no part of all this.

What is in flight, or has come back, may be a stub: its place and counts are in memory, its bytes on the disk alone.
They are read back before it is handed out again, or goes elsewhere.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain
from operator import attrgetter

from radiator.core.connections import Delivery
from radiator.core.queues.delayed import Delayed
from radiator.core.queues.entry import DelayedEntry, Entry, Stub
from radiator.core.queues.queue import DeadLetter, Queue
from radiator.core.states import PERSISTENT_MOVES, Event, State, move
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, TurnContext
from radiator.model.commands import Loaded, LoadedDelayed, StoredMessage
from radiator.model.errors import StoreError, count_text
from radiator.model.journal import DELAYED, DUE, CameFrom
from radiator.model.limits import (
    BATCH_BYTES,
    CHORE_MESSAGES,
    LOAD_BYTES,
    LOAD_MESSAGES,
    OLDEST_AT_ONCE,
    OUT_BYTES,
    WAKES_AT_ONCE,
    WINDOW_BYTES,
    WINDOW_MESSAGES,
    WINDOWS_BYTES,
    WINDOWS_SHARE,
)
from radiator.model.message import Message
from radiator.model.reads import ReadQueue
from radiator.model.settings import DEAD_LETTER, QueueSettings
from radiator.model.writes import Count, Ledger, Put, Remove, SaveLedger

_columns = attrgetter(*(field.name for field in fields(Ledger)))  # copy.copy takes four times as long, in each batch


class Windows:
    """The bytes of all windows together (`size`), those of what is in flight (`out`), their bounds, and the loads that
    are under way. load_bytes: what one load brings.

    Of those, WAKES_AT_ONCE (`wakes`) may be of delayed messages, and `next_wakes` come then; OLDEST_AT_ONCE (`oldest`)
    may ask for a queue's oldest message. woken, woken_bytes: how
    many the batch `woken_in` has woken: each takes only so many, whatever else it holds, so that it stays short.
    """

    __slots__ = (
        "is_disk_tight", "load_bytes", "next_wakes", "oldest", "out", "out_max", "size", "size_max", "waiting", "wakes",
        "woken", "woken_bytes", "woken_in",
    )  # fmt: skip

    def __init__(self, max_memory_bytes: int) -> None:
        self.bound(max_memory_bytes)
        self.size = 0
        self.out = 0
        self.waiting: dict[int, Callable[..., None]] = {}
        self.is_disk_tight = False
        self.wakes = self.oldest = 0
        self.next_wakes: dict[Delayed, None] = {}
        self.woken = self.woken_bytes = self.woken_in = 0

    def bound(self, max_memory_bytes: int) -> None:
        """They have their shares of so much. What is above goes as it is consumed."""
        self.size_max = min(WINDOWS_BYTES, max_memory_bytes // WINDOWS_SHARE)
        self.out_max = min(OUT_BYTES, self.size_max // 2)
        self.load_bytes = min(LOAD_BYTES, self.size_max // 2)

    @property
    def is_crowded(self) -> bool:
        """Whether one more load may be too much: then each brings one message."""
        return self.size + self.load_bytes > self.size_max

    def ask(self, context: TurnContext, load: ReadQueue, answer: Callable[[Loaded], None]) -> None:
        """Have something read back."""
        self.waiting[load.request] = answer
        context.turn.read_requests.append(load)

    def ask_delayed(self, delayed: Delayed) -> None:
        """The same for a slice of delayed messages, first come, first served."""
        if self.wakes >= WAKES_AT_ONCE:
            self.next_wakes[delayed] = None
            return
        self.wakes += 1
        delayed.queue.is_loading = True
        read_request = delayed.read_request()
        self.waiting[read_request.request] = partial(self.found_delayed, delayed)
        delayed.context.turn.read_requests.append(read_request)

    def have_woken_enough(self, context: TurnContext) -> bool:
        """Whether the open batch wakes no more."""
        if self.woken_in != context.open.number:
            self.woken_in = context.open.number
            self.woken = self.woken_bytes = 0
        return self.woken >= LOAD_MESSAGES or self.woken_bytes >= LOAD_BYTES

    def woke(self, size: int) -> None:
        """One more."""
        self.woken += 1
        self.woken_bytes += size

    def found_delayed(self, delayed: Delayed, answer: LoadedDelayed) -> None:
        """One has its answer: the next may ask."""
        delayed.answered(answer)
        self.wakes -= 1
        while self.next_wakes and self.wakes < WAKES_AT_ONCE:
            first = next(iter(self.next_wakes))
            del self.next_wakes[first]
            first.ask()


class DurableQueue(Queue):
    """See Queue. `number` is its name on the disk."""

    __slots__ = (
        "aside", "asked_after", "asked_at", "asks", "beyond", "dedup_pending", "delayed", "doubt_bytes", "doubts",
        "first_accepted", "freed_unread", "is_loading", "letting_go", "number", "on_pumped", "on_ready", "purge_done",
        "purge_through", "purged", "purges_delayed", "spared", "storing", "stub_bytes", "stubs", "taken_unread",
        "unread", "unseen", "wait_for_commit", "waking", "window_bytes", "window_end", "windows",
    )  # fmt: skip

    moves = PERSISTENT_MOVES
    is_persistent = True

    def __init__(
        self,
        number: int,
        name: str,
        settings: QueueSettings,
        ledger: Ledger,
        context: TurnContext,
        dead_letter: DeadLetter,
        on_room: Callable[[Queue], None],
        windows: Windows,
    ) -> None:
        super().__init__(name, settings, context, dead_letter, on_room)
        self.number = number
        self.journal = context.journal
        self.ledger = ledger
        self.windows = windows
        self.beyond = ledger.stored - ledger.stored_delayed
        self.window_end = 0
        self.window_bytes = 0
        # among `returned` and `waking`
        self.stubs = self.stub_bytes = 0
        self.storing: dict[int, Entry] = {}
        self.waking: dict[int, Entry] = {}
        self.delayed = Delayed(self, context)
        self.is_loading = False
        # of the first message beyond the window when it was accepted, as it was read: its place, and ms since the epoch
        self.first_accepted = ((-1, 0, 0), 0)
        # what was asked: behind which position, when which batch was on the disk, and how many messages have come
        # beyond the window since, which the answer need not have
        self.asked_after = 0
        self.asked_at = 0
        self.unseen = 0
        self.wait_for_commit = False
        # dedup-ids that a look-up under way cannot see -> batch and end of their Remember;
        # asks: look-ups whose answers are not used up, in order -> the last batch on the disk when they were asked
        self.dedup_pending: dict[bytes, tuple[int, int]] = {}
        self.asks: dict[int, int] = {}
        # offered to another node, by position; None: not read back since the start (so many are `unread`), and
        # taken_unread: such as have left; freed_unread: such as are READY again, and redelivered by the operator's word
        self.doubts: dict[int, Entry | None] = {}
        self.doubt_bytes = 0
        self.unread = 0
        self.aside: set[int] = set()  # what no link can carry, as was found; some may have left
        self.taken_unread: set[int] = set()
        self.freed_unread: set[int] = set()
        # told after each pump, where the queue is shared between nodes
        self.on_pumped: Callable[[], None] | None = None
        self.on_ready: Callable[[DurableQueue], None] | None = None
        # a purge goes on for messages that are read back and were accepted up to here, then for delayed ones but for
        # those that were in flight when it began
        self.purge_through = 0
        self.purges_delayed = False
        self.spared: set[int] = set()
        self.letting_go: list[tuple[int, Entry]] = []  # what had come back when it began, and goes first
        self.purged = 0
        self.purge_done: Callable[[int], None] | None = None

    # ---- in ---------------------------------------------------------------------------------------------------------

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        """STORING: it is READY, and may be delivered, only when its batch is committed."""
        size = message.size
        self.enter(message, size)
        context = self.context
        position = context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, size, came_from)
        part = context.part(self)
        context.write(Put(self.number, position, message), size + WRITE_COST_BYTES)
        if self.beyond == 0 and self.window_takes(size):
            entry = Entry(position, message, State.STORING, size)
            part.storing.append(entry)
            self.storing[position] = entry
            self.window_end = position
            self.window_bytes += size
            self.windows.size += size
            return entry
        self.beyond += 1
        part.beyond += 1
        return None

    def window_takes(self, size: int) -> bool:
        """Whether one more fits the window; an empty one takes one message of any size for a consumer that has room."""
        # written out, not `window_count`: each message comes here
        count = len(self.ready) + len(self.returned) + len(self.storing) + len(self.waking)
        if count == 0 and self.ring:
            return True
        return (
            count < WINDOW_MESSAGES
            and (self.window_bytes + size <= WINDOW_BYTES or count == 0)
            and self.windows.size + size <= self.windows.size_max
        )

    @property
    def window_count(self) -> int:
        """Messages that have their place in the window."""
        return len(self.ready) + len(self.returned) + len(self.storing) + len(self.waking)

    def window_takes_again(self, size: int) -> bool:
        """Whether one that found no room would find it, and others with it: so that few are read back in vain. What one
        load brings must not stand in the way.
        """
        count = len(self.ready) + len(self.returned) + len(self.waking)
        has_little = count <= LOAD_MESSAGES and self.window_bytes <= LOAD_BYTES
        return has_little and (self.window_count == 0 or self.window_takes(size))

    def committed(self, part: QueueChanges) -> None:
        """Only here does a stored message become READY, and so deliverable."""
        # D2: READY comes of Committed, or of a load, which sees nothing that is not committed
        storing, ready = self.storing, self.ready
        for entry in part.storing:
            if entry.state is State.STORING:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del storing[entry.position]
                ready.append(entry)
        for entry in part.waking:
            if entry.state is State.WAKING:
                move(entry, Event.COMMITTED, PERSISTENT_MOVES)
                del self.waking[entry.position]
                heapq.heappush(self.returned, (entry.position, entry))
        for entry in part.removing:
            move(entry, Event.COMMITTED, PERSISTENT_MOVES)
        self.wait_for_commit = False
        self.unseen += part.beyond
        if self.dedup_pending:
            seen = next(iter(self.asks.values()), self.context.committed)
            self.dedup_pending = {i: (number, end) for i, (number, end) in self.dedup_pending.items() if number > seen}
        self.delayed.committed()
        if self.waiters and (self.beyond or self.stubs):
            self.refill(is_needed=bool(self.stubs))
        if self.purge_through:
            self.go_on_purging()
        self.pump()

    # ---- out --------------------------------------------------------------------------------------------------------

    def remove(self, entry: Entry, event: Event) -> None:
        """REMOVING: the Remove is in the open batch; GONE when that is committed."""
        # D3: only `hold` writes another Remove, and a Delay with it; every call comes from a row of PERSISTENT_MOVES
        if entry.state is not State.UNACKED:
            if isinstance(entry, DelayedEntry) and entry.state is State.DELAYED:
                self.delayed.end_delay(entry)
                move(entry, event, PERSISTENT_MOVES)
                self.context.part(self).removing.append(entry)
                return
            if entry.state in (State.STORING, State.WAKING):
                del (self.storing if entry.state is State.STORING else self.waking)[entry.position]
                self.left_ready(entry)
        if type(entry.message) is not Stub:
            self.windows.out -= entry.size
        move(entry, event, PERSISTENT_MOVES)
        self.context.part(self).removing.append(entry)
        self.context.write(Remove(self.number, entry.position))

    def keep_count(self, entry: Entry) -> None:
        """The count is on the disk before the RECEIPT of a NACK leaves. Its bytes stay where the window has room."""
        # D4
        if type(entry.message) is not Stub:
            self.windows.out -= entry.size
            if self.window_takes(entry.size):
                self.window_bytes += entry.size
                self.windows.size += entry.size
            else:
                entry.message = Stub(entry.message)
        if type(entry.message) is Stub:
            self.stubs += 1
            self.stub_bytes += entry.size
        self.context.part(self)
        self.context.write(Count(self.number, entry.position, entry.redeliveries))

    def hold(self, entry: Entry, due_ms: int) -> None:
        """It leaves its place, and memory, with its count."""
        self.windows.out -= entry.size
        # D20: its Remove and its Delay are in one batch
        self.context.write(Remove(self.number, entry.position))
        self.delayed.add(due_ms, entry.position, entry.message, entry.redeliveries, True)
        if self.journal is not None:
            self.journal.tell(DELAYED, self.name, entry, number=due_ms)
        if self.purge_through:
            self.spared.add(entry.position)

    def left_ready(self, entry: Entry) -> None:
        if type(entry.message) is Stub:
            self.stubs -= 1
            self.stub_bytes -= entry.size
            return
        self.window_bytes -= entry.size
        self.windows.size -= entry.size
        self.windows.out += entry.size

    def books(self) -> SaveLedger:
        return SaveLedger(self.number, Ledger(*_columns(self.ledger)))

    # ---- stubs ------------------------------------------------------------------------------------------------------

    def peek_head(self) -> Entry | None:
        head = self.head()
        return None if head is None or type(head.message) is Stub else head

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        return type(entry.message) is Stub and self.goes_elsewhere(entry, event, delay_ms)

    def goes_elsewhere(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether a message that is out is stored anew by this event: as a dead letter, or as a delayed one."""
        settings = self.settings
        is_dead = event is Event.GIVE_UP or 0 < entry.message.expires_ms <= self.context.now_ms
        if settings.dead_letter is not None and (is_dead or entry.redeliveries >= settings.max_redeliveries):
            return True
        return not is_dead and bool(self.redelivery_delay_ms(entry.redeliveries) if delay_ms is None else delay_ms)

    def let_go_of_bytes(self, handed_bytes: int) -> None:
        """Of what was handed out last, so many bytes, stubs are kept, until all in flight has no more than it may.

        No others: what was read back while it is out is about to be needed.
        """
        windows = self.windows
        for delivery in reversed(self.entries_out.values()):
            if handed_bytes <= 0 or windows.out <= windows.out_max:
                return
            entry = delivery.entry
            handed_bytes -= entry.size
            windows.out -= entry.size
            entry.message = Stub(entry.message)

    def bytes_out(self) -> int:
        """What of `Windows.out` is of this queue."""
        entries = [delivery.entry for delivery in self.entries_out.values()]
        entries += [entry for entry in self.doubts.values() if entry is not None]
        return sum(entry.size for entry in entries if not entry.is_stub)

    def let_go_of_window(self) -> None:
        """Nobody has room for what was read back, and all windows together are full: its places are enough."""
        while self.ready:
            entry = self.ready.popleft()
            self.window_bytes -= entry.size
            self.windows.size -= entry.size
            self.stubs += 1
            self.stub_bytes += entry.size
            entry.message = Stub(entry.message)
            heapq.heappush(self.returned, (entry.position, entry))

    def read_stubs(self, is_needed: bool) -> bool:
        """Have the next of those that came back read, if any. is_needed: however many before it are in memory."""
        is_crowded, bytes_left = self.windows.is_crowded, self.windows.load_bytes
        asked: dict[int, Entry] = {}
        for count, (position, entry) in enumerate(_ascending(self.returned)):
            if entry.is_stub:
                if asked and (is_crowded or bytes_left < entry.size):
                    break
                asked[position] = entry
                bytes_left -= entry.size
            if len(asked) == LOAD_MESSAGES or (count == LOAD_MESSAGES and not is_needed):
                break
        if asked:
            self.is_loading = True
            self.read([*asked], partial(self.stubs_read, asked))
        return bool(asked)

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None:
        """Have the messages at these places, ascending, read back."""
        load = ReadQueue(self.context.next_position(), self.number, 0, len(positions), 0, tuple(positions))
        self.windows.ask(self.context, load, answer)

    def stubs_read(self, asked: dict[int, Entry], answer: Loaded) -> None:
        """They are as they were, unless they have left since, or are damaged."""
        self.is_loading = False
        if self.is_gone:
            return
        found = {stored.position: stored.message for stored in answer.messages}
        for position, entry in asked.items():
            if (
                entry.state is not State.READY
                or not entry.is_stub
                or (self.letting_go and position < self.purge_through)
            ):
                continue
            self.left_ready(entry)
            message = self.found_at(position, found)
            if message is None:
                self.returned = [pair for pair in self.returned if pair[0] != position]
                heapq.heapify(self.returned)
                self.tell_damaged(position)
            else:
                entry.message = message
                self.window_bytes += entry.size
                self.windows.size += entry.size
        self.went_on()

    def found_at(self, position: int, found: dict[int, Message | None]) -> Message | None:
        """What was read back of a stub; None: it is damaged. Raises StoreError where it is not there at all."""
        # D32: nothing counts as gone that was not removed
        if position not in found:
            raise StoreError(f"/queue/{self.name} has no message {position:x}, which was not removed")
        return found[position]

    def out_read(self, delivery: Delivery, found: dict[int, Message | None]) -> None:
        """A stub that is out, unless it came back meanwhile, was read back, or is damaged. Raises StoreError."""
        entry = delivery.entry
        if self.is_gone or not delivery.is_out or not entry.is_stub:
            return
        message = self.found_at(entry.position, found)
        if message is None:
            self.left_out(entry)
            self.tell_damaged(entry.position)
        else:
            entry.message = message
            self.windows.out += entry.size

    def tell_damaged(self, position: int) -> None:
        """It stays where it is, and is delivered no more."""
        self.damaged += 1
        self.context.note("error", "damaged_record", queue=self.name, position=f"{position:x}")

    # ---- the window -------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        if self.ring:
            out_bytes = self.out_bytes
            super().pump()
            if self.windows.out > self.windows.out_max:
                self.let_go_of_bytes(self.out_bytes - out_bytes)
        if self.is_waking:
            self.delayed.ask()
        if (
            self.beyond
            and self.subscriptions
            and len(self.ready) < LOAD_MESSAGES // 2
            and self.window_bytes < LOAD_BYTES // 2
        ):
            self.refill()
        if self.on_pumped is not None:
            self.on_pumped()
        if self.on_ready is not None and self.ready_count:
            self.on_ready(self)

    def refill(self, is_needed: bool = False) -> None:
        """Read back the next stretch, one at a time; one that finds nothing yet waits for the next commit.

        Not while an entry of the window is STORING: what follows it must not become READY before it. Nor while some
        wake: their places may be in the stretch, and not on the disk yet.
        """
        if (self.beyond == 0 and not self.stubs) or self.is_loading or self.is_gone:
            return
        if self.stubs and (is_needed or self.peek_head() is None) and self.read_stubs(is_needed):
            return
        if self.beyond == 0 or self.wait_for_commit or self.storing:
            return
        if self.delayed.woken_in > self.context.committed:
            return
        crowded = self.windows.is_crowded
        if crowded and (self.ready or self.returned) and not is_needed:
            return
        self.is_loading = True
        self.asked_after = self.window_end
        self.asked_at = self.context.committed
        self.unseen = 0
        request = self.context.next_position()
        bytes_max = 1 if crowded else self.windows.load_bytes
        load = ReadQueue(request, self.number, self.window_end, LOAD_MESSAGES, bytes_max)
        self.windows.ask(self.context, load, self.loaded)

    def loaded(self, answer: Loaded) -> None:
        """What was read back is READY: it is on the disk, synced, or it could not have been read."""
        self.is_loading = False
        if self.is_gone:
            return
        if self.window_end != self.asked_after:
            # all that was beyond has been taken since, and the window has gone on: nothing of this is news
            answer = Loaded(answer.request)
        else:
            self.assert_agrees(answer)
        # found nothing: what is beyond is still on its way to the disk, unless it has got there since the question
        self.wait_for_commit = not answer.messages and self.asked_at == self.context.committed
        for stored in answer.messages:
            self.window_end = stored.position
            message = stored.message
            if stored.position in self.taken_unread:
                self.taken_unread.discard(stored.position)
                continue
            if message is None and stored.position in self.doubts:
                continue  # damaged: unread until the link settles it
            self.beyond -= 1
            if message is None:
                self.tell_damaged(stored.position)
                continue
            redelivered = stored.redelivered
            if stored.position in self.freed_unread:
                self.freed_unread.discard(stored.position)
                redelivered = True
            entry = Entry(stored.position, message, State.READY, message.size, stored.redeliveries, redelivered)
            if stored.position in self.doubts:
                # D17: as it was before the start
                entry = Entry(
                    stored.position, message, State.IN_DOUBT, message.size, stored.redeliveries, stored.redelivered
                )
                self.doubts[stored.position] = entry
                self.unread -= 1
                self.windows.out += entry.size
                continue
            if stored.position <= self.purge_through:
                self.purged += 1
                self.windows.out += entry.size
                self.discard(entry)
                continue
            self.window_bytes += entry.size
            self.windows.size += entry.size
            self.ready.append(entry)
        if self.taken_unread:
            self.taken_unread = {position for position in self.taken_unread if position > self.window_end}
        self.went_on()
        if self.windows.is_crowded and not self.ring:
            self.let_go_of_window()

    def went_on(self) -> None:
        """More is in memory."""
        if self.purge_through:
            self.go_on_purging()
        if self.waiters:
            self.on_room(self)
        if self.is_waking:
            self.delayed.ask()  # by turns with what is beyond
        self.pump()

    def assert_agrees(self, answer: Loaded) -> None:
        """Raises StoreError, a clause, where what was read back cannot be what was written: its checksums say nothing
        of messages that are missing, or of pages in each other's places.
        """
        # D32: a structure that is damaged is told of before anything of the answer is given out
        last = self.asked_after
        for stored in answer.messages:
            if stored.position <= last:
                raise StoreError(f"/queue/{self.name} has message {stored.position:x} behind message {last:x}")
            last = stored.position
        left = self.beyond - len(answer.messages)  # those that the ledger has, and no answer yet
        if self.taken_unread:
            left += sum(1 for stored in answer.messages if stored.position in self.taken_unread)
        if self.unread:  # in doubt, and damaged, in an earlier answer: they count as beyond until the link settles them
            left -= sum(1 for position, entry in self.doubts.items() if entry is None and position <= self.asked_after)
        unseen = self.unseen + sum(part.beyond for part in self.context.uncommitted(self))
        if left < 0 or (left == 0 and answer.has_more and not self.taken_unread):
            raise StoreError(f"/queue/{self.name} has more messages than its ledger")
        if left > unseen and not answer.has_more:
            raise StoreError(
                f"/queue/{self.name} ends behind message {last:x}, but its ledger has "
                f"{count_text(left - unseen, 'further message')}"
            )

    # ---- delayed messages -------------------------------------------------------------------------------------------

    def put_delayed(self, message: Message, due_ms: int) -> None:
        self.enter(message, message.size)
        position = self.context.next_position()
        if self.journal is not None:
            self.journal.accepted(self.name, position, message, message.size, None, due_ms)
        # D21: on the disk it stands under its time
        self.delayed.add(due_ms, position, message)

    def wake_due(self) -> bool:
        self.is_waking = True
        self.delayed.ask()
        return False

    def wake(self, due_ms: int, message: Message, stored: StoredMessage) -> bool:
        """DELAYED -> WAKING: to its own place, unless it is expired or purged. False: the window has no room for it.

        Behind the window it needs none.
        """
        position, size = stored.position, message.size
        redeliveries, redelivered = stored.redeliveries, stored.redelivered
        was_out = redeliveries > 0  # what another node hands over is delayed only when it has come back
        entry = DelayedEntry(position, message, State.DELAYED, size, redeliveries, redelivered, was_out, due_ms)
        if self.purge_through:
            if position > self.purge_through or position in self.spared:
                self.delayed.pass_over(due_ms)
            else:
                self.purged += 1
                self.discard(entry)
            return True
        # one that stands under its expiry has expired, though the clock be set back since it was asked for
        if 0 < message.expires_ms <= max(due_ms, self.context.now_ms):
            self.expire(entry)
            return True
        fits = self.window_takes(size)
        is_behind = position > self.window_end
        # an empty window takes one of any size, if need be without its bytes: else nobody would ever ask for it
        is_stub = not fits and not is_behind and self.window_count == 0
        if not fits and not is_behind and not is_stub:
            self.delayed.blocked_bytes = max(1, size)
            return False
        # D20: the Wake and the Put are in one batch
        self.delayed.end_delay(entry)
        self.context.write(Put(self.number, position, message), size + WRITE_COST_BYTES)
        if entry.redeliveries:
            self.context.write(Count(self.number, position, entry.redeliveries))
        move(entry, Event.DUE, PERSISTENT_MOVES)
        if self.journal is not None:
            self.journal.tell(DUE, self.name, entry)
        if is_behind and (self.beyond or not fits):
            self.beyond += 1
            self.context.part(self).beyond += 1
            return True
        if is_behind:
            self.window_end = position
        self.waking[position] = entry
        self.context.part(self).waking.append(entry)
        if is_stub:
            entry.message = Stub(message)
            self.stubs += 1
            self.stub_bytes += size
            return True
        self.window_bytes += size
        self.windows.size += size
        return True

    def go_on_waking(self) -> None:
        """After each slice."""
        self.is_loading = False
        if self.is_gone:
            return
        self.is_waking = 0 < self.next_due_ms <= self.context.now_ms
        if self.purge_through:
            self.go_on_purging()
        self.pump()

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned) + self.beyond - self.unread

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not self.doubts

    @property
    def storing_count(self) -> int:
        return len(self.storing) + len(self.waking)

    @property
    def oldest_ms(self) -> int | None:
        if self.head() is not None or self.ready_count == 0:
            return super().oldest_ms
        place, accepted_ms = self.first_accepted
        if place == self._first_place:
            return max(0, self.context.now_ms - accepted_ms)
        if self.windows.oldest < OLDEST_AT_ONCE:
            self.windows.oldest += 1
            self.tell_oldest(self._oldest_told)
        return None

    def _oldest_told(self, _: int | None) -> None:
        self.windows.oldest -= 1

    @property
    def _first_place(self) -> tuple[int, int, int]:
        """As long as it is the same, the first message beyond the window is."""
        return self.window_end, self.delayed.woken_in, self.unread

    def tell_oldest(self, done: Callable[[int | None], None]) -> None:
        if self.head() is not None or self.ready_count == 0:
            super().tell_oldest(done)
            return
        place = self._first_place

        def loaded(answer: Loaded) -> None:
            ready = (m.message for m in answer.messages if m.position not in self.doubts and m.message is not None)
            message = next(ready, None)
            if message is not None:
                self.first_accepted = (place, message.accepted_ms)
            done(None if message is None else max(0, self.context.now_ms - message.accepted_ms))

        load = ReadQueue(self.context.next_position(), self.number, self.window_end, 1 + self.unread, LOAD_BYTES)
        self.windows.ask(self.context, load, loaded)

    @property
    def delayed_count(self) -> int:
        return self.ledger.stored_delayed - len(self.delayed.damaged)

    @property
    def doubt_count(self) -> int:
        return len(self.doubts)

    @property
    def aside_count(self) -> int:
        if self.aside:
            self.aside.intersection_update([entry.position for entry in self.in_memory()])
        return len(self.aside)

    def kept(self) -> tuple[int, int]:
        kept, kept_bytes = super().kept()
        return kept + len(self.doubts), kept_bytes + self.doubt_bytes

    def beyond_memory(self) -> tuple[int, int]:
        kept, kept_bytes = self.kept()
        held = kept + len(self.ready) + len(self.returned) + len(self.storing) + len(self.waking)
        count, size = self.ledger.stored - held, self.ledger.stored_bytes - kept_bytes - self.window_bytes
        if self.settings.overflow == DEAD_LETTER:
            return count + self.stubs, size
        return count, size - self.stub_bytes

    def may_evict(self, messages: int, size: int) -> bool:
        may = super().may_evict(messages, size)
        if may and self.settings.overflow == DEAD_LETTER and self.stubs and self.peek_head() is None:
            self.refill(is_needed=True)
            return False
        return may

    def droppable(self) -> list[Entry]:
        return super().droppable() + [*self.waking.values(), *self.storing.values()]

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        return chain([*self.storing.values(), *self.waking.values()], super().in_memory(most))

    @property
    def in_memory_count(self) -> int:
        return super().in_memory_count + self.storing_count

    def oldest(self) -> Entry | None:
        """One that becomes a dead letter is not a stub: `may_evict` has seen to it that there are enough others."""
        stubs: list[tuple[int, Entry]] = []
        waking = self.waking
        if self.settings.overflow == DEAD_LETTER:
            waking = {position: entry for position, entry in waking.items() if not entry.is_stub}
            while self.returned and self.returned[0][1].is_stub:
                stubs.append(heapq.heappop(self.returned))
        oldest = self.oldest_of(waking)
        for pair in stubs:
            heapq.heappush(self.returned, pair)
        return oldest

    def oldest_of(self, waking: dict[int, Entry]) -> Entry | None:
        """Of these and of what has its place in the window."""
        if waking:
            first, head = min(waking), self.head()
            if head is None or first < head.position:
                return waking[first]
        if self.ready or self.returned:
            return super().oldest()
        return next(iter(self.storing.values()), None)

    # ---- in doubt between two nodes (cluster/handover.py) -----------------------------------------------------------

    def recover_doubt(self, position: int, size: int) -> None:
        """The start finds it in doubt."""
        self.doubts[position] = None
        self.unread += 1
        self.doubt_bytes += size

    def has_ready(self) -> bool:
        """Whether one is READY in memory; if not, the next stretch is asked for."""
        if self.peek_head() is not None:
            return True
        if self.stubs or self.beyond > self.unread:
            self.refill()
        return False

    def has_surplus(self) -> bool:
        """Whether one is READY that no local consumer can be given: `pump` has left nobody with room in the ring."""
        return self.has_ready() and not self.ring

    def doubt(self, entry: Entry) -> None:
        """READY -> IN_DOUBT: taken from the head, and offered to another node."""
        move(entry, Event.OFFER, PERSISTENT_MOVES)
        self.doubts[entry.position] = entry
        self.doubt_bytes += entry.size

    def undoubt(self, position: int, size: int, redelivered: bool = False) -> None:
        """IN_DOUBT -> READY, at its own place. redelivered: somebody may have had it elsewhere."""
        entry = self.doubts.pop(position)
        self.doubt_bytes -= size
        if entry is None:
            self.unread -= 1  # it is read back as READY, when its turn comes
            if redelivered and position > self.window_end:
                self.freed_unread.add(position)  # a load under way does not see the mark
            if position <= self.window_end:  # which is over: it is damaged
                self.beyond -= 1
                self.tell_damaged(position)
            return
        entry.redelivered = entry.redelivered or redelivered
        move(entry, Event.NOT_TAKEN, PERSISTENT_MOVES)
        self.put_back(entry)

    def put_back(self, entry: Entry) -> None:
        """A READY entry that was taken from the head goes back to its place."""
        self.window_bytes += entry.size
        self.windows.size += entry.size
        self.windows.out -= entry.size
        heapq.heappush(self.returned, (entry.position, entry))

    def taken(self, position: int, size: int, expires: bool) -> None:
        """IN_DOUBT -> REMOVING: another node has it, and its word counts as the ack."""
        entry = self.doubts.pop(position)
        self.doubt_bytes -= size
        ledger = self.ledger
        ledger.acked += 1
        ledger.acked_bytes += size
        if entry is not None:
            self.leave(entry, Event.TAKEN)
            return
        self.unread -= 1
        ledger.stored -= 1
        ledger.stored_bytes -= size
        ledger.stored_expiring -= expires
        self.beyond -= 1
        if position > self.window_end:
            self.taken_unread.add(position)
        self.context.part(self)
        self.context.write(Remove(self.number, position))
        if self.waiters:
            self.on_room(self)

    def drop_unkept(self, size: int) -> None:
        """A copy for a node that none are kept for: in the books as accepted and dropped, and nowhere else."""
        ledger = self.ledger
        ledger.accepted += 1
        ledger.accepted_bytes += size
        ledger.dropped += 1
        ledger.dropped_bytes += size
        self.context.part(self)

    def tell_handed_over(self, position: int, size: int, node: str) -> None:
        """The journal hears which node has it."""
        if self.journal is not None:
            entry = self.doubts[position]  # None: not read back since the start
            self.journal.handed_over(self.name, position, size, 0 if entry is None else entry.redeliveries, node)

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        super().put_handed_over(message, redeliveries, redelivered, node)
        if redeliveries or redelivered:
            self.context.write(Count(self.number, self.context.last_position, redeliveries, redelivered))

    # ---- purge ------------------------------------------------------------------------------------------------------

    def purge(self, done: Callable[[int], None]) -> None:
        """Let go of all that is not in flight; what is not in memory goes as it is read back. `done` gets the
        number.
        """
        through = self.context.next_position()
        self.purged = 0 if self.purge_done is None else self.purged
        if self.delayed_count:
            self.purges_delayed = True
            self.delayed.begin_anew()
        if self.returned:
            # there may be very many of them; of all others a window has only so many
            if not self.letting_go:
                self.context.wake(Discarding(self))
            self.letting_go += self.returned
            self.returned = []
        for entry in self.droppable():
            self.let_go(entry)
        self.ready.clear()
        self.purge_through = through
        earlier = self.purge_done

        def both(count: int) -> None:
            done(count)
            if earlier is not None:
                earlier(count)

        self.purge_done = both
        self.go_on_purging()

    def let_go(self, entry: Entry) -> None:
        """One more is purged."""
        if entry.state is State.READY:
            self.left_ready(entry)
        self.purged += 1
        self.discard(entry)

    def go_on_purging(self) -> None:
        """Another stretch, or the end."""
        if self.letting_go:
            return
        if self.beyond and self.window_end < self.purge_through:
            if self.context.open.size < BATCH_BYTES:  # else `committed` goes on
                self.refill()
            return
        if self.purges_delayed:
            self.delayed.ask()
            return
        self.end_purge()

    def end_purge(self) -> None:
        """Who has asked for it is told."""
        self.purge_through = 0
        self.spared.clear()
        done, self.purge_done = self.purge_done, None
        if done is not None:
            done(self.purged)

    def end(self) -> None:
        super().end()
        self.letting_go = []
        self.end_purge()


class Discarding:
    """A chore: what had come back when a purge began goes, some in each turn."""

    __slots__ = ("queue",)

    def __init__(self, queue: DurableQueue) -> None:
        self.queue = queue

    @property
    def is_done(self) -> bool:
        return not self.queue.letting_go

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        queue = self.queue
        for _ in range(min(CHORE_MESSAGES, len(queue.letting_go))):
            queue.context.handled += 1
            queue.let_go(queue.letting_go.pop()[1])
        if self.is_done and queue.purge_through:
            queue.go_on_purging()


def _ascending(heap: list[tuple[int, Entry]]) -> Iterator[tuple[int, Entry]]:
    """What a heap holds, in order, without taking it out; so many as are asked for cost little more than those."""
    next_ones = [(heap[0], 0)] if heap else []
    while next_ones:
        pair, place = heapq.heappop(next_ones)
        yield pair
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                heapq.heappush(next_ones, (heap[below], below))
