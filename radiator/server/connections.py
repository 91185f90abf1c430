"""All connections: who is let in, who they are by number, and what is done with all of them at the stop."""

import socket
from collections.abc import Callable
from typing import Any

from radiator.model.limits import Limits
from radiator.protocols import PROTOCOLS, Session
from radiator.server import tcp
from radiator.server.connection import ServerConnection, Shared
from radiator.server.inbox import Inbox
from radiator.server.links import PEER, Links
from radiator.server.log import EventLog
from radiator.server.places import Places, network_of
from radiator.server.timetable import Timetable


class Connections:
    """Used on the hub only. open: those of which the broker was told Open and not yet Closed, by number.

    places: of clients; those of links have none, so no crowd of clients keeps another node out.
    """

    def __init__(
        self,
        loop: Any,
        limits: Limits,
        inbox: Inbox,
        timetable: Timetable,
        log: EventLog,
        links: Links,
        places: Places,
        session_prefix: str,
    ) -> None:
        self._commons = Shared(loop, limits, inbox, timetable, log, links, places)
        self.open = self._commons.open
        self._session_prefix = session_prefix
        self._admitted = 0

    def admit(self, connected: socket.socket, host: str, peer: str, scheme: str) -> None:
        """Takes over an accepted socket. One too many gets an ERROR. host: the address alone, peer: with its port."""
        if scheme == PEER:
            self._admit_link(connected, peer)
            return
        network = network_of(host)
        self._make_room(network)
        connection = self.take(connected, peer, lambda number: self._client_session(number, scheme))
        if connection is None:
            return
        places = self._commons.places
        places.enter(connection.number, network)
        if places.is_full(peer):
            connection.refuse_for_want_of_room()

    def _make_room(self, network: str) -> None:
        """One more half-open connection of that network may come. Whoever has said CONNECT by now is not half-open."""
        places = self._commons.places
        number = places.in_the_way(network)
        if number is None:
            return
        connection = self._commons.everyone[number]
        connection.hear()
        if places.is_half_open(number):
            connection.give_way()

    def _client_session(self, number: int, scheme: str) -> Session:
        return PROTOCOLS[scheme](number, f"{self._session_prefix}-{number}", self._commons.limits)

    def _admit_link(self, connected: socket.socket, peer: str) -> None:
        links = self._commons.links
        if len(self._commons.of_links) < links.sockets_max:
            self.take(connected, peer, links.session)
        else:
            connected.close()
            links.refused("", peer, f"all {links.sockets_max} sockets for links are in use")

    def take(
        self, connected: socket.socket, peer: str, session: Callable[[int], Session], dialled: str = ""
    ) -> ServerConnection | None:
        """Takes over a socket, whoever called whom; None where it is gone already. dialled: the node that we called.
        session: a new one for the connection of that number.
        """
        try:
            tcp.set_up(connected, self._commons.limits.tcp_timeout_s)
        except OSError:
            connected.close()  # gone before it was here
            return None
        self._admitted = number = self._admitted + 1
        return ServerConnection(self._commons, number, connected, peer, session(number), dialled)

    def stop_reading(self) -> None:
        """The stop: what was read so far is all."""
        for connection in list(self._commons.everyone.values()):
            connection.stop_reading()

    @property
    def half_open(self) -> int:
        """How many have not said CONNECT yet, links not counted."""
        return self._commons.places.half_open

    @property
    def admitted(self) -> int:
        """How many there have ever been."""
        return self._admitted

    @property
    def are_written(self) -> bool:
        """Whether every byte that was posted has been taken by the system."""
        return all(connection.is_written for connection in self._commons.everyone.values())

    @property
    def are_gone(self) -> bool:
        return not self._commons.everyone

    def close(self) -> None:
        for connection in list(self._commons.everyone.values()):
            connection.close("the broker stops")
