"""Reads a range of a log, in the process where Spark runs it, over as many connections as it takes."""

import logging
import platform
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from radiator.client import Client, ConnectionLost, Message, NoAnswer
from radiator.integrations.spark.ask import BrokerRequests, Tries, connected
from radiator.integrations.spark.offsets import Range, check_losses
from radiator.integrations.spark.options import OptionError, SourceOptions
from radiator.integrations.spark.schema import ReadRows
from radiator.integrations.spark.value_schema import ValueSchema, value_schema
from radiator.model.errors import RadiatorError, Refusal

SILENCE_MAX_S = 30.0  # if nothing comes for so long, though there are records, another connection is made

_log = logging.getLogger("radiator.spark")


def read_range(options: SourceOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yields all records of the range, each once and in order. If one is gone: DataLoss, or fewer records with
    failOnDataLoss=false.

    Raises ConnectionLost when all tries have failed without a further record, and MisfitError.
    """
    tries = Tries(options.connect)
    values = None if options.value_schema is None else _value_schema(options.value_schema)
    rows = ReadRows(
        wanted.log.name,
        wanted.partition,
        wanted.first,
        options.include_headers,
        options.batch_rows,
        values,
        options.keeps_misfits,
    )
    while rows.next < wanted.end:
        try:
            with connected(options.connect) as client:
                if _incarnation(client, wanted) != wanted.log.incarnation:
                    return (yield from _gone(options, wanted, rows, rows.next))
                for message in _records(client, wanted, rows.next):
                    tries.went_on()
                    if isinstance(message, int):
                        return (yield from _gone(options, wanted, rows, message))
                    rows.add(message)
                    if rows.is_full:
                        yield rows.take()
                client.abandon()
        except (ConnectionLost, NoAnswer) as lost:
            tries.failed(lost)
        except Refusal as refused:
            if refused.code in ("no-such-offset", "no-such-destination"):
                return (yield from _gone(options, wanted, rows, rows.next, refused))
            tries.failed(refused)
    if len(rows):
        yield rows.take()


def _value_schema(text: str) -> ValueSchema:
    try:
        return value_schema(text)
    except ValueError as wrong:
        raise OptionError(f"On the machine {platform.node()!r}: the option valueSchema {wrong}.") from None


def _incarnation(client: Client, wanted: Range) -> str:
    """Returns the incarnation of the log that has that name now: one that was created again has the same offsets."""
    return str(client.admin({"do": "describe", "log": wanted.log.name})["incarnation"])


def _records(client: Client, wanted: Range, first: int) -> Iterator[Message | int]:
    """Yields the records from `first` on; at the first gap it gives the offset of the next record instead, and ends."""
    client.subscribe(
        f"/log/{wanted.log.name}",
        headers=[
            ("from", f"offset:{first}"),
            ("until", f"offset:{wanted.end}"),
            ("partition", str(wanted.partition)),
        ],
    )
    for offset in range(first, wanted.end):
        message = client.receive(SILENCE_MAX_S)
        if message is None:
            raise NoAnswer(f"No record came within {SILENCE_MAX_S:g} s, though offset {offset} should.")
        found = int(message.headers.get("offset", wanted.end))  # the last MESSAGE has none
        if found != offset:
            yield found
            return
        yield message


def _gone(
    options: SourceOptions, wanted: Range, rows: ReadRows, following: int, why: RadiatorError | None = None
) -> Iterator[pa.RecordBatch]:
    """Called when the next record is gone: raises DataLoss, or gives what came before it, and what there is from
    `following` on.
    """
    sentence = f"Of {wanted}, what begins at offset {rows.next} is gone."
    check_losses([sentence if why is None else f"{sentence} {why}"], options.fail_on_data_loss)
    _log.warning("%s It is passed over, as failOnDataLoss says.", sentence)
    if len(rows):
        yield rows.take()
    with BrokerRequests(options.connect) as broker:
        state = broker.find(wanted.log.name)
    if state is None or state.log != wanted.log:
        return
    kept = max(following, state.first.get(wanted.partition, wanted.end))
    if rows.next < kept < wanted.end:
        yield from read_range(options, replace(wanted, first=kept))
