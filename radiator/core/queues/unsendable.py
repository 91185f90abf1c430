"""A message that cannot be sent to a client: AMQP has all properties in one frame, and that client takes smaller ones.

It is not delivered, so it does not count as a delivery, and others may get it. The client's channel is closed, because
its consumer would wait for ever.
"""

from typing import NamedTuple, Protocol

from radiator.core.connections import Connection, Delivery
from radiator.core.queues.entry import Entry
from radiator.core.states import Event
from radiator.core.turn import TurnContext
from radiator.model.amqp_properties import properties_of
from radiator.model.errors import shown
from radiator.model.message import Message
from radiator.model.replies import Scope

HEADERS_GROWTH = 4  # how many times as large headers may be as properties: the line `a:` has 3 bytes, and then 7


class Unsendable(NamedTuple):
    """position: that of the message. sentence: says to whom it could not be sent, and why."""

    position: int
    sentence: str


class UnsendingQueue(Protocol):
    """The queue of the message."""

    context: TurnContext

    @property
    def address(self) -> str:
        """The queue's name."""

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """Makes the message ready again."""


def fits(message: Message, connection: Connection) -> bool:
    """Whether the message's properties fit into a frame of that connection's client."""
    return len(properties_of(message.headers, message.escaping)) <= connection.properties_max_bytes


def refuse(queue: UnsendingQueue, delivery: Delivery) -> Unsendable:
    """Puts the message back at its place, and closes the client's channel with a refusal."""
    connection, message = delivery.subscription.connection, delivery.entry.message
    size = len(properties_of(message.headers, message.escaping))
    delivery.leave_window()
    queue.give_back(delivery, Event.UNUSED)
    sentence = (
        f"the properties of {shown(delivery.message_id)} in {queue.address} have {size} bytes: a frame of this "
        f"connection has room for {connection.properties_max_bytes}. A larger frame_max takes them."
    )
    connection.refuse(queue.context, "too-large", sentence, scope=Scope.CHANNEL)
    return Unsendable(delivery.entry.position, f"{connection.address}: {sentence}")


def of_unsendable(unsendable: Unsendable | None, head: Entry | None) -> str:
    """Returns what `why` adds while that message is the next one; otherwise ""."""
    if unsendable is None or head is None or head.position != unsendable.position:
        return ""
    return f" The next message could not be sent to {unsendable.sentence}"
