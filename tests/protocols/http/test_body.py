"""Bodies: of a known length or in chunks, however they are cut; what is too large, and what is none."""

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.protocols.http.body import Body
from radiator.protocols.http.head import BadRequest
from tests.protocols.http.asking import cuts, head_of

MOST = 100
CHUNKED = {"Transfer_Encoding": "chunked"}


def read(pieces: list[bytes], most: int = MOST, **headers: str | None) -> tuple[bytes | None, bytes]:
    """The body, None where it is not whole, and what is behind it."""
    body = Body(head_of("POST", **headers), most)
    unread = b""
    for piece in pieces:
        unread = body.take(unread + piece)
    assert body.taken_bytes == sum(map(len, pieces)) - len(unread)
    return (body.whole() if body.is_whole else None), unread


def refused(data: bytes, most: int = MOST, **headers: str | None) -> tuple[int, str]:
    """The same in each cut."""
    found = set()
    for pieces in cuts(data) if data else [[b""]]:
        with pytest.raises(BadRequest) as bad:
            read(pieces, most, **headers)
        found.add(bad.value.status)
    (status,) = found
    return status, str(bad.value)


def test_a_body_of_a_known_length_is_so_many_bytes() -> None:
    for pieces in cuts(b"hello, GET /"):
        assert read(pieces, Content_Length="5") == (b"hello", b", GET /")
        assert read(pieces, Content_Length="12") == (b"hello, GET /", b"")
        assert read(pieces, Content_Length="13") == (None, b"")
    assert read([b"more"]) == (b"", b"more"), "without a length there is none"
    assert read([b"more"], Content_Length="0") == (b"", b"more")


def test_a_body_in_chunks_is_what_is_in_them() -> None:
    data = b"5\r\nhello\r\n00000002\r\n\r\n\r\na\r\n0123456789\r\n0\r\n\r\nGET /"
    for pieces in cuts(data):
        assert read(pieces, **CHUNKED) == (b"hello\r\n0123456789", b"GET /")
    for size in range(len(data) - len(b"GET /")):
        assert read([data[:size]], **CHUNKED)[0] is None, size
    assert read([b"0\r\n\r\n"], **CHUNKED) == (b"", b"")
    assert read([b"A\r\n0123456789\r\n0\r\n\r\n"], Transfer_Encoding="CHUNKED")[0] == b"0123456789"


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5), st.binary(max_size=9), st.data())
def test_however_it_is_cut_into_chunks_and_pieces(chunks: list[bytes], rest: bytes, data: st.DataObject) -> None:
    wire = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n" + rest
    ends = [0, *sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=6))), len(wire)]
    pieces = [wire[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
    assert read(pieces, **CHUNKED) == (b"".join(chunks), rest)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\nhello\r\n",  # no size
        b"5;a=b\r\nhello\r\n",  # an extension
        b"5 \r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"-5\r\nhello\r\n",
        b"g\r\nhello\r\n",
        b"5_0\r\nhello\r\n",
        b"000000005\r\nhello\r\n",  # nine digits
        b"5\nhello\r\n",
        b"5\nhello\n0\n\n",
        b"5\rhello\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhelloo\r\n",
        b"5\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n",
        b"5\r\nhello\r\n0\n\n",
        b"\xb5\r\nhello\r\n",
    ],
)
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    # of nine bytes each reader can tell
    status, sentence = refused(data + b"xxxxxxxxx", **CHUNKED)
    assert status == 400 and sentence.endswith(".")


def test_a_body_has_so_many_bytes_at_most() -> None:
    assert read([b"x" * MOST], Content_Length=str(MOST))[0] == b"x" * MOST
    sentence = "The body has more than 100 bytes, the most that this resource takes."
    assert refused(b"", Content_Length=str(MOST + 1)) == (413, sentence), "before anything of it has come"
    assert read([b"64\r\n" + b"x" * MOST + b"\r\n0\r\n\r\n"], **CHUNKED)[0] == b"x" * MOST
    assert refused(b"65\r\n", **CHUNKED) == (413, sentence), "before anything of that chunk has come"
    assert refused(b"63\r\n" + b"x" * (MOST - 1) + b"\r\n2\r\n", **CHUNKED) == (413, sentence)
    assert refused(b"ffffffff\r\n", **CHUNKED)[0] == 413
    assert refused(b"", most=0, Content_Length="1")[0] == 413
    assert refused(b"1\r\n", most=0, **CHUNKED)[0] == 413
    assert read([b"0\r\n\r\n"], most=0, **CHUNKED) == (b"", b"")


@pytest.mark.parametrize("length", ["1, 1", "1,2", "+1", "-1", "0x1", "1 1", "", "1_0", "1.0", "9" * 19])
def test_what_is_no_length_is_refused_by_the_one_or_the_other(length: str) -> None:
    with pytest.raises(BadRequest) as bad:
        Body(head_of("POST", Content_Length=length), MOST)
    assert bad.value.status == 400


def test_a_length_beside_chunks_is_refused() -> None:
    for order in (("Content_Length", "Transfer_Encoding"), ("Transfer_Encoding", "Content_Length")):
        headers = {name: {"Content_Length": "5", "Transfer_Encoding": "chunked"}[name] for name in order}
        with pytest.raises(BadRequest):
            Body(head_of("POST", **headers), MOST)


def test_a_compressed_body_is_refused() -> None:
    for encoding in ("gzip", "deflate", "br", "identity, gzip", "x"):
        status, sentence = refused(b"", Content_Length="5", Content_Encoding=encoding)
        assert status == 415 and encoding in sentence
    assert read([b"hello"], Content_Length="5", Content_Encoding="Identity")[0] == b"hello"


def test_a_body_of_very_many_chunks_takes_no_more_memory_than_its_bytes() -> None:
    body = Body(head_of("POST", **CHUNKED), 1 << 20)
    for _ in range(100):
        assert body.take(b"1\r\nx\r\n" * 1000) == b""
    assert len(body.whole()) == 100_000 and body.taken_bytes == 600_000
    assert sys.getsizeof(body._held) < 150_000


def test_very_many_chunks_at_once_are_read_in_time() -> None:
    def cost_s(count: int) -> float:
        body = Body(head_of("POST", **CHUNKED), 1 << 20)
        data = b"1\r\nx\r\n" * count
        began_s = time.process_time()
        body.take(data)
        return time.process_time() - began_s

    assert min(cost_s(80_000) for _ in range(3)) < 24 * min(cost_s(10_000) for _ in range(3)), "it is quadratic"
