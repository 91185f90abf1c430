"""TLS below a connection, by ssl.MemoryBIO: the transport at both ends, and what all encrypted listeners share.

    socket --bytes--> TlsTransport --do_handshake, then records--> what was sent

Connections keep the pair of certificate and key that they began with.
"""

import contextlib
import errno
import hashlib
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

from radiator.model.limits import (
    CERTIFICATE_LOOK_S,
    CERTIFICATE_WARN_DAYS,
    HANDSHAKES_PER_TURN,
    READ_BYTES,
    TLS_EMPTY_RECORDS,
    TLS_EMPTY_S,
    TLS_SLICE_BYTES,
    TLS_TINY_BYTES,
    TLS_UNSENT_BYTES,
    WRITE_BYTES,
)
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.users import User
from radiator.protocols.needs_tls import needs_tls
from radiator.protocols.peer.session import NEEDS_TLS
from radiator.server.certificate import day_text, end_s, user_of
from radiator.server.log import EventLog
from radiator.server.tls_pair import Pair, reason_of
from radiator.server.tls_records import TlsRecords
from radiator.server.transport import PeerActivity, Sendable, SocketTransport

HANDSHAKE = 0x16
"""The first byte of every TLS connection."""
_ALERT = 0x15  # or of an answer that refuses it


class TlsListeners:
    """What encrypted listeners share: the pair in force, the users of certificates, and this turn's handshake steps.

    Used on the hub only.
    """

    def __init__(
        self, loop: Any, pair: Pair, users: Iterable[User], log: EventLog, own: Mapping[str, Pair] | None = None
    ) -> None:
        self._loop = loop
        self._log = log
        self._turn = -1
        self._steps_left = 0
        self._timer = loop.timer(CERTIFICATE_LOOK_S, CERTIFICATE_LOOK_S, ref=False)
        self._timer.start(lambda: self.look(time.time()))
        self.users = users
        self.use(pair, own)

    def use(self, pair: Pair, own: Mapping[str, Pair] | None = None) -> None:
        """Sets the pair for new connections. own: the pairs of listeners that have one of their own, by address."""
        self.pair = pair
        self.own = own or {}
        self.look(time.time())

    def wrap(self, below: SocketTransport, address: str = "") -> "AcceptedTls":
        """Returns the transport, over that of its socket, of a client that the listener at that address accepted."""
        return AcceptedTls(below, self, self.own.get(address, self.pair))

    def wrap_link(self, below: SocketTransport, address: str = "") -> "AcceptedTls":
        """Returns the transport, over that of its socket, of a node that the listener at that address accepted."""
        return AcceptedTls(below, self, self.own.get(address, self.pair), is_link=True)

    def wrap_dialled(self, below: SocketTransport, host: str) -> "DialledTls":
        """Returns the transport of a connection that this node dialled. host: the dialled one, which the certificate
        must name. Raises ValueError if no certificate can; OSError if there is no CA to verify it by.
        """
        context = self.pair.to_nodes
        if context is None:
            raise OSError(errno.ENOENT, "[tls] has no peer_ca any more to judge its certificate by")
        return DialledTls(below, context, host)

    def look(self, now_s: float) -> None:
        """Warns of each certificate that is not valid, or expires soon."""
        for of, pair in {"[tls]": self.pair, **self.own}.items():
            one = pair.certificate
            if now_s < one.valid_from_s:
                sentence = f"It is valid from {day_text(one.valid_from_s)} on."
                self._log.warning("certificate_not_valid", of=of, sentence=sentence)
            elif now_s >= one.valid_to_s:
                sentence = f"It was valid until {day_text(one.valid_to_s)}."
                self._log.warning("certificate_not_valid", of=of, sentence=sentence)
            elif one.days_left(now_s) < CERTIFICATE_WARN_DAYS:
                self._log.warning("certificate_ends", of=of, days=one.days_left(now_s), ends=day_text(one.valid_to_s))

    def left_s(self) -> dict[str, int]:
        """Returns the seconds until each certificate expires; below 0: since it expired. By the address of a listener
        with its own; "": that of all others.
        """
        now_s = time.time()
        return {of: int(pair.certificate.valid_to_s - now_s) for of, pair in {"": self.pair, **self.own}.items()}

    def may_step(self) -> bool:
        """Returns whether one more handshake step may be made in this turn of the loop; if so, counts it."""
        turn = self._loop.iteration
        if turn != self._turn:
            self._turn, self._steps_left = turn, HANDSHAKES_PER_TURN
        if not self._steps_left:
            return False
        self._steps_left -= 1
        return True

    def failed(self, transport: "AcceptedTls", reason: str) -> None:
        """Logs a failed handshake."""
        fields = {"peer": transport.peer, "reason": reason}
        self._log.write("warning", "tls_failed", fields, transport.network)


