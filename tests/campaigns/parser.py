"""T8: bytes to frames, for what a server and what a client reads: properties, and mutated frames by the thousand.

Judged by a plain parser of the whole input (plain_parser.py): the same frames before the first broken one, refused
where they must be, however the bytes were cut; every limit at its value and one past it; nothing raised but
BrokenFrame, no more held than the limits allow, nothing said after an error. It does not see sockets, nor what the
broker does with the commands; a misreading of the specifications that both parsers share stays unseen.
"""

import traceback
from collections.abc import Callable, Iterable
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from radiator.model.commands import Fail
from radiator.model.headers import escape
from radiator.model.limits import COMMAND_MAX_BYTES, CONNECT_MAX_BYTES, Limits
from radiator.model.message import Message
from radiator.protocols.stomp.client import Broken, ClientSession
from radiator.protocols.stomp.frame import BrokenFrame, encode_message
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.stomp.spec import ANSWER_COMMANDS, CLIENT_COMMANDS, CONNECT_COMMANDS, SERVER_COMMANDS
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.model import PHASES
from tests.campaigns.plain_parser import BROKEN, DOOMED, Plain, Read

VERSIONS = (0, 1, 2)
SIDES = ((CONNECT_COMMANDS, CLIENT_COMMANDS), (ANSWER_COMMANDS, SERVER_COMMANDS))  # what a server reads, a client
AT_ONCE = 250  # examples of one seed
FRAMES_MAX = 1000  # more than any input here has


# ---- reading and judging ---------------------------------------------------------------------------------------------


def read(side: int, version: int, limits: Limits, pieces: Iterable[bytes]) -> tuple[list[Read], bool]:
    """What the real parser makes of it: the frames, and whether the next one was refused. Asserts its bounds."""
    opening, commands = SIDES[side]
    parser = Parser(limits, opening)
    parser.speak(version, commands[version])
    most = max(limits.max_frame_bytes, limits.max_header_bytes, COMMAND_MAX_BYTES + 2)
    found: list[Read] = []
    for piece in pieces:
        try:
            for frame in parser.frames(piece):
                found.append((frame.command, frame.headers, frame.body))
                assert len(found) <= FRAMES_MAX, "frames without an end"
        except BrokenFrame:
            return found, True
        assert parser.held_bytes <= most, f"{parser.held_bytes} bytes are held, of {most} at most"
    return found, False


def judge(side: int, version: int, limits: Limits, wire: bytes, cuts: list[int]) -> Plain:
    """Whole, and cut at those places: as the plain parser reads it."""
    plain = Plain(version, limits, SIDES[side][1][version]).read(wire)
    for pieces in ([wire], cut(wire, cuts)):
        found, is_broken = read(side, version, limits, pieces)
        assert found == plain.frames, f"{pieces!r}: {found} instead of {plain.frames}"
        if plain.rest != DOOMED:
            assert is_broken == (plain.rest == BROKEN), f"{pieces!r}: broken {is_broken}, and should be {plain.rest}"
    return plain


def cut(wire: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]
    return [wire[start:end] for start, end in zip(ends, ends[1:], strict=False)]


def say(version: int, command: bytes, headers: list[tuple[bytes, bytes]], body: bytes, end: bytes = b"\n") -> bytes:
    lines = [command, *(escape(name, version) + b":" + escape(value, version) for name, value in headers)]
    return end.join(lines) + end + end + body + b"\0"


# ---- properties ------------------------------------------------------------------------------------------------------

PROPERTIES: list[tuple[Callable[..., None], tuple[st.SearchStrategy, ...]]] = []


