"""Values of headers: what is right, and a sentence for each thing that is not."""

import re
from pathlib import Path

import pytest

from radiator.model.commands import EARLIEST, END, LATEST, OFFSET, TIME, Place
from radiator.model.errors import Violation
from radiator.model.limits import HEART_BEAT_MIN_MS, NAME_MAX_BYTES, TIME_MAX_MS
from radiator.protocols.stomp.spec import HOP_HEADERS
from radiator.protocols.stomp.values import (
    address,
    agreed_s,
    flag,
    heart_beats,
    highest_version,
    name,
    number,
    offered_heart_beats,
    place,
    stored_block,
)

KINDS = ["/queue/", "/fanout/", "/topic/", "/temp-queue/", "/reply-queue/", "/log/"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("foo", "/queue/foo"),
        ("a.b/c", "/queue/a.b/c"),
        ("/queue/test/ruby/stomp", "/queue/test/ruby/stomp"),
        ("/topic/stocks.*.nyse", "/topic/stocks.*.nyse"),
        ("/admin", "/admin"),
        ("/foo/x", "/foo/x"),
        ("/queue", "/queue"),
        ("/queue/\u00fc \u4e2d", "/queue/\u00fc \u4e2d"),
        (" foo", "/queue/ foo"),
    ],
)
def test_name_without_slash_is_a_queue(value: str, wanted: str) -> None:
    assert address(value.encode()) == wanted


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_name_at_the_limit_is_taken_and_one_byte_more_refused(kind: str) -> None:
    assert address(f"{kind}{'n' * NAME_MAX_BYTES}".encode()).endswith("n" * NAME_MAX_BYTES)
    assert address((kind + "\u00fc" * 127 + "n").encode()).endswith("n")
    for long in ("n" * (NAME_MAX_BYTES + 1), "\u00fc" * 128):
        with pytest.raises(Violation, match="name of 256 bytes: at most 255"):
            address(f"{kind}{long}".encode())


@pytest.mark.parametrize("value", [b"", *(kind.encode() for kind in KINDS)])
def test_empty_name_is_refused(value: bytes) -> None:
    with pytest.raises(Violation, match="destination .* names nothing"):
        address(value)


@pytest.mark.parametrize("character", ["\x00", "\x01", "\n", "\r", "\x1f", "\x7f", "\x80", "\x9f"])
def test_control_character_in_a_name_is_refused(character: str) -> None:
    with pytest.raises(Violation, match="control character"):
        address(f"/queue/a{character}".encode())


def test_number_is_read_between_its_bounds_only() -> None:
    assert number({}, b"n", 1, 10) is None
    for value in (b"1", b"10", b"007"):
        assert number({b"n": value}, b"n", 1, 10) == int(value)
    for value in (b"0", b"11", b"", b"-1", b"+1", b" 1", b"1.0", b"x", "\u0661".encode(), b"9" * 50_000):
        with pytest.raises(Violation, match="n '.*is not a whole number from 1 to 10"):
            number({b"n": value}, b"n", 1, 10)


def test_flag_is_true_or_false_only() -> None:
    assert (flag({}, b"f", True), flag({}, b"f", False)) == (True, False)
    assert (flag({b"f": b"true"}, b"f", False), flag({b"f": b"false"}, b"f", True)) == (True, False)
    assert (flag({b"f": b"True"}, b"f", False), flag({b"f": b"False"}, b"f", True)) == (True, False)
    for value in (b"", b"TRUE", b"1", b"yes", b"true "):
        with pytest.raises(Violation, match="neither true nor false"):
            flag({b"f": value}, b"f", False)


@pytest.mark.parametrize(
    ("accepted", "wanted"),
    [
        (None, 0),
        (b"1.0", 0),
        (b"1.1,1.0", 1),
        (b"1.0,1.1,1.2", 2),
        (b"1.0,1.1,2.0", 1),
        (b"2.0", None),
        (b"", None),
        (b"1.3,1", None),
        (b",,1.1,", 1),
    ],
)
def test_highest_common_version_is_chosen(accepted: bytes | None, wanted: int | None) -> None:
    assert highest_version(accepted) == wanted


def test_heart_beat_is_two_numbers() -> None:
    assert heart_beats(None) == (0, 0)
    assert heart_beats(b"0,0") == (0, 0)
    assert heart_beats(b"10000,9999999999") == (10000, 9999999999)
    for value in (b"", b"1", b"1,", b",1", b"1,2,3", b"-1,0", b"1, 2", b"1.5,2", b"a,b", b"1,2\n", b"1,99999999999"):
        with pytest.raises(Violation, match="is not two numbers"):
            heart_beats(value)


