"""The files of TLS: a certificate and its key, and the files of CAs. They are read and checked together before they are
used: by a start before it listens, by a reload before they replace the old ones.
"""

import errno
import hashlib
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radiator.model.errors import ConfigError
from radiator.model.file_text import unmarked
from radiator.model.limits import TLS_CA_BYTES, TLS_FILE_BYTES
from radiator.model.settings import NONE, OPTIONAL, REQUIRED, TlsSettings
from radiator.server.certificate import Certificate, ends_s, read_certificate, subject_text

# other keys are too weak, or too slow: one handshake with RSA 4096 takes 5 ms, in which all other clients wait
KEYS = ("EC P-256", "EC P-384", "Ed25519", "RSA 2048")
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # for TLS 1.2; every cipher of TLS 1.3 is accepted
_VERIFY = {NONE: ssl.CERT_NONE, OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
_LINK = "radiator-link"  # the ALPN name of the protocol between nodes
_KEY_BEGINS = "-----BEGIN PRIVATE KEY-----"
_CAS_SHOWN = 8
# mode bits that are refused; a group may read the file, as systemd's credentials and Debian's ssl-cert need
_NOT_FOR_A_KEY = 0o037


@dataclass(slots=True, frozen=True)
class Pair:
    """A certificate and the key that belongs to it, ready to be used.

    context: for clients. of_nodes: for nodes that dial this one, which are asked for no certificate. to_nodes: for
    nodes that this one dials; None: there is no peer_ca. cas: by setting, the files of CAs as the report of a reload
    names them. client_ends_s: when the CAs of clients expire, as `ends_s` returns it.
    """

    certificate: Certificate
    context: ssl.SSLContext
    of_nodes: ssl.SSLContext
    to_nodes: ssl.SSLContext | None
    cas: Mapping[str, str] = field(default_factory=dict)
    client_ends_s: Mapping[Any, int] = field(default_factory=dict)


def load_pair(settings: TlsSettings) -> Pair:
    """Reads and checks the files of [tls]. Raises ConfigError with what is wrong."""
    try:
        return _load(settings)
    except ValueError as wrong:
        raise ConfigError([f"{wrong}."]) from None


def _load(settings: TlsSettings) -> Pair:
    certificate = _certificate(settings.certificate)
    _check_key(settings.key)
    context, of_nodes = _context(ssl.PROTOCOL_TLS_SERVER, "stomp"), _context(ssl.PROTOCOL_TLS_SERVER, _LINK)
    for one in (context, of_nodes):
        _load_key(one, settings)
    context.verify_mode = _VERIFY[settings.client_certificates]
    cas = {}
    if settings.client_ca is not None:
        cas["client_ca"] = _load_ca(context, "client_ca", settings.client_ca, "clients'")
    to_nodes = None
    if settings.peer_ca is not None:
        to_nodes = _context(ssl.PROTOCOL_TLS_CLIENT, _LINK)  # it verifies the certificate and its name
        to_nodes.hostname_checks_common_name = False  # names stand in subjectAltName alone (RFC 9525)
        cas["peer_ca"] = _load_ca(to_nodes, "peer_ca", settings.peer_ca, "nodes'")
    if _certificate(settings.certificate) != certificate:
        raise ValueError(f"tls.certificate is {settings.certificate}, which was replaced as it was read; read it again")
    return Pair(certificate, context, of_nodes, to_nodes, cas, ends_s(_cas_of(context)))


def _context(side: int, protocol: str) -> ssl.SSLContext:
    """Returns a new context. protocol: its ALPN name."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols([protocol])
    # everybody has it. Python can name one group only, and by default the other end may choose slower ones: a step of a
    # handshake with ffdhe8192 takes 100 ms, with P-384 2 ms
    context.set_ecdh_curve("prime256v1")
    return context


def _check(key: str, path: Path, forbidden: int = 0) -> None:
    """Checks that the file can be used. forbidden: bits that its mode must not have. Raises ValueError with a
    clause.
    """
    try:
        found = path.stat()
        if not os.access(path, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"tls.{key} is {path}, which cannot be read ({error.strerror}); name a file in PEM") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"tls.{key} is {path}, which is not a file; name one in PEM")
    if found.st_mode & forbidden:
        wrong = f"tls.{key} is {path}, of mode {stat.S_IMODE(found.st_mode):04o}, so others may read or change it"
        raise ValueError(f"{wrong}; chmod 600 {path.name}, or 640 for a group that may read it")


def _contents(key: str, path: Path, what: str, most_bytes: int, forbidden: int = 0) -> bytes:
    """Returns the file's contents. what: the subject of the sentence about its size. forbidden: as in `_check`. Raises
    ValueError with a clause.
    """
    _check(key, path, forbidden)
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"tls.{key} is {path}, which has more; {what} at most {most_bytes} bytes")
    try:
        return unmarked(data)
    except ValueError as wrong:
        raise ValueError(f"tls.{key} is {path}, which {wrong}") from None


def _certificate(path: Path) -> Certificate:
    """Returns the broker's certificate. Raises ValueError with a clause if it cannot be used."""
    data = _contents("certificate", path, "a certificate and those that lead to its CA have", TLS_FILE_BYTES)
    try:
        certificate = read_certificate(data.decode("utf-8", "replace"))
    except ValueError as wrong:
        right = "it must have a PEM certificate, followed by those that lead to its CA"
        raise ValueError(f"tls.certificate is {path}, which {wrong}; {right}") from None
    if certificate.key not in KEYS:
        weak = f"tls.certificate is {path}, whose key is {certificate.key}, too weak or too slow for a broker"
        raise ValueError(f"{weak}; it must be {', '.join(KEYS[:-1])} or {KEYS[-1]}")
    return certificate


def _check_key(path: Path) -> None:
    """Raises ValueError, with a clause, if the file has no key: OpenSSL's error would not say so."""
    data = _contents("key", path, "a key has", TLS_FILE_BYTES, _NOT_FOR_A_KEY)
    if b"PRIVATE KEY-----" not in data:
        wrong = "has none" if data.strip() else "is empty"
        raise ValueError(f"tls.key is {path}, which {wrong}; it must have a private key in PEM, as {_KEY_BEGINS}")


def _load_ca(context: ssl.SSLContext, key: str, path: Path, whose: str) -> str:
    """Loads the CAs of a file, and returns their names for a report. Raises ValueError with a clause if they cannot be
    used.
    """
    data = _contents(key, path, "the CAs of a file have", TLS_CA_BYTES, stat.S_IWOTH)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        wrong = f"tls.{key} is {path}, which has no certificate of a CA ({reason_of(error)})"
        raise ValueError(f"{wrong}; it must have in PEM the CAs that {whose} certificates come from") from None
    names = [subject_text(one["subject"]) for one in _cas_of(context)]
    more = len(names) - _CAS_SHOWN
    shown = ", ".join(names[:_CAS_SHOWN]) + f" and {more} more" * (more > 0)
    return f"{shown}; SHA-256 of the file {hashlib.sha256(data).hexdigest()[:16]}".removeprefix("; ")


def _cas_of(context: ssl.SSLContext) -> list[dict[str, Any]]:
    """Returns the CAs that the context trusts; none if one has a name that is not UTF-8, which Python cannot read."""
    try:
        return context.get_ca_certs()
    except ValueError:
        return []


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Loads the certificate and its key. Raises ValueError, with a clause, if they do not belong together."""
    is_encrypted = False

    def no_passphrase() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return ""

    try:
        context.load_cert_chain(settings.certificate, settings.key, no_passphrase)
    except (ssl.SSLError, OSError) as error:
        if is_encrypted:
            wrong = f"tls.key is {settings.key}, which has a passphrase; the broker cannot ask for one"
            right = f"write it without: openssl pkey -in {settings.key.name} -out plain.key; chmod 600 plain.key"
        elif isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            wrong = f"tls.key is {settings.key}, which does not belong to the certificate {settings.certificate}"
            right = "name the key that the certificate was requested with"
        elif isinstance(error, ssl.SSLError) and error.reason is None:  # OpenSSL gives no reason for it
            key, path = (
                ("key", settings.key) if _are_whole(settings.certificate) else ("certificate", settings.certificate)
            )
            wrong, right = f"tls.{key} is {path}, which is damaged", "it must be whole, and in PEM"
        else:
            wrong = f"tls.certificate is {settings.certificate} and tls.key {settings.key}, which cannot be used"
            wrong, right = f"{wrong} ({reason_of(error)})", "both must be in PEM, and belong together"
        raise ValueError(f"{wrong}; {right}") from None


def _are_whole(certificates: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificates)
    except OSError:
        return False
    return True


def reason_of(error: OSError) -> str:
    """Returns why OpenSSL, or the system, has refused something, in its own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "unknown error").replace("_", " ").lower()
    return error.strerror or type(error).__name__
