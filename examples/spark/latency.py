"""Latencies from the journal: percentiles by queue and hour, as a table, as Parquet, and as a page with plots.

    python examples/spark/latency.py --archive DIR [--out DIR] [--html FILE]

Hours are those of the acceptance, in UTC. A message that was sent with a delay counts from when it was due.
"""

import argparse
import sys
from pathlib import Path

import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession

from radiator.integrations.spark.jobs.job import Job, JobFailed, main, print_table, read_journal, write_parquet
from radiator.model.journal import ACCEPTED, ACKED, DELIVERED, DUE, HANDED_OVER

SPANS = ("accept-deliver", "deliver-ack", "accept-ack")
QUANTILES = (0.5, 0.95, 0.99)
ACCURACY = 10_000  # of percentile_approx: the rank that is found is wrong by at most one in so many
PAGE_QUEUES = 50
PAGE_HOURS = 24 * 31


def spans(journal: DataFrame) -> DataFrame:
    """One row for each message that has been accepted: message_id, queue, hour, and a column of milliseconds for each
    of SPANS, null where it has not come so far.

    accept-deliver: to its first delivery; deliver-ack: from its last delivery; accept-ack: all of it. A message that
    another node has taken over is not acked by a consumer: only its deliveries count.
    """
    is_ack = (F.col("event") == ACKED) & ~F.col("reason").eqNullSafe(HANDED_OVER)
    is_due = (F.col("event") == DUE) & (F.col("attempt") == 0)  # a later one ends a delay of its redelivery
    ms = F.unix_millis("ts")
    lives = (
        journal.where(F.col("event").isin(ACCEPTED, DUE, DELIVERED, ACKED))
        .groupBy("message_id", "queue")  # a message has one queue; so all that is gathered is numbers, which is faster
        .agg(
            F.min(F.when(F.col("event") == ACCEPTED, ms)).alias("accepted_ms"),
            F.min(F.when(is_due, ms)).alias("due_ms"),
            F.min(F.when(F.col("event") == DELIVERED, ms)).alias("first_ms"),
            F.max(F.when(F.col("event") == DELIVERED, ms)).alias("last_ms"),
            F.min(F.when(is_ack, ms)).alias("acked_ms"),
        )
        .where(F.col("accepted_ms").isNotNull())
        .withColumn("began_ms", F.coalesce("due_ms", "accepted_ms"))
    )
    return lives.select(
        "message_id",
        "queue",
        F.date_trunc("hour", F.timestamp_millis("accepted_ms")).alias("hour"),
        (F.col("first_ms") - F.col("began_ms")).alias("accept-deliver"),
        (F.col("acked_ms") - F.col("last_ms")).alias("deliver-ack"),
        (F.col("acked_ms") - F.col("began_ms")).alias("accept-ack"),
    )


def percentiles(journal: DataFrame) -> DataFrame:
    """queue, hour (null: the whole time), span, messages, p50_ms, p95_ms, p99_ms, max_ms."""
    of_each = [
        F.struct(
            F.lit(span).alias("span"),
            F.count(F.col(f"`{span}`")).alias("messages"),
            F.percentile_approx(F.col(f"`{span}`"), list(QUANTILES), ACCURACY).alias("p"),
            F.max(F.col(f"`{span}`")).alias("max_ms"),
        )
        for span in SPANS
    ]
    grouped = spans(journal).groupingSets([["queue", "hour"], ["queue"]], "queue", "hour")
    return (
        grouped.agg(F.array(*of_each).alias("all"))
        .select("queue", "hour", F.explode("all").alias("one"))
        .where("one.messages > 0")
        .select(
            "queue",
            "hour",
            "one.span",
            "one.messages",
            *(F.col("one.p")[i].alias(f"p{round(100 * q)}_ms") for i, q in enumerate(QUANTILES)),
            "one.max_ms",
        )
    )


def page_rows(found: DataFrame, queues: int = PAGE_QUEUES, hours: int = PAGE_HOURS) -> DataFrame:
    """What a page can show: of the queues with the most messages the last hours, as seconds since the epoch, and the
    whole time (null)."""
    whole = found.where(F.col("hour").isNull())
    most = whole.groupBy("queue").agg(F.max("messages").alias("m")).orderBy(F.desc("m"), "queue").limit(queues)
    last = found.agg((F.max("hour") - F.expr(f"make_dt_interval(0, {hours})")).alias("from"))
    return (
        found.join(most.select("queue"), "queue", "left_semi")
        .crossJoin(last)
        .where(F.col("hour").isNull() | (F.col("hour") > F.col("from")))
        .drop("from")
        .withColumn("hour", F.unix_seconds("hour"))
        .orderBy("queue", "hour", "span")
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="the percentiles by queue and hour, as Parquet")
    parser.add_argument("--html", metavar="FILE", help="one page with plots and no need of a network; needs matplotlib")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    if args.html:
        try:
            from page import latency_page
        except ImportError as error:  # before an hour's work, not behind it
            raise JobFailed(f"--html needs matplotlib: pip install 'matplotlib>=3.8,<4' ({error})") from None
    found = percentiles(read_journal(spark, args.archive)).cache()
    print_table(found.where(F.col("hour").isNull()).drop("hour").orderBy("queue", "span"))
    if args.out:
        write_parquet(found.orderBy("queue", "hour", "span"), args.out)
    if args.html:
        rows = [row.asDict() for row in page_rows(found).collect()]
        Path(args.html).write_text(latency_page(rows), encoding="utf-8")
    return 0


LATENCY = Job("latency", "Percentiles of latencies, by queue and hour.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(LATENCY))
