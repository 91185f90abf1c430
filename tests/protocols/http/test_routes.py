"""What is at a path, and what its variable parts are."""

import pytest

from radiator.model.limits import HTTP_SEGMENTS
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.routes import KIND_IN_PATHS, ROUTES, found_route
from tests.protocols.http.asking import head_of


def found(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    route, names = found_route(head_of(method, path))
    return "/".join("*" if part is None else part for part in route.path), names


def refused(method: str, path: str) -> BadRequest:
    with pytest.raises(BadRequest) as found:
        found_route(head_of(method, path))
    return found.value


@pytest.mark.parametrize(("path", "name"), [
    ("a", "a"), ("a%2Fb", "a/b"), ("a.b-c_d~", "a.b-c_d~"), ("%C3%A4", "ä"), ("a%20b", "a b"), ("a+b", "a+b"),
    ("%2e%2e", ".."), ("%00", "\0"), ("a%3Fb%23", "a?b#"), ("%25", "%"), ("queues", "queues"), ("", ""),
])  # fmt: skip
def test_a_name_is_one_part_of_the_path_percent_encoded(path: str, name: str) -> None:
    assert found("POST", f"/v1/queues/{path}/messages") == ("v1/queues/*/messages", (name,))
    assert found("GET", f"/v1/queues/{path}") == ("v1/queues/*", (name,))


def test_a_path_may_have_two_names() -> None:
    assert found("PUT", "/v1/logs/l%2F/positions/g") == ("v1/logs/*/positions/*", ("l/", "g"))


@pytest.mark.parametrize("path", [
    "/v1/", "/v2/queues", "/v1//queues", "/v1/queues/", "//v1/queues", "/v1/queues/a/b/messages", "/V1/queues",
    "/v1/queues/a/../messages", "/healthz/", "/v1/queues/a/messages/", "/" + "a/" * HTTP_SEGMENTS, "/%2Fhealthz",
    "/v1/temp-queues/a/messages", "/v1/queues/a/why/", "/../etc/passwd", "/%2e%2e%2fetc%2fpasswd", "/config.toml",
])  # fmt: skip
def test_there_is_nothing_at_other_paths(path: str) -> None:
    if path == "/v1/queues/":
        assert found("GET", path) == ("v1/queues/*", ("",)), "a queue without a name, which the broker refuses"
        return
    wrong = refused("GET", path)
    assert (wrong.status, wrong.code) == (404, "no-such-resource")


def test_only_logs_and_topics_have_events() -> None:
    assert found("GET", "/v1/logs/a%2Fb/events")[1] == ("a/b",) and found("GET", "/v1/topics/a.%23/events")
    for kind in ("queues", "exchanges", "fanouts"):
        assert "messages of a queue are received" in str(refused("GET", f"/v1/{kind}/a/events"))


@pytest.mark.parametrize(("path", "hint"), [
    ("/healthz/", "leave out the `/` at its end"), ("/v1/queues/a/messages/", "leave out the `/` at its end"),
    ("/v1/queue/a/messages", "it begins with /v1/queues"), ("/v1/log/a/events", "it begins with /v1/logs"),
    ("/v1/queues/a/b/messages", "`/` within it is written %2F"), ("/v1/logs/a/b/c/d", "`/` within it is written %2F"),
    ("/v1/logs/a/receive", "messages are received from queues"), ("/v1/s/a", "openapi.json"),
    ("/v2", "openapi.json"), ("/v1/queues/a/message", "openapi.json"), ("/queue/a", "openapi.json"),
])  # fmt: skip
def test_a_usual_slip_is_told_what_would_be_right(path: str, hint: str) -> None:
    assert hint in str(refused("POST", path))


def test_a_part_that_is_no_text_is_refused() -> None:
    assert refused("GET", "/v1/queues/%FF").status == 400


def test_another_method_is_told_which_there_are() -> None:
    wrong = refused("PATCH", "/v1/queues/a")
    assert wrong.status == 405 and wrong.headers == ((b"Allow", b"GET, PUT, DELETE, HEAD"),)
    assert refused("GET", "/v1/settle").headers == ((b"Allow", b"POST"),)


def test_head_is_get() -> None:
    assert found("HEAD", "/v1/queues") == found("GET", "/v1/queues")


WITHOUT_REQUEST = ("events", "session")


def test_get_changes_nothing() -> None:
    """Each of them is one of these requests, none of which changes anything, or reads as a subscription does."""
    reads = {"stats", "queues", "describe", "why", "peek", "explain", "offsets", "position", "prepared", "version"}
    reads |= {"peers", "consumers", "scale", "connections", "connection", "unacked", "queue-table", "history"}
    reads |= {"attention", "configuration", "bounds", "disk", "log", "route", "may"}
    asked = {
        route.resource.__self__.do  # type: ignore[attr-defined]
        for route in ROUTES
        if route.method == "GET"
        and route.path[0] == "v1"
        and not route.is_free
        and route.path[-1] not in WITHOUT_REQUEST
    }
    assert asked <= reads


def test_each_kind_of_destination_has_a_path() -> None:
    assert sorted(KIND_IN_PATHS.values()) == ["exchanges", "fanouts", "logs", "queues", "topics"]
    assert all(found("POST", f"/v1/{name}/a/messages") for name in KIND_IN_PATHS.values())


def test_only_what_tells_nothing_is_free_of_a_login() -> None:
    of_documents = {("",), ("v1",), ("v1", "openapi.json")}
    of_clients = {("client.js",), ("client.d.ts",)}
    free = {route.path for route in ROUTES if route.is_free and route.path != ("v1", "session")}
    of_console = {("console", None, None), ("console", None, None, None)}
    assert free == {("ws",), ("stomp",), ("healthz",), *of_documents, *of_clients, *of_console}
    assert {route.path for route in ROUTES if route.is_console} == of_console
    of_session = {route.method for route in ROUTES if route.is_free and route.path == ("v1", "session")}
    assert of_session == {"POST", "DELETE"}, "they log in and out"
    assert {route.path for route in ROUTES if route.to_strangers is not None} == {("readyz",), ("v1", "session")}
