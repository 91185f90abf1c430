"""Messages in flight whose bytes are on the disk alone: how many there are, and that the sums of windows are right."""

from collections.abc import Sequence

from radiator.model.commands import CLIENT
from radiator.model.limits import KIB, Limits
from radiator.model.replies import Deliver
from radiator.model.settings import Declarations
from tests.core.backlogs import durable
from tests.core.node import Node
from tests.core.words import queue, send, subscribe

SMALL = Limits(max_memory_bytes=256 * KIB)  # of which 16 KiB may be in flight, and windows hold 32 KiB

BODY = 4000


def body(number: int) -> bytes:
    return b"%d" % number + b"." * BODY


def filled(
    count: int, declared: Declarations | None = None, limits: Limits = SMALL, ack: str = CLIENT, **more: object
) -> Node:
    """So many messages in q, all in flight with connection 2."""
    node = Node(declared or queue(), limits)
    node.open(2, 9)
    node.say(*(send(9, "q", body(number), **more) for number in range(count)))
    node.say(subscribe(2, "q", ack, prefetch_count=65_535))
    return node


def out(node: Node) -> list[bool]:
    """Of what is in flight, which are stubs."""
    return [delivery.entry.is_stub for delivery in durable(node).entries_out.values()]


def numbers_of(delivers: Sequence[Deliver]) -> list[int]:
    """Each is whole."""
    numbers = [int(deliver.message.body.partition(b".")[0]) for deliver in delivers]
    assert [deliver.message.body for deliver in delivers] == [body(number) for number in numbers]
    return numbers


def is_exact(node: Node) -> None:
    """The sums of the windows are those of their messages."""
    windows, size, out_size = node.broker.destinations.windows, 0, 0
    for one in node.broker.destinations.queues.stored.values():
        back = [entry for _, entry in one.returned]
        here = [*one.ready, *back, *one.window.storing.values(), *one.window.due.values()]
        assert one.window.size == sum(entry.size for entry in here if not entry.is_stub), one.name
        assert (one.window.stubs, one.window.stub_bytes) == (
            sum(entry.is_stub for entry in here),
            sum(entry.size for entry in here if entry.is_stub),
        )
        size += one.window.size
        out = [delivery.entry for delivery in one.entries_out.values()]
        out += [entry for entry in one.in_doubt.entries.values() if entry is not None]
        out_size += sum(entry.size for entry in out if not entry.is_stub)
    assert (windows.size, windows.out) == (size, out_size)
