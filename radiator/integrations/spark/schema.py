"""The rows of a source: which columns they have, and how a MESSAGE becomes a row. They are Arrow's, which is fast."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from radiator.client import Message
from radiator.integrations.spark.value_schema import VALUE_BYTES, ValueSchema
from radiator.model.errors import RadiatorError

CORRUPT = "_corrupt_record"  # as Spark's own readers call it
_NOT_THE_SENDERS = frozenset(  # headers of the delivery, which differ from one reading to the next, or have a column
    ["ack", "content-length", "destination", "message-id", "offset", "partition", "redelivered", "redelivery-count"]
    + ["skipped", "subscription", "timestamp"]
)
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())])
ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("log", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("destination", pa.string()),
    ]
)
ARROW_HEADERS = ARROW.append(pa.field("headers", pa.list_(pa.field("element", _HEADER))))
_DDL = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
BATCH_BYTES = 16 * 1024 * 1024  # of values in one Arrow batch


class MisfitError(RadiatorError):
    """A body does not fit the schema that it is read by."""


def columns(include_headers: bool, values: ValueSchema | None = None, keeps_misfits: bool = False) -> pa.Schema:
    """Returns the columns of the rows. keeps_misfits: there is a column for bodies that do not fit the schema."""
    schema = ARROW_HEADERS if include_headers else ARROW
    if values is not None:
        schema = schema.set(schema.get_field_index("value"), pa.field("value", values.arrow))
    return schema.append(pa.field(CORRUPT, pa.binary())) if keeps_misfits else schema


def ddl(schema: pa.Schema) -> str:
    """Returns the columns in the DDL that Spark expects."""
    return ", ".join(f"{field.name} {ddl_type(field.type)}" for field in schema)


def ddl_type(kind: pa.DataType) -> str:
    """Spark's type for a type of Arrow."""
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{field.name}`:{ddl_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<string,{ddl_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _DDL[kind]


class ReadRows:
    """Records of one partition that become an Arrow batch. next: the offset that must come next.

    values: what bodies are read by; None: they are passed on as they are. keeps_misfits: those that do not fit are
    passed on as they are; otherwise the first of them is an error.
    """

    def __init__(
        self,
        log: str,
        partition: int,
        first: int,
        include_headers: bool,
        most: int,
        values: ValueSchema | None = None,
        keeps_misfits: bool = False,
    ) -> None:
        self.next = first
        self._schema = columns(include_headers, values, keeps_misfits)
        self._schema_of_values = values
        self._keeps_misfits = keeps_misfits
        self._log = log
        self._partition = partition
        self._include_headers = include_headers
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._first = self.next
        self._keys: list[bytes | None] = []
        self._values: list[Any] = []
        self._misfits: list[bytes | None] = []
        self._accepted_us: list[int] = []
        self._destinations: list[str] = []
        self._headers: list[list[tuple[str, str]]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_full(self) -> bool:
        """Whether a batch should be taken."""
        return len(self._values) >= self._most or self._bytes >= BATCH_BYTES

    def add(self, message: Message) -> None:
        """Adds the record at offset `next`. Raises MisfitError."""
        headers = message.headers
        key = headers.get("partition-key")
        self._keys.append(None if key is None else key.encode())
        if self._schema_of_values is None:
            self._values.append(message.body)
        else:
            self._add_value(self._schema_of_values, message)
        self._accepted_us.append(int(headers["timestamp"]) * 1000)
        self._destinations.append(headers["destination"])
        if self._include_headers:
            self._headers.append(senders(headers))
        self._bytes += len(message.body)
        self.next += 1

    def _add_value(self, schema: ValueSchema, message: Message) -> None:
        misfit = None
        try:
            value, count = schema.value(message.body, message.headers.get("content-type"))
        except ValueError as wrong:
            if not self._keeps_misfits:
                raise MisfitError(
                    f"/log/{self._log}, partition {self._partition}, offset {self.next}: {wrong}. With "
                    f"valueSchemaMode=PERMISSIVE such a body is passed on in the column {CORRUPT}."
                ) from None
            value, count, misfit = None, 0, message.body
        self._values.append(value)
        self._misfits.append(misfit)
        self._bytes += count * VALUE_BYTES

    def take(self) -> pa.RecordBatch:
        """Returns a batch of all that was added since the last one."""
        count = len(self._values)
        arrays = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, self._schema.field("value").type),
            pa.array([self._log] * count, pa.string()),
            pa.array([self._partition] * count, pa.int32()),
            pa.array(range(self._first, self._first + count), pa.int64()),
            pa.array(self._accepted_us, pa.int64()).cast(ARROW.field("timestamp").type),
            pa.array(self._destinations, pa.string()),
        ]
        if self._include_headers:
            arrays.append(_header_lists(self._headers, self._schema.field("headers").type))
        if self._keeps_misfits:
            arrays.append(pa.array(self._misfits, pa.binary()))
        self._begin()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def senders(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns the headers that are the same whenever the record is read."""
    return [(name, value) for name, value in headers.items() if name not in _NOT_THE_SENDERS]


def _header_lists(lists: list[list[tuple[str, str]]], kind: pa.DataType) -> pa.Array:
    """Returns the column of headers, built from flat columns: a tenth of the time that dictionaries would take."""
    bounds = [0]
    for one in lists:
        bounds.append(bounds[-1] + len(one))
    names = pa.array([name for one in lists for name, _ in one], pa.string())
    values = pa.array([value for one in lists for _, value in one], pa.string())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pairs, type=kind)
