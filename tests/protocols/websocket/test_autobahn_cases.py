"""The cases of the Autobahn test suite's chapters 1 to 7, 9 and 10, by its numbers: RFC 6455, case by case.

That suite wants an echo. Here each case's messages are the body of one SEND: its head comes in a message before them,
its NUL in one behind them, and the body that the session reads is what an echo would have had. Three answers differ
from that suite's strict ones: UTF-8 is judged when a frame is whole (6.4.3 and 6.4.4, which it calls non-strict), a
close within a message is answered with 1002, since the message is broken (7.1.5), and a message of more than
WEBSOCKET_FRAGMENTS is refused (9.3 and 9.4 with small fragments).
"""

from collections.abc import Callable
from itertools import pairwise

import pytest

from radiator.model.commands import Disconnect, Fail, Send
from radiator.model.limits import WEBSOCKET_FRAGMENTS, Limits
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.websocket.session import WebSocketSession

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KIB, MIB = 1 << 10, 1 << 20
MASK = b"\x37\xfa\x21\x3d"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
LIMITS = Limits(max_frame_bytes=16 * MIB + KIB)
GREETING = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"  # five characters, of 2, 3, 2, 2 and 2 bytes
Chop = Callable[[list[bytes]], list[bytes]]


def frame(opcode: int, data: bytes = b"", fin: bool = True, rsv: int = 0) -> bytes:
    """As a client sends it."""
    size = len(data)
    head = bytes((fin << 7 | rsv << 4 | opcode,))
    if size < 126:
        head += bytes((0x80 | size,))
    elif size < 1 << 16:
        head += bytes((0x80 | 126,)) + size.to_bytes(2)
    else:
        head += bytes((0x80 | 127,)) + size.to_bytes(8)
    stretched = (MASK * (size // 4 + 1))[:size]
    return head + MASK + (int.from_bytes(data) ^ int.from_bytes(stretched)).to_bytes(size)


def fragments(opcode: int, data: bytes, size: int) -> list[bytes]:
    pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    last = len(pieces) - 1
    return [frame(opcode if not at else CONT, piece, at == last) for at, piece in enumerate(pieces)]


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, code.to_bytes(2) + reason)


def chopped(size: int) -> Chop:
    def cut(frames: list[bytes]) -> list[bytes]:
        wire = b"".join(frames)
        return [wire[at : at + size] for at in range(0, len(wire), size)]

    return cut


def at_once(frames: list[bytes]) -> list[bytes]:
    return [b"".join(frames)]


def each(frames: list[bytes]) -> list[bytes]:
    return frames


OCTETS = chopped(1)
CHOPS = [pytest.param(at_once, id="at once"), pytest.param(each, id="each frame"), pytest.param(OCTETS, id="octets")]
every_chop = pytest.mark.parametrize("chop", CHOPS)


class Server:
    """A session behind CONNECT. frames: its frames, as (opcode, data), without those of STOMP."""

    def __init__(self, body_bytes: int | None = None) -> None:
        self.session = WebSocketSession(7, LIMITS, StompSession(7, "s-1", LIMITS))
        self.commands: list[object] = []
        self.frames: list[tuple[int, bytes]] = []
        self.hear([frame(TEXT, CONNECT)])
        self.commands.clear()
        if body_bytes is not None:
            self.hear([frame(BINARY, b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % body_bytes)])

    def hear(self, pieces: list[bytes]) -> None:
        wire = b""
        for piece in pieces:
            self.commands += self.session.receive(piece)
            while self.session.is_costly:
                self.commands += self.session.receive(b"")
            wire += self.session.take_outgoing()
        while wire:
            assert wire[0] & 0xF0 == 0x80 and wire[1] < 126, "a whole frame, not masked, and a short one"
            opcode, end = wire[0] & 0x0F, 2 + wire[1]
            if opcode != BINARY:
                self.frames.append((opcode, wire[2:end]))
            wire = wire[end:]

    @property
    def close_code(self) -> int | None:
        codes = [int.from_bytes(data[:2]) for opcode, data in self.frames if opcode == CLOSE]
        assert len(codes) < 2 and (not codes or self.frames[-1][0] == CLOSE), "one close, and nothing behind it"
        return codes[0] if codes else None

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.commands if isinstance(one, Send)]


