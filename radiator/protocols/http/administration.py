"""The requests of `/admin` as HTTP resources: each resource is one request of administration/requests.py, and its
answer.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from radiator.model import headers
from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE
from radiator.model.administration import AdminCommand
from radiator.model.answers import AdminAnswer
from radiator.model.commands import Administer
from radiator.model.errors import Refusal, shown
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import ADMIN_BODY_MAX_BYTES, Limits
from radiator.model.replies import Answered, Reply
from radiator.protocols.administration import JSON as STOMP_JSON
from radiator.protocols.http import operations
from radiator.protocols.http.exchange import HttpExchange, HttpRequest, Route
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.json_body import parsed
from radiator.protocols.http.responses import (
    JSON,
    Response,
    problem_text,
    status_of,
    written,
)


class HttpJson:
    """The Rendering (model/rendering.py) of these resources: JSON as at /admin, except that a refusal is a problem
    document.
    """

    content_type = headers.JSON

    def read(self, body: bytes) -> AdminCommand:
        return STOMP_JSON.read(body)

    def refusal(self, refusal: Refusal) -> bytes:
        return problem_text(status_of(refusal.code), refusal.code, str(refusal))

    def whole(self, answer: AdminAnswer) -> bytes:
        return STOMP_JSON.whole(answer)

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        return STOMP_JSON.pieces(answer)


HTTP_JSON = HttpJson()

FLAG, NUMBER, TEXT = "boolean", "integer", "string"
"""The types of parameters, as OpenAPI names them."""


@dataclass(slots=True, frozen=True)
class Asking:
    """A resource, and the request to /admin that it makes. do: the request's name. names: the keys whose values stand
    in the path, in order. query: the parameters and their types. body: the keys that a JSON body may have; None: there
    is no body; ANY: any keys. fixed: keys that the request always has. needed: a key without which it would be another
    request.
    """

    method: str
    path: tuple[str | None, ...]
    do: str
    names: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: tuple[str, ...] | None = None
    fixed: tuple[tuple[str, Any], ...] = ()
    needed: str = ""

    def ask(self, request: HttpRequest) -> HttpExchange:
        """Makes the request. The route's resource. Raises BadRequest."""
        asked: dict[str, Any] = {"do": self.do, **dict(self.fixed), **dict(zip(self.names, request.names, strict=True))}
        if "number" in self.names:
            asked["number"] = _number("The number of a connection", asked["number"])
        for name, value in request.query(*(name for name, _ in self.query)).items():
            asked[name] = _READERS[dict(self.query)[name]](name, value)
        if self.body is not None and request.body:
            given = json_body(request)
            wrong = next((key for key in given if key in asked or (self.body != ANY and key not in self.body)), None)
            if wrong is not None:
                has = f"its keys are {', '.join(self.body)}" if self.body and self.body != ANY else "the path has it"
                raise BadRequest(400, f"The body may not have the key {wrong!r:.80}: {has}.")
            asked.update(given)
        if self.needed and self.needed not in asked:
            raise BadRequest(400, f"The body has no {self.needed}, which this {self.method} needs.")
        return exchange(request, json.dumps(asked).encode(), _declared if self.declares else _answered)

    @property
    def declares(self) -> bool:
        """Whether the answer says if something was created: then the status is 201."""
        return self.method == "PUT" or self.do == "consumer-register"

    @property
    def route(self) -> Route:
        """The row of the table of routes."""
        section, query = dict(self.fixed).get("section"), tuple(name for name, _ in self.query)
        operation = operations.of_request(self.method, self.do, self.names, query, self.body, section, self.needed)
        return Route(self.method, self.path, self.ask, _no_body if self.body is None else body_max, operation=operation)


ANY = ("*",)
_PAGE = (("match", TEXT), ("after", TEXT), ("limit", NUMBER))
_TABLE = (
    ("match", TEXT), ("text", TEXT), ("sort", TEXT), ("first", NUMBER), ("count", NUMBER), ("filter", TEXT)
)  # fmt: skip
_NAMED = {QUEUE: "queues", EXCHANGE: "exchanges", FANOUT: "fanouts", LOG: "logs"}
_PEEK = (("count", NUMBER), ("message", TEXT), ("from", NUMBER))
_IF = (("if_unused", FLAG), ("if_empty", FLAG))

