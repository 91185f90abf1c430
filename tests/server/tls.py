"""TLS below a connection, by ssl.MemoryBIO: a transport that no code of the server knows.

`python -m tests.server.tls PEM serve ...` is the command `radiator` with one scheme more, `stomps`.
"""

import contextlib
import ssl
import sys
from typing import Any

from radiator.model.limits import READ_BYTES, Limits
from radiator.model.principal import ANYONE, Principal
from radiator.model.settings import Address
from radiator.protocols import SCHEMES, Scheme
from radiator.protocols.stomp.session import StompSession
from radiator.server.listener import ACCEPTORS
from radiator.server.tcp import TcpAcceptor
from radiator.server.transport import PeerActivity, Sendable, Transport
from radiator.tools.cli import main
from radiator.tools.config import values

RECORD_BYTES = 16 * 1024


class TlsTransport:
    """Its bytes are those of another transport, encrypted."""

    def __init__(self, below: Transport, context: ssl.SSLContext) -> None:
        self._below = below
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._is_shaken = False
        self._unsent = b""  # encrypted
        self._withheld = 0  # bytes that were encrypted, and are not counted as taken yet

    @property
    def peer(self) -> str:
        return self._below.peer

    @property
    def network(self) -> str:
        return self._below.network

    @property
    def principal(self) -> Principal:
        return ANYONE  # a certificate of the other end would tell more

    def fileno(self) -> int:
        return self._below.fileno()

    def receive(self, most_bytes: int, /) -> bytes:
        data = self._below.receive(READ_BYTES)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        try:
            if not self._is_shaken:
                self._tls.do_handshake()
                self._is_shaken = True
            decrypted = self._decrypted()
        except ssl.SSLWantReadError:
            decrypted = b""
        self._flush()
        if data and not decrypted:
            raise BlockingIOError
        return decrypted

    def _decrypted(self) -> bytes:
        pieces = []
        try:
            while piece := self._tls.read(RECORD_BYTES):
                pieces.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(pieces)

    def send(self, data: Sendable, /) -> int:
        self._flush()
        if self._unsent:
            raise BlockingIOError
        fresh = memoryview(data)[self._withheld :]
        taken = self._withheld + (self._tls.write(fresh) if fresh else 0)
        self._flush()
        self._withheld = 1 if self._unsent else 0
        return taken - self._withheld

    def _flush(self) -> None:
        self._unsent += self._out.read()
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[self._below.send(self._unsent) :]

    def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it waits for the other end's goodbye, which need not come
            self._tls.unwrap()
        self._flush()
        self._below.finish()

    def close(self) -> None:
        self._below.close()

    def ask(self) -> PeerActivity:
        return self._below.ask()


class TlsAcceptor:
    """Listens on TCP. certificate: a file with the key in it."""

    certificate = ""

    def __init__(self, address: Address, limits: Limits) -> None:
        self._below = TcpAcceptor(address, limits)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate)
        self.address = self._below.address
        self.fileno = self._below.fileno

    def accept(self) -> TlsTransport:
        return TlsTransport(self._below.accept(), self._context)

    def close(self) -> None:
        self._below.close()


def add_scheme(certificate: str) -> None:
    """A row in each of the tables."""
    TlsAcceptor.certificate = certificate
    SCHEMES["stomps"] = Scheme("tls", StompSession)
    ACCEPTORS["tls"] = TlsAcceptor
    readers: dict[str, Any] = values._READERS
    readers["tls"] = readers["tcp"]


if __name__ == "__main__":
    add_scheme(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
