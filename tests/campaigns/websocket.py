"""S52 and S52b: bytes by chance behind the opening of a WebSocket, and openings by chance from pages of any site.

S52: frames as a client means them and frames that none means: sizes at each border, reserved bits, opcodes, no mask,
lengths up to 2^64, fragments, control frames within them, text that is no UTF-8, closes of every kind, and bits and
bytes changed; in all of it STOMP, right or broken, cut into messages anywhere. What a session makes of them, cut into
reads anywhere, is compared with a plain reader of the whole input, and a StompSession that hears what that has read:
the same commands, the same pongs, the same close. Nothing is raised, and little is held.

S52b: GETs for /ws and /stomp with Origins and Hosts of every kind: opened for those pages, and only those, that are the
broker's own or listed.

They see no sockets, and nothing that sites send but those headers.
"""

import traceback
from dataclasses import dataclass, field
from random import Random

from radiator.model.commands import Command, Disconnect, Fail, Open
from radiator.model.limits import CONNECT_MAX_BYTES, WEBSOCKET_FRAGMENTS, WEBSOCKET_MORE_BYTES, Limits
from radiator.model.settings import WebSettings
from radiator.protocols.http.context import WebContext
from radiator.protocols.http.session import WebSession
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.websocket.session import WebSocketSession
from tests.campaigns.campaign import Campaign, Run

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
HEAD_MAX_BYTES = 14
JUDGED_LATER = (1007, 1008)  # behind all that the same read has: a ping there is answered, another end goes before
READ_MAX_BYTES = 65_536
CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
SENDS = (
    b"SEND\ndestination:/queue/a\n\nhello\0",
    b"SEND\ndestination:/queue/a\ncontent-length:5\nreceipt:r\n\na\0b\0c\0\n",
    "SEND\ndestination:/queue/ä\n\nzwölf € \U0001f40e\0".encode(),
    b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0",
    b"\n\n\n",
)
NO_STOMP = (b"NOPE\n\n\0", b"SEND\n\n\0", b"SEND\ndestination:/queue/a\ncontent-length:x\n\n\0")


def frame(opcode: int, data: bytes, fin: bool = True, rsv: int = 0, mask: bytes | None = b"\x37\xfa\x21\x3d") -> bytes:
    size, bit = len(data), 0x80 if mask is not None else 0
    head = bytes((fin << 7 | rsv << 4 | opcode,))
    if size < 126:
        head += bytes((bit | size,))
    elif size < 1 << 16:
        head += bytes((bit | 126,)) + size.to_bytes(2, "big")
    else:
        head += bytes((bit | 127,)) + size.to_bytes(8, "big")
    return head + data if mask is None else head + mask + masked(data, mask)