def holds_for(*strategies: st.SearchStrategy) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One of PROPERTIES: it raises nothing, whatever is drawn from these."""

    def registered(known: Callable[..., None]) -> Callable[..., None]:
        PROPERTIES.append((known, strategies))
        return known

    return registered


PLACES = st.lists(st.integers(0, 2000), max_size=6)
VERSION = st.sampled_from(VERSIONS)
SIDE = st.sampled_from((0, 1))
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.text(st.sampled_from(":\\nrc\r\n a"), max_size=8),
)
LIMITS = Limits(max_frame_bytes=2000, max_header_bytes=1500, max_headers=30)


@st.composite
def frame_given(draw: st.DrawFn, side: int, version: int) -> tuple[list[tuple[bytes, bytes]], bytes, bool]:
    """Headers that the version can express, a body, and whether its length is told."""
    headers = [(b"destination", b"/queue/a"), (b"message-id", b"1"), (b"subscription", b"s")]
    for name, value in draw(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=4)):
        raw_name, raw_value = name.encode(), value.encode()
        if version == 1 and b"\r" in raw_name + raw_value:
            continue  # can be said, as it is, and is nobody's business here
        if version == 0 and (b"\n" in raw_name + raw_value or b":" in raw_name or raw_value != raw_value.strip(b" ")):
            continue
        if raw_name != b"content-length":
            headers.append((raw_name, raw_value))
    body = draw(st.binary(max_size=60))
    has_length = b"\0" in body or draw(st.booleans())
    return ([*headers, (b"content-length", b"%d" % len(body))] if has_length else headers), body, has_length


@holds_for(st.data(), SIDE, VERSION, PLACES)
def what_is_sent_is_read(data: st.DataObject, side: int, version: int, places: list[int]) -> None:
    command = (b"SEND", b"MESSAGE")[side]
    some = [data.draw(frame_given(side, version)) for _ in range(data.draw(st.integers(1, 3)))]
    wire = b"".join(say(version, command, headers, body) for headers, body, _ in some)
    found, is_broken = read(side, version, LIMITS, cut(wire, places))
    assert not is_broken
    assert found == [(command, dict(reversed(headers)), body) for headers, body, _ in some]
    judge(side, version, LIMITS, wire, places)


@holds_for(st.data(), SIDE, VERSION)
def a_prefix_gives_a_prefix(data: st.DataObject, side: int, version: int) -> None:
    headers, body, _ = data.draw(frame_given(side, version))
    wire = say(version, (b"SEND", b"MESSAGE")[side], headers, body)
    found, is_broken = read(side, version, LIMITS, [wire[i : i + 1] for i in range(len(wire) - 1)])
    assert (found, is_broken) == ([], False), "a frame came, or was refused, before its last byte"


TOKENS = b"SEND ACK MESSAGE RECEIPT destination:a id:1 content-length: 3 0 18 : \\c \\ \\t receipt-id:1".split(b" ")
SOUP = st.lists(st.one_of(st.sampled_from([*TOKENS, b"\n", b"\n\n", b"\r\n", b"\r", b"\0"]), st.binary(max_size=4)))


@holds_for(SIDE, VERSION, SOUP, PLACES)
def any_bytes_end_the_same_way(side: int, version: int, soup: list[bytes], places: list[int]) -> None:
    judge(side, version, Limits(max_frame_bytes=80, max_header_bytes=60, max_headers=4), b"".join(soup), places)


@holds_for(SIDE, VERSION, st.booleans(), st.integers(0, 200), st.integers(0, 3), PLACES)
def a_limit_is_kept_to_the_byte(
    side: int, version: int, reported: bool, size: int, more: int, places: list[int]
) -> None:
    headers = [(b"destination", b"a"), (b"message-id", b"1"), (b"subscription", b"s")] + [(b"x", b"y")] * more
    headers += [(b"content-length", b"%d" % size)] * reported
    wire = say(version, (b"SEND", b"MESSAGE")[side], headers, b"b" * size)
    at = {"max_frame_bytes": len(wire), "max_header_bytes": len(wire) - size - 1, "max_headers": len(headers)}
    assert judge(side, version, Limits(**at), wire, places).rest != BROKEN
    assert read(side, version, Limits(**at), [wire]) == read(side, version, Limits(), [wire])
    for name, value in at.items():
        if value > 1:
            one_less = Limits(**at | {name: value - 1})
            assert read(side, version, one_less, cut(wire, places)) == ([], True), f"{name} may be passed"


@holds_for(
    VERSION, st.lists(st.sampled_from([b"\\\\", b"\\n", b"\\r", b"\\c", b"\\t", b"\\", b"a"]), max_size=5), PLACES
)
def an_escape_is_undone_or_refused(version: int, parts: list[bytes], places: list[int]) -> None:
    wire = b"SEND\ndestination:a\nx" + b"".join(parts) + b":y" + b"".join(parts) + b"\n\n\0"
    judge(0, version, LIMITS, wire, places)


@holds_for(st.data(), PLACES)
def line_ends_may_differ_in_1_2_only(data: st.DataObject, places: list[int]) -> None:
    lines = [b"SEND", b"destination:a", b"x:" + data.draw(st.sampled_from([b"", b"y", b"\\r"])), b""]
    wire = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines) + b"\r\n\0"
    for version in VERSIONS:
        judge(0, version, LIMITS, wire, places)


LENGTHS = st.one_of(
    st.sampled_from([*b"0 3 003 -3 +3 3.0 1e1 0x3 3a 99999 999999999999999999999 \xd9\xa3".split(b" "), b""]),
    st.integers(-50, 9).map(lambda number: b"%d" % number),  # back to the NUL of the frame before, too
)


@holds_for(
    VERSION, st.lists(LENGTHS, min_size=1, max_size=3), st.sampled_from([b"abc", b"a\0b", b"\0\0\0", b""]), PLACES
)
def a_length_is_taken_at_its_word(version: int, lengths: list[bytes], body: bytes, places: list[int]) -> None:
    head = b"SEND\ndestination:a\n\n\0SEND\ndestination:a\n" + b"".join(
        b"content-length:" + length + b"\n" for length in lengths
    )
    judge(0, version, LIMITS, head + b"\n" + body + b"\0SEND\ndestination:smuggled\n\n\0", places)


@holds_for(SIDE, VERSION, st.lists(st.integers(0, 4), min_size=1, max_size=5), PLACES)
def heart_beats_between_frames_are_nothing(side: int, version: int, beats: list[int], places: list[int]) -> None:
    headers = [(b"destination", b"a"), (b"message-id", b"1"), (b"subscription", b"s")]
    frame = say(version, (b"SEND", b"MESSAGE")[side], headers, b"b")
    end = (b"\n", b"\n", b"\r\n")[version]
    found, is_broken = read(side, version, LIMITS, cut(b"".join(end * count + frame for count in beats), places))
    assert (len(found), is_broken) == (len(beats), False)


@holds_for(VERSION, VERSION, st.data(), PLACES)
def a_message_travels_between_versions(sender: int, receiver: int, data: st.DataObject, places: list[int]) -> None:
    headers, body, _ = data.draw(frame_given(0, sender))
    own = [(name, value) for name, value in headers[3:] if name not in (b"content-length", b"")]
    if receiver == 0 or sender == 0:
        own = [(n, v) for n, v in own if not {*b":\n"} & {*n} and b"\n" not in v and v == v.strip(b" ")]
    block = b"".join(escape(name, sender) + b":" + escape(value, sender) + b"\n" for name, value in own)
    if receiver == 1 and b"\r" in b"".join(n + v for n, v in own):
        return  # 1.1 has no escape for it, and hears it as it is
    wire = encode_message(Message("/queue/a", block, sender, body, 1), b"1", b"s", True, False, 0, receiver)
    ((command, read_headers, read_body),), is_broken = read(1, receiver, LIMITS, cut(wire, places))
    assert (command, read_body, is_broken) == (b"MESSAGE", body, False)
    for name, value in reversed(own):
        ours = name in (b"destination", b"message-id", b"subscription", b"ack", b"timestamp", b"redelivered")
        assert ours or read_headers[name] == dict(reversed(own))[name], (name, value)


@holds_for(SIDE, st.sampled_from([b"1.0", b"1.1", b"1.2"]), SOUP, PLACES)
def no_bytes_make_a_session_raise(side: int, version: bytes, soup: list[bytes], places: list[int]) -> None:
    session_says_nothing_after_an_error(side, version, cut(b"".join(soup), places), LIMITS)


def check_properties(run: Run) -> None:
    """Each in turn, a few hundred examples at a time."""
    while not run.is_over:
        for known, strategies in PROPERTIES:
            number = run.chance.randrange(2**32)
            examples = max(1, min(AT_ONCE, (run.cases - run.done) // len(PROPERTIES) or 1))
            wanted = settings(
                max_examples=examples,
                phases=[Phase.generate] if run.is_hunt else PHASES,
                suppress_health_check=list(HealthCheck),
                database=None,
                deadline=None,
                derandomize=False,
            )
            try:
                wanted(seed(number)(given(*strategies)(known)))()
            except Exception as wrong:  # noqa: BLE001 - a parser that raises ends its connection, or the broker
                notes = "\n".join(getattr(wrong, "__notes__", []))
                run.violation(f"{known.__name__} (seed {number} of hypothesis): {traceback.format_exc()}\n{notes}")
            run.case(examples)


# ---- mutated frames --------------------------------------------------------------------------------------------------


def session_says_nothing_after_an_error(side: int, version: bytes, pieces: list[bytes], limits: Limits) -> None:
    """A whole session over those pieces, and what follows a refusal."""
    if side == 0:
        server = StompSession(1, "s", limits)
        server.receive(b"CONNECT\naccept-version:%b\nhost:h\n\n\0" % version)
        words = [server.receive(piece) for piece in pieces]
        assert server.buffered_bytes <= max(limits.max_frame_bytes, CONNECT_MAX_BYTES)
        reported = [word for some in words for word in some]
        after = server.receive(b"\0\nSEND\ndestination:a\n\n\0")
        failed = [isinstance(word, Fail) for word in reported]
    else:
        client = ClientSession(limits)
        client.connect("h")
        client.receive(b"CONNECTED\nversion:%b\n\n\0" % version)
        events = [event for piece in pieces for event in client.receive(piece)]
        after = client.receive(b"\0\nRECEIPT\nreceipt-id:1\n\n\0")  # type: ignore[assignment]
        failed = [isinstance(event, Broken) for event in events]
    assert failed.count(True) <= 1 and (True not in failed or failed[-1]), "something was said after an error"
    assert True not in failed or after == [], f"{after} was said after an error"


def corpus(version: int) -> tuple[list[bytes], list[bytes]]:
    """Good inputs: what a server reads, what a client reads."""
    client = [
        say(version, b"SEND", [(b"destination", b"/queue/a"), (b"receipt", b"r1")], b"hello"),
        say(
            version, b"SEND", [(b"destination", b"/queue/a"), (b"content-length", b"5"), (b"x", b"a:b\\c")], b"a\0b\0c"
        ),
        say(version, b"SUBSCRIBE", [(b"id", b"1"), (b"destination", b"/queue/a"), (b"ack", b"client")], b""),
        say(version, b"ACK", [(b"id", b"s-1-1"), (b"message-id", b"s-1-1"), (b"subscription", b"1")], b""),
        say(version, b"BEGIN", [(b"transaction", b"t")], b"") + say(version, b"COMMIT", [(b"transaction", b"t")], b""),
        say(version, b"DISCONNECT", [(b"receipt", b"bye")], b""),
        say(
            version,
            b"SEND",
            [(b"destination", b"/exchange/x/a.b"), (b"delay", b"500"), (b"deliver-at", b"1700000000000")]
            + [(b"immediate", b"true"), (b"mandatory", b"false")],
            b"late",
        ),
        say(
            version,
            b"SUBSCRIBE",
            [(b"id", b"1"), (b"destination", b"/exchange/x/a.#"), (b"durable", b"true"), (b"auto-delete", b"false")]
            + [(b"ack-timeout-s", b"30")],
            b"",
        ),
        say(version, b"UNSUBSCRIBE", [(b"id", b"1"), (b"destination", b"/exchange/x/a.#"), (b"durable", b"true")], b""),
    ]
    if version:
        nack = [(b"id", b"s-1-1"), (b"message-id", b"s-1-1"), (b"subscription", b"1"), (b"delay", b"500")]
        client.append(say(version, b"NACK", nack, b""))
    server = [
        say(
            version,
            b"MESSAGE",
            [(b"destination", b"/queue/a"), (b"message-id", b"1"), (b"subscription", b"1"), (b"content-length", b"4")],
            b"a\0b\n",
        ),
        say(version, b"RECEIPT", [(b"receipt-id", b"r\nx") if version else (b"receipt-id", b"r")], b""),
        say(version, b"ERROR", [(b"message", b"no")], b"a long sentence"),
    ]
    return client, server


PIECES = (
    b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b":", b"\\", b"\\c", b"\\n", b"\\r", b"\\t", b"content-length:3\n",
    b"content-length:0\n", b"content-length:-1\n", b"content-length:4\n", b"destination:b\n", b"\xff", b"\xc3\xa9",
    b"SEND\n", b"MESSAGE\n", b"SEND\ndestination:smuggled\n\n\0", b"x" * 40,
)  # fmt: skip


def mutated(chance: Random, wire: bytes) -> bytes:
    """One to four small harms."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start = chance.randrange(len(wire) + 1)
        end = min(len(wire), start + chance.choice((0, 0, 1, 1, 3, 20)))
        way = chance.randrange(6)
        if way == 5:  # a length, as a header of its own: far too long, or back to the frame before
            start = end = wire.find(b"\n", start) + 1
            new = b"content-length:%d\n" % chance.randrange(-80, 20)
        elif way == 0:
            new = chance.choice(PIECES)
        elif way == 1:
            new = bytes([chance.randrange(256)])
        elif way == 2:
            new = wire[start:end] * 2
        elif way == 3:
            new = b""
        else:
            new = b"%d" % chance.choice((0, 1, 2, 3, 5, 9, 255, 2**31, 2**64, 10**18))
        wire = wire[:start] + new + wire[end:]
    return wire


