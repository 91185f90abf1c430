"""Bytes to frames: the same frames however the bytes are cut, and every limit at its value and one past it."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radiator.model.headers import escape
from radiator.model.limits import COMMAND_MAX_BYTES, CONNECT_MAX_BYTES, Limits
from radiator.protocols.stomp.frame import BrokenFrame, Frame
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.spec import CLIENT_COMMANDS, CONNECT_COMMANDS, V1_0, V1_1, V1_2

VERSIONS = (V1_0, V1_1, V1_2)


def parser(version: int = V1_2, limits: Limits | None = None) -> Parser:
    made = Parser(limits or Limits(), CONNECT_COMMANDS)
    made.speak(version, CLIENT_COMMANDS[version])
    return made


def frames(data: bytes, version: int = V1_2, limits: Limits | None = None) -> list[Frame]:
    return list(parser(version, limits).frames(data))


def outcome(made: Parser, pieces: list[bytes]) -> tuple[list[Frame], str | None]:
    """All frames that come before the end or the first broken one, and the sentence about that."""
    found: list[Frame] = []
    try:
        for piece in pieces:
            for frame in made.frames(piece):
                found.append(frame)
    except BrokenFrame as broken:
        return found, str(broken)
    return found, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in zip(ends, ends[1:], strict=False)]


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@st.composite
def wire_frames(draw: st.DrawFn, version: int) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """A SEND as that version writes it, with what must be read from it."""
    headers: dict[bytes, bytes] = {b"destination": b"/queue/a"}
    lines = [b"destination:/queue/a"]
    for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=5)):
        raw_name, raw_value = name.encode(), value.encode()
        if version == V1_0:
            raw_name = raw_name.replace(b"\n", b"").replace(b":", b"") or b"x"
            raw_value = raw_value.replace(b"\n", b"")
        if raw_name == b"content-length":
            continue
        lines.append(escape(raw_name, version) + b":" + escape(raw_value, version))
        headers.setdefault(raw_name, raw_value.strip(b" ") if version == V1_0 else raw_value)
    body = draw(st.binary(max_size=60))
    if b"\0" in body or draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), b"content-length:%d" % len(body))
        headers[b"content-length"] = b"%d" % len(body)
    end = b"\r\n" if version == V1_2 and draw(st.booleans()) else b"\n"
    data = end.join([b"SEND", *lines]) + end + end + body + b"\0" + end * draw(st.integers(0, 3))
    return data, headers, body


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_chunking_gives_the_same_frames(version: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(wire_frames(version), min_size=1, max_size=4))
    wire = b"".join(frame for frame, _, _ in wanted)
    pieces = cut(wire, data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    read = parser(version)
    found, sentence = outcome(read, pieces)
    assert sentence is None
    assert [(f.headers, f.body) for f in found] == [(headers, body) for _, headers, body in wanted]
    assert read.held_bytes == 0


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_bytes_end_the_same_way_however_they_are_cut(version: int, data: st.DataObject) -> None:
    token = st.sampled_from(
        [
            b"SEND",
            b"ACK",
            b"\n",
            b"\n\n",
            b"\r\n",
            b"\r",
            b"\0",
            b":",
            b"destination:a",
            b"content-length:",
            b"3",
            b"\\c",
        ]
    )
    wire = b"".join(data.draw(st.lists(st.one_of(token, st.binary(max_size=4)), max_size=25)))
    limits = Limits(max_frame_bytes=80, max_header_bytes=60, max_headers=4)
    whole = outcome(parser(version, limits), [wire])
    assert outcome(parser(version, limits), [wire[i : i + 1] for i in range(len(wire))])[0] == whole[0]
    bytewise = outcome(parser(version, limits), [wire[i : i + 1] for i in range(len(wire))])
    assert (bytewise[1] is None) == (whole[1] is None)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise_before_connect_raises_nothing_but_broken_frame(noise: bytes) -> None:
    outcome(Parser(Limits(), CONNECT_COMMANDS), [noise])


@pytest.mark.parametrize("version", VERSIONS)
def test_frame_of_one_byte_pieces_is_read(version: int) -> None:
    wire = b"SEND\ndestination:/queue/a\ncontent-length:3\n\na\0b\0\nSEND\ndestination:b\n\nxyz\0"
    found, sentence = outcome(parser(version), [wire[i : i + 1] for i in range(len(wire))])
    assert sentence is None
    assert [f.body for f in found] == [b"a\0b", b"xyz"]


def test_large_body_in_pieces_is_searched_once() -> None:
    """Every piece is looked at once: the bytes that find() may see again are those of one piece."""
    body = bytes(range(1, 256)) * 8192  # 2 MiB
    for length in (b"", b"content-length:%d\n" % len(body)):
        wire = b"SEND\ndestination:a\n" + length + b"\n" + body + b"\0"
        read = parser()
        found, sentence = outcome(read, [wire[i : i + 4096] for i in range(0, len(wire), 4096)])
        assert sentence is None
        assert [f.body for f in found] == [body]


# ---- line ends ----------------------------------------------------------------------------------------------------


def test_1_2_reads_crlf_lf_and_both_in_one_frame() -> None:
    for wire in (
        b"SEND\r\ndestination:a\r\nfoo:bar\r\n\r\nbody\0",
        b"SEND\ndestination:a\r\nfoo:bar\n\r\nbody\0",
        b"SEND\r\ndestination:a\nfoo:bar\r\n\nbody\0",
        b"SEND\r\ndestination:a\nfoo:bar\n\nbody\0",
    ):
        (frame,) = frames(wire)
        assert frame == Frame(b"SEND", {b"destination": b"a", b"foo": b"bar"}, [b"destination:a", b"foo:bar"], b"body")


def test_first_blank_line_ends_the_headers_whatever_the_body_holds() -> None:
    assert frames(b"SEND\r\ndestination:a\n\nx\n\r\ny\0")[0].body == b"x\n\r\ny"
    assert frames(b"SEND\ndestination:a\n\r\nx\n\ny\0")[0].body == b"x\n\ny"


@pytest.mark.parametrize("ends", [(b"\n", b"\n"), (b"\n", b"\r\n"), (b"\r\n", b"\n"), (b"\r\n", b"\r\n")])
def test_many_small_frames_are_each_searched_to_their_own_end(ends: tuple[bytes, bytes]) -> None:
    """To look through all that follows for the other kind of blank line takes 20 s here."""
    wire = b"ACK%bid:1%b%b\0" % (ends[0], ends[1], ends[1])
    begin_s = time.process_time()
    assert len(frames(wire * 40_000)) == 40_000
    assert time.process_time() - begin_s < 4


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_blank_line_is_found_however_far_away(end: bytes) -> None:
    for size in (*range(480, 520), 5000):
        wire = end.join([b"SEND", b"destination:a", b"x:" + b"x" * size, b"", b"body\0"])
        assert [f.body for f in frames(wire * 2)] == [b"body"] * 2


@pytest.mark.parametrize("version", [V1_0, V1_1])
def test_crlf_is_no_line_end_before_1_2(version: int) -> None:
    with pytest.raises(BrokenFrame, match="is not a command"):
        frames(b"SEND\r\ndestination:a\r\n\r\n\0\nACK\n\n\0", version)
    (frame,) = frames(b"SEND\ndestination:a\nfoo:bar\r\n\n\0", version)
    assert frame.headers[b"foo"] == b"bar\r"


@pytest.mark.parametrize("version", [V1_0, V1_1])
def test_crlf_between_frames_is_refused_before_1_2(version: int) -> None:
    assert frames(b"\n\n\n", version) == []
    with pytest.raises(BrokenFrame, match="is not a command"):
        frames(b"\r\nDISCONNECT\n\n\0", version)


def test_heart_beats_between_frames_are_skipped_however_cut() -> None:
    read = parser()
    assert outcome(read, [b"\n", b"\r", b"\n", b"\n\r\n\r", b"\nDISCONNECT\n\n\0\r"])[0][0].command == b"DISCONNECT"
    assert read.held_bytes == 1
    assert outcome(read, [b"\nDISCONNECT\n\n\0"]) == ([Frame(b"DISCONNECT", {}, [], b"")], None)


def test_lone_carriage_return_is_refused() -> None:
    with pytest.raises(BrokenFrame):
        frames(b"\rDISCONNECT\n\n\0")
    with pytest.raises(BrokenFrame, match="carriage return"):
        frames(b"SEND\ndestination:a\nfoo:b\rar\n\n\0")


# ---- headers ------------------------------------------------------------------------------------------------------


def test_first_of_repeated_headers_counts() -> None:
    (frame,) = frames(b"SEND\ndestination:a\nfoo:World\nfoo:Hello\n\n\0")
    assert frame.headers[b"foo"] == b"World"
    assert frame.lines == [b"destination:a", b"foo:World", b"foo:Hello"]


@pytest.mark.parametrize("line", [b"nocolon", b":value", b""])
def test_header_that_is_no_name_and_value_is_refused(line: bytes) -> None:
    if line:
        with pytest.raises(BrokenFrame, match="is not NAME:VALUE"):
            frames(b"SEND\ndestination:a\n" + line + b"\n\n\0")
    else:
        assert frames(b"SEND\ndestination:a\n" + line + b"\n\0")[0].body == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_that_are_not_utf8_are_refused(version: int) -> None:
    for line in (b"foo:\xff", b"f\xc3oo:x", b"foo:\xed\xa0\x80", b"foo:\xc0\x80"):
        with pytest.raises(BrokenFrame, match="not valid UTF-8"):
            frames(b"SEND\ndestination:a\n" + line + b"\n\n\0", version)
    assert frames("SEND\ndestination:ü\n\n\0".encode(), version)[0].headers[b"destination"].decode() == "ü"


@pytest.mark.parametrize("wire", [b"DISCONNECT\n\0", b"SEND\ndestination:a\n\0\n\n", b"SEND\ndestination:\0\n\n\0"])
def test_nul_within_the_headers_is_refused_at_once(wire: bytes) -> None:
    with pytest.raises(BrokenFrame, match="NUL"):
        frames(wire)


def test_colon_in_a_value_is_taken_and_stored_escaped() -> None:
    for version in (V1_1, V1_2):
        (frame,) = frames(b"SEND\ndestination:a\nfoo:http://x:1\n\n\0", version)
        assert frame.headers[b"foo"] == b"http://x:1"
        assert frame.lines[1] == b"foo:http\\c//x\\c1"
    (frame,) = frames(b"SEND\ndestination:a\nfoo:http://x:1\n\n\0", V1_0)
    assert frame.lines[1] == b"foo:http://x:1"


def test_header_without_colon_is_refused_though_another_line_has_two() -> None:
    with pytest.raises(BrokenFrame, match="'nocolon' is not NAME:VALUE"):
        frames(b"SEND\ndestination:a:b\nnocolon\n\n\0")


def test_broken_frame_knows_the_receipt_asked_for() -> None:
    for wire, receipt in (
        (b"FOO\nreceipt:r\\c1\r\n\n\0", b"r:1"),
        (b"SEND\nreceipt:7\n\n\0", b"7"),
        (b"SEND\ndestination:a\nreceipt:\\t\n\n\0", None),
        (b"SEND\ndestination:a\nreceipt:\xff\n\n\0", None),
        (b"SEND\ndestination:a\nfoo\nreceipt:8\n\n\0", b"8"),
        (b"SEND\ndestination:a\nreceipt:9\ncontent-length:x\n\n\0", b"9"),
        (b"SEND\ndestination:a\n\0", None),
    ):
        with pytest.raises(BrokenFrame) as broken:
            frames(wire)
        assert broken.value.receipt == receipt


# ---- content-length -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b"1.0", b" 3", b"3 ", b"0x3", b"1e1", "\u0663".encode(), b"1_0"])
def test_content_length_that_is_not_digits_is_refused(value: bytes) -> None:
    with pytest.raises(BrokenFrame, match="content-length"):
        frames(b"SEND\ndestination:a\ncontent-length:" + value + b"\n\nabc\0")


def test_content_length_of_very_many_digits_is_refused_without_reading_it() -> None:
    with pytest.raises(BrokenFrame, match="longer than"):
        frames(b"SEND\ndestination:a\ncontent-length:" + b"9" * 60_000 + b"\n\n")


def test_octet_after_the_body_must_be_nul() -> None:
    assert frames(b"SEND\ndestination:a\ncontent-length:2\n\nab\0")[0].body == b"ab"
    with pytest.raises(BrokenFrame, match="must be NUL; it is 99"):
        frames(b"SEND\ndestination:a\ncontent-length:2\n\nabc\0")


def test_two_different_content_lengths_are_refused_and_two_equal_ones_are_not() -> None:
    assert frames(b"SEND\ndestination:a\ncontent-length:2\ncontent-length:2\n\nab\0")[0].body == b"ab"
    with pytest.raises(BrokenFrame, match="two different content-lengths"):
        frames(b"SEND\ndestination:a\ncontent-length:2\ncontent-length:3\n\nab\0")


# ---- limits -------------------------------------------------------------------------------------------------------


def body_frame(size: int, length: bool) -> bytes:
    head = b"SEND\ndestination:a\n" + (b"content-length:%06d\n" % 0 if length else b"") + b"\n"
    body = b"x" * (size - len(head) - 1)
    return head.replace(b"%06d" % 0, b"%06d" % len(body)) + body + b"\0"


@pytest.mark.parametrize("length", [True, False])
def test_frame_at_the_limit_is_read_and_one_past_it_refused(length: bool) -> None:
    limits = Limits(max_frame_bytes=1000)
    for step in (1, 7, 1001):
        at, past = body_frame(1000, length), body_frame(1001, length)
        assert len(outcome(parser(V1_2, limits), [at[i : i + step] for i in range(0, 1000, step)])[0]) == 1
        found, sentence = outcome(parser(V1_2, limits), [past[i : i + step] for i in range(0, 1001, step)])
        assert found == []
        assert sentence is not None and "longer than 1000 bytes" in sentence


def test_declared_length_past_the_limit_is_refused_before_any_of_the_body() -> None:
    head = body_frame(1001, True).split(b"\n\n")[0] + b"\n\n"
    with pytest.raises(BrokenFrame, match="it has 1001"):
        frames(head, limits=Limits(max_frame_bytes=1000))


def test_header_block_at_the_limit_is_read_and_one_past_it_refused() -> None:
    limits = Limits(max_header_bytes=200)
    head = b"SEND\ndestination:a\nfoo:"
    for size, accepted in ((200, True), (201, False)):
        wire = head + b"x" * (size - len(head) - 2) + b"\n\n\0"
        for step in (1, 300):
            found, sentence = outcome(parser(V1_2, limits), [wire[i : i + step] for i in range(0, len(wire), step)])
            assert (len(found) == 1, sentence is None) == (accepted, accepted)


def test_header_block_without_end_is_refused_when_the_limit_is_held() -> None:
    read = parser(V1_2, Limits(max_header_bytes=200))
    assert outcome(read, [b"SEND\ndestination:" + b"a" * 182]) == ([], None)
    assert read.held_bytes == 199
    assert outcome(read, [b"a"])[1] is not None


def test_headers_at_the_limit_are_read_and_one_more_refused() -> None:
    limits = Limits(max_headers=5)
    assert len(frames(b"SEND\ndestination:a\n" + b"foo:b\n" * 4 + b"\n\0", limits=limits)) == 1
    with pytest.raises(BrokenFrame, match="6 headers: at most 5"):
        frames(b"SEND\ndestination:a\n" + b"foo:b\n" * 5 + b"\n\0", limits=limits)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_command_longer_than_the_limit_is_refused_before_its_line_ends(end: bytes) -> None:
    assert outcome(parser(), [b"X" * COMMAND_MAX_BYTES]) == ([], None)
    assert outcome(parser(), [b"X" * (COMMAND_MAX_BYTES + 1)])[1] is not None
    sentence = outcome(parser(), [b"X" * COMMAND_MAX_BYTES + end + end + b"\0"])[1]
    assert sentence is not None and "not a command of STOMP 1.2" in sentence


def test_connect_at_its_limit_is_read_and_one_past_it_refused() -> None:
    head = b"CONNECT\naccept-version:1.2\nlogin:"
    for size, accepted in ((CONNECT_MAX_BYTES, True), (CONNECT_MAX_BYTES + 1, False)):
        wire = head + b"x" * (size - len(head) - 3) + b"\n\n\0"
        assert len(wire) == size
        found, sentence = outcome(Parser(Limits(), CONNECT_COMMANDS), [wire])
        assert (len(found) == 1, sentence is None) == (accepted, accepted)


def test_limits_below_those_of_connect_hold_for_connect_too() -> None:
    wire = b"CONNECT\naccept-version:1.2\nlogin:" + b"x" * 200 + b"\n\n\0"
    assert outcome(Parser(Limits(max_header_bytes=100), CONNECT_COMMANDS), [wire])[1] is not None


@pytest.mark.parametrize(
    "noise", [b"G", b"\x16", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n", b"connect\n", b"SEND", b"CONNECTED", b"STOMPX"]
)
def test_first_bytes_that_cannot_begin_connect_are_refused_at_once(noise: bytes) -> None:
    assert outcome(Parser(Limits(), CONNECT_COMMANDS), [noise])[1] is not None


@pytest.mark.parametrize("beginning", [b"", b"C", b"CONNECT", b"CONNECT\r", b"S", b"STOMP\r", b"STOMP\n", b"\nCON"])
def test_beginning_of_connect_is_waited_for(beginning: bytes) -> None:
    read = Parser(Limits(), CONNECT_COMMANDS)
    assert outcome(read, [beginning]) == ([], None)
    assert read.held_bytes == len(beginning.lstrip(b"\n"))


@pytest.mark.parametrize("version", VERSIONS)
def test_command_one_byte_too_long_is_refused_however_it_is_cut(version: int) -> None:
    wire = b"S" * (COMMAND_MAX_BYTES + 1) + b"\n"
    for pieces in ([wire], [wire[:-1], wire[-1:]], [wire[i : i + 1] for i in range(len(wire))]):
        sentence = outcome(parser(version, Limits()), pieces)[1]
        assert sentence is not None and "is not a command" in sentence
    wire = b"S" * COMMAND_MAX_BYTES + b"\n"
    for pieces in ([wire], [wire[:-1], wire[-1:]], [wire[i : i + 1] for i in range(len(wire))]):
        assert outcome(parser(version, Limits()), pieces)[1] is None, "it is refused once its header block is whole"


@pytest.mark.parametrize(
    ("opening", "body"),
    [
        (b"CONNECT\nhost:h\n\n\0", b""),
        (b"\n\n\r\nSTOMP\r\nhost:h\r\n\r\n\0", b""),
        (b"CONNECT\ncontent-length:5\n\na\0b\0c\0", b"a\0b\0c"),
        (b"CONNECT\n\nbody\0", b"body"),
    ],
)
@pytest.mark.parametrize("behind", [b"", b"\n", b"SEND\ndestination:/queue/a\n\nx\0SEND", b"\0\0garbage"])
def test_the_first_frame_alone_is_read_however_it_is_cut(opening: bytes, body: bytes, behind: bytes) -> None:
    for end in range(len(opening)):
        made = Parser(Limits(), CONNECT_COMMANDS)
        assert made.first(opening[:end]) == (None, b"")
        frame, unread = made.first(opening[end:] + behind)
        assert frame is not None and (frame.body, unread) == (body, behind)
        assert made.held_bytes == 0


def test_a_first_frame_that_is_wrong_is_refused_whatever_is_behind() -> None:
    with pytest.raises(BrokenFrame):
        Parser(Limits(), CONNECT_COMMANDS).first(b"GET / HTTP/1.1\r\n")
