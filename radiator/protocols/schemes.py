"""Every kind of listener: what its address begins with, its transport, and the protocol that is spoken there.

Apart from the contract of sessions, so that a client needs nothing of what the broker alone imports.
"""

from collections.abc import Callable
from dataclasses import dataclass

from radiator.model.limits import Limits
from radiator.model.principal import ANYONE, Login, Principal
from radiator.model.settings import TCP, UNIX, Address, ListenAddress
from radiator.protocols import Session
from radiator.protocols.amqp.session import AmqpSession
from radiator.protocols.http.context import DEFAULT_CONTEXT, WebContext
from radiator.protocols.http.session import WebSession
from radiator.protocols.stomp.session import StompSession

MakeSession = Callable[[int, str, Limits, Principal, Login | None, WebContext], Session]


@dataclass(slots=True, frozen=True)
class Scheme:
    """The protocol of a listener and its transport. transport: TCP or UNIX. is_encrypted: whether it is under TLS.

    session: makes one, given the connection's number, the `session` name for it, the limits, who the transport says
    that the client is, its login (None: there are no users), and what sessions of the web have from their server. A
    scheme without `session`: a listener for nodes, whose sessions need what this node knows of the others.
    """

    transport: str
    session: MakeSession | None
    is_encrypted: bool = False


def _stomp(
    connection: int,
    name: str,
    limits: Limits,
    principal: Principal = ANYONE,
    login: Login | None = None,
    context: WebContext = DEFAULT_CONTEXT,
) -> StompSession:
    return StompSession(connection, name, limits, principal, login)


def over_http(
    connection: int,
    name: str,
    limits: Limits,
    principal: Principal = ANYONE,
    login: Login | None = None,
    context: WebContext = DEFAULT_CONTEXT,
) -> StompSession:
    """The session of a tunnel: no scheme has it, since requests of HTTP make it."""
    return StompSession(connection, name, limits, principal, login, " over HTTP")


def _amqp(
    connection: int,
    name: str,
    limits: Limits,
    principal: Principal = ANYONE,
    login: Login | None = None,
    context: WebContext = DEFAULT_CONTEXT,
) -> AmqpSession:
    return AmqpSession(connection, limits, context.next_number, context.new_name, principal, login)


SCHEMES = {
    "stomp": Scheme(TCP, _stomp),
    "stomp+unix": Scheme(UNIX, _stomp),
    "stomps": Scheme(TCP, _stomp, is_encrypted=True),
    "http": Scheme(TCP, WebSession),
    "http+unix": Scheme(UNIX, WebSession),
    "https": Scheme(TCP, WebSession, is_encrypted=True),
    "amqp": Scheme(TCP, _amqp),
    "amqp+unix": Scheme(UNIX, _amqp),
    "amqps": Scheme(TCP, _amqp, is_encrypted=True),
    "peer": Scheme(TCP, None),
    "peers": Scheme(TCP, None, is_encrypted=True),
}
"""Every kind of listener, by what comes before the `:` of its address."""


def may_be_left_out(address: ListenAddress) -> bool:
    """Whether the broker serves without this listener where its port is taken: one for the web on loopback, which
    stands in configurations that were made before the other program was there. Messages come over STOMP as before.
    """
    return isinstance(address, Address) and address.scheme == "http" and address.is_loopback


def has_pages(address: Address) -> bool:
    """Whether a browser can go there."""
    return SCHEMES[address.scheme].session is WebSession
