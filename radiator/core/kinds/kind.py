"""The contract of a kind of address: what it can do with a SEND and a SUBSCRIBE. To add one: a file here, a row in
table.py, its settings and its tests.
"""

from typing import Protocol

from radiator.core.connections import Connection, Subscription
from radiator.core.logs.log import Log
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.incoming import Incoming
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import Waitable
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.message import Message


class Door(Protocol):
    """Where messages come in (routing/admission.py). Each returns what the SEND must wait for first, or None."""

    def send_to(self, connection: Connection, target: Target, command: Send) -> Waitable | None:
        """Into this one target."""

    def send_planned(self, connection: Connection, command: Send) -> Waitable | None:
        """As its plan says, the whole or nothing."""

    def answer(self, queue: Queue | None, message: Message) -> None:
        """To who has asked, unless that is gone, or does not read."""

    def receipt(self, connection: Connection, command: Send) -> None:
        """The RECEIPT, where one was asked for; the disk is not waited for."""


class Subscriber(Protocol):
    """Where subscriptions are made (subscriptions.py). Raises Refusal."""

    def consume(self, connection: Connection, command: Subscribe, queue: Queue) -> Subscription:
        """A consumer of the queue, who is given nothing yet: the RECEIPT comes first."""

    def consume_durably(
        self, connection: Connection, command: Subscribe, kind: str, address: str, binding: tuple[str, str]
    ) -> None:
        """A consumer of a persistent queue of its own, which is bound so: exchange and key."""

    def search(self, connection: Connection, command: Subscribe, log: Log) -> list[int] | Waitable:
        """Where a new group of a log begins, or what to wait for while that is searched for."""

    def receipt(self, connection: Connection, command: Subscribe, durable: bool = False) -> None:
        """The RECEIPT, where one was asked for. durable: behind the open batch."""


class Kind:
    """One kind of address. As it stands here it can be sent to by a plan, and by nothing else.

    name: as the address begins, `/name/`.
    """

    name: str

    __slots__ = ("context", "destinations", "incoming", "limits")

    def __init__(self, incoming: Incoming) -> None:
        self.incoming = incoming
        self.context = incoming.context
        self.destinations = incoming.destinations
        self.limits = incoming.limits

    def send(self, door: Door, connection: Connection, command: Send, name: str) -> Waitable | None:
        """Judge a SEND and carry it out; or what it must wait for. Raises Refusal."""
        return door.send_planned(connection, command)

    def whole_address(self, address: str) -> str:
        """The one of several spellings of what stands behind `/name/` that durable subscriptions are named by."""
        return address

    def can_delay(self, name: str) -> bool:
        """Whether `delay` and `deliver-at` mean something there."""
        return False

    def plan(self, plan: Plan, connection: Connection, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        """Add what a SEND with this header block would do. Raises Refusal."""
        raise NotImplementedError

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """Carry out a SUBSCRIBE; or what it must wait for. Raises Refusal."""
        raise Refusal("send-only", f"{command.destination} can only be sent to.")
