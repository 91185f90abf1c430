"""`GET /v1/openapi.json`: the OpenAPI 3.1 document of all routes, made from their table; and `GET /`, a list of
addresses.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from radiator.model.answers import NotReady
from radiator.model.limits import NAME_MAX_BYTES
from radiator.protocols.administration import schemas
from radiator.protocols.administration.schemas import Schema
from radiator.protocols.http import console, operations
from radiator.protocols.http.cookie import NAME, SECURE_NAME
from radiator.protocols.http.exchange import HttpRequest, Resource, Route
from radiator.protocols.http.operations import Operation
from radiator.protocols.http.responses import JSON, PROBLEM, Response, as_json

PATH = "/v1/openapi.json"
_KEPT_S = 300  # short, since another version of the broker has another document

_INDEX = {
    "name": "Radiator, a durable message broker: docs/HTTP.md",
    "api": PATH,
    "health": "/healthz",
    "stomp_over_websocket": "/ws",
}
_INFO = {
    "title": "Radiator",
    "version": "1",
    "summary": "A durable message broker over HTTP",
    "description": "What is promised, and what each code means: docs/HTTP.md. `HEAD` is answered as `GET`.",
}
_PROBLEM: Schema = schemas.record(
    False,
    {
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "description": "Stable; docs/HTTP.md and docs/PROTOCOL.md list them."},
        "detail": {"type": "string", "description": "A sentence, whose wording may change at any time."},
        "reasons": {**schemas.of(list[NotReady]), "description": "Only in answers of /readyz."},
    },
    optional=("reasons",),
)
_REFUSED = {
    "4XX": {"$ref": "#/components/responses/Refused"},
    "503": {"$ref": "#/components/responses/NoRoom"},
}


def routes(others: Sequence[Route]) -> tuple[Route, ...]:
    """Returns the routes of the document and the list. They need no login, since they say nothing about the broker's
    state. others: the routes that the document describes besides these.
    """
    rows = (
        Route("GET", ("",), index, is_free=True, to_browsers=console.PAGE, operation=operations.INDEX),
        Route("GET", ("v1",), index, is_free=True, operation=operations.INDEX),
        Route("GET", ("v1", "openapi.json"), index, is_free=True, operation=operations.DOCUMENT),
    )
    body = json.dumps(document([*rows, *others]), separators=(",", ":")).encode() + b"\n"
    return (
        *rows[:-1],
        Route("GET", ("v1", "openapi.json"), _serving(body), is_free=True, operation=rows[-1].operation),
    )


def index(request: HttpRequest) -> Response:
    """Returns the addresses of the document, of the health check and of STOMP over WebSocket. Raises BadRequest."""
    request.query()
    return as_json(200, _INDEX)


def _serving(body: bytes) -> Resource:
    def resource(request: HttpRequest) -> Response:
        request.query()
        return Response(200, body, JSON, max_age_s=_KEPT_S)

    return resource


def document(found: Sequence[Route]) -> Mapping[str, Any]:
    """Returns the document of all routes that have an operation."""
    paths: dict[str, dict[str, Any]] = {}
    for route in found:
        if route.operation is not None:
            paths.setdefault(path_of(route.path, route.operation), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "paths": paths,
        "security": [{}, {"basic": []}, {"bearer": []}, {"cookie": []}, {"cookieWithoutTls": []}],
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": SECURE_NAME.decode()},
                "cookieWithoutTls": {"type": "apiKey", "in": "cookie", "name": NAME.decode()},
            },
            "schemas": {**schemas.components(), "Problem": _PROBLEM},
            "responses": {
                "Refused": _problem("The request was refused, and nothing of it was carried out.", {}),
                "NoRoom": _problem("There is no room now.", {"Retry-After": {"schema": {"type": "integer"}}}),
            },
        },
    }


def path_of(path: tuple[str | None, ...], operation: Operation) -> str:
    """Returns the path as OpenAPI writes it, such as `/v1/queues/{queue}`."""
    names = iter(operation.names)
    return "/" + "/".join(f"{{{next(names)}}}" if part is None else part for part in path)


def _problem(description: str, headers: Mapping[str, Any]) -> Mapping[str, Any]:
    content = {PROBLEM.decode(): {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "headers": headers, "content": content}


def _operation(route: Route) -> Mapping[str, Any]:
    operation = route.operation
    assert operation is not None
    words = [part.strip("{}") for part in path_of(route.path, operation).split("/")]
    name = "-".join(word for word in words if word and word != "v1")
    made: dict[str, Any] = {
        "operationId": f"{route.method.lower()}-{name or 'index' + '-'.join(words)}",
        "summary": operation.summary,
        "parameters": [*_parameters(operation)],
        "responses": {**{str(status): _answer(*one) for status, one in (operation.answers or {}).items()}, **_REFUSED},
    }
    if operation.bodies is not None:
        content = {kind: {"schema": schema} for kind, schema in operation.bodies.items()}
        made["requestBody"] = {"required": bool(operation.needed), "content": content}
    if route.is_free:
        made["security"] = []
    return made


def _parameters(operation: Operation) -> Sequence[Mapping[str, Any]]:
    name: Schema = {"type": "string", "minLength": 1, "maxLength": NAME_MAX_BYTES}
    paths = {"number": {"type": "integer", "minimum": 1}}
    found = [{"name": one, "in": "path", "required": True, "schema": paths.get(one, name)} for one in operation.names]
    for place, given in (("query", operation.query), ("header", operation.headers)):
        for one, schema in (given or {}).items():
            is_required = one in operation.needed
            found.append({"name": one, "in": place, "required": is_required, "schema": schema})
    return found


def _answer(description: str, content: Mapping[str, Schema]) -> Mapping[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema} for kind, schema in content.items()}}
