"""The jobs on a real standalone cluster of two workers, and over a Spark Connect server that is its driver.

All on loopback, each in a process of its own, started from the jars that PySpark brings.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pyspark
import pytest

from tests.broker_process import environment
from tests.spark.journals import lively, spoil, write_log

HOME = Path(pyspark.__file__).parent
START_MAX_S, JOB_MAX_S, STOP_MAX_S = 120, 240, 10
EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "2",
             "spark.sql.adaptive.enabled": "false",
             "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
             "spark.executor.extraJavaOptions": "-XX:+UseSerialGC"}  # fmt: skip

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@contextmanager
def process(command: Sequence[str | Path], says: str, directory: Path, memory: str = "256m") -> Iterator[str]:
    """It runs within the block; the group of `says`, found in what it has said."""
    own = {
        **environment(), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC", "SPARK_DAEMON_MEMORY": memory, "SPARK_NO_DAEMONIZE": "1",
    }  # fmt: skip
    running = subprocess.Popen(
        [str(one) for one in command], cwd=directory, env=own, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    found: list[str] = []
    is_told = threading.Event()

    def read() -> None:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line)
            match = re.search(says, line)
            if match is not None and not found:
                found.append(match[1])
                is_told.set()
        is_told.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert is_told.wait(START_MAX_S) and found, "".join(lines)
        yield found[0]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)  # a worker's executors too
        with suppress(subprocess.TimeoutExpired):
            running.wait(STOP_MAX_S)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        reader.join(STOP_MAX_S)


class Cluster:
    """master and remote: their URLs. directories: what each worker has worked in."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        spark_class = HOME / "bin" / "spark-class"
        local = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.master = stack.enter_context(
            process([spark_class, "org.apache.spark.deploy.master.Master", *local],
                    r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", directory)
        )  # fmt: skip
        self.directories = [directory / f"worker-{number}" for number in range(2)]
        for place in self.directories:
            place.mkdir()
            stack.enter_context(
                process([spark_class, "org.apache.spark.deploy.worker.Worker", *local, "--cores", "1", "--memory", "1g",
                         "--work-dir", place, self.master], r"(Successfully registered with master)", directory)
            )  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A journal with what is wrong in it, and a log."""
    directory = tmp_path_factory.mktemp("archive")
    journal = lively(4, 400)
    wrong, _ = spoil(journal, Random(4))
    journal.write(directory)
    write_log(directory, "texts", [[b"one fish two fish"], [b"red fish", b"blue fish"]])
    return directory, wrong


def run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    own = {**environment(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run([sys.executable, *command], cwd=directory, env=own, capture_output=True, text=True,
                          timeout=JOB_MAX_S)  # fmt: skip


def test_on_a_cluster_of_two_workers(cluster: Cluster, archive: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    conf = [f"--conf={name}={value}" for name, value in EXECUTORS.items()]
    where = ["--archive", str(archive[0]), "--master", cluster.master, "--out", str(tmp_path / "out"), *conf]
    done = run(["-m", "radiator.spark.jobs.latency", *where], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^orders +accept-ack +\d+ ", done.stdout, re.MULTILINE)
    assert list((tmp_path / "out").glob("*.parquet"))
    assert all(list(place.glob("app-*/*/stderr")) for place in cluster.directories), "both have worked"


PROGRAM = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from radiator.spark.jobs.conserve import holes, verdicts
from radiator.spark.jobs.job import read_journal, read_log
from radiator.spark.jobs.mapreduce import WORKS, map_reduce
remote, archive = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
words = map_reduce(read_log(spark, archive, "texts"), WORKS["count-words"])
journal, stored = read_journal(spark, archive), spark.read.parquet(str(next(Path(archive, "_snapshots").iterdir())))
wrong = verdicts(journal, stored, holes(journal)).where("verdict in ('lost', 'doubled', 'ghost')")
print(json.dumps([{row.key: json.loads(row.value) for row in words.collect()},
                  {row.message_id: row.verdict for row in wrong.collect()}]))
spark.stop()
"""


def test_over_spark_connect(cluster: Cluster, archive: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """The server is the driver on that cluster, and its Python workers map and reduce; a job, and its functions."""
    place, wrong = archive
    settings = {**EXECUTORS, "spark.connect.grpc.binding.port": "0", "spark.connect.grpc.binding.address": "127.0.0.1",
                "spark.master": cluster.master, "spark.sql.session.timeZone": "UTC"}  # fmt: skip
    conf = [f"--conf={name}={value}" for name, value in settings.items()]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = [HOME / "bin" / "spark-submit", *conf, "--class", server, "spark-internal"]
    with process(submit, r"Spark Connect server started at: (\S+)", tmp_path, memory="1g") as address:
        remote = f"sc://127.0.0.1:{address.rpartition(':')[2]}"
        done = run(["-c", PROGRAM, remote, str(place)], tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [{"one": 1, "two": 1, "red": 1, "blue": 1, "fish": 4}, wrong]
        done = run(["-m", "radiator.spark.jobs.deadletters", "--archive", str(place), "--remote", remote], tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^\w+ +dead-lettered +rejected +dead ", done.stdout, re.MULTILINE), done.stdout
