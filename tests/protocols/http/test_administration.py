"""Each resource is one request to /admin, and its answer or refusal is the response."""

import json
from typing import Any

import pytest

from radiator.model.administration import ReadStats
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.replies import Answered
from radiator.protocols.administration import JSON
from radiator.protocols.http.administration import ASKINGS, HTTP_JSON, Asking, any_request
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import Response
from radiator.protocols.http.routes import found_route
from tests.protocols.http.asking import a_request, head_of

AS_JSON = {"Content_Type": "application/json"}


def asked(method: str, path: str, body: Any = None, **headers: str | None) -> dict[str, Any]:
    """The request that a resource makes of it."""
    route, names = found_route(head_of(method, path))
    data = b"" if body is None else json.dumps(body).encode()
    found = route.resource(a_request(method, path, data, names, **{**AS_JSON, **headers}))
    assert isinstance(found, HttpExchange) and found.is_alone
    (command,) = found.commands
    assert isinstance(command, Administer) and command.is_answered and command.receipt == b"1"
    request: dict[str, Any] = json.loads(command.body)
    return request


EXAMPLES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("GET", "/v1/stats", None, {"do": "stats"}),
    ("GET", "/v1/stats?section=logs&limit=5&after=x", None,
     {"do": "stats", "section": "logs", "limit": 5, "after": "x"}),
    ("GET", "/v1/queues?limit=10", None, {"do": "queues", "limit": 10}),
    ("GET", "/v1/logs", None, {"do": "stats", "section": "logs"}),
    ("GET", "/v1/queues/a%2Fb", None, {"do": "describe", "queue": "a/b"}),
    ("PUT", "/v1/queues/a", {"max_messages": 3}, {"do": "declare", "queue": "a", "max_messages": 3}),
    ("PUT", "/v1/exchanges/x", {"type": "topic"}, {"do": "declare", "exchange": "x", "type": "topic"}),
    ("PUT", "/v1/queues/a?passive=true", None, {"do": "declare", "queue": "a", "passive": True}),
    ("DELETE", "/v1/queues/a?if_empty=true", None, {"do": "delete", "queue": "a", "if_empty": True}),
    ("GET", "/v1/queue-table", None, {"do": "queue-table"}),
    ("GET", "/v1/queue-table?match=a.%23&text=b&sort=-in&first=50&count=25&filter=needs", None,
     {"do": "queue-table", "match": "a.#", "text": "b", "sort": "-in", "first": 50, "count": 25, "filter": "needs"}),
    ("PUT", "/v1/queues/table", {}, {"do": "declare", "queue": "table"}),
    ("DELETE", "/v1/queues/table", None, {"do": "delete", "queue": "table"}),
    ("GET", "/v1/history?after_ms=7", None, {"do": "history", "after_ms": 7}),
    ("GET", "/v1/queues/table/history", None, {"do": "history", "queue": "table"}),
    ("GET", "/v1/attention", None, {"do": "attention"}),
    ("GET", "/v1/queues/a/why", None, {"do": "why", "queue": "a"}),
    ("GET", "/v1/queues/a/peek?count=2", None, {"do": "peek", "queue": "a", "count": 2}),
    (
        "GET",
        "/v1/queues/a/peek?message=a-1-2&from=9",
        None,
        {"do": "peek", "queue": "a", "message": "a-1-2", "from": 9},
    ),
    ("POST", "/v1/queues/a/purge", None, {"do": "purge", "queue": "a"}),
    ("POST", "/v1/queues/a/move", {"to": "b", "count": 2}, {"do": "move", "from": "a", "to": "b", "count": 2}),
    ("POST", "/v1/queues/a/return", {"message_ids": ["s-1-2"]},
     {"do": "return", "queue": "a", "message_ids": ["s-1-2"]}),
    ("POST", "/v1/queues/a/return", None, {"do": "return", "queue": "a"}),
    ("GET", "/v1/exchanges/x/route?key=a.b", None, {"do": "route", "exchange": "x", "key": "a.b"}),
    ("GET", "/v1/users/ann/may?right=write&destination=/queue/a", None,
     {"do": "may", "user": "ann", "right": "write", "destination": "/queue/a"}),
    ("PUT", "/v1/logs/l/positions/g", {"offsets": [1, 2]},
     {"do": "position", "log": "l", "group": "g", "offsets": [1, 2]}),
    ("DELETE", "/v1/logs/l/positions/g", None, {"do": "position", "log": "l", "group": "g", "forget": True}),
    ("POST", "/v1/exchanges/x/bindings", {"key": "k", "queue": "q"},
     {"do": "bind", "exchange": "x", "key": "k", "queue": "q"}),
    ("DELETE", "/v1/exchanges/x/bindings?key=k&queue=q", None,
     {"do": "unbind", "exchange": "x", "key": "k", "queue": "q"}),
    ("GET", "/v1/explain?message=s-1-2&after=7&limit=10", None,
     {"do": "explain", "message": "s-1-2", "after": 7, "limit": 10}),
    ("GET", "/v1/explain?trace=11111111111111111111111111111111", None, {"do": "explain", "trace": "1" * 32}),
    ("GET", "/v1/explain?correlation_id=%C3%A4%20%2F%3D1&limit=9", None,
     {"do": "explain", "correlation_id": "ä /=1", "limit": 9}),
    ("GET", "/v1/queues/q/consumers?after=a&limit=2&match=p", None,
     {"do": "consumers", "queue": "q", "after": "a", "limit": 2, "match": "p"}),
    ("POST", "/v1/queues/q/consumers", {"name": "pod-3", "ready": False, "lease_ms": 5000},
     {"do": "consumer-register", "queue": "q", "name": "pod-3", "ready": False, "lease_ms": 5000}),
    ("DELETE", "/v1/queues/q/consumers/pod%2F3?wait_ms=500", None,
     {"do": "consumer-drain", "queue": "q", "name": "pod/3", "wait_ms": 500}),
    ("GET", "/v1/queues/q/scale", None, {"do": "scale", "queue": "q"}),
    ("GET", "/v1/queues/q/unacked?after=7-8&limit=10", None,
     {"do": "unacked", "queue": "q", "after": "7-8", "limit": 10}),
    ("POST", "/v1/queues/q/unacked/extend", {"message_id": "s-1-2", "seconds": 60},
     {"do": "extend-unacked", "queue": "q", "message_id": "s-1-2", "seconds": 60}),
    ("GET", "/v1/connections?user=ann&after=7&limit=10", None,
     {"do": "connections", "user": "ann", "after": 7, "limit": 10}),
    ("GET", "/v1/connections/17", None, {"do": "connection", "number": 17}),
    ("DELETE", "/v1/connections/17", None, {"do": "disconnect", "number": 17}),
    ("POST", "/v1/drain", {"stop": True}, {"do": "drain", "stop": True}),
    ("POST", "/v1/reload", None, {"do": "reload"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "request_"), EXAMPLES)