@pytest.mark.parametrize(
    ("ours", "theirs", "offered"),
    [
        ((10_000, 5_000), (0, 0), (0, 0)),
        ((0, 0), (1000, 1000), (0, 0)),
        ((10_000, 5_000), (0, 2000), (2000, 0)),
        ((10_000, 5_000), (2000, 0), (0, 2000)),
        ((10_000, 5_000), (5001, 10_001), (10_000, 5_000)),
        ((10_000, 5_000), (4999, 9_999), (9_999, 4_999)),
        ((10_000, 5_000), (HEART_BEAT_MIN_MS - 1, 1), (HEART_BEAT_MIN_MS, HEART_BEAT_MIN_MS)),
        ((1, 1), (10_000, 10_000), (HEART_BEAT_MIN_MS, HEART_BEAT_MIN_MS)),
    ],
)
def test_heart_beats_are_offered_as_often_as_they_are_asked_for(
    ours: tuple[int, int], theirs: tuple[int, int], offered: tuple[int, int]
) -> None:
    assert offered_heart_beats(ours, theirs) == offered


def test_agreed_interval_is_the_longer_one_or_none() -> None:
    assert agreed_s(0, 1000) == agreed_s(1000, 0) == 0.0
    assert agreed_s(1000, 2500) == agreed_s(2500, 1000) == 2.5


@pytest.mark.parametrize(
    ("header", "value", "wanted"),
    [
        (b"from", b"earliest", (EARLIEST, 0)),
        (b"from", b"latest", (LATEST, 0)),
        (b"until", b"end", (END, 0)),
        *[
            (header, value + b":%d" % count, (kind, count))
            for header in (b"from", b"until")
            for value, kind in ((b"offset", OFFSET), (b"time", TIME))
            for count in (0, TIME_MAX_MS)
        ],
    ],
)
def test_a_place_in_a_log(header: bytes, value: bytes, wanted: Place) -> None:
    assert place({header: value}, header) == wanted
    assert place({}, header) is None


@pytest.mark.parametrize("header", [b"from", b"until"])
@pytest.mark.parametrize(
    "value",
    [b"", b"offset", b"offset:", b"offset:-1", b"offset:1x", b"time:1.5", b"time:%d" % (TIME_MAX_MS + 1), b"5",
     b"offset:" + b"9" * 5000, b"Earliest", b"END", b"offset: 1", b"\xc2\xb2", b"message:1"],
)  # fmt: skip
def test_a_wrong_place_in_a_log_is_refused_with_its_value(header: bytes, value: bytes) -> None:
    with pytest.raises(Violation) as caught:
        place({header: value}, header)
    assert str(caught.value).startswith(header.decode()) and "offset:N and time:MS" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_until_is_not_earliest_and_from_is_not_end() -> None:
    for header, value in ((b"until", b"earliest"), (b"until", b"latest"), (b"from", b"end")):
        with pytest.raises(Violation):
            place({header: value}, header)


def test_a_name_in_a_header_has_1_to_255_bytes() -> None:
    assert name({}, b"group") is None
    assert name({b"group": b"g"}, b"group") == "g"
    longest = "\u00fc" * 127 + "g"
    assert name({b"group": longest.encode()}, b"group") == longest
    for wrong in (b"", longest.encode() + b"g"):
        with pytest.raises(Violation) as caught:
            name({b"group": wrong}, b"group")
        assert f"has {len(wrong)} bytes" in str(caught.value) and "1 to 255" in str(caught.value)


def block(*lines: bytes, temp: bool = False) -> bytes:
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers.setdefault(name, value)
    return stored_block(headers, [*lines], temp)


def test_the_block_is_the_application_s_headers_unchanged_and_in_order() -> None:
    assert block(b"destination:/queue/q", b"b:\\c 1 ", b"receipt:r", b"a:2") == b"b:\\c 1 \na:2\n"
    assert block(b"destination:/queue/q", b"receipt:r") == b""


def test_repeated_headers_are_kept_but_for_those_of_the_hop() -> None:
    assert block(b"a:1", b"receipt:r", b"a:2", b"receipt:s") == b"a:1\na:2\n"


def test_reply_to_travels_unless_it_names_a_temp_queue() -> None:
    assert block(b"reply-to:/queue/q") == b"reply-to:/queue/q\n"
    assert block(b"reply-to:/temp-queue/a", b"a:1", temp=True) == b"a:1\n"
    assert block(b"reply-to:/queue/q", b"reply-to: /temp-queue/a") == b"reply-to:/queue/q\n"


def test_the_page_names_each_header_that_is_not_passed_on() -> None:
    page = (Path(__file__).parents[3] / "docs/PROTOCOL.md").read_text(encoding="utf-8")
    listed = page.partition("headers of this table included, except: ")[2].partition(". ")[0]
    assert {name.encode() for name in re.findall("`(.+?)`", listed)} == HOP_HEADERS
