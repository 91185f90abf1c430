"""All connections: which are admitted, what number each has, and what the stop does with them."""

from functools import partial
from secrets import token_urlsafe
from typing import Any

from radiator.auth.authenticator import Authenticator
from radiator.model.limits import Limits
from radiator.model.principal import Login
from radiator.model.replies import Answered, Refuse, RefusedReceipt
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.protocols.http.context import WebContext
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.schemes import SCHEMES, MakeSession, over_http
from radiator.server.checks import Checks
from radiator.server.connection import ServerConnection
from radiator.server.cookies import ServerCookies
from radiator.server.costly_steps import CostlySteps
from radiator.server.http_date import HttpDate
from radiator.server.inbox import Inbox
from radiator.server.links import LinkDialer
from radiator.server.log import EventLog
from radiator.server.places import Places
from radiator.server.presence import ClientPresence, LinkPresence
from radiator.server.shared import Shared
from radiator.server.timetable import Timetable
from radiator.server.transport import Transport
from radiator.server.tunnels import HttpTunnels, KnownLogin

_NAME_BYTES = 16  # of randomness in a name that a client leaves to the broker


class Connections:
    """Used on the hub only. open: by number, those whose Open the broker has, and not their Closed.

    clients, operators: how many may be connected through the listeners of each. Links have bounds of their own, so no
    crowd of clients keeps another node out. authenticator: None where there are no users. web: whom [http] lets in, of
    those who connect from now on. web_state: what sessions of HTTP know of the server.
    """

    def __init__(
        self,
        loop: Any,
        limits: Limits,
        inbox: Inbox,
        timetable: Timetable,
        log: EventLog,
        links: LinkDialer,
        clients: Places,
        operators: Places,
        session_prefix: str,
        authenticator: Authenticator | None = None,
        web: WebSettings = DEFAULT_WEB,
    ) -> None:
        self._shared: Shared[ServerConnection] = Shared(
            loop, limits, inbox, timetable, log, links, Checks(loop, log), CostlySteps(loop)
        )
        self._date = HttpDate()
        self._tunnels = HttpTunnels(loop, timetable, clients, self._peer, self._admit_tunnel, self._post)
        self.open = self._shared.open
        self._clients = clients
        self._operators = operators
        self._session_prefix = session_prefix
        self._authenticator = authenticator
        self._cookies = None if authenticator is None else ServerCookies(loop, timetable, authenticator, self._post)
        self.web = web
        self.web_state = ServerState()
        self._admitted = self._channels = 0

    def admit(self, transport: Transport, scheme: str, is_operator: bool = False) -> None:
        """Takes over a transport that a listener of that scheme accepted. One too many gets an ERROR."""
        made = SCHEMES[scheme]
        if made.session is None:
            self._admit_link(transport)
            return
        users = self._authenticator
        login = None if users is None else users.login(transport.peer, transport.network)
        places = self._operators if is_operator else self._clients
        self._admit_client(transport, made.session, login, places, made.is_encrypted)

    def _admit_client(
        self,
        transport: Transport,
        make_session: MakeSession,
        login: Login | None,
        places: Places,
        is_encrypted: bool = False,
    ) -> None:
        self._evict(transport.network, places)
        number = self._next_number()
        name = f"{self._session_prefix}-{number}"
        limits, principal = self._shared.limits, transport.principal
        context = WebContext(
            self.web, self._tunnels, self._date, self.web_state, self._cookies, is_encrypted, self._next_channel,
            partial(token_urlsafe, _NAME_BYTES),
        )  # fmt: skip
        session = make_session(number, name, limits, principal, login, context)
        presence = ClientPresence(number, transport.peer, places, self._shared.log)
        connection = ServerConnection(self._shared, number, transport, session, presence)
        places.enter(number, transport.network)
        if transport.says_first and places.is_full(transport.peer):
            connection.refuse_as_full()

    def _admit_tunnel(self, transport: Transport) -> None:
        """A session of STOMP over HTTP, in the name of those who make its requests."""
        login = None if self._authenticator is None else KnownLogin()
        self._admit_client(transport, over_http, login, self._clients)

    def _peer(self, number: int) -> tuple[str, str, str | None]:
        connection = self._shared.by_number.get(number)
        return ("", "", None) if connection is None else (connection.peer, connection.network, connection.tls)

    def _post(self, reply: Answered | RefusedReceipt | Refuse) -> None:
        connection = self._shared.by_number.get(reply.connection)
        if connection is not None:
            connection.post(reply)
            connection.flush()

    def _next_number(self) -> int:
        self._admitted += 1
        return self._admitted

    def _next_channel(self) -> int:
        """The number of a channel, which is of a connection that is counted already."""
        self._channels += 1
        return self._next_number()

    def _evict(self, network: str, places: Places) -> None:
        """Makes room for one more half-open connection of that network. One that has sent CONNECT by now stays."""
        number = places.in_the_way(network)
        if number is None:
            return
        connection = self._shared.by_number[number]
        connection.read_pending()
        if places.is_half_open(number):
            connection.give_way()

    def _admit_link(self, transport: Transport) -> None:
        links = self._shared.links
        full = f"all {links.sockets_max} sockets for links are in use"
        while (number := links.in_the_way(transport.network)) is not None:
            connection = self._shared.by_number[number]
            connection.read_pending()  # one that has proved by now who it is stays
            if links.is_stranger(number):
                connection.close(f"gave way to another, since {full}")
        if links.sockets < links.sockets_max:
            self.link(transport)
        else:
            transport.close()
            links.refused("", transport.peer, full, network=transport.network)

    def link(self, transport: Transport, dialled: str | None = None) -> None:
        """Takes over a connection with another node. dialled: the node that this one called, if so after the handshake
        of TLS.
        """
        number = self._next_number()
        shared = self._shared
        presence = LinkPresence(number, transport.peer, transport.network, shared.links, shared.log, dialled or "")
        session = shared.links.session(number, transport.certificate_sha256, dialled)
        ServerConnection(shared, number, transport, session, presence)

    def stop_reading(self) -> None:
        """The stop: nothing more is read."""
        for connection in list(self._shared.by_number.values()):
            connection.stop_reading()

    @property
    def checks_waiting(self) -> int:
        """Checks of identities that have not begun."""
        return self._shared.checks.waiting

    @property
    def browser_sessions(self) -> int:
        """Logins that browsers keep in cookies."""
        return 0 if self._cookies is None else len(self._cookies)

    @property
    def tunnels_bytes(self) -> int:
        """What sessions of STOMP over HTTP keep for their clients."""
        return self._tunnels.kept_bytes

    @property
    def half_open(self) -> int:
        """How many have not sent CONNECT yet, links not counted."""
        return self._clients.half_open + self._operators.half_open

    @property
    def ended(self) -> int:
        """How many there have been that are gone."""
        return self._admitted - self._channels - len(self._shared.by_number)

    @property
    def are_written(self) -> bool:
        """Whether every byte that was posted has been taken by the system."""
        return all(connection.is_written for connection in self._shared.by_number.values())

    @property
    def are_gone(self) -> bool:
        return not self._shared.by_number

    def close(self) -> None:
        for connection in list(self._shared.by_number.values()):
            connection.close("the broker stops")
        self._tunnels.close()
        self._shared.checks.stop()
