"""Words to bytes and back, however they are cut; every bound at its value and one past it."""

import re
import struct
import time
from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model import limits as bounds
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.peer import (
    Credit,
    Declared,
    Demand,
    Digest,
    Hello,
    NodeState,
    PeerFrame,
    Piece,
    Publish,
    Standing,
    Supply,
    Taken,
    Transfer,
    Version,
    Welcome,
)
from radiator.protocols.peer.frame import HEART_BEAT, Frames, encode
from radiator.protocols.peer.spec import AFTER_PROOF, BEFORE_PROOF, SPECS, LinkFrame
from radiator.protocols.stomp.frame import encode_message
from radiator.protocols.stomp.session import StompSession
from tests.protocols.peer.words import MAKERS, cut

SMALL = Limits(max_frame_bytes=2000, max_header_bytes=1000, max_headers=10, max_destinations=3)
MESSAGE = Message("/queue/q", b"a:b\n", ESCAPING_ALL, b"body", 1, 2)
TRANSFER = Transfer(1, 2, "/queue/q", MESSAGE, ["a"], 0, False, 0)
PUBLISH = Publish("a", 1, 2, 3, b"00ff-1-2t", replace(MESSAGE, destination="/topic/t"))
NEWS = NodeState(Version("a", 1, 2), True, [], [], [], [], "")


def words(data: bytes, limits: Limits | None = None) -> list[LinkFrame]:
    return list(Frames(limits or Limits(), AFTER_PROOF).words(data))


def refusal(word: PeerFrame, limits: Limits | None = None) -> str:
    with pytest.raises(Violation) as broken:
        words(encode(word), limits)
    return str(broken.value)


def test_every_word_is_in_the_table_with_each_of_its_fields() -> None:
    assert set(get_args(PeerFrame)) == set(MAKERS) == {spec.word for kind, spec in AFTER_PROOF.items() if kind > 3}
    for spec in SPECS.values():
        assert len(spec.fields) == len(spec.word.__slots__)  # type: ignore[attr-defined]


@given(st.integers(0, 2**32), st.sampled_from(list(MAKERS)))
def test_round_trip_of_every_word_in_any_pieces(seed: int, kind: type[PeerFrame]) -> None:
    chance = Random(seed)
    sent_words = [MAKERS[kind](chance) for _ in range(chance.randrange(1, 4))]
    data = HEART_BEAT + b"".join(encode(word) + HEART_BEAT * chance.randrange(2) for word in sent_words)
    frames = Frames(Limits(), AFTER_PROOF)
    heard = [word for piece in cut(data, chance) for word in frames.words(piece)]
    assert heard == sent_words
    assert frames.held_bytes == 0
    assert [type(word).__slots__ for word in heard] == [type(word).__slots__ for word in sent_words]


def test_byte_by_byte_nothing_comes_before_the_last() -> None:
    data = encode(TRANSFER)
    frames = Frames(Limits(), AFTER_PROOF)
    for at in range(len(data) - 1):
        assert list(frames.words(data[at : at + 1])) == []
        assert frames.held_bytes == at + 1
    assert list(frames.words(data[-1:])) == [TRANSFER]


