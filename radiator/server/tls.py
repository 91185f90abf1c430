"""TLS below a connection, by ssl.MemoryBIO: the transport at both ends, and what all encrypted listeners share.

    socket --bytes--> TlsTransport --do_handshake, then records--> what was sent

The certificate and its key are read as a pair and checked before they are used: at the start before anything is
listened on, and by a reload before they take the place of the old ones. Connections keep what they began with.
"""

import contextlib
import errno
import hashlib
import os
import ssl
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radiator.model.errors import ConfigError
from radiator.model.limits import (
    CERTIFICATE_LOOK_S,
    CERTIFICATE_WARN_DAYS,
    HANDSHAKES_PER_TURN,
    TLS_FILE_BYTES,
    TLS_SLICE_BYTES,
    TLS_UNSENT_BYTES,
    WRITE_BYTES,
)
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.settings import NONE, OPTIONAL, REQUIRED, TlsSettings
from radiator.model.users import User
from radiator.protocols.needs_tls import needs_tls
from radiator.protocols.peer.session import NEEDS_TLS
from radiator.server.certificate import Certificate, day_text, read_certificate, user_of
from radiator.server.log import EventLog
from radiator.server.transport import PeerActivity, Sendable, SocketTransport

HANDSHAKE = 0x16
"""The first byte of every TLS connection."""
_ALERT = 0x15  # or of its answer

# others are too weak, or keep all other clients waiting: one handshake with RSA 4096 takes 5 ms
KEYS = ("EC P-256", "EC P-384", "Ed25519", "RSA 2048")
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all as good
_VERIFY = {NONE: ssl.CERT_NONE, OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
_LINK = "radiator-link"  # the protocol between nodes
_NOT_FOR_A_KEY = 0o037  # a group may read it, as that of systemd's credentials and of Debian's ssl-cert does


@dataclass(slots=True, frozen=True)
class Pair:
    """A certificate and its key, which belong together, ready to be used.

    context: for clients. of_nodes: for nodes that dial this one, which are asked for no certificate. to_nodes: for
    those that this one dials; None: without peer_ca.
    """

    certificate: Certificate
    context: ssl.SSLContext
    of_nodes: ssl.SSLContext
    to_nodes: ssl.SSLContext | None


def load_pair(settings: TlsSettings) -> Pair:
    """Reads and checks the files of [tls]. ConfigError: what is wrong with them."""
    try:
        return _load(settings)
    except ValueError as wrong:
        raise ConfigError([f"{wrong}."]) from None


def _load(settings: TlsSettings) -> Pair:
    certificate = _certificate(settings.certificate)
    _check("key", settings.key, _NOT_FOR_A_KEY)
    context, of_nodes = _context(ssl.PROTOCOL_TLS_SERVER, "stomp"), _context(ssl.PROTOCOL_TLS_SERVER, _LINK)
    for one in (context, of_nodes):
        _load_key(one, settings)
    context.verify_mode = _VERIFY[settings.client_certificates]
    if settings.client_ca is not None:
        _load_ca(context, "client_ca", settings.client_ca, "clients'")
    to_nodes = None
    if settings.peer_ca is not None:
        to_nodes = _context(ssl.PROTOCOL_TLS_CLIENT, _LINK)  # it verifies the certificate and its name
        to_nodes.hostname_checks_common_name = False  # names stand in subjectAltName alone (RFC 9525)
        _load_ca(to_nodes, "peer_ca", settings.peer_ca, "nodes'")
    if _certificate(settings.certificate) != certificate:
        raise ValueError(f"tls.certificate is {settings.certificate}, which was replaced as it was read; read it again")
    return Pair(certificate, context, of_nodes, to_nodes)


def _context(side: int, protocol: str) -> ssl.SSLContext:
    """protocol: as ALPN names it."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols([protocol])
    return context


def _check(key: str, path: Path, forbidden: int = 0) -> None:
    """forbidden: bits that the file's mode must not have. ValueError where it cannot be used."""
    try:
        found = path.stat()
        if not os.access(path, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"tls.{key} is {path}, which cannot be read ({error.strerror}); name a file in PEM") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"tls.{key} is {path}, which is no file; name one in PEM")
    if found.st_mode & forbidden:
        wrong = f"tls.{key} is {path}, of mode {stat.S_IMODE(found.st_mode):04o}, so others may read or change it"
        raise ValueError(f"{wrong}; chmod 600 {path.name}, or 640 for a group that may read it")


