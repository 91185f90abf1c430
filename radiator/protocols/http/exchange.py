"""A request and what a resource returns for it: a response, commands for the broker, or a login to be checked."""

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
    """A complete request. receipt: unique on its connection; the replies to the request's commands carry it. names: the
    variable parts of its path, decoded. state: the server's. principal: who makes it, if its route asks for a login.
    recognition: its connection's.
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
        """Returns the parameters behind the `?`. Raises BadRequest for a name that is not in `known`, or is given
        twice.
        """
        found = self.query_lists(*known)
        if any(len(values) > 1 for values in found.values()):
            raise BadRequest(400, f"The query {shown(self.head.query)} has a parameter twice.")
        return {name: values[0] for name, values in found.items()}

    def query_lists(self, *known: str) -> dict[str, list[str]]:
        """Returns the values of each parameter, which may be given several times. Raises BadRequest as `query` does."""
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
    """What a request asks of the broker. commands: in order. answer: makes the response from each reply that carries
    the request's receipt; it returns None if another reply follows. It is not called for a refusal. is_alone: nothing
    behind this request is read before it is answered; otherwise requests that are not alone may be pipelined with it.
    tunnel_request: what is asked of a session of STOMP over HTTP.
    """

    commands: list[Command]
    answer: "Callable[[Reply], Response | Stream | None]"
    is_alone: bool = True
    tunnel_request: TunnelRequest | None = None


@dataclass(slots=True, frozen=True)
class LoginGiven:
    """A login in the body of a request, to be checked. name: b"" if the secret alone says whose it is."""

    name: bytes
    secret: bytes = field(repr=False)


class Stream(Protocol):
    """A response that lasts as long as its connection: server-sent events. opening: the bytes before all events."""

    opening: bytes

    def encode(self, reply: Reply) -> bytes:
        """Returns the events of a reply; b"": it has none. Nothing follows a Refuse."""


Resource = Callable[[HttpRequest], Response | HttpExchange | LoginGiven]
"""Handles the requests of a route. Raises BadRequest, or a Refusal, which is answered like that of a command."""


def found_by(resource: Resource, request: HttpRequest) -> Response | HttpExchange | LoginGiven:
    """Calls the resource, and turns what it raises into a response."""
    try:
        return resource(request)
    except BadRequest as bad:
        return problem(bad.status, bad.code, str(bad), bad.headers)
    except Violation as broken:
        return problem(400, "protocol", str(broken))
    except Refusal as refusal:
        return refused(refusal.code, str(refusal))


def no_body(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a body, for a resource that has none."""
    return 0


@dataclass(slots=True, frozen=True)
class Route:
    """One method at one path. path: its parts between `/`; None stands for any one part, percent-encoded. resource:
    handles the requests. body_max: returns the most bytes of a body. is_free: needs no login. to_strangers: the route
    used for a client without a login, if that differs. to_browsers: the route used if a page is asked for.
    is_websocket: the connection becomes a WebSocket, whose CONNECT has the login. is_console: exists only if the
    console is on. logs_in: the body has a login. operation: its description in the OpenAPI document.
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
