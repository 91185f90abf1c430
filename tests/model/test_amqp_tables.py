"""Tables of AMQP: bytes to values and back to the same bytes, the bounds, and whatever is broken."""

import random
import struct
import sys
from decimal import Decimal
from typing import Any

import pytest

from radiator.model.amqp_limits import TABLE_DEPTH_MAX, TABLE_FIELDS_MAX
from radiator.model.amqp_tables import (
    LetteredInt,
    RawString,
    SingleFloat,
    check_table,
    decode_table,
    described,
    encode_table,
)
from radiator.model.errors import Violation


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def table(*fields: bytes) -> bytes:
    """The contents of one; each field is a letter and its value, called a, b, ..."""
    return b"".join(b"\x01%c%b" % (97 + nth, field) for nth, field in enumerate(fields))


def decoded(data: bytes) -> dict[str, Any]:
    check_table(data, 0, len(data))
    return decode_table(data, 0, len(data))


def refused(data: bytes) -> str:
    sentences = []
    for read in (check_table, decode_table):
        with pytest.raises(Violation) as caught:
            read(data, 0, len(data))
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    return sentences[0]


VALUES: list[tuple[bytes, Any]] = [
    (b"t\0", False),
    (b"t\1", True),
    (b"b\x80", -128),
    (b"B\xff", 255),
    (b"s\x80\0", -32_768),
    (b"u\xff\xff", 65_535),
    (b"I\x80\0\0\0", -(2**31)),
    (b"I\x7f\xff\xff\xff", 2**31 - 1),
    (b"i\xff\xff\xff\xff", 2**32 - 1),
    (b"l\x80\0\0\0\0\0\0\0", -(2**63)),
    (b"l\0\0\0\0\x80\0\0\0", 2**31),
    (b"l\0\0\0\0\0\0\0\x05", 5),
    (b"L\x7f\xff\xff\xff\xff\xff\xff\xff", 2**63 - 1),
    (b"L\0\0\0\0\0\0\0\x05", 5),
    (b"T\0\0\0\0\x5f\x5e\x10\0", 0x5F5E1000),
    (b"T\xff\xff\xff\xff\xff\xff\xff\xff", 2**64 - 1),
    (b"f\x3f\xc0\0\0", 1.5),
    (b"f\x7f\x80\0\0", float("inf")),
    (b"d\x3f\xf8\0\0\0\0\0\0", 1.5),
    (b"D\x02\0\0\x01\x3a", Decimal("3.14")),
    (b"D\0\x80\0\0\0", Decimal(-(2**31))),
    (b"D\xff\0\0\0\x01", Decimal("1e-255")),
    (b"D\x02\0\0\0\0", Decimal("0.00")),
    (b"S\0\0\0\x03a\xc3\xa4", "aä"),
    (b"S\0\0\0\0", ""),
    (b"S\0\0\0\x02a\xe4", b"a\xe4"),
    (b"x\0\0\0\x02ab", b"ab"),
    (b"V", None),
    (b"A\0\0\0\0", []),
    (b"A\0\0\0\x0bVA\0\0\0\x05I\0\0\0\x01", [None, [1]]),
    (b"F\0\0\0\0", {}),
    (b"F\0\0\0\x08\x01xS\0\0\0\x01y", {"x": "y"}),
]


@pytest.mark.parametrize(("data", "value"), VALUES, ids=[repr(data) for data, _ in VALUES])
def test_a_value_is_read_and_written_again_with_its_letter(data: bytes, value: Any) -> None:
    found = decoded(table(data))
    assert found == {"a": value}
    assert encode_table(found) == sized(table(data))


def test_all_of_them_in_one() -> None:
    data = b"".join(b"\x02%02d%b" % (nth, field) for nth, (field, _) in enumerate(VALUES))
    assert decoded(data) == {f"{nth:02}": value for nth, (_, value) in enumerate(VALUES)}
    assert encode_table(decoded(data)) == sized(data)


def test_what_the_values_are() -> None:
    found = decoded(table(b"t\2", b"f\x3f\xc0\0\0", b"S\0\0\0\1\xe4", b"x\0\0\0\1a", b"L" + bytes(8), b"I\0\0\0\1"))
    assert [type(value) for value in found.values()] == [bool, SingleFloat, RawString, bytes, LetteredInt, int]
    assert found["a"] is True, "any octet but 0 is true"
    assert found["e"].letter == "L"


def test_a_part_of_more_is_read() -> None:
    data = b"\xff\xff" + table(b"I\0\0\0\1") + b"\xff\xff"
    assert decode_table(data, 2, len(data) - 2) == {"a": 1}
    assert decode_table(data, 5, 5) == {}


# ---- what is broken -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "value"), VALUES, ids=[repr(data) for data, _ in VALUES])
def test_whatever_is_cut_off_is_refused(data: bytes, value: Any) -> None:
    whole = table(b"V", data)
    for size in range(len(table(b"V")) + 1, len(whole)):
        assert "ends within" in refused(whole[:size]) or "goes beyond the end" in refused(whole[:size])
        nested = table(b"F" + sized(whole[:size]), b"S\0\0\0\x40" + bytes(64))  # there would be more behind it
        refused(nested)


def test_an_unknown_letter_is_refused() -> None:
    letters = set(range(256)) - set(b"tbBsuIilLfdDSATFVx")
    for letter in letters:
        sentence = refused(table(bytes((letter,)) + bytes(8)))
        assert sentence.startswith("The field 'a' of a table has a value of the type ")
        assert "of the type" in refused(table(b"A" + sized(bytes((letter,)) + bytes(8))))


