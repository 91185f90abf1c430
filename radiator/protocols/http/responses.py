"""Responses (RFC 9112, section 4) and problem documents (RFC 9457), and their bytes."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

TEXT = b"text/plain; charset=utf-8"
JSON = b"application/json"
PROBLEM = b"application/problem+json"
EVENTS = b"text/event-stream"

# no response but the console's is a page: a browser must neither take it for one, nor show it in another's frame
_NOT_KEPT = b"Cache-Control: no-store\r\n"
_NO_PAGE = b"default-src 'none'; frame-ancestors 'none'"
_ALWAYS = b"Content-Security-Policy: %b\r\nX-Content-Type-Options: nosniff\r\n"

STATUS_OF_CODE = {
    "aborted": 409,
    "bad-body": 422,
    "blocked": 503,
    "configuration": 409,
    "connections": 503,
    "declared": 409,
    "declared-otherwise": 409,
    "disconnected": 409,
    "exclusive": 409,
    "forbidden": 403,
    "in-use": 409,
    "lease-over": 410,
    "linked": 409,
    "locked": 409,
    "memory": 503,
    "no-ack-timeout": 409,
    "no-consumer": 409,
    "no-dedup": 422,
    "no-delay": 422,
    "no-events": 404,
    "no-history": 404,
    "no-journal": 404,
    "no-node": 404,
    "no-such-connection": 404,
    "no-session": 409,
    "no-such-destination": 404,
    "no-such-message": 404,
    "no-such-user": 404,
    "no-such-offset": 404,
    "no-subscriber": 409,
    "not-empty": 409,
    "not-prepared": 404,
    "not-ready": 503,
    "not-unacked": 404,
    "own-connection": 409,
    "prepared": 409,
    "queue-full": 429,
    "reserved": 403,
    "session-over": 410,
    "slow-subscriber": 503,
    "too-large": 413,
    "too-many-bindings": 429,
    "too-many-destinations": 429,
    "too-many-leases": 429,
    "too-many-receives": 429,
    "too-many-registrations": 429,
    "unknown-destination": 404,
    "unknown-node": 404,
    "wrong-offset": 409,
}
"""The status for each code of a refusal (docs/PROTOCOL.md); 400 for codes without a row."""

RETRY_AFTER_S = 1
"""How long a client is asked to wait if there was no room."""

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True, frozen=True)
class Response:
    """One response. content_type: b"" if there is no body. max_age_s: how long browsers and proxies may cache it. more:
    further parts of a long body. policy: what a browser may do with it (Content-Security-Policy).
    """

    status: int
    body: bytes = b""
    content_type: bytes = TEXT
    headers: Headers = ()
    max_age_s: int = 0
    more: tuple[bytes, ...] = ()
    policy: bytes = _NO_PAGE


def as_json(status: int, answer: Any, headers: Headers = ()) -> Response:
    """Returns a response whose body is this value as JSON."""
    return Response(status, json.dumps(answer, separators=(",", ":")).encode() + b"\n", JSON, headers)


def problem(status: int, code: str, sentence: str, headers: Headers = ()) -> Response:
    """Returns a problem document (RFC 9457). code, sentence: those that an ERROR of STOMP would have."""
    return Response(status, problem_text(status, code, sentence), PROBLEM, headers)


def problem_text(status: int, code: str, sentence: str, **more: Any) -> bytes:
    """Returns the body of a problem document. more: further members."""
    found = {"title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": sentence, **more}
    return json.dumps(found).encode() + b"\n"


def status_of(code: str) -> int:
    """Returns the status for the code of a refusal."""
    return STATUS_OF_CODE.get(code, 400)


def refused(code: str, sentence: str) -> Response:
    """Returns the response to a command that was refused."""
    status = status_of(code)
    return problem(status, code, sentence, retry_after(status))


def written(code: str, body: bytes) -> Response:
    """Returns a refusal whose problem document is written already."""
    status = status_of(code)
    return Response(status, body, PROBLEM, retry_after(status))


def retry_after(status: int) -> Headers:
    """Returns Retry-After, for a status after which trying again can help."""
    return ((b"Retry-After", b"%d" % RETRY_AFTER_S),) if status in (429, 503) else ()


def encoded(response: Response, more: Iterable[tuple[bytes, bytes]], is_head: bool, is_last: bool) -> bytes:
    """Returns the bytes of a response. more: further headers. is_head: the request was a HEAD, so the body is left out.
    is_last: the connection closes after this response.
    """
    return b"".join(encoded_pieces(response, more, is_head, is_last))


def encoded_pieces(
    response: Response, more: Iterable[tuple[bytes, bytes]], is_head: bool, is_last: bool
) -> tuple[bytes, ...]:
    """Returns the bytes of a response in pieces: the head, then each part of the body."""
    lines = [_STATUS_LINES[response.status]]
    if response.content_type:
        lines.append(b"Content-Type: %b\r\n" % response.content_type)
    if response.status != HTTPStatus.NO_CONTENT:
        lines.append(b"Content-Length: %d\r\n" % sum(map(len, (response.body, *response.more))))
    lines.append(b"Connection: close\r\n" if is_last else b"")
    lines.append(b"Cache-Control: max-age=%d\r\n" % response.max_age_s if response.max_age_s else _NOT_KEPT)
    lines.append(_ALWAYS % response.policy)
    lines += [b"%b: %b\r\n" % header for header in (*response.headers, *more)]
    lines.append(b"\r\n")
    return (b"".join(lines),) if is_head else (b"".join(lines), response.body, *response.more)


def opening_of_events(more: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the head of a stream of server-sent events, which lasts as long as its connection. more: further
    headers.
    """
    lines = b"".join(b"%b: %b\r\n" % header for header in more)
    return b"%bContent-Type: %b\r\nConnection: close\r\n%b%b%b\r\n" % (
        _STATUS_LINES[200],
        EVENTS,
        _NOT_KEPT,
        _ALWAYS % _NO_PAGE,
        lines,
    )


def switched(more: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns `101 Switching Protocols`. more: further headers."""
    return _STATUS_LINES[101] + b"".join(b"%b: %b\r\n" % header for header in more) + b"\r\n"


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_STATUS_LINES = {one.value: b"HTTP/1.1 %d %b\r\n" % (one.value, one.phrase.encode()) for one in HTTPStatus}