class TlsTransport:
    """Encrypts a connection's bytes on their way to another transport: what both ends have in common.

    `send` raises OSError before the handshake is over.
    """

    __slots__ = (
        "_below",
        "_has_begun",
        "_in",
        "_is_shaken",
        "_most_bytes",
        "_out",
        "_records",
        "_tls",
        "_unsent",
        "_withheld",
        "certificate_sha256",
        "fileno",
        "network",
        "peer",
    )

    def __init__(self, below: SocketTransport, context: ssl.SSLContext, host: str | None) -> None:
        """host: the one that was dialled; None: this end accepted the connection."""
        self.peer = below.peer
        self.network = below.network
        self.certificate_sha256 = b""
        self.fileno = below.fileno
        self._below = below
        self._in: Any = ssl.MemoryBIO()
        self._out: Any = ssl.MemoryBIO()
        self._tls: Any = context.wrap_bio(self._in, self._out, server_side=host is None, server_hostname=host)
        self._has_begun = self._is_shaken = False
        self._records = TlsRecords()
        self._most_bytes = READ_BYTES
        self._unsent = b""  # encrypted
        self._withheld = b""  # a last byte that is encrypted, but not counted as taken yet

    @property
    def says_first(self) -> bool:
        """Whether the handshake is over: nothing can be sent before."""
        return self._is_shaken

    @property
    def principal(self) -> Principal:
        return ANYONE

    @property
    def tls(self) -> str | None:
        version: str | None = self._tls.version() if self._is_shaken else None
        return version

    # ---- reading

    def receive(self, most_bytes: int, /) -> bytes:
        data = self._below.receive(min(most_bytes, self._most_bytes))
        if not data:
            return b""
        if not self._has_begun:
            self._begin(data)
        self._has_begun = True
        pieces: list[bytes] = []
        is_over = self._take(data, pieces)
        if self._out.pending:
            self._flush()
            if len(self._unsent) > TLS_UNSENT_BYTES:
                raise ConnectionAbortedError(errno.ECONNABORTED, "the other end does not read what TLS answers it")
        if is_over and not pieces:
            return b""
        if is_over:
            self._below.end_input()  # what was sent before the end comes first; then the socket is reported again
        if not pieces:
            raise BlockingIOError
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _begin(self, data: bytes) -> None:
        """Checks the first bytes that arrive. Raises OSError if they are not TLS."""

    def _take(self, data: bytes, pieces: list[bytes]) -> bool:
        """Appends what those bytes from the other end say. Returns whether nothing follows."""
        records = 0
        for portion, ended in self._records.cut(data):
            is_counted, before = self._is_shaken, len(pieces)
            self._in.write(portion)
            if self._decrypt(pieces):
                return True
            if is_counted:
                records += ended
                empty = ended - (len(pieces) - before)
                if empty > 0 and self._records.are_too_many(empty, time.monotonic()):
                    self._fail(f"more than {TLS_EMPTY_RECORDS} records without data in {TLS_EMPTY_S:.0f} s")
        self._most_bytes = TLS_SLICE_BYTES if records * TLS_TINY_BYTES > len(data) else READ_BYTES
        return False

    def _decrypt(self, pieces: list[bytes]) -> bool:
        """Decrypts what has arrived, as far as it can. Returns whether the other end has said that nothing follows."""
        try:
            if not self._is_shaken:
                self._tls.do_handshake()
                self._recognise()
                self._is_shaken = True
            while piece := self._tls.read(TLS_SLICE_BYTES):
                pieces.append(piece)
                if not (self._in.pending or self._tls.pending()):
                    return False  # without the exception of another read, which takes 1 us
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            self._fail(reason_of(error))
        return True

    def _recognise(self) -> None:
        """Reads the other end's certificate, which is verified."""

    def _fail(self, reason: str) -> None:
        """Sends the alert, if there is one, and raises OSError with that reason."""
        with contextlib.suppress(OSError):
            self._flush()  # the alert
        raise ConnectionAbortedError(errno.ECONNABORTED, f"TLS: {reason}")

    # ---- writing

    def send(self, data: Sendable, /) -> int:
        if not self._is_shaken:
            raise ConnectionAbortedError(errno.ECONNABORTED, "TLS: the handshake is not over")
        if self._unsent:
            self._flush()
            if self._unsent:
                raise BlockingIOError
        taken = min(len(data), WRITE_BYTES)
        left = memoryview(data)[:taken]
        # the byte is missing if its frame was dropped meanwhile
        if self._withheld and left[:1] == self._withheld:
            left = left[1:]
        self._withheld = b""
        encrypted = []
        while left:
            left = left[self._tls.write(left[:TLS_SLICE_BYTES]) :]
            encrypted.append(self._out.read())
        self._unsent = encrypted[0] if len(encrypted) == 1 else b"".join(encrypted)
        self._flush()
        if self._unsent:
            taken -= 1
            self._withheld = bytes(data[taken : taken + 1])
        return taken

    def _flush(self) -> None:
        """Sends as much of what is encrypted as the system takes."""
        unsent = self._unsent + self._out.read() if self._out.pending else self._unsent
        try:
            while unsent:
                unsent = unsent[self._below.send(unsent) :]
        except BlockingIOError:
            pass
        self._unsent = unsent

    # ---- the end

    def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it waits for the other end's goodbye, which need not come
            self._tls.unwrap()
        self._flush()
        self._below.finish()

    def close(self) -> None:
        self._below.close()
        self._is_shaken = False
        # some 35 KiB, freed now although the inbox, for one, may hold the connection for a while yet
        self._tls = self._in = self._out = None

    def ask(self) -> PeerActivity:
        return self._below.ask()


