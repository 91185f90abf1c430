"""What went to dead-letter queues, or was dropped because there is none: why, where, whose, since when.

    python examples/spark/deadletters.py --archive DIR [--queue NAME] [--samples N] [--out DIR]

The samples are message-ids: `radiator explain ID` tells the story of one.
"""

import argparse
import sys

import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession, Window

from radiator.integrations.spark.jobs.job import Job, main, print_table, read_journal, write_parquet
from radiator.model.journal import DEAD_LETTERED, DELIVERED, DROPPED, EXPIRED, NACKED, RETURNED

SAMPLES = 3


def dead(journal: DataFrame) -> DataFrame:
    """One row for each message that ended so: message_id, queue, event, reason, dead_letter (its queue, null: none),
    dead_id (its id there), ts, attempts, and the last client that it was given to, null where it never was.
    """
    ends = (DEAD_LETTERED, DROPPED, EXPIRED)
    is_end = F.col("event").isin(*ends)
    had = F.struct("seq", "client")
    end = F.struct(
        "seq", "event", "queue", F.coalesce("reason", "event").alias("reason"), "other_queue", "other_id", "ts"
    )
    dying = journal.where(is_end).select("message_id").distinct()  # few, of all that were delivered
    lives = (
        journal.where(F.col("event").isin(*ends, DELIVERED, NACKED, RETURNED))
        .join(dying, "message_id", "left_semi")
        .groupBy("message_id")
        .agg(
            F.min(F.when(is_end, end)).alias("end"),
            F.max(F.when(~is_end & F.col("client").isNotNull(), had)).alias("had"),
            F.count_if(F.col("event") == DELIVERED).alias("attempts"),
        )
    )
    return lives.select(
        "message_id",
        "end.queue",
        "end.event",
        "end.reason",
        F.col("end.other_queue").alias("dead_letter"),
        F.col("end.other_id").alias("dead_id"),
        "end.ts",
        "attempts",
        F.col("had.client").alias("client"),
    )


def reasons(journal: DataFrame, samples: int = SAMPLES) -> DataFrame:
    """queue, event, reason, dead_letter, client, messages, attempts (most of one), first, last, and up to `samples`
    message-ids, the earliest.
    """
    by = ["queue", "event", "reason", "dead_letter", "client"]
    ordered = dead(journal).withColumn("rank", F.row_number().over(Window.partitionBy(*by).orderBy("ts", "message_id")))
    sample = F.when(F.col("rank") <= samples, F.struct("rank", "message_id"))  # null behind them: not collected
    return (
        ordered.groupBy(*by)
        .agg(
            F.count("*").alias("messages"),
            F.max("attempts").alias("attempts"),
            F.min("ts").alias("first"),
            F.max("ts").alias("last"),
            F.sort_array(F.collect_list(sample)).getField("message_id").alias("samples"),
        )
        .orderBy(F.desc("messages"), *by)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", metavar="NAME", help="only what died in this one")
    parser.add_argument("--samples", metavar="N", type=int, default=SAMPLES, help=f"{SAMPLES} without it")
    parser.add_argument("--out", metavar="DIR", help="every one of these messages, as Parquet")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    journal = read_journal(spark, args.archive)
    if args.queue:
        journal = journal.where(F.col("queue") == args.queue)
    print_table(reasons(journal, args.samples).withColumn("samples", F.array_join("samples", " ")))
    if args.out:
        write_parquet(dead(journal), args.out)
    return 0


DEADLETTERS = Job("deadletters", "What died: why, where, whose, since when.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(DEADLETTERS))
