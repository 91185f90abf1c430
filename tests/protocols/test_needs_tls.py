import json

import pytest

from radiator.protocols.needs_tls import SENTENCE, needs_tls


def test_who_asks_by_http_gets_a_problem_document() -> None:
    head, _, body = needs_tls(b"GET /healthz?a=b HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"\r\nConnection: close" in head
    assert json.loads(body)["detail"] == SENTENCE


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"GET",
        b"CONNECT x",
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"\xff" * 5000,
        b"x" * 9999,
        b"GET / HTTQ",
        b"\n" * 65 + b"STOMP\n",
    ],
)
def test_all_others_get_nothing(data: bytes) -> None:
    assert needs_tls(data) == b""
