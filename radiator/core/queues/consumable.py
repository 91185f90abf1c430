"""What consumers can be given messages from, in order: whose turn it is, what is out with whom, and for how long.

A consumer of a queue, or of a log, is a subscription with a window (connections.py). Everything here runs inside one
turn and cannot wait.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain, islice

from radiator.core.connections import Connection, Delivery, Subscription
from radiator.core.queues.entry import Entry
from radiator.core.queues.target import Target
from radiator.core.queues.timeouts import AckTimeouts
from radiator.core.states import Event, State, move
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, CLIENT
from radiator.model.errors import Refusal
from radiator.model.replies import Deliver, RecordPlace
from radiator.model.settings import QueueSettings

_DELIVER = Event.DELIVER  # each delivery needs it, and to look it up in its Enum costs as much as a call


class Consumable(Target):
    """ready, returned: READY entries, in order: those that never were out, and those that came back, a heap. ring:
    subscriptions that may get the next one. entries_out: what is out with consumers, by position; out_bytes: its bytes.
    is_timed: whether it counts how long its messages take to their first consumer.
    """

    moves: dict[tuple[State, Event], State]
    is_timed = True

    __slots__ = (
        "entries_out", "had_consumer", "out_bytes", "ready", "returned", "ring", "subscriptions", "timeouts",
        "unused_since_s",
    )  # fmt: skip

    def __init__(self, name: str, settings: QueueSettings, context: TurnContext) -> None:
        super().__init__(name, settings, context)
        self.subscriptions: dict[Subscription, None] = {}
        self.ring: OrderedDict[Subscription, None] = OrderedDict()
        self.ready: deque[Entry] = deque()
        self.returned: list[tuple[int, Entry]] = []
        self.entries_out: dict[int, Delivery] = {}
        self.out_bytes = 0
        self.timeouts: AckTimeouts | None = None
        self.unused_since_s = context.now_s
        self.had_consumer = False

    # ---- what a subclass does ---------------------------------------------------------------------------------------

    def expire(self, entry: Entry) -> None:
        """Its time is over."""
        raise NotImplementedError

    def refill(self, is_needed: bool = False) -> None:
        """Fewer entries may be in memory than there are: ask for more where there are.

        is_needed: even where all windows together are over their bound.
        """

    @property
    def ready_count(self) -> int:
        """Messages that a consumer could be given now or after a load."""
        raise NotImplementedError

    @property
    def storing_count(self) -> int:
        """Messages whose batch is being committed."""
        return 0

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
        """Round robin, to those that have room."""
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

    def deliver(self, entry: Entry, subscription: Subscription, log: RecordPlace | None = None) -> None:
        """READY -> UNACKED, and a MESSAGE into the outgoing buffer. log: where it lies, if it is a log's."""
        move(entry, _DELIVER, self.moves)
        context = self.context
        if self.is_timed and not entry.redelivered:
            # written out: each message comes here, and most took as long as the one before
            since_ms = entry.message.accepted_ms if type(entry) is Entry else entry.since_ms
            took_ms, deliveries = context.now_ms - since_ms, context.deliveries
            if took_ms == deliveries.last_ms:
                deliveries.repeats += 1
            else:
                deliveries.add(took_ms)
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
                False,
                log,
            ),
            entry.size,
            delivery if is_auto else None,
        )

    def can_hand(self, count: int) -> bool:
        """Whether consumers have room for so many more, beside all that is there for them already."""
        wanted = self.ready_count + self.storing_count + self.reserved + count
        sharing: set[Connection] = set()
        for subscription in self.subscriptions:
            if not subscription.has_room():
                continue
            if not subscription.is_shared and (subscription.ack == AUTO or subscription.prefetch_count is None):
                return True
            connection = subscription.connection
            if not subscription.is_shared:
                wanted -= (subscription.prefetch_count or 0) - subscription.in_flight
            elif connection not in sharing:
                sharing.add(connection)
                wanted -= connection.shared_window - connection.shared_in_flight
            if wanted <= 0:
                return True
        return False

    def left_out(self, entry: Entry) -> None:
        """It is no longer with a consumer."""
        del self.entries_out[entry.position]
        self.out_bytes -= entry.size

    def begin_timeout(self, delivery: Delivery, timeout_s: float) -> None:
        """It is overdue when it has been out for so long from now."""
        if self.timeouts is None:
            self.timeouts = AckTimeouts(self.context, self.entries_out)
        self.timeouts.begin(delivery, timeout_s)

    def overdue(self) -> list[Delivery]:
        """Deliveries out for longer than their ack timeout."""
        return self.timeouts.overdue() if self.timeouts is not None else []

    # ---- what is in memory ---

    def head(self) -> Entry | None:
        """The READY entry in memory that is next; it may be a stub."""
        if self.returned and (not self.ready or self.returned[0][0] < self.ready[0].position):
            return self.returned[0][1]
        return self.ready[0] if self.ready else None

    def peek_head(self) -> Entry | None:
        """The same with its bytes, or None where there is none or those must be read back first (`refill`)."""
        return self.head()

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

    # ---- its life ---

    def used(self) -> None:
        """The time after which an unused queue is deleted begins anew."""
        self.unused_since_s = self.context.now_s

    def end(self) -> None:
        """It is gone: it lets go of what is in it, and of what is out, which would hold on to it for ever."""
        self.is_gone = True
        self.ready.clear()
        self.returned.clear()
        self.entries_out.clear()
        self.timeouts = None

    @property
    def is_idle(self) -> bool:
        """No consumer, nothing unacked: what auto_delete waits for."""
        return not self.subscriptions and not self.entries_out
