"""A real broker's journal, archived by `radiator archive`, and what the jobs and `radiator audit` say of it."""

import json
import subprocess
import sys
from pathlib import Path

import deadletters
import latency
import pytest
import skew
from pyspark.sql import SparkSession

from radiator.client import Client
from radiator.integrations.spark.jobs import conserve
from radiator.integrations.spark.jobs.conserve import half_fanned, holes, verdicts
from radiator.integrations.spark.jobs.job import parser, read_log
from tests.broker_process import BrokerProcess, environment

pytestmark = pytest.mark.usefixtures("interpreted")


def lives(broker: BrokerProcess) -> None:
    """Messages are acked, given back, die, expire, move, are fanned out, delayed, and stay."""
    with Client(broker.address) as client:
        client.admin({"do": "declare", "queue": "orders", "dead_letter": "dead", "max_redeliveries": 2})
        client.admin({"do": "declare", "queue": "dead"})
        client.admin({"do": "declare", "queue": "mail"})
        client.admin({"do": "declare", "fanout": "all", "children": ["orders", "mail"]})
        client.admin({"do": "declare", "log": "clicks", "partitions": 3})
        for number in range(40):
            client.send("/queue/orders", str(number), confirm=False)
            client.send("/log/clicks", str(number), {"partition-key": f"k{number % 5}"}, confirm=False)
        for number in range(5):
            client.send("/fanout/all", str(number), confirm=False)
            client.send("/queue/mail", "later", {"delay": "3600000"}, confirm=False)
            client.send("/queue/mail", "gone", {"expiration": "0"}, confirm=False)
        client.flush()
        client.subscribe("/queue/orders", ack="client-individual", prefetch=10)
        for number in range(30):
            message = client.receive(10)
            assert message is not None
            if number % 10 == 3:
                client.nack(message, requeue=False)
            elif number % 10 == 4:
                client.nack(message)
            else:
                client.ack(message)
        client.admin({"do": "move", "from": "dead", "to": "mail"})


def command(*more: str) -> str:
    done = subprocess.run([sys.executable, "-m", "radiator", *more], env=environment(), capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_broker_that_is_right(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lives(broker)
    archive = str(tmp_path / "archive")
    command("archive", "--config", str(broker.config_file), "--to", archive)
    answer = json.loads(command("audit", "--archive", archive, "--json"))
    args = parser(conserve.CONSERVE).parse_args(["--archive", archive])
    journal, stored, boot = conserve._read(spark, args)
    assert stored is not None
    gaps = holes(journal, boot).cache()
    counts = {row.verdict: row["count"] for row in verdicts(journal, stored, gaps).groupBy("verdict").count().collect()}
    assert half_fanned(journal, gaps).isEmpty()
    assert {"acked", "stored", "dead-lettered", "moved"} <= set(counts)
    assert not {*conserve.WRONG, "open", "unknown-beginning", "unknown-end"} & set(counts)
    assert answer["counts"] == counts
    for job in (latency.LATENCY, deadletters.DEADLETTERS, skew.SKEW):
        assert job.run(spark, parser(job).parse_args(["--archive", archive])) == 0
    printed = capsys.readouterr().out
    assert "accept-ack" in printed and "rejected" in printed
    assert read_log(spark, archive, "clicks").count() == 40