ASKINGS: tuple[Asking, ...] = (
    Asking("GET", ("v1", "stats"), "stats", query=(("section", TEXT), *_PAGE)),
    Asking("GET", ("v1", "configuration"), "configuration"),
    Asking("GET", ("v1", "bounds"), "bounds"),
    Asking("GET", ("v1", "disk"), "disk"),
    Asking("GET", ("v1", "log"), "log", query=(("after", NUMBER), ("limit", NUMBER), ("level", TEXT))),
    Asking("GET", ("v1", "queues"), "queues", query=_PAGE),
    Asking("GET", ("v1", "queue-table"), "queue-table", query=_TABLE),
    Asking("GET", ("v1", "history"), "history", query=(("after_ms", NUMBER),)),
    Asking("GET", ("v1", "queues", None, "history"), "history", (QUEUE,), (("after_ms", NUMBER),)),
    Asking("GET", ("v1", "attention"), "attention"),
    *(
        Asking("GET", ("v1", section), "stats", query=_PAGE, fixed=(("section", section),))
        for section in ("exchanges", "fanouts", "logs", "topics", "users")
    ),
    *(Asking("GET", ("v1", plural, None), "describe", (kind,)) for kind, plural in _NAMED.items()),
    *(
        Asking("PUT", ("v1", plural, None), "declare", (kind,), (("passive", FLAG), ("create", FLAG)), ANY)
        for kind, plural in _NAMED.items()
    ),
    *(
        Asking("DELETE", ("v1", plural, None), "delete", (kind,), () if kind == FANOUT else _IF)
        for kind, plural in _NAMED.items()
    ),
    Asking("GET", ("v1", "queues", None, "why"), "why", (QUEUE,)),
    Asking("GET", ("v1", "logs", None, "why"), "why", (LOG,)),
    Asking(
        "GET",
        ("v1", "explain"),
        "explain",
        query=(("message", TEXT), ("trace", TEXT), ("correlation_id", TEXT), ("after", NUMBER), ("limit", NUMBER)),
    ),
    Asking("GET", ("v1", "queues", None, "peek"), "peek", (QUEUE,), _PEEK),
    Asking("POST", ("v1", "queues", None, "purge"), "purge", (QUEUE,), body=()),
    Asking("POST", ("v1", "queues", None, "move"), "move", ("from",), body=("to", "count", "create")),
    Asking("POST", ("v1", "queues", None, "return"), "return", (QUEUE,), body=("message_ids", "count")),
    Asking("GET", ("v1", "queues", None, "consumers"), "consumers", (QUEUE,), _PAGE),
    Asking(
        "POST", ("v1", "queues", None, "consumers"), "consumer-register", (QUEUE,), body=("name", "ready", "lease_ms")
    ),
    Asking(
        "DELETE", ("v1", "queues", None, "consumers", None), "consumer-drain", (QUEUE, "name"), (("wait_ms", NUMBER),)
    ),
    Asking("GET", ("v1", "queues", None, "scale"), "scale", (QUEUE,)),
    Asking("GET", ("v1", "queues", None, "unacked"), "unacked", (QUEUE,), (("after", TEXT), ("limit", NUMBER))),
    Asking(
        "POST", ("v1", "queues", None, "unacked", "extend"), "extend-unacked", (QUEUE,), body=("message_id", "seconds")
    ),
    Asking("GET", ("v1", "connections"), "connections", query=(("user", TEXT), ("after", NUMBER), ("limit", NUMBER))),
    Asking("GET", ("v1", "connections", None), "connection", ("number",)),
    Asking("DELETE", ("v1", "connections", None), "disconnect", ("number",)),
    Asking("GET", ("v1", "logs", None, "offsets"), "offsets", (LOG,), (("time_ms", NUMBER),)),
    Asking("GET", ("v1", "logs", None, "positions", None), "position", (LOG, "group")),
    Asking(
        "PUT", ("v1", "logs", None, "positions", None), "position", (LOG, "group"), body=("offsets",), needed="offsets"
    ),
    Asking("DELETE", ("v1", "logs", None, "positions", None), "position", (LOG, "group"), fixed=(("forget", True),)),
    Asking("POST", ("v1", "exchanges", None, "bindings"), "bind", (EXCHANGE,), body=("key", "arguments", "queue")),
    Asking("DELETE", ("v1", "exchanges", None, "bindings"), "unbind", (EXCHANGE,), (("key", TEXT), ("queue", TEXT))),
    Asking("GET", ("v1", "exchanges", None, "route"), "route", (EXCHANGE,), (("key", TEXT),)),
    Asking("GET", ("v1", "users", None, "may"), "may", ("user",), (("right", TEXT), ("destination", TEXT))),
    Asking("GET", ("v1", "prepared"), "prepared"),
    Asking("POST", ("v1", "prepared", "commit"), "commit", body=("prepared", "prefix", "app", "version")),
    Asking("POST", ("v1", "prepared", "abort"), "abort", body=("prepared", "prefix", "refuse_s")),
    Asking("GET", ("v1", "apps", None), "version", ("app",)),
    Asking("DELETE", ("v1", "apps", None), "version", ("app",), fixed=(("forget", True),)),
    Asking("GET", ("v1", "peers"), "peers"),
    Asking("POST", ("v1", "peers", None, "release"), "peer-release", ("peer",), body=("force",)),
    Asking("POST", ("v1", "peers", None, "drop"), "peer-drop", ("peer",), body=("force",)),
    Asking("POST", ("v1", "peers", None, "keep"), "peer-keep", ("peer",), body=()),
    Asking("POST", ("v1", "drain"), "drain", body=("stop",)),
    Asking("POST", ("v1", "reload"), "reload", body=("dry_run",)),
)


