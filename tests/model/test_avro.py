"""Avro schemas as settings, and whole bodies judged by them."""

import json
import sys

import pytest

from radiator.model import avro
from radiator.model.avro import BINARY, JSON, body_schema, schema_text
from radiator.model.limits import (
    BODY_DEPTH_MAX,
    BODY_PLACE_CHARACTERS,
    BODY_VALUES_MAX,
    JSON_BODY_MAX_BYTES,
    SCHEMA_MAX_BYTES,
)
from tests.avro_bodies import GOOD, NEST_TEXT, ORDER, ORDER_TEXT, VALUE, as_json, binary, long


def wrong(text: str, body: bytes, content_type: bytes | None = BINARY) -> str:
    """Why such a body is none of the schema."""
    with pytest.raises(ValueError) as caught:
        body_schema(text).check(body, content_type)
    return str(caught.value)


# ---- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['"int"', '["null","long"]', '{"type":"array","items":"string"}', '{"type":"map","values":"bytes"}']
    + [ORDER_TEXT, NEST_TEXT, '{"type":"record","name":"none","fields":[]}'],
)
def test_a_schema_comes_back_as_it_is(text: str) -> None:
    assert schema_text(text) == text == schema_text(json.dumps(json.loads(text), indent=2))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (7, "is 7; it must be an Avro schema as JSON, such as"),
        ("order.avsc", 'is "order.avsc", which is not JSON'),
        ('{"type":', "which is not JSON"),
        ('{"type":"int","type":"int"}', "which is not JSON (an object has one name twice)"),
        ('{"type":"int","n":NaN}', "which is not JSON (NaN is not a number of JSON)"),
        ('{"__fastavro_parsed":true,"type":"foo"}', "a name that fastavro keeps for itself"),
        ("{}", 'is not an Avro schema: "type" is missing'),
        ("3", "is not an Avro schema: a type, name or list in it is something else"),
        ('"foo"', 'is not an Avro schema: there is no type "foo"'),
        ('{"type":"array"}', 'is not an Avro schema: "items" is missing'),
        ("[]", "is not an Avro schema: a union has no branches, two of one type, or another union in it"),
        ('["int","int"]', "a union has no branches, two of one type"),
        ('["int",["null"]]', "a union has no branches, two of one type, or another union in it"),
        ('{"type":"enum","name":"e","symbols":[]}', "an enum has no symbols, or one twice"),
        ('{"type":"enum","name":"e","symbols":["A","A"]}', "is not an Avro schema: "),
        ('{"type":"enum","name":"e","symbols":["\\n"]}', "is not an Avro schema: "),
        ('{"type":"fixed","name":"f","size":-1}', "a fixed has the size -1"),
        ('{"type":"record","name":"1","fields":[]}', '"1" is not a name'),
        ('{"type":"record","name":"a","fields":[{"name":"b"}]}', "is not an Avro schema: Record field 'b' is missing"),
        (
            '{"type":"record","name":"a","fields":[{"name":"b","type":"int"},{"name":"b","type":"int"}]}',
            "the record a has two fields b",
        ),
        ("[" * 20_000, "which is not JSON"),
    ],
)
def test_what_is_no_schema_is_told(value: object, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        schema_text(value)
    assert why in str(caught.value) and len(str(caught.value)) < 320


def test_a_schema_has_a_size() -> None:
    bare = '{"type":"int","doc":""}'
    text = bare.replace('""', json.dumps("x" * (SCHEMA_MAX_BYTES - len(bare))))
    assert len(text) == SCHEMA_MAX_BYTES and schema_text(text) == text
    for longer in (text + " ", text.replace("x", "\xe9", 1)):
        with pytest.raises(ValueError, match=f"more than {SCHEMA_MAX_BYTES} bytes"):
            schema_text(longer)


def test_without_fastavro_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    body_schema.cache_clear()
    with pytest.raises(ValueError, match="needs fastavro: `pip install"):
        schema_text('"int"')
    monkeypatch.undo()
    assert schema_text('"int"') == '"int"' and avro.library().__name__ == "fastavro"


# ---- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", [b"avro/binary", b" AVRO/binary ;x=y"])
def test_a_whole_body_in_binary_encoding_is_right(content_type: bytes) -> None:
    assert body_schema(ORDER_TEXT).check(GOOD, content_type) == 3 + 1 + 2 + 2 * 2  # fields, union, items, their fields


@pytest.mark.parametrize("content_type", [b"application/json", b"application/json; charset=utf-8"])
def test_so_is_one_in_json_encoding(content_type: bytes) -> None:
    assert body_schema(ORDER_TEXT).check(as_json(ORDER, VALUE), content_type) == 10


def test_a_namespaced_record_is_a_branch_by_its_whole_name() -> None:
    body = as_json(json.loads(NEST_TEXT), {"inner": {"inner": None}})
    assert body == b'{"inner": {"nest": {"inner": null}}}' and body_schema(NEST_TEXT).check(body, JSON)


@pytest.mark.parametrize(
    ("content_type", "given"),
    [(None, "no content-type"), (b"text/plain", "'text/plain'"), (b"", "''"), (b"avro/binary2", "'avro/binary2'")],
)
def test_another_content_type_is_refused(content_type: bytes | None, given: str) -> None:
    why = wrong(ORDER_TEXT, GOOD, content_type)
    assert given in why and why.endswith("; it must be avro/binary or application/json")


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_no_part_of_a_body_is_one(size: int) -> None:
    assert wrong(ORDER_TEXT, GOOD[:size]).startswith("order.")


@pytest.mark.parametrize(("more", "left"), [(b"\0", "1 byte"), (b"\0\0", "2 bytes"), (GOOD, f"{len(GOOD)} bytes")])
def test_nothing_may_be_left_over(more: bytes, left: str) -> None:
    assert wrong(ORDER_TEXT, GOOD + more) == f"the body goes on for {left} after the end of order; it must end there"


def test_what_is_wrong_is_named_by_its_place() -> None:
    bad = as_json(ORDER, VALUE).replace(b"2.0", b'"abc"')
    assert wrong(ORDER_TEXT, bad, JSON) == 'order.items[1].price is "abc"; it must be a double'
    cut = GOOD.replace(b"\x02b", b"\x03b")
    assert wrong(ORDER_TEXT, cut) == "order.items[1].sku has a length of -2; it must be a string"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is not JSON: Expecting value"),
        (b"\xff", "the body is not JSON: 'utf-8' codec"),
        ("{}".encode("utf-16"), "the body is not JSON"),
        (b'{"id":1,"id":1}', "an object has one name twice"),
        (b"NaN", "NaN is not a number of JSON"),
        (b"[" * JSON_BODY_MAX_BYTES, "the body is not JSON: it is nested too deeply"),
        (b"9" * 5000, "the body is not JSON"),
        (b"{}x", "the body is not JSON: Extra data"),
    ],
)
def test_what_is_no_json_is_refused(body: bytes, why: str) -> None:
    assert why in wrong(ORDER_TEXT, body, JSON)


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [BODY_VALUES_MAX, BODY_VALUES_MAX + 1])
def test_a_body_has_so_many_values(count: int) -> None:
    text = '{"type":"array","items":"int"}'
    for body, kind in ((long(count) + bytes(count) + b"\0", BINARY), (json.dumps([0] * count).encode(), JSON)):
        if count == BODY_VALUES_MAX:
            assert body_schema(text).check(body, kind) == count
        else:
            assert "the most that a body may have" in wrong(text, body, kind)


