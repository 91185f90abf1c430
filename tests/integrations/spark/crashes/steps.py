"""Stops a process of Spark at a step of the protocol, until the campaign has done what it wants to do there.

Imported where RADIATOR_CRASHES is set, it wraps the methods of source and sink in this process. The campaign writes the
name of a step into the file `wanted`; the first process that comes there makes `stopped.PID` of it, and goes on when
that file is gone. With "raise" in it by then the step fails.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from radiator.integrations.spark import sink
from radiator.integrations.spark.ask import BrokerRequests
from radiator.integrations.spark.schema import ReadRows
from radiator.integrations.spark.source import CheckoutReader, LogReader, RadiatorDataSource

PLACE = "RADIATOR_CRASHES"  # the environment variable with the campaign's directory
LOOK_S = 0.002
RECORDS = 7  # a read is stopped at one of so many
EARLY = "early"  # the queue whose reader is broken on purpose: it acks what it has read


class Failed(Exception):
    """What a step raises when the campaign wants it to."""


def here(step: str) -> None:
    """Returns at once, unless it is this step that is wanted."""
    wanted = Path(os.environ[PLACE], "wanted")
    if _text(wanted) != step:
        return
    stopped, claimed = (wanted.with_name(f"{name}.{os.getpid()}") for name in ("stopped", "claimed"))
    with suppress(FileNotFoundError):
        wanted.rename(claimed)
        # another step may have come to be wanted since
        claimed.rename(stopped if _text(claimed) == step else wanted)
    while (found := _text(stopped)) is not None:
        if found == "raise":
            stopped.unlink()
            raise Failed(step)
        time.sleep(LOOK_S)


def _text(file: Path) -> str | None:
    """None: it is not there, any more or yet."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return None


def _stop_around(owner: Any, name: str, step: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    @wraps(original)
    def wrapped(*positional: Any, **named: Any) -> Any:
        here(f"before {step}")
        result = original(*positional, **named)
        here(f"behind {step}")
        return result

    setattr(owner, name, wrapped)


def _stop_within_reads() -> None:
    original = ReadRows.add

    def add(rows: ReadRows, message: Any) -> None:
        original(rows, message)
        if len(rows) % RECORDS == 3:
            here("within a read")

    ReadRows.add = add  # type: ignore[method-assign,assignment]


def _ack_early() -> None:
    original = CheckoutReader.read

    def read(reader: CheckoutReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from original(reader, partition)
        if reader._queue == EARLY and partition.value is not None:
            reader._broker.checkout_ack(EARLY, reader._options.group, partition.value.end)

    CheckoutReader.read = read  # type: ignore[method-assign,assignment]


if PLACE in os.environ:  # else who only wants a word from here would have the steps of its own wrapped
    _stop_around(LogReader, "latestOffset", "latestOffset")
    _stop_around(LogReader, "partitions", "partitions")
    _stop_around(CheckoutReader, "partitions", "partitions")
    _stop_around(BrokerRequests, "checkout", "checkout")
    _stop_around(BrokerRequests, "checkout_ack", "checkout-ack")
    _stop_around(ReadRows, "take", "the end of a read")
    _stop_around(sink, "_prepare_slice", "prepare")
    _stop_around(sink, "_send", "send")
    _stop_around(BrokerRequests, "commit", "commit")
    _stop_around(sink.StreamWriter, "abort", "abort")
    _stop_around(BrokerRequests, "abort", "letting go")
    _stop_within_reads()
    _ack_early()


class Stopping:
    """An attribute of what Spark pickles, so that this module is imported wherever that is unpickled."""


class Stopped(RadiatorDataSource):
    """`format("stopped")`: Radiator's own source and sink, in processes where the steps are wrapped."""

    @classmethod
    def name(cls) -> str:
        return "stopped"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _marked(super().reader(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _marked(super().streamReader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _marked(super().writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _marked(super().streamWriter(schema, overwrite))


def _marked(one: Any) -> Any:
    one.stopping = Stopping()
    return one
