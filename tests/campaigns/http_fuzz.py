"""S60: requests by chance over HTTP: what is taken here, another parser reads alike, and nobody can read differently.

A case is the bytes of one connection: a few requests, written rightly or nearly so, with every kind of line, length and
chunk that parsers of HTTP have disagreed on, and then changed by chance. Whatever is taken here must have the plain
shape of RFC 9112 (HEAD, and one length at most), and h11 must read the same from it: method, target, headers, the bytes
of the body, and where the next request begins. It must be the same however the bytes were cut. What is refused is
nobody's loss, and ends the connection.

Then a session gets the same bytes, and the broker answers it at once or later. Each message that it sends to the broker
is the body and the headers of one of these requests, in order, and none is of what was refused. No more requests are on
their way than the bound, and no more is held than the bounds of a head and a body.

It does not see sockets, nor logins (S61), nor a reading that h11 and this broker share and others do not.
"""

import json
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import h11

from radiator.model.commands import Administer, Open, PublishAll, Send
from radiator.model.headers import pairs
from radiator.model.leases import Leased, Receive, Settle, Settled, Verdict
from radiator.model.limits import HTTP_BATCH_BYTES, HTTP_HEAD_BYTES, HTTP_PIPELINED, Limits
from radiator.model.replies import Answered, Published
from radiator.protocols.http.body import Body
from radiator.protocols.http.head import BadRequest, RequestHead, head_bytes, parse_head
from radiator.protocols.http.session import WebSession
from tests.campaigns.campaign import Campaign, Run

