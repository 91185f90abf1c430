"""Conservation: is every accepted message accounted for? The rules are those of docs/ARCHIVE.md, "Verdicts".

    python -m radiator.spark.jobs.conserve --archive DIR [--out DIR]

Exit status 1 if anything is lost, doubled, a ghost or half-fanned. `radiator audit` answers the same without Spark.
"""

import argparse
import sys
from pathlib import Path

import pyspark.sql.functions as F
from pyspark.sql import Column, DataFrame, SparkSession, Window

from radiator.integrations.spark.jobs.job import (
    Job,
    JobFailed,
    main,
    print_table,
    read_journal,
    read_parquet,
    write_parquet,
)
from radiator.model.journal import ACCEPTED, COPIED, DEAD_LETTERED, DELETED, ENDS, EVENTS, MOVED, STARTED  # fmt: skip
from radiator.model.settings import JOURNAL
from radiator.tools.archive import manifest
from radiator.tools.audit.table import ITS_END, OPEN, STORED, VERDICTS, WRONG, Facts

HALF_FANNED = "half-fanned"
PLACE = "struct<boot:bigint,number:bigint>"
BLOCK_SEQS = 65_536  # how many offsets are searched together for a gap
_NAMED = "named"  # not an event: another message has become this one


def verdicts(journal: DataFrame, stored: DataFrame | None, gaps: DataFrame) -> DataFrame:
    """message_id and verdict of every message that has events or is stored.

    journal: of one store, up to the cut of the snapshot; stored: the messages of the snapshot, by a column message_id;
    None: there is no snapshot; gaps: as `holes` found them.
    """
    lives = _lives(journal, stored)
    is_deleted = (F.col("accepted") > 0) & F.col("is_deleted")
    facts = Facts(
        accepted=F.col("accepted"),
        ends=F.when(F.col("ends") > 0, F.col("ends")).otherwise(is_deleted.cast("int")),
        events=F.col("own"),
        stored=F.col("stored"),
        is_in_hole=_is_in_a_hole(_place("message_id"), F.col("holes")),
        is_hole_after=F.col("accepted_seq") < F.col("last_hole"),
        has_snapshot=F.lit(stored is not None),
    )
    its_end = F.when(F.col("ends") == 0, F.lit(DELETED)).otherwise(F.get(_texts(ENDS), F.col("end")))
    verdict = F.lit(OPEN)
    for name, fits in reversed(VERDICTS):
        verdict = F.when(fits(facts), its_end if name == ITS_END else F.lit(name)).otherwise(verdict)
    # one row, which goes to every task
    return lives.crossJoin(F.broadcast(gaps)).select("message_id", verdict.alias("verdict"))


