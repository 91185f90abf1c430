"""What carries the bytes of one connection: a TCP socket, a unix socket, or anything else that can do the same.

A connection depends on nothing below this. A transport that encrypts keeps two more rules: `receive` returns everything
that it has decrypted, since no watcher reports bytes that have left the system; and `send` counts the last byte of its
argument only when the system has all of it, so a connection whose outbox is empty has nothing left to send. tls.py has
such transports.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radiator.model.principal import ANYONE, Principal
from radiator.model.settings import ListenAddress

Sendable = bytes | memoryview


@dataclass(slots=True)
class PeerActivity:
    """What the system knows about the other end.

    unacked: segments that it has not acknowledged. unsent_bytes: bytes for which it has no window. probes: how many
    probes are unanswered. silent_ms: time since its system last answered anything. is_reset: it has reset the
    connection, and will not read what was sent to it.
    """

    unacked: int = 0
    unsent_bytes: int = 0
    probes: int = 0
    silent_ms: int = 0
    is_reset: bool = False

    @property
    def is_owing(self) -> bool:
        """Whether something sent has not arrived yet."""
        return self.unacked > 0 or self.unsent_bytes > 0


class Transport(Protocol):
    """Used on the hub only, and nothing here waits. An OSError other than BlockingIOError: the connection is lost.

    peer: the other end, as the log names it. network: connections of one network are counted together; "": of none.
    principal: the other end's identity, as far as the transport can tell, at the latest once it has returned bytes.
    says_first: whether anything can be sent before that. certificate_sha256: of the accepting end's certificate, as
    shown on this connection; b"": without TLS, or before the handshake. tls: the version of TLS; None likewise.
    """

    @property
    def peer(self) -> str: ...

    @property
    def network(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def says_first(self) -> bool: ...

    @property
    def certificate_sha256(self) -> bytes: ...

    @property
    def tls(self) -> str | None: ...

    def fileno(self) -> int:
        """Returns what the hub watches for bytes to read, or room to write."""

    def receive(self, most_bytes: int, /) -> bytes:
        """Returns what has arrived; b"" once the other end sends nothing more. BlockingIOError: nothing has arrived."""

    def send(self, data: Sendable, /) -> int:
        """Returns how many bytes were taken; the rest must be given again, first. BlockingIOError: none were."""

    def finish(self) -> None:
        """Tells the other end that nothing more follows; what that end sends is still read."""

    def close(self) -> None:
        """Closes at once."""

    def ask(self) -> PeerActivity:
        """Returns the state of the other end, as far as the system knows it."""


class SocketTransport:
    """A connected, non-blocking stream socket, which belongs to this object from now on. tls: the version at another
    end that it stands for, as a session of STOMP over HTTP stands for the client that opened it.
    """

    __slots__ = ("_ask", "_socket", "fileno", "network", "peer", "principal", "receive", "send", "tls")

    says_first = True
    certificate_sha256 = b""

    def __init__(
        self,
        connected: socket.socket,
        peer: str,
        network: str,
        ask: Callable[[socket.socket], PeerActivity],
        principal: Principal = ANYONE,
        tls: str | None = None,
    ) -> None:
        self.peer = peer
        self.network = network
        self.principal = principal
        self.tls = tls
        self._socket = connected
        self._ask = ask
        # the socket's own methods: no Python call between a connection and the system
        self.fileno = connected.fileno
        self.receive = connected.recv
        self.send = connected.send

    def end_input(self) -> None:
        """Ends the input, as if the other end had hung up."""
        self._socket.shutdown(socket.SHUT_RD)

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> PeerActivity:
        return self._ask(self._socket)


class Acceptor(Protocol):
    """A listening socket. address: where it listens, with the port or path that it got."""

    @property
    def address(self) -> ListenAddress: ...

    def fileno(self) -> int:
        """Returns what the hub watches: it is readable when a connection waits to be accepted."""

    def accept(self) -> SocketTransport:
        """Accepts the next. BlockingIOError: none waits; another OSError: it was lost, or the system has no room."""

    def close(self) -> None:
        """Stops listening."""