def test_a_resource_is_a_request(method: str, path: str, body: Any, request_: dict[str, Any]) -> None:
    assert asked(method, path, body) == request_
    JSON.read(json.dumps(request_).encode())  # which is one


def example(asking: Asking) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(asking.names, "x")
    return {"do": asking.do, **dict(asking.fixed), **values}


@pytest.mark.parametrize("asking", ASKINGS, ids=lambda one: f"{one.method} {one.path}")
def test_each_resource_names_a_request_that_there_is(asking: Asking) -> None:
    """With all that it needs it is understood; without, what is missing is told, and nothing else."""
    try:
        JSON.read(json.dumps(example(asking)).encode())
    except Refusal as refusal:
        assert any(word in str(refusal) for word in ("needs", "must", "names one of")), refusal


@pytest.mark.parametrize(("method", "path", "body", "sentence"), [
    ("GET", "/v1/queues?limit=x", None, "limit is 'x'; it must be a whole number"),
    ("GET", "/v1/queues?limit=-1", None, "must be a whole number"),
    ("GET", "/v1/queues?limit=" + "9" * 19, None, "must be a whole number"),
    ("GET", "/v1/connections/x", None, "The number of a connection is 'x'; it must be a whole number"),
    ("DELETE", "/v1/connections/-1", None, "must be a whole number"),
    ("DELETE", "/v1/connections/%E2%80%AE7", None, "must be a whole number"),
    ("DELETE", "/v1/connections/" + "9" * 19, None, "must be a whole number"),
    ("DELETE", "/v1/queues/a?if_empty=1", None, "if_empty is '1'; it must be true or false"),
    ("GET", "/v1/queues?lmit=1", None, "'lmit' is not a parameter"),
    ("PUT", "/v1/queues/a", {"queue": "b"}, "The body may not have the key 'queue'"),
    ("PUT", "/v1/queues/a", {"do": "delete"}, "The body may not have the key 'do'"),
    ("POST", "/v1/queues/a/move", {"from": "b"}, "may not have the key 'from': its keys are to, count, create"),
    ("POST", "/v1/queues/a/purge", {"count": 1}, "The body may not have the key 'count'"),
    ("POST", "/v1/drain", [], "must be a JSON object"),
    ("PUT", "/v1/logs/l/positions/g", None, "The body has no offsets, which this PUT needs"),
    ("PUT", "/v1/logs/l/positions/g", {}, "The body has no offsets"),
])  # fmt: skip
def test_what_is_wrong_is_refused(method: str, path: str, body: Any, sentence: str) -> None:
    with pytest.raises(BadRequest) as refused:
        asked(method, path, body)
    assert refused.value.status == 400 and sentence in str(refused.value)


