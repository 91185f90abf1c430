"""Which subscription gets the next message: subscriptions, the windows of their connections, and their deliveries.

The queue subscriptions of a connection share a window of one message; a subscription with a prefetch-count has a
window of its own; ack:auto has none. Whatever the window, nothing is sent while the outgoing buffer is over its
bound.

A subscription is *listed* in its queue's ring while it may get that queue's next message. When a queue finds that it
has no room, it is taken off the ring, and its connection lists it again once there is room.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from radiator.core.producer import Producer
from radiator.core.queues.entry import Entry
from radiator.core.states import Event
from radiator.core.turn import TurnContext, reply_cost_bytes
from radiator.core.usage import Usage
from radiator.model.commands import AUTO, Ack, Administer, Command, Disconnect, Fail, InvalidSend, Nack, Send
from radiator.model.errors import FORBIDDEN, Grounds, Refusal
from radiator.model.message import Message
from radiator.model.principal import ANYONE
from radiator.model.reads import Loaded
from radiator.model.replies import (
    MESSAGE_COST_BYTES,
    Answered,
    Deliver,
    Receipt,
    Refuse,
    RefusedReceipt,
    Reply,
    Scope,
    SendToPeer,
)
from radiator.model.settings import QueueSettings

# what subscriptions beyond the first few take: a temp queue as much as two more, to one with keys three more,
# a channel as three
SUBSCRIPTION_COST_BYTES = 1024
SUBSCRIPTIONS_FREE = 16
WINDOW_HELP = (
    "One that acks several at once needs a window as large: `prefetch-count` on its SUBSCRIBE, or [limits] "
    "ack_client_window."
)
_SENT = (Send, Administer, InvalidSend)
UNACKED_COST_BYTES = 2 * MESSAGE_COST_BYTES  # what one that is unacked costs in memory beside its own bytes


class ConsumedQueue(Protocol):
    """What a subscription, and the code that settles its deliveries, may call of its queue."""

    name: str
    number: int
    is_gone: bool
    had_consumer: bool
    context: TurnContext
    entries_out: "dict[int, Delivery]"
    settings: QueueSettings

    @property
    def address(self) -> str: ...

    @property
    def is_persistent(self) -> bool: ...

    @property
    def is_idle(self) -> bool: ...

    @property
    def is_left(self) -> bool: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def can_delay(self) -> bool: ...

    def end(self) -> None:
        """It is gone, with all that is in it."""

    def unsubscribe(self, subscription: "Subscription") -> None:
        """No further deliveries to it. What is unacked stays with its connection."""

    def join(self, subscription: "Subscription") -> None:
        """It has room: it takes its place at the end of the ring, and what is ready goes out."""

    def pump(self) -> None:
        """Hand out what is ready to those that have room."""

    def ack(self, delivery: "Delivery", event: Event = Event.ACK) -> None:
        """It leaves the queue."""

    def give_back(self, delivery: "Delivery", event: Event, delay_ms: int | None = None) -> None:
        """NACK, LOST or OVERDUE: it may be delivered again."""

    def reject(self, delivery: "Delivery") -> None:
        """NACK requeue:false: to the dead-letter queue now, or dropped and counted."""

    def goes_elsewhere(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether a message that is out is stored anew by this event."""

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None:
        """Have the messages at these places read back."""

    def out_read(self, delivery: "Delivery", found: dict[int, Message | None]) -> None:
        """What is out was read back, unless it is damaged."""

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether its bytes must be read back before that can happen to it."""

    def begin_timeout(self, delivery: "Delivery", timeout_s: float) -> None:
        """It is overdue when it has been out for so long from now."""


class TempQueue(ConsumedQueue, Protocol):
    """A queue of one connection. reply_id: what others find it under."""

    reply_id: str


@dataclass(slots=True, eq=False)
class Subscription:
    """One SUBSCRIBE to a queue. `place`: its turn in round robin. is_shared: no prefetch-count and not auto, so it uses
    the connection's shared window. is_getter: its end does not count as a consumer's. ack_timeout_s: its own, or its
    queue's. client: its name in the journal, once it has one. oldest: where an ack:client window is full, the id of its
    oldest unacked message, and since when that was seen; is_noted: that has been logged. destination: as its SUBSCRIBE
    named it; "": one of the connection's own temp queues that no SUBSCRIBE names. consumer_name: as its SUBSCRIBE gave
    it, or "". is_held: it gets nothing for now (registered.py). reports_end: as of Subscribe. shares_window: it shares
    the connection's window though it has its own. is_get: a Get (getting.py). priority: of the queue's consumers those
    with a higher one come first (consumer_ranks.py). stands_by: another is the active one (single_consumer.py).
    """

    connection: "Connection"
    name: bytes
    queue: ConsumedQueue
    ack: str
    prefetch_count: int | None
    exclusive: bool
    is_named: bool
    place: int
    in_flight: int = 0
    is_listed: bool = False
    is_over: bool = False
    is_getter: bool = False
    ack_timeout_s: float | None = None
    client: str = ""
    oldest: bytes = b""
    oldest_since_s: float = 0.0
    is_noted: bool = False
    destination: str = ""
    consumer_name: str = ""
    is_held: bool = False
    shares_window: bool = False
    reports_end: bool = False
    is_get: bool = False
    priority: int = 0
    stands_by: bool = False
    unacked: "dict[bytes, Delivery]" = field(default_factory=dict)
    is_shared: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_shared = (self.prefetch_count is None or self.shares_window) and self.ack != AUTO

    def delivered(self) -> int:
        """Of a Get: it has its message. Returns how many are ready behind that."""
        raise NotImplementedError

    def ended(self) -> None:
        """Of a Get: its queue is gone."""

    def assignee_name(self) -> str:
        """By which keys of a partitioned queue are assigned to it."""
        return self.consumer_name or f"\n{self.connection.number} {self.place}"  # no given name has an end of line

    def has_window(self) -> bool:
        """Whether its window has room, and the connection's where it shares that."""
        connection = self.connection
        if self.is_shared and 0 < connection.shared_window <= connection.shared_in_flight:
            return False
        return self.prefetch_count is None or self.ack == AUTO or self.in_flight < self.prefetch_count

    def full_for_s(self, now_s: float) -> float:
        """ack:client: seconds that its window has been full without an ACK, as far as was seen; 0: it is not full."""
        oldest = next(iter(self.unacked.values()), None)
        if oldest is None or oldest.transaction is not None or self.has_window():
            self.oldest = b""
            return 0.0
        if oldest.message_id != self.oldest:
            self.oldest, self.oldest_since_s = oldest.message_id, now_s
        return now_s - self.oldest_since_s

    def can_take(self) -> bool:
        """Whether it may be handed one more message now."""
        connection = self.connection
        if connection.outbox_bytes >= connection.outbox_max_bytes or connection.is_closing:
            return False
        if self.is_held or not self.has_window():
            return False
        usage = connection.usage
        return usage is None or usage.takes(connection)


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that is out with a subscription. out_s: since when. `transaction`: the open one in which its ACK or
    NACK waits. lease: its number, where it is leased. is_counted: in its windows, while it is unacked.
    """

    entry: Entry
    subscription: Subscription
    message_id: bytes
    out_s: float
    due_s: float = 0.0
    blocked_before_s: float = 0.0
    transaction: bytes | None = None
    lease: int = 0
    is_counted: bool = True

    @property
    def is_out(self) -> bool:
        """Whether it is unsettled (an `auto` one may come back by ack_timeout_s before it is written)."""
        return self.subscription.queue.entries_out.get(self.entry.position) is self

    def leave_window(self) -> None:
        """It is settled, or about to be: it no longer counts against its connection."""
        subscription = self.subscription
        connection = subscription.connection
        was_unacked = connection.unacked.pop(self.message_id, None) is not None
        if subscription.unacked:
            subscription.unacked.pop(self.message_id, None)
        if not self.is_counted:
            return
        if connection.usage is not None and was_unacked:
            connection.usage.settled(self.entry.size)
        subscription.in_flight -= 1
        if subscription.is_shared:
            connection.shared_in_flight -= 1
            if subscription.in_flight + 1 == subscription.prefetch_count and not subscription.is_listed:
                connection.unlist(subscription)
        elif not subscription.is_listed and not subscription.is_over:
            connection.unlisted_private[subscription] = None

    def leave_behind(self) -> None:
        """Its queue is gone: it counts no more, and stays unacked so that its ACK or NACK is not refused."""
        connection, waiting = self.subscription.connection, self.subscription.unacked
        if self.is_counted and connection.unacked.get(self.message_id) is self:
            was_waiting = self.message_id in waiting
            self.leave_window()
            self.is_counted = False
            connection.unacked[self.message_id] = self
            if was_waiting:
                waiting[self.message_id] = self


@dataclass(slots=True, eq=False)
class TopicSubscription:
    """One SUBSCRIBE to a topic or a pattern of topics. The bounds are on its connection's outgoing buffer.

    pressed_max_bytes: the bound that applies, where none was set, while half of all memory is used.
    """

    connection: "Connection"
    name: bytes
    pattern: str
    ack: str
    is_named: bool
    buffer_max_bytes: int
    buffer_max_messages: int | None
    pressed_max_bytes: int | None = None

    def is_over(self, size: int, is_pressed: bool) -> bool:
        """Whether one more message passes the bound; an empty buffer takes one of any size."""
        connection = self.connection
        if not connection.unwritten:
            return False
        if self.buffer_max_messages is not None and len(connection.unwritten) >= self.buffer_max_messages:
            return True
        most = self.buffer_max_bytes
        if is_pressed and self.pressed_max_bytes is not None:
            most = self.pressed_max_bytes
        return connection.outbox_bytes + size + MESSAGE_COST_BYTES > most


@dataclass(slots=True, eq=False)
class Transaction:
    """The commands between BEGIN and COMMIT, in order; ACKs and NACKs with the deliveries that they settle.

    begun_s, blocked_before_s: when it began, and how long its connection had been blocked by then. settled: how many
    deliveries.
    """

    begun_s: float
    blocked_before_s: float
    sends: list[Send] = field(default_factory=list)
    settlements: list[tuple[Ack | Nack, list[Delivery]]] = field(default_factory=list)
    size: int = 0
    settled: int = 0

    def commands(self) -> Iterator[Send | Ack | Nack]:
        """What COMMIT carries out."""
        yield from self.sends
        yield from (command for command, _ in self.settlements)

    def release(self) -> None:
        """After ABORT its messages are unacked as before."""
        for _, deliveries in self.settlements:
            for delivery in deliveries:
                delivery.transaction = None


class Connection(Producer):
    """What the broker knows of one connection, which all else refers to by its number."""

    __slots__ = (
        "answer_bytes", "awaits", "awake", "blocked", "blocked_bytes", "blocked_since_s", "blocked_total_s",
        "buffered_bytes", "channels", "client", "closes_at", "found_bytes", "had_auto", "had_topic",
        "headers_max_bytes", "held_reply_bytes", "idle_subscriptions", "is_closing", "is_idle", "is_link",
        "keyed_subscriptions", "last_own_place", "last_place", "next_place", "number", "opened_s", "outbox_bytes",
        "outbox_max_bytes", "owner", "peer", "posted_turn", "principal", "properties_max_bytes", "protocol",
        "queue_subscriptions", "shared_in_flight", "shared_window", "temp_queues", "tls", "topic_subscriptions",
        "transaction_bytes", "transactions", "unacked", "unlisted_private", "unlisted_shared", "unwritten", "usage",
        "waits_for", "weighed_bytes", "written",
    )  # fmt: skip

    def __init__(self, number: int, outbox_max_bytes: int, awake: "list[Connection] | None" = None) -> None:
        """awake: where it is found once it may hold memory (rounds.py); None: nobody looks for it."""
        super().__init__()
        self.awake = [] if awake is None else awake
        self.number = self.owner = number  # owner: of which it is a channel, or itself
        self.channels: dict[int, Connection] = {}
        self.outbox_max_bytes = outbox_max_bytes
        self.is_closing = False
        self.closes_at = Scope.COMMAND  # of refusals, the smallest scope that ends it
        self.is_link = False  # the other end is a node
        self.principal = ANYONE  # who it is
        self.peer = self.client = self.protocol = ""  # where it is, as the log has it; what it says of itself
        self.tls: str | None = None
        self.opened_s = 0.0
        self.usage: Usage | None = None  # what its user has in use; None: that is not counted
        # windows and round robin
        self.shared_in_flight, self.shared_window = 0, 1  # a window of 0 has no bound
        self.queue_subscriptions: dict[bytes, Subscription] = {}
        self.topic_subscriptions: dict[bytes, TopicSubscription] = {}
        # those that had no room at their turn: the ones that share the window, by place; and the ones whose own window
        # has room, so it is the outgoing buffer that has none, or `offer` will come to them
        self.unlisted_shared: list[Subscription] = []
        self.unlisted_private: dict[Subscription, None] = {}
        self.next_place = self.keyed_subscriptions = 0
        self.last_place = self.last_own_place = -1
        self.unacked: dict[bytes, Delivery] = {}
        # bytes of properties that it can be sent at most; headers up to this are not looked at for that (unsendable.py)
        self.properties_max_bytes: float = inf
        self.headers_max_bytes: float = inf
        self.had_auto = self.had_topic = False
        self.temp_queues: dict[str, TempQueue] = {}
        # requests to /admin: those that wait; the bytes of the long answer being made, and of what was found for others
        self.awaits = 0
        self.answer_bytes = self.found_bytes = 0
        # the outgoing buffer: what was posted and is not yet with the operating system
        self.outbox_bytes = self.written = self.posted_turn = 0
        # no deques, here and below: an empty one has room for 64, and most connections have nothing of both
        self.unwritten: list[tuple[int, Delivery | None]] = []
        # what it holds otherwise
        self.buffered_bytes = 0
        self.transactions: dict[bytes, Transaction] = {}
        self.transaction_bytes = self.held_reply_bytes = 0
        self.weighed_bytes = 0  # what it held when memory was last weighed
        self.is_idle, self.idle_subscriptions = True, 0  # it holds nothing, and is not weighed before it wakes
        # waiting for room
        self.blocked: list[Command] = []
        self.blocked_bytes = 0
        self.waits_for: object = None
        self.blocked_since_s = self.blocked_total_s = 0.0

    @property
    def address(self) -> str:
        """Its name in messages to people."""
        return f"connection {self.number}"

    @property
    def held_bytes(self) -> int:
        """Memory that goes when this connection goes, beside what memory.held_by adds."""
        waiting_bytes = self.outbox_bytes + self.held_reply_bytes + self.blocked_bytes
        unacked_bytes = len(self.unacked) * UNACKED_COST_BYTES
        held_bytes = self.buffered_bytes + self.transaction_bytes + self.answer_bytes + self.found_bytes
        held_bytes += waiting_bytes + unacked_bytes
        subscriptions = self.subscriptions_count + 2 * len(self.temp_queues) + 3 * self.keyed_subscriptions
        subscriptions += 3 * len(self.channels)
        if subscriptions > SUBSCRIPTIONS_FREE:
            held_bytes += (subscriptions - SUBSCRIPTIONS_FREE) * SUBSCRIPTION_COST_BYTES
        return held_bytes

    def wake(self) -> None:
        """It may hold memory from now on. To be called by whatever gives it any, where it is idle."""
        self.is_idle = False
        self.awake.append(self)

    @property
    def subscriptions_count(self) -> int:
        """How many subscriptions it has, to queues, logs and topics."""
        return len(self.queue_subscriptions) + len(self.topic_subscriptions)

    @property
    def unacked_bytes(self) -> int:
        """Of the messages that are out with it, and not to be acked by being written."""
        return sum(delivery.entry.size for delivery in self.unacked.values() if delivery.is_counted)

    def check_subscriptions(self, most: int) -> None:
        """Raises Refusal where one more subscription would be too many, of it or of its user."""
        count = self.subscriptions_count
        if count >= most:
            raise Refusal(
                "too-many-subscriptions", f"This connection has {count} subscriptions: max_subscriptions is {most}."
            )
        if self.usage is not None:
            self.usage.check_subscriptions()

    def post(
        self, context: TurnContext, deliver: Deliver | SendToPeer | Answered, size: int, delivery: Delivery | None
    ) -> None:
        """Put a MESSAGE, a frame to a node, or an answer that comes again into its outgoing buffer; `delivery` where
        being written is its ack.
        """
        if self.is_idle:
            self.wake()
        self.outbox_bytes += size + MESSAGE_COST_BYTES
        self.posted_turn = context.turn_number
        self.unwritten.append((size + MESSAGE_COST_BYTES, delivery))
        context.turn.replies.append(deliver)

    def say(self, context: TurnContext, reply: Reply, durable: bool = False) -> None:
        """Queue a reply in order: behind those still held for this connection; `durable`: behind the open batch.

        A reply that promises the disk goes into the batch, and nowhere else.
        """
        if durable:
            # D1: from here it can only leave through Broker.committed
            self.held_batch = context.open.number
        elif self.held_batch <= context.committed:
            context.turn.replies.append(reply)
            return
        batch = context.batch(self.held_batch)
        assert batch is not None, "a batch that is not committed is open or being committed"
        if self.is_idle:
            self.wake()
        batch.held.append(reply)
        self.held_reply_bytes += reply_cost_bytes(reply)

    def receipt(self, context: TurnContext, receipt: bytes | None, durable: bool = False) -> None:
        """The RECEIPT, where one was asked for."""
        if receipt is not None:
            self.say(context, Receipt(self.number, receipt), durable)

    def refused(self, context: TurnContext, command: Command, refusal: Refusal) -> None:
        """Refuse a command: by an ERROR that ends the connection, or by a RECEIPT if the SEND has asked for that. A
        refused Disconnect or Fail ends the connection in any case: nothing can follow it.
        """
        if isinstance(command, _SENT) and command.survives_refusal and command.receipt is not None:
            context.count("refusals")
            if refusal.code == FORBIDDEN:
                self.note_forbidden(context, str(refusal))
            self.say(context, RefusedReceipt(self.number, command.receipt, refusal.code, str(refusal), refusal.grounds))
        else:
            scope = Scope.CONNECTION if isinstance(command, Disconnect | Fail) else Scope.COMMAND
            self.refuse_on(context, refusal, command.receipt, scope, command)

    def refuse_on(
        self,
        context: TurnContext,
        refusal: Refusal,
        receipt: bytes | None = None,
        scope: Scope = Scope.CONNECTION,
        command: Command | None = None,
    ) -> None:
        """As `refuse`, on the grounds of that refusal."""
        self.refuse(context, refusal.code, str(refusal), receipt, scope, refusal.grounds, command)

    def survives_refusal(self, command: Command) -> bool:
        """Whether the connection goes on where that command is refused."""
        return self.closes_at > Scope.COMMAND or (isinstance(command, _SENT) and command.survives_refusal)

    def refuse(
        self,
        context: TurnContext,
        code: str,
        sentence: str,
        receipt: bytes | None = None,
        scope: Scope = Scope.CONNECTION,
        grounds: Grounds | None = None,
        command: Command | None = None,
    ) -> None:
        """Refuse, behind the RECEIPTs due before it. command: the refused one, with that receipt. If the scope is one
        at which its session closes, no more commands of the connection are carried out.
        """
        self.is_closing = self.is_closing or scope >= self.closes_at
        context.count("refusals")
        if code == FORBIDDEN:
            self.note_forbidden(context, sentence)
        else:
            context.note("info", "refused", connection=self.number, code=code, sentence=sentence)
        self.say(context, Refuse(self.number, code, sentence, receipt, scope, grounds, command))

    def note_forbidden(self, context: TurnContext, sentence: str) -> None:
        """In the log, and in the audit log."""
        context.note("info", "refused", connection=self.number, code=FORBIDDEN, sentence=sentence)
        context.on_forbidden(self, sentence)

    @property
    def takes_more(self) -> bool:
        """Whether its outgoing buffer takes another queue message."""
        return self.outbox_bytes < self.outbox_max_bytes and not self.is_closing

    @property
    def may_be_given(self) -> bool:
        """The same, where its user has not too much unacked."""
        return self.takes_more and (self.usage is None or self.usage.takes(self))

    def unlist(self, subscription: Subscription) -> None:
        """Its queue has found no room in it. If its own window is full, it is noted when a message leaves that."""
        if subscription.is_held or subscription.is_over:
            return
        if subscription.is_shared:
            if subscription.prefetch_count is not None and subscription.in_flight >= subscription.prefetch_count:
                return
            if self.unlisted_shared:
                insort(self.unlisted_shared, subscription, key=_place)
            else:
                self.unlisted_shared.append(subscription)
        elif subscription.has_window():
            self.unlisted_private[subscription] = None

    def forget(self, subscription: Subscription) -> None:
        """It is over: it waits for nothing."""
        self.unlisted_private.pop(subscription, None)
        shared = self.unlisted_shared
        index = bisect_left(shared, subscription.place, key=_place)
        if index < len(shared) and shared[index] is subscription:
            del shared[index]

    def offer(self) -> None:
        """There may be room again: give it to the next subscriptions that have a message, round robin.

        The one after the last served comes first: places above it, then those below.
        """
        shared = self.unlisted_shared
        while shared and not 0 < self.shared_window <= self.shared_in_flight and self.may_be_given:
            index = bisect_right(shared, self.last_place, key=_place) if len(shared) > 1 else 0
            subscription = shared.pop(index if index < len(shared) else 0)
            subscription.queue.join(subscription)
        if not self.unlisted_private:
            return
        own = list(self.unlisted_private)
        if len(own) > 1:
            own.sort(key=lambda s: (s.place <= self.last_own_place, s.place))
        for subscription in own:
            if not self.may_be_given:
                return
            del self.unlisted_private[subscription]
            subscription.queue.join(subscription)


def _place(subscription: Subscription) -> int:
    return subscription.place
