"""A broker that goes away and comes back, under a running query: the query waits, and nothing is lost or doubled."""

import time
from pathlib import Path

from pyspark.sql import SparkSession

from radiator.client import Client
from tests.broker_process import SERVER, BrokerProcess
from tests.integrations.spark.running import END_MAX_S, Batches, started
from tests.ports import free_port


def test_a_broker_that_is_killed_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    server = SERVER.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}")
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", f'{server}\n[log."events"]\npartitions = 2\n[queue."out"]\n') as broker:
        source = (
            spark.readStream.format("radiator")
            .options(url=broker.address, subscribe="events", startingOffsets="earliest", maxOffsetsPerTrigger="40")
            .load()
        )
        sink = Batches()
        tail = started(source, tmp_path / "tail", sink)
        copy = (
            source.select("value")
            .writeStream.format("radiator")
            .options(url=broker.address, destination="/queue/out", checkpointLocation=str(tmp_path / "copy"))
            .start()
        )
        try:
            for round_ in range(2):
                with Client(broker.address) as client:
                    client.send_many(
                        "/log/events", [f"m{number}" for number in range(round_ * 100, round_ * 100 + 100)]
                    )
                deadline_s = time.monotonic() + END_MAX_S
                while len(sink.rows) <= round_ * 100 and time.monotonic() < deadline_s:
                    time.sleep(0.05)
                broker.kill()
                time.sleep(0.5)
                assert tail.isActive and copy.isActive
                broker.start()
            with Client(broker.address) as client:
                while time.monotonic() < deadline_s and (
                    len(sink.rows) < 200 or client.admin({"do": "describe", "queue": "out"})["messages"] < 200
                ):
                    time.sleep(0.1)
                client.subscribe("/queue/out")
                copied = [message.body.decode() for _ in range(200) if (message := client.receive(5)) is not None]
                assert client.receive(0.5) is None
        finally:
            tail.stop()
            copy.stop()
    expected = sorted(f"m{number}" for number in range(200))
    assert sorted(sink.values) == expected
    assert sorted(copied) == expected