@pytest.mark.parametrize("kind", list(MAKERS))
def test_cut_short_or_too_long_is_refused(kind: type[PeerFrame]) -> None:
    for seed in range(20):
        data = encode(MAKERS[kind](Random(seed)))
        for size in {0, 1, (len(data) - 5) // 2, len(data) - 6} - {-1}:
            with pytest.raises(Violation):
                words(struct.pack(">I", 1 + size) + data[4:5] + data[5 : 5 + size] + data)
        with pytest.raises(Violation, match="after its last field|and .* bytes: it has"):
            words(struct.pack(">I", len(data) - 3) + data[4:] + b"\0")


# ---- the frame ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(AFTER_PROOF))
def test_a_length_past_its_kind_is_refused_before_anything_is_held(kind: int) -> None:
    most = 1 + AFTER_PROOF[kind].most_bytes(SMALL)
    frames = Frames(SMALL, AFTER_PROOF)
    assert list(frames.words(struct.pack(">IB", most, kind))) == []
    assert frames.held_bytes == 5
    with pytest.raises(Violation, match=f"of kind {kind} and {most + 1} bytes: it has 1 to {most}"):
        words(struct.pack(">IB", most + 1, kind), SMALL)


@pytest.mark.parametrize("kind", [4, 15, 200, 255, 1, 2])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(Violation, match=f"A frame of kind {kind} may not come now"):
        words(struct.pack(">IB", 1, kind))


@pytest.mark.parametrize("length", [0, 2, 2**32 - 1])
def test_a_heart_beat_has_length_1(length: int) -> None:
    with pytest.raises(Violation, match="of kind 0"):
        words(struct.pack(">IB", length, 0))


def test_words_need_a_proof() -> None:
    with pytest.raises(Violation, match="A frame of kind 19 may not come now: 1, 2, 3 may"):
        list(Frames(Limits(), BEFORE_PROOF).words(encode(Taken(1))))


def test_what_is_held_before_the_proof_is_little() -> None:
    assert all(spec.most_bytes(Limits()) + 5 < bounds.CONNECT_MAX_BYTES for spec in BEFORE_PROOF.values())


# ---- each bound, and one past it ------------------------------------------------------------------------------------

NODE_MOST = "n" * bounds.NODE_NAME_MAX_BYTES
NAME_MOST = "é" * 127 + "x"
WORDS_MOST = ".".join(["w"] * bounds.TOPIC_WORDS_MAX)
STARS_MOST = ".".join(["*"] * bounds.PATTERN_WILDCARDS_MAX)
LINES_MOST = SMALL.max_headers
BLOCK_MOST = 2 * SMALL.max_header_bytes
LONGEST = f"/exchange/{'x' * 255}/{'k' * 255}"
ADDED_MOST = b"original-destination:" + b"x" * (bounds.LINK_ADDED_LINE_BYTES - 22) + b"\n"
DEATHS_MOST = b"x-death:" + b"x" * (bounds.DEATHS_BYTES - 9) + b"\n"
PATH_MOST = b"node-path:" + b",".join([b"n" * bounds.NODE_NAME_MAX_BYTES] * bounds.PATH_HOPS_MAX) + b"\n"
TIME_MOST, PIECE_MOST = bounds.TIME_MAX_MS, bounds.PIECE_BYTES
HOST_MOST = "h" * (bounds.NODE_ADDRESS_MAX_BYTES - len("peer://:12345"))


def sent(**changes: object) -> Transfer:
    return replace(TRANSFER, message=replace(MESSAGE, **changes))  # type: ignore[arg-type]


AT_THE_BOUND: list[tuple[PeerFrame, PeerFrame, str]] = [
    (Taken(2**63 - 1), Taken(2**63), "too large: at most 9223372036854775807"),
    (Hello(1, ["q"] * 3, []), Hello(1, ["q"] * 4, []), "A list has 4 items: at most 3"),
    (Piece(1, 0, bytes(PIECE_MOST)), Piece(1, 0, bytes(PIECE_MOST + 1)), "A frame of kind 34 and 32788 bytes"),
    (Hello(1, [], [10**6]), Hello(1, [], [10**6 + 1]), "is too large: at most 1000000"),
    (Hello(1, [], [1] * 3), Hello(1, [], [1] * 4), "A list has 4 items: at most 3"),
    (Hello(1, [NAME_MOST], []), Hello(1, [NAME_MOST + "x"], []), "has 256 bytes of UTF-8; a name has at most 255"),
    (Hello(1, ["q"], []), Hello(1, [""], []), "is empty"),
    (Credit("", 1), Demand("", ["a"]), "is empty"),
    (Demand("q", [NODE_MOST]), Demand("q", [NODE_MOST + "n"]), "is not a valid name for a node"),
    (Demand("q", ["a"] * 8), Demand("q", ["a"] * 9), "A list has 9 items: at most 8"),
    (Demand("q", ["a"]), Demand("q", []), "A list has 0 items: it must have at least 1"),
    (replace(TRANSFER, path=["a"] * 8), replace(TRANSFER, path=["a"] * 9), "A list has 9 items: at most 8"),
    (TRANSFER, replace(TRANSFER, path=[]), "A list has 0 items: it must have at least 1"),
    (Demand("q", ["-.a"]), Demand("q", [".a"]), "is not a valid name for a node"),
    (Digest([Version("a", 1, 2)] * 1024), Digest([Version("a", 1, 2)] * 1025), "A list has 1025 items: at most 1024"),
    (replace(NEWS, neighbours=["a"] * 1024), replace(NEWS, neighbours=["a"] * 1025), "at most 1024"),
    (replace(NEWS, neighbours_gone=["a"] * 1024), replace(NEWS, neighbours_gone=["a"] * 1025), "at most 1024"),
    (replace(NEWS, patterns=["p"] * 4096), replace(NEWS, patterns=["p"] * 4097), "at most 4096"),
    (replace(NEWS, patterns_gone=["p"] * 4096), replace(NEWS, patterns_gone=["p"] * 4097), "at most 4096"),
    (replace(NEWS, patterns=[WORDS_MOST]), replace(NEWS, patterns=[WORDS_MOST + ".w"]), "has 17 words"),
    (replace(NEWS, patterns=[STARS_MOST]), replace(NEWS, patterns=[STARS_MOST + ".#"]), "4 wildcards"),
    (
        replace(NEWS, address=f"peer://{HOST_MOST}:12345"),
        replace(NEWS, address=f"peer://{HOST_MOST}h:12345"),
        "not an addr",
    ),
    (replace(NEWS, address="peer://a:1"), replace(NEWS, address="stomp://a:1"), "is not an address of a node"),
    (replace(NEWS, address="peer://a:65535"), replace(NEWS, address="peer://a:65536"), "is not an address of a node"),
    (replace(NEWS, address="peer://a:1"), replace(NEWS, address="peer://a:0"), "is not an address of a node"),
    (replace(NEWS, address="peer://[::]:1"), replace(NEWS, address="peer://[:::]:1"), "is not an address of a node"),
    (replace(NEWS, address="peer://a:1"), replace(NEWS, address="peer://a:1\n"), "is not an address of a node"),
    (sent(body=b"x" * 2000), sent(body=b"x" * 2001), r"2001 of body: .* 2000 \(max_frame_bytes\)"),
    (sent(headers=b"a:b\n" * LINES_MOST), sent(headers=b"a:b\n" * (LINES_MOST + 1)), f"has {LINES_MOST + 1} headers"),
    (
        sent(headers=b"a:" + b"x" * (BLOCK_MOST - 3) + b"\n"),
        sent(headers=b"a:" + b"x" * (BLOCK_MOST - 2) + b"\n"),
        f"has 1 headers of {BLOCK_MOST + 1} bytes",
    ),
    (sent(headers=ADDED_MOST), sent(headers=ADDED_MOST.replace(b":", b":x")), "is not one that nodes add"),
    (sent(headers=DEATHS_MOST), sent(headers=DEATHS_MOST.replace(b":", b":x")), "is not one that nodes add"),
    (sent(headers=ADDED_MOST), sent(headers=ADDED_MOST * 2), "or occurs twice"),
    (sent(headers=PATH_MOST), sent(headers=PATH_MOST.replace(b":", b":n")), "is not one that nodes add"),
    (sent(headers=PATH_MOST), sent(headers=PATH_MOST[:-1] + b",n\n"), "is not one that nodes add"),
    (sent(headers=b"node-path:-.a\n"), sent(headers=b"node-path:.a\n"), "is not one that nodes add"),
    (sent(headers=b"node-path:a\n"), sent(headers=b"node-path:\n"), "is not one that nodes add"),
    (
        sent(headers=b"a:b\n" * LINES_MOST + ADDED_MOST + PATH_MOST),
        sent(headers=b"a:b\n" * (LINES_MOST + 1) + ADDED_MOST + PATH_MOST),
        f"has {LINES_MOST + 1} headers",
    ),
    (sent(escaping=0), sent(escaping=3), "rules number 3"),
    (sent(accepted_ms=TIME_MOST), sent(accepted_ms=TIME_MOST + 1), "too far away"),
    (sent(expires_ms=2 * TIME_MOST), sent(expires_ms=2 * TIME_MOST + 1), "too far away"),
    (sent(destination="/exchange/x/k"), sent(destination="/other/f"), "is not an address"),
    (sent(destination="/amq/queue/w"), sent(destination="/amq/other/w"), "is not an address"),
    (sent(destination="/temp-queue/t"), sent(destination="/admin"), "is not an address"),
    (sent(destination=LONGEST), sent(destination=LONGEST + "k"), "routing key"),
    (sent(destination="/fanout/f"), sent(destination="fanout/f"), "is not an address"),
    (sent(destination="/fanout/f"), sent(destination="xfanout/f"), "is not an address"),
    (sent(destination="/fanout/f"), sent(destination="x/queue/f"), "is not an address"),
    (sent(destination="/fanout/f"), sent(destination="/fanout/\n"), "control character"),
    (replace(TRANSFER, destination="/topic/t"), replace(TRANSFER, destination="/topic/*"), "is a pattern"),
    (replace(PUBLISH, copied=["n"] * 1024), replace(PUBLISH, copied=["n"] * 1025), "at most 1024"),
    (Standing(True, ["p"] * 4096, [], []), Standing(True, ["p"] * 4097, [], []), "at most 4096"),
    (Standing(True, [], [1] * 4096, []), Standing(True, [], [1] * 4097, []), "at most 4096"),
    (Standing(True, [], [], ["p"] * 4096), Standing(True, [], [], ["p"] * 4097), "at most 4096"),
    (Declared("q", ["a=b"] * 32), Declared("q", ["a=b"] * 33), "at most 32"),
    (Declared("q", ["a="]), Declared("q", ["a"]), "is not a setting"),
    (replace(TRANSFER, destination="/fanout/f"), replace(TRANSFER, destination="/exchange/f/k"), "takes no message"),
    (replace(TRANSFER, destination="/fanout/f"), replace(TRANSFER, destination="f"), "is not an address"),
    (replace(TRANSFER, redeliveries=2**31 - 1), replace(TRANSFER, redeliveries=2**31), "too large"),
    (PUBLISH, replace(PUBLISH, message=MESSAGE), "cannot be published"),
    (PUBLISH, replace(PUBLISH, message=replace(MESSAGE, destination="/topic/*")), "is a pattern"),
    (PUBLISH, replace(PUBLISH, message_id=b"00ff-1-2t\nx:y"), "is not the id of a message"),
    (PUBLISH, replace(PUBLISH, message_id=b"00ff-1-2"), "is not the id of a message"),
    (
        replace(PUBLISH, message_id=b"f" * 64 + b"-" + b"1" * 20 + b"-" + b"1" * 20 + b"t"),
        replace(PUBLISH, message_id=b"f" * 65 + b"-" + b"1" * 20 + b"-" + b"1" * 20 + b"t"),
        "is not the id of a message",
    ),
    (Supply("q", 1, 1, True), Supply("q\0", 1, 1, True), "control character"),
    (Welcome(0, 2**63 - 1), Welcome(2**64 - 1, 0), "too large"),
]


@pytest.mark.parametrize(("right", "wrong", "sentence"), AT_THE_BOUND, ids=range(len(AT_THE_BOUND)))
def test_a_bound_is_taken_and_one_past_it_refused(right: PeerFrame, wrong: PeerFrame, sentence: str) -> None:
    assert words(encode(right), SMALL) == [right]
    assert re.search(sentence, refusal(wrong, SMALL))


def test_a_flag_is_0_or_1() -> None:
    data = bytearray(encode(Supply("q", 1, 1, True)))
    data[-1] = 2
    with pytest.raises(Violation, match="A flag is 2: it must be 0 or 1"):
        words(bytes(data))


@pytest.mark.parametrize("raw", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
def test_names_and_headers_are_utf_8(raw: bytes) -> None:
    data = encode(Demand("??", ["a"])).replace(b"??", (raw * 2)[:2])
    with pytest.raises(Violation, match="is not UTF-8"):
        words(data)
    assert "is not UTF-8" in refusal(sent(headers=b"a:" + raw + b"\n"))


# ---- header blocks --------------------------------------------------------------------------------------------------

GOOD_BLOCKS = {
    ESCAPING_NONE: [b"", b"a:b\n", b"a:b:c\n", b"a\\n:\\x\n", b"a:\r\n", b"a:\n", b"content-lengthy:5\n"],
    ESCAPING_BUT_CR: [b"", b"a:b\\c\n", b"\\n\\c:\\\\\n", b"a:\r\n", "ä:日\n".encode(), b"redelivery-count:5\n"],
    ESCAPING_ALL: [b"", b"a:b\\c\\r\n", b"\\r:\\\\\n", b"x-ack:1\n", b"dead-letter-reason:expired\n"],
}
BAD_BLOCKS = {
    ESCAPING_NONE: [b"a", b"a\n", b":b\n", b"a:b", b"a:b\n\n", b"\na:b\n", b"a:\0\n", b"\n"],
    ESCAPING_BUT_CR: [b"a:b:c\n", b"a:\\r\n", b"a:\\x\n", b"a:\\\n", b":\n", b"a:b\nc\n", b"a\\:b\n"],
    ESCAPING_ALL: [b"a:b:c\n", b"a:\r\n", b"a\r:b\n", b"a:b\r\nc:d\r\n", b"a:\\t\n", b"a:\\\n"],
}
HOP = (b"content-length:1", b"message-id:x", b"subscription:s", b"ack:x", b"destination:/queue/x", b"receipt:1")


@pytest.mark.parametrize("escaping", GOOD_BLOCKS)
def test_header_blocks_of_each_version(escaping: int) -> None:
    for block in GOOD_BLOCKS[escaping]:
        word = sent(headers=block, escaping=escaping)
        assert words(encode(word)) == [word]
        for receiver in GOOD_BLOCKS:  # and it can be said to everybody
            encode_message(word.message, b"id", b"s", False, False, 0, receiver)
    for block in BAD_BLOCKS[escaping]:
        assert f"is none of STOMP 1.{escaping}" in refusal(sent(headers=block, escaping=escaping))
    for line in HOP:
        assert "is none of STOMP" in refusal(sent(headers=b"a:b\n" + line + b"\n", escaping=escaping))


SOUP = st.lists(st.sampled_from([b"a", b":", b"\\", b"\n", b"\r", b"n", b"c", b"\0", b"ack", b" "]), max_size=10)


@given(st.integers(0, 2), SOUP)
def test_a_block_that_is_taken_is_read_alike_by_every_client(escaping: int, soup: list[bytes]) -> None:
    """Judged by the parser of what clients send: the same number of headers, in whatever version they are sent on."""
    block = b"".join(soup)
    try:
        words(encode(sent(headers=block, escaping=escaping)))
    except Violation:
        return
    for receiver in range(3):
        frame = encode_message(Message("/queue/q", block, escaping, b"", 1), b"id", b"s", False, False, 0, receiver)
        session = StompSession(1, "s", Limits())
        session.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % receiver)
        (command,) = session.receive(frame.replace(b"MESSAGE\n", b"SEND\n"))
        stored = getattr(command, "headers", None)
        assert stored is not None, f"{block!r} to 1.{receiver}: {command}"
        assert stored.count(b"\n") <= block.count(b"\n")


@pytest.mark.parametrize("escaping", GOOD_BLOCKS)
def test_a_hostile_block_costs_linear_time(escaping: int) -> None:
    room = Limits().max_header_bytes
    for unit in (b"\\\\", b"a", b"a:\n", b"a:\\c\n", b"a\\n"):
        began_s = time.process_time()
        with pytest.raises(Violation):
            words(encode(sent(headers=unit * (room // len(unit)) + b"\0", escaping=escaping)))
        assert time.process_time() - began_s < 0.1


def test_what_a_client_says_can_be_handed_over() -> None:
    """The blocks that the session of STOMP stores are among those that are taken."""
    for version in range(3):
        session = StompSession(1, "s", Limits())
        session.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % version)
        headers = b"destination:/queue/q\ncontent-length:0\nreceipt:1\nack:2\ntimestamp:5\na:b:c\nb:d\\\\\\n\ne\\cf:g\n"
        (command,) = session.receive(b"SEND\n" + headers + b"\n\0")
        block = getattr(command, "headers")  # noqa: B009 - a Send, or the test fails here
        word = sent(headers=block, escaping=version)
        assert block.count(b"\n") == 3
        assert words(encode(word)) == [word]


def test_the_bytes_are_those_of_the_document() -> None:
    """docs/PROTOCOL.md, "The link between nodes"."""
    message = b"\x02" + b"\0" * 7 + b"\x01" + b"\0" * 7 + b"\x02" + b"\0\x08" + b"\0\0\0\x04" + b"\0\0\0\x04"
    assert encode(TRANSFER) == (
        b"\0\0\0\x66\x12" + b"\0" * 7 + b"\x01" + b"\0" * 7 + b"\x02" + b"\0\x08/queue/q"
        + message + b"/queue/qa:b\nbody" + b"\0\0\0\x01\0\x01a" + b"\0" * 8 + b"\0" + b"\0" * 16
    )  # fmt: skip
    assert encode(Credit("q", 5)) == b"\0\0\0\x0c\x16\0\x01q\0\0\0\0\0\0\0\x05"
    assert HEART_BEAT == b"\0\0\0\x01\0"
