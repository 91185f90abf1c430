"""What is due at a time comes at that time, and not with the next look at all queues: on a real clock, over a socket.

The bound is generous, since machines are busy; without a turn of their own half of them would be 125 ms late or more.
"""

import time
from statistics import median

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Wire

KINDS = {
    "durable": "",
    "memory": "persistent = false",
    "priorities": "max_priority = 5",
    "priorities-memory": "persistent = false\nmax_priority = 5",
    "keys": 'partition_key = "header:key"',
    "keys-memory": 'persistent = false\npartition_key = "header:key"',
}
CONFIG = "[create]\nqueues = true\n" + "".join(
    f'[queue."{kind}.*"]\ndead_letter = "dead"\n{settings}\n' for kind, settings in KINDS.items()
)
COUNT = 20
APART_MS = 43  # the broker looks at all queues four times a second: they are due in all phases of that
LATE_MEDIAN_MAX_MS = 100


def send_all(wire: Wire, queue: str, header: str) -> None:
    """One is due every APART_MS; its body is that time."""
    first_ms = int(time.time() * 1000) + 200
    for due_ms in range(first_ms, first_ms + COUNT * APART_MS, APART_MS):
        wire.send(queue, str(due_ms), {header: str(due_ms)})


def await_all(wire: Wire, kind: str) -> None:
    """Each of these comes at its time."""
    due_ms = (int(wire.message().body) for _ in range(COUNT))
    late_ms = [time.time() * 1000 - one_ms for one_ms in due_ms]
    print(f"{kind}: half within {median(late_ms):.0f} ms, the last within {max(late_ms):.0f} ms")
    assert min(late_ms) >= 0 and median(late_ms) < LATE_MEDIAN_MAX_MS, late_ms


@pytest.mark.parametrize("kind", KINDS)
def test_a_delayed_message_comes_when_it_is_due(wire: Wire, connect: Connect, name: str, kind: str) -> None:
    consumer = connect()
    consumer.subscribe(f"/queue/{kind}.{name}", ack="auto")
    send_all(wire, f"/queue/{kind}.{name}", "deliver-at")
    await_all(consumer, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_so_does_the_dead_letter_of_one_that_expires(wire: Wire, connect: Connect, name: str, kind: str) -> None:
    consumer = connect()
    consumer.subscribe("/queue/dead", ack="auto")
    send_all(wire, f"/queue/{kind}.{name}", "expires")
    await_all(consumer, kind)
