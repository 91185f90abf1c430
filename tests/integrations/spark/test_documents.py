"""The programs of docs/SPARK.md, one after the other, as they stand there."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from radiator.client import Client
from radiator.integrations.spark.jobs.mapreduce import Record
from tests.avro_bodies import ORDER, ORDER_TEXT, VALUE, binary
from tests.broker_process import BrokerProcess
from tests.documents.blocks import Block, blocks_of, text_of
from tests.integrations.spark.running import END_MAX_S

BY_THIS = "tests/integrations/spark/test_documents.py"


def programs(page: str) -> list[Block]:
    return [block for block in blocks_of(page, text_of(page)) if block.why == BY_THIS]


def run(blocks: list[Block], spark: SparkSession, broker: BrokerProcess, place: Path) -> dict[str, Any]:
    """All in one namespace, where there is a session, on this broker and in this place; what they have defined."""
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:
        text = block.text.replace("stomp://127.0.0.1:61613", broker.address).replace("/data/", f"{place}/")
        text = re.sub(r"(\.options\()(?!url=)", rf'\1url="{broker.address}", ', text)
        exec(compile(text, str(block), "exec"), names)  # noqa: S102
    return names


@pytest.mark.spark
@pytest.mark.slow
def test_programs_of_the_page_work_when_pasted(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(broker.address) as client:
        client.admin({"do": "declare", "log": "clicks"})
        client.send_many("/log/clicks", ["one", "two"])
        (tmp_path / "order.avsc").write_text(ORDER_TEXT)
        client.admin({"do": "declare", "log": "placed", "schema": ORDER_TEXT})
        for number in (1000, 1001):
            body = binary(ORDER, {**VALUE, "id": number})
            client.send("/log/placed", body, {"content-type": "avro/binary"})
        names = run(programs("docs/SPARK.md"), spark, broker, tmp_path)
        try:
            client.send("/log/clicks", "three")
            names["query"].processAllAvailable()
            printed, end_s = capsys.readouterr().out, time.monotonic() + END_MAX_S
            while "records behind in" not in printed and time.monotonic() < end_s:
                time.sleep(0.05)  # what a listener is told comes later
                printed += capsys.readouterr().out
            assert f"None: 0 records behind in /log/clicks at {broker.address}" in printed
        finally:
            names["query"].stop()
            spark.streams.removeListener(names["lag"])
        assert names["orders"].isStreaming
        assert [row.value.id for row in names["placed"].collect()] == [1000, 1001]
        names["send"](spark.createDataFrame([(b"counted",)], "value binary"), 7)
        bodies = set()
        for queue in ("/queue/work", "/queue/counts"):
            client.subscribe(queue)
        for _ in range(4):
            message = client.receive(20)
            assert message is not None, bodies
            bodies.add(message.body)
        assert bodies == {b"one", b"two", b"three", b"counted"}
    record = Record(None, b'{"customer": "anna", "pence": 250}', "orders", 0, 0, 0, "/log/orders", [])
    assert list(names["SPENT"].map(record)) == [("anna", 250)]
