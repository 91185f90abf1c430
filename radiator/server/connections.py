"""All connections: which are admitted, what number each gets, and how a stop ends them."""

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
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.places import Places
from radiator.server.presence import ClientPresence, LinkPresence
from radiator.server.shared import Shared
from radiator.server.timetable import Timetable
from radiator.server.transport import Transport
from radiator.server.tunnels import HttpTunnels, KnownLogin

_NAME_BYTES = 16  # random bytes in a name that the broker makes for a client


class Connections:
    """Used on the hub only. open: by number, the connections whose Open the broker has been given, and not their
    Closed.

    clients, operators: the places of connections through the listeners of each. Links have bounds of their own, so no
    crowd of clients keeps another node out. authenticator: None: there are no users. web: [http] for those who connect
    from now on. web_state: the server's state, for sessions of HTTP.
    """

    def __init__(
        self,
        loop: Any,
        limits: Limits,
        inbox: Inbox,
        timetable: Timetable,
        log: EventLog,
        links: LinkRegistry,
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
        """Takes over a transport that a listener of that scheme has accepted. If there is no place, the client gets an
        ERROR.
        """
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
        """Takes over the transport of a session of STOMP over HTTP, in the name of the user who makes its requests."""
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
        """Returns the number of a new channel. The channel takes no place: its connection has one."""
        self._channels += 1
        return self._next_number()

    def _evict(self, network: str, places: Places) -> None:
        """Closes a half-open connection to make room for one more of that network. One that has sent CONNECT by now
        stays.
        """
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
            connection.read_pending()  # by now it may have proved who it is: then it stays
            if links.is_stranger(number):
                connection.close(f"gave way to another, since {full}")
        if links.sockets < links.sockets_max:
            self.link(transport)
        else:
            transport.close()
            links.refused("", transport.peer, full, network=transport.network)

    def link(self, transport: Transport, dialled: str | None = None) -> None:
        """Takes over a connection with another node. dialled: the node that this one has dialled, over TLS after the
        handshake; None: the connection was accepted.
        """
        number = self._next_number()
        shared = self._shared
        presence = LinkPresence(number, transport.peer, transport.network, shared.links, shared.log, dialled or "")
        session = shared.links.session(number, transport.certificate_sha256, dialled)
        ServerConnection(shared, number, transport, session, presence)

    def stop_reading(self) -> None:
        """Stops reading from all connections, since the broker stops."""
        for connection in list(self._shared.by_number.values()):
            connection.stop_reading()

    @property
    def checks_waiting(self) -> int:
        """The number of checks of identities that have not begun."""
        return self._shared.checks.waiting

    @property
    def browser_sessions(self) -> int:
        """The number of logins that browsers keep in cookies."""
        return 0 if self._cookies is None else len(self._cookies)

    @property
    def tunnels_bytes(self) -> int:
        """The bytes that sessions of STOMP over HTTP keep for their clients."""
        return self._tunnels.kept_bytes

    @property
    def half_open(self) -> int:
        """The number of connections that have not sent CONNECT yet, links not counted."""
        return self._clients.half_open + self._operators.half_open

    @property
    def ended(self) -> int:
        """The number of connections that have ended since the start."""
        return self._admitted - self._channels - len(self._shared.by_number)

    @property
    def are_written(self) -> bool:
        """Whether the system has taken every byte that was posted."""
        return all(connection.is_written for connection in self._shared.by_number.values())

    @property
    def are_gone(self) -> bool:
        return not self._shared.by_number

    def close(self) -> None:
        for connection in list(self._shared.by_number.values()):
            connection.close("the broker stops")
        self._tunnels.close()
        self._shared.checks.stop()