def near_limits(chance: Random, wire: bytes) -> Limits:
    """Generous, or within a byte of what the first frame needs, or small."""
    if chance.random() < 0.4:
        return LIMITS
    head = wire.find(b"\n\n") + 2
    frame = wire.find(b"\0", head) + 1
    return Limits(
        max_header_bytes=max(1, head + chance.choice((-1, 0, 0, 0, 50, 50, 50))),
        max_frame_bytes=max(1, frame + chance.choice((-1, 0, 0, 0, 50, 50, 50))),
        max_headers=max(1, wire.count(b"\n", 0, head) - 2 + chance.choice((-1, 0, 0, 0, 5, 5, 5))),
    )


def harm(run: Run) -> None:
    """Random harm to good frames."""
    chance = run.chance
    good = [corpus(version) for version in VERSIONS]
    broken = frames = 0
    while not run.is_over:
        version, side = chance.choice(VERSIONS), chance.randrange(2)
        wire = b"".join(chance.choices(good[version][side], k=chance.choice((1, 2, 2, 3))))
        limits = near_limits(chance, wire)
        wire = mutated(chance, wire)
        places = [*range(len(wire))] if chance.random() < 0.2 else [chance.randrange(2000) for _ in range(3)]
        try:
            plain = judge(side, version, limits, wire, places)
            session_says_nothing_after_an_error(side, b"1.%d" % version, cut(wire, places), limits)
        except Exception:  # noqa: BLE001 - a parser that raises ends its connection, or the broker
            run.violation(
                f"side {side}, STOMP 1.{version}, {limits}, {wire!r} cut at {places}: {traceback.format_exc()}"
            )
        else:
            broken += plain.rest == BROKEN
            frames += len(plain.frames)
        run.case()
    run.figures |= {"refused": broken, "frames read": frames}


