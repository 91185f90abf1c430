"""Spark reads a log, counts as it grows, and sends the counts to a queue: exactly once, both ways.

    scripts/setup spark                                   # and Java 17
    python examples/spark_tail.py [--broker stomp://HOST:PORT]

Kill it at any moment and start it again with the same --broker and its checkpoint: nothing is counted twice. Here the
checkpoint is a new folder each time, and the program ends by itself. docs/SPARK.md says which options there are.
"""

import os
import sys
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from own_broker import broker
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from radiator.client import Client

LOG, COUNTS = "example.clicks", "/queue/example.counts"


def session() -> SparkSession:
    # the workers need this Python, and this package
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "1").config("spark.log.level", "ERROR").getOrCreate()


def click(address: str) -> None:
    """Some records; the same page always goes to the same partition, where order is kept."""
    with Client(address) as client:
        client.admin({"do": "declare", "log": LOG, "partitions": 2})
        client.admin({"do": "declare", "queue": COUNTS.removeprefix("/queue/")})
        for number in range(300):
            page = ("home", "cart", "help")[number % 3]
            client.send(f"/log/{LOG}", f"click on {page}", {"partition-key": page}, confirm=False)
        client.flush()


def counted(clicks: DataFrame) -> DataFrame:
    """One row for each page that has changed: the column value is what is sent."""
    counts = clicks.groupBy(F.col("key").cast("string").alias("page")).count()
    return counts.select(F.concat_ws(" ", "page", "count").alias("value"))


def send(address: str, counts: DataFrame, batch: int) -> None:
    """A batch that is run again has the same number, and then the broker knows that it has its messages already.

    Without aggregation there is a shorter way: `writeStream.format("radiator")`.
    """
    options = {"url": address, "destination": COUNTS, "txnAppId": "example.counts", "txnVersion": str(batch)}
    counts.write.format("radiator").options(**options).mode("append").save()


def count(spark: SparkSession, address: str) -> None:
    """Until all that is there now has been counted; for ever: .trigger(processingTime="1 second")."""
    clicks = (
        spark.readStream.format("radiator")
        .options(url=address, subscribe=LOG, startingOffsets="earliest", maxOffsetsPerTrigger=1000)
        .load()
    )
    query = (
        counted(clicks)
        .writeStream.foreachBatch(partial(send, address))
        .option("checkpointLocation", str(Path(mkdtemp()) / "checkpoint"))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def show(address: str) -> None:
    with Client(address) as client:
        client.subscribe(COUNTS)
        received = [client.receive(5) for _ in range(3)]
        for text in sorted(message.body.decode() for message in received if message is not None):
            print(f"{COUNTS}: {text}")


def main() -> None:
    with broker(__doc__) as address:
        click(address)
        spark = session()
        count(spark, address)
        spark.stop()
        show(address)


if __name__ == "__main__":
    main()
