"""A request on its way to an answer: what a resource gets, and what it gives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl

from radiator.model.commands import Command
from radiator.model.errors import Refusal, Violation, shown
from radiator.model.limits import HTTP_QUERY_FIELDS, Limits
from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Reply
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.operations import Operation
from radiator.protocols.http.recognition import Recognition
from radiator.protocols.http.responses import Response, problem, refused
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.http.tunnel import TunnelRequest


@dataclass(slots=True)
class HttpRequest:
    """One that has come whole. receipt: unique on its connection; the replies to its commands have it. names: what
    stands in the variable places of its path, decoded. state: of the server. principal: who makes it, where its route
    asks for that. recognition: of its connection.
    """

    connection: int
    receipt: bytes
    head: RequestHead
    names: tuple[str, ...]
    body: bytes = field(repr=False)
    limits: Limits
    state: ServerState = field(default_factory=ServerState)
    principal: Principal = ANYONE
    recognition: Recognition | None = None

    def query(self, *known: str) -> dict[str, str]:
        """What stands behind the `?`. Raises BadRequest for a name that is not among those, or comes twice."""
        found = self.query_lists(*known)
        if any(len(values) > 1 for values in found.values()):
            raise BadRequest(400, f"The query {shown(self.head.query)} has a parameter twice.")
        return {name: values[0] for name, values in found.items()}

    def query_lists(self, *known: str) -> dict[str, list[str]]:
        """The same of a resource whose parameters may come several times."""
        if not self.head.query:
            return {}
        try:
            text = self.head.query.decode("ascii")
            given = parse_qsl(text, True, True, errors="strict", max_num_fields=HTTP_QUERY_FIELDS)
        except ValueError:
            raise BadRequest(400, f"The query {shown(self.head.query)} is not NAME=VALUE, with & between.") from None
        found: dict[str, list[str]] = {}
        for name, value in given:
            if name not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise BadRequest(400, f"{name!r:.80} is not a parameter of {shown(self.head.path)}; {has}.")
            found.setdefault(name, []).append(value)
        return found


@dataclass(slots=True)
class HttpExchange:
    """What a request asks of the broker. commands: to be carried out, in order. answer: makes the response of each
    reply that has the request's receipt; None: another one follows. A refusal is answered before it is asked. is_alone:
    nothing is read behind the request before it is answered; others of that connection may be on their way with it.
    tunnel_request: what is asked of a session of STOMP over HTTP.
    """

    commands: list[Command]
    answer: "Callable[[Reply], Response | Stream | None]"
    is_alone: bool = True
    tunnel_request: TunnelRequest | None = None


@dataclass(slots=True, frozen=True)
class LoginGiven:
    """What a request asks whose body is a login: that it is judged. name: b"": the secret says whose it is."""

    name: bytes
    secret: bytes = field(repr=False)


class Stream(Protocol):
    """An answer that lasts as long as its connection: server-sent events. opening: what comes before all of them."""

    opening: bytes

    def encode(self, reply: Reply) -> bytes:
        """The events of a reply; b"": none. Behind a Refuse nothing follows."""


Resource = Callable[[HttpRequest], Response | HttpExchange | LoginGiven]
"""What is at a path. Raises BadRequest, or a Refusal, which is answered as that of a command."""


def found_by(resource: Resource, request: HttpRequest) -> Response | HttpExchange | LoginGiven:
    """What is there, or the refusal of it."""
    try:
        return resource(request)
    except BadRequest as bad:
        return problem(bad.status, bad.code, str(bad), bad.headers)
    except Violation as broken:
        return problem(400, "protocol", str(broken))
    except Refusal as refusal:
        return refused(refusal.code, str(refusal))


def no_body(head: RequestHead, limits: Limits) -> int:
    """Of a resource that takes none."""
    return 0


@dataclass(slots=True, frozen=True)
class Route:
    """One method at one path. path: its parts between `/`; None is any one part, percent-encoded. resource: what is
    there. body_max: the bytes that a body may have, by the head. is_free: it asks for no login. to_strangers: what is
    there for who has no login, where that is something else. to_browsers: for who asks for a page. is_websocket: the
    connection becomes one; its CONNECT has the login. is_console: it is there only with the console. logs_in: its body
    has a login. operation: what the OpenAPI document says of it.
    """

    method: str
    path: tuple[str | None, ...]
    resource: Resource
    body_max: Callable[[RequestHead, Limits], int] = field(default=no_body)
    is_free: bool = False
    to_strangers: "Route | None" = None
    to_browsers: "Route | None" = None
    is_websocket: bool = False
    is_console: bool = False
    logs_in: bool = False
    operation: Operation | None = None
