"""The client reads most frames without the parser: it must read the same as the parser does, however they are cut."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from radiator.model.limits import Limits
from radiator.protocols.stomp.client import OPEN, ClientSession, ServerEvent

MESSAGE = b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nsubscription:s\ncontent-length:3\n\na\0b\0"
FRAGMENTS = [
    b"MESSAGE\n",
    b"RECEIPT\n",
    b"ERROR\n",
    b"receipt-id:r1\n",
    b"receipt-id:\n",
    b"receipt-id:a\\cb\n",
    b"receipt-id:a:b\n",
    b"receipt-id:\xc3\xa4\n",
    b"destination:/queue/a\n",
    b"message-id:1\n",
    b"subscription:s\n",
    b"subscription:t\n",
    b"content-length:3\n",
    b"content-length:0\n",
    b"content-length:+3\n",
    b"content-length:99999999999\n",
    b"name:a:b\n",
    b"name:\\n\n",
    b"name:\\x\n",
    b":empty\n",
    b"no colon\n",
    b"nul\0:x\n",
    b"\r\n",
    b"\n",
    b"\0",
    b"abc",
    b"a\0b\0",
    b"x" * 9000 + b":long\n",
    b"a:1\n" * 70,
    MESSAGE,
    b"RECEIPT\nreceipt-id:r2\n\n\0",
    b"RECEIPT\nreceipt-id:r2\n\n\0",
]


def session(version: str, is_plain: bool) -> ClientSession:
    one = ClientSession()
    one.connect("h", versions=[version])
    one.receive(f"CONNECTED\nversion:{version}\n\n\0".encode())
    assert one.state == OPEN
    if not is_plain:
        one._is_plain_read = False
    return one


def events(version: str, is_plain: bool, pieces: list[bytes]) -> list[ServerEvent]:
    one = session(version, is_plain)
    return [event for piece in pieces for event in one.receive(piece)]


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[begin:end] for begin, end in zip(places, places[1:], strict=False)]


@given(
    st.sampled_from(["1.0", "1.1", "1.2"]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12),
    st.lists(st.integers(0), max_size=4),
)
@example("1.2", [MESSAGE] * 3, [10, 100])
@example("1.2", [MESSAGE.replace(b"subscription:s", b"subscription:s\0")], [])
@example("1.2", [MESSAGE.replace(b"message-id:1\n", b"")], [])
@example("1.2", [MESSAGE, b"RECEIPT\nreceipt-id:r2\n\n\0", MESSAGE], [len(MESSAGE) + 12])
@example("1.1", [MESSAGE.replace(b"\n", b"\r\n")], [])
@example("1.2", [MESSAGE.replace(b"\n\n", b"\nsubscription:other\n\n")], [])
def test_plain_frames_read_as_the_parser_reads_them(version: str, fragments: list[bytes], at: list[int]) -> None:
    data = b"".join(fragments)
    assert events(version, True, cut(data, at)) == events(version, False, cut(data, at))


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_messages_of_any_size_are_read_whole(version: str, step: int) -> None:
    sizes = [0, 1, 70_000 if step > 1 else 700, 3]
    data = b"".join(
        MESSAGE.replace(b"content-length:3\n\na\0b", b"content-length:%d\n\n%b" % (size, b"\0" * size))
        for size in sizes
    )
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert [len(event.body) for event in events(version, True, pieces)] == sizes  # type: ignore[union-attr]


def test_plain_frames_do_not_pass_limits_that_are_smaller() -> None:
    small = ClientSession(Limits(max_frame_bytes=1000, max_header_bytes=500, max_headers=10))
    small.connect("h")
    small.receive(b"CONNECTED\nversion:1.2\n\n\0")
    assert not small._is_plain_read
    (event,) = small.receive(MESSAGE.replace(b"\n\n", b"\nlong:" + b"x" * 600 + b"\n\n"))
    assert "longer than 500 bytes" in str(event)
