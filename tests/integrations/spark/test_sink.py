"""Rows that Spark sends: exactly once by prepared transactions, at least once by receipts."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from radiator.client import Client
from radiator.integrations.spark import outgoing, sink
from radiator.integrations.spark.options import APP_MAX_BYTES, DEFAULT_BYTES, DEFAULT_ROWS, sink_options
from radiator.model.errors import RadiatorError, Refusal
from radiator.model.limits import TIME_MAX_MS
from tests.broker_process import BrokerProcess
from tests.integrations.spark.running import END_MAX_S

NUMBERS = count()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as one:
        yield one


@pytest.fixture
def queue(client: Client) -> str:
    name = f"queue{next(NUMBERS)}"
    client.admin({"do": "declare", "queue": name, "dedup_window_s": 3600})
    return name


def taken(client: Client, queue: str) -> list[str]:
    """All that is in the queue now, which is empty then. What is committed is put there soon, not at once."""
    while prepared(client):
        time.sleep(0.01)
    count_now = client.admin({"do": "describe", "queue": queue})["messages"]
    name = client.subscribe(f"/queue/{queue}", ack="client-individual", prefetch=1000)
    found = []
    for _ in range(count_now):
        message = client.receive(10)
        assert message is not None
        found.append(message.body.decode())
        client.ack(message, confirm=False)
    client.flush()
    client.unsubscribe(name)
    return found


def numbers(spark: SparkSession, how_many: int, partitions: int = 3) -> DataFrame:
    return spark.range(0, how_many, 1, partitions).select(F.concat(F.lit("m"), F.col("id")).alias("value"))


def texts(found: range) -> list[str]:
    return sorted(f"m{number}" for number in found)


def write(frame: DataFrame, broker: BrokerProcess, **options: Any) -> None:
    frame.write.format("radiator").options(url=broker.address, **options).mode("append").save()


def prepared(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.admin({"do": "prepared"})["prepared"]
    return found


@pytest.mark.parametrize("delivery", ["exactlyOnce", "atLeastOnce"])
def test_a_batch(spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, delivery: str) -> None:
    write(numbers(spark, 100), broker, destination=f"/queue/{queue}", delivery=delivery)
    assert sorted(taken(client, queue)) == texts(range(100))
    assert prepared(client) == []


@pytest.mark.parametrize("delivery", ["exactlyOnce", "atLeastOnce"])
def test_destinations_keys_and_headers_of_rows(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, delivery: str
) -> None:
    other = f"{queue}-log"
    client.admin({"do": "declare", "log": other, "partitions": 4})
    rows = [
        (bytearray(b"\x00\xff"), f"/queue/{queue}", None, [("colour", "red"), ("shape", "round")]),
        (bytearray(b"to a log"), f"/log/{other}", "key", []),
    ]
    columns = "value binary, destination string, key string, headers array<struct<key:string,value:string>>"
    write(spark.createDataFrame(rows, columns), broker, delivery=delivery)
    client.subscribe(f"/queue/{queue}")
    message = client.receive(10)
    assert message is not None and message.body == b"\x00\xff"
    assert (message.headers["colour"], message.headers["shape"]) == ("red", "round")
    client.subscribe(f"/log/{other}", headers={"from": "earliest"})
    record = client.receive(10)
    assert record is not None and record.body == b"to a log" and record.headers["partition-key"] == "key"


def test_a_batch_of_an_application_is_written_once(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    def again(how_many: int, version: int) -> None:
        app = {"txnAppId": f"app-{queue}", "txnVersion": str(version)}
        write(numbers(spark, how_many), broker, destination=f"/queue/{queue}", **app)

    again(10, 1)
    again(10, 1)
    assert sorted(taken(client, queue)) == texts(range(10))
    again(5, 0)
    assert taken(client, queue) == []
    again(5, 2)
    assert sorted(taken(client, queue)) == texts(range(5))
    assert prepared(client) == []


def test_one_version_is_written_once_to_each_destination(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    """As one foreachBatch does that writes its batch to several. Rows that bring their destination are one more."""
    app = {"txnAppId": f"app-{queue}", "txnVersion": "7"}
    names = [queue, f"{queue}-other", f"{queue}-column"]
    for _ in range(2):
        for name in names[:2]:
            write(numbers(spark, 5), broker, destination=f"/queue/{name}", **app)
        to_column = numbers(spark, 5).withColumn("destination", F.lit(f"/queue/{names[2]}"))
        write(to_column, broker, **app)
    assert [sorted(taken(client, name)) for name in names] == [texts(range(5))] * 3
    assert prepared(client) == []


def test_a_version_that_was_committed_before_is_told(
    broker: BrokerProcess, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = sink_options({"url": broker.address}, is_stream=False)
    row = outgoing.OutgoingRow(f"/queue/{queue}", [], b"row", None)
    for destination, reported in ((f"/queue/{queue}", f"/queue/{queue}"), (None, "the destinations of its rows")):
        task = sink.Task(f"app-{queue}", 7, 0, "try", destination)
        for _ in range(2):
            caplog.clear()
            sink._commit(options.connect, [sink.WrittenRows(task, sink._prepare(options, task, iter([row])))])
        sentence = f"Version 7 of 'app-{queue}' was committed before to {reported}: nothing is sent again."
        assert sentence in caplog.messages
    assert len(taken(client, queue)) == 2


def test_a_version_of_before_counts_for_every_destination(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    """The ledger of earlier builds had no destination in it."""
    app = f"app-{queue}"
    transaction = client.begin()
    client.send(f"/queue/{queue}", b"of before", transaction=transaction, confirm=None)
    client.commit(transaction, prepare=app)
    client.admin({"do": "commit", "prepared": [app], "app": app, "version": 7})
    for version, name in ((7, queue), (7, f"{queue}-other"), (8, queue), (8, f"{queue}-other")):
        write(numbers(spark, 3), broker, destination=f"/queue/{name}", txnAppId=app, txnVersion=str(version))
    assert sorted(taken(client, queue)) == sorted([*texts(range(3)), "of before"])
    assert sorted(taken(client, f"{queue}-other")) == texts(range(3))
    assert prepared(client) == []


def test_a_batch_from_a_thread(spark: SparkSession, broker: BrokerProcess, client: Client, queue: str) -> None:
    """As docs/SPARK.md says: a thread has no active session, until something makes one."""
    failed: list[str] = []

    def run(*before: object) -> None:
        try:
            write(numbers(spark, 3), broker, destination=f"/queue/{queue}")
        except Py4JJavaError as why:
            failed.append(str(why))

    for target in (run, lambda: run(spark.createDataFrame([], "n int"))):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert len(failed) == 1 and "DATA_SOURCE_NOT_FOUND" in failed[0]
    assert sorted(taken(client, queue)) == texts(range(3))


def test_a_task_that_fails_leaves_nothing(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    broken = numbers(spark, 100).withColumn(
        "value", F.when(F.col("value") == "m99", F.raise_error(F.lit("broken"))).otherwise(F.col("value"))
    )
    with pytest.raises(PySparkException):
        write(broken, broker, destination=f"/queue/{queue}")
    assert taken(client, queue) == []
    assert prepared(client) == []


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_task_that_still_runs_when_its_batch_fails_leaves_nothing(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path, kind: str
) -> None:
    """Spark kills it, and the driver hears nothing of what it has prepared. The batch may be run again at once."""
    address = broker.address

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1:
            for _ in range(4):
                yield pa.record_batch({"value": ["of who is killed"] * 10_000})
            time.sleep(END_MAX_S)
        elif context.partitionId() == 2:
            with Client(address) as own:
                while not prepared(own):
                    time.sleep(0.01)
            raise ValueError("broken")

    def whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"value": [f"m{number}" for number in batch.column(0).to_pylist()]})

    def run(rows: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> None:
        if kind == "batch":
            frame = spark.range(0, 3, 1, 3).mapInArrow(rows, "value string")
            write(frame, broker, destination=f"/queue/{queue}", txnAppId=f"app-{queue}", txnVersion="7")
            return
        source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="3", numPartitions="3").load()
        out = source.select("value").mapInArrow(rows, "value string").writeStream.format("radiator")
        out = out.options(url=address, destination=f"/queue/{queue}", checkpointLocation=str(tmp_path))
        out.trigger(availableNow=True).start().awaitTermination(END_MAX_S)

    with pytest.raises(PySparkException, match="broken"):
        run(broken)
    assert prepared(client) == []
    assert taken(client, queue) == []
    run(whole)
    found = taken(client, queue)
    assert sorted(found) == texts(range(len(found))) and len(found) in (3, 6)  # a stream goes on with its next batch


def test_a_task_that_prepares_when_its_batch_has_been_aborted_is_refused(broker: BrokerProcess, client: Client) -> None:
    options = sink_options({"url": broker.address, "destination": "/queue/late"}, is_stream=False)
    late, other = (sink.Task("app", 1, 0, attempt, "/queue/late") for attempt in ("first", "second"))
    row = outgoing.OutgoingRow("/queue/late", [], b"late", None)
    sink._let_go(options.connect, late.prefix)
    with pytest.raises(Refusal) as refused:
        sink._prepare(options, late, iter([row]))
    assert refused.value.code == "aborted" and prepared(client) == []
    names = sink._prepare(options, other, iter([row]))
    assert [one["name"] for one in prepared(client)] == [other.prefix + name for name in names]
    sink._let_go(options.connect, other.prefix)
    assert prepared(client) == []


def test_a_task_that_fails_lets_go_of_what_it_has_prepared_itself(broker: BrokerProcess, client: Client) -> None:
    """Of a stream the driver may have heard of no task at all."""
    options = sink_options({"url": broker.address, "destination": "/queue/late"}, is_stream=True)

    def rows() -> Iterator[outgoing.OutgoingRow]:
        for _ in range(outgoing.SLICE_MESSAGES + 1):
            yield outgoing.OutgoingRow("/queue/late", [], b"row", None)
        assert len(prepared(client)) == 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        sink._prepare(options, sink.Task("app", 1, 0, "try", "/queue/late"), rows())
    assert prepared(client) == []


def test_as_many_transactions_as_a_batch_may_have_are_committed_at_once(
    broker: BrokerProcess, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names, as long as they may become, have room in one request; one more is refused with a sentence."""
    options = sink_options({"url": broker.address, "destination": f"/queue/{queue}"}, is_stream=False)
    monkeypatch.setattr(outgoing, "SLICE_MESSAGES", 1)
    task = sink.Task("a" * APP_MAX_BYTES, TIME_MAX_MS, 999_999, "f" * 16, f"/queue/{queue}")
    row = outgoing.OutgoingRow(f"/queue/{queue}", [], b"row", None)
    written = sink.WrittenRows(task, sink._prepare(options, task, repeat(row, sink.NAMES_MAX)))
    longest = sink.WrittenRows(task, [f"{name}-100" for name in written.prepared])
    with pytest.raises(Refusal) as refused:
        sink._commit(options.connect, [longest])
    assert refused.value.code == "not-prepared"
    with pytest.raises(RadiatorError, match="2001 prepared transactions, but one commit can name 2000 only"):
        sink._commit(options.connect, [written, sink.WrittenRows(task, ["one more"])])
    sink._commit(options.connect, [written])
    assert len(taken(client, queue)) == sink.NAMES_MAX


