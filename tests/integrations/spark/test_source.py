"""Logs as Spark reads them: batches and streams, with a real broker and a real Spark."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from radiator.client import Client
from tests.avro_bodies import ORDER, ORDER_TEXT, VALUE, as_json, binary
from tests.broker_process import BrokerProcess
from tests.integrations.spark.running import END_MAX_S, Batches, run, started
from tests.integrations.spark.test_value_schema import DDL, EVERY_TYPE, GIVEN, NOON

NUMBERS = count()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as one:
        yield one


@pytest.fixture
def log(client: Client) -> str:
    """A log of two partitions, of this test alone."""
    name = f"log{next(NUMBERS)}"
    client.admin({"do": "declare", "log": name, "partitions": 2})
    return name


def fill(client: Client, log: str, numbers: range) -> None:
    """Keys by turns, so that both partitions get some; m0, m1, ..."""
    for number in numbers:
        client.send(f"/log/{log}", f"m{number}", {"partition-key": f"k{number % 8}"}, confirm=False)
    client.flush()


def texts(numbers: range) -> list[str]:
    return sorted(f"m{number}" for number in numbers)


Load = Callable[..., DataFrame]


@pytest.fixture
def batch(spark: SparkSession, broker: BrokerProcess, log: str) -> Load:
    def load(**options: Any) -> DataFrame:
        given = {"url": broker.address, "subscribe": log, **options}
        reported = {name: value for name, value in given.items() if value is not None}
        return spark.read.format("radiator").options(**reported).load()

    return load


@pytest.fixture
def stream(spark: SparkSession, broker: BrokerProcess, log: str) -> Load:
    def load(**options: Any) -> DataFrame:
        given = {"url": broker.address, "subscribe": log, "startingOffsets": "earliest", **options}
        return spark.readStream.format("radiator").options(**given).load()

    return load


def values(rows: list[Row]) -> list[str]:
    return sorted(bytes(row.value).decode() for row in rows)


def offsets(first: int, second: int, log: str) -> str:
    return json.dumps({log: {"0": first, "1": second}})


# ---- batches


def test_a_batch_has_all_that_is_there(client: Client, log: str, batch: Load) -> None:
    assert batch().count() == 0
    before = datetime.now(UTC)
    fill(client, log, range(20))
    client.send(f"/log/{log}", b"\x00\xff", {"colour": "red"})
    rows = batch(includeHeaders="true").collect()
    assert len(rows) == 21
    last = next(row for row in rows if bytes(row.value) == b"\x00\xff")
    assert last.headers == [Row(key="colour", value="red")]
    assert (last.log, last.destination, last.key) == (log, f"/log/{log}", None)
    assert abs(last.timestamp.replace(tzinfo=UTC) - before).total_seconds() < 60
    kept = [row for row in rows if row is not last]
    assert values(kept) == texts(range(20))
    assert all(row.key is not None and row.headers[0].key == "partition-key" for row in kept)
    for partition in (0, 1):
        found = sorted(row.offset for row in rows if row.partition == partition)
        assert found == list(range(len(found))) and found


def test_ranges_of_a_batch(client: Client, log: str, batch: Load) -> None:
    fill(client, log, range(40))
    every = batch().collect()
    by_place = {(row.partition, row.offset): bytes(row.value).decode() for row in every}
    some = batch(startingOffsets=offsets(1, -2, log), endingOffsets=offsets(3, 2, log)).collect()
    assert {(row.partition, row.offset) for row in some} == {(0, 1), (0, 2), (1, 0), (1, 1)}
    assert all(by_place[row.partition, row.offset] == bytes(row.value).decode() for row in some)
    parts = batch(minPartitions="7")
    assert parts.rdd.getNumPartitions() >= 7
    assert sorted(parts.collect()) == sorted(every)
    assigned = batch(subscribe=None, assign=json.dumps({log: [1]})).collect()
    assert {row.partition for row in assigned} == {1}


def test_times_of_a_batch(client: Client, log: str, batch: Load) -> None:
    fill(client, log, range(10))
    time.sleep(0.05)
    middle_ms = int(time.time() * 1000)
    fill(client, log, range(10, 30))
    assert values(batch(startingTimestamp=str(middle_ms)).collect()) == texts(range(10, 30))
    assert values(batch(endingTimestamp=str(middle_ms)).collect()) == texts(range(10))
    assert batch(startingTimestamp=str(middle_ms + 3_600_000)).count() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"startingOffset": "earliest"},
            "There is no option 'startingoffset' for a batch that is read. Is startingOffsets meant?",
        ),
        ({"maxOffsetPerTrigger": "5"}, "Is maxOffsetsPerTrigger meant? That has no meaning for a batch that is read."),
        ({"startingOffsets": "first"}, "The option startingOffsets is 'first'"),
        ({"subscribe": "nothing"}, "nothing"),
        ({"subscribe": None, "subscribePattern": "nothing.*"}, "There are no logs that match 'nothing.*' at stomp://"),
        ({"mode": "checkout", "group": "g"}, "A queue is read by checkout in a stream only"),
        (
            {"url": "stomp://127.0.0.1:1", "fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"},
            "It was tried 2 times.",
        ),
    ],
)
def test_wrong_options_of_a_batch(batch: Load, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(sentence)):
        batch(**options).count()


# ---- bodies with a schema


def fill_orders(client: Client, name: str) -> None:
    """Two by each encoding."""
    for number in range(4):
        body = (binary, as_json)[number % 2](ORDER, {**VALUE, "id": number, "note": None if number else "first"})
        client.send(f"/log/{name}", body, {"content-type": ("avro/binary", "application/json")[number % 2]})


@pytest.fixture
def orders(client: Client) -> str:
    """A log whose first record is from before it had bodies of one schema."""
    name = f"orders{next(NUMBERS)}"
    client.admin({"do": "declare", "log": name})
    client.send(f"/log/{name}", "from before")
    fill_orders(client, name)
    return name


def test_bodies_with_a_schema_have_typed_columns(client: Client, batch: Load, tmp_path: Path) -> None:
    orders = f"orders{next(NUMBERS)}"
    client.admin({"do": "declare", "log": orders, "schema": ORDER_TEXT})
    fill_orders(client, orders)
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER, indent=2))
    for given in (str(file), ORDER_TEXT):
        frame = batch(subscribe=orders, valueSchema=given)
        assert frame.schema["value"].dataType.simpleString() == (
            "struct<id:bigint,note:string,items:array<struct<sku:string,price:double>>>"
        )
        rows = frame.where("value.id > 1 or value.note = 'first'").select("value.*", "offset").orderBy("id").collect()
        items = [Row(sku="a", price=1.5), Row(sku="b", price=2.0)]
        assert rows == [
            Row(id=0, note="first", items=items, offset=0),
            Row(id=2, note=None, items=items, offset=2),
            Row(id=3, note=None, items=items, offset=3),
        ]
        assert frame.selectExpr("sum(aggregate(value.items, 0D, (sum, item) -> sum + item.price))").first() == (14.0,)


def test_a_body_that_does_not_fit_fails_its_task(orders: str, batch: Load) -> None:
    with pytest.raises(PySparkException) as caught:
        batch(subscribe=orders, valueSchema=ORDER_TEXT).collect()
    assert f"/log/{orders}, partition 0, offset 0: the body has no content-type" in str(caught.value)


def test_a_body_that_does_not_fit_is_passed_on_in_permissive_mode(orders: str, batch: Load) -> None:
    frame = batch(subscribe=orders, valueSchema=ORDER_TEXT, valueSchemaMode="PERMISSIVE", includeHeaders="true")
    rows = frame.orderBy("offset").collect()
    assert [row.value and row.value.id for row in rows] == [None, 0, 1, 2, 3]
    assert [row._corrupt_record for row in rows] == [b"from before", None, None, None, None]
    assert [row.headers[0].value for row in rows[1:3]] == ["avro/binary", "application/json"]


def test_every_type_comes_to_spark(client: Client, log: str, batch: Load) -> None:
    client.send(f"/log/{log}", binary(EVERY_TYPE, GIVEN), {"content-type": "avro/binary"})
    frame = batch(valueSchema=json.dumps(EVERY_TYPE))
    assert frame.schema["value"].dataType.simpleString() == DDL.replace("`", "")
    row = frame.select("value.*").collect()[0].asDict(recursive=True)
    naive = NOON.replace(tzinfo=None)
    when = {"inner": {"when": naive}, "again": {"when": naive}, "micros": naive}
    assert row == {**GIVEN, **when}
    assert frame.selectExpr("value.price + 1", "cast(value.micros as double)").first() == (
        GIVEN["price"] + 1,
        NOON.timestamp(),
    )


def test_a_stream_has_typed_columns_too(orders: str, stream: Load, tmp_path: Path) -> None:
    sink = Batches()
    frame = stream(subscribe=orders, valueSchema=ORDER_TEXT, valueSchemaMode="PERMISSIVE", maxOffsetsPerTrigger="2")
    run(frame, tmp_path, sink)
    assert [row.value and row.value.id for row in sink.rows] == [None, 0, 1, 2, 3]
    assert len(sink.tries) == 3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ('{"type": "recor"}', "The option valueSchema is not an Avro schema: there is no type"),
        ('["int", "string"]', "The option valueSchema has no types in Spark: the body is a union"),
        ("no/order.avsc", "The option valueSchema is 'no/order.avsc', which cannot be read"),
    ],
)
def test_a_wrong_schema_is_refused_where_the_plan_is_made(batch: Load, given: str, sentence: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(sentence)):
        batch(valueSchema=given)  # nothing is collected


def test_a_file_that_changes_behind_the_plan_is_refused(orders: str, batch: Load, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER_TEXT)
    frame = batch(subscribe=orders, valueSchema=str(file))
    file.write_text(ORDER_TEXT.replace('"long"', '"int"'))
    with pytest.raises(
        PySparkException, match="The column value is struct<id:int,.* was planned with struct<id:bigint,"
    ):
        frame.collect()


# ---- a batch that is not whole


def test_a_batch_that_is_gone(client: Client, log: str, batch: Load) -> None:
    fill(client, log, range(4))
    beyond = {"endingOffsets": offsets(1000, 1000, log)}
    with pytest.raises(PySparkException, match="(?s)is there any more.*failOnDataLoss"):
        batch(**beyond).count()
    assert batch(failOnDataLoss="false", **beyond).count() == 4


# ---- streams


def test_what_there_is_now_and_then_what_is_new(client: Client, log: str, stream: Load, tmp_path: Path) -> None:
    fill(client, log, range(30))
    sink = Batches()
    run(stream(), tmp_path, sink)
    assert sorted(sink.values) == texts(range(30))
    run(stream(), tmp_path, sink)
    assert len(sink.tries) == 1
    fill(client, log, range(30, 40))
    run(stream(), tmp_path, sink)
    assert sorted(sink.values) == texts(range(40))
    assert [number for number, _ in sink.tries] == [0, 1]


def test_a_tail(client: Client, log: str, stream: Load, tmp_path: Path) -> None:
    """The default: from now on, and that is when the query is ready."""
    fill(client, log, range(100))
    sink = Batches()
    query = started(stream(startingOffsets="latest"), tmp_path, sink)
    try:
        deadline_s = time.monotonic() + END_MAX_S
        following = 100
        while not sink.values and time.monotonic() < deadline_s:  # the first batch may be empty
            fill(client, log, range(following, following + 1))
            following += 1
            time.sleep(0.1)
        fill(client, log, range(following, following + 50))
        while texts(range(following, following + 50))[-1] not in sink.values and time.monotonic() < deadline_s:
            time.sleep(0.05)
    finally:
        query.stop()
    numbers = sorted(int(value[1:]) for value in sink.values)
    assert numbers == list(range(numbers[0], following + 50))
    assert 100 <= numbers[0] < following


def test_a_sink_that_fails_gets_the_same_rows_again(client: Client, log: str, stream: Load, tmp_path: Path) -> None:
    fill(client, log, range(30))
    sink = Batches(fail=1)
    bounded = stream(maxOffsetsPerTrigger="10", minPartitions="3")
    with pytest.raises(StreamingQueryException):
        run(bounded, tmp_path, sink)
    fill(client, log, range(30, 35))
    run(bounded, tmp_path, sink)
    first, again = [rows for number, rows in sink.tries if number == 1]
    assert first == again
    assert [len(rows) for _, rows in sink.tries] == [10, 10, 10, 10, 5]
    assert sorted(sink.values) == texts(range(35))


def test_another_log_of_the_same_name(client: Client, log: str, stream: Load, tmp_path: Path) -> None:
    fill(client, log, range(10))
    sink = Batches()
    run(stream(), tmp_path, sink)
    client.admin({"do": "delete", "log": log})
    client.admin({"do": "declare", "log": log, "partitions": 2})
    fill(client, log, range(100, 104))
    with pytest.raises(StreamingQueryException, match="is another log than the one that the checkpoint speaks of"):
        run(stream(), tmp_path, sink)
    run(stream(failOnDataLoss="false"), tmp_path, sink)
    assert sorted(sink.values) == sorted(texts(range(10)) + texts(range(100, 104)))


def test_several_logs(client: Client, log: str, spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    other = f"{log}-other"
    client.admin({"do": "declare", "log": other})
    fill(client, log, range(10))
    fill(client, other, range(10, 20))
    both = {"url": broker.address, "subscribe": f"{log}, /log/{other}", "startingOffsets": "earliest"}
    sink = Batches()
    run(spark.readStream.format("radiator").options(**both).load(), tmp_path, sink)
    assert sorted(sink.values) == texts(range(20))
    assert {row.log for row in sink.rows} == {log, other}


def test_logs_by_a_pattern_and_what_the_progress_says(
    client: Client, log: str, spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """A log that is new is read from its first record, also where there is too little for a batch."""
    other = f"{log}-other"
    given = {"url": broker.address, "subscribePattern": f"{log}(-other)?", "startingOffsets": "earliest"}
    source = spark.readStream.format("radiator").options(**given, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    sink = Batches()
    fill(client, log, range(10))
    for new in range(2):
        query = started(source.load(), tmp_path, sink, availableNow=True)
        try:
            assert query.awaitTermination(END_MAX_S)
            described = [
                (answer["source"], answer["offsetsBehindLatest"])
                for progress in query.recentProgress
                if progress.numInputRows
                for answer in [json.loads(progress.sources[0].latestOffset)["radiator"]]
            ]
        finally:
            query.stop()
        what = f"logs that match '{log}(-other)?' at {broker.address}"
        assert described == ([(what, 0)] if new else [(what, 4), (what, 0)])
        if not new:
            client.admin({"do": "declare", "log": other})
            fill(client, other, range(10, 13))
    assert sorted(sink.values) == texts(range(13))
    assert {row.log for row in sink.rows} == {log, other}
    found = spark.read.format("radiator").options(url=broker.address, subscribePattern=f"{log}.*").load()
    assert values(found.collect()) == texts(range(13))


def test_a_log_that_is_not_named_for_a_while_goes_on_where_it_was(
    client: Client, log: str, spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Nothing twice, nothing left out; and a batch that was planned with it is run again with it."""
    other = f"{log}-other"
    client.admin({"do": "declare", "log": other})

    def read(names: str) -> DataFrame:
        options = {"url": broker.address, "subscribe": names, "startingOffsets": "earliest"}
        return spark.readStream.format("radiator").options(**options).load()

    sink = Batches(fail=2)
    fill(client, log, range(5))
    fill(client, other, range(5, 10))
    run(read(f"{log},{other}"), tmp_path, sink)
    fill(client, log, range(10, 15))
    fill(client, other, range(15, 20))
    run(read(log), tmp_path, sink)
    assert sorted(sink.values) == texts(range(15))
    with pytest.raises(StreamingQueryException):
        run(read(f"{log},{other}"), tmp_path, sink)
    run(read(log), tmp_path, sink)
    assert sorted(sink.values) == texts(range(20))
    fill(client, other, range(20, 23))
    run(read(f"{log},{other}"), tmp_path, sink)
    assert sorted(sink.values) == texts(range(23))


def test_a_partition_that_is_not_named_for_a_while_goes_on_where_it_was(
    client: Client, log: str, spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    def read(partitions: str) -> DataFrame:
        assign = f'{{"{log}": {partitions}}}'
        options = {"url": broker.address, "assign": assign, "startingOffsets": "earliest"}
        return spark.readStream.format("radiator").options(**options).load()

    sink = Batches()
    for partitions, filled in (("[0, 1]", range(8)), ("[0]", range(8, 16)), ("[0, 1]", range(16, 24))):
        fill(client, log, filled)
        run(read(partitions), tmp_path, sink)
    assert sorted(sink.values) == texts(range(24))


def test_wrong_options_of_a_stream(stream: Load, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="maxOffsetsPerTrigger is 'x': it must be a whole number"):
        run(stream(maxOffsetsPerTrigger="x"), tmp_path, Batches())
