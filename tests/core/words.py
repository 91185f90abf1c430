"""Short ways to say things to a Node. A name without a slash in front is a queue's, as in a session."""

from radiator.model.addresses import ADMIN
from radiator.model.commands import (
    CLIENT_INDIVIDUAL,
    Abort,
    Ack,
    Begin,
    Commit,
    Event,
    Nack,
    Read,
    Send,
    Subscribe,
    Unsubscribe,
)
from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import Message
from radiator.model.replies import Deliver
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.stomp.session import request_of


def address(name: str) -> str:
    return name if name.startswith("/") else f"/queue/{name}"


def send(connection: int, to: str, body: bytes = b"x", receipt: bytes | None = None, **more: object) -> Send:
    headers = more.pop("headers", b"")
    return Send(connection, address(to), headers, ESCAPING_ALL, body, receipt, **more)  # type: ignore[arg-type]


def subscribe(connection: int, to: str, ack: str = CLIENT_INDIVIDUAL, **more: object) -> Subscribe:
    """Its id is the name, unless `name` says otherwise."""
    name = more.pop("name", to.encode())
    return Subscribe(connection, name, address(to), ack, **more)  # type: ignore[arg-type]


def unsubscribe(connection: int, name: str, receipt: bytes | None = None) -> Unsubscribe:
    return Unsubscribe(connection, name.encode(), receipt)


def ack(deliver: Deliver, receipt: bytes | None = None, transaction: bytes | None = None) -> Ack:
    return Ack(deliver.connection, deliver.message_id, None, transaction, receipt)


def nack(
    deliver: Deliver,
    receipt: bytes | None = None,
    transaction: bytes | None = None,
    requeue: bool = True,
    delay_ms: int | None = None,
) -> Nack:
    return Nack(deliver.connection, deliver.message_id, None, transaction, receipt, requeue, delay_ms)


def begin(connection: int, name: bytes = b"t") -> Begin:
    return Begin(connection, name)


def commit(connection: int, name: bytes = b"t", receipt: bytes | None = None) -> Commit:
    return Commit(connection, name, receipt)


def abort(connection: int, name: bytes = b"t") -> Abort:
    return Abort(connection, name)


def queue(name: str = "q", **settings: object) -> Declarations:
    """One declared queue; its dead-letter queue too, as config does; everything else is created by first use."""
    return queues(**{name: QueueSettings(**settings)})  # type: ignore[arg-type]


def queues(**settings: QueueSettings) -> Declarations:
    declared = dict(settings)
    for one in settings.values():
        if one.dead_letter is not None:
            declared.setdefault(one.dead_letter, QueueSettings(persistent=one.persistent))
    return Declarations(queues=declared, create_queues=True, create_topics=True)


def header(message: Message, name: bytes) -> bytes | None:
    """The first header of that name."""
    for line in message.headers.split(b"\n")[:-1]:
        if line.partition(b":")[0] == name:
            return line.partition(b":")[2]
    return None


def as_read(event: Event) -> Event:
    """A Read as a session makes it: a SEND to /admin is a request."""
    if type(event) is not Read:
        return event
    commands = [request_of(one) if type(one) is Send and one.destination == ADMIN else one for one in event.commands]
    return Read(event.connection, commands, event.buffered_bytes)