def test_a_batch_that_nothing_else_bounds_can_be_committed() -> None:
    """The first one of a long log: of rows of any size a stage is full of rows, or at least half full of bytes."""
    bytes_most = DEFAULT_BYTES + DEFAULT_ROWS * outgoing.OVERHEAD_BYTES
    slices_most = DEFAULT_ROWS / outgoing.SLICE_MESSAGES + bytes_most / (outgoing.SLICE_BYTES / 2)
    assert slices_most < sink.NAMES_MAX / 2, "the rest is for the last stage of each task"


@pytest.mark.parametrize("delivery", ["exactlyOnce", "atLeastOnce"])
def test_a_batch_that_spark_has_not_written_is_not_committed(
    spark: SparkSession, broker: BrokerProcess, queue: str, tmp_path: Path, delivery: str
) -> None:
    """A continuous query gives a sink in Python no row, and commits its epochs all the same."""
    given = {"url": broker.address, "destination": f"/queue/{queue}", "delivery": delivery}
    with pytest.raises(RadiatorError, match="no row of batch 7"):
        sink.StreamWriter(sink_options(given, is_stream=True)).commit([None, None], 7)
    out = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS value").writeStream
    out = out.format("radiator").options(**given, checkpointLocation=str(tmp_path))
    query = out.trigger(continuous="100 milliseconds").start()
    assert not query.awaitTermination(3), "it stands still, if it does not end"
    query.stop()
    assert not [*(tmp_path / "commits").glob("[0-9]*")]


