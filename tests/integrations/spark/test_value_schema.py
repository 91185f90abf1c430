"""Bodies as values of Spark's types, by an Avro schema: no Spark, no broker."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from radiator.integrations.spark.schema import ddl_type
from radiator.integrations.spark.value_schema import given_text, value_schema
from radiator.model.limits import SCHEMA_MAX_BYTES
from tests.avro_bodies import ORDER, ORDER_TEXT, VALUE, as_json, binary, long

AVRO, JSON = "avro/binary", "application/json"


def of(**fields: Any) -> dict[str, Any]:
    """The schema of a record of those fields."""
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def read(schema: Any, body: bytes, content_type: str | None) -> Any:
    """What Arrow gives back of the body's value."""
    values = value_schema(given_text(json.dumps(schema)))
    value, _ = values.value(body, content_type)
    return pa.array([value], values.arrow).to_pylist()[0]


def why_not(schema: Any, body: bytes, content_type: str | None) -> str:
    with pytest.raises(ValueError) as caught:
        read(schema, body, content_type)
    return str(caught.value)


EVERY_TYPE = of(
    flag="boolean",
    count="int",
    number="long",
    small="float",
    large="double",
    text="string",
    octets="bytes",
    digest={"type": "fixed", "name": "two", "size": 2},
    colour={"type": "enum", "name": "colour", "symbols": ["red", "blue"]},
    words={"type": "array", "items": "string"},
    by_name={"type": "map", "values": {"type": "array", "items": "bytes"}},
    inner=of(when={"type": "long", "logicalType": "timestamp-millis"}) | {"name": "inner"},
    again="inner",
    day={"type": "int", "logicalType": "date"},
    micros={"type": "long", "logicalType": "timestamp-micros"},
    local_millis={"type": "long", "logicalType": "local-timestamp-millis"},
    local_micros={"type": "long", "logicalType": "local-timestamp-micros"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    fixed_price={"type": "fixed", "name": "four", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1},
    time={"type": "int", "logicalType": "time-millis"},
    id={"type": "string", "logicalType": "uuid"},
    maybe=["null", "int"],
    maybe_price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 38}],
    only=["double"],
)
DDL = (
    "struct<`flag`:boolean,`count`:int,`number`:bigint,`small`:float,`large`:double,`text`:string,`octets`:binary,"
    "`digest`:binary,`colour`:string,`words`:array<string>,`by_name`:map<string,array<binary>>,"
    "`inner`:struct<`when`:timestamp>,`again`:struct<`when`:timestamp>,`day`:date,`micros`:timestamp,"
    "`local_millis`:timestamp_ntz,`local_micros`:timestamp_ntz,`price`:decimal(9,2),`fixed_price`:decimal(5,1),"
    "`time`:int,`id`:string,`maybe`:int,`maybe_price`:decimal(38,0),`only`:double>"
)
NOON = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
GIVEN: dict[str, Any] = {
    "flag": True,
    "count": -(2**31),
    "number": 2**63 - 1,
    "small": 0.5,
    "large": 2.0,
    "text": "é",
    "octets": b"\x00\xff",
    "digest": b"\xfe\x01",
    "colour": "blue",
    "words": ["a", "b"],
    "by_name": {"a": [b"\xff"]},
    "inner": {"when": NOON},
    "again": {"when": NOON},
    "day": date(1969, 12, 31),
    "micros": NOON,
    "local_millis": NOON.replace(tzinfo=None),
    "local_micros": NOON.replace(tzinfo=None),
    "price": Decimal("-1.25"),
    "fixed_price": Decimal("9999.9"),
    "time": 5,
    "id": "7e1cf3b0-0000-4000-8000-000000000000",
    "maybe": None,
    "maybe_price": Decimal("9" * 38),
    "only": 1.5,
}


def raw(value: Any) -> Any:
    """As JSON has what is beneath the logical types."""
    return {
        **value,
        "octets": "\x00\xff",
        "digest": "\xfe\x01",
        "by_name": {"a": ["\xff"]},
        "inner": {"when": 1_700_000_000_123},
        "again": {"when": 1_700_000_000_123},
        "day": -1,
        "micros": 1_700_000_000_123_000,
        "local_millis": 1_700_000_000_123,
        "local_micros": 1_700_000_000_123_000,
        "price": "\x83",
        "fixed_price": (99999).to_bytes(4, "big").decode("latin-1"),
        "maybe_price": {"bytes": (10**38 - 1).to_bytes(16, "big").decode("latin-1")},
        "large": 2,
        "only": {"double": 1.5},
    }