HEAD = re.compile(
    rb"[A-Z-]+ /[\x21-\x22\x24-\x7e]* HTTP/1\.[01]\r\n"
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
LENGTHS = re.compile(rb"\r\n(?:content-length|transfer-encoding):", re.IGNORECASE)
BODY_MAX_BYTES = 300  # so that many bodies are at the bound and past it
LIMITS = Limits(max_frame_bytes=2_000)
NO_BODY = RequestHead("GET", b"/", b"", {}, "1.1")  # nothing is wrong with a body that is none


# ---- making ----------------------------------------------------------------------------------------------------------

METHODS = (b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"get", b"M-GET", b"")
TARGETS = (
    b"/v1/queues/a/messages", b"/v1/queues/a/messages", b"/v1/queues/a/messages", b"/v1/queues/b%2Fc/messages",
    b"/v1/queues/a/receive", b"/v1/settle", b"/v1/queues", b"/v1/queues/a?x=1", b"/healthz", b"/healthz?a#b", b"/",
    b"*", b"http://localhost/healthz", b"/%00", b"/\xc3\xa4", b"/a b", b"", b"//", b"/v1/queues/../queues",
    b"/" + b"x" * 4096,
)  # fmt: skip
VERSIONS = (b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"HTTP/11", b"")
ENDS = (b"\r\n",) * 300 + (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b" \r\n")
COLONS = (b": ",) * 200 + (b":", b" :", b":\t", b":  ", b"", b"::", b"\t:")
LINES = (
    (b"Host", b"localhost"), (b"Host", b"127.0.0.1"), (b"Host", b""), (b"host", b"localhost"),
    (b"Content-Length", b"0"), (b"Content-Length", b"+1"), (b"Content-Length", b"1, 1"), (b"Content-Length", b"1 1"),
    (b"Content-Length", b"0x1"), (b"Content-Length", b"-1"), (b"Content-Length", b"01"), (b"Content-Length", b"1_0"),
    (b"Content-Length", b"18446744073709551617"), (b"Content-Length", b"\xd9\xa1"), (b"Content-Length", b""),
    (b"Content_Length", b"5"), (b"Content-Length ", b"5"), (b"Content-Length\0", b"5"), (b" Content-Length", b"5"),
    (b"Transfer-Encoding", b"chunked"), (b"transfer-encoding", b"CHUNKED"), (b"Transfer-Encoding", b"gzip, chunked"),
    (b"Transfer-Encoding", b"chunked, identity"), (b"Transfer-Encoding", b"identity"),
    (b"Transfer-Encoding", b"xchunked"), (b"Transfer-Encoding", b"chunked;q=1"),
    (b"Transfer-Encoding", b"\x0bchunked"), (b"Transfer-Encoding", b""),
    (b"Transfer_Encoding", b"chunked"), (b"Transfer-Encoding", b"chunked\r\n , chunked"), (b"TE", b"trailers"),
    (b"Connection", b"close"), (b"Connection", b"keep-alive"), (b"Connection", b"upgrade"), (b"Connection", b"x,close"),
    (b"Expect", b"100-continue"), (b"Expect", b"200-ok"), (b"Upgrade", b"websocket"), (b"Trailer", b"x"),
    (b"Content-Encoding", b"gzip"), (b"Origin", b"http://localhost"), (b"Origin", b"http://evil.example"),
    (b"X", b"a\r\n b"), (b"X", b"a\r\n\tb"), (b"X", b"\0"), (b"X", b"\x7f"), (b"X", b"\xff"), (b"X", b"a\nY: b"),
    (b"X", b"a\rY: b"), (b"X", b"x" * 3000), (b"", b"x"), (b"(x)", b"x"), (b"X\xff", b"x"), (b"x", b"1"),
    (b"Message-a", b"x:y"), (b"Message-a", b"\\n"), (b"message-b:c", b"d"), (b"Message-", b"x"), (b"Message-a", b"x\\"),
    (b"Message-destination", b"/queue/evil"), (b"Message-content-length", b"1"), (b"Message-c", b" y "),
)  # fmt: skip
BYTES = b"\r\n :;,\t\0\x0b\x7f\x80\xff0129afAFxX/?#%GETPOSTHP.-_"
TEXTS = (
    "", "a", "x:y", "a\nevil:1", "a\r\nevil:1", "\\", "\\n", "\\c", ":", "\n\n\0", "\r", "ä", "\u2028", " a ", "\0",
    "\n", "destination", "receipt", "content-length", "reply-to", "\ud800",
)  # fmt: skip
SIZES = (0, 1, 1, 2, 2, 5, 5, 9, 10, 15, 16, 17, 17, 100, BODY_MAX_BYTES - 1, BODY_MAX_BYTES, BODY_MAX_BYTES + 1)
LARGE = (1_999, 2_000, 2_001, 9_000)


def batch(chance: Random) -> bytes:
    """JSON of a few messages, whose headers would like to be other ones."""
    messages = [
        {
            "headers": {chance.choice(TEXTS): chance.choice(TEXTS) for _ in range(chance.randrange(3))},
            "body": chance.choice(TEXTS[:-1]),
        }
        for _ in range(chance.choice((1, 1, 2, 5)))
    ]
    return json.dumps({"messages": messages}).encode()


def chunks(chance: Random, body: bytes) -> bytes:
    """That body, rightly or nearly so."""
    places = sorted(chance.randrange(len(body) + 1) for _ in range(chance.randrange(4)))
    found = b""
    for begin, end in pairwise((0, *places, len(body))):
        if begin == end:
            continue
        size = chance.choice((b"%x", b"%x", b"%X", b"%04x")) % (end - begin)
        if chance.random() < 0.02:
            size = (
                chance.choice((b"0x%b", b"+%b", b"%b ", b" %b", b"%b;x=y", b"1_%b", b"-%b", b"%b\t", b"0000000%b"))
                % size
            )
        found += size + chance.choice(ENDS) + body[begin:end] + chance.choice(ENDS)
    end = chance.choice(
        (b"0\r\n\r\n",) * 40 + (b"000\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\n\n", b"0;x\r\n\r\n", b"0\r\n")
    )
    return found + end


def one_request(chance: Random) -> bytes:
    """A request, rightly written or nearly so."""
    body, is_batch = b"", chance.random() < 0.3
    if is_batch:
        body = batch(chance)
    elif chance.random() < 0.7:
        body = chance.choice((b"x", b"\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"ab\0c")) * 9_000
        body = body[: chance.choice(LARGE if chance.random() < 0.02 else SIZES)]
    lines = [(b"Host", b"localhost"), (b"Content-Type", b"application/json" if is_batch else b"text/plain")]
    framing = chance.random()
    if framing < 0.5:
        wrong = chance.choice((0,) * 20 + (-1, 1, 5))
        lines.append((b"Content-Length", b"%d" % max(0, len(body) + wrong)))
    if framing < 0.03 or framing >= 0.5:
        lines.append((b"Transfer-Encoding", b"chunked"))
        body = chunks(chance, body)
    strange = chance.choice((0,) * 12 + (1, 1, 1, 2, 5, 62))
    lines += [chance.choice(LINES) for _ in range(strange)]
    chance.shuffle(lines)
    method = b"POST" if chance.random() < 0.9 else chance.choice(METHODS)
    target = chance.choice(TARGETS[:8] if chance.random() < 0.9 else TARGETS)
    version = b"HTTP/1.1" if chance.random() < 0.95 else chance.choice(VERSIONS)
    found = b" ".join((method, target, version))
    for name, value in lines:
        found += chance.choice(ENDS) + name + chance.choice(COLONS) + value
    return found + b"\r\n" + chance.choice(ENDS) + body


def connection_bytes(chance: Random) -> bytes:
    """Some requests, of which one may come again: a client says the same head with each."""
    found, one = b"", one_request(chance)
    for _ in range(chance.choice((1, 2, 2, 3, 4))):
        found += chance.choice((b"",) * 30 + (b"\r\n", b"\r\n", b"\n", b"\r\n\r\n")) + one
        one = one if chance.random() < 0.3 else one_request(chance)
    for _ in range(chance.choice((0,) * 6 + (1, 1, 2, 4))):
        at = chance.randrange(len(found) + 1)
        how = chance.randrange(4)
        if how == 0:
            found = found[:at] + bytes([chance.choice(BYTES)]) + found[at + 1 :]
        elif how == 1:
            found = found[:at] + bytes([chance.choice(BYTES)]) + found[at:]
        elif how == 2:
            found = found[:at] + found[at + chance.choice((1, 1, 2, 20)) :]
        else:
            found = found[:at] + found[max(0, at - 30) :]
    return found


def cuts(chance: Random, data: bytes) -> list[bytes]:
    how = chance.random()
    if how < 0.1 and len(data) < 3_000:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 2, 8, 30))))
    return [data[begin:end] for begin, end in pairwise((0, *places, len(data)))]


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Read:
    """A request as it was read. begin, end: its place among the bytes; head: those of its head."""

    method: str
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes
    head: bytes
    begin: int
    end: int
    keeps_alive: bool


