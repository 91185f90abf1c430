"""Decides which subscription gets the next message, by its window and its connection, and keeps its deliveries.

The queue subscriptions of a connection share a window of one message; a subscription with a prefetch-count has a
window of its own; ack:auto has none. Whatever the window, nothing is sent while the outgoing buffer is over its
bound.

A subscription is *listed* in its queue's ring while it may get that queue's next message. A queue that finds no room in
a subscription takes it off the ring, and its connection lists it again once there is room.
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

# memory per subscription beyond the first few: a temp queue counts as two more, a subscription with keys as three
# more, a channel as three
SUBSCRIPTION_COST_BYTES = 1024
SUBSCRIPTIONS_FREE = 16
WINDOW_HELP = (
    "One that acks several at once needs a window as large: `prefetch-count` on its SUBSCRIBE, or [limits] "
    "ack_client_window."
)
_SENT = (Send, Administer, InvalidSend)
UNACKED_COST_BYTES = 2 * MESSAGE_COST_BYTES  # memory that an unacked message takes besides its own bytes


class ConsumedQueue(Protocol):
    """The part of a queue that a subscription, and the code that settles its deliveries, may use."""

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
        """Ends the queue, with everything in it."""

    def unsubscribe(self, subscription: "Subscription") -> None:
        """Stops deliveries to this consumer. What is unacked stays with its connection."""

    def join(self, subscription: "Subscription") -> None:
        """Called when a consumer has room: puts it at the end of the ring and delivers what is ready."""

    def pump(self) -> None:
        """Delivers what is ready to the consumers that have room."""

    def ack(self, delivery: "Delivery", event: Event = Event.ACK) -> None:
        """Removes the message from the queue."""

    def give_back(self, delivery: "Delivery", event: Event, delay_ms: int | None = None) -> None:
        """Handles NACK, LOST or OVERDUE: the message may be delivered again."""

    def reject(self, delivery: "Delivery") -> None:
        """Handles NACK requeue:false: makes the message a dead letter now, or drops and counts it."""

    def goes_elsewhere(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether this event stores an unacked message again, in another place."""

    def read(self, positions: Sequence[int], answer: Callable[[Loaded], None]) -> None:
        """Asks for the messages at these positions to be read back."""

    def out_read(self, delivery: "Delivery", found: dict[int, Message | None]) -> None:
        """Called when the message of a delivery was read back, or found damaged."""

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether the message's bytes must be read back before this event can be applied to it."""

    def begin_timeout(self, delivery: "Delivery", timeout_s: float) -> None:
        """Starts the ack timeout of a delivery: it is overdue once that time has passed from now."""


class TempQueue(ConsumedQueue, Protocol):
    """A queue of one connection. reply_id: the id by which others find it."""

    reply_id: str


