"""One Spark session for every test that asks for `spark`, and one broker for each module that asks for `broker`.

Where Java 17 or PySpark is missing, the modules that need them are skipped, and say so; with CI=true they fail.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.append(str(CHECKOUT / "examples" / "spark"))  # the jobs that are examples are programs, and in no package

CONFIG = """\
[create]
queues = true
topics = true

[journal]
enabled = true
"""
# of a JVM that lives for a minute: its second compiler would take as long as all the rest
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
CONNECT_MAX_S = "60"  # between the JVM and Python; of 15 s a busy machine may need more
# of a few hundred rows, to plan them twice and to compile what is done to them would take most of the time
INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
GET_JAVA = "on Debian or Ubuntu: apt install openjdk-17-jre-headless, then scripts/setup test"


def missing() -> str:
    """A sentence; empty where Spark can run."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    printed = ""
    if java is not None and os.path.exists(java):
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < 17:
        return f"Spark needs Java 17 or later, and there is {'none' if version is None else version[1]}; {GET_JAVA}."
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        return "PySpark is not installed: scripts/setup test does it where there is Java 17."
    return ""


MISSING = missing()
NEED_PYSPARK = ("pyspark", "radiator.spark.jobs", "radiator.spark.sink", "radiator.spark.source")


class Absent(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self) -> list[pytest.Item]:
        if os.environ.get("CI") == "true":
            raise self.CollectError(f"{MISSING} With CI=true that is a failure.")
        pytest.skip(MISSING, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    source = module_path.read_text(encoding="utf-8") if MISSING else ""
    if any(name in source for name in NEED_PYSPARK):
        return Absent.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            fixtures = getattr(item, "fixturenames", ())
            if "spark" in fixtures:
                item.add_marker(pytest.mark.spark)
            if "spark" in fixtures or "broker" in fixtures:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Small: two tasks at once, no page of its own, one partition behind a shuffle."""
    from pyspark.sql import SparkSession

    directory = tmp_path_factory.mktemp("spark")
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", path)
        patch.setenv("SPARK_AUTH_SOCKET_TIMEOUT", CONNECT_MAX_S)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("tests of Radiator")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.python.authenticate.socketTimeout", f"{CONNECT_MAX_S}s")
            .config("spark.driver.extraJavaOptions", f"-Xss4m {SHORT_LIVED}")
            .config("spark.log.level", "OFF")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .config("spark.local.dir", str(directory / "local"))
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With the journal on; queues are made by their first use."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture(scope="module")
def interpreted(spark: "SparkSession") -> Iterator[None]:
    """Spark without compilers."""
    before = {name: spark.conf.get(name) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
