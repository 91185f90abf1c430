"""The table of all routes of the web, and the search in it."""

from urllib.parse import unquote_to_bytes

from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE, TOPIC
from radiator.model.errors import shown
from radiator.model.limits import HTTP_SEGMENTS
from radiator.protocols.http import (
    administration,
    assets,
    browser_session,
    console,
    events,
    health,
    leasing,
    metrics,
    openapi,
    operations,
    publishing,
    stats_events,
    tunnelling,
)
from radiator.protocols.http.exchange import HttpRequest, Route
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.responses import Response

KIND_IN_PATHS = {QUEUE: "queues", FANOUT: "fanouts", EXCHANGE: "exchanges", TOPIC: "topics", LOG: "logs"}


def _upgrade(request: HttpRequest) -> Response:
    raise AssertionError("a WebSocket is opened by the session")


_VERDICT = Route("GET", ("readyz",), health.verdict, is_free=True)
_STRANGER = Route("GET", ("v1", "session"), browser_session.stranger, is_free=True)
_DESCRIBED: tuple[Route, ...] = (
    Route("GET", ("ws",), _upgrade, is_free=True, is_websocket=True, operation=operations.WEBSOCKET),
    Route("GET", ("stomp",), _upgrade, is_free=True, is_websocket=True, operation=operations.WEBSOCKET),
    Route("GET", ("healthz",), health.alive, is_free=True, operation=operations.HEALTH),
    Route("GET", ("readyz",), health.ready, to_strangers=_VERDICT, operation=operations.READINESS),
    Route("GET", ("client.js",), assets.asset("client.js"), is_free=True, operation=operations.CLIENT),
    Route("GET", ("client.d.ts",), assets.asset("client.d.ts"), is_free=True, operation=operations.CLIENT_TYPES),
    Route("GET", ("metrics",), metrics.scrape, operation=operations.METRICS),
    Route(
        "POST",
        ("v1", "session"),
        browser_session.log_in,
        browser_session.body_max,
        is_free=True,
        logs_in=True,
        operation=operations.LOG_IN,
    ),
    Route("DELETE", ("v1", "session"), browser_session.log_out, is_free=True, operation=operations.LOG_OUT),
    Route("GET", ("v1", "session"), browser_session.identity, to_strangers=_STRANGER, operation=operations.IDENTITY),
    *(
        Route(
            "POST",
            ("v1", name, None, "messages"),
            publishing.to_kind(kind),
            publishing.body_max,
            operation=operations.publish(kind),
        )
        for kind, name in KIND_IN_PATHS.items()
    ),
    Route(
        "POST",
        ("v1", "queues", None, "receive"),
        leasing.receive,
        administration.body_max,
        operation=operations.RECEIVE,
    ),
    Route("POST", ("v1", "settle"), leasing.settle, leasing.body_max, operation=operations.SETTLE),
    Route("GET", ("v1", "logs", None, "events"), events.of_log, operation=operations.EVENTS_OF_LOG),
    Route("GET", ("v1", "topics", None, "events"), events.of_topics, operation=operations.EVENTS_OF_TOPICS),
    Route("GET", ("v1", "stats", "events"), stats_events.of_stats, operation=operations.EVENTS_OF_STATS),
    Route("POST", ("v1", "stomp"), tunnelling.open_session, operation=operations.OPEN_SESSION),
    Route(
        "POST",
        ("v1", "stomp", None, "send"),
        tunnelling.send,
        tunnelling.body_max,
        operation=operations.SEND_BYTES,
    ),
    Route("POST", ("v1", "stomp", None, "poll"), tunnelling.poll, operation=operations.POLL_BYTES),
    Route("DELETE", ("v1", "stomp", None), tunnelling.close, operation=operations.CLOSE_SESSION),
    *administration.ROUTES,
)
ROUTES = (*openapi.routes(_DESCRIBED), *_DESCRIBED, *console.FILES)


def found_route(head: RequestHead) -> tuple[Route, tuple[str, ...]]:
    """Returns the route of a request, and the variable parts of its path. Raises BadRequest."""
    segments = head.path[1:].split(b"/")
    if len(segments) > HTTP_SEGMENTS:
        raise _nothing_at(head)
    words: list[str] = [_decoded(head, one) if b"%" in one else _text(head, one) for one in segments]
    found = _BY_PATH.get(tuple(words))
    names: tuple[str, ...] = ()
    if found is None:
        for path, methods in _WITH_NAMES.get(len(words), ()):
            if all(part is None or part == word for part, word in zip(path, words, strict=True)):
                found = methods
                names = tuple(word for part, word in zip(path, words, strict=True) if part is None)
                break
    if found is None:
        raise _nothing_at(head)
    route = found.get("GET" if head.method == "HEAD" else head.method)
    if route is None:
        allowed = ", ".join([*found, "HEAD"] if "GET" in found else found)
        sentence = f"{head.method} is not for {shown(head.path)}, which takes {allowed}."
        raise BadRequest(405, sentence, ((b"Allow", allowed.encode()),))
    return route, names


def _nothing_at(head: RequestHead) -> BadRequest:
    return BadRequest(404, f"There is nothing at {shown(head.path)}: {_hint(head.path[1:].split(b'/'))}.")


def _hint(parts: list[bytes]) -> str:
    """Returns what is probably wrong with a path that does not exist."""
    kind = parts[1].decode("latin-1") if parts[0] == b"v1" and len(parts) > 2 else ""
    if len(parts) > 1 and not parts[-1]:
        return "leave out the `/` at its end"
    if f"{kind}s" in KIND_IN_PATHS.values():
        return f"it begins with /v1/{kind}s"
    if parts[-1] == b"events":
        return "events are of logs, topics and stats; messages of a queue are received (POST /v1/queues/NAME/receive)"
    if parts[-1] == b"receive":
        return "messages are received from queues; those of logs and topics come as events (GET .../events)"
    if kind in KIND_IN_PATHS.values() and len(parts) > 4:
        return "a name is one part of the path; `/` within it is written %2F"
    return "GET /v1/openapi.json and docs/HTTP.md list what there is"


def _decoded(head: RequestHead, segment: bytes) -> str:
    return _text(head, unquote_to_bytes(segment))


def _text(head: RequestHead, segment: bytes) -> str:
    try:
        return segment.decode()
    except UnicodeDecodeError:
        raise BadRequest(400, f"The path {shown(head.path)} is not UTF-8, percent-encoded.") from None


Methods = dict[str, Route]
_BY_PATH: dict[tuple[str | None, ...], Methods] = {}
_WITH_NAMES: dict[int, list[tuple[tuple[str | None, ...], Methods]]] = {}


def _enter(route: Route) -> None:
    if None not in route.path:
        _BY_PATH.setdefault(route.path, {})[route.method] = route
        return
    same_length = _WITH_NAMES.setdefault(len(route.path), [])
    methods = next((methods for path, methods in same_length if path == route.path), None)
    if methods is None:
        methods = {}
        same_length.append((route.path, methods))
    methods[route.method] = route


for _route in ROUTES:
    _enter(_route)
