"""What tests of prepared transactions have in common."""

from collections.abc import Iterator

from radiator.model.commands import Commit, Send
from radiator.model.limits import Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, send, subscribe

MEMORY = QueueSettings(persistent=False)
SMALL = QueueSettings(max_messages=3)


def node(limits: Limits | None = None, *, auto: bool = True, **queues: QueueSettings) -> Node:
    declarations = Declarations(queues=queues, create_queues=True, create_topics=True)
    broker = Node(declarations, limits, auto=auto)
    broker.open(1, 2)
    return broker


def fill(broker: Node, sends: list[Send], name: bytes = b"t") -> None:
    broker.say(begin(1, name))
    for word in sends:
        word.transaction = name
        broker.say(word)


def prepare(broker: Node, name: str, *sends: Send, receipt: bytes = b"prepared") -> None:
    fill(broker, list(sends))
    broker.say(Commit(1, b"t", receipt, name))


def committed(name: str, version: int = 1, connection: int = 2, app: str = "app") -> Commit:
    return Commit(connection, name.encode(), b"committed", None, app, version)


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def sends(to: str, count: int, **more: object) -> list[Send]:
    return [send(1, to, body, **more) for body in bodies(count)]


def names(broker: Node) -> list[str]:
    return [one.name for one in broker.broker.parts.prepared.described(100)]


def prepared_on_disk(broker: Node) -> list[str]:
    return [row.name for row in broker.disk.platter.transactions.values()]


def consume(broker: Node, queue: str) -> Iterator[bytes]:
    """One after the other, acked."""
    broker.say(subscribe(2, queue))
    while True:
        found = broker.messages(2)
        if not found:
            return
        for deliver in found:
            yield deliver.message.body
            broker.say(ack(deliver))
