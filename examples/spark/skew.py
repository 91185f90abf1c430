"""How unevenly work is spread: over the consumers of each queue, and over the partitions and keys of a log.

    python examples/spark/skew.py --archive DIR [--log NAME [--key-path '$.customer']] [--top N] [--out DIR]

Who consumes comes from the journal, so a consumer that was never given anything does not count; keys from a log.
"""

import argparse
import sys

import pyspark.sql.functions as F
from pyspark.sql import Column, DataFrame, SparkSession, Window

from radiator.integrations.spark.jobs.job import Job, main, print_table, read_journal, read_log, write_parquet
from radiator.model.journal import ACKED, DELIVERED, HANDED_OVER, NACKED, RETURNED

TOP = 10


def consumers(journal: DataFrame) -> DataFrame:
    """node, queue, client, delivered, acked, nacked, returned, and its share of the queue's deliveries."""
    is_one = F.col("client").isNotNull() & ~F.col("reason").eqNullSafe(HANDED_OVER)  # not another node
    done = journal.where(F.col("event").isin(DELIVERED, ACKED, NACKED, RETURNED) & is_one)
    counts = done.groupBy("node", "queue", "client").agg(
        *(F.count_if(F.col("event") == event).alias(event) for event in (DELIVERED, ACKED, NACKED, RETURNED))
    )
    return counts.withColumn("share", _share(F.col("delivered"), "node", "queue"))


def partitions(records: DataFrame) -> DataFrame:
    """log, partition, records, bytes, share."""
    counts = records.groupBy("log", "partition").agg(
        F.count("*").alias("records"), F.sum(F.length("value")).alias("bytes")
    )
    return counts.withColumn("share", _share(F.col("records"), "log"))


def keys(records: DataFrame, path: str | None = None) -> DataFrame:
    """log, key, records, share; the key null where there is none.

    path: where the key stands in a JSON body (`$.customer`); without it the header `partition-key` is it.
    """
    key = F.col("key").cast("string") if path is None else F.get_json_object(F.col("value").cast("string"), path)
    counts = records.groupBy("log", key.alias("key")).agg(F.count("*").alias("records"))
    return counts.withColumn("share", _share(F.col("records"), "log"))


def spread(counts: DataFrame, by: list[str], count: str) -> DataFrame:
    """For each group of `by`: members, total, max, mean, max_mean and gini of the column `count`.

    Gini is 0 where all have the same, and nears 1 where one has everything. It is made from how many members have each
    count, so millions of keys are never sorted.
    """
    alike = counts.groupBy(*by, F.col(count).alias("each")).agg(F.count("*").alias("members"))
    before = Window.partitionBy(*by).orderBy("each").rowsBetween(Window.unboundedPreceding, -1)
    ranked = alike.withColumn("before", F.coalesce(F.sum("members").over(before), F.lit(0)))
    # the ranks from before + 1 to before + members, added up
    ranks = F.col("members") * F.col("before") + F.col("members") * (F.col("members") + 1) / 2
    found = ranked.groupBy(*by).agg(
        F.sum("members").alias("members"),
        F.sum(F.col("each") * F.col("members")).alias("total"),
        F.max("each").alias("max"),
        F.sum(F.col("each") * ranks).alias("weighed"),
    )
    gini = 2 * F.col("weighed") / (F.col("members") * F.col("total")) - (F.col("members") + 1) / F.col("members")
    mean = F.col("total") / F.col("members")
    has_any = F.col("total") > 0
    return found.select(
        *by,
        "members",
        "total",
        "max",
        mean.alias("mean"),
        F.when(has_any, F.col("max") / mean).alias("max_mean"),
        F.when(has_any, gini).alias("gini"),
    )


def _share(count: Column, *by: str) -> Column:
    return count / F.sum(count).over(Window.partitionBy(*by))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="NAME", help="its partitions and keys too")
    parser.add_argument("--key-path", metavar="PATH", help="of the key in a JSON body, as $.customer")
    parser.add_argument("--top", metavar="N", type=int, default=TOP, help=f"how many keys are shown; {TOP} without it")
    parser.add_argument("--out", metavar="DIR", help="consumers (and partitions and keys) as Parquet in it")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    _print("consumers", consumers(read_journal(spark, args.archive)).cache(), ["node", "queue"], DELIVERED, args)
    if args.log:
        records = read_log(spark, args.archive, args.log)
        _print("partitions", partitions(records).cache(), ["log"], "records", args)
        _print("keys", keys(records, args.key_path).cache(), ["log"], "records", args)
    return 0


def _print(name: str, counts: DataFrame, by: list[str], count: str, args: argparse.Namespace) -> None:
    print(f"\n{name}")
    print_table(spread(counts, by, count).orderBy(F.desc_nulls_last("gini"), *by))
    print(f"\n{name} with the most")
    print_table(counts.orderBy(F.desc(count), *(one for one in counts.columns[:3] if one != count)).limit(args.top))
    if args.out:
        write_parquet(counts, f"{args.out}/{name}")


SKEW = Job("skew", "How unevenly consumers, partitions and keys are loaded.", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(SKEW))
