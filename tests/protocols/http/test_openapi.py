"""The OpenAPI document has each route, with what it takes and what it is answered; and it says nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import schemathesis

from radiator.protocols.http.administration import ANY, ASKINGS, Asking
from radiator.protocols.http.exchange import Route
from radiator.protocols.http.openapi import PATH, document, index, path_of, routes
from radiator.protocols.http.responses import Response, problem, problem_text
from radiator.protocols.http.routes import ROUTES, found_route
from tests.protocols.http.asking import a_request, head_of

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(ROUTES)))


def served(path: str) -> Response:
    route, _ = found_route(head_of("GET", path))
    found = route.resource(a_request("GET", path))
    assert isinstance(found, Response) and route.is_free
    return found


def all_of(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, dict):
        for key, one in part.items():
            yield key, one
            yield from all_of(one)
    elif isinstance(part, list):
        for one in part:
            yield from all_of(one)


def undescribed(found: tuple[Route, ...]) -> list[str]:
    return [f"{route.method} {route.path}" for route in found if route.operation is None]


API = tuple(route for route in ROUTES if not route.is_console)
"""The files of the console's pages are for browsers, and no part of it."""


def test_it_is_an_openapi_document() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    assert DOCUMENT["openapi"] == "3.1.0"


def test_each_route_has_its_entry_and_each_entry_its_route() -> None:
    assert undescribed(API) == []
    entries = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert len(entries) == len(API)
    for method, path in entries:
        route, names = found_route(head_of(method.upper(), re.sub(r"\{\w+\}", "x", path)))
        assert route.operation is not None and path_of(route.path, route.operation) == path
        assert len(names) == path.count("{")
    ids = [methods[method]["operationId"] for path, methods in DOCUMENT["paths"].items() for method in methods]
    assert len(set(ids)) == len(ids)


def test_a_route_without_words_is_found() -> None:
    assert undescribed((*API, replace(API[0], operation=None))) == ["GET ('',)"]


@pytest.mark.parametrize("asking", ASKINGS, ids=lambda one: f"{one.method} {one.path}")
def test_a_resource_has_the_parameters_and_the_body_that_it_takes(asking: Asking) -> None:
    operation = asking.route.operation
    assert operation is not None
    found = DOCUMENT["paths"][path_of(asking.path, operation)][asking.method.lower()]
    places = [(one["name"], one["in"]) for one in found["parameters"]]
    assert places == [*((name, "path") for name in asking.names), *((name, "query") for name, _ in asking.query)]
    for one in found["parameters"]:
        if one["in"] == "query" and not {"enum", "const"} & {*one["schema"]}:
            assert one["schema"]["type"] == dict(asking.query)[one["name"]]
    assert ("requestBody" in found) is (asking.body is not None)
    if asking.body is not None and asking.body != ANY:
        body = found["requestBody"]["content"]["application/json"]["schema"]
        assert tuple(body["properties"]) == asking.body and body["additionalProperties"] is False


def test_each_operation_says_how_it_is_refused_and_what_it_is_answered() -> None:
    for methods in DOCUMENT["paths"].values():
        for found in methods.values():
            assert found["summary"] and {"4XX", "503"} < set(found["responses"])


def test_what_is_referred_to_is_there() -> None:
    references = {one for key, one in all_of(DOCUMENT) if key == "$ref"}
    assert len(references) > 10
    for one in references:
        part = DOCUMENT
        for word in one.removeprefix("#/").split("/"):
            part = part[word]


@pytest.mark.parametrize("body", [
    problem(404, "no-such-resource", "There is nothing.").body,
    problem_text(503, "not-ready", "The disk is full.", reasons=[{"reason": "disk", "sentence": "The disk is full."}]),
])  # fmt: skip
def test_a_problem_is_as_the_document_says(body: bytes) -> None:
    schemas = {name: {**one, "additionalProperties": False} for name, one in DOCUMENT["components"]["schemas"].items()}
    schema = {"$ref": "#/components/schemas/Problem", "components": {"schemas": schemas}}
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(body))
    assert not jsonschema.Draft202012Validator(schema).is_valid({**json.loads(body), "more": 1})


def test_what_is_free_of_a_login_says_so() -> None:
    for route in API:
        assert route.operation is not None
        found = DOCUMENT["paths"][path_of(route.path, route.operation)][route.method.lower()]
        assert (found.get("security") == []) is route.is_free


def test_it_is_served_and_may_be_kept_for_a_while() -> None:
    answer = served(PATH)
    assert json.loads(answer.body) == DOCUMENT and answer.content_type == b"application/json" and answer.max_age_s > 0


@pytest.mark.parametrize("path", ["/", "/v1"])
def test_the_roots_say_where_it_is(path: str) -> None:
    found = json.loads(served(path).body)
    assert found["api"] == PATH
    assert all(found_route(head_of("GET", found[one])) for one in ("api", "health", "stomp_over_websocket"))


def test_none_of_it_takes_a_parameter() -> None:
    for route in routes(()):
        with pytest.raises(Exception, match="is not a parameter"):
            route.resource(a_request("GET", "/?a=b"))
    assert index(a_request("GET", "/")).status == 200
