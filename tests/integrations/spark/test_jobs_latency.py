"""Latencies: each span by hand, percentiles by queue and hour, and the page that shows them."""

import math
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest
from latency import page_rows, percentiles, spans
from page import latency_page
from pyspark.sql import SparkSession

from radiator.model.journal import ACKED, DELIVERED, DUE, HANDED_OVER, NACKED
from tests.integrations.spark.journals import BEGIN_MS, Journal, id_of

pytestmark = pytest.mark.usefixtures("interpreted")
HOUR_MS = 3_600_000
HOUR = datetime.fromtimestamp(BEGIN_MS // HOUR_MS * HOUR_MS / 1000, UTC).strftime("%Y-%m-%d %H:00:00")


def test_spans(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    plain, again, delayed, waiting, handed = (journal.accept("orders") for _ in range(5))
    journal.ms += 100
    for one in (plain, again):
        journal.deliver(one, "1/jobs")
    journal.ms += 20
    journal.end(plain, ACKED)
    journal.add(NACKED, "orders", again)
    journal.end(handed, ACKED, reason=HANDED_OVER)
    journal.ms += 500
    journal.add(DUE, "orders", delayed)
    journal.add(DUE, "orders", again, attempt=1)
    journal.deliver(again, "2/jobs", attempt=1)
    journal.ms += 7
    journal.deliver(delayed, "2/jobs")
    journal.end(again, ACKED)
    journal.add(DELIVERED, "orders", 99)  # of before the journal: when it was accepted is not known
    rows = {row.message_id: tuple(row)[1:] for row in hourly(spark, journal)}
    assert rows == {
        id_of(plain): ("orders", HOUR, 100, 20, 120),
        id_of(again): ("orders", HOUR, 100, 7, 627),
        id_of(delayed): ("orders", HOUR, 7, None, None),
        id_of(waiting): ("orders", HOUR, None, None, None),
        id_of(handed): ("orders", HOUR, None, None, None),
    }


def hourly(spark: SparkSession, journal: Journal) -> list:
    found = spans(spark.createDataFrame(journal.table()))
    return found.withColumn("hour", found.hour.cast("string")).collect()


def test_percentiles_and_their_page(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    for hour in range(2):
        journal.ms = BEGIN_MS + hour * HOUR_MS
        for wait_ms in range(1, 101):
            position = journal.accept("<orders> & $x$")
            begun_ms = journal.ms
            journal.ms += wait_ms * (1 + hour)
            journal.deliver(position, "1/jobs")
            journal.end(position, ACKED)
            journal.ms = begun_ms
    journal.accept("bills")
    found = percentiles(spark.createDataFrame(journal.table())).cache()
    rows = {(row.hour and row.hour_text, row.span): row for row in
            found.withColumn("hour_text", found.hour.cast("string")).collect()}  # fmt: skip
    assert len(rows) == 9  # nothing of bills, which was never delivered
    first = rows[HOUR, "accept-deliver"]
    assert (first.queue, first.messages) == ("<orders> & $x$", 100)
    assert (first.p50_ms, first.p95_ms, first.p99_ms, first.max_ms) == (50, 95, 99, 100)
    whole = rows[None, "accept-deliver"]
    assert (whole.messages, whole.max_ms) == (200, 200)
    assert rows[HOUR, "deliver-ack"].p99_ms == 0

    page = latency_page([row.asDict() for row in page_rows(found).collect()])
    assert "<h2>&lt;orders&gt; &amp; $x$</h2>" in page
    assert "http://www.w3.org" in page and "src=" not in page and "<link" not in page  # it needs nothing else
    plot = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    numbers = [float(one) for path in plot.iter() for one in path.get("viewBox", "").split()]
    assert numbers and all(math.isfinite(one) for one in numbers)
    assert page.count("<tr>") == 4


def test_nothing_has_been_accepted(spark: SparkSession) -> None:
    found = percentiles(spark.createDataFrame(Journal().table()))
    assert found.isEmpty()
    assert "No message has been accepted" in latency_page([])


def test_a_page_has_the_busiest_queues_and_the_last_hours_only(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    for hour in range(3):
        journal.ms = BEGIN_MS + hour * HOUR_MS
        for queue in ("busy", "busy", "idle"):
            journal.deliver(journal.accept(queue), "1/jobs")
    rows = page_rows(percentiles(spark.createDataFrame(journal.table())), queues=1, hours=2).collect()
    assert [(row.queue, row.hour) for row in rows] == [
        ("busy", None),
        *(("busy", (BEGIN_MS // HOUR_MS + hour) * 3600) for hour in (1, 2)),
    ]
