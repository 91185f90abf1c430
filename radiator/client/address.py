"""Where a broker is, and the login for it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import unquote, urlsplit

from radiator.model.errors import RadiatorError, Violation
from radiator.model.limits import UNIX_PATH_MAX_BYTES

DEFAULT_ADDRESS = "stomp://127.0.0.1:61613"
DEFAULT_PORT = 61613
DEFAULT_TLS_PORT = 61612
UNIX = "stomp+unix:"


class AddressError(RadiatorError):
    """The address of a broker cannot be read."""


@dataclass(slots=True)
class Address:
    """`stomp://[LOGIN[:PASSCODE]@]HOST[:PORT]`, `stomps://...` for TLS, or `stomp+unix:PATH`.

    path: of a unix socket, relative to the program's directory if not absolute; "" for TCP. With a path there is no
    port, and the host is only what CONNECT says. With is_tls, files in PEM: ca_file has the CAs that the broker's
    certificate must come from, instead of those that the system trusts; certificate and key are the client's own, and
    the key may be in the certificate's file. "": none.
    """

    host: str
    port: int = DEFAULT_PORT
    login: str = ""
    passcode: str = field(default="", repr=False)
    path: str = ""
    is_tls: bool = False
    ca_file: str = ""
    certificate: str = ""
    key: str = ""

    @classmethod
    def unix(cls, path: str) -> Self:
        """Returns the address of a broker on this machine. Raises AddressError."""
        size = len(os.fsencode(path))
        if size > UNIX_PATH_MAX_BYTES:
            raise AddressError(
                f"The broker's address {UNIX + path!r} cannot be used: its path has {size} bytes, and that of a unix "
                f"socket at most {UNIX_PATH_MAX_BYTES}."
            )
        return cls("localhost", 0, path=path)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises AddressError, which does not repeat the passcode."""
        if text.startswith(UNIX):
            path = text.removeprefix(UNIX)
            if not path or path.startswith("//") or "?" in path or not path.isprintable():
                wanted = f"it must be {UNIX}PATH, such as {UNIX}/var/lib/radiator/radiator.sock"
                raise AddressError(f"The broker's address {text!r} cannot be used: {wanted}.")
            return cls.unix(path)
        wanted = f"it must be stomp://HOST:PORT, such as {DEFAULT_ADDRESS}, stomps://HOST:PORT, or {UNIX}PATH"
        shown = repr(text.rpartition("@")[2])
        try:
            if " " in text or not text.isprintable():
                raise ValueError  # urlsplit would skip some of them
            parts = urlsplit(text)
            is_tls = parts.scheme == "stomps"
            port = parts.port
            if port is None:
                port = DEFAULT_TLS_PORT if is_tls else DEFAULT_PORT
        except ValueError:
            raise AddressError(f"The broker's address {shown} cannot be read: {wanted}.") from None
        is_known = is_tls or parts.scheme == "stomp"
        if not is_known or not parts.hostname or parts.path not in ("", "/") or parts.query or not port:
            raise AddressError(f"The broker's address {shown} cannot be used: {wanted}.")
        return cls(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""), is_tls=is_tls)

    def __str__(self) -> str:
        """Without login and passcode, since it is part of error messages."""
        if self.path:
            return UNIX + self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"stomp{'s' * self.is_tls}://{host}:{self.port}"


def with_login(addresses: Sequence[Address], user: str | None, password: str | None) -> list[Address]:
    """Returns the addresses, each with this login instead of its own if one is given. Raises Violation, which does not
    repeat it.
    """
    if user is None and password is None:
        return list(addresses)
    if not user:
        raise Violation("A password without a user: give both, or neither.")
    return [replace(one, login=user, passcode=password or "") for one in addresses]


def addresses_of(given: str | Address | Sequence[str | Address]) -> list[Address]:
    """Returns the one address, or the several in their order. Raises AddressError, TypeError."""
    several = [given] if isinstance(given, str | Address) or not isinstance(given, Sequence) else list(given)
    for one in several:
        if not isinstance(one, str | Address):
            raise TypeError(f"address {one!r:.80} must be a str or an Address, or a list of them.")
    if not several:
        raise AddressError("There is no address: a client needs one, such as " + DEFAULT_ADDRESS + ".")
    return [one if isinstance(one, Address) else Address.parse(str(one)) for one in several]
