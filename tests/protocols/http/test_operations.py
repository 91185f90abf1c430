"""What the document says of a resource, where that can be held against what the resource does."""

import base64
import json
from typing import Any

import jsonschema
import pytest

from radiator.model.addresses import EXCHANGE, QUEUE
from radiator.model.limits import AWAIT_MAX_MS, HTTP_BATCH_MESSAGES, LEASE_MIN_MS, PEEK_MESSAGES_MAX
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.operations import JSON, RECEIVE, SETTLE, Operation, of_request, publish
from radiator.protocols.http.routes import found_route
from tests.protocols.http.asking import a_request, head_of

TEXTS = base64.b64encode(b"\0").decode()


def is_right(operation: Operation, body: Any) -> bool:
    assert operation.bodies is not None
    return bool(jsonschema.Draft202012Validator(operation.bodies[JSON]).is_valid(body))


def is_taken(path: str, body: Any) -> bool:
    route, names = found_route(head_of("POST", path))
    try:
        found = route.resource(
            a_request("POST", path, json.dumps(body).encode(), names, Content_Type="application/json")
        )
    except BadRequest:
        return False
    return isinstance(found, HttpExchange)


@pytest.mark.parametrize("body", [
    {"messages": [{"body": ""}]}, {"messages": [{"body_base64": TEXTS, "headers": {"a": "b"}}]},
    {"messages": [{"json": None}]}, {"messages": [{"body": ""}] * HTTP_BATCH_MESSAGES},
    {}, {"messages": []}, {"messages": [{}]}, {"messages": [{"body": 1}]}, {"messages": [{"body": "", "json": 1}]},
    {"messages": [{"body": "", "headers": {"a": 1}}]}, {"messages": [{"body": "", "x": 1}]},
    {"messages": [{"body": ""}] * (HTTP_BATCH_MESSAGES + 1)}, {"messages": [{"body": ""}], "x": 1},
])  # fmt: skip
def test_a_batch_is_described_as_it_is_read(body: Any) -> None:
    assert is_right(publish(QUEUE), body) is is_taken("/v1/queues/a/messages", body)


@pytest.mark.parametrize("body", [
    {}, {"max": 1, "wait_ms": 0, "lease_ms": LEASE_MIN_MS}, {"wait_ms": AWAIT_MAX_MS}, {"wait_ms": AWAIT_MAX_MS + 1},
    {"lease_ms": LEASE_MIN_MS - 1}, {"max": 0}, {"max": "1"}, {"x": 1},
])  # fmt: skip
def test_a_receive_is_described_as_it_is_read(body: Any) -> None:
    assert is_right(RECEIVE, body) is is_taken("/v1/queues/a/receive", body)


@pytest.mark.parametrize("body", [
    {"settlements": [{"lease": "a", "action": "ack"}]}, {"settlements": []}, {},
    {"settlements": [{"lease": "a", "action": "release", "delay_ms": 5}]}, {"settlements": [{"lease": "a"}]},
    {"settlements": [{"lease": 1, "action": "ack"}]}, {"settlements": [{"lease": "a", "action": "drop"}]},
    {"settlements": [{"lease": "a", "action": "ack", "x": 1}]},
])  # fmt: skip
def test_a_settle_is_described_as_it_is_read(body: Any) -> None:
    assert is_right(SETTLE, body) is is_taken("/v1/settle", body)


def test_only_an_exchange_has_a_key() -> None:
    assert set(publish(EXCHANGE).query or ()) == {"key"} and not publish(QUEUE).query


def test_a_declaration_is_told_from_one_of_what_is_there() -> None:
    found = of_request("PUT", "declare", ("queue",), ("passive",), ("*",))
    assert set(found.answers or ()) == {200, 201} and "max_messages" in found.bodies[JSON]["properties"]  # type: ignore[index]
    assert set(of_request("GET", "describe", ("queue",), (), None).answers or ()) == {200}


def test_what_is_needed_is_said() -> None:
    assert of_request("POST", "move", ("from",), (), ("to", "count")).needed == ("to",)
    assert of_request("PUT", "position", ("log", "group"), (), ("offsets",), None, "offsets").needed == ("offsets",)
    assert of_request("GET", "position", ("log", "group"), (), None).needed == ()


def test_a_bound_of_one_request_is_its_own() -> None:
    peek, move = of_request("GET", "peek", ("queue",), ("count",), None), of_request("POST", "move", (), (), ("count",))
    assert peek.query is not None and peek.query["count"]["maximum"] == PEEK_MESSAGES_MAX
    assert "maximum" not in move.bodies[JSON]["properties"]["count"]  # type: ignore[index]
