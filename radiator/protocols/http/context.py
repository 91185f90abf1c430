"""What the sessions of the web have from their server, beside their own connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from radiator.model.principal import Cookies
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.http.tunnel import Tunnels


@dataclass(slots=True, frozen=True)
class WebContext:
    """settings: whom [http] lets in. tunnels: what carries STOMP over HTTP. date: the value of Date (RFC 9110, section
    6.6.1) for an answer of now; None: answers have none. state: of the server, as it changes. cookies: the logins that
    browsers keep; None: there are no users. is_encrypted: the listener has TLS. next_number: gives the number of one
    more connection; for sessions of AMQP, whose channels are such. new_name: gives one that nobody can guess, for what
    its client has not named.
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
