"""Where a broker of AMQP is, and the login for it."""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from radiator.model.errors import ConfigError

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}
UNIX = "amqp+unix:"
GUEST = "guest"
"""User and password where none is given (RabbitMQ, "URI Specification")."""


@dataclass(slots=True, frozen=True)
class AmqpPlace:
    """`amqp://[USER@]HOST[:PORT][/VHOST]`, `amqps://...` for TLS, or `amqp+unix:PATH`.

    path: of a unix socket; "" for TCP. ca_file: with TLS, the CAs in PEM that its certificate must come from; "": those
    of the system.
    """

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    vhost: str = "/"
    path: str = ""
    is_tls: bool = False
    ca_file: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError, which does not repeat a password."""
        if text.startswith(UNIX):
            path = text.removeprefix(UNIX)
            if not path or path.startswith("//") or not path.isprintable():
                raise ConfigError([f"The address {text!r} cannot be used: it must be {UNIX}PATH."])
            return cls("localhost", 0, path=path)
        wanted = f"it must be amqp://USER@HOST:PORT/VHOST, amqps://USER@HOST:PORT/VHOST or {UNIX}PATH"
        shown = repr(text.rpartition("@")[2])
        try:
            if " " in text or not text.isprintable():
                raise ValueError
            parts = urlsplit(text)
            usual = DEFAULT_PORTS[parts.scheme]
            port = usual if parts.port is None else parts.port
            host = parts.hostname or ""
            if not host or not port or parts.query or parts.fragment or "/" in parts.path[1:]:
                raise ValueError
        except (ValueError, KeyError):
            raise ConfigError([f"The address {shown} cannot be used: {wanted}."]) from None
        if parts.password and (parts.username, parts.password) != (GUEST, GUEST):
            ways = "name the user alone; --help says how the password is given"
            raise ConfigError([f"{shown} has a password before it, which others see among the processes: {ways}."])
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        # RabbitMQ: without a path it is the usual one, which nearly everybody means by `/` alone, too
        vhost = unquote(parts.path[1:]) or "/"
        return cls(host, port, user, password, vhost, is_tls=parts.scheme == "amqps")

    def __str__(self) -> str:
        """Without the login, since it is part of error messages."""
        if self.path:
            return UNIX + self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "" if self.vhost == "/" else f"/{self.vhost}"
        return f"amqp{'s' * self.is_tls}://{host}:{self.port}{vhost}"
