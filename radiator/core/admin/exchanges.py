"""Requests about exchanges and their bindings."""

from functools import partial
from itertools import islice

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request
from radiator.core.queues.queue import Queue
from radiator.model.administration import AddBinding, DeclareExchange, DeleteExchange, DescribeExchange, RemoveBinding
from radiator.model.answers import BindingOfExchange, Declared, Deleted, ExchangeDescribed
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.numbers import Rows
from radiator.model.settings import ExchangeSettings
from radiator.model.validation import exchange_settings


def declare(request: Request, command: DeclareExchange) -> None:
    """An exchange of that name is there from now on; `passive`: it must be there."""
    destinations, name = request.parts.destinations, command.exchange
    there = destinations.exchanges.get(name) if command.passive else destinations.exchanges.all.get(name)
    settings = exchange_settings(command.settings, ExchangeSettings() if there is None else there.settings)
    created = destinations.declare_exchange(name, settings)
    if created:
        request.parts.context.note("info", "declared", exchange=name, type=settings.type)
    request.answer_synced(lambda: Declared(created))


def bind(request: Request, command: AddBinding) -> None:
    """What is sent to the exchange with a key that matches goes into the queue too."""
    exchange, key, target = command.exchange, command.key, command.target
    created = request.parts.destinations.bind(exchange, key, target)
    if created:
        request.parts.context.note("info", "bound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Declared(created))


def unbind(request: Request, command: RemoveBinding) -> None:
    """No longer, by this binding."""
    exchange, key, target = command.exchange, command.key, command.target
    is_gone = request.parts.destinations.unbind(exchange, key, target)
    if is_gone:
        request.parts.context.note("info", "unbound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Deleted(int(is_gone)))


def describe(request: Request, command: DescribeExchange) -> None:
    """What it is, its numbers and its bindings, those to private queues of subscribers among them."""
    exchange = request.parts.destinations.exchanges.get(command.exchange)

    def described() -> ExchangeDescribed:
        first = [*islice(exchange.bindings, DESCRIBED_BINDINGS)]
        return ExchangeDescribed(
            type=exchange.type,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            accepted=exchange.accepted,
            unrouted=exchange.unrouted,
            bindings=Rows(BindingOfExchange(key, queue.name) for key, queue in first),
            bindings_count=len(exchange.bindings),
        )

    request.answer_synced(described, in_slices=True)


def delete(request: Request, command: DeleteExchange) -> None:
    """The exchange goes, and its bindings with it."""
    name = command.exchange
    exchanges = request.parts.destinations.exchanges
    exchange = exchanges.get(name)

    def undo(binding: tuple[str, Queue]) -> None:
        if binding in exchange.bindings:
            exchanges.take_off(exchange, *binding)

    again = partial(delete, request, command)
    if not exchange.is_declared and unbinding.begins(request, lambda: [*exchange.bindings], undo, again):
        return
    request.parts.destinations.exchanges.delete(name)
    request.parts.context.note("info", "deleted", exchange=name)
    request.answer_synced(lambda: Deleted(1))
