"""How unevenly work is spread: counts by consumer, partition and key, and the numbers made of them."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from skew import consumers, keys, partitions, spread

from radiator.model.journal import ACKED, HANDED_OVER, NACKED
from radiator.tools.archive.rows import LOG
from tests.integrations.spark.journals import BEGIN_MS, Journal

pytestmark = pytest.mark.usefixtures("interpreted")


def records(spark: SparkSession, keys: list[str | None], **more: Any) -> DataFrame:
    """One record of a log for each key, by turns in two partitions."""
    rows = [
        {
            "key": None if key is None else key.encode(),
            "value": json.dumps({"customer": key}).encode(),
            "log": "clicks",
            "partition": number % 2,
            "offset": number // 2,
            "timestamp": BEGIN_MS * 1000 + number,
            "destination": "/log/clicks",
            "headers": [{"key": "colour", "value": "red"}],
            **more,
        }
        for number, key in enumerate(keys)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, LOG))


def test_consumers(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    for number in range(4):
        position = journal.accept("orders")
        journal.deliver(position, "2/b" if number == 3 else "1/a")
        if number == 0:
            journal.add(NACKED, "orders", position, client="1/a")
        else:
            journal.end(position, ACKED, client="2/b" if number == 3 else "1/a")
    journal.end(journal.accept("orders"), ACKED, client="node/other", reason=HANDED_OVER)
    counts = consumers(spark.createDataFrame(journal.table()))
    rows = {row.client: tuple(row)[3:] for row in counts.collect()}
    assert rows == {"1/a": (3, 2, 1, 0, 0.75), "2/b": (1, 1, 0, 0, 0.25)}
    (row,) = spread(counts, ["node", "queue"], "delivered").collect()
    assert tuple(row)[1:] == ("orders", 2, 4, 3, 2.0, 1.5, pytest.approx(0.25))


def test_keys_and_partitions(spark: SparkSession) -> None:
    log = records(spark, ["a", "a", "a", "b", None])
    assert {tuple(row) for row in keys(log).collect()} == {
        ("clicks", "a", 3, 0.6),
        ("clicks", "b", 1, 0.2),
        ("clicks", None, 1, 0.2),
    }
    assert {(row.key, row.records) for row in keys(log, "$.customer").collect()} == {("a", 3), ("b", 1), (None, 1)}
    assert {(row.partition, row.records) for row in partitions(log).collect()} == {(0, 3), (1, 2)}


@pytest.mark.parametrize(
    ("counts", "gini"),
    [
        ([5], 0.0),
        ([5, 5, 5, 5], 0.0),
        ([0, 0, 0, 10], 0.75),
        ([1, 2, 3, 4], 0.25),
        ([1, 1, 2, 2, 10], 0.475),
        ([0, 0], None),
    ],
)
def test_gini(spark: SparkSession, counts: list[int], gini: float | None) -> None:
    """As it is defined: the mean difference of all pairs, of twice the mean."""
    frame = spark.createDataFrame([("q", count) for count in counts], "queue string, n bigint")
    (row,) = spread(frame, ["queue"], "n").collect()
    if gini is None:
        assert (row.gini, row.max_mean) == (None, None)
        return
    pairs = sum(abs(one - other) for one in counts for other in counts)
    assert row.gini == pytest.approx(pairs / (2 * len(counts) * sum(counts))) == pytest.approx(gini)
    assert row.max_mean == pytest.approx(max(counts) * len(counts) / sum(counts))


def test_nothing(spark: SparkSession) -> None:
    assert consumers(spark.createDataFrame(Journal().table())).isEmpty()
    assert spread(keys(records(spark, [])), ["log"], "records").isEmpty()
