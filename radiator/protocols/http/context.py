"""What a session of HTTP is given by its server, besides its connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from radiator.model.principal import Cookies
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.http.tunnel import Tunnels


@dataclass(slots=True, frozen=True)
class WebContext:
    """settings: [http] of the configuration. tunnels: the sessions of STOMP over HTTP. date: returns the value of Date
    (RFC 9110, section 6.6.1) now; None: responses have no Date. state: the server's, which changes. cookies: the
    sessions of browsers; None: there are no users. is_encrypted: the listener has TLS. next_number: returns the number
    of a new connection; used by AMQP, whose channels are connections. new_name: returns an unguessable name, for what a
    client has not named.
    """

    settings: WebSettings = DEFAULT_WEB
    tunnels: Tunnels | None = None
    date: Callable[[], bytes] | None = None
    state: ServerState = field(default_factory=ServerState)
    cookies: Cookies | None = None
    is_encrypted: bool = False
    next_number: Callable[[], int] = count(1).__next__
    new_name: Callable[[], str] = map(str, count(1)).__next__


DEFAULT_CONTEXT = WebContext()
