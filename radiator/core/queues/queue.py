"""What memory queues and persistent queues have in common: redelivery, expiry, dead letters, bounds, the ledger.

A subclass says how a message comes in (`put`), how it leaves (`remove`) and how a redelivery count is kept
(`keep_count`). Everything here runs inside one turn and cannot wait.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from radiator.core.connections import MESSAGE_COST_BYTES, Delivery
from radiator.core.journal_writer import node_client
from radiator.core.queues import bounds
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.entry import Entry
from radiator.core.states import Event, move
from radiator.core.turn import TurnContext
from radiator.model.journal import DROPPED, HANDED_OVER, MOVED, PURGED, CameFrom
from radiator.model.journal import EXPIRED as TOLD_EXPIRED
from radiator.model.limits import CALM_MS
from radiator.model.message import Message
from radiator.model.settings import DEAD_LETTER, QueueSettings

# dead-letter-reason
REJECTED, REDELIVERIES, EXPIRED, OVERFLOW = "rejected", "redeliveries", "expired", "overflow"

DeadLetter = Callable[["Queue", Entry, str], None]


@dataclass(frozen=True, slots=True)
class QueuePorts:
    """What queues ask of the broker. dead_letter: puts a dead letter of a queue where it belongs, in the batch that
    removes it there. unblocked: is told of a queue that may have room for producers that wait.
    """

    context: TurnContext
    dead_letter: DeadLetter
    unblocked: Callable[["Queue"], None]


class Queue(Consumable):
    """One queue.

    calm_after: what has come back so often is kept for CALM_MS first; None: there is no such number. next_due_ms: when
    the first delayed message is due, 0: there is none; has_due: some are due, and wait for nothing but room. given: of
    its settings, as JSON: what it was declared with at run time.
    """

    __slots__ = ("calm_after", "dead_letter", "given", "has_due", "next_due_ms", "redelivered", "reply_id", "unblocked")

    def __init__(self, name: str, settings: QueueSettings, ports: QueuePorts) -> None:
        super().__init__(name, settings, ports.context)
        self.dead_letter = ports.dead_letter
        self.unblocked = ports.unblocked
        self.next_due_ms = 0
        self.has_due = False
        self.redelivered = 0
        self.calm_after: int | None = None
        self.given = ""
        self.reply_id = ""

    @property
    def address(self) -> str:
        return f"/queue/{self.name}"

    # ---- what a subclass does ---------------------------------------------------------------------------------------

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

    def put_delayed(self, message: Message, due_ms: int) -> None:
        """Accept a message that nobody is given before that time."""
        raise NotImplementedError

    def delay(self, entry: Entry, due_ms: int) -> None:
        """What has come back is DELAYED until then."""
        raise NotImplementedError

    def release_due(self) -> bool:
        """The first delayed one is due. Whether this must be called again in the next turn."""
        raise NotImplementedError

    def remove(self, entry: Entry, event: Event) -> None:
        """The entry leaves by this event; the ledger's column is the caller's."""
        raise NotImplementedError

    def keep_count(self, entry: Entry) -> None:
        """Its redelivery count has changed."""
        raise NotImplementedError

    # ---- what becomes of a message that is out ----------------------------------------------------------------------

    def ack(self, delivery: Delivery, event: Event = Event.ACK) -> None:
        """It leaves the queue."""
        entry = delivery.entry
        self.left_out(entry)
        self.ledger.acked += 1
        self.ledger.acked_bytes += entry.size
        # D28: what changes a column of the books is told of beside that, here as in all other places
        if self.journal is not None:
            self.journal.acked(self.name, delivery, event)
        self.leave(entry, event)

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """NACK, LOST or OVERDUE: to its own place, unless it is expired or has come back too often. delay_ms: how long
        it is kept first; None: as the settings say.
        """
        entry = delivery.entry
        self.left_out(entry)
        if self.journal is not None:
            self.journal.given_back(self.name, delivery, event)
        settings = self.settings
        if 0 < entry.message.expires_ms <= self.context.now_ms:
            self.expire(entry)
        elif settings.dead_letter is not None and entry.redeliveries >= settings.max_redeliveries:
            self.discard(entry, Event.GIVE_UP, REDELIVERIES)
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
                heapq.heappush(self.returned, (entry.position, entry))

    def redelivery_delay_ms(self, redeliveries: int) -> int:
        """How long one is kept that has come back so often before; 0: not at all."""
        is_calm = self.calm_after is not None and redeliveries >= self.calm_after
        return max(CALM_MS if is_calm else 0, self.settings.redelivery_delay(redeliveries))

    def reject(self, delivery: Delivery) -> None:
        """NACK requeue:false: to the dead-letter queue now, or dropped and counted."""
        self.left_out(delivery.entry)
        if self.journal is not None:
            self.journal.given_back(self.name, delivery, Event.NACK, REJECTED)
        self.discard(delivery.entry, Event.GIVE_UP, REJECTED)

    def expire(self, entry: Entry) -> None:
        """Its time is over."""
        self.discard(entry, Event.EXPIRE, EXPIRED)

    def discard(self, entry: Entry, event: Event, reason: str) -> None:
        """Out of this queue: into its dead-letter queue in the same batch, or counted as expired or dropped."""
        ledger = self.ledger
        if self.settings.dead_letter is not None:
            ledger.dead_lettered += 1
            ledger.dead_lettered_bytes += entry.size
            self.dead_letter(self, entry, reason)
        elif event is Event.EXPIRE:
            ledger.expired += 1
            ledger.expired_bytes += entry.size
            if self.journal is not None:
                self.journal.write(TOLD_EXPIRED, self.name, entry)
        else:
            self.count_dropped(entry, reason)
        self.leave(entry, event)

    def count_dropped(self, entry: Entry, reason: str) -> None:
        """It is gone, and no other queue has it."""
        self.ledger.dropped += 1
        self.ledger.dropped_bytes += entry.size
        if self.journal is not None:
            self.journal.write(DROPPED, self.name, entry, reason)

    def withdraw(self, entry: Entry, moved_to: str = "") -> None:
        """Out of this queue by the operator's word; moved_to: the queue that the last position given is in."""
        self.ledger.purged += 1
        self.ledger.purged_bytes += entry.size
        if self.journal is not None and moved_to:
            self.journal.write(MOVED, self.name, entry, other=self.context.last_position, where=moved_to)
        elif self.journal is not None:
            self.journal.write(PURGED, self.name, entry)
        self.leave(entry, Event.DROP)

    def leave(self, entry: Entry, event: Event) -> None:
        """The common part of every way out: another column of the ledger has already been raised."""
        ledger = self.ledger
        ledger.stored -= 1
        ledger.stored_bytes -= entry.size
        if entry.message.expires_ms:
            ledger.stored_expiring -= 1
        self.remove(entry, event)
        if self.waiters:
            self.unblocked(self)

    def enter(self, message: Message, size: int) -> None:
        """The books of an accepted message."""
        ledger = self.ledger
        ledger.accepted += 1
        ledger.accepted_bytes += size
        ledger.stored += 1
        ledger.stored_bytes += size
        if message.expires_ms:
            ledger.stored_expiring += 1

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether what becomes of a message that is out by NACK, LOST or OVERDUE, or by GIVE_UP where it is rejected,
        needs bytes that must be read back first.
        """
        return False

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_room(self, messages: int, size: int) -> bool:
        settings, ledger = self.settings, self.ledger
        if settings.max_messages is not None and ledger.stored + self.reserved + messages > settings.max_messages:
            return False
        return settings.max_bytes is None or ledger.stored_bytes + self.reserved_bytes + size <= settings.max_bytes

    def check_size(self, size: int) -> None:
        if self.settings.max_bytes is not None and size > self.settings.max_bytes:
            raise bounds.too_large(self, size)

    def judge(self, messages: int, size: int) -> bool:
        return self.has_room(messages, size) or bounds.judge_full(self, messages, size)

    def may_evict(self, messages: int, size: int) -> bool:
        """Whether dropping the oldest that are not in flight makes room. False: they must be read back first."""
        return bounds.may_evict(self, messages, size)

    def tell_unblocked(self) -> None:
        """There may be room for producers that wait."""
        if self.waiters:
            self.unblocked(self)

    def kept(self) -> tuple[int, int]:
        """Messages that may not be dropped, since they are in flight, in doubt or delayed, and their bytes."""
        ledger = self.ledger
        return len(self.entries_out) + ledger.stored_delayed, self.out_bytes + ledger.stored_delayed_bytes

    def beyond_memory(self) -> tuple[int, int]:
        """Messages that are stored and not in memory, and their bytes: they are dropped only once they are loaded."""
        return 0, 0

    def droppable(self) -> list[Entry]:
        """Entries in memory that are not in flight, oldest first."""
        return sorted([*self.ready, *(entry for _, entry in self.returned)], key=lambda entry: entry.position)

    def evict(self, messages: int, size: int) -> None:
        """Drop (or dead-letter) the oldest that are not in flight. What other queues of the same plan dead-lettered
        into this one since `judge` may be over the bound, as it always may.
        """
        while not self.has_room(messages, size):
            entry = self.oldest()
            if entry is None:
                return
            if self.settings.overflow == DEAD_LETTER:
                self.discard(entry, Event.DROP, OVERFLOW)
            else:
                self.count_dropped(entry, OVERFLOW)
                self.leave(entry, Event.DROP)

    def oldest(self) -> Entry | None:
        """Take out the oldest entry in memory that is not in flight, if there is one."""
        if self.returned and (not self.ready or self.returned[0][0] < self.ready[0].position):
            entry = heapq.heappop(self.returned)[1]
        else:
            entry = self.ready.popleft()
        self.left_ready(entry)
        return entry

    @property
    def delayed_count(self) -> int:
        """Messages that wait for their time."""
        return self.ledger.stored_delayed

    @property
    def doubt_count(self) -> int:
        """Messages offered to another node, which has not said yet that it has them."""
        return 0

    @property
    def aside_count(self) -> int:
        """Messages that no link can carry: they wait for consumers here."""
        return 0

    @property
    def oldest_ms(self) -> int | None:
        """The age in milliseconds of the oldest message that is READY; None where there is none, or it is not known
        yet: then it is being read back.
        """
        head = self.head()
        return None if head is None else max(0, self.context.now_ms - head.message.accepted_ms)

    def tell_oldest(self, done: Callable[[int | None], None]) -> None:
        """`done` gets the age in milliseconds of the oldest message that is READY, or None."""
        done(self.oldest_ms)

    def has_outlived(self) -> bool:
        """Whether nobody has used it for expires_ms, from the first Tick on that finds it unused: each asks this."""
        if not self.is_idle:
            self.unused_since_s = inf
        elif self.unused_since_s == inf:
            self.used()
        expires_ms = self.settings.expires_ms
        return expires_ms is not None and (self.context.now_s - self.unused_since_s) * 1000 >= expires_ms

    @property
    def is_short_lived(self) -> bool:
        """Made for a reply or two: thousands come and go, and the log does not tell of each."""
        settings = self.settings
        return not self.is_persistent and (settings.auto_delete or settings.expires_ms is not None)


def cost_of(messages: int, size: int) -> int:
    """Memory that so many messages of so many bytes take."""
    return messages * 2 * MESSAGE_COST_BYTES + size
