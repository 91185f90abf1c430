"""Each type of Avro: what is one of its values in either encoding, what is none, at its limits and past them."""

import json
from random import Random
from typing import Any

import pytest

from radiator.model.avro import BINARY, JSON, body_schema, schema_text
from tests.avro_bodies import as_json, binary, long
from tests.campaigns.bodies import disagreement, random_body, schema_by_chance

ENUM = {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}
FIXED = {"type": "fixed", "name": "two", "size": 2}
PAIR = {"type": "record", "name": "pair", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": FIXED}]}
MAP = {"type": "map", "values": "int"}
ARRAY = {"type": "array", "items": "int"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def judge(schema: Any, body: bytes, kind: bytes) -> str:
    """Why not; "": it is one."""
    try:
        body_schema(schema_text(json.dumps(schema))).check(body, kind)
    except ValueError as wrong:
        return str(wrong)
    return ""


@pytest.mark.parametrize(
    ("schema", "value"),
    [("null", None), ("boolean", True), ("boolean", False), ("float", 1.5), ("double", -1e308), ("string", "é\0")]
    + [("int", one) for one in (0, -1, 2**31 - 1, -(2**31))]
    + [("long", one) for one in (0, -1, 2**63 - 1, -(2**63))]
    + [("bytes", b""), ("bytes", b"\xff\0"), (ENUM, "BLUE"), (FIXED, b"\xff\0"), (PAIR, {"a": 1, "b": b"xy"})]
    + [
        (ARRAY, []),
        (ARRAY, [1, 2]),
        (MAP, {}),
        (MAP, {"k": 1, "é": 2}),
        (["null", ENUM], None),
        (["null", ENUM], "RED"),
    ]
    + [({"type": "int", "logicalType": "date"}, 2**31 - 1)],
)
def test_what_fastavro_writes_is_right(schema: Any, value: Any) -> None:
    assert judge(schema, binary(schema, value), BINARY) == ""
    assert judge(schema, as_json(schema, value), JSON) == ""


@pytest.mark.parametrize(
    ("schema", "body", "why"),
    [
        ("null", b"x", "the body goes on for 1 byte"),
        ("boolean", b"\x02", "the body is the byte 2; it must be a boolean, 0 or 1"),
        ("boolean", b"", "the body is cut off by the end of the body; it must be a boolean"),
        ("int", long(2**31), "is 2147483648; it must be an int, from -2147483648 to 2147483647"),
        ("int", long(-(2**31) - 1), "is -2147483649; it must be an int"),
        ("int", b"\x80", "is cut off by the end of the body; it must be an int"),
        ("long", b"\x80" * 9 + b"\x02", "is a number of more than 64 bits; it must be a long"),
        ("long", b"\x80" * 10 + b"\x00", "is a number of more than 64 bits; it must be a long"),
        ("long", b"\xff" * 1000, "is a number of more than 64 bits"),
        ("float", b"abc", "is cut off by the end of the body; it must be a float"),
        ("double", b"1234567", "is cut off by the end of the body; it must be a double"),
        ("string", b"\x02\xff", "is not valid UTF-8; it must be a string"),
        ("string", b"\x01", "has a length of -1; it must be a string"),
        ("string", long(2**62) + b"x", "is cut off by the end of the body; it must be a string"),
        ("bytes", long(-(2**63)), "has a length of -9223372036854775808; it must be bytes"),
        ("bytes", long(2) + b"x", "is cut off by the end of the body; it must be bytes"),
        (FIXED, b"x", "two is cut off by the end of the body; it must be a fixed of 2 bytes"),
        (ENUM, long(2), 'colour is the symbol number 2, of 2; it must be one of "RED", "BLUE"'),
        (ENUM, long(-1), "colour is the symbol number -1"),
        (["null", "int"], long(2), "has the branch 2 of a union of 2; it must be one of null, "),
        (["null", "int"], long(-1), "has the branch -1 of a union of 2"),
        (ARRAY, long(2) + long(1), "the body[1] is cut off by the end of the body; it must be an int"),
        (ARRAY, long(1) + long(1), "the body is cut off by the end of the body; it must be an array"),
        (ARRAY, long(-1) + long(2) + long(1) + b"\0", "has a block of 2 bytes whose items take 1; it must be an array"),
        (ARRAY, long(-1) + long(-1) + long(1) + b"\0", "has a length of -1; it must be an array"),
        (ARRAY, long(-1) + long(99) + long(1) + b"\0", "is cut off by the end of the body; it must be an array"),
        (MAP, long(1) + long(1) + b"k", 'the body["k"] is cut off by the end of the body; it must be an int'),
        (MAP, long(1) + long(1) + b"\xff" + long(1) + b"\0", "the body[...] is not valid UTF-8; it must be a string"),
        (PAIR, long(1) + b"x", "pair.b is cut off by the end of the body; it must be a fixed of 2 bytes"),
    ],
)
def test_what_is_no_value_in_binary_encoding_is_told(schema: Any, body: bytes, why: str) -> None:
    found = judge(schema, body, BINARY)
    assert why in found and len(found) < 300


def test_blocks_may_be_several_and_say_their_sizes() -> None:
    body = long(1) + long(5) + long(-2) + long(2) + long(6) + long(7) + b"\0"
    assert judge(ARRAY, body, BINARY) == ""
    assert judge(ARRAY, body[:-1] + long(1) + long(2**40), BINARY) == (
        "the body[3] is 1099511627776; it must be an int, from -2147483648 to 2147483647"
    )


@pytest.mark.parametrize(
    ("schema", "body", "why"),
    [
        ("null", b"0", "the body is 0; it must be null"),
        ("boolean", b"1", "the body is 1; it must be a boolean"),
        ("int", b"true", "the body is true; it must be an int, from "),
        ("int", b"1.0", "the body is 1.0; it must be an int"),
        ("int", b"2147483648", "it must be an int, from -2147483648 to 2147483647"),
        ("long", b"9223372036854775808", "it must be a long, from"),
        ("float", b"1e39", "the body is 1e+39; it must be a float"),
        ("double", b"1e999", "the body is Infinity; it must be a double"),
        ("double", b'"1"', 'the body is "1"; it must be a double'),
        ("double", b"false", "the body is false; it must be a double"),
        ("string", b"null", "the body is null; it must be a string"),
        ("string", b'"\\ud800"', 'the body is "\\ud800"; it must be a string'),
        ("bytes", '"Ā"'.encode(), "it must be bytes, as a text of characters from U+0000 to U+00FF"),
        ("bytes", b"[]", "the body is []; it must be bytes"),
        (FIXED, b'"abc"', 'two is "abc"; it must be a fixed of 2 bytes'),
        (FIXED, '"aĀ"'.encode(), "it must be a fixed of 2 bytes"),
        (ENUM, b'"GREEN"', 'colour is "GREEN"; it must be one of "RED", "BLUE"'),
        (ENUM, b"[]", "colour is []; it must be one of"),
        (ARRAY, b"{}", "the body is {}; it must be an array"),
        (ARRAY, b'[1,"2"]', 'the body[1] is "2"; it must be an int'),
        (MAP, b"[]", "the body is []; it must be a map"),
        (MAP, b'{"a\\n":null}', 'the body["a\\n"] is null; it must be an int'),
        (MAP, b'{"\\udfff":1}', "it must be the key of a map, a string"),
        (["null", "int"], b"1", 'the body is 1; it must be one of null, {"int": ...}'),
        (["null", "int"], b'{"long":1}', 'the body is {"long": 1}; it must be one of null'),
        (["null", "int"], b'{"null":null}', 'the body is {"null": null}; it must be one of null'),
        (["null", "int"], b'{"int":1,"x":2}', "it must be one of null"),
        (["int", "string"], b"null", "the body is null; it must be one of"),
        (["null", "int"], b'{"int":"x"}', 'the body is "x"; it must be an int'),
        (PAIR, b"[]", "pair is []; it must be the record pair"),
        (PAIR, b'{"a":1}', "pair.b is missing; it must be a fixed of 2 bytes"),
        (PAIR, b'{"a":1,"b":"xy","c":1}', 'pair has a field "c", which is not in the schema; remove it'),
    ],
)
def test_what_is_no_value_in_json_encoding_is_told(schema: Any, body: bytes, why: str) -> None:
    found = judge(schema, body, JSON)
    assert why in found and len(found) < 300


def test_a_logical_type_is_judged_as_what_is_beneath_it() -> None:
    assert judge(DECIMAL, b"\x04\xff\xff", BINARY) == "" == judge(DECIMAL, b'"\\u00ff"', JSON)


def test_large_values_are_not_shown() -> None:
    assert judge("int", json.dumps([1] * 1000).encode(), JSON).startswith("the body is an array of 1000;")
    assert len(judge("int", json.dumps("x" * 10_000).encode(), JSON)) < 200


def test_what_is_right_is_what_fastavro_reads() -> None:
    """Bodies by chance, whole and mutated: scripts/prove bodies tries more."""
    chance = Random(17)
    right = 0
    for _ in range(3000):
        schema = schema_by_chance(chance)
        body = random_body(chance, schema)
        assert disagreement(schema, body) == ""
        right += judge(schema, body, BINARY) == ""
    assert 300 < right < 2700