def read(pieces: list[bytes], most: int = BODY_MAX_BYTES) -> tuple[list[Read], bool]:
    """What the parsers of the package make of it, and whether they have refused what is behind. most: bytes that a body
    may have.
    """
    found: list[Read] = []
    data, taken, begin = b"", 0, 0
    body: Body | None = None
    for piece in pieces:
        data += piece
        try:
            while data:
                if body is None:
                    size = head_bytes(data)
                    if not size:
                        break
                    raw = data[:size].removeprefix(b"\r\n")
                    begin = taken + size - len(raw)
                    head = parse_head(data[:size])
                    data, taken = data[size:], taken + size
                    body = Body(head if head.has_body else NO_BODY, most)
                rest = body.take(data)
                taken, data = taken + len(data) - len(rest), rest
                assert body.size <= most and len(body.whole()) <= most, "more is kept than may be"
                if not body.is_whole:
                    break
                target = head.path + (b"?" + head.query if b"?" in raw.split(b"\r\n")[0] else b"")
                one = Read(head.method, target, head.headers, body.whole(), raw, begin, taken, head.keeps_alive)
                found.append(one)
                body = None
                if not one.keeps_alive:
                    return found, False
        except BadRequest:
            return found, True
    return found, False


def other_opinion(one: Read, data: bytes) -> str:
    """What h11 reads differently; "": nothing."""
    other = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    other.receive_data(data[one.begin :])
    body = b""
    try:
        event = other.next_event()
        if not isinstance(event, h11.Request):
            return f"no request but {event!r}"
        request = event
        while not isinstance(event := other.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return f"no end of the body but {event!r}"
            body += event.data
    except h11.RemoteProtocolError as error:
        return f"a mistake: {error}"
    headers: dict[bytes, bytes] = {}
    for name, value in request.headers:
        headers[name] = headers[name] + b", " + value if name in headers else value
    theirs = (request.method, request.target, headers, body, len(data) - len(other.trailing_data[0]))
    own = {name: value.lower() if name == b"transfer-encoding" else value for name, value in one.headers.items()}
    ours = (one.method.encode(), one.target, own, one.body, one.end)  # h11 gives its value in lower case
    return "" if theirs == ours else f"{theirs!r} instead of {ours!r}"


def judge(data: bytes, pieces: list[bytes]) -> tuple[list[Read], bool]:
    """Asserts what is promised of what is read."""
    found, is_refused = read([data])
    assert read(pieces) == (found, is_refused), f"read otherwise in pieces of {[len(one) for one in pieces]} bytes"
    for one in found:
        assert HEAD.fullmatch(one.head), f"taken, and it is none: {one.head!r}"
        assert len(LENGTHS.findall(one.head)) <= 1, f"two lengths: {one.head!r}"
        assert len(one.head) <= HTTP_HEAD_BYTES
        different = other_opinion(one, data)
        assert not different, f"h11 reads {different}"
    return found, is_refused


# ---- a session -------------------------------------------------------------------------------------------------------

REPLIES: dict[type, Callable[..., object]] = {
    PublishAll: lambda command: Published(7, command.receipt, [b"1-1"] * len(command.sends), 0),
    Administer: lambda command: Answered(7, command.receipt, b"{}"),
    Receive: lambda command: Leased(7, command.receipt),
    Settle: lambda command: Settled(7, command.receipt, [Verdict() for _ in command.settlements]),
}
HELD_MAX_BYTES = HTTP_HEAD_BYTES + 8 * HTTP_BATCH_BYTES  # a body in chunks of one byte counts six times


def converse(chance: Random, pieces: list[bytes]) -> tuple[list[PublishAll], bytes, WebSession]:
    """What a session asks the broker to store, and what it answers, however late the broker is."""
    session = WebSession(7, "s-1", LIMITS)
    waiting: list[object] = []
    stored: list[PublishAll] = []
    sent = b""
    haste = chance.choice((1.0, 0.5, 0.1))

    def take(commands: list[object]) -> None:
        nonlocal sent
        sent += session.take_outgoing()
        for command in commands:
            if not isinstance(command, Open):
                waiting.append(command)
            if isinstance(command, PublishAll):
                stored.append(command)
        assert len(waiting) <= HTTP_PIPELINED, f"{len(waiting)} requests are on their way at once"
        assert session.buffered_bytes <= HELD_MAX_BYTES, f"{session.buffered_bytes} bytes are held"

    def read(data: bytes) -> None:
        take([*session.receive(data)])
        while session.is_costly:
            take([*session.receive(b"")])

    def answer() -> None:
        nonlocal sent
        command = waiting.pop(0)
        sent += session.encode(REPLIES[type(command)](command))  # type: ignore[arg-type]
        if session.has_unread:
            read(b"")

    for piece in pieces:
        while session.is_full and waiting:  # so the server holds its reader
            answer()
        read(piece)
        while waiting and chance.random() < haste:
            answer()
    while waiting:
        answer()
    return stored, sent, session


def statuses(sent: bytes, requests: list[Read]) -> list[int]:
    """Of the final answers, in order."""
    found: list[int] = []
    while sent:
        head, end, sent = sent.partition(b"\r\n\r\n")
        assert end and head.startswith(b"HTTP/1.1 "), f"no answer: {head[:200]!r}"
        status = int(head[9:12])
        if status == 100:
            continue
        is_head = len(found) < len(requests) and requests[len(found)].method == "HEAD"
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        if length and not is_head:
            sent = sent[int(length[1]) :]
        found.append(status)
    return found


def wanted(one: Read) -> list[tuple[dict[bytes, bytes], bytes]]:
    """The messages that this request is: the headers of each that are its own, and its body."""
    content_type = one.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type == b"application/json" and b"message-content-type" not in one.headers:
        given = json.loads(one.body)["messages"]
        return [
            ({name.lower().encode(): value.encode() for name, value in each["headers"].items()}, each["body"].encode())
            for each in given
        ]
    own = {name[8:]: value for name, value in one.headers.items() if name.startswith(b"message-")}
    return [(own, one.body)]


def message_of(send: Send) -> tuple[dict[bytes, bytes], bytes]:
    lines = pairs(send.headers, send.escaping)
    assert len(dict(lines)) == len(lines), f"a header twice: {send.headers!r}"
    return {name: value for name, value in lines if name != b"content-type"}, send.body


def judge_session(chance: Random, pieces: list[bytes], requests: list[Read]) -> int:
    """Asserts what is promised of what it does. Returns how many messages were stored."""
    stored, sent, session = converse(chance, pieces)
    if session._inner is not None:  # a WebSocket: its bytes are no answers
        return 0
    found = statuses(sent, requests)
    assert len(found) <= len(requests) + 1, f"{found} for {len(requests)} requests"
    assert 500 not in found
    if not session.is_closing:
        assert len(found) == len(requests), f"{found} for {len(requests)} requests"
    published = [one for one, status in zip(requests, found, strict=False) if status == 201]
    assert len(published) == found.count(201) == len(stored), f"{len(stored)} publish, and {found}"
    for one, command in zip(published, stored, strict=True):
        assert one.method == "POST" and one.target.endswith(b"/messages"), one
        assert [message_of(send) for send in command.sends] == wanted(one), f"{command} is not {one}"
    return sum(len(command.sends) for command in stored)


def flood(chance: Random) -> list[bytes]:
    """More requests than may be on their way."""
    one = b"POST /v1/queues/a/messages HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx"
    return cuts(chance, one.replace(b"Host: a", b"Host: localhost") * (HTTP_PIPELINED + chance.randrange(1, 40)))


def fuzz(run: Run) -> None:
    taken = messages = connections = 0
    while not run.is_over:
        connections += 1
        chance = Random(run.chance.randrange(1 << 60))
        pieces = flood(chance) if connections % 100 == 0 else []
        data = b"".join(pieces) or connection_bytes(chance)
        pieces = pieces or cuts(chance, data)
        try:
            requests, _ = judge(data, pieces)
            taken += len(requests)
            messages += judge_session(chance, pieces, read([data], HTTP_BATCH_BYTES)[0])
        except Exception:  # noqa: BLE001 - a parser that raises ends its connection
            run.violation(f"{data[:6000]!r}, cut into {[len(one) for one in pieces][:50]}:\n{traceback.format_exc()}")
        run.case(len(data))
    run.figures |= {"connections": connections, "requests taken": taken, "messages": messages}


CAMPAIGNS = (
    Campaign(
        number="S60",
        name="http-fuzz",
        title="requests by chance over HTTP, read by h11 too",
        unit="bytes",
        run=fuzz,
        cases=(2_000_000, 20_000_000, 300_000_000),
        mutants=(
            "http-header-unescaped",
            "http-two-lengths",
            "http-size-after-keeping",
            "http-chunk-size-by-int",
            "http-head-like-the-last",
            "http-pipelined-without-bound",
        ),
        mutant_cases=2_000_000,
        quick_mutants=3,
    ),
)
