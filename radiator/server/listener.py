"""One address that is listened on. What it accepts belongs to Connections."""

import errno
import socket
from typing import Any

from radiator.model.errors import RadiatorError
from radiator.model.limits import ACCEPT_AGAIN_S, ACCEPTS_AT_ONCE, LISTEN_BACKLOG
from radiator.model.settings import Address
from radiator.server.connections import Connections
from radiator.server.links import PEER
from radiator.server.log import EventLog

_READABLE = 1
_NO_FILE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener:
    """Who connects once it is made waits for `start`; accepts from then to `close`. RadiatorError where the address
    cannot be had.
    """

    def __init__(self, loop: Any, address: Address, connections: Connections, log: EventLog) -> None:
        self._loop = loop
        self._scheme = address.scheme
        self._connections = connections
        self._log = log
        self._has_no_file = False
        self._again: Any = None
        try:
            family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(place)
            self._socket.listen(LISTEN_BACKLOG)  # two of one port are found here, not by bind
        except OSError as error:
            table = "[node]" if address.scheme == PEER else "[server]"
            raise RadiatorError(
                f"Cannot listen on {address}: {error.strerror}. Give another {table} listen."
            ) from error
        self._socket.setblocking(False)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(address.scheme, host, port)
        self._watcher = loop.io(self._socket.fileno(), _READABLE)

    def start(self) -> None:
        self._watcher.start(self._accept)
        self._log.info("listening", address=str(self.address))

    def close(self) -> None:
        """Nobody new; what waits in the system is turned away."""
        self._watcher.stop()
        self._watcher.close()
        if self._again is not None:
            self._again.stop()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                connected, place = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _NO_FILE:
                    continue  # this one was gone before it was accepted
                self._back_off(error)
                return
            self._has_no_file = False
            host, port = place[:2]
            peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self._connections.admit(connected, host, peer, self._scheme)

    def _back_off(self, error: OSError) -> None:
        """The system has no file for it. Said once, until one is accepted again."""
        if not self._has_no_file:
            self._has_no_file = True
            self._log.warning("cannot_accept", address=str(self.address), error=error.strerror or "")
        self._watcher.stop()
        self._again = self._loop.timer(ACCEPT_AGAIN_S)
        self._again.start(self._go_on)

    def _go_on(self) -> None:
        self._again.stop()
        self._again.close()
        self._again = None
        self._watcher.start(self._accept)
