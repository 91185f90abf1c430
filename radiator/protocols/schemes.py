"""Every kind of listener: the scheme of its address, its transport, and its protocol.

Apart from the contract of sessions, so that a client need not import what only the broker needs.
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
    """The protocol of a listener, and its transport. transport: TCP or UNIX. is_encrypted: the transport is under TLS.

    session: makes a session from the connection's number, the session's name, the limits, the client's principal as the
    transport has recognised it, its login (None: there are no users), and the context of HTTP. None: a listener for
    nodes, whose sessions need what this node knows of the others.
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
    """Makes the session of STOMP over HTTP. No scheme has it, since requests of HTTP open it."""
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
"""Every kind of listener, by the scheme of its address."""


def may_be_left_out(address: ListenAddress) -> bool:
    """Whether the broker may start without this listener if its port is taken: so for HTTP on loopback. A configuration
    may be older than the other program that has the port, and messages still come over STOMP.
    """
    return isinstance(address, Address) and address.scheme == "http" and address.is_loopback


def has_pages(address: Address) -> bool:
    """Whether a browser can open pages there."""
    return SCHEMES[address.scheme].session is WebSession
