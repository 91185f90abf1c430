"""Map and reduce over a log: jobs come from a queue, results go to where each job wants them.

    python -m radiator.spark.jobs.mapreduce --archive DIR --queue NAME [--url URL] [--work NAME=MODULE:OBJECT] [--once]

A job is JSON, `{"work": NAME, "log": NAME}`, and has a `reply-to`. It names work that this program was started with:
nothing in a job is ever imported, or run as SQL. Its ACK and its result are one transaction: a job whose worker dies
comes again, and is answered once; any effect of its map function elsewhere is then repeated.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyspark.sql.functions as F
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from radiator.client import Client, ConnectionLost, Message, NoAnswer, TransactionLost
from radiator.integrations.spark.ask import client_of
from radiator.integrations.spark.jobs.job import (
    Job,
    JobFailed,
    add_broker,
    broker_options,
    main,
    read_log,
    sentence,
)
from radiator.integrations.spark.options import connect_options
from radiator.model.errors import RadiatorError, Refusal

KEYS_MAX = 10_000  # of a result
RESULT_MAX_BYTES = 4 * 1024 * 1024
KEYS_HELD = 100_000  # by one task while it maps; with more it emits what it has
BATCH_ROWS = 10_000
TRIES_MAX = 5  # of a job whose answer is refused, or that kills its worker
LOOK_S = 1.0
ANSWERS = ("/reply-queue/", "/queue/", "/amq/queue/")  # where a result may go
PAIRS = "key string, value string"  # the value as JSON
_PAIRS = pa.schema([("key", pa.string()), ("value", pa.string())])
_TIME_MAX_MS = 999_999_999_999_999


class Record(NamedTuple):
    """key: its partition-key, None: it has none; ms: when it was accepted, since the epoch."""

    key: str | None
    value: bytes
    log: str
    partition: int
    offset: int
    ms: int
    destination: str
    headers: list[tuple[str, str]]


class Work(NamedTuple):
    """map: pairs of a key and a value (anything that JSON has) for a record; reduce: one value of two; their order and
    grouping must not matter. Both must be importable where Spark's workers run.
    """

    map: Callable[[Record], Iterable[tuple[str, Any]]]
    reduce: Callable[[Any, Any], Any]


def _add(one: Any, other: Any) -> Any:
    return one + other


def _key(record: Record) -> list[tuple[str, int]]:
    return [(record.key or "", 1)]


def _key_bytes(record: Record) -> list[tuple[str, int]]:
    return [(record.key or "", len(record.value))]


def _destination(record: Record) -> list[tuple[str, int]]:
    return [(record.destination, 1)]


def _word(record: Record) -> list[tuple[str, int]]:
    return [(word, 1) for word in re.findall(r"\w+", record.value.decode("utf-8", "replace").lower())]


WORKS = {
    "count-by-key": Work(_key, _add),
    "bytes-by-key": Work(_key_bytes, _add),
    "count-by-destination": Work(_destination, _add),
    "count-words": Work(_word, _add),
}


# ---- the pure part


def map_reduce(records: DataFrame, work: Work) -> DataFrame:
    """key and value (as JSON), one row for each key. Each partition is mapped, and reduced as far as possible, where it
    is; the values of a key are never held together.
    """
    columns = ["key", "value", "log", "partition", "offset", F.unix_millis("timestamp").alias("ms"), "destination"]
    mapped = records.select(*columns, "headers").mapInArrow(_mapper(work), PAIRS)
    return mapped.repartition("key").sortWithinPartitions("key").mapInArrow(_reducer(work), PAIRS)


def _mapper(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[str, Any] = {}
        for batch in batches:
            for record in _records(batch):
                for key, value in work.map(record):
                    held[key] = work.reduce(held[key], value) if key in held else value
            if len(held) >= KEYS_HELD:
                yield from _batches(held.items())
                held = {}
        yield from _batches(held.items())

    return run


def _reducer(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _batches(_folded(batches, work))

    return run


def _folded(batches: Iterator[pa.RecordBatch], work: Work) -> Iterator[tuple[str, Any]]:
    """Reduces pairs in the order of their keys to one for each key."""
    last: tuple[str, Any] | None = None
    for batch in batches:
        for key, text in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
            value = json.loads(text)
            if last is not None and last[0] == key:
                last = key, work.reduce(last[1], value)
                continue
            if last is not None:
                yield last
            last = key, value
    if last is not None:
        yield last


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    columns = (batch.column(name).to_pylist() for name in Record._fields)
    for key, value, log, partition, offset, ms, destination, headers in zip(*columns, strict=True):
        pairs = [(one["key"], one["value"]) for one in headers or ()]
        text = None if key is None else key.decode("utf-8", "replace")
        yield Record(text, value or b"", log, partition, offset, ms, destination, pairs)


def _batches(pairs: Iterable[tuple[str, Any]]) -> Iterator[pa.RecordBatch]:
    keys: list[str] = []
    values: list[str] = []
    for key, value in pairs:
        keys.append(key)
        values.append(json.dumps(value))
        if len(keys) == BATCH_ROWS:
            yield pa.RecordBatch.from_arrays(
                [pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=_PAIRS
            )
            keys, values = [], []
    if keys:
        yield pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=_PAIRS)


# ---- jobs


class WantedJob(NamedTuple):
    """One job. from_ms, until_ms: of acceptance, until_ms excluded; partitions: empty: all of them."""

    work: str
    log: str
    partitions: list[int]
    from_ms: int
    until_ms: int


def wanted(body: bytes, works: dict[str, Work]) -> WantedJob:
    """Reads a job. Raises JobFailed for anything else, and for work that is not offered."""
    try:
        job = json.loads(body)
    except ValueError:
        job = None
    if not isinstance(job, dict):
        raise JobFailed("The job is not a JSON object.")
    partitions = job.pop("partitions", [])
    found = WantedJob(
        job.pop("work", ""),
        job.pop("log", ""),
        partitions,
        job.pop("from_ms", 0),
        job.pop("until_ms", _TIME_MAX_MS),
    )
    if job:
        raise JobFailed(f"The job has {sorted(job)[0][:40]!r}; it may have {', '.join(WantedJob._fields)}.")
    if not isinstance(found.work, str) or found.work not in works:
        raise JobFailed(f"There is no work {str(found.work)[:40]!r}; there is {', '.join(sorted(works))}.")
    if not isinstance(found.log, str) or not 1 <= len(found.log.encode()) <= 255:
        raise JobFailed('"log" must be the name of a log.')
    if not isinstance(partitions, list) or not all(type(one) is int and one >= 0 for one in partitions):
        raise JobFailed('"partitions" must be a list of numbers from 0.')
    if not all(type(one) is int and 0 <= one <= _TIME_MAX_MS for one in (found.from_ms, found.until_ms)):
        raise JobFailed('"from_ms" and "until_ms" must be milliseconds since the epoch.')
    return found


def chosen(records: DataFrame, job: WantedJob) -> DataFrame:
    """Returns the records that the job is about."""
    ms = F.unix_millis("timestamp")
    mine = records.where((ms >= job.from_ms) & (ms < job.until_ms))
    return mine.where(F.col("partition").isin(job.partitions)) if job.partitions else mine


def answer(spark: SparkSession, archive: str, body: bytes, works: dict[str, Work]) -> dict[str, Any]:
    """Returns the answer: `ok` and `result`, or `ok` false and `error`."""
    try:
        job = wanted(body, works)
        rows = map_reduce(chosen(read_log(spark, archive, job.log), job), works[job.work]).limit(KEYS_MAX + 1).collect()
        if len(rows) > KEYS_MAX:
            raise JobFailed(f"The result has more than {KEYS_MAX} keys.")
        result = {row.key: json.loads(row.value) for row in rows}
        if len(json.dumps(result)) > RESULT_MAX_BYTES:
            raise JobFailed(f"The result is larger than {RESULT_MAX_BYTES} bytes.")
    except (RadiatorError, PySparkException) as error:
        return {"ok": False, "error": sentence(error)}
    return {"ok": True, "result": result}


def serve(spark: SparkSession, args: argparse.Namespace, works: dict[str, Work]) -> int:
    """Does one job after the other, each by one worker; with --once those that are there now. Returns how many it has
    answered.
    """
    done = 0
    connect = connect_options(broker_options(args), "a job")
    with client_of(connect, heart_beats="thread", reconnect=True) as client:
        client.subscribe(f"/queue/{args.queue}", ack="client-individual", prefetch=1)
        while True:
            job = client.receive(LOOK_S)
            if job is not None:
                done += _do(spark, client, job, args.archive, works)
            elif args.once:
                return done


def _do(spark: SparkSession, client: Client, job: Message, archive: str, works: dict[str, Work]) -> bool:
    to = job.headers.get("reply-to", "")
    if not to.startswith(ANSWERS) or int(job.headers.get("redelivery-count", "0")) >= TRIES_MAX:
        print(f"The job {job.message_id} is rejected: it cannot be answered.", file=sys.stderr)
        client.nack(job, requeue=False)
        return False
    body = json.dumps(answer(spark, archive, job.body, works))
    headers = {"content-type": "application/json", "dedup-id": job.message_id}
    if "correlation-id" in job.headers:
        headers["correlation-id"] = job.headers["correlation-id"]
    try:
        with client.transaction() as transaction:
            client.send(to, body, headers, transaction=transaction)
            client.ack(job, transaction=transaction)
    except (TransactionLost, ConnectionLost, NoAnswer, Refusal) as error:
        # only the broker knows whether it happened: if not, the job comes again
        print(f"The job {job.message_id} may come again: {sentence(error)}", file=sys.stderr)
        with suppress(RadiatorError):
            client.pump()
        return False
    return True


# ---- the command


def named(text: str) -> tuple[str, Work]:
    """NAME=MODULE:OBJECT, the object being a Work. Given by whoever starts the program, never by a job."""
    name, _, place = text.partition("=")
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=MODULE:OBJECT: {error}") from None
    if not name or not isinstance(found, Work):
        raise argparse.ArgumentTypeError(f"{place!r} is not a radiator.spark.jobs.mapreduce.Work")
    return name, found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", metavar="NAME", required=True, help="where the jobs come from")
    add_broker(parser)
    parser.add_argument("--work", metavar="NAME=MODULE:OBJECT", action="append", default=[], type=named)
    parser.add_argument("--once", action="store_true", help="ends when no job is there")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    with suppress(KeyboardInterrupt):
        serve(spark, args, {**WORKS, **dict(args.work)})
    return 0


MAPREDUCE = Job("mapreduce", "Does the jobs of a queue: map and reduce over logs.", add_arguments, run)

if __name__ == "__main__":
    from radiator.integrations.spark.jobs import mapreduce  # the Work that others import is not the class of __main__

    sys.exit(main(mapreduce.MAPREDUCE))