def test_what_earlier_tries_of_a_version_have_left_goes_with_its_commit(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    """As a driver leaves it that is killed; another version's is not touched."""
    options = sink_options({"url": broker.address, "destination": f"/queue/{queue}"}, is_stream=False)
    row = outgoing.OutgoingRow(f"/queue/{queue}", [], b"left", None)
    for version in (1, 2):
        task = sink.Task(f"app-{queue}", version, 0, "killed", f"/queue/{queue}")
        sink._prepare(options, task, iter([row]))
    for version in (1, 2):
        app = {"txnAppId": f"app-{queue}", "txnVersion": str(version)}
        write(numbers(spark, 3), broker, destination=f"/queue/{queue}", **app)
        assert len([one for one in prepared(client) if not one["is_committed"]]) == 2 - version
    assert sorted(taken(client, queue)) == sorted(texts(range(3)) * 2)


def test_at_least_once_is_once_with_a_dedup_column(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str
) -> None:
    rows = numbers(spark, 50).withColumn("number", F.col("value"))
    for _ in range(2):
        write(rows, broker, destination=f"/queue/{queue}", delivery="atLeastOnce", dedupColumn="number")
    assert sorted(taken(client, queue)) == texts(range(50))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Where is it sent to?"),
        ({"destination": "/queue/a", "delivery": "once"}, "The option delivery is 'once'"),
        (
            {"destination": "/queue/a", "subscribe": "a"},
            "The option subscribe has no meaning for a batch that is written",
        ),
        ({"destination": "/nowhere/a"}, "/nowhere/a"),
        ({"destination": "/log/journal"}, "journal"),
    ],
)
def test_wrong_options(spark: SparkSession, broker: BrokerProcess, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(sentence)):
        write(numbers(spark, 1), broker, **options)