def read(frames: list[bytes], body_bytes: int, chop: Chop = each) -> Server:
    """What was sent, with what makes it a SEND."""
    server = Server(body_bytes)
    server.hear(chop(frames))
    server.hear([frame(BINARY, b"\0")])
    return server


def assert_echoed(frames: list[bytes], body: bytes, chop: Chop = each) -> Server:
    server = read(frames, len(body), chop)
    assert server.bodies == [body] and server.close_code is None
    return server


def assert_failed(frames: list[bytes], code: int = 1002, chop: Chop = each, pongs: int = 0) -> None:
    """It is closed with that code, its client is told why, and nothing behind it is read."""
    server = Server(10 * MIB)
    server.hear(chop(frames))
    assert server.close_code == code and [opcode for opcode, _ in server.frames[:-1]] == [PONG] * pongs
    [fail] = server.commands
    assert isinstance(fail, Fail) and fail.sentence.startswith("The client broke the WebSocket protocol: ")
    server.hear([frame(PING), frame(TEXT, b"more"), close(1000)])
    assert server.commands == [fail] and server.close_code == code and server.session.buffered_bytes == 0


# ---- 1: framing


@pytest.mark.parametrize("opcode", (TEXT, BINARY))
@pytest.mark.parametrize("size", (0, 125, 126, 127, 128, 65_535, 65_536))
def test_1_a_message_of_any_size(opcode: int, size: int) -> None:
    body = b"*" * size if opcode == TEXT else b"\xfe" * size
    assert_echoed([frame(opcode, body)], body)
    assert_echoed([frame(opcode, body)], body, chopped(997))


# ---- 2: pings and pongs


