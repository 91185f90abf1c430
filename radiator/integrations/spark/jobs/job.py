"""Provides what every job needs: its arguments, its session, the archive that it reads, and the sentence for a
failure.
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyspark.sql.functions as F
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from radiator.client.address import DEFAULT_ADDRESS
from radiator.integrations.spark.jobs.progress import JobProgress
from radiator.model.errors import EXIT_USAGE, RadiatorError
from radiator.model.settings import JOURNAL
from radiator.tools.cli.text import printable, table

SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOG4J = "LOG4J_CONFIGURATION_FILE"  # the environment variable in which Log4j looks for its configuration
ERRORS_ONLY = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
LOCAL = "local[*]"
ROWS_SHOWN = 40
SENTENCE_CHARS = 500
_RAISED = re.compile(r"^[\w.]+(Error|Exception|Loss|Lost|Answer|Refusal): ")  # the end of a traceback


class JobFailed(RadiatorError):
    """The job cannot be done as requested."""


class Job(NamedTuple):
    """add_arguments: those of this job alone, after the common ones; run: does the job, returns the exit status."""

    name: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[SparkSession, argparse.Namespace], int]


def main(job: Job, argv: Sequence[str] | None = None) -> int:
    """Runs a job. Returns the exit status: the job's own, or 2 if it cannot be done, with a sentence on stderr."""
    args = parser(job).parse_args(argv)
    try:
        return with_session(job, args)
    except (RadiatorError, PySparkException) as error:
        print(f"{job.name}: {printable(sentence(error))}", file=sys.stderr)
        return EXIT_USAGE


def with_session(job: Job, args: argparse.Namespace) -> int:
    with errors_only() if args.quiet else nullcontext():
        spark = session(job.name, args)
        try:
            with nullcontext() if args.quiet else JobProgress(spark, is_remote=bool(args.remote)):
                return job.run(spark, args)
        finally:
            spark.stop()


@contextmanager
def errors_only() -> Iterator[None]:
    """Has a JVM that is started here log errors only; it would log its start before any setting of Spark applies."""
    if LOG4J in os.environ:  # the user's own
        yield
        return
    with tempfile.TemporaryDirectory(prefix="radiator-") as directory:
        configuration = Path(directory, "log4j2.properties")
        configuration.write_text(ERRORS_ONLY)
        os.environ[LOG4J] = str(configuration)
        try:
            yield
        finally:
            del os.environ[LOG4J]


def parser(job: Job) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -m radiator.spark.jobs.{job.name}", description=job.description)
    made.add_argument("--archive", metavar="DIR", required=True, help="what `radiator archive` writes")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="URL", help=f"of a Spark cluster; {LOCAL} without it, or spark-submit's")
    where.add_argument("--remote", metavar="URL", help="of a Spark Connect server, sc://HOST:PORT")
    made.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], type=_setting, help="of Spark")
    made.add_argument("--quiet", action="store_true", help="no progress, and of Spark's log errors only")
    job.add_arguments(made)
    return made


def add_broker(made: argparse.ArgumentParser) -> None:
    """Adds the arguments that say where a job's broker is, and its login there."""
    made.add_argument("--url", metavar="URL", default=DEFAULT_ADDRESS, help=f"of the broker; {DEFAULT_ADDRESS}")
    made.add_argument("--user", metavar="NAME", help="log in as this user of the broker")
    files = {
        "--password-file": "its first line is the user's password, or token",
        "--ca": "with stomps://: the CAs in PEM that its certificate must come from; without it those of the system",
        "--certificate": "with stomps://: your own certificate in PEM, where the broker wants one",
        "--key": "its private key in PEM, if not in the same file",
    }
    for name, text in files.items():
        made.add_argument(name, metavar="FILE", help=text)


def broker_options(args: argparse.Namespace) -> dict[str, str]:
    """Returns the broker arguments as options of `format("radiator")`."""
    given = {
        "url": args.url,
        "user": args.user,
        "passwordFile": args.password_file,
        "caFile": args.ca,
        "certificateFile": args.certificate,
        "keyFile": args.key,
    }
    return {name: value for name, value in given.items() if value is not None}


def session(name: str, args: argparse.Namespace) -> SparkSession:
    """Returns a session of the cluster or server asked for. Its workers' Python is this one, or PYSPARK_PYTHON."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"radiator {name}")
    if args.remote:
        spark = builder.remote(args.remote).getOrCreate()
        for key, value in {"spark.sql.session.timeZone": "UTC", **dict(args.conf)}.items():
            spark.conf.set(key, value)
        return spark
    own = dict(SETTINGS)
    if args.master or "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has it, and a master of its own
        own["spark.master"] = args.master or LOCAL
    if own.get("spark.master", "").startswith("local"):
        # each of Spark's default 200 costs some milliseconds, even if it is empty
        partitions = str(4 * (os.cpu_count() or 1))
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        own |= {"spark.sql.shuffle.partitions": partitions}
    for key, value in {**own, **dict(args.conf)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read_log(spark: SparkSession, archive: str, log: str, schema: StructType | None = None) -> DataFrame:
    """Returns what the archive has of a log. Raises JobFailed if it has nothing."""
    reader = spark.read if schema is None else spark.read.schema(schema)
    try:
        frame = reader.parquet(f"{_absolute(archive)}/log={quote(log, safe='$ ')}")  # as the archive names it
        frame.schema  # noqa: B018  over Spark Connect it is only looked for now
    except AnalysisException as error:
        raise JobFailed(f"{archive} has nothing of the log {log!r} ({sentence(error)})") from None
    return frame


def read_journal(spark: SparkSession, archive: str) -> DataFrame:
    return read_log(spark, archive, JOURNAL)


def print_table(frame: DataFrame, rows: int = ROWS_SHOWN) -> None:
    """Prints the first rows, aligned, times in UTC; and whether there are more."""
    times = [field.name for field in frame.schema.fields if isinstance(field.dataType, TimestampType)]
    plain = frame.limit(rows + 1)
    for name in times:
        plain = plain.withColumn(name, F.col(name).cast("string"))
    found = plain.collect()
    print(table(frame.columns, [[_cell(value) for value in row] for row in found[:rows]]))
    if len(found) > rows:
        print(f"... and more than these {rows}")


def write_parquet(frame: DataFrame, place: str) -> None:
    """Writes one directory of Parquet; what was there is replaced."""
    frame.write.mode("overwrite").parquet(_absolute(place))


def read_parquet(spark: SparkSession, place: str) -> DataFrame:
    """Returns what `write_parquet` wrote."""
    return spark.read.parquet(_absolute(place))


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _cell(value: Any) -> str | int:
    if isinstance(value, bool | float) or value is None:
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return value if isinstance(value, int) else str(value)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def sentence(error: Exception) -> str:
    """Returns what went wrong, in one line: the first, or the last of a Python traceback within Spark."""
    lines = [line for line in str(error).strip().split("\n") if line.strip()] or [""]
    first = lines[0]
    if "Traceback (most recent call last)" in first:
        inner = [line for line in lines if _RAISED.match(line)]
        first = _RAISED.sub("", inner[-1]) if inner else first
    return first[:SENTENCE_CHARS]
