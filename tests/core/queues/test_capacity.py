"""How many messages consumers have room for."""

from itertools import islice

import pytest

from radiator.core.queues.capacity import have_capacity
from radiator.model.commands import AUTO
from tests.core.node import Node
from tests.core.words import queue, send, subscribe


def node_with(*windows: int | None) -> Node:
    """A consumer for each window; None: one that acks nothing."""
    node = Node(queue(persistent=False))
    node.open(9, *range(1, len(windows) + 1))
    for connection, window in enumerate(windows, 1):
        node.say(
            subscribe(connection, "q", AUTO) if window is None else subscribe(connection, "q", prefetch_count=window)
        )
    return node


@pytest.mark.parametrize(
    ("windows", "sent", "free"), [((), 0, 0), ((3,), 0, 3), ((3, 2), 0, 5), ((3, 2), 4, 1), ((2,), 2, 0)]
)
def test_capacity_is_what_windows_have_beside_what_is_out(windows: tuple[int, ...], sent: int, free: int) -> None:
    node = node_with(*windows)
    for _ in range(sent):
        node.say(send(9, "q"))
    consumers = node.broker.destinations.queues.all["q"].subscriptions
    assert free == 0 or have_capacity(consumers, free)
    assert not have_capacity(consumers, free + 1)


def test_who_acks_nothing_has_room_for_any_number() -> None:
    consumers = node_with(1, None).broker.destinations.queues.all["q"].subscriptions
    assert have_capacity(consumers, 10**9) and not have_capacity(islice(consumers, 1), 2)
