"""All connections: who is let in, who they are by number, and what is done with all of them at the stop."""

import socket
from typing import Any

from radiator.limits import REFUSED_AT_ONCE, Limits
from radiator.protocols import PROTOCOLS
from radiator.server import tcp
from radiator.server.connection import Commons, Connection
from radiator.server.inbox import Inbox
from radiator.server.log import Log
from radiator.server.timetable import Timetable


class Connections:
    """Used on the hub only. open: those of which the broker was told Open and not yet Closed, by number."""

    def __init__(
        self,
        loop: Any,
        limits: Limits,
        inbox: Inbox,
        timetable: Timetable,
        log: Log,
        *,
        connections_max: int,
        session_prefix: str,
    ) -> None:
        self._commons = Commons(loop, limits, inbox, timetable, log)
        self.open = self._commons.open
        self._connections_max = connections_max
        self._session_prefix = session_prefix
        self._admitted = 0
        self._is_full = False

    def admit(self, connected: socket.socket, peer: str, scheme: str) -> None:
        """Takes over an accepted socket. One too many gets an ERROR; when even those are too many, nothing."""
        limit = self._connections_max
        is_full = len(self._commons.everyone) >= limit
        if is_full and not self._is_full:
            self._commons.log.warning("connections_full", connections=limit, peer=peer)
        self._is_full = is_full
        if len(self._commons.everyone) >= limit + REFUSED_AT_ONCE:
            connected.close()
            return
        try:
            tcp.set_up(connected, self._commons.limits.tcp_timeout_s)
        except OSError:
            connected.close()  # gone before it was here
            return
        self._admitted = number = self._admitted + 1
        session = PROTOCOLS[scheme](number, f"{self._session_prefix}-{number}", self._commons.limits)
        connection = Connection(self._commons, number, connected, peer, session)
        self._commons.everyone[number] = connection
        if is_full:
            connection.refuse("connections", f"All {limit} connections (max_connections) are taken: try again later.")

    def stop_reading(self) -> None:
        """The stop: what was read so far is all."""
        for connection in list(self._commons.everyone.values()):
            connection.stop_reading()

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
