"""examples/spark_tail.py in the session of these tests; the others, which start jobs, as a person would run them."""

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from tests.broker_process import CHECKOUT, BrokerProcess, environment
from tests.integrations.spark.conftest import SHORT_LIVED

PRINTED = {
    "spark_mapreduce.py": [
        "1000 orders are in the log",
        *(f"customer-{number} has spent {sum(range(number, 1000, 7)) / 100:.2f}" for number in range(7)),
    ],
    "spark_replay.py": [
        "Nothing has been sent to /queue/example.again: --go does it.",
        "All of it has been sent to /queue/example.again.",
        "10 have come again: payment 0, payment 10, payment 20, ...",
    ],
}
NOT_OURS = ("NOTE: Picked up JDK_JAVA_OPTIONS", "WARNING: Using incubator modules")  # of Java, before any log


def test_the_example_counts_all_clicks(
    spark: SparkSession, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    import spark_tail

    spark_tail.click(broker.address)
    spark_tail.count(spark, broker.address)
    spark_tail.show(broker.address)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"/queue/example.counts: {page} 100" for page in ("cart", "help", "home")]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_examples_that_start_jobs_run_to_their_end() -> None:
    """Both at once: each starts a broker, an archiver and Spark, of whose start its jobs say nothing (--quiet)."""
    own = {**environment(), "JDK_JAVA_OPTIONS": SHORT_LIVED}
    running = {
        name: subprocess.Popen([sys.executable, CHECKOUT / "examples" / name], env=own, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in PRINTED
    }  # fmt: skip
    try:
        for name, wanted in PRINTED.items():
            printed, complained = running[name].communicate(timeout=240)
            assert running[name].returncode == 0, printed + complained
            assert [line for line in printed.splitlines() if line in wanted] == wanted, printed
            assert [line for line in complained.splitlines() if not line.startswith(NOT_OURS)] == [], complained
    finally:
        for one in running.values():
            one.kill()
            one.wait()
