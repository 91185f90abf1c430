"""The requests of STOMP over HTTP: what they must say, and what is wrong with the others."""

import pytest

from radiator.model.limits import AWAIT_MAX_MS, SIZE_MAX, TUNNEL_BYTES, Limits
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.routes import found_route
from radiator.protocols.http.tunnel import PollBytes, SendBytes
from radiator.protocols.http.tunnelling import body_max, close, open_session, poll, send
from tests.protocols.http.asking import a_request, head_of


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("from=0", PollBytes("S", 0, 0)),
        (f"from={SIZE_MAX}&wait_ms={AWAIT_MAX_MS}", PollBytes("S", SIZE_MAX, AWAIT_MAX_MS)),
        ("wait_ms=1&from=00", PollBytes("S", 0, 1)),
    ],
)
def test_a_poll_says_from_where_on_and_how_long_it_waits(query: str, asked: PollBytes) -> None:
    found = poll(a_request("POST", f"/v1/stomp/S/poll?{query}", names=("S",)))
    assert found.tunnel_request == asked and not found.commands and found.is_alone


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "`from` is ''; it must be a whole number from 0 to 999999999999999."),
        ("from=", "`from` is ''"),
        ("from=-1", "`from` is '-1'"),
        ("from=%C2%B2", "`from` is '²'"),
        (f"from={SIZE_MAX + 1}", f"`from` is '{SIZE_MAX + 1}'"),
        ("from=" + "0" * 19, "`from` is '0000"),
        (f"from=0&wait_ms={AWAIT_MAX_MS + 1}", "`wait_ms` is '60001'; it must be a whole number from 0 to 60000."),
        ("from=0&at=0", "'at' is not a parameter"),
        ("from=0&from=0", "has a parameter twice"),
    ],
)
def test_another_poll_is_refused(query: str, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        poll(a_request("POST", f"/v1/stomp/S/poll?{query}", names=("S",)))
    assert says in str(caught.value) and caught.value.status == 400


def test_what_is_sent_says_where_it_belongs() -> None:
    assert send(a_request("POST", "/x?at=7", b"abc", names=("S",))).tunnel_request == SendBytes("S", 7, b"abc")
    with pytest.raises(BadRequest, match="`at` is ''"):
        send(a_request("POST", "/x", b"abc", names=("S",)))
    assert body_max(head_of("POST"), Limits()) == TUNNEL_BYTES


@pytest.mark.parametrize("resource", [open_session, close])
def test_opening_and_closing_have_no_parameters(resource: object) -> None:
    made = resource(a_request("POST", "/x", names=("S",)))  # type: ignore[operator]
    assert isinstance(made, HttpExchange)
    with pytest.raises(BadRequest, match="it has none"):
        resource(a_request("POST", "/x?at=7", names=("S",)))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/stomp"), ("GET", "/v1/stomp/S/poll"), ("GET", "/v1/stomp/S"), ("PUT", "/v1/stomp/S/send")],
)
def test_nothing_of_it_is_done_by_another_method(method: str, path: str) -> None:
    with pytest.raises(BadRequest) as caught:
        found_route(head_of(method, path))
    assert caught.value.status == 405
