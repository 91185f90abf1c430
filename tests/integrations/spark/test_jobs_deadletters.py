"""Dead letters: why, where, whose, since when, and samples."""

import pytest
from deadletters import dead, reasons
from pyspark.sql import SparkSession

from radiator.model.journal import ACKED, DROPPED, EXPIRED, NACKED
from tests.integrations.spark.journals import Journal, id_of

pytestmark = pytest.mark.usefixtures("interpreted")


def deaths() -> tuple[Journal, list[int]]:
    """Three die of consumer 1, one of 2, one is dropped, one expires unseen, one lives."""
    journal = Journal()
    journal.start(1)
    died = []
    for client in ("1/a", "1/a", "1/a", "2/b"):
        position = journal.accept("orders")
        for attempt in range(2):
            journal.ms += 1000
            journal.deliver(position, client, attempt)
            journal.add(NACKED, "orders", position, client=client)
        journal.bury(position, "dead")
        died.append(position)
    dropped, expired, lives = (journal.accept("orders") for _ in range(3))
    journal.end(dropped, DROPPED, reason="overflow")
    journal.end(expired, EXPIRED)
    journal.deliver(lives, "1/a")
    journal.end(lives, ACKED)
    return journal, [*died, dropped, expired]


def test_each_that_died(spark: SparkSession) -> None:
    journal, died = deaths()
    rows = {row.message_id: row for row in dead(spark.createDataFrame(journal.table())).collect()}
    assert set(rows) == {id_of(one) for one in died}
    first = rows[id_of(died[0])]
    assert (first.queue, first.reason, first.dead_letter, first.client, first.attempts) == (
        "orders", "rejected", "dead", "1/a", 2,
    )  # fmt: skip
    assert first.dead_id == id_of(next(one for one, queue in journal.stored.items() if queue == "dead"))
    assert [(rows[id_of(one)].event, rows[id_of(one)].reason, rows[id_of(one)].client) for one in died[4:]] == [
        ("dropped", "overflow", None),
        ("expired", "expired", None),
    ]


def test_reasons(spark: SparkSession) -> None:
    journal, died = deaths()
    rows = reasons(spark.createDataFrame(journal.table()), samples=2).collect()
    assert [(row.event, row.client, row.messages) for row in rows] == [
        ("dead-lettered", "1/a", 3),
        ("dead-lettered", "2/b", 1),
        ("dropped", None, 1),
        ("expired", None, 1),
    ]
    assert rows[0].samples == [id_of(one) for one in died[:2]]
    assert rows[0].first < rows[0].last


def test_nobody_died(spark: SparkSession) -> None:
    assert reasons(spark.createDataFrame(Journal().table())).isEmpty()
