"""Requests and a session for them, without a broker: the test gives the replies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from radiator.model.commands import Open
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE, Check, Cookies, Login, Principal, Verdict
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.protocols.http.context import WebContext
from radiator.protocols.http.exchange import HttpRequest
from radiator.protocols.http.head import RequestHead, head_bytes, parse_head
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.http.session import WebSession
from radiator.protocols.http.tunnel import Tunnels


def request(
    method: str = "GET", path: str = "/healthz", body: bytes = b"", version: str = "1.1", **headers: str | None
) -> bytes:
    """With Host, and a Content-Length where there is a body. Names have _ for -; None: without that header."""
    lines: dict[str, str | None] = {"Host": "localhost"}
    if body:
        lines["Content-Length"] = str(len(body))
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/{version}\r\n{text}\r\n".encode() + body


def head_of(method: str = "GET", path: str = "/healthz", version: str = "1.1", **headers: str | None) -> RequestHead:
    data = request(method, path, b"", version, **headers)
    assert head_bytes(data) == len(data)
    return parse_head(data)


LIMITS = Limits()


def a_request(
    method: str,
    path: str,
    body: bytes = b"",
    names: tuple[str, ...] = (),
    limits: Limits = LIMITS,
    **headers: str | None,
) -> HttpRequest:
    """As a resource gets it: names are what stands in the path."""
    return HttpRequest(7, b"1", head_of(method, path, **headers), names, body, limits)


@dataclass
class Answer:
    """One response as it was sent."""

    status: int
    headers: dict[str, str]
    body: bytes


def answers(data: bytes, heads: Sequence[int] = ()) -> list[Answer]:
    """All of them, by their Content-Length. heads: places of those to a HEAD, which have no body."""
    found: list[Answer] = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, head
        line, *lines = head.decode().split("\r\n")
        headers = dict(one.split(": ", 1) for one in lines)
        assert len(headers) == len(lines), f"a header twice: {lines}"
        size = 0 if len(found) in heads or line.split()[1] == "100" else int(headers.get("Content-Length", "0"))
        found.append(Answer(int(line.split()[1]), headers, data[:size]))
        assert len(data) >= size
        data = data[size:]
    return found


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and in two at each place."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


class Users:
    """A login by names: `Basic NAME:NAME` is right, and takes a thread where the name begins with `slow`."""

    def __init__(self) -> None:
        self.begun: list[tuple[bytes, bytes]] = []

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        self.begun.append((name, secret))
        found = Principal(name.decode("latin-1"))
        if not name or name != secret:
            raise Refusal(FORBIDDEN, "The login is wrong.")
        return (lambda: found) if name.startswith(b"slow") else found

    def unasked(self, principal: Principal) -> Principal | None:
        return None if principal == ANYONE else principal

    def answered(self, verdict: Verdict) -> Principal:
        if isinstance(verdict, Refusal):
            raise verdict
        return verdict


class Asking:
    """A session, and all that it has sent and asked of the broker so far."""

    def __init__(
        self,
        users: Login | None = None,
        limits: Limits | None = None,
        web: WebSettings = DEFAULT_WEB,
        principal: Principal = ANYONE,
        tunnels: Tunnels | None = None,
        state: ServerState | None = None,
        cookies: Cookies | None = None,
        is_encrypted: bool = False,
    ) -> None:
        context = WebContext(web, tunnels, state=state or ServerState(), cookies=cookies, is_encrypted=is_encrypted)
        self.session = WebSession(7, "s-1", limits or Limits(), principal, users, context)
        self.commands: list[object] = []
        self.sent = b""

    def send(self, *pieces: bytes) -> list[object]:
        """As the server does: the commands of these bytes."""
        found: list[object] = []
        for piece in pieces:
            found += self.session.receive(piece)
            self.sent += self.session.take_outgoing()
            while self.session.is_costly:
                found += self.session.receive(b"")
                self.sent += self.session.take_outgoing()
        self.commands += found
        return found

    def verdict(self, verdict: Verdict | None = None) -> list[object]:
        """The check is answered: by itself, if nothing is given."""
        check = self.session.pending
        assert check is not None
        found: list[object] = list(self.session.answered(verdict if verdict is not None else check()))
        self.sent += self.session.take_outgoing()
        self.commands += found
        return found

    def reply(self, *replies: object) -> None:
        """Of the broker. Then the session reads on, if it has anything unread."""
        for one in replies:
            self.sent += self.session.encode(one)  # type: ignore[arg-type]
        if self.session.has_unread:
            self.send(b"")

    def answers(self, heads: Sequence[int] = ()) -> list[Answer]:
        return answers(self.sent, heads)

    @property
    def statuses(self) -> list[int]:
        return [one.status for one in self.answers()]

    @property
    def of_broker(self) -> list[object]:
        """The commands without Open."""
        return [one for one in self.commands if not isinstance(one, Open)]