def _certificate(path: Path) -> Certificate:
    """The broker's own. ValueError where it cannot be used."""
    _check("certificate", path)
    with path.open("rb") as file:
        data = file.read(TLS_FILE_BYTES + 1)
    if len(data) > TLS_FILE_BYTES:
        right = f"a certificate and those that lead to its CA have at most {TLS_FILE_BYTES} bytes"
        raise ValueError(f"tls.certificate is {path}, which has more; {right}")
    try:
        certificate = read_certificate(data.decode("utf-8", "replace"))
    except ValueError as wrong:
        right = "it must have a certificate in PEM, and behind it those that lead to its CA"
        raise ValueError(f"tls.certificate is {path}, which {wrong}; {right}") from None
    if certificate.key not in KEYS:
        weak = f"tls.certificate is {path}, whose key is {certificate.key}, too weak or too slow for a broker"
        raise ValueError(f"{weak}; it must be {', '.join(KEYS[:-1])} or {KEYS[-1]}")
    return certificate


def _load_ca(context: ssl.SSLContext, key: str, path: Path, whose: str) -> None:
    _check(key, path, stat.S_IWOTH)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        wrong = f"tls.{key} is {path}, which has no certificate of a CA ({_reason(error)})"
        raise ValueError(f"{wrong}; it must have in PEM the CAs that {whose} certificates come from") from None


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Raises ValueError where the two do not belong together."""
    is_encrypted = False

    def no_passphrase() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return ""

    try:
        context.load_cert_chain(settings.certificate, settings.key, no_passphrase)
    except (ssl.SSLError, OSError) as error:
        if is_encrypted:
            wrong = f"tls.key is {settings.key}, which has a passphrase, and nobody is asked for it at a start"
            right = f"write it without: openssl pkey -in {settings.key.name} -out plain.key; chmod 600 plain.key"
        elif isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            wrong = f"tls.key is {settings.key}, which does not belong to the certificate {settings.certificate}"
            right = "name the key that the certificate was requested with"
        else:
            wrong = f"tls.certificate is {settings.certificate} and tls.key {settings.key}, which cannot be used"
            wrong, right = f"{wrong} ({_reason(error)})", "both must be in PEM, and belong together"
        raise ValueError(f"{wrong}; {right}") from None


def _reason(error: OSError) -> str:
    """In OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "unknown error").replace("_", " ").lower()
    return error.strerror or type(error).__name__


class TlsListeners:
    """What they share: the pair in force, the users that certificates stand for, and the handshakes of this turn.

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
        """For connections from now on. own: by its address, that of a listener which has not this pair."""
        self.pair = pair
        self.own = own or {}
        self.look(time.time())

    def wrap(self, below: SocketTransport, address: str = "") -> "AcceptedTls":
        """The transport of a client's connection that the listener there has accepted, over that of its socket."""
        return AcceptedTls(below, self, self.own.get(address, self.pair))

    def wrap_link(self, below: SocketTransport, address: str = "") -> "AcceptedTls":
        """The same of a node's."""
        return AcceptedTls(below, self, self.own.get(address, self.pair), is_link=True)

    def wrap_dialled(self, below: SocketTransport, host: str) -> "DialledTls":
        """That of a connection which this node has dialled. host: by which, and which the other's certificate must
        name. ValueError where no certificate can; OSError where there is no CA to judge it by.
        """
        context = self.pair.to_nodes
        if context is None:
            raise OSError(errno.ENOENT, "[tls] has no peer_ca any more to judge its certificate by")
        return DialledTls(below, context, host)

    def look(self, now_s: float) -> None:
        """Warns where a certificate is not valid, or will soon be no more."""
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
        """How long until the end of each certificate; below 0: since then. By the address of a listener with its own;
        "": that of all others.
        """
        now_s = time.time()
        return {of: int(pair.certificate.valid_to_s - now_s) for of, pair in {"": self.pair, **self.own}.items()}

    def may_step(self) -> bool:
        """Whether one more step of a handshake may be made in this turn of the loop. If so it is counted."""
        turn = self._loop.iteration
        if turn != self._turn:
            self._turn, self._steps_left = turn, HANDSHAKES_PER_TURN
        if not self._steps_left:
            return False
        self._steps_left -= 1
        return True

    def failed(self, transport: "AcceptedTls", reason: str) -> None:
        """In the log: a handshake that came to nothing."""
        fields = {"peer": transport.peer, "reason": reason}
        self._log.write("warning", "tls_failed", fields, transport.network)


