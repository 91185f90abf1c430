"""Requests about exchanges and their bindings."""

from itertools import islice

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request
from radiator.core.answers import Answer, Part
from radiator.core.queues.queue import Queue
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.settings import ExchangeSettings
from radiator.model.validation import LOG_PREFIX, exchange_settings


def declare(request: Request) -> None:
    """An exchange of that name is there from now on; `passive`: it must be there."""
    destinations = request.parts.destinations
    name, given, is_passive = request.declaration("exchange")
    there = destinations.exchanges.get(name) if is_passive else destinations.exchanges.all.get(name)
    settings = exchange_settings(given, ExchangeSettings() if there is None else there.settings)
    created = destinations.declare_exchange(name, settings)
    if created:
        request.parts.context.note("info", "declared", exchange=name, type=settings.type)
    request.answer_synced(lambda: {"created": created})


def bind(request: Request) -> None:
    """What is sent to the exchange with a key that matches goes into the queue too."""
    request.has_only("exchange", "key", "queue")
    exchange, key, queue = _binding(request)
    created = request.parts.destinations.bind(exchange, key, queue)
    if created:
        request.parts.context.note("info", "bound", exchange=exchange, key=key, queue=queue)
    request.answer_synced(lambda: {"created": created})


def unbind(request: Request) -> None:
    """No longer, by this binding."""
    request.has_only("exchange", "key", "queue")
    exchange, key, queue = _binding(request)
    is_gone = request.parts.destinations.unbind(exchange, key, queue)
    if is_gone:
        request.parts.context.note("info", "unbound", exchange=exchange, key=key, queue=queue)
    request.answer_synced(lambda: {"deleted": int(is_gone)})


def _binding(request: Request) -> tuple[str, str, str]:
    queue = request.text("queue", "the name of a queue, or /log/NAME")
    target = queue if queue.startswith(LOG_PREFIX) else request.name("queue")
    return request.name("exchange"), request.text("key", "a routing key", ""), target


def describe(request: Request) -> None:
    """What it is, its numbers and its bindings, those to subscribers' own queues among them."""
    request.has_only("exchange")
    exchange = request.parts.destinations.exchanges.get(request.name("exchange"))

    def told() -> Answer:
        first = [*islice(exchange.bindings, DESCRIBED_BINDINGS)]
        return {
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "accepted": exchange.accepted,
            "unrouted": exchange.unrouted,
            "bindings": Part({"key": key, "queue": queue.name} for key, queue in first),
            "bindings_count": len(exchange.bindings),
        }

    request.answer_synced(told, in_slices=True)


def delete(request: Request) -> None:
    """The exchange goes, and its bindings with it."""
    request.has_only("exchange")
    name = request.name("exchange")
    exchanges = request.parts.destinations.exchanges
    exchange = exchanges.get(name)

    def undo(binding: tuple[str, Queue]) -> None:
        if binding in exchange.bindings:
            exchanges.take_off(exchange, *binding)

    if not exchange.is_declared and unbinding.begins(request, lambda: [*exchange.bindings], undo, delete):
        return
    request.parts.destinations.exchanges.delete(name)
    request.parts.context.note("info", "deleted", exchange=name)
    request.answer_synced(lambda: {"deleted": 1})
