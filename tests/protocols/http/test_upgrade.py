"""Who may open a WebSocket, and how he is answered."""

import pytest

from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.upgrade import accepted
from tests.protocols.http.asking import head_of

ASKED: dict[str, str | None] = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_the_example_of_rfc_6455_is_answered_as_there() -> None:
    answer = accepted(head_of("GET", "/ws", **ASKED), False)
    assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n") and answer.endswith(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"Sec-WebSocket-Protocol" not in answer and b"Sec-WebSocket-Extensions" not in answer


@pytest.mark.parametrize(("offered", "chosen"), [
    ("v12.stomp", b"v12.stomp"), ("v10.stomp, v11.stomp", b"v10.stomp"), ("x, V11.STOMP", b"v11.stomp"),
])  # fmt: skip
def test_the_first_version_of_stomp_that_is_offered_is_chosen(offered: str, chosen: bytes) -> None:
    answer = accepted(head_of("GET", "/ws", **ASKED, Sec_WebSocket_Protocol=offered), False)
    assert b"Sec-WebSocket-Protocol: %b\r\n" % chosen in answer


def test_compression_is_not_agreed_to() -> None:
    answer = accepted(head_of("GET", "/ws", **ASKED, Sec_WebSocket_Extensions="permessage-deflate"), False)
    assert b"extensions" not in answer.lower()


def test_a_browser_that_keeps_its_connection_alive_is_understood() -> None:
    asked = {**ASKED, "Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"}
    assert accepted(head_of("GET", "/ws", **asked), False)


@pytest.mark.parametrize(("changed", "status"), [
    ({"Upgrade": None}, 426), ({"Upgrade": "h2c"}, 426), ({"Connection": "close"}, 426),
    ({"Sec_WebSocket_Version": "8"}, 426), ({"Sec_WebSocket_Version": None}, 426),
    ({"Sec_WebSocket_Key": None}, 400), ({"Sec_WebSocket_Key": "x"}, 400), ({"Sec_WebSocket_Key": "AAAA"}, 400),
    ({"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ"}, 400), ({"Sec_WebSocket_Protocol": "mqtt"}, 400),
])  # fmt: skip
def test_what_is_none_is_refused(changed: dict[str, str | None], status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        accepted(head_of("GET", "/ws", **{**ASKED, **changed}), False)
    assert refused.value.status == status


def test_what_can_be_none_is_refused() -> None:
    for head in (head_of("HEAD", "/ws", **ASKED), head_of("GET", "/ws", "1.0", **ASKED)):
        with pytest.raises(BadRequest, match=r"opened with GET and HTTP/1\.1"):
            accepted(head, False)
    with pytest.raises(BadRequest, match="a connection of its own"):
        accepted(head_of("GET", "/ws", **ASKED), True)
