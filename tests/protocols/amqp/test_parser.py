"""Bytes to frames of AMQP: the same however they are cut, and the bounds at their values and one past them."""

import random

import pytest

from radiator.protocols.amqp.frame import HEARTBEAT, AmqpFrame, AmqpMessage, BrokenAmqp, encode_frame
from radiator.protocols.amqp.methods import BasicPublish
from radiator.protocols.amqp.parser import FrameParser, WrongProtocol
from radiator.protocols.amqp.spec import (
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_MIN_BYTES,
    PROTOCOL_HEADER,
    PROTOCOL_OPENING,
)
from tests.protocols.amqp.talking import content, method, publish

OPENING = AmqpFrame(PROTOCOL_OPENING, 0, PROTOCOL_HEADER)
WIRE = PROTOCOL_HEADER + b"".join(
    [
        encode_frame(1, 0, b"\0\x0a\0\x0b and more"),
        HEARTBEAT,
        encode_frame(2, 1, bytes(14)),
        encode_frame(3, 1, b""),
        encode_frame(3, 65_535, b"\xce" * 300),
        publish(1) + publish(258, properties=b"\x10\0\x02"),
        HEARTBEAT,
    ]
)


def outcome(parser: FrameParser, pieces: list[bytes]) -> tuple[list[AmqpFrame], str | None]:
    """All frames before the end or the first broken one, and the sentence about that."""
    found: list[AmqpFrame] = []
    try:
        for piece in pieces:
            for read in parser.frames(piece):
                found += read.frames
    except BrokenAmqp as broken:
        assert broken.code == FRAME_ERROR
        return found, str(broken)
    return found, None


def opened(frame_max: int = FRAME_MIN_BYTES) -> FrameParser:
    parser = FrameParser()
    assert [*parser.frames(PROTOCOL_HEADER)] == [OPENING]
    parser.use(frame_max)
    return parser


def cuts(data: bytes) -> list[list[bytes]]:
    """The data in one piece, in single bytes, in two at each place, and in some other ways."""
    chance = random.Random(5)
    ways = [[data], [data[at : at + 1] for at in range(len(data))]]
    ways += [[data[:at], data[at:]] for at in range(1, len(data))]
    for _ in range(200):
        ends = [0, *sorted(chance.choices(range(len(data)), k=chance.randint(1, 9))), len(data)]
        ways.append([data[start:end] for start, end in zip(ends, ends[1:], strict=False)])
    return ways


def test_the_frames_are_the_same_however_the_bytes_are_cut() -> None:
    wanted = outcome(FrameParser(), [WIRE])
    assert wanted[1] is None and len(wanted[0]) == 13 and wanted[0][0] == OPENING
    for pieces in cuts(WIRE):
        parser = FrameParser()
        assert outcome(parser, pieces) == wanted
        assert (parser.held_bytes, parser.frame_bytes) == (0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        WIRE + b"\x04\0\0\0\0\0\0\xce",
        WIRE + b"\x01\0\0\0\0\x0f\xf9",
        WIRE + b"\x01\0\0\0\0\0\x02ab\xcd",
        PROTOCOL_HEADER + PROTOCOL_HEADER,
        b"AMQP\0\0\x09\x02",
    ],
)
def test_broken_bytes_end_the_same_way_however_they_are_cut(broken: bytes) -> None:
    wanted = outcome(FrameParser(), [broken])
    assert wanted[1] is not None
    for pieces in cuts(broken):
        assert outcome(FrameParser(), pieces) == wanted or "begins with" in wanted[1]


def test_any_bytes_end_the_same_way_however_they_are_cut() -> None:
    chance = random.Random(11)
    for _ in range(2000):
        data = bytearray(WIRE)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(8, len(data))] = chance.choice((0, 1, 0xCE, 0xFF, chance.randrange(256)))
        wanted = outcome(FrameParser(), [bytes(data)])
        ends = [0, *sorted(chance.choices(range(len(data)), k=5)), len(data)]
        pieces = [bytes(data[start:end]) for start, end in zip(ends, ends[1:], strict=False)]
        assert outcome(FrameParser(), pieces) == wanted