@dataclass(slots=True, eq=False)
class Subscription:
    """One SUBSCRIBE to a queue. `place`: its turn in round robin. is_shared: it uses the connection's shared window: it
    is not auto, and has no prefetch-count or also shares_window. is_getter: its end does not count as a consumer's.
    ack_timeout_s: its own, or its queue's. client: its name in the journal, once it has one. oldest, oldest_since_s:
    while an ack:client window is full, the id of the oldest unacked message, and when that was first seen; is_noted:
    this has been logged. destination: as its SUBSCRIBE named it; "": a temp queue of the connection that no SUBSCRIBE
    names. consumer_name: from its SUBSCRIBE, or "". is_held: it gets nothing for now (registered.py). reports_end: see
    Subscribe. shares_window: it uses the shared window besides its own. is_get: a Get (getting.py). priority: higher
    ones come first (consumer_ranks.py). stands_by: another consumer is the active one (single_consumer.py).
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
        """Called when a Get has its message. Returns how many more messages are ready after it."""
        raise NotImplementedError

    def ended(self) -> None:
        """Called when the queue of a Get is gone."""

    def assignee_name(self) -> str:
        """Returns the name under which a partitioned queue assigns keys to it."""
        return self.consumer_name or f"\n{self.connection.number} {self.place}"  # no given name has an end of line

    def has_window(self) -> bool:
        """Whether its own window has room, and the connection's too if it shares that one."""
        connection = self.connection
        if self.is_shared and 0 < connection.shared_window <= connection.shared_in_flight:
            return False
        return self.prefetch_count is None or self.ack == AUTO or self.in_flight < self.prefetch_count

    def full_for_s(self, now_s: float) -> float:
        """Returns, for ack:client, the seconds for which the window was seen full without an ACK; 0: it is not full."""
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
    """A message that was delivered to a subscription and is not settled. out_s: since when. `transaction`: the open
    transaction in which its ACK or NACK waits. lease: the number of its lease. is_counted: it counts in its windows.
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
        """Whether it is unsettled (an `auto` delivery may reach its ack timeout and come back before it is written)."""
        return self.subscription.queue.entries_out.get(self.entry.position) is self

    def leave_window(self) -> None:
        """Called when it is settled, or about to be: it no longer counts against its connection."""
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
        """Called when its queue is gone: it no longer counts, but stays unacked so that its ACK or NACK is accepted."""
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
        """Whether one more message would exceed the bound; an empty buffer takes a message of any size."""
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

    begun_s, blocked_before_s: when it began, and how long its connection had been blocked by then. settled: the number
    of deliveries that it settles.
    """

    begun_s: float
    blocked_before_s: float
    sends: list[Send] = field(default_factory=list)
    settlements: list[tuple[Ack | Nack, list[Delivery]]] = field(default_factory=list)
    size: int = 0
    settled: int = 0

    def commands(self) -> Iterator[Send | Ack | Nack]:
        """Yields the commands that COMMIT carries out."""
        yield from self.sends
        yield from (command for command, _ in self.settlements)

    def release(self) -> None:
        """Leaves the deliveries that it would have settled unacked, as they were before it."""
        for _, deliveries in self.settlements:
            for delivery in deliveries:
                delivery.transaction = None


