"""The identity of a connection: in whose name its commands are carried out.

A session gives it with Open, and it does not change until the connection ends. Whether that principal may do what its
commands ask is decided in core/authorization.py, and nowhere else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from radiator.model.errors import Refusal
from radiator.model.rights import Rules


class RecognisedBy(StrEnum):
    """What has proved a principal's identity."""

    NOTHING = "nothing"
    """A client without any proof."""
    PEER_CREDENTIALS = "peer-credentials"
    """The system: it knows the process at the other end of a unix socket."""
    PASSWORD = "password"
    """The client: it knows the password of the user whose name the principal has."""
    TOKEN = "token"
    """The client: it has a token of the user whose name the principal has."""
    JWT = "jwt"
    """The client: it has a JSON Web Token, which somebody has signed whom the configuration names, for that user."""
    CERTIFICATE = "certificate"
    """The client's certificate, which is that of the user whose name the principal has."""
    LINK_PROOF = "link-proof"
    """A node that has proved to have the secret of the links."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a connection. Equal principals have the same rights.

    name: unique among those that are recognised by the same. uid, gid: of the process at the other end of a unix
    socket, as it connected; None where they are not known. until_ms: since the epoch, when what has proved it runs out,
    after which nobody is this principal; None: never. proof: what the user's table has for what has proved it (a
    token's SHA-256, a certificate's name), and must have after each reload; "": nothing.
    """

    name: str
    recognised_by: RecognisedBy = RecognisedBy.NOTHING
    uid: int | None = None
    gid: int | None = None
    until_ms: int | None = None
    proof: str = field(default="", repr=False, compare=False)


ANYONE = Principal("anyone")
"""A client of which nothing is known. It is served where there are no users."""


Check = Callable[[], Principal]
"""Finds out a client's identity. It runs in a thread of its own and may take long; so it uses only its own arguments,
and changes nothing that others see. Raises Refusal where nobody is recognised.
"""
Verdict = Principal | Refusal
"""The result of a Check. A Refusal too where it failed in any other way: then nobody is recognised."""


class Login(Protocol):
    """One connection's attempt to log in, where there are users. Used on the hub only, in this order."""

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> "Principal | Check":
        """Who it is, or the check that finds it out. principal: as the transport has recognised it. name and secret: as
        the client gave them; b"": not. Raises Refusal.
        """

    def unasked(self, principal: Principal) -> Principal | None:
        """Who it is where it gives no login: nothing is counted, whoever it is. None: no user."""

    def answered(self, verdict: "Verdict") -> Principal:
        """Who it is, by the verdict of that check. Raises Refusal."""


@dataclass(frozen=True, slots=True)
class GivenCookie:
    """What a browser keeps of its login. value: random bits as text; nobody else keeps them. until_ms: since the epoch,
    when it ends however much it is used.
    """

    value: bytes = field(repr=False)
    until_ms: int


class Cookies(Protocol):
    """Logins that browsers keep, where there are users. A key is the SHA-256 of a cookie's value. Used on the hub
    only.
    """

    def give(self, principal: Principal) -> GivenCookie:
        """Gives a cookie to a client that has just logged in. Raises Refusal if it was recognised by something that is
        not a login, such as a certificate.
        """

    def find(self, transport: Principal, key: bytes) -> Principal | None:
        """Returns whose cookie it is; this counts as a use. transport: as the transport has recognised the client; if
        that is a user already, a cookie does not make it another. None: it has ended, or there never was one.
        """

    def until_ms(self, key: bytes) -> int | None:
        """When it ends however much it is used; None: it has ended."""

    def forget(self, key: bytes) -> None:
        """Ends the cookie, and with it what `hold` has noted."""

    def hold(self, key: bytes, connection: int) -> bool:
        """Notes that the connection has a stream, which ends with the cookie, and is a use of it until then. Returns
        whether the cookie is still there.
        """

    def release(self, connection: int) -> None:
        """Called when the stream of that connection is over."""

    def rules(self, principal: Principal) -> Rules:
        """What the principal may do."""


def unix_principal(uid: int, gid: int) -> Principal:
    """A process of this machine."""
    return Principal(f"uid:{uid}", RecognisedBy.PEER_CREDENTIALS, uid, gid)


def node_principal(name: str) -> Principal:
    """A linked node, by the name that it has proved."""
    return Principal(name, RecognisedBy.LINK_PROOF)
