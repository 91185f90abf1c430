"""Requests about what the asking connection itself has: its subscriptions, and what is unacked with it."""

from radiator.core.connections import Connection
from radiator.core.deliveries import extend as extended
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.model.administration import ExtendAckTimeout, SetPrefetch
from radiator.model.answers import AckTimeoutExtended, PrefetchSet
from radiator.model.commands import AUTO
from radiator.model.errors import Refusal, shown


def prefetch(request: Request[AnsweringPort], command: SetPrefetch) -> None:
    """Sets another window for a live subscription, or for all that share the connection's."""
    connection = request.connection
    if command.subscription is not None:
        set_window(connection, command.subscription, command.count)
    else:
        connection.shared_window = command.count
        connection.offer()
    request.answer(PrefetchSet(command.count))


def set_window(connection: Connection, name: bytes, count: int) -> None:
    """Gives a subscription another window. Raises Refusal for one that has none of its own."""
    subscription = connection.queue_subscriptions.get(name)
    if subscription is None and name not in connection.topic_subscriptions:
        raise Refusal("subscription", f"There is no subscription with the id {shown(name)} on this connection.")
    if subscription is None or subscription.prefetch_count is None or subscription.ack == AUTO:
        raise Refusal("bad-request", f"The subscription {shown(name)} has no window of its own (prefetch-count).")
    subscription.prefetch_count = count
    if not subscription.is_listed:
        connection.forget(subscription)
        connection.unlist(subscription)
    connection.offer()


def extend(request: Request[AnsweringPort], command: ExtendAckTimeout) -> None:
    """Gives an unacked message more time."""
    request.answer(AckTimeoutExtended(extended(request.connection, command.ack, command.seconds)))
