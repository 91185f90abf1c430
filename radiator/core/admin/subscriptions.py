"""Requests about what the asking connection itself has: its subscriptions, and what is unacked with it."""

from radiator.core.admin.request import Request
from radiator.core.deliveries import extend as extended
from radiator.model.limits import ACK_TIMEOUT_MAX_S, PREFETCH_COUNT_MAX
from radiator.model.validation import mistake, number

EXTEND_MIN_S = 0.001

_seconds = number(EXTEND_MIN_S, ACK_TIMEOUT_MAX_S, "of seconds ")


def prefetch(request: Request) -> None:
    """Another window for a live subscription, or for all that share the connection's."""
    request.has_only("subscription", "count")
    connection = request.connection
    count = request.whole("count", None, PREFETCH_COUNT_MAX)
    if "subscription" in request.asked:
        name = request.text("subscription", "the id of a subscription of this connection")
        connection.set_prefetch(name.encode("utf-8", "surrogatepass"), count)
    else:
        connection.shared_window = count
        connection.offer()
    request.answer(prefetch=count)


def extend(request: Request) -> None:
    """More time for a message that is unacked."""
    request.has_only("id", "seconds")
    name = request.text("id", "the `ack` of a message that is unacked on this connection")
    seconds = request.asked.get("seconds")
    if seconds is not None:
        try:
            _seconds(seconds)
        except ValueError as error:
            raise mistake("seconds", str(error)) from error
    request.answer(due_ms=extended(request.connection, name.encode("utf-8", "surrogatepass"), seconds))
