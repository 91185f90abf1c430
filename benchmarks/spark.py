"""How fast Spark reads and writes, how late a row is, and what it costs the broker: `python -m benchmarks.spark`.

One broker, one Spark in local[2] on the same machine, so that each has half of it. `--json docs/bench/spark.json` keeps
the figures; docs/SPARK.md tells what they mean. Each round has a fresh broker with fresh data; a figure is the median
of the rounds. Before each rate something small is read or written in the same way: the first time loads classes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.host import host
from benchmarks.log_read import append, say
from benchmarks.peers import CHECKOUT
from benchmarks.processes import Launch, Running, running
from benchmarks.rounds import Figures, number_of_rounds, rounded, spreads
from radiator.client import Client
from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:{port}"]
data_dir = "data"
map_size = "8GiB"
[create]
queues = true
[log."long"]
[log."wide"]
partitions = 2
[log."lag"]
"""
BATCH = 100_000  # records of a micro-batch, where a stream tails a backlog
SINK_SHARE = 10  # that part of the records is written to a queue
LAG_PER_S = 50
WARM_S = 5.0
FIGURES = {
    "append_per_s": "records/s: SENDs to the log, raw socket",
    "tail_per_s": "rows/s: stream of the log over STOMP, noop sink, 1 partition",
    "tail_cpu_us": "µs of the broker's CPU for each of them",
    "read_1_per_s": "rows/s: batch over STOMP, 1 task",
    "read_2_per_s": "rows/s: batch over STOMP, 2 partitions, 2 tasks",
    "archive_write_per_s": "records/s: radiator archive, its start included",
    "archive_read_per_s": "rows/s: Spark's own reader of that Parquet",
    "receipts_per_s": "rows/s: sink, delivery=atLeastOnce",
    "receipts_cpu_us": "µs of the broker's CPU for each of them",
    "staged_per_s": "rows/s: sink, delivery=exactlyOnce, until commit has returned",
    "staged_cpu_us": "µs of the broker's CPU for each of them, until all is in the queue",
    "lag_p50_ms": "ms from SEND to the row in foreachBatch, default trigger, p50",
    "lag_p99_ms": "the same, p99",
    "idle_cpu_percent": "% of a core: the broker, while a stream waits for something new",
    "sent_cpu_percent": f"% of a core: the broker, {LAG_PER_S} SENDs/s, nobody reads",
    "tailed_cpu_percent": f"% of a core: the broker, {LAG_PER_S} SENDs/s, tailed",
}


