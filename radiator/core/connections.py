"""Who gets the next message: subscriptions, the windows of their connections, and what is out with them.

A connection has one shared window of one message over all its queue subscriptions; a subscription with a
prefetch-count has a window of its own; ack:auto has none. Whatever the window, nothing is sent while the outgoing
buffer is over its bound.

A subscription is *listed* in its queue's ring while it may get that queue's next message. A queue that finds it without
room takes it off; it then waits with its connection until there is room again.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from radiator.core.queues.dedup import Dedup
from radiator.core.queues.entry import Entry
from radiator.core.states import Event
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, Ack, Administer, Command, Nack, Send
from radiator.model.errors import Refusal, shown
from radiator.model.replies import Deliver, Receipt, Refuse, RefusedReceipt, Reply, Scope, SendToPeer
from radiator.model.settings import QueueSettings

# what a message costs in a buffer beside its own bytes: its head on the wire, its words in memory
MESSAGE_COST_BYTES = 256
# what subscriptions beyond the first few take, and a temp queue, which takes as much as two more
SUBSCRIPTION_COST_BYTES = 1024
SUBSCRIPTIONS_FREE = 16
WINDOW_HELP = (
    "One that acks several at once needs a window as large: `prefetch-count` on its SUBSCRIBE, or [limits] "
    "ack_client_window."
)
UNACKED_COST_BYTES = 2 * MESSAGE_COST_BYTES  # what one that is unacked costs in memory beside its own bytes


class ConsumedQueue(Protocol):
    """What a subscription, and who settles its messages, may ask of its queue."""

    name: str
    number: int
    reply_id: str
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
    def memory_bytes(self) -> int: ...

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

    def needs_bytes(self, entry: Entry, event: Event, delay_ms: int | None = None) -> bool:
        """Whether its bytes must be read back before that can happen to it."""

    def begin_timeout(self, delivery: "Delivery", timeout_s: float) -> None:
        """It is overdue when it has been out for so long from now."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One SUBSCRIBE to a queue. `place`: its turn in round robin. is_shared: no prefetch-count and not auto, so it has
    the connection's shared window. is_getter: its end does not count as a consumer's. ack_timeout_s: its own, or its
    queue's. client: how the journal names it, once it has. oldest: the id of what is out longest of a full `client`
    window, and since when that was seen; is_told: the log has named it for that.
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
    is_told: bool = False
    unacked: "dict[bytes, Delivery]" = field(default_factory=dict)
    is_shared: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_shared = self.prefetch_count is None and self.ack != AUTO

    def has_window(self) -> bool:
        """Whether its window has room."""
        if self.is_shared:
            return self.connection.shared_in_flight < self.connection.shared_window
        return self.prefetch_count is None or self.ack == AUTO or self.in_flight < self.prefetch_count

    def full_for_s(self, now_s: float) -> float:
        """ack:client: for how long its window has been full without an ACK, as far as was seen; 0: it is not."""
        oldest = next(iter(self.unacked.values()), None)
        if oldest is None or oldest.transaction is not None or self.has_window():
            self.oldest = b""
            return 0.0
        if oldest.message_id != self.oldest:
            self.oldest, self.oldest_since_s = oldest.message_id, now_s
        return now_s - self.oldest_since_s

    def has_room(self) -> bool:
        """Whether it may be handed one more message now."""
        connection = self.connection
        if connection.outbox_bytes >= connection.outbox_max_bytes or connection.is_closing:
            return False
        return self.has_window()


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that is out with a subscription. `transaction`: the open one that its ACK or NACK waits in."""

    entry: Entry
    subscription: Subscription
    message_id: bytes
    due_s: float = 0.0
    parked_s: float = 0.0
    transaction: bytes | None = None

    @property
    def is_out(self) -> bool:
        """Whether nothing has become of it yet (an `auto` one may come back by ack_timeout_s before it is written)."""
        return self.subscription.queue.entries_out.get(self.entry.position) is self

    def leave_window(self) -> None:
        """It is settled, or about to be: it no longer counts against its connection."""
        subscription = self.subscription
        connection = subscription.connection
        connection.unacked.pop(self.message_id, None)
        if subscription.unacked:
            subscription.unacked.pop(self.message_id, None)
        subscription.in_flight -= 1
        if subscription.is_shared:
            connection.shared_in_flight -= 1
        elif not subscription.is_listed and not subscription.is_over:
            connection.unlisted_own[subscription] = None


@dataclass(slots=True, eq=False)
class TopicSubscription:
    """One SUBSCRIBE to a topic or a pattern of topics. The bounds are those of its connection's outgoing buffer.

    pressed_max_bytes: where nobody set a bound, the one that counts while half of all memory is used.
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
    """What was said between BEGIN and COMMIT, in order; ACKs and NACKs with the deliveries that they mean.

    begun_s, parked_s: when it began, and how long its connection had been parked by then.
    """

    begun_s: float
    parked_s: float
    sends: list[Send] = field(default_factory=list)
    settlements: list[tuple[Ack | Nack, list[Delivery]]] = field(default_factory=list)
    size: int = 0

    def release(self) -> None:
        """After ABORT its messages are unacked as before."""
        for _, deliveries in self.settlements:
            for delivery in deliveries:
                delivery.transaction = None


