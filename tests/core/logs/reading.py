"""What tests of logs have in common."""

from typing import Any

from radiator.model.commands import (
    AUTO,
    EARLIEST,
    Subscribe,
)
from radiator.model.replies import Deliver, EndOfLog, RecordPlace
from radiator.model.settings import Declarations, LogSettings
from tests.core.node import Node
from tests.core.words import send, subscribe

START_MS = 1_700_000_000_000
FROM_THE_FIRST = (EARLIEST, 0)


def declared(**more: Any) -> Declarations:
    """Two logs: `l` has one partition, `three` has three."""
    logs = {"l": LogSettings(), "three": LogSettings(partitions=3)}
    return Declarations(logs=logs, create_queues=True, create_topics=True, **more)


def node_of(declarations: Declarations | None = None, **more: Any) -> Node:
    node = Node(declarations or declared(), **more)
    node.open(1, 2, 3)
    return node


def read(connection: int, to: str = "l", ack: str = AUTO, start: Any = FROM_THE_FIRST, **more: Any) -> Subscribe:
    return subscribe(connection, f"/log/{to}", ack, start=start, **more)


def append(node: Node, *bodies: bytes, to: str = "l", key: bytes | None = None) -> None:
    headers = b"" if key is None else b"partition-key:%b\n" % key
    node.say(*(send(1, f"/log/{to}", body, headers=headers) for body in bodies))


def places(delivers: list[Deliver]) -> list[tuple[int, int]]:
    """Partition and offset of each."""
    return [(place.partition, place.offset) for one in delivers if isinstance(place := one.log, RecordPlace)]


def is_end(deliver: Deliver) -> bool:
    return isinstance(deliver.log, EndOfLog)


def is_empty(node: Node) -> bool:
    """Nothing is left in memory of any reader."""
    readers = node.broker.destinations.readers
    cursors = [c for log in node.broker.destinations.logs.all.values() for p in log.partitions for c in p.cursors]
    return not (readers.all or readers.due or readers.timed or readers.memory_bytes or cursors)
