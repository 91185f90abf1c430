"""The driver's program. It ends when a query does.

`python -m tests.integrations.spark.crashes.driver OPTIONS PIPELINE...`, the options of the broker as JSON
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from tests.integrations.spark.crashes.steps import EARLY, PLACE, Failed, Stopped, here

ROWS = 40  # of one batch that is written as such
FIRST_MAX_S = 15.0
HERE = Path(os.environ[PLACE])


def session() -> SparkSession:
    """Two tasks at once, each of which may fail three times."""
    found = (
        SparkSession.builder.master("local[2,4]")
        .appName("crashes")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.extraJavaOptions", "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.warehouse.dir", str(HERE / "warehouse"))
        .config("spark.local.dir", str(HERE / "local"))
        .getOrCreate()
    )
    found.dataSource.register(Stopped)
    return found


class Pipelines:
    """By their names."""

    def __init__(self, spark: SparkSession, broker: dict[str, str]) -> None:
        """broker: where it is, and the login, as options."""
        self._spark = spark
        self._broker = broker

    def start(self, name: str) -> None:
        """A stream."""
        {
            "files": lambda: self._to_files(name, self._log()),
            "drain": lambda: self._to_files(name, self._queue("work")),
            "copy": lambda: self._to_queue(name, "exactlyOnce"),
            "twice": lambda: self._to_queue(name, "atLeastOnce"),
            "early": lambda: self._to_files(name, self._queue(EARLY)),
        }[name]()

    def _read(self, most: int = 1000, **options: str) -> DataFrame:
        return (
            self._spark.readStream.format("stopped")
            .options(**self._broker, maxOffsetsPerTrigger=most, pollTimeoutMs="200", **options)
            .load()
        )

    def _log(self) -> DataFrame:
        return self._read(subscribe="in", startingOffsets="earliest")

    def _queue(self, queue: str) -> DataFrame:
        if queue != EARLY:
            return self._read(subscribe=queue, mode="checkout", group="etl")
        # small, so that its batches last until one of them is killed
        return self._read(10, subscribe=queue, mode="checkout", group="etl", failOnDataLoss="false")

    def _to_files(self, name: str, source: DataFrame) -> None:
        directory = HERE / name
        directory.mkdir(exist_ok=True)

        def write(frame: DataFrame, batch: int) -> None:
            rows = [[row.partition, row.offset, bytes(row.value).decode()] for row in frame.collect()]
            temporary, final = directory / f".{batch}", directory / f"{batch}.json"
            temporary.write_text(json.dumps(rows))
            here("before the batch's file")
            temporary.replace(final)
            here("behind the batch's file")

        self._run(name, source.writeStream.foreachBatch(write))

    def _to_queue(self, name: str, delivery: str) -> None:
        writer = self._log().select("value").writeStream.format("stopped")
        self._run(name, writer.options(**self._broker, destination=f"/queue/{name}", delivery=delivery))

    def _run(self, name: str, writer: DataStreamWriter) -> None:
        query = writer.option("checkpointLocation", str(HERE / "checkpoints" / name)).queryName(name).start()
        # the first has begun before the second does: Spark 4.3 changes a map while another query's task is pickled
        end_s = time.monotonic() + FIRST_MAX_S
        while len(self._spark.streams.active) == 1 and not query.lastProgress and time.monotonic() < end_s:
            time.sleep(0.05)

    def write_batch(self) -> bool:
        """The next one, and whether it has succeeded: the file says how many have."""
        done = HERE / "batches"
        version = int(done.read_text()) if done.exists() else 0
        rows = self._spark.range(version * ROWS, (version + 1) * ROWS, 1, 2)
        writer = rows.select(F.concat(F.lit("batches-"), F.col("id")).alias("value")).write.format("stopped")
        writer = writer.options(**self._broker, destination="/queue/batches", txnAppId="batches", txnVersion=version)
        try:
            writer.mode("append").save()
        except (PySparkException, Failed) as why:
            sys.stderr.write(f"batch {version}: {str(why)[:300]}\n")
            return False
        temporary = done.with_name(".batches")
        temporary.write_text(str(version + 1))
        temporary.replace(done)
        return True


def main() -> None:
    broker, names = json.loads(sys.argv[1]), sys.argv[2:]
    spark = session()
    pipelines = Pipelines(spark, broker)
    for name in names:
        if name != "batches":
            pipelines.start(name)
    (HERE / "ready").touch()
    has_written = False
    while True:
        if has_written and (HERE / "no-more-batches").exists():
            (HERE / "batches-are-written").touch()
        elif "batches" in names:
            # at the end too, so that one that was committed and not noted is noted
            has_written = pipelines.write_batch() or has_written
        spark.streams.awaitAnyTermination(0.3)


if __name__ == "__main__":
    main()