class Bench:
    """One round. figures: by name, as they are taken."""

    def __init__(self, spark: "SparkSession", broker: Running, directory: Path, records: int, size: int) -> None:
        self.figures: Figures = {}
        self._spark = spark
        self._broker = broker
        self._directory = directory
        self._records = records
        self._size = size
        self._url = f"stomp://127.0.0.1:{broker.port}"

    def rates(self) -> None:
        """Of a log of so many records, that of a stream with the broker's CPU."""
        records, port = self._records, self._broker.port
        self._note("append_per_s", append(port, b"long", records, self._size))
        append(port, b"wide", records, self._size)
        append(port, b"lag", 1, self._size)
        self._tail("lag")
        seconds, cpu_s = self._timed(lambda: self._tail("long"))
        self._note("tail_per_s", records / seconds)
        self._note("tail_cpu_us", cpu_s / records * 1e6)
        _consume(self._read("lag"))
        for tasks, log in ((1, "long"), (2, "wide")):
            seconds, _ = self._timed(partial(_consume, self._read(log)))
            self._note(f"read_{tasks}_per_s", records / seconds)

    def archive(self) -> None:
        """Written by a process of its own, read by Spark without the broker."""
        to = self._directory / "broker" / "archive"
        words = [
            "archive",
            "--config",
            str(self._directory / "broker" / "config.toml"),
            "--to",
            str(to),
            "--log",
            "long",
        ]
        command = [sys.executable, "-m", "radiator", *words]
        seconds, _ = self._timed(lambda: subprocess.run(command, check=True, cwd=CHECKOUT, stdout=subprocess.DEVNULL))
        self._note("archive_write_per_s", self._records / seconds)
        found = self._spark.read.parquet(str(to / "log=long"))
        assert found.count() == self._records, f"the archive has {found.count()} of {self._records} records"
        _consume(found)
        seconds, _ = self._timed(lambda: _consume(found))
        self._note("archive_read_per_s", self._records / seconds)

    def sinks(self) -> None:
        """Rows of the same size into queues, from two tasks. All of them must be there then."""
        from pyspark.sql import functions as F

        count = self._records // SINK_SHARE
        rows = self._spark.range(0, count, 1, 2).select(F.lit("x" * self._size).alias("value"))
        for figure, delivery in (("receipts", "atLeastOnce"), ("staged", "exactlyOnce")):
            self._write(rows.limit(10), f"{figure}-warm", delivery)
            before_s = self._broker.cpu_s()
            seconds, _ = self._timed(partial(self._write, rows, figure, delivery))
            self._note(f"{figure}_per_s", count / seconds)
            with Client(self._url) as client:
                while client.admin({"do": "prepared"})["prepared"]:
                    time.sleep(0.05)
                there = client.admin({"do": "describe", "queue": figure})["messages"]
            assert there == count, f"/queue/{figure} has {there} of {count} rows"
            self._note(f"{figure}_cpu_us", (self._broker.cpu_s() - before_s) / count * 1e6)

    def lag(self, seconds: float) -> None:
        """From just before the SEND to where foreachBatch has the rows, both by this machine's clock."""
        late_ms: list[float] = []

        def sink(frame: "DataFrame", _: int) -> None:
            found = [row.value for row in frame.collect()]
            now_s = time.time()
            late_ms.extend((now_s - float(value)) * 1000 for value in found)

        with self._streaming("lag", sink, startingOffsets="latest"):
            self._send(WARM_S)
            late_ms.clear()
            self._note("idle_cpu_percent", self._busy(seconds / 2, lambda: time.sleep(seconds / 2)))
            late_ms.clear()
            self._note("tailed_cpu_percent", self._busy(seconds, lambda: self._send(seconds)))
            time.sleep(1)
        assert late_ms, "no row came"
        self._note("lag_p50_ms", statistics.median(late_ms))
        self._note("lag_p99_ms", sorted(late_ms)[len(late_ms) * 99 // 100])
        self._note("sent_cpu_percent", self._busy(seconds, lambda: self._send(seconds)))

    def _note(self, name: str, figure: float) -> None:
        self.figures[name] = rounded(figure)
        say(f"{self.figures[name]:12,.12g}  {FIGURES[name]}")

    def _timed(self, do: Callable[[], Any]) -> tuple[float, float]:
        """Seconds, and those of the broker's CPU."""
        began_s, cpu_s = time.perf_counter(), self._broker.cpu_s()
        do()
        return time.perf_counter() - began_s, self._broker.cpu_s() - cpu_s

    def _busy(self, seconds: float, do: Callable[[], Any]) -> float:
        _, cpu_s = self._timed(do)
        return 100 * cpu_s / seconds

    def _send(self, seconds: float) -> None:
        """So many a second, evenly; each says when."""
        begin_s = time.monotonic()
        with Client(self._url) as client:
            for number in range(int(seconds * LAG_PER_S)):
                time.sleep(max(0.0, begin_s + number / LAG_PER_S - time.monotonic()))
                client.send("/log/lag", str(time.time()), confirm=None)
            client.flush()
        time.sleep(max(0.0, begin_s + seconds - time.monotonic()))

    def _read(self, log: str) -> "DataFrame":
        return self._spark.read.format("radiator").options(url=self._url, subscribe=log).load()

    def _stream(self, log: str, **options: str) -> "DataFrame":
        return self._spark.readStream.format("radiator").options(url=self._url, subscribe=log, **options).load()

    def _tail(self, log: str) -> None:
        frame = self._stream(log, startingOffsets="earliest", maxOffsetsPerTrigger=str(BATCH))
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query: StreamingQuery = writer.trigger(availableNow=True).start()
            query.awaitTermination()

    @contextmanager
    def _streaming(self, log: str, sink: "Callable[[DataFrame, int], None]", **options: str) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = self._stream(log, **options).writeStream.foreachBatch(sink)
            query = writer.option("checkpointLocation", checkpoint).start()
            try:
                while not query.recentProgress and query.isActive:
                    time.sleep(0.1)
                yield
            finally:
                query.stop()

    def _write(self, rows: "DataFrame", queue: str, delivery: str) -> None:
        options = {"url": self._url, "destination": f"/queue/{queue}", "delivery": delivery}
        rows.write.format("radiator").options(**options).mode("append").save()


def _consume(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


@contextmanager
def session(directory: Path) -> "Iterator[SparkSession]":
    """Two tasks at once; what it leaves lies in `directory`."""
    from pyspark.sql import SparkSession

    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, PYTHONPATH=path)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("benchmarks")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", "-Xss4m")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rounds", type=number_of_rounds, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement of lag and CPU")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    port = free_port()
    launch = Launch(
        commands=[[sys.executable, "-m", "radiator", "serve", "--config", "config.toml"]],
        port=port,
        environment={"PYTHONPATH": str(CHECKOUT)},
        files={"config.toml": CONFIG.format(port=port)},
    )
    with tempfile.TemporaryDirectory(prefix="radiator-spark-") as temporary:
        directory = Path(temporary)
        machine = host(directory)
        rounds: list[Figures] = []
        began_s = time.perf_counter()
        with session(directory) as spark:
            say(f"{time.perf_counter() - began_s:12.1f}  s: the session's start")
            for number in range(1, wanted.rounds + 1):
                say(f"round {number} of {wanted.rounds}")
                with running(launch, directory / "broker") as broker:
                    bench = Bench(spark, broker, directory, wanted.records, wanted.bytes)
                    bench.rates()
                    bench.archive()
                    bench.sinks()
                    bench.lag(wanted.seconds)
                rounds.append(bench.figures)
    found = spreads(rounds)
    say(f"{wanted.rounds} rounds: median (least to most)")
    for name, spread in found.items():
        say(f"{spread}  {FIGURES[name]}")
    if wanted.json is not None:
        reported = {
            "format": 1,
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": machine,
            "settings": {name: getattr(wanted, name) for name in ("rounds", "records", "bytes", "seconds")},
            "figures": {name: spread.median for name, spread in found.items()},
            "spread": {name: [spread.least, spread.most] for name, spread in found.items()},
            "rounds": rounds,
        }
        wanted.json.write_text(json.dumps(reported, indent=1) + "\n")


if __name__ == "__main__":
    main()
