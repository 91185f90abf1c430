"""A TlsTransport and its client, or two nodes, in one process, at the ends of a pair of real sockets."""

import contextlib
import socket
import ssl

import gevent

from radiator.model.settings import TlsSettings
from radiator.server.log import EventLog
from radiator.server.tls import TlsListeners, TlsTransport
from radiator.server.tls_pair import load_pair
from radiator.server.transport import PeerActivity, SocketTransport


class Pipe:
    """A TlsTransport at one end of a pair of sockets, and its client at the other; no hub between them."""

    def __init__(self, listeners: TlsListeners, client: ssl.SSLContext, is_link: bool = False) -> None:
        ours, self.socket = socket.socketpair()
        ours.setblocking(False)
        self.socket.setblocking(False)
        for one in (ours, self.socket):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        wrap = listeners.wrap_link if is_link else listeners.wrap
        self.transport: TlsTransport = wrap(SocketTransport(ours, "peer", "net", lambda _: PeerActivity()))
        self.input, self.output = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client.wrap_bio(self.input, self.output, server_hostname="localhost")

    def client_sends(self) -> None:
        while self.output.pending:
            self.socket.sendall(self.output.read())

    def client_takes(self) -> None:
        try:
            while data := self.socket.recv(65_536):
                self.input.write(data)
            self.input.write_eof()
        except BlockingIOError:
            pass

    def receive(self) -> bytes:
        """What the broker would get; b"-" where nothing has come."""
        try:
            return self.transport.receive(65_536)
        except BlockingIOError:
            return b"-"

    def shake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.client_sends()
                gevent.sleep(0)  # another turn, with other handshakes
                assert self.receive() == b"-"
                self.client_takes()
                continue
            break
        self.client_sends()
        while not self.transport.says_first:
            gevent.sleep(0)
            assert self.receive() == b"-"

    def client_reads(self) -> bytes:
        self.client_takes()
        pieces = []
        try:
            while piece := self.tls.read(65_536):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(pieces)

    def close(self) -> None:
        self.transport.close()
        self.socket.close()


class Ends:
    """A node that has dialled, by that host, and one that has accepted; both have the files of `given`."""

    def __init__(self, given: TlsSettings, log: EventLog, host: str = "localhost") -> None:
        one, other = socket.socketpair()
        for end in (one, other):
            end.setblocking(False)
        self.listeners = TlsListeners(gevent.get_hub().loop, load_pair(given), [], log)
        self.acceptor = self.listeners.wrap_link(SocketTransport(one, "a", "", lambda _: PeerActivity()))
        self._one, self._other = one, other
        self.below = SocketTransport(other, "b", "", lambda _: PeerActivity())
        self.dialler = self.listeners.wrap_dialled(self.below, host)

    def shake(self) -> None:
        """Raises OSError where the handshake fails."""
        for _ in range(6):
            gevent.sleep(0)
            for end in (self.acceptor, self.dialler):
                with contextlib.suppress(BlockingIOError):
                    assert end.receive(65_536) is None, "nobody has said anything"
        assert self.dialler.says_first and self.acceptor.says_first

    def intercepted(self) -> bytes:
        """What is on its way to the dialler, and does not arrive."""
        return self._other.recv(65_536)

    def inject(self, data: bytes) -> int:
        """How much of it goes to the dialler, as if the acceptor had sent it."""
        return self._one.send(data)

    def close(self) -> None:
        self.acceptor.close()
        self.below.close()
