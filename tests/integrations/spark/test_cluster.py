"""The jobs on a real standalone cluster of two workers, and over a Spark Connect server that is its driver.

All on loopback, each in a process of its own, started from the jars that PySpark brings; the server starts while the
first job runs.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Self

import pyspark
import pytest

from tests.broker_process import CHECKOUT, environment
from tests.integrations.spark.conftest import INTERPRETED, SHORT_LIVED
from tests.integrations.spark.journals import lively, spoil, write_log

HOME = Path(pyspark.__file__).parent
START_MAX_S, JOB_MAX_S, STOP_MAX_S = 120, 240, 10
WORKERS = 2
# each program has one executor on each worker, and one partition for it
PROGRAM = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": str(WORKERS),
           "spark.sql.shuffle.partitions": "2", **INTERPRETED,
           "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
           "spark.driver.extraJavaOptions": SHORT_LIVED}  # fmt: skip

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def settings(program: str, **more: str) -> list[str]:
    """Of spark-submit and of jobs. program: is found in the logs of its executors."""
    all_of_them = {**PROGRAM, "spark.executor.extraJavaOptions": f"{SHORT_LIVED} -Dprogram={program}", **more}
    return [f"--conf={name.replace('_', '.')}={value}" for name, value in all_of_them.items()]


class Process:
    """It runs within the block. pattern: what it says when it has started; its group is what is asked for."""

    def __init__(self, command: Sequence[str | Path], pattern: str, directory: Path, memory: str = "256m") -> None:
        own = {
            **environment(), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED, "SPARK_DAEMON_MEMORY": memory, "SPARK_NO_DAEMONIZE": "1",
        }  # fmt: skip
        self._lines: list[str] = []
        self._found: list[str] = []
        self._is_found = threading.Event()
        self._process = subprocess.Popen(
            [str(one) for one in command], cwd=directory, env=own, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(pattern,), daemon=True)
        self._reader.start()

    def _read(self, pattern: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            match = re.search(pattern, line)
            if match is not None and not self._found:
                self._found.append(match[1])
                self._is_found.set()
        self._is_found.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)  # a worker's executors too
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_MAX_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(STOP_MAX_S)

    def match_of(self) -> str:
        """Once it has started."""
        assert self._is_found.wait(START_MAX_S) and self._found, "".join(self._lines)
        return self._found[0]


class Cluster:
    """master: its URL. directories: what each worker has worked in. server: that of Spark Connect, its driver here."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        spark_class = HOME / "bin" / "spark-class"
        local = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(
            Process([spark_class, "org.apache.spark.deploy.master.Master", *local],
                    r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", directory)
        )  # fmt: skip
        self.master = master.match_of()
        self.directories = [directory / f"worker-{number}" for number in range(WORKERS)]
        workers = []
        for place in self.directories:
            place.mkdir()
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", *local, "--cores", "2", "--memory", "2g"]
            pattern = r"(Successfully registered with master)"
            workers.append(stack.enter_context(
                Process([*command, "--work-dir", place, self.master], pattern, directory)
            ))  # fmt: skip
        for worker in workers:
            worker.match_of()
        grpc = {"spark_connect_grpc_binding_address": "127.0.0.1", "spark_connect_grpc_binding_port": "0"}
        conf = settings("connect", spark_master=self.master, spark_sql_session_timeZone="UTC", **grpc)
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        submit = [HOME / "bin" / "spark-submit", *conf, "--class", server, "spark-internal"]
        self.server = stack.enter_context(
            Process(submit, r"Spark Connect server started at: (\S+)", directory, memory="1g")
        )  # fmt: skip

    def have_worked(self, program: str) -> int:
        """How many workers have had an executor for it."""
        logs = [[one.read_text() for one in place.glob("app-*/*/stderr")] for place in self.directories]
        return sum(any(f"-Dprogram={program}" in log for log in those) for those in logs)


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
    where = ["--archive", str(archive[0]), "--master", cluster.master, "--out", str(tmp_path / "out")]
    done = run([str(CHECKOUT / "examples/spark/latency.py"), *where, *settings("latency")], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^orders +accept-ack +\d+ ", done.stdout, re.MULTILINE)
    assert list((tmp_path / "out").glob("*.parquet"))
    assert cluster.have_worked("latency") == WORKERS


OVER_CONNECT = """
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
    """The server is the driver on that cluster, and its Python workers map and reduce; functions, and a job."""
    place, wrong = archive
    remote = f"sc://127.0.0.1:{cluster.server.match_of().rpartition(':')[2]}"
    done = run(["-c", OVER_CONNECT, remote, str(place)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"one": 1, "two": 1, "red": 1, "blue": 1, "fish": 4}, wrong]
    done = run([str(CHECKOUT / "examples/spark/deadletters.py"), "--archive", str(place), "--remote", remote], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\w+ +dead-lettered +rejected +dead ", done.stdout, re.MULTILINE), done.stdout
    assert cluster.have_worked("connect") == WORKERS
