"""Conservation: each verdict of docs/ARCHIVE.md, journals that are right, and what was put into them on purpose."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from radiator.integrations.spark.jobs.conserve import ENDS, WRONG, books, half_fanned, holes, verdicts, wrong
from radiator.model.journal import ACCEPTED, ACKED, DELETED, DELIVERED, MOVED, STARTED
from radiator.model.message import position_of
from radiator.tools.audit.journal import ArchivedJournal, audit
from tests.integrations.spark.journals import Journal, id_of, lively, spoil

pytestmark = pytest.mark.usefixtures("interpreted")


def frames(spark: SparkSession, journal: Journal) -> tuple[DataFrame, DataFrame]:
    return spark.createDataFrame(journal.table()), spark.createDataFrame(journal.snapshot())


def judged(spark: SparkSession, journal: Journal, boot: int | None = None) -> dict[str, str]:
    """The verdict of each message-id; each has one."""
    reported, stored = frames(spark, journal)
    rows = verdicts(reported, stored, holes(reported, boot)).collect()
    found = {row.message_id: row.verdict for row in rows}
    assert len(found) == len(rows)
    return found


def test_nothing_at_all(spark: SparkSession) -> None:
    assert judged(spark, Journal()) == {}


def test_what_is_right(spark: SparkSession) -> None:
    journal = lively(1, 400, boots=3)
    found = judged(spark, journal)
    assert set(found) == {
        id_of(reported.position) for _, reported in journal.events if reported.position and reported.event != STARTED
    }
    assert not set(found.values()) & {*WRONG, "open", "unknown-beginning", "unknown-end"}
    assert {one for one, verdict in found.items() if verdict == "stored"} == {id_of(one) for one in journal.stored}
    assert set(found.values()) == {*ENDS, DELETED, "stored"}


def test_what_was_put_into_it_is_found_and_nothing_else(spark: SparkSession) -> None:
    journal = lively(2, 400, boots=2)
    bad, half = spoil(journal, Random(2))
    reported, stored = frames(spark, journal)
    gaps = holes(reported).cache()
    found = verdicts(reported, stored, gaps).cache()
    assert {row.message_id: row.verdict for row in found.where(found.verdict.isin(*WRONG)).collect()} == bad
    assert {row.fanout_id for row in half_fanned(reported, gaps).collect()} == half
    rows = {row.message_id: row for row in wrong(reported, stored, found).collect()}
    assert {one: row.verdict for one, row in rows.items()} == bad
    (there,) = (row for row in rows.values() if row.verdict == "doubled" and row.events[-1] == "stored")
    assert (there.events[0].split()[1], there.events[-2].split()[1]) == (ACCEPTED, ACKED)


CASES = [
    ([ACCEPTED, ACCEPTED, ACKED], False, "doubled"),
    ([ACCEPTED, ACKED, ACKED], False, "doubled"),
    ([ACCEPTED, ACKED], True, "doubled"),
    ([ACCEPTED, ACKED, "purged"], False, "doubled"),
    ([DELIVERED], False, "ghost"),
    ([ACKED], False, "ghost"),
    ([], True, "ghost"),
    ([ACCEPTED, DELIVERED], False, "lost"),
    ([ACCEPTED, DELIVERED, ACKED], False, "acked"),
    ([ACCEPTED, "nacked", "returned"], True, "stored"),
    ([ACCEPTED, "checked-out"], False, "checked-out"),
]


def test_each_verdict(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    places = [position_of(1, 1 + number) for number in range(len(CASES))]
    for place, (events, is_stored, _) in zip(places, CASES, strict=True):
        for event in events:
            journal.add(event, "orders", place)
        if is_stored:
            journal.stored[place] = "orders"
    journal.number = len(CASES)
    first = journal.accept("orders")
    unknown = position_of(1, journal.number + 1)
    journal.end(first, MOVED, other=unknown, other_queue="bills")  # and nobody knows what it became
    journal.number += 1
    journal.accept("orders")
    found = judged(spark, journal)
    assert [found[id_of(place)] for place in places] == [verdict for _, _, verdict in CASES]
    assert (found[id_of(first)], found[id_of(unknown)]) == ("moved", "lost")


def test_without_a_snapshot_nothing_is_lost_that_was_accepted(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    position = journal.accept("orders")
    reported = spark.createDataFrame(journal.table())
    found = verdicts(reported, None, holes(reported)).collect()
    assert [(row.message_id, row.verdict) for row in found] == [(id_of(position), "open")]


def test_a_deleted_queue_takes_what_was_accepted_before_and_nothing_later(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    before, ended, other = journal.accept("orders"), journal.accept("orders"), journal.accept("bills")
    journal.end(ended, ACKED)
    journal.delete("orders")
    after = journal.accept("orders")
    journal.stored.clear()
    found = judged(spark, journal)
    assert [found[id_of(one)] for one in (before, ended, other, after)] == [DELETED, ACKED, "lost", "lost"]


def test_what_lies_in_a_hole_is_not_called_wrong(spark: SparkSession) -> None:
    journal = Journal(next_seq=100)  # retention has cut what was before
    early = position_of(1, 5)
    journal.add(ACKED, "orders", early)
    journal.number = 9
    first = journal.accept("orders")
    hidden = journal.accept("orders")
    journal.cut(journal.next_seq - 1, journal.next_seq)
    journal.end(hidden, ACKED)
    journal.stored.pop(first)
    last = journal.accept("orders")
    found = judged(spark, journal)
    assert found == {
        id_of(early): "unknown-beginning",
        id_of(first): "unknown-end",
        id_of(hidden): "unknown-beginning",
        id_of(last): "stored",
    }


def test_a_boot_that_is_not_told_of_is_a_hole(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    gone = journal.accept("orders")
    journal.stored.clear()
    unseen = position_of(2, 7)
    journal.start(3)
    journal.add(ACKED, "orders", unseen)
    late = position_of(3, 1)
    journal.add(ACKED, "orders", late)
    journal.number = 1
    journal.accept("orders")
    found = judged(spark, journal)
    assert [found[id_of(one)] for one in (gone, unseen, late)] == ["unknown-end", "unknown-beginning", "ghost"]


def test_a_snapshot_of_a_later_boot_has_a_hole_before_it(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    gone = journal.accept("orders")
    journal.stored = {position_of(2, 4): "orders"}
    assert judged(spark, journal, boot=2) == {id_of(gone): "unknown-end", id_of(position_of(2, 4)): "unknown-beginning"}


def test_the_last_fanout_before_a_hole_may_be_cut_in_two(spark: SparkSession) -> None:
    journal = Journal()
    journal.start(1)
    journal.fan(("orders", "bills"))
    journal.cut(journal.next_seq - 2, journal.next_seq)
    journal.accept("orders")
    journal.fan(("orders", "bills"))
    journal.cut(journal.next_seq - 2, journal.next_seq)  # there is nothing behind it: no hole
    reported = spark.createDataFrame(journal.table())
    found = half_fanned(reported, holes(reported)).collect()
    assert [(row.fanout_id, row.told, row.copies) for row in found] == [(id_of(position_of(1, 4)), 1, 2)]


def disturbed(seed: int) -> Journal:
    """A journal with holes and everything wrong."""
    random = Random(seed)
    journal = lively(seed, 300, boots=3)
    spoil(journal, random)
    boot = random.choice((2, 2, 3))
    if seed % 3 == 0:  # that boot is not told of
        journal.events = [(seq, reported) for seq, reported in journal.events if reported.position >> 64 != boot]
        journal.renumber()
    if seed % 3 == 1:
        low = random.randrange(journal.next_seq - 60)
        journal.cut(low, low + random.randrange(1, 60))
    if seed % 2:
        journal.cut(0, random.randrange(1, 100))
    for _, reported in random.sample(journal.events, 8):
        if reported.position:
            random.choice((journal.forget, lambda place: journal.stored.pop(place, None)))(reported.position)
    journal.renumber() if seed % 3 != 1 and not seed % 2 else None
    return journal


@pytest.mark.parametrize("seed", (0, 1, 5))
def test_the_audit_without_spark_says_the_same(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    """Of the same archive, message by message."""
    journal = disturbed(seed)
    boot = journal.boot + (seed == 5)
    journal.write(tmp_path, boot)
    report = audit(ArchivedJournal(tmp_path))
    reported, stored = frames(spark, journal)
    gaps = holes(reported, boot).cache()
    found = verdicts(reported, stored, gaps).collect()
    half = {row.fanout_id for row in half_fanned(reported, gaps).collect()}
    assert half == {one for one, _ in report.wrong.get("half-fanned", [])}
    assert {row.message_id: row.verdict for row in found if row.verdict in WRONG} == {
        one: verdict for verdict in WRONG for one, _ in report.wrong.get(verdict, [])
    }
    counts = Counter(row.verdict for row in found)
    assert counts == Counter({name: count for name, count in report.counts.items() if name != "half-fanned"})


def test_books_are_those_of_the_ledger(spark: SparkSession) -> None:
    journal = lively(3, 200)
    for row in books(*frames(spark, journal)).collect():
        reported = [reported for _, reported in journal.events if reported.queue == row.queue]
        assert row.accepted == sum(one.event == ACCEPTED for one in reported)
        assert row.stored == sum(queue == row.queue for queue in journal.stored.values())
