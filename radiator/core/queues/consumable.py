"""Delivers messages to consumers, in order: which message is next, what each consumer has unacked, and for how long.

A consumer of a queue, or of a log, is a subscription with a window (connections.py). Everything here runs inside one
turn and cannot wait.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from radiator.core.connections import Delivery, Subscription
from radiator.core.journal_writer import JournalWriter
from radiator.core.queues.consumer_order import ConsumerOrder
from radiator.core.queues.consumer_ranks import ConsumerRanks
from radiator.core.queues.entry import Entry
from radiator.core.queues.finding import Finder
from radiator.core.queues.picking import Picker
from radiator.core.queues.single_consumer import SingleConsumer
from radiator.core.queues.timeouts import AckTimeouts
from radiator.core.queues.unsendable import Unsendable, fits, refuse
from radiator.core.states import Event, State, move
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, CLIENT
from radiator.model.errors import Refusal
from radiator.model.grounds import InExclusiveUse
from radiator.model.message import Message
from radiator.model.reads import Loaded
from radiator.model.replies import Deliver, RecordPlace
from radiator.model.settings import QueueSettings

_DELIVER = Event.DELIVER  # each delivery needs it, and looking it up in its Enum costs as much as a call


class Consumable:
    """What a subscription consumes: a queue, or its reader of a log. A subclass decides what is delivered (`pump`), and
    how it is settled (`ack`, `give_back`, `reject`).

    ready, returned: READY entries, in order: those that were never out, and a heap of those that came back. ring:
    subscriptions that may get the next one. entries_out: the unacked deliveries, by position; out_bytes: their bytes.
    is_timed: whether it measures how long messages wait for their first delivery. can_delay: whether a returned message
    may be delayed. order: decides which consumer is next; None: round robin. unsendable: the last message that could
    not be sent to its consumer. lets_go: the last consumer that left used AMQP, where an auto_delete queue goes with
    its last consumer, whatever is unacked.
    """

    moves: dict[tuple[State, Event], State]
    journal: JournalWriter | None
    is_persistent: bool
    is_timed = True
    can_delay = True
    number = 0  # identifies it on the disk; 0: it is not there

    __slots__ = (
        "context", "entries_out", "had_consumer", "is_gone", "lets_go", "name", "order", "out_bytes", "ready",
        "returned", "ring", "settings", "subscriptions", "timeouts", "unsendable",
    )  # fmt: skip

    def __init__(self, name: str, settings: QueueSettings, context: TurnContext) -> None:
        self.name = name
        self.settings = settings
        self.context = context
        self.is_gone = False
        self.subscriptions: dict[Subscription, None] = {}
        self.ring: OrderedDict[Subscription, None] = OrderedDict()
        self.ready: deque[Entry] = deque()
        self.returned: list[tuple[int, Entry]] = []
        self.entries_out: dict[int, Delivery] = {}
        self.out_bytes = 0
        self.timeouts: AckTimeouts | None = None
        self.had_consumer = self.lets_go = False
        self.order: ConsumerOrder | None = None
        self.unsendable: Unsendable | None = None

    # ---- what a subclass does ---------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The queue's name, as messages to people show it."""
        raise NotImplementedError

    @property
    def memory_bytes(self) -> int:
        """The memory, in bytes, of messages that are stored nowhere else."""
        return 0

    @property
    def held_keys_bytes(self) -> int:
        """The memory, in bytes, of the keys that delayed messages on the disk hold."""
        return 0

    def pump(self) -> None:
        """Delivers what is ready to the consumers that have room."""
        raise NotImplementedError

    def peek_head(self) -> Entry | None:
        """Returns a queue's next entry with its bytes; None: there is none, or it must be read back (`refill`)."""
        raise NotImplementedError

    def refill(self, is_needed: bool = False) -> None:
        """Asks for a queue's next messages to be read back."""

    def take_head(self) -> Entry | None:
        """Takes the READY entry that `peek_head` of a queue has shown; None: it has expired."""
        raise NotImplementedError

    def observe(self, observer: Callable[[], None]) -> None:
        """Adds an observer, which is called after each `pump`; never, if all messages are in memory."""

    def ignore(self, observer: Callable[[], None]) -> None:
        """Removes an observer."""

    def ack(self, delivery: Delivery, event: Event = Event.ACK) -> None:
        """Removes the message: it has been processed."""
        raise NotImplementedError

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """Makes the message ready again: after a NACK, a lost connection or an ack timeout."""
        raise NotImplementedError

    def reject(self, delivery: Delivery) -> None:
        """Handles a NACK with requeue:false: the message is not delivered from here again."""
        raise NotImplementedError

    def goes_elsewhere(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether this event stores the message again: as a dead letter, or as a delayed message."""
        return False

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None:
        """Asks for the messages at these places, in ascending order, to be read back."""
        answer(Loaded(0))

    def picker(self, through: int, positions: Sequence[int] | None) -> Picker:
        """Returns what picks messages out of a queue: those up to `through`, or those at `positions`, ascending."""
        raise NotImplementedError

    def finder(self) -> Finder:
        """Returns what finds one message of a queue, in whatever state it is."""
        raise NotImplementedError

    def out_read(self, delivery: Delivery, found: dict[int, Message | None]) -> None:
        """Called with what was read back for a delivery whose bytes are not in memory. Raises StoreError."""

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether the bytes of an unacked message must be read back before NACK, LOST, OVERDUE, or GIVE_UP (a reject)
        can be carried out.
        """
        return False

    # ---- consumers --------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Adds a consumer, without delivering to it yet: the RECEIPT of its SUBSCRIBE goes first. Raises Refusal
        `exclusive`, or `bad-request` for a priority in a queue whose consumers have none.
        """
        others = self.subscriptions
        order = self.order_for(subscription)
        if order is not None:
            order.check(subscription)
        if others and (self.settings.exclusive or subscription.exclusive or next(iter(others)).exclusive):
            self._check_alone(subscription)
        others[subscription] = None
        self.order = order
        if order is not None:
            order.joined(subscription)
        if subscription.ack_timeout_s is None:
            subscription.ack_timeout_s = self.settings.ack_timeout_s
        self.had_consumer = self.had_consumer or not subscription.is_getter

    def _check_alone(self, subscription: Subscription) -> None:
        """Raises Refusal `exclusive` if there is a consumer, unless this is a Get on its connection. Gets come last."""
        others = self.subscriptions
        first = next((one for one in others if not one.is_get), None)
        is_own_get = subscription.is_get and first is not None and first.connection is subscription.connection
        if first is not None and not is_own_get:
            raise Refusal.on(InExclusiveUse(self.name))
        if not subscription.is_get:
            gets = [*others]
            others.clear()
            others[subscription] = None
            others.update(dict.fromkeys(gets))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Removes a consumer: nothing more is delivered to it. What is unacked stays with its connection."""
        subscription.is_over = True
        if not subscription.is_getter:
            self.lets_go = subscription.reports_end
        del self.subscriptions[subscription]
        subscription.connection.forget(subscription)
        if subscription.is_listed:
            del self.ring[subscription]
            subscription.is_listed = False
        if self.order is not None:
            self.order.left(subscription)

    def order_for(self, subscription: Subscription) -> ConsumerOrder | None:
        """Returns the order of consumers once this one has subscribed; None: round robin. Raises Refusal."""
        order = self.order
        if not self.subscriptions:
            if self.settings.single_active_consumer:
                return order if isinstance(order, SingleConsumer) else SingleConsumer(self)
            order = None
        return ConsumerRanks(self) if order is None and subscription.priority else order

    def join(self, subscription: Subscription) -> None:
        """Called when a consumer has room: it joins the end of the ring, and what is ready is delivered."""
        if not subscription.is_listed and not subscription.is_held:
            if self.order is None:
                subscription.is_listed = True
                self.ring[subscription] = None
            else:
                self.order.enlist(subscription)
        self.pump()

    def deliver(self, entry: Entry, subscription: Subscription, log: RecordPlace | None = None) -> None:
        """Moves an entry READY -> UNACKED and posts its MESSAGE. log: the record's place, if it is from a log."""
        move(entry, _DELIVER, self.moves)
        context = self.context
        if self.is_timed and not entry.redelivered:
            # inlined: each message comes here, and most took as long as the one before
            since_ms = entry.message.accepted_ms if type(entry) is Entry else entry.since_ms
            took_ms, deliveries = context.now_ms - since_ms, context.deliveries
            if took_ms == deliveries.last_ms:
                deliveries.repeats += 1
            else:
                deliveries.add(took_ms)
        connection = subscription.connection
        message_id = context.message_id(entry.position)
        delivery = Delivery(entry, subscription, message_id, context.now_s)
        subscription.in_flight += 1
        is_auto = subscription.ack == AUTO
        if not is_auto:
            connection.unacked[message_id] = delivery
            if connection.usage is not None:
                connection.usage.unacked_bytes += entry.size
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
        if len(entry.message.headers) > connection.headers_max_bytes and not fits(entry.message, connection):
            self.unsendable = refuse(self, delivery)
            return
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
                subscription.delivered() if subscription.is_get else None,
            ),
            entry.size,
            delivery if is_auto else None,
        )

    def left_out(self, entry: Entry) -> None:
        """Called when a message is no longer with a consumer."""
        del self.entries_out[entry.position]
        self.out_bytes -= entry.size

    def begin_timeout(self, delivery: Delivery, timeout_s: float) -> None:
        """Starts the ack timeout of a delivery."""
        if self.timeouts is None:
            self.timeouts = AckTimeouts(self.context, self.entries_out)
        self.timeouts.begin(delivery, timeout_s)

    @property
    def may_be_overdue(self) -> bool:
        """Whether some delivery may have been out for longer than its ack timeout."""
        return self.timeouts is not None and self.timeouts.may_be_overdue

    def overdue(self) -> list[Delivery]:
        """Returns some of the deliveries that have been out for longer than their ack timeout."""
        return self.timeouts.overdue() if self.timeouts is not None else []

    # ---- its end ---

    def end(self) -> None:
        """Ends a deleted queue: drops its entries, and its deliveries, which would keep it in memory."""
        self.is_gone = True
        self.ready.clear()
        self.returned.clear()
        self.entries_out.clear()
        self.timeouts = self.order = None

    @property
    def is_idle(self) -> bool:
        """Whether it has no consumer and nothing unacked."""
        return not self.subscriptions and not self.entries_out

    @property
    def is_left(self) -> bool:
        """Whether everybody is done with it, as auto_delete requires."""
        return self.is_idle or (self.lets_go and not self.subscriptions)
