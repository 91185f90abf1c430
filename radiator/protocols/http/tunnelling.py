"""`/v1/stomp`: STOMP over HTTP, for clients whose proxy lets neither TCP nor a WebSocket through."""

from collections.abc import Callable

from radiator.model.limits import AWAIT_MAX_MS, NUMBER_DIGITS_MAX, SIZE_MAX, TUNNEL_BYTES, Limits
from radiator.model.replies import Answered, Reply
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.responses import Response, as_json
from radiator.protocols.http.tunnel import CloseTunnel, OpenTunnel, PollBytes, SendBytes, TunnelRequest

_BYTES = b"application/octet-stream"


def open_session(request: HttpRequest) -> HttpExchange:
    """Opens a session. Raises BadRequest."""
    request.query()
    return _asking(OpenTunnel(), _opened)


def send(request: HttpRequest) -> HttpExchange:
    """Sends bytes of STOMP to a session. Raises BadRequest."""
    given = request.query("at")
    asked = SendBytes(request.names[0], _number(given, "at", SIZE_MAX), request.body)
    return _asking(asked, lambda body: as_json(200, {"at": int(body)}))


def poll(request: HttpRequest) -> HttpExchange:
    """Fetches bytes of STOMP from a session. Raises BadRequest."""
    given = request.query("from", "wait_ms")
    start = _number(given, "from", SIZE_MAX)
    wait_ms = _number(given, "wait_ms", AWAIT_MAX_MS, "0")
    return _asking(PollBytes(request.names[0], start, wait_ms), _polled)


def close(request: HttpRequest) -> HttpExchange:
    """Closes a session. Raises BadRequest."""
    request.query()
    return _asking(CloseTunnel(request.names[0]), _polled)


def body_max(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a `send`."""
    return TUNNEL_BYTES


def _asking(asked: TunnelRequest, answer: Callable[[bytes], Response]) -> HttpExchange:
    def answered(reply: Reply) -> Response:
        assert isinstance(reply, Answered)
        return answer(reply.body)

    return HttpExchange([], answered, tunnel_request=asked)


def _opened(body: bytes) -> Response:
    return as_json(201, {"session": body.decode()}, ((b"Location", b"/v1/stomp/" + body),))


def _polled(body: bytes) -> Response:
    return Response(200, body, _BYTES) if body else Response(204, content_type=b"")


def _number(given: dict[str, str], key: str, most: int, absent: str = "") -> int:
    value = given.get(key, absent)
    if not (value.isascii() and value.isdigit() and len(value) <= NUMBER_DIGITS_MAX and int(value) <= most):
        raise BadRequest(400, f"`{key}` is {value!r:.80}; it must be a whole number from 0 to {most}.")
    return int(value)
