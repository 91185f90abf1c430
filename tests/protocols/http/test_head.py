"""Heads of requests: what is read, and what is refused since two readers could understand it differently."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.limits import HTTP_HEAD_BYTES, HTTP_HEADERS, HTTP_TARGET_BYTES
from radiator.protocols.http.head import BadRequest, RequestHead, head_bytes, parse_head

HOST = b"Host: localhost\r\n"


def head(line: bytes, headers: bytes = HOST) -> RequestHead:
    data = line + b"\r\n" + headers + b"\r\n"
    assert head_bytes(data) == len(data)
    return parse_head(data)


def refused(data: bytes) -> tuple[int, str]:
    with pytest.raises(BadRequest) as bad:
        size = head_bytes(data)
        assert size, "its end has not come"
        parse_head(data[:size])
    return bad.value.status, str(bad.value)


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b"CONNECT\n", b"CONNECT\r\n", b"STOMP\nhost:/\n", b"STOMP\r\n"])
def test_another_protocol_is_answered_at_once(data: bytes) -> None:
    with pytest.raises(BadRequest, match="this listener is (http://|for HTTP); use ") as bad:
        head_bytes(data)
    assert bad.value.status == 400
    for shorter in (data[:1], b"CONNECT", b"STOMP", b"CONNECT a:1 HTTP/1.1\r\n", b"\x16"):
        assert head_bytes(shorter) == 0, "it may still be HTTP, or is refused with its whole head"


def test_a_head_is_read() -> None:
    found = head(b"GET /a/b?c=d?e HTTP/1.1", HOST + b"X-One:  1 \r\nx-one: 2\r\nConnection: Keep-Alive, Upgrade\r\n")
    assert found == RequestHead(
        "GET",
        b"/a/b",
        b"c=d?e",
        {b"host": b"localhost", b"x-one": b"1, 2", b"connection": b"Keep-Alive, Upgrade"},
        "1.1",
    )
    assert found.tokens(b"connection") == [b"keep-alive", b"upgrade"]
    assert found.tokens(b"upgrade") == []


def test_one_empty_line_before_a_head_is_of_it() -> None:
    plain = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert head_bytes(b"\r\n" + plain + b"x") == 2 + len(plain)
    assert parse_head(b"\r\n" + plain) == parse_head(plain)
    assert head_bytes(b"\r\n\r\n") == 0, "the second one is no end of a head"


def test_version_1_0_needs_no_host() -> None:
    assert head(b"GET / HTTP/1.0", b"").version == "1.0"
    assert refused(b"GET / HTTP/1.1\r\n\r\n") == (400, "The request has no Host.")
    assert refused(b"GET / HTTP/1.1\r\nHost:\r\n\r\n") == (400, "The request has no Host.")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET / ICE/1.0\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_ambiguous_is_refused(data: bytes) -> None:
    status, sentence = refused(data)
    assert status == 400 and sentence.endswith(".")


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"NOPE / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_not_done_here_is_refused(data: bytes) -> None:
    status, sentence = refused(data)
    assert status in (400, 501) and sentence.endswith(".")


def test_a_head_has_so_many_bytes_at_most() -> None:
    begin = b"GET / HTTP/1.1\r\n" + HOST + b"X: "
    longest = begin + b"x" * (HTTP_HEAD_BYTES - len(begin) - 4) + b"\r\n\r\n"
    assert head_bytes(longest) == HTTP_HEAD_BYTES
    assert head_bytes(longest[:-1]) == 0, "its last byte may still come"
    longer = begin + b"x" * (HTTP_HEAD_BYTES - len(begin) - 3) + b"\r\n\r\n"
    assert refused(longer)[0] == 431
    assert refused(longer[:HTTP_HEAD_BYTES])[0] == 431, "whatever follows"


def test_a_target_has_so_many_bytes_at_most() -> None:
    assert head(b"GET /%b HTTP/1.1" % (b"x" * (HTTP_TARGET_BYTES - 1))).path[:2] == b"/x"
    assert refused(b"GET /%b HTTP/1.1\r\n%b\r\n" % (b"x" * HTTP_TARGET_BYTES, HOST))[0] == 414
    assert refused(b"GET /" + b"x" * HTTP_HEAD_BYTES)[0] == 414


def test_there_are_so_many_headers_at_most() -> None:
    lines = [b"X-%d: 1\r\n" % number for number in range(HTTP_HEADERS - 1)]
    assert len(head(b"GET / HTTP/1.1", HOST + b"".join(lines)).headers) == HTTP_HEADERS
    assert refused(b"GET / HTTP/1.1\r\n" + HOST + b"".join(lines) + b"Y: 1\r\n\r\n")[0] == 431


@given(st.binary(max_size=200))
def test_anything_is_read_or_refused(data: bytes) -> None:
    for wire in (data + b"\r\n\r\n", b"GET / HTTP/1.1\r\n" + HOST + data + b"\r\n\r\n"):
        try:
            if size := head_bytes(wire):
                parse_head(wire[:size])
        except BadRequest as bad:
            assert bad.status in (400, 414, 431, 501)


PARTS = st.sampled_from(
    [b"GET", b"POST", b" ", b"  ", b"/", b"/a", b"?", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b"Host", b": ", b":", b"a"]
    + [b"Content-Length: 1", b"Transfer-Encoding: chunked", b"\t", b",", b"\0", b"\x7f", b"\xc3", b"X: y", b"\r\n\r\n"]
)


@given(st.lists(PARTS, max_size=12))
def test_what_is_read_h11_reads_alike(parts: list[bytes]) -> None:
    """A second opinion, by another parser: nothing is taken here that it does not take, and with the same meaning."""
    data = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(parts) + b"\r\n\r\n"
    try:
        ours = parse_head(data[: head_bytes(data)])
    except BadRequest:
        return
    other = h11.Connection(h11.SERVER)
    other.receive_data(data)
    event = other.next_event()
    assert isinstance(event, h11.Request)
    assert (event.method, event.target.partition(b"?")[0]) == (ours.method.encode(), ours.path)
    theirs: dict[bytes, bytes] = {}
    for name, value in event.headers:
        theirs[name] = theirs[name] + b", " + value if name in theirs else value
    assert theirs == ours.headers