def exchange(request: HttpRequest, body: bytes, answer: Callable[[Reply], Response]) -> HttpExchange:
    """Returns the exchange that makes a request of administration/requests.py. answer: makes the response of its
    reply.
    """
    ask = Administer(request.connection, body, HTTP_JSON, ESCAPING_ALL, request.receipt, is_answered=True)
    return HttpExchange([ask], answer)


def _answered(reply: Reply, status: int = 200) -> Response:
    assert isinstance(reply, Answered)
    if reply.code:
        return written(reply.code, reply.body)
    return Response(status, reply.body, JSON)


def _declared(reply: Reply) -> Response:
    """Returns the response of a request that may create something: 201 if it did."""
    assert isinstance(reply, Answered)
    is_new = not reply.code and json.loads(reply.body).get("created") is True
    return _answered(reply, 201 if is_new else 200)


def any_request(request: HttpRequest) -> HttpExchange:
    """`POST /v1/admin`: makes any request, as a SEND to /admin does."""
    request.query()
    json_body(request)
    return exchange(request, request.body, _answered)


def json_body(request: HttpRequest) -> dict[str, Any]:
    """Returns the JSON object in the body. Raises BadRequest."""
    if request.head.content_type != JSON:
        given = shown(request.head.headers.get(b"content-type", b""))
        raise BadRequest(415, f"The body's content-type is {given}; it must be application/json.")
    return parsed(request.body)


def body_max(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a request to /admin."""
    return ADMIN_BODY_MAX_BYTES


def _no_body(head: RequestHead, limits: Limits) -> int:
    return 0


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise BadRequest(400, f"{name} is {value!r:.80}; it must be a whole number.")
    return int(value)


def _flag(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise BadRequest(400, f"{name} is {value!r:.80}; it must be true or false.")
    return value == "true"


def _as_it_is(name: str, value: str) -> str:
    return value


_READERS = {NUMBER: _number, FLAG: _flag, TEXT: _as_it_is}

ROUTES = (
    *(asking.route for asking in ASKINGS),
    Route("POST", ("v1", "admin"), any_request, body_max, operation=operations.ANY_REQUEST),
)