# ---- the protocol header --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"G",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        b"CONNECT\n",
        b"AMQP\x00\x01\x00\x00",  # 1.0
        b"AMQP\x03\x01\x00\x00",  # its SASL
        b"AMQP\x01\x01\x08\x00",  # 0-8
        b"AMQP\x01\x01\x00\x09",
        b"amqp\0\0\x09\x01",
    ],
)
def test_another_protocol_is_recognised_by_its_first_byte_that_differs(data: bytes) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        parser = FrameParser()
        with pytest.raises(WrongProtocol, match="begins with .*, which is not AMQP 0-9-1"):
            for piece in pieces:
                assert [*parser.frames(piece)] == []


def test_the_protocol_header_comes_in_its_time() -> None:
    parser = FrameParser()
    for nth in range(7):
        assert [*parser.frames(PROTOCOL_HEADER[nth : nth + 1])] == []
        assert (parser.held_bytes, parser.frame_bytes) == (nth + 1, 8)
    assert [*parser.frames(b"")] == []
    assert [*parser.frames(PROTOCOL_HEADER[7:])] == [OPENING]
    assert parser.held_bytes == 0


# ---- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame_max", [FRAME_MIN_BYTES, 131_072])
def test_a_payload_of_the_size_that_was_agreed_on_and_one_byte_more(frame_max: int) -> None:
    """The frame around it is larger by 8 bytes than AMQP allows: rabbitpy sends such ones."""
    largest = encode_frame(FRAME_BODY, 1, bytes(frame_max))
    assert [len(frame.payload) for frame in outcome(opened(frame_max), [largest])[0]] == [frame_max]
    found, sentence = outcome(opened(frame_max), [encode_frame(FRAME_BODY, 1, bytes(frame_max + 1))])
    assert found == []
    assert sentence == f"A frame has {frame_max + 9} bytes: at most {frame_max + 8} may come."


def test_a_size_is_judged_with_the_seventh_byte() -> None:
    parser = opened()
    for byte in b"\x03\0\x01\xff\xff\xff":
        assert [*parser.frames(bytes((byte,)))] == []
    with pytest.raises(BrokenAmqp, match="4294967303 bytes"):
        [*parser.frames(b"\xff")]


def test_before_a_size_is_agreed_on_it_is_the_least() -> None:
    parser = FrameParser()
    data = PROTOCOL_HEADER + encode_frame(1, 0, bytes(4088)) + encode_frame(1, 0, bytes(4089))
    found, sentence = outcome(parser, [data])
    assert len(found) == 2
    assert sentence == "A frame has 4097 bytes: at most 4096 may come."


def test_a_size_counts_from_the_next_frame_on() -> None:
    data = PROTOCOL_HEADER + encode_frame(1, 0, b"tune-ok") + encode_frame(1, 0, bytes(5000))
    parser = FrameParser()
    sizes = []
    for read in parser.frames(data):
        (frame,) = read.frames
        sizes.append(len(frame.payload))
        if frame.payload == b"tune-ok":
            parser.use(8192)
    assert sizes == [8, 7, 5000]


@pytest.mark.parametrize("type_", [0, 4, 5, 6, 7, 9, 65, 255])
def test_a_type_that_there_is_not(type_: int) -> None:
    _, sentence = outcome(opened(), [encode_frame(type_, 0, b"")])
    assert sentence == f"A frame has the type {type_}: there are 1, 2, 3 and 8."


def test_a_frame_ends_with_its_octet() -> None:
    _, sentence = outcome(opened(), [b"\x01\0\0\0\0\0\x02abx"])
    assert sentence == "A frame of 2 bytes ends with 0x78: 0xce ends each."


def test_what_is_held_is_known() -> None:
    parser = opened()
    frame = encode_frame(FRAME_BODY, 1, bytes(1000))
    assert [*parser.frames(frame[:3])] == []
    assert (parser.held_bytes, parser.frame_bytes) == (3, 7)
    assert [*parser.frames(frame[3:100])] == []
    assert (parser.held_bytes, parser.frame_bytes) == (100, 1008)
    assert [*parser.frames(frame[100:-1])] == []
    assert (parser.held_bytes, parser.frame_bytes) == (1007, 1008)
    assert len([*parser.frames(frame[-1:] + HEARTBEAT[:2])]) == 1
    assert (parser.held_bytes, parser.frame_bytes) == (2, 7)


