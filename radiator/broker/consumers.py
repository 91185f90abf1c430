"""Who gets the next message: subscriptions, the windows of their connections, and what is out with them.

A connection has one shared window of one message over all its queue subscriptions; a subscription with a
prefetch-count has a window of its own; ack:auto has none. Whatever the window, nothing is sent while the outgoing
buffer is over its bound.

A subscription is *listed* in its queue's ring while it may get that queue's next message. A queue that finds it without
room takes it off; it then waits among the connection's `unlisted` until there is room again.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from radiator.broker.entry import Entry
from radiator.commands import AUTO, Ack, Command, Nack, Send
from radiator.errors import Refusal
from radiator.replies import Deliver, Reply

if TYPE_CHECKING:
    from radiator.broker.kinds.durable_queue import DurableQueue
    from radiator.broker.kinds.queue import Queue
    from radiator.broker.kinds.topic import TopicSubscription
    from radiator.broker.turn import Desk

MESSAGE_BYTES = 256  # what a message costs in a buffer beside its own bytes: its head on the wire, its words in memory


@dataclass(slots=True, eq=False)
class Subscription:
    """One SUBSCRIBE to a queue. `prefetch_count` None: it shares its connection's window. `place`: its turn in
    round robin.
    """

    connection: "Connection"
    name: bytes
    queue: "Queue"
    ack: str
    prefetch_count: int | None
    exclusive: bool
    is_named: bool
    place: int
    in_flight: int = 0
    is_listed: bool = False
    is_over: bool = False
    unacked: "dict[bytes, Delivery]" = field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Whether it shares its connection's window of one."""
        return self.prefetch_count is None and self.ack != AUTO

    def has_room(self) -> bool:
        """Whether it may be handed one more message now."""
        connection = self.connection
        if connection.outbox_bytes >= connection.outbox_max_bytes or connection.is_closing or self.is_over:
            return False
        if self.ack == AUTO:
            return True
        if self.prefetch_count is not None:
            return self.in_flight < self.prefetch_count
        return connection.shared_in_flight == 0


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
        subscription.unacked.pop(self.message_id, None)
        subscription.in_flight -= 1
        if subscription.is_shared:
            connection.shared_in_flight -= 1


@dataclass(slots=True, eq=False)
class Transaction:
    """What was said between BEGIN and COMMIT, in order; ACKs and NACKs with the deliveries that they mean."""

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
        "buffered_bytes", "found", "had_auto", "had_topic", "held_batch", "is_closing", "last_own_place",
        "last_place", "next_place", "number", "outbox_bytes", "outbox_max_bytes", "parked", "parked_bytes",
        "parked_since_s", "parked_total_s", "posted_turn", "queue_subscriptions", "shared_in_flight", "temp_queues",
        "topic_subscriptions", "transaction_bytes", "transactions", "unacked", "unlisted", "unwritten", "waits_for",
        "written",
    )  # fmt: skip

    def __init__(self, number: int, outbox_max_bytes: int) -> None:
        self.number = number
        self.outbox_max_bytes = outbox_max_bytes
        self.is_closing = False
        # windows and round robin
        self.shared_in_flight = 0
        self.queue_subscriptions: dict[bytes, Subscription] = {}
        self.topic_subscriptions: dict[bytes, TopicSubscription] = {}
        self.unlisted: deque[Subscription] = deque()
        self.next_place = 0
        self.last_place = -1
        self.last_own_place = -1
        self.unacked: dict[bytes, Delivery] = {}
        self.had_auto = False
        self.had_topic = False
        self.temp_queues: dict[str, Queue] = {}
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
        # waiting for room
        self.parked: deque[Command] = deque()
        self.parked_bytes = 0
        self.waits_for: object = None
        self.parked_since_s = 0.0
        self.parked_total_s = 0.0
        self.found: dict[tuple[DurableQueue, bytes], tuple[int, bool]] = {}

    @property
    def held_bytes(self) -> int:
        """Memory that goes when this connection goes."""
        return self.buffered_bytes + self.transaction_bytes + self.outbox_bytes + self.parked_bytes

    def check_subscriptions(self, most: int) -> None:
        """Raises Refusal where one more subscription would be too many."""
        count = len(self.queue_subscriptions) + len(self.topic_subscriptions)
        if count >= most:
            raise Refusal(
                "too-many-subscriptions", f"This connection has {count} subscriptions: max_subscriptions is {most}."
            )

    def post(self, desk: "Desk", deliver: Deliver, size: int, delivery: Delivery | None) -> None:
        """Put a MESSAGE into its outgoing buffer; `delivery` where being written is its ack."""
        self.outbox_bytes += size + MESSAGE_BYTES
        self.posted_turn = desk.turn_number
        self.unwritten.append((size + MESSAGE_BYTES, delivery))
        desk.turn.replies.append(deliver)

    def say(self, desk: "Desk", reply: Reply, durable: bool = False) -> None:
        """A reply that keeps its order: behind those still held for this connection; `durable`: behind the open batch.

        A reply that promises the disk goes into the batch, and nowhere else.
        """
        if durable:
            # D1: from here it can only leave through Broker.committed
            self.held_batch = desk.open.number
            desk.open.held.append(reply)
        elif self.held_batch > desk.committed:
            batch = desk.batch(self.held_batch)
            assert batch is not None, "a batch that is not committed is open or at sea"
            batch.held.append(reply)
        else:
            desk.turn.replies.append(reply)

    def last_of(self, subscription: Subscription) -> int:
        """The place last served among those that share the window, or among those that do not."""
        return self.last_place if subscription.is_shared else self.last_own_place

    def offer(self) -> None:
        """There may be room again: give it to the next subscription that has a message, round robin."""
        unlisted = self.unlisted
        if len(unlisted) == 1:
            if unlisted[0].is_over:
                unlisted.clear()
            elif unlisted[0].has_room():
                subscription = unlisted.popleft()
                subscription.queue.join(subscription)
            return
        if not unlisted:
            return
        # the one after the last served first: places above it, then those below
        order = sorted((s for s in unlisted if not s.is_over), key=lambda s: (s.place <= self.last_of(s), s.place))
        unlisted.clear()
        for subscription in order:
            if subscription.has_room():
                subscription.queue.join(subscription)
            else:
                unlisted.append(subscription)
