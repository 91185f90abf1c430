"""examples/spark_tail.py, in the session of these tests."""

import pytest
from pyspark.sql import SparkSession

from tests.broker_process import CHECKOUT, BrokerProcess


def test_the_example_counts_all_clicks(
    spark: SparkSession, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    import spark_tail

    spark_tail.click(broker.address)
    spark_tail.count(spark, broker.address)
    spark_tail.show(broker.address)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"/queue/example.counts: {page} 100" for page in ("cart", "help", "home")]