class Connection(Producer):
    """What the broker knows about one connection. Everything else refers to it by its number."""

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
        """awake: the list that it joins once it may hold memory (rounds.py); None: nobody looks for it."""
        super().__init__()
        self.awake = [] if awake is None else awake
        self.number = self.owner = number  # owner: the connection whose channel it is, or itself
        self.channels: dict[int, Connection] = {}
        self.outbox_max_bytes = outbox_max_bytes
        self.is_closing = False
        self.closes_at = Scope.COMMAND  # the smallest scope of a refusal that ends it
        self.is_link = False  # the other end is a node
        self.principal = ANYONE
        self.peer = self.client = self.protocol = ""  # peer: its address in the log; client: what it says of itself
        self.tls: str | None = None
        self.opened_s = 0.0
        self.usage: Usage | None = None  # what its user uses; None: that is not counted
        # windows and round robin
        self.shared_in_flight, self.shared_window = 0, 1  # a window of 0 has no bound
        self.queue_subscriptions: dict[bytes, Subscription] = {}
        self.topic_subscriptions: dict[bytes, TopicSubscription] = {}
        # subscriptions that had no room at their turn: those that share the window, by place; and those whose own
        # window has room, which the full outgoing buffer keeps waiting, or which `offer` has not reached yet
        self.unlisted_shared: list[Subscription] = []
        self.unlisted_private: dict[Subscription, None] = {}
        self.next_place = self.keyed_subscriptions = 0
        self.last_place = self.last_own_place = -1
        self.unacked: dict[bytes, Delivery] = {}
        # the most bytes of properties that it can be sent; headers up to headers_max_bytes always fit (unsendable.py)
        self.properties_max_bytes: float = inf
        self.headers_max_bytes: float = inf
        self.had_auto = self.had_topic = False
        self.temp_queues: dict[str, TempQueue] = {}
        # requests to /admin: how many wait; the bytes of the long answer being made, and of what was found for others
        self.awaits = 0
        self.answer_bytes = self.found_bytes = 0
        # the outgoing buffer: what was posted and not yet handed to the operating system
        self.outbox_bytes = self.written = self.posted_turn = 0
        # lists, not deques, here and below: an empty deque has room for 64, and most connections leave both empty
        self.unwritten: list[tuple[int, Delivery | None]] = []
        # what else it holds
        self.buffered_bytes = 0
        self.transactions: dict[bytes, Transaction] = {}
        self.transaction_bytes = self.held_reply_bytes = 0
        self.weighed_bytes = 0  # what it held when memory was last weighed
        self.is_idle, self.idle_subscriptions = True, 0  # it holds nothing, and is not weighed until it wakes
        # waiting for room
        self.blocked: list[Command] = []
        self.blocked_bytes = 0
        self.waits_for: object = None
        self.blocked_since_s = self.blocked_total_s = 0.0

    @property
    def address(self) -> str:
        """The connection's name, as messages to people show it."""
        return f"connection {self.number}"

    @property
    def held_bytes(self) -> int:
        """The memory that is freed when this connection ends, without what memory.held_by adds."""
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
        """Notes that it may hold memory from now on. Whatever gives an idle connection memory must call this."""
        self.is_idle = False
        self.awake.append(self)

    @property
    def subscriptions_count(self) -> int:
        """The number of its subscriptions to queues, logs and topics."""
        return len(self.queue_subscriptions) + len(self.topic_subscriptions)

    @property
    def unacked_bytes(self) -> int:
        """The bytes of its unacked messages that count; ack:auto deliveries are not among them."""
        return sum(delivery.entry.size for delivery in self.unacked.values() if delivery.is_counted)

    def check_subscriptions(self, most: int) -> None:
        """Raises Refusal if one more subscription would be too many for it or for its user."""
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
        """Puts a MESSAGE, a frame to a node, or an answer that comes again into its outgoing buffer. delivery: one that
        is acked by being written, or None.
        """
        if self.is_idle:
            self.wake()
        self.outbox_bytes += size + MESSAGE_COST_BYTES
        self.posted_turn = context.turn_number
        self.unwritten.append((size + MESSAGE_COST_BYTES, delivery))
        context.turn.replies.append(deliver)

    def say(self, context: TurnContext, reply: Reply, durable: bool = False) -> None:
        """Queues a reply after those still held for this connection; `durable`: held until the open batch is committed.

        A reply that promises that something is on the disk goes into the batch, and nowhere else.
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
        """Queues the RECEIPT, if one was asked for."""
        if receipt is not None:
            self.say(context, Receipt(self.number, receipt), durable)

    def refused(self, context: TurnContext, command: Command, refusal: Refusal) -> None:
        """Refuses a command: by an ERROR that ends the connection, or by a RECEIPT if the SEND has asked for that. A
        refused Disconnect or Fail ends the connection in any case, since nothing can follow it.
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
        """Calls `refuse` with the code, sentence and grounds of that refusal."""
        self.refuse(context, refusal.code, str(refusal), receipt, scope, refusal.grounds, command)

    def survives_refusal(self, command: Command) -> bool:
        """Whether the connection goes on if that command is refused."""
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
        """Refuses a command, after the RECEIPTs due before it. command: the refused one, with that receipt. If the
        scope reaches `closes_at`, no more commands of the connection are carried out.
        """
        self.is_closing = self.is_closing or scope >= self.closes_at
        context.count("refusals")
        if code == FORBIDDEN:
            self.note_forbidden(context, sentence)
        else:
            context.note("info", "refused", connection=self.number, code=code, sentence=sentence)
        self.say(context, Refuse(self.number, code, sentence, receipt, scope, grounds, command))

    def note_forbidden(self, context: TurnContext, sentence: str) -> None:
        """Notes a forbidden command in the log and in the audit log."""
        context.note("info", "refused", connection=self.number, code=FORBIDDEN, sentence=sentence)
        context.on_forbidden(self, sentence)

    @property
    def takes_more(self) -> bool:
        """Whether its outgoing buffer has room for another queue message."""
        return self.outbox_bytes < self.outbox_max_bytes and not self.is_closing

    @property
    def may_be_given(self) -> bool:
        """Whether it `takes_more`, and its user may have more unacked."""
        return self.takes_more and (self.usage is None or self.usage.takes(self))

    def unlist(self, subscription: Subscription) -> None:
        """Notes a subscription in which its queue found no room; if its own window is full, `leave_window` does."""
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
        """Called when a subscription is over: it no longer waits for room."""
        self.unlisted_private.pop(subscription, None)
        shared = self.unlisted_shared
        index = bisect_left(shared, subscription.place, key=_place)
        if index < len(shared) and shared[index] is subscription:
            del shared[index]

    def offer(self) -> None:
        """Called when there may be room again: lists the waiting subscriptions in their queues' rings, round robin.

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