def test_an_unfinished_frame_is_not_looked_at_again_for_each_byte_that_comes() -> None:
    """The held bytes become bytes again three times: for the head, for what follows it, and when the frame is whole."""
    parser = opened(131_072)
    frame = encode_frame(FRAME_BODY, 1, bytes(131_064))
    buffers = set()
    for at in range(len(frame) - 1):
        assert [*parser.frames(frame[at : at + 1])] == []
        buffers.add(id(parser._held))
    assert len(buffers) <= 2
    assert len([*parser.frames(frame[-1:])]) == 1


# ---- messages -------------------------------------------------------------------------------------------------------

PUBLISH = method(1, BasicPublish(0, "", "q"))


def header(body_bytes: int, channel: int = 1, properties: bytes = b"\0\0") -> bytes:
    return encode_frame(2, channel, (60).to_bytes(2) + bytes(2) + body_bytes.to_bytes(8) + properties)


def test_a_message_that_comes_whole_is_one() -> None:
    first, second = publish(1, body=b"one"), publish(2, body=b"two")
    found = [*opened().frames(first + second + first[:-1])]
    assert [type(read) for read in found] == [AmqpMessage, AmqpMessage, AmqpFrame, AmqpFrame]
    assert [(read.channel, read.frames[-1].payload) for read in found[:2]] == [(1, b"one"), (2, b"two")]
    assert [frame for read in found for frame in read.frames] == outcome(opened(), [first, second, first[:-1]])[0]


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (PUBLISH + header(4) + encode_frame(3, 1, b"bod"), 3),  # it goes on
        (PUBLISH + header(4) + encode_frame(3, 1, b"body!"), 3),
        (PUBLISH + header(0) + encode_frame(3, 1, b""), 3),
        (PUBLISH + header(0) + PUBLISH, 3),
        (PUBLISH + header(4, 2) + encode_frame(3, 1, b"body"), 3),
        (PUBLISH + header(4) + encode_frame(3, 2, b"body"), 3),
        (PUBLISH + header(4) + encode_frame(1, 1, b"body"), 3),
        (PUBLISH + encode_frame(3, 1, header(4)[7:-1]) + encode_frame(3, 1, b"body"), 3),
        (PUBLISH + encode_frame(2, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0") + encode_frame(3, 1, b"body"), 3),
        (PUBLISH + HEARTBEAT + content(1), 4),
        (PUBLISH + PUBLISH + content(1), 2),  # the second is a message
        (method(1, BasicPublish(0, "", "q")).replace(b"\0\x3c\0\x28", b"\0\x3c\0\x29") + content(1), 3),
    ],
)
def test_what_is_no_whole_message_comes_as_frames(data: bytes, frames: int) -> None:
    found = [*opened().frames(data)]
    assert len(found) == frames
    one_by_one = outcome(opened(), [data[at : at + 1] for at in range(len(data))])
    assert ([frame for read in found for frame in read.frames], None) == one_by_one


@pytest.mark.parametrize(("header_bytes", "body_bytes", "is_one"), [
    (4096, 4096, True), (4097, 4096, False), (4096, 4097, False), (12, 1, True), (11, 1, False)
])  # fmt: skip
def test_a_message_at_the_bounds_of_its_frames(header_bytes: int, body_bytes: int, is_one: bool) -> None:
    head = ((60).to_bytes(2) + bytes(2) + body_bytes.to_bytes(8) + bytes(4100))[:header_bytes]
    data = PUBLISH + encode_frame(2, 1, head) + encode_frame(3, 1, bytes(body_bytes))
    reads: list[AmqpFrame | AmqpMessage] = []
    try:
        for read in opened().frames(data):
            reads.append(read)
    except BrokenAmqp as broken:
        assert str(broken) == "A frame has 4105 bytes: at most 4104 may come."
    assert [type(read) is AmqpMessage for read in reads][:1] == [is_one]


@pytest.mark.parametrize(("at", "frames"), [(-1, 2), (-13, 1)])
def test_a_frame_of_a_message_that_has_another_end_is_refused(at: int, frames: int) -> None:
    data = bytearray(publish(1, body=b"body"))
    data[at] = 0xCD
    found, sentence = outcome(opened(), [bytes(data)])
    assert len(found) == frames
    assert sentence is not None and "ends with 0xcd: 0xce ends each" in sentence
