"""Requests about what the asking connection itself has: its subscriptions, and what is unacked with it."""

from radiator.core.deliveries import extend as extended
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.model.administration import ExtendAckTimeout, SetPrefetch
from radiator.model.answers import AckTimeoutExtended, PrefetchSet


def prefetch(request: Request[AnsweringPort], command: SetPrefetch) -> None:
    """Sets another window for a live subscription, or for all that share the connection's."""
    connection = request.connection
    if command.subscription is not None:
        connection.set_prefetch(command.subscription, command.count)
    else:
        connection.shared_window = command.count
        connection.offer()
    request.answer(PrefetchSet(command.count))


def extend(request: Request[AnsweringPort], command: ExtendAckTimeout) -> None:
    """Gives an unacked message more time."""
    request.answer(AckTimeoutExtended(extended(request.connection, command.ack, command.seconds)))
