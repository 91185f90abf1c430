"""Requests about bindings: which queues and logs get what is sent to an exchange."""

from dataclasses import replace
from typing import Protocol

from radiator.core.authorization import Authorization
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import AddBinding, RemoveBinding
from radiator.model.answers import Declared, Deleted
from radiator.model.checks import shown
from radiator.model.errors import Refusal
from radiator.model.header_bindings import NO_ARGUMENTS, readable
from radiator.model.settings import HEADERS


class BindingsPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def authorization(self) -> Authorization: ...

    @property
    def destinations(self) -> Destinations: ...


def bind(request: Request[BindingsPort], command: AddBinding) -> None:
    """Binds the queue: what is sent to the exchange with a key that matches goes into the queue too."""
    exchange, target = command.exchange, command.target
    key = _key(request, command)
    if _is_alien(request, command):
        sentence = f"/exchange/{exchange} is not of type headers, so a binding of it has a key alone; this one has"
        raise Refusal("bad-request", f"{sentence} {shown(readable(command.if_headers))}: leave the arguments out.")
    created = request.parts.destinations.bind(exchange, key, target, request.connection)
    if created:
        request.parts.context.note("info", "bound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Declared(created))


def _key(request: Request[BindingsPort], command: AddBinding | RemoveBinding) -> str:
    """Returns its key: its arguments, if the exchange is of type headers. Raises Refusal if the client may not read all
    that is sent to such an exchange.
    """
    key, parts = command.if_headers, request.parts
    if not key or parts.destinations.exchanges.get(command.exchange).type != HEADERS:
        return command.key
    # the right was judged by its key, which means nothing here
    parts.authorization.check_request(request.connection, replace(command, key=key, if_headers=""))
    return key


def _is_alien(request: Request[BindingsPort], command: AddBinding | RemoveBinding) -> bool:
    """Whether it has arguments, and its exchange has no such bindings."""
    if command.if_headers in ("", NO_ARGUMENTS):
        return False
    return request.parts.destinations.exchanges.get(command.exchange).type != HEADERS


def unbind(request: Request[BindingsPort], command: RemoveBinding) -> None:
    """Removes that binding."""
    exchange, target = command.exchange, command.target
    key = _key(request, command)
    if _is_alien(request, command):
        request.answer_synced(lambda: Deleted(0))
        return
    is_gone = request.parts.destinations.unbind(exchange, key, target, request.connection)
    if is_gone:
        request.parts.context.note("info", "unbound", exchange=exchange, key=key, queue=target)
    request.answer_synced(lambda: Deleted(int(is_gone)))
