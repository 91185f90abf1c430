"""Replay: what the archive has of a log is sent to a destination, filtered, at a rate. Without --go it only counts.

    python -m radiator.spark.jobs.replay --archive DIR --log NAME --to /queue/NAME [--where SQL] [--rate N] [--go]

Each message has a `dedup-id` of its log, partition and offset: a queue with `dedup_window_s` takes it once within that.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession

from radiator.integrations.spark.ask import BrokerRequests
from radiator.integrations.spark.jobs.job import (
    Job,
    JobFailed,
    add_broker,
    broker_options,
    main,
    print_table,
    read_log,
)
from radiator.integrations.spark.options import sink_options
from radiator.integrations.spark.sink import ledger

# for the first sending only: times that are past, a reply that nobody awaits, and what the writer itself sets
NOT_AGAIN = (
    "content-length", "dedup-id", "delay", "deliver-at", "destination", "expiration", "expires", "immediate",
    "mandatory", "partition-key", "receipt", "reply-to", "transaction",
)  # fmt: skip
STEPS_PER_S = 10  # how smooth a rate is
RATE_MAX = 100_000


def chosen(records: DataFrame, where: str | None = None) -> DataFrame:
    """Returns the records for which the SQL expression is true; it may name the columns of the archive, and `date`."""
    return records if where is None else records.where(where)


def summary(records: DataFrame) -> DataFrame:
    """log, partition, records, bytes, first and last (times of acceptance)."""
    return (
        records.groupBy("log", "partition")
        .agg(
            F.count("*").alias("records"),
            F.sum(F.length("value")).alias("bytes"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
        )
        .orderBy("log", "partition")
    )


def messages(records: DataFrame, label: str = "replay") -> DataFrame:
    """Returns the columns that `format("radiator")` sends: value, key, headers, dedup_id. In order within a partition.

    label: each dedup_id begins with it, so that another label sends the same records again.
    """
    place = F.concat_ws("/", F.lit(label), "log", "partition", "offset")
    headers = F.filter("headers", lambda one: ~one.getField("key").isin(*NOT_AGAIN))
    return (
        records.repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .select("value", "key", headers.alias("headers"), place.alias("dedup_id"))
    )


def at_rate(sent: DataFrame, per_s: int) -> DataFrame:
    """Returns the same rows, at that rate at most: one task yields them, a tenth of a second's worth at a time."""
    return sent.coalesce(1).mapInArrow(_giver(per_s), sent.schema)


def _giver(per_s: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    step = max(1, per_s // STEPS_PER_S)

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        due_s = time.monotonic()
        for batch in batches:
            for begin in range(0, batch.num_rows, step):
                part = batch.slice(begin, step)
                time.sleep(max(0.0, due_s - time.monotonic()))
                due_s = max(due_s, time.monotonic() - 1) + part.num_rows / per_s
                yield part

    return give


def was_sent(spark: SparkSession, options: dict[str, str]) -> bool:
    """Whether a batch with these options was committed before. A worker asks, since only workers need to reach the
    broker. Raises OptionError.
    """
    sink = sink_options(options, is_stream=False)
    assert sink.app is not None, "a replay that may be run again has a name"
    connect, apps = sink.connect, (sink.app, ledger(sink.app, sink.destination))

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with BrokerRequests(connect) as broker:
                was_sent = any(broker.version(app) is not None for app in apps)
            yield pa.RecordBatch.from_pydict({"was_sent": pa.array([was_sent])})

    row = spark.range(0, 1, 1, 1).mapInArrow(ask, "was_sent boolean").first()
    return row is not None and bool(row.was_sent)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="NAME", required=True)
    parser.add_argument("--to", metavar="DESTINATION", required=True, help="/queue/NAME, /fanout/NAME, /log/NAME, ...")
    add_broker(parser)
    parser.add_argument(
        "--where", metavar="SQL", help="""such as "partition = 0 and timestamp >= '2026-11-21 08:00'" """
    )
    parser.add_argument("--rate", metavar="N", type=_rate, help="at most so many messages a second")
    parser.add_argument(
        "--name",
        metavar="TEXT",
        help="a replay of this name to this destination is committed once, however often it is run",
    )
    parser.add_argument("--label", metavar="TEXT", default="replay", help="begins each dedup-id; `replay` without it")
    parser.add_argument("--go", action="store_true", help="without it nothing is sent")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    if args.rate and args.name:
        raise JobFailed("--rate sends one by one, and --name commits all at once: give one of them")
    records = chosen(read_log(spark, args.archive, args.log), args.where)
    print_table(summary(records))
    if not args.go:
        print(f"\nNothing has been sent to {args.to}: --go does it.")
        return 0
    sent = messages(records, args.label)
    options = {**broker_options(args), "destination": args.to, "delivery": "exactlyOnce"}
    if args.name:
        options |= {"txnAppId": f"replay {args.name}", "txnVersion": "1"}
        if was_sent(spark, options):
            print(f"\nNothing has been sent now: a replay of the name {args.name!r} had been sent before.")
            return 0
    if args.rate:
        # the writer gets rows as they are yielded, and not when some thousand have come
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(max(1, args.rate // STEPS_PER_S)))
        sent, options["delivery"] = at_rate(sent, args.rate), "atLeastOnce"
    sent.write.format("radiator").options(**options).mode("append").save()
    print(f"\nAll of it has been sent to {args.to}.")
    return 0


def _rate(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= RATE_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {RATE_MAX}")
    return int(text)


REPLAY = Job("replay", "Sends what the archive has of a log. Without --go it only counts.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(REPLAY))