@pytest.mark.parametrize("data", (b"", b"Hello, world!", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", b"\xfe" * 125))
@every_chop
def test_2_1_to_2_4_and_2_6_a_ping_is_answered_with_what_it_has(data: bytes, chop: Chop) -> None:
    assert assert_echoed([frame(PING, data)], b"", chop).frames == [(PONG, data)]


@every_chop
def test_2_5_a_ping_may_not_be_longer(chop: Chop) -> None:
    assert_failed([frame(PING, b"\xfe" * 126)], chop=chop)
    assert_failed([frame(PONG, b"\xfe" * 126)], chop=chop)
    assert_failed([frame(PING, b"\xfe" * 65_536)], chop=chop)


@every_chop
def test_2_7_to_2_11_a_pong_that_nobody_asked_for_is_nothing_and_pings_are_answered_in_order(chop: Chop) -> None:
    assert assert_echoed([frame(PONG)], b"", chop).frames == []
    assert assert_echoed([frame(PONG, b"x"), frame(PING, b"y")], b"", chop).frames == [(PONG, b"y")]
    pings = [frame(PING, b"payload-%d" % number) for number in range(10)]
    assert assert_echoed(pings, b"", chop).frames == [(PONG, b"payload-%d" % number) for number in range(10)]


# ---- 3 and 4: reserved bits and opcodes


@every_chop
@pytest.mark.parametrize("opcode", (TEXT, BINARY, CONT, CLOSE, PING, PONG))
@pytest.mark.parametrize("rsv", range(1, 8))
def test_3_no_reserved_bit_may_be_set(rsv: int, opcode: int, chop: Chop) -> None:
    data = (1000).to_bytes(2) if opcode == CLOSE else b"data"
    before = [frame(TEXT, b"data", opcode != CONT)]
    assert_failed([*before, frame(opcode, data, rsv=rsv), frame(PING)], chop=chop)


@every_chop
@pytest.mark.parametrize("data", (b"", b"unknown opcode"))
@pytest.mark.parametrize("opcode", (3, 4, 5, 6, 7, 11, 12, 13, 14, 15))
def test_4_no_other_opcode_is_known(opcode: int, data: bytes, chop: Chop) -> None:
    assert_failed([frame(TEXT, b"data"), frame(opcode, data), frame(PING)], chop=chop)
    assert_failed([frame(opcode, data)], chop=chop)


# ---- 5: fragments


@every_chop
def test_5_1_and_5_2_a_ping_or_pong_may_not_be_in_fragments(chop: Chop) -> None:
    for opcode in (PING, PONG, CLOSE):
        assert_failed([frame(opcode, b"fr", fin=False), frame(CONT, b"ag")], chop=chop)


@every_chop
def test_5_3_to_5_8_a_message_in_two_with_or_without_a_ping_between(chop: Chop) -> None:
    first, ping, second = frame(TEXT, b"fragment1", fin=False), frame(PING, b"ping"), frame(CONT, b"fragment2")
    assert_echoed([first, second], b"fragment1fragment2", chop)
    assert assert_echoed([first, ping, second], b"fragment1fragment2", chop).frames == [(PONG, b"ping")]


@every_chop
@pytest.mark.parametrize("fin", (True, False))
def test_5_9_to_5_17_nothing_goes_on_where_nothing_was_begun(fin: bool, chop: Chop) -> None:
    nothing, text = frame(CONT, b"non-continuation", fin), frame(TEXT, b"Hello, world!")
    whole = fragments(TEXT, b"fragment1fragment2", 9)
    assert_failed([nothing, text], chop=chop)
    assert_failed([*whole, nothing, text], chop=chop)
    assert_failed([nothing, text, nothing, text], chop=chop)


@every_chop
def test_5_18_a_message_may_not_begin_within_another(chop: Chop) -> None:
    assert_failed([frame(TEXT, b"fragment1", fin=False), frame(TEXT, b"fragment2")], chop=chop)
    assert_failed([frame(TEXT, b"fragment1", fin=False), frame(BINARY, b"fragment2", fin=False)], chop=chop)


@every_chop
def test_5_19_and_5_20_pings_between_any_fragments(chop: Chop) -> None:
    pieces = fragments(TEXT, b"fragment1fragment2fragment3fragment4fragment5", 9)
    pings = [frame(PING, b"pongme 1!"), frame(PING, b"pongme 2!")]
    sent = [*pieces[:2], pings[0], *pieces[2:4], pings[1], pieces[4]]
    server = assert_echoed(sent, b"fragment1fragment2fragment3fragment4fragment5", chop)
    assert server.frames == [(PONG, b"pongme 1!"), (PONG, b"pongme 2!")]


# ---- 6: UTF-8

GOOD = (
    b"",
    b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!",
    GREETING,
    b"\x00",  # the first and the last of each length
    b"\x7f",
    b"\xc2\x80",
    b"\xdf\xbf",
    b"\xe0\xa0\x80",
    b"\xef\xbf\xbf",
    b"\xf0\x90\x80\x80",
    b"\xed\x9f\xbf",  # around what is for UTF-16 alone
    b"\xee\x80\x80",
    b"\xef\xbf\xbd",
    b"\xf4\x8f\xbf\xbf",
    b"\xef\xbf\xbe",  # no characters, and allowed
    *((plane << 16 | low).to_bytes(4).decode("utf-32-be").encode() for plane in range(17) for low in (0xFFFE, 0xFFFF)),
)
BAD = (
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64",  # 6.3.1
    b"\xf8\x88\x80\x80\x80",  # of 5 and 6 bytes
    b"\xfc\x84\x80\x80\x80\x80",
    b"\xf7\xbf\xbf\xbf",
    b"\xfb\xbf\xbf\xbf\xbf",
    b"\xfd\xbf\xbf\xbf\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\x80",  # what goes on from nothing
    b"\xbf",
    b"\x80\xbf",
    b"\x80\xbf\x80",
    b"\x80\xbf\x80\xbf\x80\xbf",
    bytes(range(0x80, 0xC0)),
    *(bytes((first,)) + b" " for first in range(0xC0, 0xFE)),  # a first byte by itself
    b"\xc0",  # the last one is missing
    b"\xe0\x80",
    b"\xf0\x80\x80",
    b"\xdf",
    b"\xef\xbf",
    b"\xf7\xbf\xbf",
    b"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80",
    b"\xfe",
    b"\xff",
    b"\xfe\xfe\xff\xff",
    b"\xc0\xaf",  # longer than need be
    b"\xe0\x80\xaf",
    b"\xf0\x80\x80\xaf",
    b"\xf8\x80\x80\x80\xaf",
    b"\xfc\x80\x80\x80\x80\xaf",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xed\xa0\x80",  # for UTF-16 alone, and in pairs
    b"\xed\xad\xbf",
    b"\xed\xae\x80",
    b"\xed\xaf\xbf",
    b"\xed\xb0\x80",
    b"\xed\xbe\x80",
    b"\xed\xbf\xbf",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xed\xaf\xbf\xed\xbf\xbf",
)


@pytest.mark.parametrize("body", GOOD)
def test_6_what_is_utf_8_is_taken_however_it_is_cut(body: bytes) -> None:
    assert_echoed([frame(TEXT, body)], body)
    assert_echoed(fragments(TEXT, body, 1), body)
    assert_echoed(fragments(TEXT, body, 1), body, OCTETS)


@pytest.mark.parametrize("body", BAD)
def test_6_what_is_none_is_refused_however_it_is_cut(body: bytes) -> None:
    assert_failed([frame(TEXT, body)], 1007)
    assert_failed(fragments(TEXT, body, 1), 1007)
    assert_failed(fragments(TEXT, body, 1), 1007, OCTETS)
    assert_echoed([frame(BINARY, body)], body)


def test_6_1_empty_fragments() -> None:
    for body in (b"", b"middle"):
        assert_echoed([frame(TEXT, fin=False), frame(CONT, body, fin=False), frame(CONT)], body)


def test_6_6_a_message_ends_with_a_character() -> None:
    ends = {0, 2, 5, 7, 9, 11}
    for size in range(len(GREETING) + 1):
        if size in ends:
            assert_echoed([frame(TEXT, GREETING[:size])], GREETING[:size])
        else:
            assert_failed([frame(TEXT, GREETING[:size])], 1007)


def test_6_4_the_first_fragment_that_cannot_be_utf_8_ends_it_before_the_message_is_whole() -> None:
    surrogate, beyond = GREETING + b"\xed\xa0\x80edited", GREETING + b"\xf4\x90\x80\x80edited"
    for body, end in ((surrogate, 14), (beyond, 13)):  # half of a pair is seen with its third byte
        for first in range(1, end):
            assert_failed([frame(TEXT, body[:first], fin=False), frame(CONT, body[first:end], fin=False)], 1007)
        one_less = Server(100)
        one_less.hear([frame(TEXT, body[: end - 1], fin=False)])
        assert one_less.close_code is None


def test_6_4_3_and_6_4_4_within_a_frame_it_is_judged_when_that_is_whole() -> None:
    octets = OCTETS([frame(TEXT, GREETING + b"\xed\xa0\x80edited")])
    server = Server(100)
    server.hear(octets[:-1])
    assert server.close_code is None and server.commands == []
    server.hear(octets[-1:])
    assert server.close_code == 1007


# ---- 7: how it is closed


def assert_closed(frames: list[bytes], code: int | None, chop: Chop = each, bodies: tuple[bytes, ...] = ()) -> None:
    """By its client. code: of the close that answers; None: that has none. bodies: of each SEND before it."""
    server = Server()
    server.hear(chop(frames))
    assert server.bodies == list(bodies) and server.commands[len(bodies) :] == [Disconnect(7)]
    assert server.frames == [(CLOSE, b"" if code is None else code.to_bytes(2))]


SEND = b"SEND\ndestination:/queue/a\n\nhello\0"


@every_chop
def test_7_1_behind_a_close_nothing_is_read(chop: Chop) -> None:
    end = close(1000)
    assert_closed([frame(TEXT, SEND), end], 1000, chop, (b"hello",))
    assert_closed([end, end], 1000, chop)
    assert_closed([end, frame(PING)], 1000, chop)
    assert_closed([end, frame(TEXT, SEND)], 1000, chop)


@every_chop
def test_7_1_5_a_close_within_a_message(chop: Chop) -> None:
    server = Server()
    server.hear(chop([frame(TEXT, b"fragment1", fin=False), close(1000), frame(CONT, b"fragment2")]))
    assert server.commands == [Disconnect(7)] and server.close_code == 1002


def test_7_1_6_a_close_waits_for_the_message_before_it() -> None:
    long = b"SEND\ndestination:/queue/a\n\n" + b"*" * 256 * KIB + b"\0"
    assert_closed([frame(TEXT, long), close(1000), frame(PING)], 1000, at_once, (b"*" * 256 * KIB,))


@every_chop
def test_7_3_and_7_5_what_a_close_may_have_in_it(chop: Chop) -> None:
    assert_closed([frame(CLOSE)], None, chop)
    assert_failed([frame(CLOSE, b"a")], chop=chop)
    for reason in (b"", b"Hello World!", b"*" * 123, GREETING):
        server = Server()
        server.hear(chop([close(1000, reason)]))
        assert server.close_code == 1000 and server.commands == [Disconnect(7)]
    assert_failed([close(1000, b"*" * 124)], chop=chop)
    assert_failed([close(1000, GREETING + b"\xed\xa0\x80edited")], 1007, chop)


@pytest.mark.parametrize("code", (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999))
def test_7_7_codes_that_a_client_may_send(code: int) -> None:
    assert_closed([close(code)], code)


@pytest.mark.parametrize("reason", (b"", b"reason"))
@pytest.mark.parametrize("code", (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535))
def test_7_9_and_7_13_codes_that_nobody_may_send(code: int, reason: bytes) -> None:
    assert_failed([close(code, reason)])


# ---- 9 and 10: sizes and chops


@pytest.mark.parametrize("opcode", (TEXT, BINARY))
@pytest.mark.parametrize("size", (64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB))
def test_9_1_and_9_2_long_messages(opcode: int, size: int) -> None:
    body = b"*" * size
    assert_echoed([frame(opcode, body)], body, chopped(64 * KIB))


@pytest.mark.parametrize("opcode", (TEXT, BINARY))
@pytest.mark.parametrize("size", (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB))
def test_9_3_and_9_4_a_long_message_in_fragments(opcode: int, size: int) -> None:
    body = b"*" * 4 * MIB
    pieces = fragments(opcode, body, size)
    if len(pieces) <= WEBSOCKET_FRAGMENTS:
        assert_echoed(pieces, body)
    else:
        assert_failed(pieces, 1008)


@pytest.mark.parametrize("opcode", (TEXT, BINARY))
@pytest.mark.parametrize("size", (64, 128, 256, 512, KIB, 2 * KIB))
def test_9_5_and_9_6_a_long_message_in_small_reads(opcode: int, size: int) -> None:
    body = b"*" * MIB
    assert_echoed([frame(opcode, body)], body, chopped(size))


@pytest.mark.parametrize("opcode", (TEXT, BINARY))
@pytest.mark.parametrize("size", (0, 16, 64, 256, KIB, 4 * KIB, 16 * KIB))
def test_9_7_and_9_8_a_thousand_messages(opcode: int, size: int) -> None:
    assert_echoed([frame(opcode, b"*" * size)] * 1000, b"*" * size * 1000)


def test_10_1_1_a_message_in_fragments_of_1300_bytes() -> None:
    assert_echoed(fragments(TEXT, b"*" * 65_536, 1_300), b"*" * 65_536)


# ---- beside them: the bound of fragments


@every_chop
def test_a_message_may_have_so_many_fragments_and_the_next_one_has_as_many_again(chop: Chop) -> None:
    some = [frame(BINARY, b"a", False), *[frame(CONT, b"", False)] * (WEBSOCKET_FRAGMENTS - 2), frame(CONT, b"b")]
    assert len(some) == WEBSOCKET_FRAGMENTS
    assert_echoed(some * 2, b"abab", chop)
    assert_failed([frame(BINARY, b"a", False), *[frame(CONT, b"", False)] * WEBSOCKET_FRAGMENTS], 1008, chop)


def test_frames_here_are_those_of_the_rfc() -> None:
    """Section 5.7 has this one."""
    assert frame(TEXT, b"Hello") == bytes.fromhex("818537fa213d7f9f4d5158")
    assert all(a != b for a, b in pairwise(fragments(TEXT, b"abc", 1)))
