"""Arguments of bindings: their canonical form, their bounds, and what they match."""

from decimal import Decimal

import pytest

from radiator.model.header_bindings import (
    ARGUMENTS_MAX,
    ARGUMENTS_MAX_BYTES,
    arguments_key,
    canonical_key,
    match_of,
    readable,
    words_of,
)
from radiator.model.headers import ESCAPING_ALL

BLOCK = b"format:pdf\nsize:3\nformat:other\nx-user:ann\na\\cb:1\nempty:\n"


@pytest.mark.parametrize(
    ("arguments", "matches"),
    [
        ({}, True),
        ({"x-match": "any"}, False),
        ({"format": "pdf"}, True),
        ({"format": "other"}, False),
        ({"format": "PDF"}, False),
        ({"size": 3, "format": "pdf"}, True),
        ({"size": 3, "format": "txt"}, False),
        ({"size": 3, "format": "txt", "x-match": "any"}, True),
        ({"size": 4, "format": "txt", "x-match": "any"}, False),
        ({"format": None}, True),
        ({"other": None}, False),
        ({"empty": ""}, True),
        ({"empty": None}, True),
        ({"format": ""}, False),
        ({"a:b": "1"}, True),
        ({"x-user": "bob"}, True),
        ({"x-user": "bob", "x-match": "all-with-x"}, False),
        ({"x-user": "ann", "x-match": "all-with-x"}, True),
        ({"x-user": "ann", "x-match": "any"}, False),
        ({"x-user": "ann", "x-match": "any-with-x"}, True),
    ],
)
def test_what_matches(arguments: dict[str, object], matches: bool) -> None:
    assert match_of(arguments_key(arguments)).matches(words_of(BLOCK, ESCAPING_ALL)) is matches


def test_the_key_does_not_depend_on_order_nor_on_types() -> None:
    key = arguments_key({"b": 1, "a": True, "x-match": "any", "c": 1.5, "d": None})
    assert key == '{"a":"true","b":"1","c":"1.5","d":null,"x-match":"any"}'
    assert canonical_key(' {"a": 1}'[1:]) == '{"a":"1"}' and canonical_key("") == "{}" and canonical_key(key) == key
    assert readable(key) == "a=true, b=1, c=1.5, d=*, x-match=any" and readable("{}") == "no arguments"


def test_a_byte_array_matches_what_a_header_of_the_same_bytes_is_for_stomp() -> None:
    match = match_of(arguments_key({"format": b"pdf\xff"}))
    assert match.matches(words_of(b"format:cGRm/w==\n", ESCAPING_ALL))
    assert not match.matches(words_of(b"format:pdf\n", ESCAPING_ALL))


@pytest.mark.parametrize(
    "arguments",
    [
        [], "x", 1, None, {"x-match": "some"}, {"x-match": b"any"}, {"x-match": None}, {"": "a"}, {1: "a"}, {"a": []},
        {"a": {}}, {"a": "\ud800"}, {str(n): "" for n in range(ARGUMENTS_MAX + 1)}, {"a": "x" * ARGUMENTS_MAX_BYTES},
    ],
)  # fmt: skip
def test_other_arguments_are_refused(arguments: object) -> None:
    with pytest.raises(ValueError, match="^(is|has) .+; "):
        arguments_key(arguments)


@pytest.mark.parametrize(("value", "text"), [
    (Decimal("1"), "1.0 (a decimal)"), ([None, b"x"], '[null, "x"]'), ({}, "{}"),
])  # fmt: skip
def test_a_value_of_another_type_is_told(value: object, text: str) -> None:
    with pytest.raises(ValueError) as raised:
        arguments_key({"h": value})
    assert str(raised.value) == f'has "h" = {text}; a value is text, a number, true, false or null'


@pytest.mark.parametrize("key", ["k", "[]", "1", "null", "{", "{]", ' {"a":"1"}', "{" * 2000, "{" * 5000])
def test_a_key_that_is_no_json_object_is_refused(key: str) -> None:
    with pytest.raises(ValueError):
        canonical_key(key)


def test_the_bounds_themselves_are_taken() -> None:
    assert arguments_key({str(n): "" for n in range(ARGUMENTS_MAX)})
    assert len(arguments_key({"a": "x" * (ARGUMENTS_MAX_BYTES - 8)})) == ARGUMENTS_MAX_BYTES
