"""The owners of leases: to queues an Owner is a connection, and each Receive that waits is a consumer of it."""

from dataclasses import dataclass, field
from typing import Protocol

from radiator.core.connections import SUBSCRIPTION_COST_BYTES, Connection, Delivery, Subscription
from radiator.core.queues.queue import Queue
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal
from radiator.model.leases import LeasedMessage, Receive
from radiator.model.limits import Limits
from radiator.model.replies import MESSAGE_COST_BYTES, Answered, Deliver, SendToPeer

LEASE_COST_BYTES = 512  # memory of a lease, besides what any unacked message takes
RECEIVING_COST_BYTES = 2 * SUBSCRIPTION_COST_BYTES  # memory of a Receive that waits


class LeasesPort(Protocol):
    """The part of Leases (leases.py) that an Owner uses."""

    limits: Limits

    def lease(self, receiving: "Receiving", deliver: Deliver, size: int) -> None:
        """Called when that Receive has been given this message."""

    def end(self, owner: "Owner", refusal: Refusal) -> None:
        """Ends all Receives and leases of that owner."""


@dataclass(slots=True, eq=False)
class Lease:
    """One leased message. lease_s: how long it was leased for; due_s: when that is over, in monotonic seconds."""

    number: int
    owner: "Owner"
    delivery: Delivery
    lease_s: float
    due_s: float


@dataclass(slots=True, eq=False)
class Receiving(Subscription):
    """A Receive that is not answered yet: a consumer of its queue. asker: the connection that gets the answer; once it
    is answered, its Owner. due_s: when it is answered with nothing; is_late: that was put off once. taken_bytes: of
    its messages. leases, messages: what it has taken, until it is answered.
    """

    asker: Connection = field(kw_only=True)
    command: Receive = field(kw_only=True)
    source: Queue = field(kw_only=True)
    answer_max_bytes: int = field(kw_only=True)
    due_s: float = field(kw_only=True)
    is_late: bool = False
    taken_bytes: int = 0
    leases: list[Lease] = field(default_factory=list)
    messages: list[LeasedMessage] = field(default_factory=list)

    def assignee_name(self) -> str:
        return f"\n{self.asker.number}"

    def has_window(self) -> bool:
        """Whether its answer takes another message: the first one of any size."""
        if not self.messages:
            return True
        head = self.source.peek_head()
        if head is None or len(self.messages) >= self.command.max_messages:
            return False
        return self.taken_bytes + head.size + MESSAGE_COST_BYTES <= self.answer_max_bytes

    def can_take(self) -> bool:
        return not self.asker.is_closing and self.has_window() and self.connection.may_be_given

    @property
    def awaits_disk(self) -> bool:
        """Whether it has no message yet because the next one is being read back."""
        return not self.messages and not self.source.is_exhausted and self.source.peek_head() is None


class Owner(Connection):
    """All leases of one user, and the Receives that wait, as queues see them: a connection that nobody closes.

    name: the user's; "": there are no users. leases: by number; queue_subscriptions: its Receivings.
    """

    __slots__ = ("all", "leases", "name")

    def __init__(self, number: int, name: str, of: LeasesPort) -> None:
        super().__init__(number, 1)
        self.all = of
        self.name = name
        self.leases: dict[int, Lease] = {}

    @property
    def address(self) -> str:
        return f"leases of {self.name or 'all clients'}"

    @property
    def held_bytes(self) -> int:
        receiving_bytes = len(self.queue_subscriptions) * RECEIVING_COST_BYTES
        return super().held_bytes + len(self.unacked) * LEASE_COST_BYTES + receiving_bytes

    @property
    def subscriptions_count(self) -> int:
        """0: a Receive does not count as a subscription of its user, since it ends by itself."""
        return 0

    @property
    def is_used(self) -> bool:
        """Whether it has leases, or Receives that wait."""
        return bool(self.unacked or self.queue_subscriptions)

    @property
    def takes_more(self) -> bool:
        return len(self.unacked) < self.all.limits.max_leases and not self.is_closing

    def post(
        self, context: TurnContext, deliver: Deliver | SendToPeer | Answered, size: int, delivery: Delivery | None
    ) -> None:
        """Puts a leased message into the answer of the Receive that it was given to."""
        assert isinstance(deliver, Deliver) and deliver.subscription is not None, "queues give it messages by name"
        receiving = self.queue_subscriptions[deliver.subscription]
        assert isinstance(receiving, Receiving), "it has no other subscriptions"
        self.all.lease(receiving, deliver, size)

    def refuse(self, context: TurnContext, code: str, sentence: str, *_: object, **__: object) -> None:
        """Called when it holds too much memory, or its user is gone: refuses its Receives, and returns its messages."""
        self.all.end(self, Refusal(code, sentence))