def test_two_fields_of_one_name_are_refused() -> None:
    """One reader would take the first of them, and another the last."""
    assert "two fields of the name 'a'" in refused(b"\x01aV\x01bV\x01aV")
    assert decoded(b"\x01aV\x01bF" + sized(b"\x01aV")) == {"a": None, "b": {"a": None}}


def test_a_name_is_utf_8() -> None:
    assert decoded(b"\x02\xc3\xa4V") == {"ä": None}
    assert "is not UTF-8" in refused(b"\x01\xe4V")
    assert "is not UTF-8" in refused(b"\x01aF" + sized(b"\x02\xff\xffV"))


def test_a_name_may_have_255_bytes_and_none() -> None:
    assert decoded(b"\xff" + b"n" * 255 + b"V") == {"n" * 255: None}
    assert encode_table({"n" * 255: None}) == sized(b"\xff" + b"n" * 255 + b"V")
    assert decoded(b"\0V") == {"": None}
    with pytest.raises(Violation, match="256 bytes"):
        encode_table({"n" * 256: None})


@pytest.mark.parametrize("letter", [b"A", b"F"])
def test_as_deep_as_is_allowed_and_one_deeper(letter: bytes) -> None:
    def nested(depth: int) -> bytes:
        data = b"V" if letter == b"A" else b"\x01nV"
        for _ in range(depth - 2):
            data = (b"" if letter == b"A" else b"\x01n") + letter + sized(data)
        return b"\x01n" + letter + sized(data)

    assert encode_table(decoded(nested(TABLE_DEPTH_MAX))) == sized(nested(TABLE_DEPTH_MAX))
    assert "more than 8 deep" in refused(nested(TABLE_DEPTH_MAX + 1))
    assert "more than 8 deep" in refused(nested(20_000))


@pytest.mark.parametrize("way", ["fields", "values", "both"])
def test_as_many_fields_as_are_allowed_and_one_more(way: str) -> None:
    def fields(count: int) -> bytes:
        if way == "fields":
            return b"".join(b"\x06%06dV" % nth for nth in range(count))
        if way == "values":
            return b"\x01aA" + sized(b"V" * (count - 1))
        return b"\x01aF" + sized(b"\x01aV") + b"\x01bA" + sized(b"V" * (count - 3))

    assert encode_table(decoded(fields(TABLE_FIELDS_MAX))) == sized(fields(TABLE_FIELDS_MAX))
    assert "more than 256 fields" in refused(fields(TABLE_FIELDS_MAX + 1))
    assert "more than 256 fields" in refused(fields(100_000))


def test_a_long_table_is_walked_in_steps_of_its_fields() -> None:
    """Work is counted as the lines of Python that run: twice the values are twice the lines, and no more."""

    def lines(count: int) -> int:
        data, ran = b"\x01aA" + sized(b"V" * count), 0

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal ran
            ran += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            check_table(data, 0, len(data))
        finally:
            sys.settrace(before)
        return ran

    assert lines(240) <= 2 * lines(120) + 10


# ---- what is written ------------------------------------------------------------------------------------------------


def test_an_int_without_a_letter_has_the_shorter_that_clients_have() -> None:
    for value, letter in ((0, b"I"), (-(2**31), b"I"), (2**31 - 1, b"I"), (2**31, b"l"), (-(2**31) - 1, b"l")):
        assert encode_table({"a": value})[6:7] == letter
        assert decoded(encode_table({"a": value})[4:]) == {"a": value}
    for value in (2**63, -(2**63) - 1, LetteredInt(256, "B"), LetteredInt(-1, "T"), LetteredInt(2**63, "L")):
        with pytest.raises(Violation, match="is not a number that fits"):
            encode_table({"a": value})


@pytest.mark.parametrize("value", ["1e-256", "1e1", "2147483648", "-2147483649", "0.12345678901", "NaN", "-Infinity"])
def test_a_decimal_that_does_not_fit(value: str) -> None:
    with pytest.raises(Violation, match="is not a decimal that fits"):
        encode_table({"a": Decimal(value)})


def test_any_bytes_are_a_table_or_none() -> None:
    """And a table that is written again is read as the same."""
    chance = random.Random(3)
    whole = b"".join(b"\x02%02d%b" % (nth, field) for nth, (field, _) in enumerate(VALUES))
    good = 0
    for _ in range(20_000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(
                (0, 1, 2, 255, chance.randrange(256), *b"tbBsuIilLfdDSATFVx")
            )
        try:
            found = decoded(bytes(data))
        except Violation:
            continue
        good += 1
        again = encode_table(found)
        assert repr(decoded(again[4:])) == repr(found)
        assert len(again) == len(data) + 4
    assert good > 2000


@pytest.mark.parametrize(("value", "text"), [
    (LetteredInt(1767225600, "T"), "1767225600 (a timestamp)"), (LetteredInt(5, "b"), "5"), (5, "5"),
    (b"x", '"x" (a byte array)'), (RawString(b"\xff"), '"0xff" (a text that is not UTF-8)'),
    (Decimal("1.5"), "1.5 (a decimal)"), (1.5, "1.5"), (SingleFloat(0.5), "0.5"), (None, "null"), (True, "true"),
    ({"a": [b"x", LetteredInt(1, "T"), Decimal("2")]}, '{"a": ["x", 1, 2.0]}'),
])  # fmt: skip
def test_a_value_that_looks_as_if_it_were_of_another_type_is_described_with_its_own(value: Any, text: str) -> None:
    assert described(value) == text
