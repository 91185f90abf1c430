"""A queue as Spark reads it: by checkout, each message once, all of them acked at the end."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.integrations.spark.running import Batches, run

NUMBERS = count()
GROUP = "spark"


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as one:
        yield one


@pytest.fixture
def queue(client: Client) -> str:
    name = f"queue{next(NUMBERS)}"
    client.admin({"do": "declare", "queue": name})
    return name


def checkouts(spark: SparkSession, broker: BrokerProcess, queue: str, **options: Any) -> DataFrame:
    given = {"url": broker.address, "mode": "checkout", "group": GROUP, "subscribe": queue, **options}
    return spark.readStream.format("radiator").options(**given).load()


def fill(client: Client, queue: str, numbers: range) -> None:
    client.send_many(f"/queue/{queue}", [f"m{number}" for number in numbers], {"colour": "red"})


def texts(numbers: range) -> list[str]:
    return [f"m{number}" for number in numbers]


def left(client: Client, queue: str) -> tuple[int, int]:
    """How many are in the queue, and how many are taken and not acked."""
    taken = client.admin({"do": "checkout", "queue": queue, "group": GROUP, "max_messages": 0})
    return client.admin({"do": "describe", "queue": queue})["messages"], taken["next"] - taken["first"]


def test_a_queue_is_drained_and_all_of_it_acked(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    fill(client, queue, range(50))
    sink = Batches()
    source = checkouts(spark, broker, queue, maxOffsetsPerTrigger="20", includeHeaders="true", minPartitions="2")
    run(source, tmp_path, sink)
    assert sink.values == texts(range(50))
    assert [len(rows) for _, rows in sink.tries] == [20, 20, 10]
    assert left(client, queue) == (0, 0)
    assert {row.destination for row in sink.rows} == {f"/queue/{queue}"}
    assert sink.rows[0].headers[0].value == "red"

    fill(client, queue, range(50, 55))
    run(source, tmp_path, sink)
    assert sink.values == texts(range(55))
    assert left(client, queue) == (0, 0)


def test_a_sink_that_fails_gets_the_same_messages_again(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    fill(client, queue, range(30))
    source = checkouts(spark, broker, queue, maxOffsetsPerTrigger="10")
    sink = Batches(fail=1)
    with pytest.raises(StreamingQueryException):
        run(source, tmp_path, sink)
    assert left(client, queue) == (10, 10)
    fill(client, queue, range(30, 33))
    run(source, tmp_path, sink)
    first, again = [rows for number, rows in sink.tries if number == 1]
    assert first == again and len(first) == 10
    assert sink.values == texts(range(33))
    assert left(client, queue) == (0, 0)


def test_a_query_without_its_checkpoint_gets_what_was_not_acked(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    fill(client, queue, range(20))
    taken = client.admin({"do": "checkout", "queue": queue, "group": GROUP, "max_messages": 8})
    client.admin({"do": "checkout-ack", "queue": queue, "group": GROUP, "before": taken["first"] + 3})
    sink = Batches()
    run(checkouts(spark, broker, queue), tmp_path, sink)
    assert sink.values == texts(range(3, 20))


def test_a_group_that_was_released_is_told(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    fill(client, queue, range(20))
    source = checkouts(spark, broker, queue, maxOffsetsPerTrigger="10")
    with pytest.raises(StreamingQueryException):
        run(source, tmp_path, Batches(fail=1))
    client.admin({"do": "checkout-release", "queue": queue, "group": GROUP})
    sink = Batches()
    with pytest.raises(StreamingQueryException, match="is there any more"):
        run(source, tmp_path, sink)
    assert sink.tries == []
    run(checkouts(spark, broker, queue, failOnDataLoss="false"), tmp_path, sink)
    assert sink.values == texts(range(10, 20))
    assert left(client, queue) == (0, 0)


def test_a_checkpoint_of_another_queue_is_refused(
    spark: SparkSession, broker: BrokerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    """What was taken of the first and is not acked would stay taken, and nobody would be told."""
    other = f"{queue}-other"
    client.admin({"do": "declare", "queue": other})
    fill(client, queue, range(5))
    fill(client, other, range(5, 10))
    sink = Batches(fail=0)
    with pytest.raises(StreamingQueryException):
        run(checkouts(spark, broker, queue), tmp_path, sink)
    with pytest.raises(StreamingQueryException, match=f"The checkpoint is of /log/.checkout/{queue}/{GROUP}, not of"):
        run(checkouts(spark, broker, other), tmp_path, sink)
    run(checkouts(spark, broker, queue), tmp_path, sink)
    assert sink.values == texts(range(5))
    assert left(client, queue) == (0, 0)


def test_a_queue_that_is_not_there(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="nothing"):
        run(checkouts(spark, broker, "nothing"), tmp_path, Batches())
