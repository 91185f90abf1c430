"""How many more messages the consumers of a queue have room for."""

from collections.abc import Iterable
from math import inf

from radiator.core.connections import Connection, Subscription
from radiator.model.commands import AUTO

LOOKED_AT = 256  # refuse, or drop: the room of more consumers is not counted where each incoming message asks


def have_capacity(subscriptions: Iterable[Subscription], wanted: float) -> bool:
    """Whether these consumers have room for that many messages in all, each in its own window and in the one that its
    connection shares.
    """
    shared: dict[Connection, float] = {}  # what is left of the windows of connections
    for subscription in subscriptions:
        if subscription.stands_by or not subscription.can_take():
            continue
        free, own, connection = inf, subscription.prefetch_count, subscription.connection
        if own is not None and subscription.ack != AUTO:
            free = own - subscription.in_flight
        if subscription.is_shared and connection.shared_window:
            left = shared.get(connection, connection.shared_window - connection.shared_in_flight)
            free = min(free, left)
            shared[connection] = left - free
        wanted -= free
        if wanted <= 0:
            return True
    return False
