"""What all jobs have: arguments, the archive, tables, progress; and a sentence instead of a traceback."""

import argparse
import io
import os
from datetime import UTC, datetime
from pathlib import Path

import deadletters
import latency
import pyspark.sql.functions as F
import pytest
import skew
from pyspark.sql import SparkSession

from radiator.integrations.spark.jobs import conserve, mapreduce, replay
from radiator.integrations.spark.jobs.job import (
    LOG4J,
    Job,
    JobFailed,
    errors_only,
    main,
    parser,
    print_table,
    read_journal,
    read_log,
    write_parquet,
)
from radiator.integrations.spark.jobs.progress import JobProgress, Stage
from tests.integrations.spark.journals import Journal, lively, write_log

JOBS = [
    conserve.CONSERVE, deadletters.DEADLETTERS, latency.LATENCY, mapreduce.MAPREDUCE, replay.REPLAY, skew.SKEW,
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("interpreted")


def arguments(job: Job, *more: str) -> argparse.Namespace:
    return parser(job).parse_args(["--archive", "archive", *more])


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_tells_its_options(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(job, ["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: python -m radiator.spark.jobs.{job.name} ")
    assert all(option in printed for option in ("--archive", "--master", "--remote", "--conf", "--quiet"))


@pytest.mark.parametrize(
    ("job", "more"),
    [
        (latency.LATENCY, ["--conf", "spark.ui.enabled"]),
        (latency.LATENCY, ["--master", "local", "--remote", "sc://127.0.0.1"]),
        (replay.REPLAY, ["--log", "clicks"]),
        (replay.REPLAY, ["--log", "clicks", "--to", "/queue/q", "--rate", "0"]),
        (replay.REPLAY, ["--log", "clicks", "--to", "/queue/q", "--rate", "100001"]),
        (mapreduce.MAPREDUCE, ["--queue", "jobs", "--work", "words"]),
        (mapreduce.MAPREDUCE, ["--queue", "jobs", "--work", "words=no.such.module:WORDS"]),
        (mapreduce.MAPREDUCE, ["--queue", "jobs", "--work", "words=json:dumps"]),
    ],
)
def test_what_cannot_be_said(job: Job, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(job, *more)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_what_quiet_says_to_log4j(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are said. A configuration of the user's own is let be. What a job says then: test_example.py."""
    monkeypatch.delenv(LOG4J, raising=False)
    with errors_only():
        configuration = Path(os.environ[LOG4J])
        assert "rootLogger.level = error\n" in configuration.read_text()
    assert LOG4J not in os.environ and not configuration.exists()
    monkeypatch.setenv(LOG4J, "mine")
    with errors_only():
        assert os.environ[LOG4J] == "mine"
    assert os.environ[LOG4J] == "mine"


def test_a_log_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """Characters that a path may not have, or that Spark would take for a pattern, are no matter."""
    for name in ("clicks", "a/b", "$checkout/q*[1]/g{x}"):
        write_log(tmp_path, name, [[name.encode()]])
        (row,) = read_log(spark, str(tmp_path), name).collect()
        assert (row.log, bytes(row.value)) == (name, name.encode())
    with pytest.raises(JobFailed, match="has nothing of the log 'journal'"):
        read_journal(spark, str(tmp_path))


def test_a_table_says_times_in_utc_and_that_there_is_more(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [(number, f"\x1b[31m{number}", 0.25, None) for number in range(5)]
    frame = spark.createDataFrame(rows, "n int, `odd name` string, share double, missing string")
    time = F.lit(datetime(2026, 11, 21, 8, tzinfo=UTC))
    print_table(frame.withColumn("ts", time).orderBy("n"), rows=3)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["n", "odd", "name", "share", "missing", "ts"]
    assert printed[1].split() == ["0", r"\x1b[31m0", "0.25", "2026-11-21", "08:00:00"]
    assert printed[4:] == ["... and more than these 3"]
    write_parquet(frame, str(tmp_path / "out"))
    write_parquet(frame.limit(2), str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2


def test_conserve_says_what_is_wrong_and_exits_with_1(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    journal = Journal()
    journal.start(1)
    lost, _ = journal.accept("orders"), journal.accept("orders")
    journal.stored.pop(lost)
    journal.write(tmp_path)
    args = parser(conserve.CONSERVE).parse_args(["--archive", str(tmp_path), "--out", str(tmp_path / "out")])
    assert conserve.run(spark, args) == 1
    printed = capsys.readouterr().out
    assert "0 started" not in printed and "1 accepted" in printed and "The books do not close." in printed
    kept = {row.verdict for row in spark.read.parquet(str(tmp_path / "out" / "verdicts")).collect()}
    assert kept == {"lost", "stored"}


def test_conserve_exits_with_0_where_all_is_right(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lively(7, 60).write(tmp_path)
    assert conserve.run(spark, parser(conserve.CONSERVE).parse_args(["--archive", str(tmp_path)])) == 0
    assert "Every message is accounted for." in capsys.readouterr().out


def test_the_other_jobs_run_on_an_archive(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lively(8, 60).write(tmp_path)
    write_log(tmp_path, "clicks", [[b"a"], [b"b", b"c"]])
    page, out = str(tmp_path / "page.html"), str(tmp_path / "out")
    for job, more in [
        (latency.LATENCY, ["--html", page, "--out", out]),
        (skew.SKEW, ["--log", "clicks", "--out", out]),
        (deadletters.DEADLETTERS, ["--queue", "orders", "--out", out]),
    ]:
        assert job.run(spark, parser(job).parse_args(["--archive", str(tmp_path), *more])) == 0
    printed = capsys.readouterr().out
    assert "accept-ack" in printed and "partitions with the most" in printed and "dead_letter" in printed
    assert "<svg" in Path(page).read_text()


def test_progress(spark: SparkSession) -> None:
    """Its line, by hand; and that it looks at Spark's own numbers."""
    progress = JobProgress(spark, out=io.StringIO())
    assert progress.line() == ""
    progress.stages = {("", 0): Stage(4, 4), ("", 1): Stage(8, 3), ("", 2): Stage(0, 0)}
    assert progress.line() == "1 of 3 stages done, 3 of 8 tasks of what runs"
    progress.stages = {("", 0): Stage(1, 0)}
    assert progress.line() == "0 of 1 stage done, 0 of 1 task of what runs"
    with JobProgress(spark, out=io.StringIO(), quiet_s=0, look_s=0.02) as looking:
        spark.range(2000, numPartitions=8).select(F.udf(lambda n: n)("id")).groupBy().count().collect()
    assert looking.out.getvalue().endswith("\n")  # type: ignore[attr-defined]
    assert " done" in looking.out.getvalue()  # type: ignore[attr-defined]
