"""Records and events as columns of Arrow, and a checksum of rows that does not depend on how they lie in a file."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from radiator.model.amqp_properties import expanded_pairs
from radiator.model.headers import PARTITION_KEY
from radiator.model.journal import JournalEvent
from radiator.model.message import Message, message_id

_TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))

LOG = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("log", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("destination", pa.string()),
        ("headers", HEADERS),
    ]
)
"""A record of a log; `key` is its `partition-key`."""

JOURNAL = pa.schema(
    [
        ("seq", pa.int64()),
        ("ts", _TIME),
        ("event", pa.string()),
        ("queue", pa.string()),
        ("message_id", pa.string()),
        ("client", pa.string()),
        ("attempt", pa.int32()),
        ("bytes", pa.int64()),
        ("other_id", pa.string()),
        ("other_queue", pa.string()),
        ("reason", pa.string()),
        ("node", pa.string()),
        ("address", pa.string()),
        ("number", pa.int64()),
        ("traceparent", pa.string()),
        ("correlation_id", pa.string()),
    ]
)
"""An event of the journal. Null: it has none. `number`: what docs/JOURNAL.md calls due_ms, copies or messages.

Files of earlier versions have no `correlation_id`, and older ones no `traceparent`.
"""

SNAPSHOT = pa.schema([("queue", pa.string()), ("message_id", pa.string())])
"""A message that a queue holds."""


def offset_of(schema: pa.Schema) -> str | None:
    """Returns the name of the column that numbers the rows, if they are numbered."""
    return next((name for name in ("offset", "seq") if name in schema.names), None)


def of_messages(log: str, partition: int, first: int, messages: Sequence[Message]) -> pa.RecordBatch:
    """Consecutive records of a log."""
    count = len(messages)
    keys: list[bytes | None] = []
    names: list[bytes] = []
    values: list[bytes] = []
    ends = [0]
    for message in messages:
        key = None
        for name, value in expanded_pairs(message.headers, message.escaping):
            names.append(name)
            values.append(value)
            if name == PARTITION_KEY.name and key is None:
                key = value
        keys.append(key)
        ends.append(len(names))
    rows = pa.StructArray.from_arrays([_texts(names), _texts(values)], fields=list(HEADERS.value_type))
    columns = [
        pa.array(keys, pa.binary()),
        pa.array([message.body for message in messages], pa.binary()),
        pa.array([log] * count, pa.string()),
        pa.array([partition] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        _times([message.accepted_ms for message in messages]),
        pa.array([message.destination for message in messages], pa.string()),
        pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows, type=HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LOG)


def of_events(store_id: str, node: str, first: int, written: Sequence[JournalEvent]) -> pa.RecordBatch:
    """Consecutive events of the journal."""
    count = len(written)
    event, ms, queue, position, client, attempt, size, other, other_queue, reason, address, number, *last = zip(
        *written, strict=True
    )
    columns = [
        pa.array(range(first, first + count), pa.int64()),
        _times(ms),
        pa.array(event, pa.string()),
        pa.array(queue, pa.string()),
        _ids(store_id, position),
        _or_null(client),
        pa.array(attempt, pa.int32()),
        pa.array(size, pa.int64()),
        _ids(store_id, other),
        _or_null(other_queue),
        _or_null(reason),
        pa.array([node] * count, pa.string()),
        _or_null(address),
        pa.array(number, pa.int64()),
        *map(_or_null, last),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=JOURNAL)


def of_stored(store_id: str, stored: Sequence[tuple[str, int]]) -> pa.RecordBatch:
    """Messages that queues hold: name of the queue, and position."""
    columns = [pa.array([queue for queue, _ in stored], pa.string()), _ids(store_id, [at for _, at in stored])]
    return pa.RecordBatch.from_arrays(columns, schema=SNAPSHOT)


def _texts(values: Sequence[bytes | None]) -> pa.Array:
    # what was UTF-8 to the broker's door is not checked once more
    return pa.array(values, pa.binary()).view(pa.string())


def _or_null(values: Sequence[str]) -> pa.Array:
    return pa.array([value or None for value in values], pa.string())


def _ids(store_id: str, positions: Sequence[int]) -> pa.Array:
    return _texts([message_id(store_id, position) if position else None for position in positions])


def _times(ms: Sequence[int]) -> pa.Array:
    return pa.array([one * 1000 for one in ms], pa.int64()).view(_TIME)


# ---- the checksum of rows -------------------------------------------------------------------------------------------


class Checksum:
    """The checksum of all rows fed to it, in their order: the same however they are cut into batches, whoever wrote the
    file.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._hashes: dict[str, Any] = {}

    def feed(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows."""
        for name, column in zip(self._schema.names, batch.columns, strict=True):
            self._feed(name, column)

    def text(self) -> str:
        """Returns the checksum in hexadecimal."""
        whole = sha256(str(self._schema.names).encode())
        for name in sorted(self._hashes):
            whole.update(name.encode() + b"\0" + self._hashes[name].digest())
        return whole.hexdigest()

    def _feed(self, name: str, column: pa.Array) -> None:
        if pa.types.is_list(column.type):
            self._numbers(f"{name}/count", pc.list_value_length(column).fill_null(-1))
            pairs = column.flatten()
            for index in range(pairs.type.num_fields):
                self._feed(f"{name}/{pairs.type.field(index).name}", pairs.field(index))
        elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            self._numbers(f"{name}/bytes", pc.binary_length(column).fill_null(-1))
            self._hash(name).update(_values(column.drop_null()))
        else:
            self._numbers(name, column)

    def _numbers(self, name: str, column: pa.Array) -> None:
        plain = column.cast(pa.int64()).fill_null(-(2**62))
        # a slice has its numbers somewhere within the buffer
        begin = plain.offset * 8
        self._hash(name).update(memoryview(plain.buffers()[1])[begin : begin + len(plain) * 8] if len(plain) else b"")

    def _hash(self, name: str) -> Any:
        return self._hashes.setdefault(name, sha256())


def _values(column: pa.Array) -> memoryview | bytes:
    """Returns all bytes of a column of texts without nulls."""
    _, ends, data = column.buffers()
    if len(column) == 0 or data is None:
        return b""
    offsets = memoryview(ends).cast("i")
    return memoryview(data)[offsets[column.offset] : offsets[column.offset + len(column)]]
