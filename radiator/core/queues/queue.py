"""What memory queues and persistent queues have in common: consumers, order, windows, redelivery, expiry, bounds.

A subclass says how a message comes in (`put`), how it leaves (`remove`) and how a redelivery count is kept
(`keep_count`). Everything here runs inside one turn and cannot wait.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING

from radiator.core.connections import MESSAGE_COST_BYTES, Connection, Delivery, Subscription
from radiator.core.journal_writer import node_client
from radiator.core.queues.entry import Entry
from radiator.core.states import Event, State, move
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, CLIENT
from radiator.model.errors import Refusal, count_text
from radiator.model.journal import DROPPED, HANDED_OVER, MOVED, PURGED, CameFrom
from radiator.model.journal import EXPIRED as TOLD_EXPIRED
from radiator.model.limits import CALM_MS, STALE_TIMEOUTS
from radiator.model.message import Message
from radiator.model.replies import Deliver
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, QueueSettings
from radiator.model.writes import Ledger

if TYPE_CHECKING:
    from radiator.core.journal_writer import JournalWriter

# dead-letter-reason
REJECTED, REDELIVERIES, EXPIRED, OVERFLOW = "rejected", "redeliveries", "expired", "overflow"

DeadLetter = Callable[["Queue", Entry, str], None]


class Queue:
    """One queue. `dead_letter` puts a dead letter of this queue where it belongs, in the same batch as its removal.

    calm_after: what has come back so often is kept for CALM_MS first; None: there is no such number. is_timed: whether
    it counts how long its messages take to their first consumer.
    """

    moves: dict[tuple[State, Event], State]
    is_persistent: bool
    is_timed = True
    number = 0  # its name on the disk, where it has one

    __slots__ = (
        "dead_letter", "calm_after", "damaged", "context", "entries_out", "given", "had_consumer", "is_declared",
        "is_gone", "is_waking", "journal", "ledger", "name", "next_due_ms", "on_room", "out_bytes", "ready",
        "redelivered", "reply_id", "reserved", "reserved_bytes", "returned", "ring", "settings", "subscriptions",
        "timeouts", "timeouts_begun", "unused_since_s", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        context: TurnContext,
        dead_letter: DeadLetter,
        on_room: Callable[["Queue"], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.context = context
        self.journal: JournalWriter | None = None  # where what becomes of its messages is told
        self.dead_letter = dead_letter
        self.on_room = on_room
        self.ledger = Ledger()
        self.subscriptions: dict[Subscription, None] = {}
        self.ring: OrderedDict[Subscription, None] = OrderedDict()
        # READY entries, in order: those that never were out, and those that came back
        self.ready: deque[Entry] = deque()
        self.returned: list[tuple[int, Entry]] = []
        # out with consumers; and when to look at those that have an ack timeout: a heap, in which settled ones may be
        self.entries_out: dict[int, Delivery] = {}
        self.out_bytes = 0
        self.timeouts: list[tuple[float, int, Delivery]] = []
        self.timeouts_begun = 0
        # when the first delayed one is due, 0: there is none; is_waking: some are due, and wait for nothing but room
        self.next_due_ms = 0
        self.is_waking = False
        self.unused_since_s = context.now_s
        # room promised to transactions whose persistent part is on its way to the disk
        self.reserved = 0
        self.reserved_bytes = 0
        self.waiters: deque[Connection] = deque()
        self.redelivered = 0
        self.calm_after: int | None = None
        self.damaged = 0
        self.is_declared = False
        self.given = ""  # of its settings, as JSON: what it was declared with at run time
        self.is_gone = False
        self.had_consumer = False
        self.reply_id = ""

    @property
    def address(self) -> str:
        """How it is called in sentences."""
        return f"/queue/{self.name}"

    # ---- what a subclass does ---------------------------------------------------------------------------------------

    def put(self, message: Message, came_from: CameFrom | None = None) -> Entry | None:
        """Accept a message: nothing is judged any more. came_from: what the journal says of where it was before."""
        raise NotImplementedError

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        """Accept what that node hands over: what is known of its deliveries comes along."""
        entry = self.put(message, CameFrom(HANDED_OVER, client=node_client(node), attempt=redeliveries))
        if entry is not None:
            entry.redeliveries, entry.redelivered = redeliveries, redelivered

    def take_in(self, message: Message, due_ms: int) -> None:
        """Accept a message now or, where due_ms is not 0, as a delayed one."""
        if due_ms:
            self.put_delayed(message, due_ms)
        else:
            self.put(message)

    def put_delayed(self, message: Message, due_ms: int) -> None:
        """Accept a message that nobody is given before that time."""
        raise NotImplementedError

    def hold(self, entry: Entry, due_ms: int) -> None:
        """What has come back is DELAYED until then."""
        raise NotImplementedError

    def wake_due(self) -> bool:
        """The first delayed one is due. Whether this must be called again in the next turn."""
        raise NotImplementedError

    def remove(self, entry: Entry, event: Event) -> None:
        """The entry leaves by this event; the ledger's column is the caller's."""
        raise NotImplementedError

    def keep_count(self, entry: Entry) -> None:
        """Its redelivery count has changed."""
        raise NotImplementedError

    def refill(self, is_needed: bool = False) -> None:
        """Fewer entries may be in memory than there are: ask for more where there are.

        is_needed: even where all windows together are over their bound.
        """

    @property
    def ready_count(self) -> int:
        """Messages that a consumer could be given now or after a load."""
        raise NotImplementedError

    # ---- consumers --------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Take it in, without delivering yet (the RECEIPT of its SUBSCRIBE goes first). Raises Refusal `exclusive`."""
        others = self.subscriptions
        # one that is exclusive is alone
        if others and (self.settings.exclusive or subscription.exclusive or next(iter(others)).exclusive):
            raise Refusal("exclusive", f"/queue/{self.name} already has its one exclusive consumer.")
        others[subscription] = None
        if subscription.ack_timeout_s is None:
            subscription.ack_timeout_s = self.settings.ack_timeout_s
        self.had_consumer = self.had_consumer or not subscription.is_getter

    def unsubscribe(self, subscription: Subscription) -> None:
        """No further deliveries to it. What is unacked stays with its connection."""
        self.used()
        subscription.is_over = True
        del self.subscriptions[subscription]
        subscription.connection.forget(subscription)
        if subscription.is_listed:
            del self.ring[subscription]
            subscription.is_listed = False

    def join(self, subscription: Subscription) -> None:
        """It has room: it takes its place at the end of the ring, and what is ready goes out."""
        if not subscription.is_listed:
            subscription.is_listed = True
            self.ring[subscription] = None
        self.pump()

    def pump(self) -> None:
        """Hand out what is ready to those that have room, round robin."""
        ring = self.ring
        while ring:
            if self.returned:
                if self.peek_head() is None:
                    self.refill()
                    return
            elif not self.ready:
                self.refill()
                if not self.ready:
                    return
            subscription = next(iter(ring))
            if subscription.has_room():
                entry = self.take_head()
                if entry is not None:
                    ring.move_to_end(subscription)
                    self.deliver(entry, subscription)
            else:
                del ring[subscription]
                subscription.is_listed = False
                subscription.connection.unlist(subscription)

    def take_head(self) -> Entry | None:
        """The READY entry that `peek_head` has shown, or None if it had expired."""
        returned = self.returned
        if returned and (not self.ready or returned[0][0] < self.ready[0].position):
            entry = heapq.heappop(returned)[1]
        else:
            entry = self.ready.popleft()
        self.left_ready(entry)
        if 0 < entry.message.expires_ms <= self.context.now_ms:
            self.expire(entry)
            return None
        return entry

    def left_ready(self, entry: Entry) -> None:
        """It is no longer among the READY ones in memory."""

    def deliver(self, entry: Entry, subscription: Subscription) -> None:
        """READY -> UNACKED, and a MESSAGE into the outgoing buffer."""
        move(entry, Event.DELIVER, self.moves)
        context = self.context
        if self.is_timed and not entry.redelivered:
            context.deliveries.add(context.now_ms - entry.since_ms)
        connection = subscription.connection
        message_id = context.message_id(entry.position)
        delivery = Delivery(entry, subscription, message_id)
        subscription.in_flight += 1
        is_auto = subscription.ack == AUTO
        if not is_auto:
            connection.unacked[message_id] = delivery
            if subscription.ack == CLIENT:
                subscription.unacked[message_id] = delivery
        if subscription.is_shared:
            connection.shared_in_flight += 1
            connection.last_place = subscription.place
        else:
            connection.last_own_place = subscription.place
        self.entries_out[entry.position] = delivery
        self.out_bytes += entry.size
        if self.journal is not None:
            self.journal.delivered(self.name, entry, subscription)
        if subscription.ack_timeout_s is not None:
            self.begin_timeout(delivery, subscription.ack_timeout_s)
        connection.post(
            context,
            Deliver(
                connection.number,
                subscription.name if subscription.is_named else None,
                message_id,
                entry.message,
                not is_auto,
                entry.redelivered,
                entry.redeliveries,
                is_auto,
            ),
            entry.size,
            delivery if is_auto else None,
        )

    # ---- what becomes of a message that is out ----------------------------------------------------------------------

    def left_out(self, entry: Entry) -> None:
        """It is no longer with a consumer."""
        del self.entries_out[entry.position]
        self.out_bytes -= entry.size

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
            self.kill(entry, Event.GIVE_UP, REDELIVERIES)
        else:
            if delay_ms is None:
                delay_ms = self.redelivery_delay_ms(entry.redeliveries)
            move(entry, Event.DELAY if delay_ms else event, self.moves)
            entry.redeliveries += 1
            entry.redelivered = entry.was_out = True
            self.redelivered += 1
            if delay_ms:
                self.hold(entry, self.context.now_ms + delay_ms)
            else:
                self.keep_count(entry)
                heapq.heappush(self.returned, (entry.position, entry))

    def redelivery_delay_ms(self, redeliveries: int) -> int:
        """How long one is kept that has come back so often before: longer each time, up to a maximum; 0: not at all."""
        settings = self.settings
        least_ms = CALM_MS if self.calm_after is not None and redeliveries >= self.calm_after else 0
        if not settings.redelivery_delay_ms:
            return least_ms
        longest_ms = settings.redelivery_delay_max_ms
        factor = float(settings.redelivery_delay_factor)  # a whole one, to the power of what a node says, would not end
        try:
            return max(least_ms, int(min(longest_ms, settings.redelivery_delay_ms * factor**redeliveries)))
        except OverflowError:
            return max(least_ms, longest_ms)

    def reject(self, delivery: Delivery) -> None:
        """NACK requeue:false: to the dead-letter queue now, or dropped and counted."""
        self.left_out(delivery.entry)
        if self.journal is not None:
            self.journal.given_back(self.name, delivery, Event.NACK, REJECTED)
        self.kill(delivery.entry, Event.GIVE_UP, REJECTED)

    def expire(self, entry: Entry) -> None:
        """Its time is over."""
        self.kill(entry, Event.EXPIRE, EXPIRED)

    def kill(self, entry: Entry, event: Event, reason: str) -> None:
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
                self.journal.tell(TOLD_EXPIRED, self.name, entry)
        else:
            self.count_dropped(entry, reason)
        self.leave(entry, event)

    def count_dropped(self, entry: Entry, reason: str) -> None:
        """It is gone, and no other queue has it."""
        self.ledger.dropped += 1
        self.ledger.dropped_bytes += entry.size
        if self.journal is not None:
            self.journal.tell(DROPPED, self.name, entry, reason)

    def discard(self, entry: Entry, moved_to: str = "") -> None:
        """Out of this queue by the operator's word; moved_to: the queue that the last position given is in."""
        self.ledger.purged += 1
        self.ledger.purged_bytes += entry.size
        if self.journal is not None and moved_to:
            self.journal.tell(MOVED, self.name, entry, other=self.context.last_position, where=moved_to)
        elif self.journal is not None:
            self.journal.tell(PURGED, self.name, entry)
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
            self.on_room(self)

    def enter(self, message: Message, size: int) -> None:
        """The books of an accepted message."""
        ledger = self.ledger
        ledger.accepted += 1
        ledger.accepted_bytes += size
        ledger.stored += 1
        ledger.stored_bytes += size
        if message.expires_ms:
            ledger.stored_expiring += 1

    def head(self) -> Entry | None:
        """The READY entry in memory that is next; it may be a stub."""
        if self.returned and (not self.ready or self.returned[0][0] < self.ready[0].position):
            return self.returned[0][1]
        return self.ready[0] if self.ready else None

    def peek_head(self) -> Entry | None:
        """The same with its bytes, or None where there is none or those must be read back first (`refill`)."""
        return self.head()

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether what becomes of a message that is out by NACK, LOST or OVERDUE, or by GIVE_UP where it is rejected,
        needs bytes that must be read back first.
        """
        return False

    def begin_timeout(self, delivery: Delivery, timeout_s: float) -> None:
        """It is overdue when it has been out for so long from now."""
        delivery.due_s = self.context.now_s + timeout_s
        delivery.parked_s = delivery.subscription.connection.parked_total_s
        if len(self.timeouts) <= 2 * len(self.entries_out) + STALE_TIMEOUTS:
            self.look_at(delivery, delivery.due_s)
            return
        self.timeouts.clear()
        for out in self.entries_out.values():
            if out.due_s:
                self.look_at(out, out.due_s)

    def look_at(self, delivery: Delivery, at_s: float) -> None:
        """It may be overdue then."""
        self.timeouts_begun += 1
        heapq.heappush(self.timeouts, (at_s, self.timeouts_begun, delivery))

    def overdue(self) -> list[Delivery]:
        """Deliveries out for longer than their ack timeout. The clock of a parked connection stands still."""
        late: dict[Delivery, None] = {}
        later: dict[Delivery, float] = {}
        now_s = self.context.now_s
        while self.timeouts and self.timeouts[0][0] <= now_s:
            _, _, delivery = heapq.heappop(self.timeouts)
            if not delivery.is_out:
                continue
            connection = delivery.subscription.connection
            due_s = delivery.due_s + connection.parked_total_s - delivery.parked_s
            if connection.waits_for is not None:
                due_s += now_s - connection.parked_since_s
            # one whose COMMIT is on its way to the disk is not unacked any more
            is_unacked = delivery.subscription.ack == AUTO or delivery.message_id in connection.unacked
            if due_s <= now_s and is_unacked and not connection.is_closing:
                late[delivery] = None
            else:
                later[delivery] = due_s
        for delivery, due_s in later.items():
            self.look_at(delivery, due_s)
        return list(late)

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_room(self, messages: int, size: int) -> bool:
        """Whether so many more messages of so many bytes in all stay within its bounds."""
        settings, ledger = self.settings, self.ledger
        if settings.max_messages is not None and ledger.stored + self.reserved + messages > settings.max_messages:
            return False
        return settings.max_bytes is None or ledger.stored_bytes + self.reserved_bytes + size <= settings.max_bytes

    def check_size(self, size: int) -> None:
        """Raises Refusal `too-large` for a message that could never fit."""
        if self.settings.max_bytes is not None and size > self.settings.max_bytes:
            raise Refusal(
                "too-large",
                f"A message of {size} bytes is larger than max_bytes of /queue/{self.name}, {self.settings.max_bytes}.",
            )

    def judge(self, messages: int, size: int) -> bool:
        """Whether so much may come in now; False: the producer waits (`block`). Raises Refusal `queue-full`."""
        if self.has_room(messages, size):
            return True
        settings = self.settings
        too_many = settings.max_messages is not None and messages > settings.max_messages
        too_large = settings.max_bytes is not None and size > settings.max_bytes
        if settings.overflow == BLOCK and not (too_many or too_large):
            return False
        if settings.overflow in (DROP_OLDEST, DEAD_LETTER) and not (too_many or too_large):
            return self.may_evict(messages, size)
        given = {"max_messages": settings.max_messages, "max_bytes": settings.max_bytes}
        bounds = ", ".join(f"{name} {bound}" for name, bound in given.items() if bound is not None)
        raise Refusal(
            "queue-full",
            f"/queue/{self.name} is full: it holds {count_text(self.ledger.stored, 'message')} of "
            f"{count_text(self.ledger.stored_bytes, 'byte')} "
            f"({bounds}).",
        )

    def may_evict(self, messages: int, size: int) -> bool:
        """Whether dropping the oldest that are not in flight makes room. False: they must be loaded first."""
        settings = self.settings
        out, out_bytes = self.kept()
        if (settings.max_messages is not None and out + self.reserved + messages > settings.max_messages) or (
            settings.max_bytes is not None and out_bytes + self.reserved_bytes + size > settings.max_bytes
        ):
            raise Refusal(
                "queue-full",
                f"/queue/{self.name} is full, and too many of its messages ({out}) are unacked or delayed to drop "
                "the oldest.",
            )
        beyond, beyond_bytes = self.beyond_memory()
        if (settings.max_messages is None or out + beyond + self.reserved + messages <= settings.max_messages) and (
            settings.max_bytes is None or out_bytes + beyond_bytes + self.reserved_bytes + size <= settings.max_bytes
        ):
            return True
        self.refill(is_needed=True)
        return False

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
        """Drop (or dead-letter) the oldest that are not in flight until so much fits. `judge` has said that it can;
        what other queues of the same plan dead-lettered into this one since may be over the bound, as it always may.
        """
        while not self.has_room(messages, size):
            entry = self.oldest()
            if entry is None:
                return
            if self.settings.overflow == DEAD_LETTER:
                self.kill(entry, Event.DROP, OVERFLOW)
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

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        """Entries that are in memory, in flight or not, in no order: of each kind that has an order the first ones, as
        many; as of now, whatever becomes of them before they are asked for.
        """
        ready, returned, out = [*islice(self.ready, most)], [*self.returned], [*self.entries_out.values()]
        return chain(ready, (entry for _, entry in returned), (delivery.entry for delivery in out))

    @property
    def in_memory_count(self) -> int:
        """How many there are in memory, of those."""
        return len(self.ready) + len(self.returned) + len(self.entries_out)

    @property
    def storing_count(self) -> int:
        """Messages on their way to the disk."""
        return 0

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
    def memory_bytes(self) -> int:
        """What its messages cost in memory."""
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

    def used(self) -> None:
        """The time after which an unused queue is deleted begins anew."""
        self.unused_since_s = self.context.now_s

    def has_outlived(self) -> bool:
        """Whether nobody has used it for expires_ms, from the first Tick on that finds it unused: each asks this."""
        if not self.is_idle:
            self.unused_since_s = inf
        elif self.unused_since_s == inf:
            self.used()
        expires_ms = self.settings.expires_ms
        return expires_ms is not None and (self.context.now_s - self.unused_since_s) * 1000 >= expires_ms

    def end(self) -> None:
        """It is gone: it lets go of what is in it, and of what is out, which would hold on to it for ever."""
        self.is_gone = True
        self.ready.clear()
        self.returned.clear()
        self.entries_out.clear()
        self.timeouts.clear()

    @property
    def is_idle(self) -> bool:
        """No consumer, nothing unacked: what auto_delete waits for."""
        return not self.subscriptions and not self.entries_out

    @property
    def is_short_lived(self) -> bool:
        """Made for a reply or two: thousands come and go, and the log does not tell of each."""
        settings = self.settings
        return not self.is_persistent and (settings.auto_delete or settings.expires_ms is not None)


def cost_of(messages: int, size: int) -> int:
    """Memory that so many messages of so many bytes take."""
    return messages * 2 * MESSAGE_COST_BYTES + size
