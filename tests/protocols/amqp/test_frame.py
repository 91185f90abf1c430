"""The frames that a server sends, read again; and the content header."""

import random
import struct

import pytest

from radiator.protocols.amqp.codec import decode_method
from radiator.protocols.amqp.frame import (
    HEARTBEAT,
    AmqpFrame,
    BrokenAmqp,
    decode_content_header,
    deliver_pieces,
    encode_ack,
    encode_deliver,
    encode_frame,
    encode_get_ok,
    encode_nack,
    encode_return,
)
from radiator.protocols.amqp.methods import BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReturn, Method
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import (
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    UNEXPECTED_FRAME,
)

FRAME_MAX = 4096
PROPERTIES = b"\x10\x00\x02"
BODY_SIZES = [0, 1, 4087, 4088, 4089, 8176, 8177, 30_000]


def read(data: bytes, frame_max: int = FRAME_MAX) -> list[AmqpFrame]:
    parser = FrameParser()
    _, *frames = [*parser.frames(PROTOCOL_HEADER), *parser.frames(data)]
    assert parser.held_bytes == 0
    return frames


def content(frames: list[AmqpFrame], channel: int) -> tuple[Method, bytes, bytes]:
    """The method, the properties and the body; each frame is of that channel."""
    assert {frame.channel for frame in frames} == {channel}
    method, header, *bodies = frames
    assert [method.type, header.type] == [FRAME_METHOD, FRAME_HEADER]
    assert {frame.type for frame in bodies} <= {FRAME_BODY}
    assert all(frame.payload for frame in bodies), "an empty body has no frame"
    class_id, size, properties = decode_content_header(header.payload)
    body = b"".join(frame.payload for frame in bodies)
    assert (class_id, size) == (60, len(body))
    return decode_method(method.payload), properties, body


@pytest.mark.parametrize("size", BODY_SIZES)
def test_a_delivery(size: int) -> None:
    body = random.Random(size).randbytes(size)
    for tag, again in ((1, False), (2**64 - 1, True)):
        arguments = (65_535, b"ctag", tag, again, b"orders", b"a.b", PROPERTIES, body, FRAME_MAX)
        data = encode_deliver(*arguments)
        method = BasicDeliver("ctag", tag, again, "orders", "a.b")
        assert content(read(data), 65_535) == (method, PROPERTIES, body)
        assert b"".join(deliver_pieces(*arguments)) == data


def test_a_large_body_is_not_copied() -> None:
    body = bytes(1 << 20)
    pieces = deliver_pieces(1, b"c", 1, False, b"e", b"k", PROPERTIES, body, 2 << 20)
    assert any(piece is body for piece in pieces)
    pieces = deliver_pieces(1, b"c", 1, False, b"e", b"k", PROPERTIES, body, FRAME_MAX)
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert sum(len(view) for view in views) == len(body) and all(view.obj is body for view in views)


def test_the_longest_names() -> None:
    names = b"c" * 255, b"e" * 255, b"k" * 255
    data = encode_deliver(1, names[0], 7, False, names[1], names[2], PROPERTIES, b"x", FRAME_MAX)
    wanted = BasicDeliver(names[0].decode(), 7, False, names[1].decode(), names[2].decode())
    assert content(read(data), 1)[0] == wanted
    data = encode_deliver(1, b"", 7, False, b"", b"", PROPERTIES, b"x", FRAME_MAX)
    assert content(read(data), 1)[0] == BasicDeliver("", 7, False, "", "")


@pytest.mark.parametrize("size", BODY_SIZES)
def test_what_was_got_or_comes_back(size: int) -> None:
    body = random.Random(size).randbytes(size)
    data = encode_get_ok(3, 9, True, b"orders", b"a.b", 2**32 - 1, PROPERTIES, body, FRAME_MAX)
    assert content(read(data), 3) == (BasicGetOk(9, True, "orders", "a.b", 2**32 - 1), PROPERTIES, body)
    data = encode_return(3, 312, b"NO_ROUTE", b"orders", b"a.b", PROPERTIES, body, FRAME_MAX)
    assert content(read(data), 3) == (BasicReturn(312, "NO_ROUTE", "orders", "a.b"), PROPERTIES, body)


def test_confirms() -> None:
    for tag in (1, 2**64 - 1):
        for multiple in (False, True):
            for data, method in (
                (encode_ack(5, tag, multiple), BasicAck(tag, multiple)),
                (encode_nack(5, tag, multiple), BasicNack(tag, multiple, False)),
            ):
                (frame,) = read(data)
                assert (frame.channel, decode_method(frame.payload)) == (5, method)


def test_a_heart_beat() -> None:
    assert HEARTBEAT == b"\x08\0\0\0\0\0\0\xce"  # 4.2.7 of the specification
    assert read(HEARTBEAT) == [AmqpFrame(FRAME_HEARTBEAT, 0, b"")]


def test_a_content_header_is_whole_and_has_no_weight() -> None:
    head = struct.pack(">HHQ", 60, 0, 2**64 - 1)
    assert decode_content_header(head + b"\x10\x00\x02") == (60, 2**64 - 1, b"\x10\x00\x02")
    assert decode_content_header(head) == (60, 2**64 - 1, b"")
    with pytest.raises(BrokenAmqp, match="11 bytes") as caught:
        decode_content_header(head[:-1])
    assert caught.value.code == FRAME_ERROR
    with pytest.raises(BrokenAmqp, match="weight 1") as caught:
        decode_content_header(struct.pack(">HHQ", 60, 1, 1))
    assert caught.value.code == UNEXPECTED_FRAME


def test_any_frame() -> None:
    assert encode_frame(2, 258, b"abc") == b"\x02\x01\x02\0\0\0\x03abc\xce"