def test_a_page_of_another_site_cannot_send_a_body() -> None:
    """A form can send text/plain, and no browser sends application/json across sites without asking first."""
    with pytest.raises(BadRequest) as refused:
        asked("POST", "/v1/drain", {"stop": True}, Content_Type="text/plain")
    assert refused.value.status == 415


def test_any_request_may_be_posted_as_it_is() -> None:
    found = any_request(a_request("POST", "/v1/admin", b'{"do":"stats"}', **AS_JSON))
    (command,) = found.commands
    assert isinstance(command, Administer) and command.body == b'{"do":"stats"}'
    with pytest.raises(BadRequest):
        any_request(a_request("POST", "/v1/admin", b"[]", **AS_JSON))


def test_an_answer_is_the_body_and_a_refusal_a_problem() -> None:
    answer = any_request(a_request("POST", "/v1/admin", b'{"do":"stats"}', **AS_JSON)).answer
    assert answer(Answered(7, b"1", b'{"ok":true}')) == Response(200, b'{"ok":true}', b"application/json")
    body = HTTP_JSON.refusal(Refusal("queue-full", "It is full."))
    found = answer(Answered(7, b"1", body, "queue-full"))
    assert found == Response(429, body, b"application/problem+json", ((b"Retry-After", b"1"),))
    assert json.loads(body) == {
        "title": "Too Many Requests",
        "status": 429,
        "code": "queue-full",
        "detail": "It is full.",
    }


def test_what_was_not_there_before_is_created() -> None:
    route, names = found_route(head_of("PUT", "/v1/queues/a"))
    found = route.resource(a_request("PUT", "/v1/queues/a", b"{}", names, **AS_JSON))
    assert isinstance(found, HttpExchange)
    for body, code, status in (
        (b'{"ok":true,"created":true}', "", 201),
        (b'{"ok":true,"created":false}', "", 200),
        (b'{"ok":true,"offsets":[1]}', "", 200),
        (b"{}", "declared-otherwise", 409),
    ):
        assert isinstance(response := found.answer(Answered(7, b"1", body, code)), Response)
        assert response.status == status


def test_a_request_is_read_as_at_admin() -> None:
    assert HTTP_JSON.read(b'{"do":"stats"}') == ReadStats()
