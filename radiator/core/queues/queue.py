"""What memory queues and persistent queues have in common: redelivery, expiry, dead letters, bounds, the ledger.

A subclass defines how a message comes in (`put`), how it leaves (`remove`) and how a redelivery count is kept
(`keep_count`). Everything here runs inside one turn and cannot wait.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from math import inf

from radiator.core.connections import Delivery, Subscription
from radiator.core.journal_writer import JournalWriter, node_client
from radiator.core.producer import Producer
from radiator.core.queues import bounds, evicting
from radiator.core.queues.capacity import LOOKED_AT, have_capacity
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.dedup import Dedup
from radiator.core.queues.due_soon import NEVER_MS
from radiator.core.queues.entry import Entry
from radiator.core.queues.registered import NamedConsumers
from radiator.core.states import Event, move
from radiator.core.turn import TurnContext
from radiator.core.usage import Usage
from radiator.model.journal import DROPPED, HANDED_OVER, MOVED, PURGED, CameFrom
from radiator.model.journal import EXPIRED as JOURNAL_EXPIRED
from radiator.model.limits import CALM_MS
from radiator.model.message import Message
from radiator.model.reads import Loaded
from radiator.model.settings import READY, QueueSettings
from radiator.model.writes import Ledger

REJECTED, REDELIVERIES, EXPIRED, OVERFLOW = "rejected", "redeliveries", "expired", bounds.OVERFLOW  # dead-letter-reason

DeadLetter = Callable[["Queue", Entry, str], None]


@dataclass(frozen=True, slots=True)
class QueuePorts:
    """What queues use of the broker. dead_letter: puts a queue's message where its dead letters go, in the batch that
    removes it from the queue, and counts it. unblocked: gets each queue that may have room for waiting producers.
    """

    context: TurnContext
    dead_letter: DeadLetter
    unblocked: Callable[["Queue"], None]


class Queue(Consumable):
    """One queue: a Target, and a Consumable. This class has no dedup-ids, and no number on the disk.

    calm_after: a message returned at least so often is delayed for CALM_MS before it is ready again; None: none is.
    next_due_ms: when the first delayed message is due, 0: there is none; has_due: some are due, and wait only for room.
    given: the settings that it was declared with at run time, as JSON. made_in: the number of the batch that stores its
    existence; 0: none, or one of an earlier start. maker: the user that made it. named: its consumers that have names;
    None: it never had one. due_soon_ms, is_expiring: see TimedQueue. is_evicting: see BoundedQueue.
    """

    dedup: Dedup | None = None
    has_lanes = False  # True: READY messages are in lanes, and `ready` and `returned` stay empty

    __slots__ = (
        "calm_after", "damaged", "dead_letter", "due_soon_ms", "given", "has_due", "is_declared", "is_evicting",
        "is_expiring", "journal", "keeps_nothing", "ledger", "made_in", "maker", "named", "next_due_ms", "redelivered",
        "reply_id", "reserved", "reserved_bytes", "unblocked", "unused_since_s", "waiters",
    )  # fmt: skip

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports.context)
        self.journal: JournalWriter | None = None
        self.ledger = Ledger()
        self.waiters: deque[Producer] = deque()
        self.reserved = self.reserved_bytes = 0
        self.is_declared = self.has_due = self.is_expiring = self.is_evicting = False
        self.due_soon_ms = NEVER_MS
        self.unused_since_s = ports.context.now_s
        self.dead_letter, self.unblocked = ports.dead_letter, ports.unblocked
        self.next_due_ms = self.redelivered = self.damaged = self.made_in = 0
        self.calm_after: int | None = None
        self.keeps_nothing = settings.keeps_nothing
        self.maker: Usage | None = None
        self.named: NamedConsumers | None = None
        self.given = self.reply_id = ""

    @property
    def address(self) -> str:
        return f"/queue/{self.name}"

    # ---- what a subclass does ---------------------------------------------------------------------------------------

    def refill(self, is_needed: bool = False) -> None:
        """Asks for the next messages to be read back, if not all are in memory. is_needed: even if all windows
        together are over their bound.
        """

    @property
    def ready_count(self) -> int:
        """The number of messages that a consumer could be given now or after a read."""
        raise NotImplementedError

    @property
    def is_exhausted(self) -> bool:
        """Whether no message can be taken out, now or after a read: those that are left must wait."""
        return self.ready_count == 0

    @property
    def storing_count(self) -> int:
        """The number of messages whose batch is not committed yet."""
        return 0

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        raise NotImplementedError

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        entry = self.put(message, CameFrom(HANDED_OVER, client=node_client(node), attempt=redeliveries))
        if entry is not None:
            entry.redeliveries, entry.redelivered = redeliveries, redelivered

    def take_in(self, message: Message, due_ms: int) -> None:
        if due_ms:
            self.put_delayed(message, due_ms)
        else:
            self.put(message)

    def last_id(self) -> bytes:
        return self.context.message_id(self.context.last_position)

    def put_delayed(self, message: Message, due_ms: int) -> None:
        """Accepts a message that must not be delivered before that time."""
        raise NotImplementedError

    def delay(self, entry: Entry, due_ms: int) -> None:
        """Delays a returned message until that time."""
        raise NotImplementedError

    def release_due(self) -> bool:
        """Called when the first delayed message is due. Returns whether it must be called again in the next turn."""
        raise NotImplementedError

    def remove(self, entry: Entry, event: Event) -> None:
        """Removes the entry, moving it by this event; the caller has already counted it in the ledger."""
        raise NotImplementedError

    def keep_count(self, entry: Entry) -> None:
        """Called when an entry's redelivery count has changed."""
        raise NotImplementedError

    def use(self, settings: QueueSettings) -> None:
        """Puts these settings into force."""
        self.settings = settings
        self.keeps_nothing = settings.keeps_nothing

    # ---- consumers --------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        if subscription.consumer_name:
            self.named = self.named or NamedConsumers(self)
            self.named.joined(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        self.used()
        super().unsubscribe(subscription)
        if self.named is not None and subscription.consumer_name:
            self.named.left(subscription)

    def hold_consumer(self, subscription: Subscription) -> None:
        """Called when a consumer is held: it gets nothing until it is released."""

    def release_consumer(self, subscription: Subscription) -> None:
        """Called when a held consumer may be given messages again."""

    def forget_consumer(self, name: str) -> None:
        """Called when a consumer that is held, or has left, is no longer waited for."""

    # ---- out --------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Delivers to the consumers that have room: round robin, or as `order` says."""
        if self.order is not None:
            self.order.pump()
            self.watch_head()
            return
        ring = self.ring
        while ring:
            if self.returned or self.has_lanes:
                if self.peek_head() is None:
                    self.refill()
                    break
            elif not self.ready:
                self.refill()
                if not self.ready:
                    break
            subscription = next(iter(ring))
            if subscription.can_take():
                entry = self.take_head()
                if entry is not None:
                    ring.move_to_end(subscription)
                    self.deliver(entry, subscription)
            else:
                del ring[subscription]
                subscription.is_listed = False
                subscription.connection.unlist(subscription)
        if self.ledger.stored_expiring:
            self.watch_head()

    def watch_head(self) -> None:
        if self.ledger.stored_expiring:
            self.context.due_soon.watch_head(self, self.context.now_ms)

    def take_head(self) -> Entry | None:
        """Takes the READY entry that `peek_head` has shown; None: it has expired."""
        returned = self.returned
        if returned and (not self.ready or returned[0][0] < self.ready[0].position):
            entry = heapq.heappop(returned)[1]
        else:
            entry = self.ready.popleft()
        self.left_ready(entry)
        if 0 < entry.message.expires_ms <= self.context.now_ms and entry.is_over:
            self.expire(entry)
            return None
        return entry

    def left_ready(self, entry: Entry) -> None:
        """Called when an entry is no longer among the READY ones in memory."""

    def can_hand(self, count: int) -> bool:
        """Whether consumers have room for that many more messages, besides all that already wait for them."""
        return have_capacity(self.subscriptions, self.ready_count + self.storing_count + self.reserved + count)

    # ---- what is in memory ---

    def head(self) -> Entry | None:
        """Returns the READY entry in memory that is next; it may be a stub."""
        if self.returned and (not self.ready or self.returned[0][0] < self.ready[0].position):
            return self.returned[0][1]
        return self.ready[0] if self.ready else None

    def peek_head(self) -> Entry | None:
        """Returns the next entry with its bytes; None: there is none, or it must be read back first (`refill`)."""
        return self.head()

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        """Returns the entries in memory, in flight or not, in no order. most: of each ordered part, only the first so
        many. This is a snapshot: what happens to the queue during the iteration does not change it.
        """
        ready, returned, out = [*islice(self.ready, most)], [*self.returned], [*self.entries_out.values()]
        return chain(ready, (entry for _, entry in returned), (delivery.entry for delivery in out))

    @property
    def in_memory_count(self) -> int:
        """The number of messages in memory, including those at consumers."""
        return len(self.ready) + len(self.returned) + len(self.entries_out)

    # ---- what becomes of a message that is out ----------------------------------------------------------------------

    def ack(self, delivery: Delivery, event: Event = Event.ACK) -> None:
        """Removes the message: it has been acked."""
        entry = delivery.entry
        self.left_out(entry)
        self.ledger.acked += 1
        self.ledger.acked_bytes += entry.size
        # D28: each change of a ledger column is journaled next to that change, here as everywhere else
        if self.journal is not None:
            self.journal.acked(self.name, delivery, event)
        self.leave(entry, event)

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """Handles NACK, LOST, OVERDUE: puts the message back at its own place, unless it has expired or come back too
        often. delay_ms: how long to delay it first; None: as the settings say. UNUSED: puts it back without counting.
        """
        entry = delivery.entry
        self.left_out(entry)
        if self.journal is not None:
            self.journal.given_back(self.name, delivery, event)
        if event is Event.UNUSED:
            self.put_back(entry)
            return
        settings = self.settings
        if 0 < entry.message.expires_ms <= self.context.now_ms:
            self.expire(entry)
        elif entry.redeliveries >= settings.redeliveries_most:
            self.discard(entry, Event.GIVE_UP, REDELIVERIES)
        elif self.keeps_nothing:
            bounds.push_out(self, entry, Event.GIVE_UP)
        else:
            if delay_ms is None:
                delay_ms = self.redelivery_delay_ms(entry.redeliveries)
            move(entry, Event.DELAY if delay_ms else event, self.moves)
            entry.redeliveries += 1
            entry.redelivered = entry.was_out = True
            self.redelivered += 1
            if delay_ms:
                self.delay(entry, self.context.now_ms + delay_ms)
            else:
                self.keep_count(entry)
                self.to_place(entry)
                evicting.came_back(self)

    def put_back(self, entry: Entry) -> None:
        """Puts the entry back at its own place, with its count unchanged. If it has expired, that is noticed later."""
        move(entry, Event.UNUSED, self.moves)
        entry.redelivered = entry.was_out = True
        self.keep_count(entry)
        self.to_place(entry)
        if self.keeps_nothing:
            self.context.passing.append((self, entry))  # another consumer may get it, in this turn
        else:
            evicting.came_back(self)

    def to_place(self, entry: Entry) -> None:
        """Puts a READY entry at its own place, in memory."""
        heapq.heappush(self.returned, (entry.position, entry))

    def redelivery_delay_ms(self, redeliveries: int) -> int:
        """Returns how long to delay a message that has been redelivered that often; 0: not at all."""
        is_calm = self.calm_after is not None and redeliveries >= self.calm_after
        return max(CALM_MS if is_calm else 0, self.settings.redelivery_delay(redeliveries))

    def reject(self, delivery: Delivery) -> None:
        """Handles a NACK with requeue:false: makes the message a dead letter now, or drops and counts it."""
        self.left_out(delivery.entry)
        if self.journal is not None:
            self.journal.given_back(self.name, delivery, Event.NACK, REJECTED)
        self.discard(delivery.entry, Event.GIVE_UP, REJECTED)

    def expire(self, entry: Entry) -> None:
        """Removes a message whose time to live is over."""
        self.discard(entry, Event.EXPIRE, EXPIRED)

    def discard(self, entry: Entry, event: Event, reason: str) -> None:
        """Removes the entry, and makes it a dead letter in the same batch, or counts it as expired or dropped."""
        ledger = self.ledger
        if self.settings.has_dead_letters:
            self.dead_letter(self, entry, reason)
        elif event is Event.EXPIRE:
            ledger.expired += 1
            ledger.expired_bytes += entry.size
            if self.journal is not None:
                self.journal.write(JOURNAL_EXPIRED, self.name, entry)
        else:
            self.count_dropped(entry, reason)
        self.leave(entry, event)

    def count_dropped(self, entry: Entry, reason: str) -> None:
        """Counts the entry as dropped: no other queue has it."""
        self.ledger.dropped += 1
        self.ledger.dropped_bytes += entry.size
        if self.journal is not None:
            self.journal.write(DROPPED, self.name, entry, reason)

    def withdraw(self, entry: Entry, moved_to: str = "") -> None:
        """Removes it by an operator's command. moved_to: the queue to which it was just moved, at `last_position`."""
        self.ledger.purged += 1
        self.ledger.purged_bytes += entry.size
        if self.journal is not None and moved_to:
            self.journal.write(MOVED, self.name, entry, other=self.context.last_position, where=moved_to)
        elif self.journal is not None:
            self.journal.write(PURGED, self.name, entry)
        self.leave(entry, Event.DROP)

    def leave(self, entry: Entry, event: Event) -> None:
        """Takes the entry out of the ledger's `stored` and removes it. The caller has already counted where it goes."""
        ledger = self.ledger
        ledger.stored -= 1
        ledger.stored_bytes -= entry.size
        if entry.message.expires_ms:
            ledger.stored_expiring -= 1
        self.remove(entry, event)
        if self.waiters:
            self.unblocked(self)

    # ---- what is only on the disk -----------------------------------------------------------------------------------

    def read_beyond(self, count: int, answer: Callable[[Loaded], None]) -> None:
        """Asks for that many messages beyond those in memory; if there are none, `answer` is called at once."""
        answer(Loaded(0))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def empty(self, done: Callable[[int], None]) -> None:
        """Removes everything that is not in flight, in slices. `done` gets the number of messages."""
        raise NotImplementedError

    def delete(self) -> None:
        """Deletes the queue: nobody can find it any more, and what it stored is removed in slices."""
        self.end()

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_capacity(self, messages: int, size: int) -> bool:
        settings, ledger = self.settings, self.ledger
        held, held_bytes = ledger.stored + self.reserved + messages, ledger.stored_bytes + self.reserved_bytes + size
        if settings.bounds_count == READY:
            held, held_bytes = held - len(self.entries_out), held_bytes - self.out_bytes
        is_light = settings.max_bytes is None or held_bytes <= settings.max_bytes
        if is_light and (settings.max_messages is None or held <= settings.max_messages):
            return True
        return settings.bounds_count == READY and self.goes_out(messages, is_light=is_light)

    def goes_out(self, messages: int, *, is_light: bool) -> bool:
        """Whether consumers have room for what exceeds the bounds, so that it is unacked as soon as it is READY.
        is_light: only max_messages is exceeded, so messages within it may stay. Never if delayed messages take all
        the room, nor in a partitioned queue, where it depends on keys.
        """
        settings, ledger = self.settings, self.ledger
        free = inf if settings.max_messages is None else settings.max_messages - ledger.stored_delayed
        free_bytes = inf if settings.max_bytes is None else settings.max_bytes - ledger.stored_delayed_bytes
        if free <= 0 or free_bytes <= 0 or settings.partition_key or not (self.ring or self.order):
            return False
        wanted = self.ready_count + self.storing_count + self.reserved + messages - (free if is_light else 0)
        return have_capacity(islice(self.subscriptions if self.order else self.ring, LOOKED_AT), wanted)

    def uncounted(self) -> tuple[int, int]:
        return (len(self.entries_out), self.out_bytes) if self.settings.bounds_count == READY else (0, 0)

    def check_size(self, size: int) -> None:
        if self.settings.max_bytes is not None and size > self.settings.max_bytes and not self.keeps_nothing:
            raise bounds.too_large(self, size)

    def judge(self, messages: int, size: int) -> bool:
        return self.has_capacity(messages, size) or bounds.judge_full(self, messages, size)

    def may_evict(self, messages: int, size: int) -> bool:
        """Whether dropping the oldest that are not in flight makes room. False: they must be read back first."""
        return evicting.may_evict(self, messages, size)

    def unblock_waiters(self) -> None:
        """Called when there may be room for waiting producers."""
        if self.waiters:
            self.unblocked(self)

    def kept(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that may not be dropped: those in flight, in doubt or delayed."""
        ledger = self.ledger
        return len(self.entries_out) + ledger.stored_delayed, self.out_bytes + ledger.stored_delayed_bytes

    def beyond_memory(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that must be read back before they can be dropped."""
        return 0, 0

    def must_read_oldest(self) -> bool:
        return False

    def droppable(self) -> list[Entry]:
        """Entries in memory that are not in flight, oldest first."""
        return sorted([*self.ready, *(entry for _, entry in self.returned)], key=lambda entry: entry.position)

    def evict(self, messages: int, size: int) -> None:
        """Drops (or dead-letters) the oldest messages that are not in flight (evicting.py)."""
        evicting.evict(self, messages, size)

    def came_in(self) -> None:
        """Called when more messages may be ready at once than there is room for."""
        evicting.came_in(self)

    def oldest(self) -> Entry | None:
        """Takes out the oldest entry in memory that is not in flight; None: there is none."""
        if not (self.ready or self.returned):
            return None
        has_come_back = self.returned and (not self.ready or self.returned[0][0] < self.ready[0].position)
        entry = heapq.heappop(self.returned)[1] if has_come_back else self.ready.popleft()
        self.left_ready(entry)
        return entry

    @property
    def delayed_count(self) -> int:
        """The number of delayed messages."""
        return self.ledger.stored_delayed

    @property
    def doubt_count(self) -> int:
        """The number of messages offered to another node that has not yet confirmed them."""
        return 0

    @property
    def aside_count(self) -> int:
        """The number of messages that no link can carry: they wait for consumers of this node."""
        return 0

    @property
    def oldest_ms(self) -> int | None:
        """The age in milliseconds of the oldest READY message; None: there is none, or it is being read back."""
        head = self.head()
        return None if head is None else max(0, self.context.now_ms - head.message.accepted_ms)

    def read_oldest_age(self, done: Callable[[int | None], None]) -> None:
        """Calls `done` with the age in milliseconds of the oldest READY message, or None."""
        done(self.oldest_ms)

    def used(self) -> None:
        """Called when the queue is used: its time to expire (expires_ms) starts again."""
        self.unused_since_s = self.context.now_s

    @property
    def is_short_lived(self) -> bool:
        """Whether it was made for a reply or two: thousands of these come and go, so they are not logged one by one."""
        return not self.is_persistent and (self.settings.auto_delete or self.settings.expires_ms is not None)
