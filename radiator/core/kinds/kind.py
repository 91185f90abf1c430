"""The contract of a kind of address: what can be done with its destinations. To add one: a file here, a row in table.py
and in model/addresses.py, its settings and its tests.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from radiator.core.connections import Connection, Subscription
from radiator.core.logs.log import Log
from radiator.core.ports import Background, TopologyPort
from radiator.core.producer import Producer
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.request import Request
from radiator.core.routing.incoming import Incoming
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import Waitable
from radiator.core.usage import Usage
from radiator.model.addresses import KINDS
from radiator.model.administration import DeclareDestination, DeleteDestination, DescribeDestination
from radiator.model.answers import DestinationDescribed
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.message import Message
from radiator.model.recovery import Recovery
from radiator.model.settings import Declarations

Asked = Request[TopologyPort]


class AdmissionPort(Protocol):
    """Admits messages (routing/admission.py). Each method returns what the SEND must wait for first, or None."""

    def send_to(self, connection: Connection, target: Target, command: Send) -> Waitable | None:
        """Hands a message to this one target."""

    def send_planned(self, connection: Connection, command: Send) -> Waitable | None:
        """Carries out a plan: all of it or nothing."""

    def answer(self, queue: Queue | None, message: Message) -> None:
        """Sends an answer to the client that asked, unless it has gone or does not read."""

    def receipt(self, connection: Connection, command: Send) -> None:
        """Sends the RECEIPT, if one was asked for, without waiting for the disk."""


class Subscriber(Protocol):
    """Makes subscriptions (subscriptions.py). Raises Refusal."""

    def consume(self, connection: Connection, command: Subscribe, queue: Consumable) -> Subscription:
        """Adds a consumer of the queue, which is given nothing yet: the RECEIPT comes first."""

    def consume_durably(
        self, connection: Connection, command: Subscribe, kind: str, address: str, binding: tuple[str, str]
    ) -> None:
        """Adds a consumer of a persistent queue of its own. binding: the queue's exchange and key."""

    def search(self, connection: Connection, command: Subscribe, log: Log) -> list[int] | Waitable:
        """Returns where a new group of a log begins, or what to wait for while that is searched for."""

    def receipt(self, connection: Connection, command: Subscribe, durable: bool = False) -> None:
        """Sends the RECEIPT, if one was asked for. durable: when the open batch is on the disk."""


class Round(Protocol):
    """One round over all queues (rounds.py), which does what is due and counts what they hold. Costs: 1 is a
    microsecond.
    """

    def look_at(self, queue: Queue) -> Iterator[int]:
        """Looks at a queue that has a name of its own."""

    def watch(self, queue: Queue) -> Iterator[int]:
        """Looks at a queue that belongs to a connection."""

    def watch_timeouts(self, queue: Consumable) -> Iterator[int]:
        """Looks at the deliveries of a queue, or of a consumer that reads a log."""

    def look_at_stored(self, maker: Usage, size: int) -> None:
        """Looks at what is in a queue or log that a user has made."""


class Kind:
    """One kind of address. By itself it only accepts SENDs, by a plan; it has nothing that is named or that outlives
    the broker.

    name: as the address begins, `/name/`. can_prepare: whether a SEND to it can be carried out later, when its prepared
    transaction is committed.
    """

    name: str
    can_prepare = False
    instead = ""  # what to do instead of leasing from it

    __slots__ = ("context", "destinations", "incoming", "limits")

    def __init__(self, incoming: Incoming) -> None:
        self.incoming = incoming
        self.context = incoming.context
        self.destinations = incoming.destinations
        self.limits = incoming.limits

    # ---- messages ---------------------------------------------------------------------------------------------------

    def send(self, admission: AdmissionPort, connection: Connection, command: Send, name: str) -> Waitable | None:
        """Judges a SEND and carries it out; returns what it must wait for, if anything. Raises Refusal."""
        return admission.send_planned(connection, command)

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        """Adds to the plan what a SEND with this header block would do. Raises Refusal."""
        raise NotImplementedError

    def can_delay(self, name: str) -> bool:
        """Whether `delay` and `deliver-at` have a meaning there."""
        return False

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """Carries out a SUBSCRIBE; returns what it must wait for, if anything. Raises Refusal."""
        raise Refusal("send-only", f"{command.destination} can only be sent to.")

    def leased(self, destination: str, name: str) -> Queue:
        """Returns the queue that a Receive takes from, made as by a SUBSCRIBE. Raises Refusal."""
        raise Refusal("no-lease", f"{destination} is not a queue: only messages of queues are leased.{self.instead}")

    def existing(self, destination: str, name: str, user: Connection | None) -> Queue:
        """Returns an existing queue, for a client that takes messages from it. user: None: a client that has no
        connection of its own. Raises Refusal.
        """
        raise Refusal("no-lease", f"{destination} is not a queue: single messages can be taken only from queues.")

    def whole_address(self, address: str) -> str:
        """Returns the spelling of what follows `/name/` by which durable subscriptions are named."""
        return address

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def section(self) -> str:
        """Returns the name of its section in `stats`; "": it has none."""
        return KINDS[self.name].section if self.name in KINDS else ""

    @property
    def count(self) -> int:
        """How many there are, as max_destinations counts them."""
        return 0

    def names(self) -> Iterable[str]:
        """Returns the names of all that have a row in its section."""
        return ()

    def numbers(self, port: TopologyPort, name: str) -> Any:
        """Returns the row of that name, a record; None: there is none."""
        return None

    def recover(self, recovery: Recovery) -> None:
        """Restores what the store has, as far as config.toml says nothing else; bindings come later. Raises
        StoreError.
        """

    def make_declared(self, recovery: Recovery) -> None:
        """Makes what config.toml declares, after all kinds have recovered. Raises StoreError for what
        contradicts it.
        """

    def contradictions(self, new: Declarations) -> Iterable[str]:
        """Returns sentences about what exists, and cannot become what these declare while the broker runs."""
        return ()

    def use(self, old: Declarations, new: Declarations) -> None:
        """Called when config.toml was read again: what exists becomes what `new` declares, or what it is without `old`.
        What is new is made later.
        """

    def tick(self, background: Background) -> None:
        """Called about once a second, for whatever depends on the time."""

    def looks(self, round_: Round) -> Iterator[int]:
        """Looks at its queues, some in each turn, from each Tick on. Yields what each look has cost."""
        return iter(())

    # ---- requests of operators, for kinds that `is_declared` --------------------------------------------------------

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        """Makes one with these settings, where there is none. Raises Refusal."""
        raise NotImplementedError

    def describe(self, request: Asked, command: DescribeDestination) -> None:
        """Answers with what it is, as of all that was decided up to now. Raises Refusal."""
        numbers = self.numbers(request.parts, command.name)
        if numbers is None:
            raise Refusal("no-such-destination", f"There is no /{self.name}/{command.name:.255}.")
        request.answer_synced(lambda: DestinationDescribed(numbers))

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        """Deletes it. Raises Refusal."""
        raise NotImplementedError
