"""Rows of a source from MESSAGEs, and messages of a sink from rows: no Spark, no broker."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from radiator.client import Message
from radiator.integrations.spark.options import sink_options
from radiator.integrations.spark.outgoing import (
    OVERHEAD_BYTES,
    SLICE_BYTES,
    SLICE_MESSAGES,
    Columns,
    OutgoingRow,
    check_columns,
    content_id,
    slices,
)
from radiator.integrations.spark.schema import ARROW, ARROW_HEADERS, BATCH_BYTES, MisfitError, ReadRows, columns, ddl
from radiator.integrations.spark.value_schema import value_schema
from radiator.model.errors import RadiatorError
from radiator.model.limits import BODY_VALUES_MAX
from tests.avro_bodies import long

HEADERS = {
    "partition": "3",
    "offset": "7",
    "destination": "/queue/orders",
    "message-id": "x-1-2",
    "subscription": "s1",
    "timestamp": "1700000000123",
    "content-length": "3",
    "redelivered": "true",
    "redelivery-count": "2",
    "partition-key": "Zürich",
    "colour": "red",
    "content-type": "text/plain",
}


NUMBERS = value_schema('{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')


def rows(include_headers: bool = False, most: int = 10, **of_values: Any) -> ReadRows:
    return ReadRows("orders", 3, 7, include_headers, most, **of_values)


def test_a_message_becomes_a_row() -> None:
    some = rows()
    some.add(Message(HEADERS, b"\x00one"))
    batch = some.take()
    assert batch.schema == ARROW
    assert batch.to_pylist() == [
        {
            "key": "Zürich".encode(),
            "value": b"\x00one",
            "log": "orders",
            "partition": 3,
            "offset": 7,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
            "destination": "/queue/orders",
        }
    ]
    assert some.next == 8 and len(some) == 0


def test_the_senders_headers_are_a_list_of_pairs() -> None:
    some = rows(include_headers=True)
    some.add(Message(HEADERS, b""))
    some.add(Message({"destination": "/log/orders", "timestamp": "0"}, b""))
    batch = some.take()
    assert batch.schema == ARROW_HEADERS
    assert batch.column("headers").to_pylist() == [
        [
            {"key": "partition-key", "value": "Zürich"},
            {"key": "colour", "value": "red"},
            {"key": "content-type", "value": "text/plain"},
        ],
        [],
    ]
    assert batch.column("key").to_pylist()[1] is None
    assert batch.column("offset").to_pylist() == [7, 8]


def test_the_columns_that_are_told_are_those_that_come() -> None:
    plain = (
        "key binary, value binary, log string, partition int, offset bigint, timestamp timestamp, destination string"
    )
    headers = ", headers array<struct<`key`:string,`value`:string>>"
    assert ddl(columns(False)) == plain
    assert ddl(columns(True)) == plain + headers
    typed = plain.replace("value binary", "value struct<`n`:int>") + headers
    assert ddl(columns(True, NUMBERS)) == typed
    assert ddl(columns(True, NUMBERS, keeps_misfits=True)) == f"{typed}, _corrupt_record binary"


def of_json(body: str) -> Message:
    return Message({**HEADERS, "content-type": "application/json"}, body.encode())


def test_bodies_become_values() -> None:
    some = rows(include_headers=True, values=NUMBERS)
    some.add(of_json('{"n": 5}'))
    batch = some.take()
    assert batch.schema == columns(True, NUMBERS)
    [row] = batch.to_pylist()
    assert row["value"] == {"n": 5}
    assert {"key": "content-type", "value": "application/json"} in row["headers"]


def test_a_body_that_does_not_fit_is_an_error() -> None:
    some = rows(values=NUMBERS)
    some.add(of_json('{"n": 5}'))
    with pytest.raises(MisfitError) as caught:
        some.add(of_json('{"n": "x"}'))
    assert str(caught.value) == (
        '/log/orders, partition 3, offset 8: r.n is "x"; it must be an int, from -2147483648 to 2147483647. With '
        "valueSchemaMode=PERMISSIVE such a body is passed on in the column _corrupt_record."
    )


def test_a_body_that_does_not_fit_is_passed_on_where_that_is_wanted() -> None:
    some = rows(values=NUMBERS, keeps_misfits=True)
    for message in (of_json('{"n": 5}'), Message(HEADERS, b"old"), of_json('{"n": 6}')):
        some.add(message)
    batch = some.take()
    assert batch.schema == columns(False, NUMBERS, keeps_misfits=True)
    assert batch.column("value").to_pylist() == [{"n": 5}, None, {"n": 6}]
    assert batch.column("_corrupt_record").to_pylist() == [None, b"old", None]
    assert batch.column("offset").to_pylist() == [7, 8, 9]
    some.add(of_json('{"n": 7}'))
    assert some.take().column("_corrupt_record").to_pylist() == [None]


def test_what_values_take_in_memory_is_bounded_too() -> None:
    """As objects of Python they take more than in their bodies."""
    schema = value_schema('{"type":"array","items":"int"}')
    some = rows(most=1_000_000, values=schema)
    body = long(BODY_VALUES_MAX) + bytes(BODY_VALUES_MAX + 1)
    for _ in range(BATCH_BYTES // (BODY_VALUES_MAX * 33)):
        some.add(Message({**HEADERS, "content-type": "avro/binary"}, body))
        assert not some.is_full
    some.add(Message({**HEADERS, "content-type": "avro/binary"}, body))
    assert some.is_full


def test_batches_are_bounded_by_rows_and_by_bytes() -> None:
    some = rows(most=2)
    some.add(Message(HEADERS, b"a"))
    assert not some.is_full
    some.add(Message(HEADERS, b"b"))
    assert some.is_full
    some.take()
    assert not some.is_full
    some.add(Message(HEADERS, bytes(BATCH_BYTES)))
    assert some.is_full


# ---- on their way out

TO_A = sink_options({"destination": "/queue/a"}, is_stream=True)
BY_COLUMN = sink_options({}, is_stream=True)
BY_NUMBER = sink_options({"destination": "/queue/a", "dedupColumn": "number"}, is_stream=True)
PAIRS = "array<struct<key:string,value:string>>"


@pytest.mark.parametrize(
    ("types", "options"),
    [
        ({"value": "string"}, TO_A),
        ({"value": "binary", "destination": "string"}, BY_COLUMN),
        ({"value": "binary", "key": "string", "headers": PAIRS, "dedup_id": "string"}, TO_A),
        ({"value": "binary", "key": "binary", "headers": "map<string,string>"}, TO_A),
        ({"value": "string", "number": "string"}, BY_NUMBER),
        ({"value": "binary", "log": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}, TO_A),
    ],
)
def test_columns_that_can_be_sent(types: dict[str, str], options: Any) -> None:
    check_columns(types, options)


@pytest.mark.parametrize(
    ("types", "options", "sentence"),
    [
        ({"key": "string"}, TO_A, "What is written needs a column value: the body."),
        ({"value": "string"}, BY_COLUMN, "Where is it sent to?"),
        ({"value": "int"}, TO_A, "The column value is of type int: it must be binary or string."),
        ({"value": "string", "headers": "string"}, TO_A, "The column headers is of type string"),
        ({"value": "string", "header": PAIRS}, TO_A, "Nothing is known of a column 'header'. Is headers meant?"),
        ({"value": "string", "topic": "string"}, TO_A, "Nothing is known of a column 'topic'. Is destination meant?"),
        ({"value": "string", "number": "string"}, TO_A, "Nothing is known of a column 'number'."),
        ({"value": "string"}, BY_NUMBER, "The option dedupColumn is 'number': it must name a column of type string."),
        ({"value": "string", "number": "int"}, BY_NUMBER, "it must name a column of type string."),
    ],
)
def test_columns_that_cannot_be_sent(types: dict[str, str], options: Any, sentence: str) -> None:
    with pytest.raises(RadiatorError) as caught:
        check_columns(types, options)
    assert sentence in str(caught.value)


def sent(options: Any, **columns: list[Any]) -> list[OutgoingRow]:
    return list(Columns(options).rows(iter([pa.RecordBatch.from_pydict(columns)])))


def test_a_row_becomes_a_message() -> None:
    pairs = [{"key": "colour", "value": "red"}, {"key": "colour", "value": "blue"}, {"key": "none", "value": None}]
    assert sent(BY_COLUMN, value=["é", None], destination=["/queue/a", "/log/b"], headers=[pairs, None]) == [
        OutgoingRow("/queue/a", [("colour", "red"), ("colour", "blue")], "é".encode(), None),
        OutgoingRow("/log/b", [], b"", None),
    ]


def test_the_option_wins_over_the_column() -> None:
    [one] = sent(TO_A, value=[b"x"], destination=["/queue/b"])
    assert one.destination == "/queue/a"


def test_a_key_is_a_header() -> None:
    headers = [[{"key": "partition-key", "value": "old"}]] * 2
    assert [one.headers for one in sent(TO_A, value=[b""] * 2, key=[b"new", None], headers=headers)] == [
        [("partition-key", "new")],
        [("partition-key", "old")],
    ]


def test_a_map_of_headers() -> None:
    column = pa.array([[("a", "1"), ("b", "2")]], pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"]), column], ["value", "headers"])
    [one] = Columns(TO_A).rows(iter([batch]))
    assert one.headers == [("a", "1"), ("b", "2")]


def test_dedup_ids() -> None:
    [by_column] = sent(BY_NUMBER, value=[b""], number=["17"])
    assert by_column.headers_with("place") == [("dedup-id", "17")]
    [plain] = sent(TO_A, value=[b""])
    assert plain.headers_with("place") == [("dedup-id", "place")]
    assert plain.headers_with(None) == []


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"value": [b""], "destination": [None]}, "A row has no destination"),
        ({"value": [b""], "destination": ["a"], "dedup_id": [""]}, "must have 1 to 255 bytes"),
        ({"value": [b""], "destination": ["a"], "dedup_id": ["x" * 256]}, "must have 1 to 255 bytes"),
        ({"value": [b""], "destination": ["a"], "key": [b"\xff"]}, "must be UTF-8"),
        (
            {"value": [b""], "destination": ["a"], "headers": [[{"key": "receipt", "value": "1"}]]},
            "A row has the header 'receipt', which the writer itself must set.",
        ),
    ],
)
def test_rows_that_cannot_be_sent(columns: dict[str, list[Any]], sentence: str) -> None:
    with pytest.raises(RadiatorError) as caught:
        sent(BY_COLUMN, **columns)
    assert sentence in str(caught.value)


def test_stages_are_bounded_by_messages_and_by_bytes() -> None:
    small = OutgoingRow("/queue/a", [], b"", None)
    half = OutgoingRow("/queue/a", [("n", "v")], bytes(SLICE_BYTES // 2 - OVERHEAD_BYTES - 2), None)
    large = OutgoingRow("/queue/a", [], bytes(SLICE_BYTES), None)
    assert [len(one) for one in slices(iter([small] * (SLICE_MESSAGES + 1)))] == [SLICE_MESSAGES, 1]
    assert [len(one) for one in slices(iter([half, half, small]))] == [2, 1]
    assert [len(one) for one in slices(iter([small, large, small]))] == [1, 1, 1]
    assert list(slices(iter([]))) == []


def test_content_has_an_id() -> None:
    one = OutgoingRow("/queue/a", [("a", "1")], b"x", None)
    others = [
        OutgoingRow("/queue/b", [("a", "1")], b"x", None),
        OutgoingRow("/queue/a", [("a", "2")], b"x", None),
        OutgoingRow("/queue/a", [("a", "1")], b"y", None),
    ]
    assert content_id(one) == content_id(OutgoingRow("/queue/a", [("a", "1")], b"x", None))
    assert len({content_id(each) for each in [one, *others]}) == 4
