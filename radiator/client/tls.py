"""TLS to a broker: what is verified, and what the error says if that fails.

The certificate must come from a CA that this system trusts, or from that of `ca_file`, be valid, and have the host of
the address among its names. This cannot be turned off.
"""

import contextlib
import os
import socket
import ssl
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from radiator.client import arguments
from radiator.client.address import Address, AddressError, addresses_of
from radiator.client.errors import ConnectionLost
from radiator.model.file_text import unmarked
from radiator.model.limits import TLS_FILE_BYTES

NAMES_SHOWN = 8
# how sentences say where a file was given: programs with other names for it replace these
NAME_CA, NAME_CERTIFICATE = "(ca_file, or --ca)", "(certificate and key)"
_WRONG_NAME = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_YET, _EXPIRED = 9, 10
_NO_CA = frozenset({2, 18, 19, 20, 21})  # its CA is missing, is the certificate itself, or is not trusted
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})
_WANTS_ONE = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"})


class WrongName(Exception):
    """The broker's certificate is trusted, but is for another host."""


def addresses_with(
    given: str | Address | Sequence[str | Address], ca_file: str | None, certificate: str | None, key: str | None
) -> list[Address]:
    """Returns a client's addresses, with the files that the client was given. Raises AddressError, TypeError."""
    given_files = {"ca_file": ca_file, "certificate": certificate, "key": key}
    files: dict[str, Any] = {name: file for name, file in given_files.items() if file is not None}
    for name, file in files.items():
        arguments.text(name, file)
    found = addresses_of(given)
    if files and not any(one.is_tls for one in found):
        raise AddressError(f"{next(iter(files))} is given, but no address has TLS: write stomps://HOST:PORT.")
    with_files = [replace(one, **files) if one.is_tls else one for one in found]
    for one in with_files:
        if one.key and not one.certificate:
            raise AddressError(f"key {one.key!r} is given without a certificate: name that too.")
        if one.is_tls:
            context_of(one)
    return with_files


def context_of(address: Address) -> ssl.SSLContext:
    """Returns the context for a connection to that address. Raises AddressError if its files cannot be used."""
    for name in ("ca_file", "certificate", "key"):
        _check_file(name, getattr(address, name))
    try:
        context = ssl.create_default_context(cafile=address.ca_file or None)
    except OSError as failed:
        why = "it has no certificate in PEM" if isinstance(failed, ssl.SSLError) else failed.strerror
        raise AddressError(f"ca_file {address.ca_file!r} cannot be used: {why}.") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False  # names are in subjectAltName alone (RFC 9525)
    context.set_alpn_protocols(["stomp"])
    if address.certificate:
        _show(context, address)
    return context


def _check_file(name: str, file: str) -> None:
    """Raises AddressError if a file is a pipe: the files are read again for each connection."""
    try:
        mode = os.stat(file).st_mode if file else stat.S_IFREG
    except (OSError, ValueError):  # OpenSSL says why
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise AddressError(f"{name} {file!r} cannot be used: it is not a regular file.")


def _show(context: ssl.SSLContext, address: Address) -> None:
    """Has the context show the client's own certificate to brokers that ask for one."""
    is_encrypted = False

    def no_passphrase() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return ""

    try:
        context.load_cert_chain(address.certificate, address.key or None, no_passphrase)
    except OSError as failed:
        files = f"certificate {address.certificate!r}" + f" with key {address.key!r}" * bool(address.key)
        asked = "its key has a passphrase, and the client does not ask for one"
        why = asked if is_encrypted else _wrong_pair(address, failed)
        raise AddressError(f"The {files} cannot be used: {why}.") from None


def _wrong_pair(address: Address, failed: OSError) -> str:
    """Says what is wrong itself, since OpenSSL has no words for a file without a key."""
    if not isinstance(failed, ssl.SSLError) or failed.reason is not None:
        return reason(failed)
    file = address.key or address.certificate
    try:
        with open(file, "rb") as key:
            data = unmarked(key.read(TLS_FILE_BYTES))
    except ValueError as wrong:
        return f"{file!r} {wrong}"
    except OSError as wrong:
        return reason(wrong)
    return "one of them is damaged" if b"PRIVATE KEY-----" in data else f"{file!r} has no private key in PEM"


def reason(failed: OSError) -> str:
    """Returns why it failed, in OpenSSL's words or the system's."""
    if isinstance(failed, ssl.SSLError):
        return (failed.reason or "unknown error").replace("_", " ").lower()
    return failed.strerror or str(failed)


def cannot_verify(address: Address, failed: OSError) -> ConnectionLost:
    """Returns why there is no TLS with that broker, as a sentence. Raises WrongName if saying why takes a look at the
    certificate.
    """
    if isinstance(failed, ssl.SSLCertVerificationError):
        code = failed.verify_code
        if code in _WRONG_NAME:
            raise WrongName from None
        if code in _NO_CA:
            whose = f"the CA of {address.ca_file!r}" if address.ca_file else "any CA that this system trusts"
            why = f"its certificate does not come from {whose}: name the file of its CA {NAME_CA}"
        elif code == _EXPIRED:
            why = "its certificate has expired: it must be renewed at the broker"
        elif code == _NOT_YET:
            why = "its certificate is not valid yet: look at the clocks of both machines"
        else:
            why = f"its certificate is not accepted ({failed.verify_message})"
    elif isinstance(failed, ssl.SSLError) and failed.reason not in _NO_TLS:
        why = f"the handshake of TLS has failed ({reason(failed)})"
    else:
        why = "it does not answer in TLS: is that port one of stomps://?"
    return ConnectionLost(f"Cannot connect to {address}: {why}" + "." * (not why.endswith("?")))


def wrong_name(address: Address, timeout_s: float) -> ConnectionLost:
    """Returns the sentence that says which names the certificate has. It connects once more to see them, and sends
    nothing on that connection; the certificate is verified there too, except for its name.
    """
    names: list[str] = []
    with contextlib.suppress(OSError, AddressError):
        context = context_of(address)
        context.check_hostname = False
        with (
            socket.create_connection((address.host, address.port), timeout_s) as one,
            context.wrap_socket(one, server_hostname=address.host) as found,
        ):
            certificate: dict[str, Any] = found.getpeercert() or {}
            names = [value for _, value in certificate.get("subjectAltName", ())]
    shown = ", ".join(repr(name) for name in names[:NAMES_SHOWN]) + ", ..." * (len(names) > NAMES_SHOWN)
    has = f"it is for {shown}" if names else "it names others, or none"
    why = f"its certificate is not for {address.host!r}; {has}. Connect by a name that it has."
    return ConnectionLost(f"Cannot connect to {address}: {why}")


def lost(failed: OSError) -> str:
    """Returns why a connection that was there is lost."""
    if not isinstance(failed, ssl.SSLError):
        return failed.strerror or "it failed"
    if failed.reason in _WANTS_ONE:
        return f"the broker wants a certificate of this client {NAME_CERTIFICATE}"
    return f"TLS: {reason(failed)}"
