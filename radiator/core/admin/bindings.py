"""Requests about bindings: which queues and logs get what is sent to an exchange."""

from typing import Protocol

from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import AddBinding, RemoveBinding
from radiator.model.answers import Declared, Deleted
from radiator.model.settings import HEADERS


class BindingsPort(AnsweringPort, Protocol):
    """What these requests may ask of the broker."""

    @property
    def destinations(self) -> Destinations: ...


def bind(request: Request[BindingsPort], command: AddBinding) -> None:
    """Binds the queue: what is sent to the exchange with a key that matches goes into the queue too."""
    exchange, target = command.exchange, command.target
    key = _key(request.parts.destinations, command)
    created = request.parts.destinations.bind(exchange, key, target, request.connection)
    if created:
        request.parts.context.note("info", "bound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Declared(created))


def _key(destinations: Destinations, command: AddBinding | RemoveBinding) -> str:
    is_headers = command.if_headers and destinations.exchanges.get(command.exchange).type == HEADERS
    return command.if_headers if is_headers else command.key


def unbind(request: Request[BindingsPort], command: RemoveBinding) -> None:
    """Removes that binding."""
    exchange, target = command.exchange, command.target
    key = _key(request.parts.destinations, command)
    is_gone = request.parts.destinations.unbind(exchange, key, target, request.connection)
    if is_gone:
        request.parts.context.note("info", "unbound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Deleted(int(is_gone)))