class AcceptedTls(TlsTransport):
    """The accepting end. principal: ANYONE until the handshake is over.

    is_link: the other end is a node; the code that accepted it logs what comes of it.
    """

    __slots__ = ("_certificate", "_client_ends_s", "_is_link", "_listeners")

    def __init__(self, below: SocketTransport, listeners: TlsListeners, pair: Pair, is_link: bool = False) -> None:
        super().__init__(below, pair.of_nodes if is_link else pair.context, None)
        self.certificate_sha256 = bytes.fromhex(pair.certificate.sha256)
        self._certificate: Any = None
        self._client_ends_s = pair.client_ends_s
        self._is_link = is_link
        self._listeners = listeners

    def receive(self, most_bytes: int, /) -> bytes:
        # a socket that is not read from is reported again in the next turn
        if not self._is_shaken and not self._listeners.may_step():
            raise BlockingIOError
        return super().receive(most_bytes)

    def _begin(self, data: bytes) -> None:
        if data[0] == HANDSHAKE:
            return
        with contextlib.suppress(OSError):
            self._below.send(NEEDS_TLS if self._is_link else needs_tls(data))
        if not self._is_link:
            self._fail("the client does not speak TLS: it needs stomps://, amqps:// or https://, or another port")
        self._fail("the other side does not speak TLS: it must have peers:// in this node's address")

    def _recognise(self) -> None:
        try:
            self._certificate = self._tls.getpeercert()
        except ValueError:  # a name in it is not UTF-8
            self._fail("the client's certificate has a name that is not text")
        # a ticket's certificate was verified earlier: OpenSSL does not check again whether it or its CA has expired
        if self._certificate and self._end_s <= time.time():
            self._fail("the client's certificate has expired, or its CA")

    @property
    def principal(self) -> Principal:
        """The certificate's user, looked up now: a reload may have given the certificate to another one."""
        if not self._certificate:
            return ANYONE
        user = user_of(self._certificate, self._listeners.users)
        if user is None:
            return ANYONE
        proof = user.certificate or ""
        return Principal(user.name, RecognisedBy.CERTIFICATE, until_ms=self._end_s * 1000, proof=proof)

    @property
    def _end_s(self) -> int:
        return end_s(self._certificate, self._client_ends_s)

    def _fail(self, reason: str) -> None:
        if not self._is_shaken and not self._is_link:
            self._listeners.failed(self, reason)
        super()._fail(reason)


class DialledTls(TlsTransport):
    """The dialling end, which verifies the other's certificate: that it comes from a CA of peer_ca, is valid now, names
    the dialled host and, if it says what it is meant for, is meant for servers.
    """

    __slots__ = ()

    def __init__(self, below: SocketTransport, context: ssl.SSLContext, host: str) -> None:
        """Begins the handshake; `receive` continues it. Raises ValueError if no certificate can name that host."""
        super().__init__(below, context, host.partition("%")[0])  # without the zone of an IPv6 address
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._flush()

    def _begin(self, data: bytes) -> None:
        if data[0] not in (HANDSHAKE, _ALERT):
            self._fail("the other side does not speak TLS: is peer:// its address?")

    def _recognise(self) -> None:
        shown = self._tls.getpeercert(binary_form=True)
        assert shown, "it is verified, so there is one"
        self.certificate_sha256 = hashlib.sha256(shown).digest()