class TlsTransport:
    """A connection's bytes, encrypted on their way to another transport: what both ends have in common.

    Nothing can be sent before the handshake is over: an OSError.
    """

    __slots__ = (
        "_below",
        "_has_begun",
        "_in",
        "_is_shaken",
        "_out",
        "_tls",
        "_unsent",
        "_withheld",
        "certificate_sha256",
        "fileno",
        "network",
        "peer",
    )

    def __init__(self, below: SocketTransport, context: ssl.SSLContext, host: str | None) -> None:
        """host: that was dialled; None: this end has accepted."""
        self.peer = below.peer
        self.network = below.network
        self.certificate_sha256 = b""
        self.fileno = below.fileno
        self._below = below
        self._in: Any = ssl.MemoryBIO()
        self._out: Any = ssl.MemoryBIO()
        self._tls: Any = context.wrap_bio(self._in, self._out, server_side=host is None, server_hostname=host)
        self._has_begun = self._is_shaken = False
        self._unsent = b""  # encrypted
        self._withheld = b""  # a last byte that was encrypted, and is not counted as taken yet

    @property
    def says_first(self) -> bool:
        """Only once the handshake is over."""
        return self._is_shaken

    @property
    def principal(self) -> Principal:
        return ANYONE

    # ---- reading

    def receive(self, most_bytes: int, /) -> bytes:
        data = self._below.receive(most_bytes)
        if not data:
            return b""
        if not self._has_begun:
            self._begin(data)
        self._has_begun = True
        pieces: list[bytes] = []
        is_over = False
        for begin in range(0, len(data), TLS_SLICE_BYTES):
            self._in.write(data[begin : begin + TLS_SLICE_BYTES])
            is_over = self._decrypt(pieces)
            if is_over:
                break
        if self._out.pending:
            self._flush()
            if len(self._unsent) > TLS_UNSENT_BYTES:
                raise ConnectionAbortedError(errno.ECONNABORTED, "the other end does not read what TLS answers it")
        if is_over and not pieces:
            return b""
        if is_over:
            self._below.end_input()  # what was sent before comes first; then the socket is reported again
        if not pieces:
            raise BlockingIOError
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _begin(self, data: bytes) -> None:
        """The first that has come. Raises OSError where that is no TLS."""

    def _decrypt(self, pieces: list[bytes]) -> bool:
        """Everything that can be, of what has come. Returns whether the other end has said that nothing follows."""
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
            self._fail(_reason(error))
        return True

    def _recognise(self) -> None:
        """What the other end's certificate says, which is verified."""

    def _fail(self, reason: str) -> None:
        """Nothing more can be said by TLS but why. Raises OSError."""
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
        # the byte is not there where its frame was dropped meanwhile
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
        """As much of what is encrypted as the system takes."""
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
        # some 35 KiB, which nobody shall hold who holds the connection for a while yet, as the timetable does
        self._tls = self._in = self._out = None

    def ask(self) -> PeerActivity:
        return self._below.ask()


class AcceptedTls(TlsTransport):
    """At the end that has accepted. principal: ANYONE until the handshake is over.

    is_link: the other end is a node, and whoever has accepted it says in the log what comes of that.
    """

    __slots__ = ("_certificate", "_is_link", "_listeners")

    def __init__(self, below: SocketTransport, listeners: TlsListeners, pair: Pair, is_link: bool = False) -> None:
        super().__init__(below, pair.of_nodes if is_link else pair.context, None)
        self.certificate_sha256 = bytes.fromhex(pair.certificate.sha256)
        self._certificate: Any = None
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
            self._fail("the client does not speak TLS: it needs stomps:// or https://, or another port")
        self._fail("the other side does not speak TLS: it must have peers:// in this node's address")

    def _recognise(self) -> None:
        try:
            self._certificate = self._tls.getpeercert()
        except ValueError:  # of names that are no UTF-8
            self._fail("the client's certificate has a name that is no text")
        # a ticket is of a certificate that was verified then: OpenSSL does not look at its end again
        if self._certificate and ssl.cert_time_to_seconds(self._certificate["notAfter"]) <= time.time():
            self._fail("the client's certificate is over")

    @property
    def principal(self) -> Principal:
        """By the users of now: a reload may have given the certificate to another one."""
        if not self._certificate:
            return ANYONE
        user = user_of(self._certificate, self._listeners.users)
        if user is None:
            return ANYONE
        until_ms = int(ssl.cert_time_to_seconds(self._certificate["notAfter"])) * 1000
        return Principal(user.name, RecognisedBy.CERTIFICATE, until_ms=until_ms, proof=user.certificate or "")

    def _fail(self, reason: str) -> None:
        if not self._is_shaken and not self._is_link:
            self._listeners.failed(self, reason)
        super()._fail(reason)


class DialledTls(TlsTransport):
    """At the end that has dialled, which verifies the other's certificate: that it comes from a CA of peer_ca, is valid
    now, is meant for servers where it says what it is meant for, and names the host that was dialled.
    """

    __slots__ = ()

    def __init__(self, below: SocketTransport, context: ssl.SSLContext, host: str) -> None:
        """Begins the handshake; `receive` goes on with it. ValueError: no certificate can name that host."""
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
