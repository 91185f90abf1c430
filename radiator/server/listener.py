"""One address that is listened on. What it accepts belongs to Connections."""

import errno
from collections.abc import Callable
from typing import Any

from radiator.model.errors import RadiatorError
from radiator.model.limits import ACCEPT_AGAIN_S, ACCEPTS_AT_ONCE, Limits
from radiator.model.settings import TCP, UNIX, ListenAddress, UnixAddress
from radiator.protocols.schemes import SCHEMES
from radiator.server.log import EventLog
from radiator.server.tcp import TcpAcceptor
from radiator.server.transport import Acceptor, SocketTransport, Transport
from radiator.server.unix import UnixAcceptor, check

ACCEPTORS: dict[str, Callable[[Any, Limits], Acceptor]] = {TCP: TcpAcceptor, UNIX: UnixAcceptor}
"""Makes the acceptor of each kind of transport from an address and the limits."""

_READABLE = 1
_NO_FILE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class AddressTaken(RadiatorError):
    """Another process, or another listener, has this address."""


class Listener:
    """Connections are queued by the system until `start` is called, and accepted from then on until `close`. Raises
    RadiatorError if the address cannot be listened on, AddressTaken if another process has it. admit: takes over each
    accepted transport. encrypt: wraps it in TLS first.
    """

    def __init__(
        self,
        loop: Any,
        address: ListenAddress,
        limits: Limits,
        admit: Callable[[Transport], object],
        log: EventLog,
        encrypt: Callable[[SocketTransport], Transport] | None = None,
    ) -> None:
        self._loop = loop
        self._admit = admit
        self._encrypt = encrypt
        self._log = log
        self._has_no_file = False
        self._again: Any = None
        try:
            self._acceptor = ACCEPTORS[SCHEMES[address.scheme].transport](address, limits)
        except OSError as error:
            kind = AddressTaken if error.errno == errno.EADDRINUSE else RadiatorError
            raise kind(_sentence(address, error)) from error
        self.address = self._acceptor.address
        self._watcher = loop.io(self._acceptor.fileno(), _READABLE)

    def start(self) -> None:
        self._watcher.start(self._accept)
        self._log.info("listening", address=str(self.address))

    def close(self) -> None:
        """Stops accepting. Connections that the system has queued are closed."""
        self._watcher.stop()
        self._watcher.close()
        if self._again is not None:
            self._again.stop()
        self._acceptor.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                transport = self._acceptor.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _NO_FILE:
                    continue  # this client hung up before it was accepted
                self._back_off(error)
                return
            self._has_no_file = False
            self._admit(transport if self._encrypt is None else self._encrypt(transport))

    def _back_off(self, error: OSError) -> None:
        """Waits a while, since the system has no file descriptor for a connection. Logged once, until one is accepted
        again.
        """
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


def refused(address: ListenAddress) -> str:
    """Returns why a start could not listen on an address that is not in use now, or "". What depends on other
    processes, such as a port that is taken, is not checked: it may have changed by then.
    """
    if not isinstance(address, UnixAddress):
        return ""
    try:
        check(address)
    except OSError as error:
        return _sentence(address, error)
    except RadiatorError as error:
        return str(error)
    return ""


def _sentence(address: ListenAddress, error: OSError) -> str:
    table = "[node]" if SCHEMES[address.scheme].session is None else "[server]"
    return f"Cannot listen on {address}: {error.strerror}. Give another {table} listen."