@pytest.mark.parametrize("count", [2**62, -(2**62), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("text", ['{"type":"array","items":"int"}', '{"type":"map","values":"null"}'])
def test_no_count_makes_work(count: int, text: str) -> None:
    size = long(0) if count < 0 else b""
    assert "the most that a body may have" in wrong(text, long(count) + size + bytes(100))


@pytest.mark.parametrize(
    "items",
    [
        '"null"',
        '{"type":"fixed","name":"none","size":0}',
        '{"type":"record","name":"none","fields":[]}',
        '{"type":"record","name":"none","fields":[{"name":"a","type":"null"}]}',
    ],
)
def test_no_array_has_items_that_take_no_bytes(items: str) -> None:
    with pytest.raises(ValueError, match="the items of an array take no bytes"):
        schema_text(f'{{"type":"array","items":{items}}}')
    assert schema_text(f'{{"type":"map","values":{items}}}') and schema_text(items)


def test_a_tree_of_records_may_be() -> None:
    tree = '{"type":"record","name":"tree","fields":[{"name":"leaves","type":{"type":"array","items":"tree"}}]}'
    assert body_schema(schema_text(tree)).check(long(2) + b"\0\0\0", BINARY) == 5
    with pytest.raises(ValueError, match="nested too deeply"):
        within = '{"type":"record","name":"a","fields":[{"name":"a","type":"a"}]}'
        schema_text(f'{{"type":"array","items":{within}}}')


@pytest.mark.parametrize(("size", "counts"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (10, 4)])
def test_a_long_number_counts_as_several_values(size: int, counts: int) -> None:
    body = long(1) + b"\x80" * (size - 1) + b"\x01" + b"\0"
    assert body_schema('{"type":"array","items":"long"}').check(body, BINARY) == counts


def test_a_body_is_so_deep_at_most() -> None:
    most = BODY_DEPTH_MAX // 2  # a record and a union each
    assert body_schema(NEST_TEXT).check(b"\x02" * (most - 1) + b"\0", BINARY)
    why = wrong(NEST_TEXT, b"\x02" * most + b"\0")
    assert why.endswith(f"stands within {BODY_DEPTH_MAX} other values; it may not be deeper")
    assert len(why) < 2 * BODY_PLACE_CHARACTERS
    assert wrong(NEST_TEXT, b"\x02" * 1_000_000).endswith("it may not be deeper")
    body = b'{"inner":{"nest":' * most + b'{"inner":null}' + b"}}" * most
    assert wrong(NEST_TEXT, body, JSON).endswith("it may not be deeper")
    shorter = body.removeprefix(b'{"inner":{"nest":').removesuffix(b"}}")
    assert body_schema(NEST_TEXT).check(shorter, JSON)


def test_json_has_a_size_of_its_own() -> None:
    body = json.dumps("x" * (JSON_BODY_MAX_BYTES - 2)).encode()
    assert body_schema('"string"').check(body, JSON) == 0
    assert f"may have at most {JSON_BODY_MAX_BYTES}" in wrong('"string"', body + b" ", JSON)


def test_a_long_text_counts_as_many_values() -> None:
    assert body_schema('"string"').check(binary("string", "x" * 25_600), BINARY) == 100
    assert "the most" in wrong('"string"', binary("string", "x" * (256 * (BODY_VALUES_MAX + 1))))
    assert body_schema('"bytes"').check(binary("bytes", b"x" * (256 * (BODY_VALUES_MAX + 1))), BINARY) == 1