def test_every_type_has_one_in_spark() -> None:
    assert ddl_type(value_schema(given_text(json.dumps(EVERY_TYPE))).arrow) == DDL


@pytest.mark.parametrize("content_type", [AVRO, "Avro/Binary ; v=1", JSON, "application/json;charset=utf-8"])
def test_every_type_in_both_encodings(content_type: str) -> None:
    body = json.dumps(raw(GIVEN)).encode() if "json" in content_type else binary(EVERY_TYPE, GIVEN)
    expected = {**GIVEN, "by_name": [("a", [b"\xff"])]}
    assert read(EVERY_TYPE, body, content_type) == expected


def test_what_needs_nothing_made_of_it_is_read_too() -> None:
    for body, content_type in ((binary(ORDER, VALUE), AVRO), (as_json(ORDER, VALUE), JSON)):
        assert read(ORDER, body, content_type) == VALUE


def test_values_are_counted_as_the_broker_counts_them() -> None:
    schema = {"type": "array", "items": "int"}
    for body, content_type in ((binary(schema, [0] * 9), AVRO), (b"[0, 0, 0, 0, 0, 0, 0, 0, 0]", JSON)):
        assert value_schema(json.dumps(schema)).value(body, content_type) == ([0] * 9, 9)


@pytest.mark.parametrize(
    ("schema", "value", "type_"),
    [
        ("long", 7, "bigint"),
        ({"type": "array", "items": "int"}, [1, 2], "array<int>"),
        (["null", "string"], "x", "string"),
        (["string", "null"], None, "string"),
        ({"type": "string"}, "x", "string"),
        ([{"type": "null", "doc": "none"}, {"type": "string"}], None, "string"),
        # a logical type that nobody knows, or on another type than it is for, is none
        ({"type": "long", "logicalType": "date"}, 7, "bigint"),
        ({"type": "int", "logicalType": "fortnight"}, 7, "int"),
    ],
)
def test_a_schema_need_be_no_record(schema: Any, value: Any, type_: str) -> None:
    assert ddl_type(value_schema(given_text(json.dumps(schema))).arrow) == type_
    assert read(schema, binary(schema, value), AVRO) == value


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (of(a=["int", "string"]), "r.a is a union; it must be one of null and one other type"),
        (of(a=["null", "int", "long"]), "r.a is a union; it must be one of null and one other type"),
        (of(a=["null"]), "r.a is a union; it must be one of null and one other type"),
        (of(a="null"), "r.a is always null, which is not a type of column; remove it"),
        ("null", "the body is always null, which is not a type of column; remove it"),
        (of(a={"type": "array", "items": ["null", "r"]}), "r.a is the record r within itself; a type of Spark has an"),
        (of(a=of() | {"name": "none"}), "r.a is a record without fields, which is not a type of column; remove it"),
        (
            of(a={"type": "bytes", "logicalType": "decimal", "precision": 39}),
            "r.a is a decimal of the precision 39 and the scale 0; Spark has at most 38 digits",
        ),
    ],
)
def test_what_has_no_type_in_spark_is_refused(schema: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        given_text(json.dumps(schema))
    assert str(caught.value).startswith(f"has no types in Spark: {sentence}")


PRICE = of(price={"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1})
MOMENTS = of(at={"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}})
MILLIS_MAX = (2**63 - 1) // 1000


@pytest.mark.parametrize(
    ("schema", "body", "content_type", "sentence"),
    [
        (ORDER, b"", AVRO, "order.id is cut off by the end of the body; it must be a long"),
        (ORDER, binary(ORDER, VALUE) + b"\x00", AVRO, "the body goes on for 1 byte after the end of order"),
        (ORDER, b'{"id": "x"}', JSON, 'order.id is "x"; it must be a long'),
        (ORDER, b"{", JSON, "the body is not JSON"),
        (ORDER, b"", None, "the body has no content-type; it must be avro/binary or application/json"),
        (ORDER, b"", "text/é", "the body has the content-type"),
        # what the broker takes, and Spark has no room for
        (PRICE, b'{"price": "\\u0003\\u00e8"}', JSON, "r.price is a decimal of more than 3 digits"),
        (PRICE, b"\x04\xfc\x18", AVRO, "r.price is a decimal of more than 3 digits"),
        (
            MOMENTS,
            json.dumps({"at": [1, MILLIS_MAX + 1]}).encode(),
            JSON,
            "r.at[1] is 9223372036854776, as a timestamp",
        ),
    ],
)
def test_what_does_not_fit(schema: Any, body: bytes, content_type: str | None, sentence: str) -> None:
    assert why_not(schema, body, content_type).startswith(sentence)


@pytest.mark.parametrize("content_type", [AVRO, JSON])
def test_arrow_takes_whatever_fits(content_type: str) -> None:
    """Bodies with wrong bytes in them: one that only Arrow refused would end a query in any mode."""
    chance = Random(17)
    schema = {"type": "array", "items": EVERY_TYPE}
    values = value_schema(given_text(json.dumps(schema)))
    right = binary(schema, [GIVEN] * 2) if content_type == AVRO else json.dumps([raw(GIVEN)] * 2).encode()
    found = {True: 0, False: 0}
    for _ in range(1500):
        body = bytearray(right)
        for _ in range(chance.randrange(1, 3)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 127, 128, 255, 0x22, 0x39, chance.randrange(256)))
        try:
            value, _ = values.value(bytes(body), content_type)
        except ValueError:
            found[False] += 1
            continue
        pa.array([value], values.arrow).validate(full=True)
        found[True] += 1
    assert min(found.values()) > 30, found


def test_what_just_fits() -> None:
    assert read(PRICE, b'{"price": "\\u0003\\u00e7"}', JSON) == {"price": Decimal("99.9")}
    assert read(PRICE, b'{"price": "\\u00fc\\u0019"}', JSON) == {"price": Decimal("-99.9")}
    values = value_schema(given_text(json.dumps(MOMENTS)))
    for most in (MILLIS_MAX, -MILLIS_MAX):
        value, _ = values.value(json.dumps({"at": [most]}).encode(), JSON)
        assert pa.array([value], values.arrow).flatten()[0].values.cast(pa.int64()).to_pylist() == [most * 1000]
    micros = value_schema(json.dumps(EVERY_TYPE["fields"][14]["type"]))
    for most in (2**63 - 1, -(2**63)):
        for body, content_type in ((long(most), AVRO), (b"%d" % most, JSON)):
            value, _ = micros.value(body, content_type)
            assert pa.array([value], micros.arrow).cast(pa.int64()).to_pylist() == [most]


def test_a_wrong_item_of_a_map_is_named_by_its_key() -> None:
    schema = of(prices={"type": "map", "values": PRICE["fields"][0]["type"]})
    body = b'{"prices": {"a": "\\u0001", "b": "\\u0003\\u00e8"}}'
    assert why_not(schema, body, JSON).startswith('r.prices["b"] is a decimal')


def test_a_schema_that_has_defaults_and_names_like_keys() -> None:
    """What is no schema in it is no logical type either."""
    schema = of(logicalType="string", default="int")
    schema["fields"][0]["default"] = "date"
    outer = {"type": "record", "name": "outer", "fields": [{"name": "a", "type": schema, "default": {}}]}
    outer["fields"][0]["default"] = {"logicalType": "date", "default": 1}  # type: ignore[index]
    value = {"a": {"logicalType": "x", "default": 3}}
    assert read(outer, binary(outer, value), AVRO) == value


# ---- where a schema comes from


def test_a_schema_is_a_file_or_its_text(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER, indent=2))
    assert given_text(str(file)) == given_text(f"  {ORDER_TEXT}") == ORDER_TEXT


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read (No such file or directory); name a file with an Avro schema, or give its JSON"),
        (b"\xff", "is not UTF-8 at byte 0; name a file with an Avro schema, or give its JSON"),
        (b"{", "and its content is"),
        (b'"strin"', "is not an Avro schema: there is no type"),
        (b'"' + b"x" * SCHEMA_MAX_BYTES, f"is a schema of more than {SCHEMA_MAX_BYTES} bytes"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "order.avsc"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        given_text(str(file))
    assert str(caught.value).startswith(f"is {str(file)!r}") and sentence in str(caught.value)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which is not a file; name a file with an Avro schema"):
        given_text(str(tmp_path))