def masked(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


# ---- the plain reader


@dataclass
class Plain:
    """What RFC 6455 and the bounds make of a whole input. data: of messages, in their order. pongs: that answer it.
    code: of the close that ends it; None: it goes on. is_closed_by_client: it was that client's close.
    """

    most_bytes: int
    data: list[bytes] = field(default_factory=list)
    pongs: list[bytes] = field(default_factory=list)
    code: int | None = None
    is_closed_by_client: bool = False

    def read(self, wire: bytes) -> "Plain":
        whole, kind, count = b"", None, 0  # of the message that is being read; None: none is
        while self.code is None and len(wire) >= 2:
            first, second = wire[0], wire[1]
            opcode, fin, size, begin = first & 15, first >= 0x80, second & 127, 2
            if opcode not in (CONT, TEXT, BINARY, CLOSE, PING, PONG) or second < 0x80:
                return self.ends(1002)
            if size > 125:
                begin = 4 if size == 126 else 10
                if len(wire) < begin:
                    break
                size = int.from_bytes(wire[2:begin], "big")
            if size > self.most_bytes - len(whole):
                return self.ends(1009)
            end = begin + 4 + size
            if len(wire) < end:
                break
            data, wire = masked(wire[begin + 4 : end], wire[begin : begin + 4]), wire[end:]
            if first & 0x70 or (opcode >= CLOSE and (size > 125 or not fin)):
                return self.ends(1002)
            if opcode == PING:
                self.pongs.append(data)
            elif opcode == CLOSE:
                return self.closes(data, kind is not None)
            elif opcode != PONG:
                if (opcode == CONT) is (kind is None):
                    return self.ends(1002)
                kind = kind if opcode == CONT else opcode
                count += 1
                if count > WEBSOCKET_FRAGMENTS:
                    return self.ends(1008)
                whole += data
                if kind == TEXT and not may_be_text(whole, fin):
                    return self.ends(1007)
                self.data.append(data)
                if fin:
                    whole, kind, count = b"", None, 0
        return self

    def ends(self, code: int) -> "Plain":
        self.code = code
        return self

    def closes(self, data: bytes, is_within: bool) -> "Plain":
        code = int.from_bytes(data[:2], "big")
        if len(data) == 1:
            return self.ends(1002)
        try:
            data[2:].decode()
        except UnicodeDecodeError:
            return self.ends(1007)
        if data and not (code in (1000, 1001, 1002, 1003, *range(1007, 1015)) or 3000 <= code < 5000):
            return self.ends(1002)
        self.is_closed_by_client = True
        return self.ends(1002 if is_within else code if data else 1005)


def may_be_text(data: bytes, is_whole: bool) -> bool:
    """Whether it is UTF-8, or can become it. Half of a pair of UTF-16 is seen with its third byte."""
    try:
        data.decode()
    except UnicodeDecodeError as wrong:
        is_cut = wrong.reason == "unexpected end of data"
        is_half = wrong.start == len(data) - 2 and data[-2] == 0xED and data[-1] in range(0x80, 0xC0)
        return not is_whole and (is_cut or is_half)
    return True


# ---- what is sent


def wire_of(chance: Random, most_bytes: int) -> bytes:
    """Frames of one client behind its opening."""
    stomp = CONNECT + b"".join(chance.choices(SENDS, k=chance.randrange(1, 8)))
    if chance.random() < 0.2:
        stomp += chance.choice(NO_STOMP) + chance.choice(SENDS)
    if chance.random() < 0.02:
        length = chance.choice((126, 127, 300, 65_535, 65_536, most_bytes - 200, most_bytes - 40, most_bytes))
        stomp += b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % length + bytes(length) + b"\0"
    frames = [frame(BINARY, CONNECT)] if chance.random() < 0.9 else []
    rest = stomp[len(CONNECT) :] if frames else stomp
    while rest:
        size = chance.choice((1, 5, 20, 125, 126, 1000, len(rest), len(rest)))
        frames += message(chance, rest[:size])
        rest = rest[size:]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        frames.insert(chance.randrange(1, len(frames) + 1), strange(chance, most_bytes))
    wire = b"".join(frames)
    if chance.random() < 0.3:
        at = chance.randrange(len(wire))
        wire = wire[:at] + chance.randbytes(chance.randrange(4)) + wire[at + chance.randrange(3) :]
    return wire


def message(chance: Random, data: bytes) -> list[bytes]:
    """In some frames, with pings between."""
    kind = chance.choice((TEXT, BINARY))
    if chance.random() < 0.6:
        return [frame(kind, data, mask=chance.randbytes(4))]
    cuts = [0, *sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 2, 5)))), len(data)]
    pieces = [data[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
    if chance.random() < 0.05:
        pieces[1:1] = [b""] * (WEBSOCKET_FRAGMENTS - len(pieces) + chance.randrange(-1, 2))
    frames = []
    for at, piece in enumerate(pieces):
        if chance.random() < 0.02:
            frames.append(frame(chance.choice((PING, PONG)), chance.randbytes(chance.choice((0, 4, 125)))))
        frames.append(frame(CONT if at else kind, piece, at == len(pieces) - 1))
    return frames


def strange(chance: Random, most_bytes: int) -> bytes:
    """One that is mostly wrong."""
    how = chance.randrange(9)
    if how == 0:
        return frame(chance.choice((TEXT, BINARY, PING, CLOSE)), b"x", rsv=chance.randrange(1, 8))
    if how == 1:
        return frame(chance.randrange(16), b"x" * chance.choice((0, 1, 125, 126)))
    if how == 2:
        return frame(chance.choice((TEXT, BINARY, PING)), b"x", mask=None)
    if how == 3:
        length = chance.choice((most_bytes, most_bytes + 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
        return bytes((0x80 | chance.choice((TEXT, BINARY)), 0xFF)) + length.to_bytes(8, "big") + b"mask"
    if how == 4:
        return frame(
            chance.choice((PING, PONG, CLOSE)), b"x" * chance.choice((2, 125, 126, 300)), chance.random() < 0.5
        )
    if how == 5:
        code = chance.choice((0, 999, 1000, 1001, 1004, 1005, 1006, 1011, 1015, 2999, 3000, 4999, 5000, 65_535))
        reason = chance.choice((b"", b"bye", "ä".encode(), b"\xff", b"x" * 123, b"x" * 124))
        return frame(CLOSE, chance.choice((b"", b"x", code.to_bytes(2, "big") + reason)))
    if how == 6:
        bad = chance.choice((b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0", b"\xed\xa0\x80", b"\xf4\x90", b"\xe2\x82"))
        return frame(TEXT, b"\n" * chance.randrange(3) + bad, chance.random() < 0.5)
    if how == 7:
        return frame(CONT, b"\n", chance.random() < 0.5)
    return chance.randbytes(chance.randrange(1, 40))


def reads(chance: Random, wire: bytes) -> list[bytes]:
    if chance.random() < 0.05:
        return [wire[at : at + 1] for at in range(len(wire))]
    cuts = {chance.randrange(len(wire) + 1) for _ in range(chance.choice((0, 1, 3, 10)))}
    ends = [0, *sorted(cuts | {*range(READ_MAX_BYTES, len(wire), READ_MAX_BYTES)}), len(wire)]
    return [wire[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


# ---- judging


def frames_of(wire: bytes) -> list[tuple[int, bytes]]:
    """As a server says them."""
    found = []
    while wire:
        assert wire[0] & 0xF0 == 0x80 and wire[1] < 0x80, "what a server says is whole and not masked"
        begin, size = 2, wire[1]
        if size > 125:
            begin = 4 if size == 126 else 10
            size = int.from_bytes(wire[2:begin], "big")
        assert len(wire) >= begin + size, "a frame that is cut"
        found.append((wire[0] & 15, wire[begin : begin + size]))
        wire = wire[begin + size :]
    return found


def judge(pieces: list[bytes], limits: Limits) -> int | None:
    """Raises AssertionError. Returns the code of its close."""
    session = WebSocketSession(7, limits, StompSession(7, "s-1", limits))
    most_bytes = limits.max_frame_bytes + WEBSOCKET_MORE_BYTES
    commands: list[Open | Command] = []
    sent = b""
    for piece in pieces:
        commands += session.receive(piece)
        while session.is_costly:
            commands += session.receive(b"")
        sent += session.take_outgoing()
        held_max = HEAD_MAX_BYTES + (most_bytes + limits.max_frame_bytes if session.is_open else 2 * CONNECT_MAX_BYTES)
        assert session.buffered_bytes <= held_max, f"{session.buffered_bytes} bytes are held"
    plain = Plain(most_bytes).read(b"".join(pieces))
    stomp = StompSession(7, "s-1", limits)
    expected: list[Open | Command] = []
    for data in plain.data:
        expected += stomp.receive(data)
        if stomp.is_closing:  # by itself, with an ERROR: nothing more is read
            assert alike(commands) == alike(expected) and session.is_closing
            return None
    heard = frames_of(sent)
    pongs = [data for opcode, data in heard if opcode == PONG]
    closes = [data for opcode, data in heard if opcode == CLOSE]
    codes = [int.from_bytes(data[:2], "big") if data else 1005 for data in closes]
    if codes == [1009] and not commands and len(b"".join(pieces)) > CONNECT_MAX_BYTES:
        return 1009  # where a read ends, much of a message was held before the CONNECT in it could be seen
    if plain.code is not None and stomp.is_open:
        last = commands.pop() if commands else None
        is_told = isinstance(last, Fail) and last.sentence.startswith("The client broke the WebSocket protocol: ")
        is_gone = last == Disconnect(7)
        assert is_gone if plain.is_closed_by_client else is_told or (is_gone and plain.code in JUDGED_LATER), last
    assert alike(commands) == alike(expected), f"{commands} instead of {expected}"
    if plain.code in JUDGED_LATER:
        assert len(codes) == 1 and pongs[: len(plain.pongs)] == plain.pongs
    else:
        assert codes == ([] if plain.code is None else [plain.code]), f"closed with {codes}, not {plain.code}"
        assert pongs == plain.pongs, f"pongs {pongs} instead of {plain.pongs}"
    assert not session.buffered_bytes or plain.code is None
    return plain.code


def alike(commands: list[Open | Command]) -> list[Open | Command]:
    """Without what is wrong with a frame: where it is cut, another mistake in it is seen first."""
    return [Fail(one.connection, "") if isinstance(one, Fail) else one for one in commands]


def stranger(chance: Random) -> list[bytes]:
    """A message without an end before CONNECT."""
    length = chance.choice((CONNECT_MAX_BYTES + 1, 65_535, 65_536, 16 << 20)).to_bytes(8, "big")
    opening = bytes((chance.choice((TEXT, BINARY)), 0xFF)) + length + bytes(4)
    return [opening + CONNECT[:8], *[b"x" * 4096] * 5]


def fuzz(run: Run) -> None:
    chance = run.chance
    ends: dict[int | None, int] = {}
    while not run.is_over:
        limits = Limits(max_frame_bytes=chance.choice((1000, 20_000, 70_000)))
        pieces = stranger(chance) if chance.random() < 0.02 else []
        is_stranger = bool(pieces)
        if not is_stranger:
            wire = wire_of(chance, limits.max_frame_bytes + WEBSOCKET_MORE_BYTES)
            pieces = reads(chance, wire)
        try:
            if is_stranger:
                held_little(pieces, limits)
            else:
                code = judge(pieces, limits)
                ends[code] = ends.get(code, 0) + 1
        except Exception:  # noqa: BLE001 - a session that raises ends its connection, or the broker
            shown = [piece if len(piece) < 300 else piece[:300] + b"..." for piece in pieces[:20]]
            run.violation(f"{limits.max_frame_bytes}: {shown}: {traceback.format_exc()}")
        run.case(sum(map(len, pieces)))
    run.figures |= {f"closed with {code}": count for code, count in sorted(ends.items(), key=str) if code is not None}


def held_little(pieces: list[bytes], limits: Limits) -> None:
    session = WebSocketSession(7, limits, StompSession(7, "s-1", limits))
    for piece in pieces:
        assert session.receive(piece) == []
        held = session.buffered_bytes
        assert held <= CONNECT_MAX_BYTES, f"{held} bytes are held of one who has not said CONNECT"
    assert session.is_closing, "a message without an end before CONNECT is read on"


# ---- openings

LISTED = WebSettings(origins=("https://shop.example",), hosts=("broker.example",))
HOSTS = (
    "localhost", "localhost:61680", "127.0.0.1:61680", "[::1]:61680", "broker.example", "BROKER.example:80",
    "evil.example", "broker.example.evil.example", "localhost.evil.example", "evil.example:61680", "",
    "@", "localhost/",
)  # fmt: skip
ORIGINS = (
    "https://shop.example", "https://SHOP.example", "http://shop.example", "https://shop.example:8443", "null", "",
    "https://shop.example.evil.example", "https://evil.example", "https://evil.example#https://shop.example", "*",
    "http://evil.example", "file://", "https://xshop.example", "http://broker.example", "http://localhost", "http://",
)  # fmt: skip
NAMES = ("localhost", "127.0.0.1", "[::1]", "broker.example")


def is_of_this_broker(host: str) -> bool:
    name = host.lower()
    return name.removesuffix(":61680").removesuffix(":80") in NAMES


def openings(run: Run) -> None:
    chance = run.chance
    opened = 0
    while not run.is_over:
        host = chance.choice(HOSTS)
        origin = chance.choice((None, f"http://{host}", f"https://{host}", *ORIGINS, *ORIGINS))
        lines = [f"GET {chance.choice(('/ws', '/stomp'))} HTTP/1.1", f"Host: {host}"]
        more = ["Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13"]
        more += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        if chance.random() < 0.5:
            more.append("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
        if origin is not None:
            more.append(f"{chance.choice(('Origin', 'origin', 'ORIGIN'))}: {origin}")
        chance.shuffle(more)
        session = WebSession(7, "s-1", Limits(), context=WebContext(LISTED))
        wire = "\r\n".join([*lines, *more, "", ""]).encode()
        session.receive(wire)
        answer = session.take_outgoing()
        own = host and origin is not None and origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
        may = is_of_this_broker(host) and (origin is None or own or origin.lower() == "https://shop.example")
        if answer.startswith(b"HTTP/1.1 101 ") is not bool(may):
            run.violation(f"The opening {wire!r} was answered {answer[:200]!r}.")
        if b"deflate" in answer.lower():
            run.violation(f"The opening {wire!r} was answered with compression: {answer[:300]!r}.")
        opened += answer.startswith(b"HTTP/1.1 101 ")
        run.case()
    run.figures["opened"] = opened


CAMPAIGNS = (
    Campaign(
        number="S52",
        name="websocket",
        title="WebSocket frames by chance, cut anywhere, beside a plain reader",
        unit="bytes",
        run=fuzz,
        cases=(1_000_000, 10_000_000, 100_000_000),
        mutants=(
            "websocket-size-not-compared",
            "websocket-connect-without-bound",
            "websocket-text-not-checked",
            "websocket-fragments-without-bound",
            "websocket-reads-behind-a-failure",
        ),
        mutant_cases=2_000_000,
        quick_mutants=2,
    ),
    Campaign(
        number="S52b",
        name="websocket-sites",
        title="openings of WebSockets from pages of any site, and by any name of this broker",
        unit="openings",
        run=openings,
        cases=(5_000, 500_000, 5_000_000),
        mutants=("origin-not-checked", "host-not-checked"),
        mutant_cases=2_000,
        quick_mutants=2,
    ),
)
