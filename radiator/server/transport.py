"""What carries the bytes of one connection: a TCP socket, a unix socket, or anything else that can do the same.

A connection knows nothing below this. A transport that encrypts keeps two rules more: `receive` gives all that it has
decrypted, since no watcher tells of bytes that have left the system; and `send` counts the last byte of what it is
given only when all of it is with the system, so a connection whose outbox is empty has nothing left to send.
tests/server/tls.py is one.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radiator.model.settings import ListenAddress

Sendable = bytes | memoryview


@dataclass(slots=True)
class Answer:
    """What the system says of the other end.

    unacked: segments that it has not acknowledged. unsent_bytes: what it has no window for. probes: how often it was
    asked in vain. silent_ms: since its system last answered anything. is_reset: it has ended the connection at once,
    and will not read what was sent to it.
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

    peer: the other end, as the log names it. network: whose connections are counted together; "" for nobody's.
    """

    @property
    def peer(self) -> str: ...

    @property
    def network(self) -> str: ...

    def fileno(self) -> int:
        """What the hub watches for bytes to read, or room to write."""

    def receive(self, most_bytes: int, /) -> bytes:
        """What has come; b"" once the other end sends nothing more. BlockingIOError: nothing has come."""

    def send(self, data: Sendable, /) -> int:
        """How many bytes of it were taken; the others are given again, first. BlockingIOError: none."""

    def finish(self) -> None:
        """Nothing more is sent; what the other end sends is still read."""

    def close(self) -> None:
        """Gone, at once."""

    def ask(self) -> Answer:
        """How the other end is, as far as the system knows."""


class SocketTransport:
    """A connected stream socket that does not block, and belongs to this from now on."""

    __slots__ = ("_ask", "_socket", "fileno", "network", "peer", "receive", "send")

    def __init__(
        self, connected: socket.socket, peer: str, network: str, ask: Callable[[socket.socket], Answer]
    ) -> None:
        self.peer = peer
        self.network = network
        self._socket = connected
        self._ask = ask
        # the socket's own methods: no call of ours stands between a connection and the system
        self.fileno = connected.fileno
        self.receive = connected.recv
        self.send = connected.send

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> Answer:
        return self._ask(self._socket)


class Acceptor(Protocol):
    """A socket that listens. address: where, with the port or path that it has."""

    @property
    def address(self) -> ListenAddress: ...

    def fileno(self) -> int:
        """Readable where somebody wants to connect."""

    def accept(self) -> Transport:
        """The next one. BlockingIOError: nobody; another OSError: that one was lost, or the system has no room."""

    def close(self) -> None:
        """Listens no more."""
