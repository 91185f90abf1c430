"""Replay: what is chosen, what is sent of it, and the rate; then into a real queue."""

import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from radiator.client import Client
from radiator.integrations.spark.jobs.job import JobFailed, parser, read_log
from radiator.integrations.spark.jobs.replay import REPLAY, _giver, chosen, messages, run, summary
from tests.broker_process import BrokerProcess
from tests.integrations.spark.journals import write_log

HEADERS = b"colour:red\nexpires:1\ndedup-id:7\npartition-key:k\nreply-to:/reply-queue/x\n"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions, of 30 records each."""
    directory = tmp_path_factory.mktemp("archive")
    bodies = [[f"{partition}-{number}".encode() for number in range(30)] for partition in range(2)]
    write_log(directory, "clicks", bodies, HEADERS)
    return directory


def test_what_is_chosen_and_what_is_sent_of_it(spark: SparkSession, archive: Path) -> None:
    log = read_log(spark, str(archive), "clicks")
    assert [(row.partition, row.records, row.bytes) for row in summary(log).collect()] == [(0, 30, 110), (1, 30, 110)]
    some = chosen(log, "partition = 1 and offset >= 27")
    rows = messages(some, "again").collect()
    assert [(bytes(row.value), row.dedup_id) for row in rows] == [
        (f"1-{number}".encode(), f"again/clicks/1/{number}") for number in (27, 28, 29)
    ]
    assert {(bytes(row.key), tuple(tuple(one) for one in row.headers)) for row in rows} == {
        (b"k", (("colour", "red"),))
    }
    assert chosen(log, "false").isEmpty()


def test_a_rate_is_not_exceeded() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": list(range(begin, begin + 40))}) for begin in (0, 40)]
    begun_s = time.monotonic()
    given = [(time.monotonic() - begun_s, part) for part in _giver(200)(iter(batches))]
    assert [n for _, part in given for n in part.column("n").to_pylist()] == list(range(80))
    count = 0
    for at_s, part in given:
        assert count <= at_s * 200 + 20  # a tenth of a second's worth ahead, no more
        count += part.num_rows


def received(broker: BrokerProcess, queue: str) -> list[tuple[str, str]]:
    with Client(broker.address) as client:
        client.subscribe(f"/queue/{queue}", prefetch=1000)
        found = []
        while (message := client.receive(0.5)) is not None:
            found.append((message.body.decode(), message.headers["dedup-id"]))
        return found


def replay(spark: SparkSession, broker: BrokerProcess, archive: Path, queue: str, *more: str) -> int:
    options = ["--archive", str(archive), "--log", "clicks", "--to", f"/queue/{queue}", "--url", broker.address, *more]
    return run(spark, parser(REPLAY).parse_args(options))


def test_nothing_is_sent_without_go(
    spark: SparkSession, broker: BrokerProcess, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(spark, broker, archive, "dry") == 0
    assert "Nothing has been sent to /queue/dry" in capsys.readouterr().out
    assert received(broker, "dry") == []


def test_one_of_a_name_is_sent_once_in_the_order_of_each_partition(
    spark: SparkSession, broker: BrokerProcess, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for printed in (
        "\nAll of it has been sent to /queue/named.\n",
        "\nNothing has been sent now: a replay of the name 'first' had been sent before.\n",
    ):
        assert replay(spark, broker, archive, "named", "--name", "first", "--go") == 0
        assert capsys.readouterr().out.endswith(printed)
    found = received(broker, "named")
    assert sorted(body for body, _ in found) == sorted(f"{p}-{n}" for p in range(2) for n in range(30))
    for partition in "01":
        numbers = [int(body[2:]) for body, _ in found if body[0] == partition]
        assert numbers == sorted(numbers)


def test_at_a_rate_a_queue_takes_each_once(spark: SparkSession, broker: BrokerProcess, archive: Path) -> None:
    with Client(broker.address) as client:
        client.admin({"do": "declare", "queue": "slow", "dedup_window_s": 3600})
    begun_s = time.monotonic()
    for _ in range(2):  # the second run sends nothing that is new
        assert replay(spark, broker, archive, "slow", "--where", "partition = 0", "--rate", "60", "--go") == 0
    assert time.monotonic() - begun_s > 2 * 0.4
    found = received(broker, "slow")
    assert Counter(found) == Counter((f"0-{number}", f"replay/clicks/0/{number}") for number in range(30))


def test_a_name_and_a_rate_exclude_each_other(spark: SparkSession, broker: BrokerProcess, archive: Path) -> None:
    with pytest.raises(JobFailed, match="give one of them"):
        replay(spark, broker, archive, "both", "--name", "x", "--rate", "5")
