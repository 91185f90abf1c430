"""Plain values: right, wrong, at the limits and one past them; and how they are shown."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from radiator.model.checks import (
    Check,
    choice,
    flag,
    meant,
    number,
    one_of,
    parse_size,
    seconds,
    shown,
    size,
    size_text,
    whole,
)
from radiator.model.limits import GIB, KIB, MIB

RIGHT: list[tuple[Check, Any, Any]] = [
    (flag, True, True),
    (flag, False, False),
    (whole(1, 3), 1, 1),
    (whole(1, 3), 3, 3),
    (number(0.5, 3), 0.5, 0.5),
    (number(0.5, 3), 3, 3),
    (seconds(0, 1), 0.25, 0.25),
    (size(1, MIB), 1, 1),
    (size(1, MIB), "1MiB", MIB),
    (size(1, MIB), "1024 KiB", MIB),
    (choice("a", "b"), "b", "b"),
]
WRONG: list[tuple[Check, Any, str]] = [
    (flag, 1, "is 1; it must be true or false"),
    (flag, None, "is null; it must be true or false"),
    (whole(1, 3), 0, "is 0; it must be a whole number from 1 to 3"),
    (whole(1, 3), 4, "is 4; it must be a whole number from 1 to 3"),
    (whole(1, 3), 2.0, "is 2.0; it must be a whole number from 1 to 3"),
    (whole(1, 3), True, "is true; it must be a whole number from 1 to 3"),
    (number(0.5, 3), 0.49, "is 0.49; it must be a number from 0.5 to 3"),
    (number(0.5, 3), float("nan"), "is NaN; it must be a number from 0.5 to 3"),
    (number(0.5, 3), "1", 'is "1"; it must be a number from 0.5 to 3'),
    (seconds(0, 1), 1.01, "is 1.01; it must be a number of seconds from 0 to 1"),
    (size(1, MIB), 0, "is 0; it must be a size from 1 to 1MiB"),
    (size(1, MIB), "1025KiB", 'is "1025KiB"; it must be a size from 1 to 1MiB'),
    (size(1, MIB), "1MB", 'is "1MB"; it must be a size such as'),
    (choice("block", "reject"), "blok", 'it must be one of "block", "reject"; did you mean "block"?'),
    (choice("a"), ["a"], 'is ["a"]; it must be one of "a"'),
]


@pytest.mark.parametrize(("check", "value", "right"), RIGHT)
def test_a_right_value_is_as_the_program_wants_it(check: Check, value: Any, right: Any) -> None:
    assert check(value) == right


@pytest.mark.parametrize(("check", "value", "sentence"), WRONG)
def test_a_wrong_value_is_told_with_what_would_be_right(check: Check, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match="^is ") as caught:
        check(value)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("size_bytes", "text"), [(0, 0), (1, 1), (KIB, "1KiB"), (KIB + 1, KIB + 1), (3 * GIB, "3GiB")])
def test_a_size_is_written_in_the_largest_unit_that_divides_it(size_bytes: int, text: str | int) -> None:
    assert size_text(size_bytes) == text and parse_size(text) == size_bytes


def test_what_is_shown_is_one_line_of_bounded_length() -> None:
    assert shown("a\nb") == json.dumps("a\nb")
    assert shown("x" * 78) == f'"{"x" * 78}"'
    assert shown("x" * 79) == f'"{"x" * 76}...' and len(shown("x" * 10_000)) == 80
    assert shown("\ud800") == '"\\ud800"'


@pytest.mark.parametrize(("value", "text"), [
    (b"x", '"x"'), ("ä".encode(), '"ä"'), (b"\xff\x00", '"0xff00"'), (b"\xff" * 99_999, f'"0x{"f" * 74}...'),
    (Decimal("1"), "1.0"), (Decimal("-1.50"), "-1.5"), (Decimal("sNaN"), '"sNaN"'),
    ({"a": b"x", "b": [None, True, Decimal("0.1")]}, '{"a": "x", "b": [null, true, 0.1]}'),
    (datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02 03:04:05"'),
])  # fmt: skip
def test_what_json_does_not_have_is_shown_as_a_person_reads_it(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_word_that_is_close_is_offered() -> None:
    assert meant("persistnt", ["persistent", "scope"]) == '; did you mean "persistent"?'
    assert meant("zzz", ["persistent", "scope"]) == meant(5, ["a"]) == ""
    assert one_of(["a", "b"]) == 'it must be one of "a", "b"'