CAMPAIGNS = (
    Campaign(
        number="T8",
        name="parser",
        title="properties of the parser, for all that a server and a client reads",
        unit="examples",
        run=check_properties,
        cases=(10_000, 500_000, 5_000_000),
        mutants=(
            "unescape-missing",
            "crlf-in-every-version",
            "header-limit-off-by-one",
            "headers-limit-off-by-one",
            "body-limit-off-by-one",
            "blank-line-cut-in-two",
            "smuggling-after-content-length",
            "two-content-lengths",
            "goes-on-after-an-error",
        ),
        mutant_cases=10_000,
        quick_mutants=2,
        limit_s=(180, 3600, 8 * 3600),
    ),
    Campaign(
        number="T8b",
        name="fuzz",
        title="frames with random harm done to them, cut at random places",
        unit="inputs",
        run=harm,
        cases=(80_000, 5_000_000, 50_000_000),
        mutants=(
            "negative-content-length",
            "header-block-without-bound",
            "header-limit-off-by-one",
            "headers-limit-off-by-one",
            "body-limit-off-by-one",
            "unescape-missing",
            "smuggling-after-content-length",
            "two-content-lengths",
            "blank-line-cut-in-two",
            "crlf-in-every-version",
            "goes-on-after-an-error",
        ),
        mutant_cases=100_000,
        quick_mutants=11,
        limit_s=(180, 3600, 8 * 3600),
    ),
)
