"""Responses: their status, their length, and what no browser may do with them."""

import json

import h11
import pytest

from radiator.protocols.http.responses import (
    STATUS_OF_CODE,
    Headers,
    Response,
    as_json,
    encoded,
    opening_of_events,
    problem,
    refused,
    switched,
)


def read(
    response: Response, more: Headers = (), method: str = "GET", is_last: bool = True
) -> tuple[h11.Response, bytes]:
    """As another reader understands it."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(encoded(response, more, method == "HEAD", is_last))
    head, body = client.next_event(), b""
    assert isinstance(head, h11.Response)
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert (client.their_state is h11.MUST_CLOSE) is is_last
    return head, body


@pytest.mark.parametrize("is_last", [False, True])
def test_a_response_has_its_length_and_says_whether_it_is_the_last(is_last: bool) -> None:
    head, body = read(Response(200, b"ok\n", headers=((b"X-One", b"1"),)), ((b"X-Two", b"2"),), is_last=is_last)
    headers = dict(head.headers)
    assert (head.status_code, head.reason, body) == (200, b"OK", b"ok\n")
    assert (headers[b"x-one"], headers[b"x-two"]) == (b"1", b"2")


@pytest.mark.parametrize("response", [Response(200, b"<script>"), as_json(200, {}), problem(400, "protocol", "<b>")])
def test_no_browser_takes_it_for_a_page_frames_it_or_keeps_it(response: Response) -> None:
    headers = dict(read(response)[0].headers)
    assert b"html" not in headers[b"content-type"] and headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"content-security-policy"] == b"default-src 'none'; frame-ancestors 'none'"
    assert headers[b"cache-control"] == b"no-store"


def test_what_is_the_same_for_everybody_may_be_kept_for_a_while() -> None:
    headers = dict(read(Response(200, b"{}", b"application/json", max_age_s=300))[0].headers)
    assert headers[b"cache-control"] == b"max-age=300" and headers[b"x-content-type-options"] == b"nosniff"


def test_head_gets_no_body() -> None:
    head, body = read(Response(200, b"ok\n"), method="HEAD")
    assert dict(head.headers)[b"content-length"] == b"3" and body == b""


def test_nothing_has_no_length_and_no_type() -> None:
    head, body = read(Response(204, content_type=b""))
    assert not {b"content-length", b"content-type"} & dict(head.headers).keys() and body == b""


def test_a_problem_has_code_and_sentence() -> None:
    head, body = read(problem(404, "no-such-destination", 'There is no "queue".'))
    assert (head.status_code, dict(head.headers)[b"content-type"]) == (404, b"application/problem+json")
    assert json.loads(body) == {
        "title": "Not Found",
        "status": 404,
        "code": "no-such-destination",
        "detail": 'There is no "queue".',
    }


@pytest.mark.parametrize(("code", "status", "again"), [
    ("blocked", 503, b"1"), ("queue-full", 429, b"1"), ("too-many-leases", 429, b"1"), ("forbidden", 403, None),
    ("lease-over", 410, None), ("of-later-times", 400, None),
])  # fmt: skip
def test_a_refusal_has_the_status_of_its_code_and_says_when_to_ask_again(
    code: str, status: int, again: bytes | None
) -> None:
    head, _ = read(refused(code, "No."))
    assert (head.status_code, dict(head.headers).get(b"retry-after")) == (status, again)


def test_no_refusal_looks_like_an_answer() -> None:
    assert all(400 <= status <= 599 for status in STATUS_OF_CODE.values())


def test_a_stream_lasts_as_long_as_its_connection() -> None:
    opening = opening_of_events(((b"X-One", b"1"),))
    assert opening.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n")
    assert b"Content-Length" not in opening and opening.endswith(b"X-One: 1\r\n\r\n")


def test_another_protocol_may_follow() -> None:
    assert switched([(b"Upgrade", b"websocket")]) == b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