def test_overwriting_is_refused(spark: SparkSession, broker: BrokerProcess) -> None:
    writer = numbers(spark, 1).write.format("radiator").options(url=broker.address, destination="/queue/a")
    with pytest.raises(PySparkException, match="Nothing can be overwritten"):
        writer.mode("overwrite").save()


# ---- streams


def stream_into(source: DataFrame, broker: BrokerProcess, checkpoint: Path, **options: str) -> None:
    query = (
        source.select(F.col("value"))
        .writeStream.format("radiator")
        .options(url=broker.address, checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(END_MAX_S)
    finally:
        query.stop()


@pytest.fixture
def log(client: Client) -> str:
    name = f"log{next(NUMBERS)}"
    client.admin({"do": "declare", "log": name, "partitions": 2})
    for number in range(60):
        client.send(f"/log/{name}", f"m{number}", confirm=False)
    client.flush()
    return name


def read_stream(spark: SparkSession, broker: BrokerProcess, log: str) -> DataFrame:
    options = {"url": broker.address, "subscribe": log, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"}
    return spark.readStream.format("radiator").options(**options).load()


def forget_commits(checkpoint: Path, *, of_batch: int) -> None:
    """As after a crash between the sink's commit and Spark's own record of it: that batch is run again."""
    (checkpoint / "commits" / str(of_batch)).unlink()
    (checkpoint / "commits" / f".{of_batch}.crc").unlink(missing_ok=True)


def test_a_stream_is_written_once(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, log: str, tmp_path: Path
) -> None:
    source = read_stream(spark, broker, log)
    stream_into(source, broker, tmp_path, destination=f"/queue/{queue}")
    # what Spark remembers names the log, and which of that name it was
    kept = json.loads((tmp_path / "offsets" / "2").read_text().splitlines()[-1])
    incarnation = client.admin({"do": "describe", "log": log})["incarnation"]
    assert kept == {f"{log}@{incarnation}": {"0": 30, "1": 30}}
    forget_commits(tmp_path, of_batch=2)
    stream_into(source, broker, tmp_path, destination=f"/queue/{queue}")
    assert sorted(taken(client, queue)) == texts(range(60))
    assert prepared(client) == []


def test_a_stream_that_is_written_at_least_once_is_deduplicated(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, log: str, tmp_path: Path
) -> None:
    source = read_stream(spark, broker, log)
    given = {"destination": f"/queue/{queue}", "delivery": "atLeastOnce"}
    stream_into(source, broker, tmp_path, **given)
    forget_commits(tmp_path, of_batch=2)
    stream_into(source, broker, tmp_path, **given)
    assert sorted(taken(client, queue)) == texts(range(60))


def test_wrong_options_of_a_stream_that_is_written(
    spark: SparkSession, broker: BrokerProcess, log: str, tmp_path: Path
) -> None:
    with pytest.raises((StreamingQueryException, PySparkException), match="txnVersion has no meaning for a stream"):
        stream_into(read_stream(spark, broker, log), broker, tmp_path, destination="/queue/a", txnVersion="1")