class Connection:
    """What the broker knows of one connection. Its number is its name everywhere else."""

    __slots__ = (
        "answer_bytes", "awaits", "buffered_bytes", "closes_at", "found", "had_auto", "had_topic", "held_batch",
        "held_reply_bytes", "is_closing", "is_link", "last_own_place", "last_place", "next_place", "number",
        "outbox_bytes", "outbox_max_bytes", "blocked", "parked_bytes", "parked_since_s", "parked_total_s",
        "posted_turn", "queue_subscriptions", "rest_batch", "rest_bytes", "shared_in_flight", "shared_window",
        "temp_queues", "topic_subscriptions", "transaction_bytes", "transactions", "unacked", "unlisted_own",
        "unlisted_shared", "unwritten", "waits_for", "weighed_bytes", "written",
    )  # fmt: skip

    def __init__(self, number: int, outbox_max_bytes: int) -> None:
        self.number = number
        self.outbox_max_bytes = outbox_max_bytes
        self.is_closing = False
        self.closes_at = Scope.COMMAND  # of refusals, the smallest scope that ends it
        self.is_link = False  # the other end is a node
        # windows and round robin
        self.shared_in_flight = 0
        self.shared_window = 1
        self.queue_subscriptions: dict[bytes, Subscription] = {}
        self.topic_subscriptions: dict[bytes, TopicSubscription] = {}
        # without room when their queue came to them: those that share the window, by place; and those whose own window
        # has room, so that the outgoing buffer has none, or `offer` will come to them
        self.unlisted_shared: list[Subscription] = []
        self.unlisted_own: dict[Subscription, None] = {}
        self.next_place = 0
        self.last_place = -1
        self.last_own_place = -1
        self.unacked: dict[bytes, Delivery] = {}
        self.had_auto = False
        self.had_topic = False
        self.temp_queues: dict[str, ConsumedQueue] = {}
        # requests to /admin: those that wait for a log to grow; the bytes of the long answer being made
        self.awaits = 0
        self.answer_bytes = 0
        # the outgoing buffer: what was posted and is not yet with the operating system
        self.outbox_bytes = 0
        self.written = 0
        self.posted_turn = 0
        self.unwritten: deque[tuple[int, Delivery | None]] = deque()
        # what it holds otherwise
        self.buffered_bytes = 0
        self.transactions: dict[bytes, Transaction] = {}
        self.transaction_bytes = 0
        self.held_batch = 0
        # with which the last plan goes on that was in part for the disk; what all such plans hold until then
        self.rest_batch = self.rest_bytes = 0
        self.held_reply_bytes = 0
        self.weighed_bytes = 0  # what it held when memory was last weighed
        # waiting for room
        self.blocked: deque[Command] = deque()
        self.parked_bytes = 0
        self.waits_for: object = None
        self.parked_since_s = 0.0
        self.parked_total_s = 0.0
        self.found: dict[tuple[Dedup, bytes], tuple[int, bool]] = {}

    @property
    def held_bytes(self) -> int:
        """Memory that goes when this connection goes, beside what memory.held_by adds."""
        waiting_bytes = self.outbox_bytes + self.held_reply_bytes + self.parked_bytes
        unacked_bytes = len(self.unacked) * UNACKED_COST_BYTES
        held_bytes = self.buffered_bytes + self.transaction_bytes + self.answer_bytes + waiting_bytes + unacked_bytes
        subscriptions = len(self.queue_subscriptions) + len(self.topic_subscriptions) + 2 * len(self.temp_queues)
        if subscriptions > SUBSCRIPTIONS_FREE:
            held_bytes += (subscriptions - SUBSCRIPTIONS_FREE) * SUBSCRIPTION_COST_BYTES
        return held_bytes

    def check_subscriptions(self, most: int) -> None:
        """Raises Refusal where one more subscription would be too many."""
        count = len(self.queue_subscriptions) + len(self.topic_subscriptions)
        if count >= most:
            raise Refusal(
                "too-many-subscriptions", f"This connection has {count} subscriptions: max_subscriptions is {most}."
            )

    def post(self, context: TurnContext, deliver: Deliver | SendToPeer, size: int, delivery: Delivery | None) -> None:
        """Put a MESSAGE, or a word to a node, into its outgoing buffer; `delivery` where being written is its ack."""
        self.outbox_bytes += size + MESSAGE_COST_BYTES
        self.posted_turn = context.turn_number
        self.unwritten.append((size + MESSAGE_COST_BYTES, delivery))
        context.turn.replies.append(deliver)

    def say(self, context: TurnContext, reply: Reply, durable: bool = False) -> None:
        """A reply that keeps its order: behind those still held for this connection; `durable`: behind the open batch.

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
        batch.held.append(reply)
        self.held_reply_bytes += reply_cost_bytes(reply)

    def receipt(self, context: TurnContext, receipt: bytes | None, durable: bool = False) -> None:
        """The RECEIPT, where one was asked for."""
        if receipt is not None:
            self.say(context, Receipt(self.number, receipt), durable)

    def refused(self, context: TurnContext, command: Command, refusal: Refusal) -> None:
        """A command was refused: by an ERROR that ends the connection, or by a RECEIPT where the SEND has asked for
        that.
        """
        if isinstance(command, Send | Administer) and command.survives_refusal and command.receipt is not None:
            context.count("refusals")
            self.say(context, RefusedReceipt(self.number, command.receipt, refusal.code, str(refusal)))
        else:
            self.refuse(context, refusal.code, str(refusal), command.receipt, Scope.COMMAND)

    def survives_refusal(self, command: Command) -> bool:
        """Whether the connection goes on where that command is refused."""
        return self.closes_at > Scope.COMMAND or (isinstance(command, Send | Administer) and command.survives_refusal)

    def refuse(
        self,
        context: TurnContext,
        code: str,
        sentence: str,
        receipt: bytes | None = None,
        scope: Scope = Scope.CONNECTION,
    ) -> None:
        """Refuse, behind the RECEIPTs due before it. receipt: that of the command which has caused it. Where the scope
        is one that its session closes at, nothing more of the connection is carried out.
        """
        self.is_closing = self.is_closing or scope >= self.closes_at
        context.count("refusals")
        context.note("info", "refused", connection=self.number, code=code, sentence=sentence)
        self.say(context, Refuse(self.number, code, sentence, receipt, scope))

    def set_prefetch(self, name: bytes, count: int) -> None:
        """A subscription has another window from now on. Raises Refusal for one that has none of its own."""
        subscription = self.queue_subscriptions.get(name)
        if subscription is None and name not in self.topic_subscriptions:
            raise Refusal("subscription", f"There is no subscription with the id {shown(name)} on this connection.")
        if subscription is None or subscription.prefetch_count is None or subscription.ack == AUTO:
            raise Refusal("bad-request", f"The subscription {shown(name)} has no window of its own (prefetch-count).")
        subscription.prefetch_count = count
        if not subscription.is_listed and subscription.has_window():
            self.unlisted_own[subscription] = None
        self.offer()

    @property
    def takes_more(self) -> bool:
        """Whether its outgoing buffer takes another queue message."""
        return self.outbox_bytes < self.outbox_max_bytes and not self.is_closing

    def unlist(self, subscription: Subscription) -> None:
        """Its queue found it without room. One whose own window is full is noted when a message leaves that window."""
        if subscription.is_shared:
            if self.unlisted_shared:
                insort(self.unlisted_shared, subscription, key=_place)
            else:
                self.unlisted_shared.append(subscription)
        elif subscription.has_window():
            self.unlisted_own[subscription] = None

    def forget(self, subscription: Subscription) -> None:
        """It is over: it waits for nothing."""
        self.unlisted_own.pop(subscription, None)
        shared = self.unlisted_shared
        index = bisect_left(shared, subscription.place, key=_place)
        if index < len(shared) and shared[index] is subscription:
            del shared[index]

    def offer(self) -> None:
        """There may be room again: give it to the next subscriptions that have a message, round robin.

        The one after the last served comes first: places above it, then those below.
        """
        shared = self.unlisted_shared
        while shared and self.shared_in_flight < self.shared_window and self.takes_more:
            index = bisect_right(shared, self.last_place, key=_place) if len(shared) > 1 else 0
            subscription = shared.pop(index if index < len(shared) else 0)
            subscription.queue.join(subscription)
        if not self.unlisted_own:
            return
        own = list(self.unlisted_own)
        if len(own) > 1:
            own.sort(key=lambda s: (s.place <= self.last_own_place, s.place))
        for subscription in own:
            if not self.takes_more:
                return
            del self.unlisted_own[subscription]
            subscription.queue.join(subscription)


def reply_cost_bytes(reply: Reply) -> int:
    """What a reply costs in memory while it is held."""
    if type(reply) is Receipt:
        return MESSAGE_COST_BYTES + len(reply.receipt)
    if isinstance(reply, RefusedReceipt):
        return MESSAGE_COST_BYTES + len(reply.receipt) + len(reply.sentence)
    return MESSAGE_COST_BYTES


def _place(subscription: Subscription) -> int:
    return subscription.place