def _lives(journal: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Returns one row for each message: what happened to it, in numbers alone, since Spark groups those much faster."""
    deleted = journal.where(F.col("event") == DELETED).groupBy("queue").agg(F.max("seq").alias("deleted_seq"))
    is_accepted = F.col("event") == ACCEPTED
    own = (
        journal.where(~F.col("event").isin(STARTED, DELETED))
        .join(F.broadcast(deleted), "queue", "left")
        .select(
            "message_id",
            "event",
            F.when(is_accepted, F.col("seq")).alias("accepted_seq"),
            F.when(is_accepted & (F.col("deleted_seq") > F.col("seq")), F.col("seq")).alias("gone_seq"),
        )
    )
    named = journal.where(F.col("event").isin(DEAD_LETTERED, MOVED) & F.col("other_id").isNotNull())
    rows = own.unionByName(_alone(named, "other_id", _NAMED), allowMissingColumns=True)
    if stored is not None:
        rows = rows.unionByName(_alone(stored, "message_id", STORED), allowMissingColumns=True)
    end = F.coalesce(*(F.when(F.col("event") == name, number) for number, name in enumerate(ENDS)))
    return rows.groupBy("message_id").agg(
        F.count_if(F.col("event") == ACCEPTED).alias("accepted"),
        F.count_if(F.col("event").isin(*ENDS)).alias("ends"),
        F.max(end).alias("end"),
        F.count_if(F.col("event") == STORED).alias("stored"),
        F.count_if(~F.col("event").isin(STORED, _NAMED)).alias("own"),
        F.max("accepted_seq").alias("accepted_seq"),
        F.coalesce(F.max("gone_seq") == F.max("accepted_seq"), F.lit(False)).alias("is_deleted"),
    )


def _alone(frame: DataFrame, column: str, event: str) -> DataFrame:
    return frame.select(F.col(column).alias("message_id"), F.lit(event).alias("event"))


def holes(journal: DataFrame, boot: int | None = None) -> DataFrame:
    """Returns one row. holes: the places (boot, number) between which each hole lies; null: no bound; last_hole: the
    offset after the last hole (beyond all offsets if it has no end); fanouts: the id of the last message to a fanout
    whose copies were reported before each hole.

    boot: of the snapshot; None: that of the last event.
    """
    given = journal.where(F.col("event").isin(ACCEPTED, STARTED)).withColumn("place", _place("message_id"))
    begins = _stretches(journal, given)
    starts = F.broadcast(begins.agg(F.sort_array(F.collect_set("seq")).alias("starts")))
    stretch = F.size(F.filter("starts", lambda start: start <= F.col("seq"))).alias("stretch")
    # numbers alone at first, as in _lives
    by_boot = given.crossJoin(starts).groupBy(stretch, F.col("place.boot").alias("boot")).agg(
        F.min("place.number").alias("low"), F.max("place.number").alias("high")
    )  # fmt: skip
    low, high = (F.struct("boot", F.col(name).alias("number")) for name in ("low", "high"))
    places = by_boot.groupBy("stretch").agg(F.min(low).alias("before"), F.max(high).alias("high"))
    copied = journal.where(F.col("event") == COPIED)
    last_seqs = copied.crossJoin(starts).groupBy(stretch).agg(F.max("seq").alias("copy_seq"))
    copies = last_seqs.join(copied.select(F.col("seq").alias("copy_seq"), "other_id"), "copy_seq")
    found = begins.select("seq", F.row_number().over(Window.orderBy("seq")).alias("stretch"))
    earlier = Window.orderBy("stretch").rowsBetween(Window.unboundedPreceding, -1)
    each = (
        found.join(places, "stretch", "left")
        .join(copies, "stretch", "left")
        .withColumn("after", F.max("high").over(earlier))
        .withColumn("is_last", F.lead("seq").over(Window.orderBy("stretch")).isNull())
    )
    whole = each.agg(
        F.collect_list(F.when(F.col("before").isNotNull(), F.struct("after", "before"))).alias("between"),
        F.max("high").alias("high"),
        F.max("seq").alias("last_seq"),
        F.collect_list(F.when(~F.col("is_last"), F.col("other_id"))).alias("fanouts"),
    )
    # a snapshot of a later boot, or no event with a place: then nothing is known of what comes last
    has_tail = F.coalesce(F.lit(boot).cast("bigint") > F.col("high.boot"), F.lit(boot is not None))
    tail = F.array(F.struct(F.col("high").alias("after"), F.lit(None).cast(PLACE).alias("before")))
    return whole.select(
        F.when(has_tail | F.col("high").isNull(), F.concat("between", tail)).otherwise(F.col("between")).alias("holes"),
        F.when(has_tail, F.lit(2**63 - 1)).otherwise(F.col("last_seq")).alias("last_hole"),
        "fanouts",
    )


def _stretches(journal: DataFrame, given: DataFrame) -> DataFrame:
    """Returns the stretches without a gap. seq: the offset with which each begins."""
    block = F.floor(F.col("seq") / BLOCK_SEQS)
    blocks = journal.groupBy(block.alias("block")).agg(
        F.min("seq").alias("low"), F.max("seq").alias("high"), F.count("*").alias("count")
    )
    before = F.lag("high").over(Window.orderBy("block"))
    first = blocks.withColumn("before", before).where(F.col("before").isNull() | (F.col("low") > F.col("before") + 1))
    torn = blocks.where(F.col("count") <= F.col("high") - F.col("low")).select("block")
    within = Window.partitionBy("block").orderBy("seq")
    gaps = (
        journal.select("seq", block.alias("block"))
        .join(F.broadcast(torn), "block", "left_semi")
        .withColumn("before", F.lag("seq").over(within))
        .where(F.col("seq") > F.col("before") + 1)
    )
    # a boot whose `started` is its first event, while the boot before it is not the last
    is_start = F.col("event") == STARTED
    boots = given.groupBy(F.col("place.boot").alias("boot")).agg(
        F.min("seq").alias("seq"), F.min(F.when(is_start, F.col("seq"))).alias("started_seq")
    )
    last = F.max("boot").over(Window.orderBy("seq").rowsBetween(Window.unboundedPreceding, -1))
    unseen = boots.withColumn("last", last).where(
        (F.col("started_seq") == F.col("seq")) & ~F.col("boot").isin(F.col("last"), F.col("last") + 1)
    )
    return first.select(F.col("low").alias("seq")).union(gaps.select("seq")).union(unseen.select("seq")).distinct()


def _place(column: str) -> Column:
    """boot and number of an id, STORE-BOOT-NUMBER; null if it is not one."""
    parts = F.split(F.col(column), "-")
    boot, number = (F.get(parts, F.size(parts) - behind).try_cast("bigint") for behind in (2, 1))
    whole = F.struct(boot.alias("boot"), number.alias("number"))
    return F.when(boot.isNotNull() & number.isNotNull(), whole)


def _is_in_a_hole(place: Column, found: Column) -> Column:
    def holds(hole: Column) -> Column:
        after, before = hole.getField("after"), hole.getField("before")
        return (after.isNull() | (place > after)) & (before.isNull() | (place < before))

    return F.coalesce(F.exists(found, holds), F.lit(False))


def _texts(texts: tuple[str, ...]) -> Column:
    return F.array(*(F.lit(text) for text in texts))


def half_fanned(journal: DataFrame, gaps: DataFrame) -> DataFrame:
    """fanout_id, address, copies (how many there should be) and told (how many have an event)."""
    copies = journal.where(F.col("event") == COPIED)
    once = copies.groupBy("other_id", "message_id").agg(
        F.max("number").alias("copies"), F.min("address").alias("address")
    )
    found = once.groupBy(F.col("other_id").alias("fanout_id")).agg(
        F.min("address").alias("address"), F.max("copies").alias("copies"), F.count("*").alias("told")
    )
    half = found.where(F.col("told") != F.col("copies")).crossJoin(F.broadcast(gaps))
    is_cut = _is_in_a_hole(_place("fanout_id"), F.col("holes")) | F.array_contains("fanouts", F.col("fanout_id"))
    return half.where(~F.coalesce(is_cut, F.lit(False))).select("fanout_id", "address", "copies", "told")


def wrong(journal: DataFrame, stored: DataFrame | None, found: DataFrame) -> DataFrame:
    """Returns, for each message with a wrong verdict, message_id, verdict, queue (of its last event), and its events in
    order, as `SEQ EVENT`, and `stored` after them if it is stored.
    """
    bad = found.where(F.col("verdict").isin(*WRONG))
    events = journal.select("message_id", "seq", "event", "queue")
    became = journal.where(F.col("event").isin(DEAD_LETTERED, MOVED)).select(
        F.col("other_id").alias("message_id"), "seq", F.concat(F.lit("from "), "event").alias("event"),
        F.col("other_queue").alias("queue"),
    )  # fmt: skip
    events = events.union(became)
    if stored is not None:
        events = events.union(stored.select("message_id", F.lit(2**63 - 1), F.lit(STORED), "queue"))
    events = events.join(bad.select("message_id"), "message_id", "left_semi")
    stories = events.groupBy("message_id").agg(
        F.array_sort(F.collect_list(F.struct("seq", "event", "queue"))).alias("events")
    )
    line = F.transform("events", _line)
    return (
        bad.join(stories, "message_id", "left")
        .select(
            "message_id", "verdict", F.element_at("events", -1).getField("queue").alias("queue"), line.alias("events")
        )
        .orderBy("verdict", "message_id")
    )


def _line(one: Column) -> Column:
    event = one.getField("event")
    return F.when(event == STORED, event).otherwise(F.concat_ws(" ", one.getField("seq"), event))


def books(journal: DataFrame, stored: DataFrame | None) -> DataFrame:
    """queue, how many events of each kind it has, and how many of its messages are stored."""
    rows = journal.where(F.col("queue") != "").select("queue", "event")
    if stored is not None:
        rows = rows.union(stored.select("queue", F.lit(STORED)))
    kinds = [*(event for event in EVENTS if event not in (STARTED, DELETED)), STORED]
    return rows.groupBy("queue").agg(*(F.count_if(F.col("event") == kind).alias(kind) for kind in kinds))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="verdicts, wrong, half-fanned and books as Parquet in it")
    parser.add_argument("--no-snapshot", action="store_true", help="what is lost is not told from what is stored")


def run(spark: SparkSession, args: argparse.Namespace) -> int:
    journal, stored, boot = _read(spark, args)
    gaps = holes(journal, boot).cache()
    found = verdicts(journal, stored, gaps)
    if args.out:
        write_parquet(found, f"{args.out}/verdicts")
        found = read_parquet(spark, f"{args.out}/verdicts")
    counts = found.groupBy("verdict").agg(F.count("*").alias("messages")).orderBy(F.desc("messages")).cache()
    print_table(counts)
    half = half_fanned(journal, gaps).cache()
    bad = wrong(journal, stored, found).cache()
    is_wrong = not counts.where(F.col("verdict").isin(*WRONG)).isEmpty()
    if is_wrong:
        print("\nwrong")
        print_table(bad.withColumn("events", F.array_join("events", ", ")))
    if not half.isEmpty():
        is_wrong = True
        print(f"\n{HALF_FANNED}")
        print_table(half)
    if args.out:
        write_parquet(bad, f"{args.out}/wrong")
        write_parquet(half, f"{args.out}/{HALF_FANNED}")
        write_parquet(books(journal, stored), f"{args.out}/books")
    print("\nThe books do not close." if is_wrong else "\nEvery message is accounted for.")
    return int(is_wrong)


def _read(spark: SparkSession, args: argparse.Namespace) -> tuple[DataFrame, DataFrame | None, int | None]:
    """Returns the journal up to the cut of the last snapshot that it reaches, that snapshot, and its boot."""
    journal = read_journal(spark, args.archive)
    if args.no_snapshot:
        return journal, None, None
    if "://" in args.archive:
        raise JobFailed(f"the manifest of {args.archive} cannot be read from here: give --no-snapshot")
    contents = manifest.read(Path(args.archive))
    end = contents.next_of(JOURNAL, 0) or 0
    usable = [one for one in contents.snapshots if one.next <= end]
    if not usable:
        return journal, None, None
    last = usable[-1]
    stored = spark.read.parquet(str(Path(args.archive, last.file).absolute()))
    return journal.where(F.col("seq") < last.next), stored, last.boot


CONSERVE = Job("conserve", "Is every accepted message accounted for?", add_arguments, run)

if __name__ == "__main__":
    sys.exit(main(CONSERVE))
