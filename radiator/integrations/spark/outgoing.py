"""Rows that are written: which columns they have, and what is sent for each. Pure except for Arrow."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from radiator.integrations.spark.options import NAME_MAX_BYTES, SinkOptions
from radiator.model.errors import RadiatorError

SLICE_MESSAGES = 5_000  # of one prepared transaction: few enough that a lost connection costs little
SLICE_BYTES = 4 * 1024 * 1024  # well below what a broker takes as one transaction ([limits] max_batch_bytes)
OVERHEAD_BYTES = 256  # of a message besides its body: about what the broker counts for it
_BYTES = ("binary", "string")
_WANTED = {  # by column: which types it may have
    "value": _BYTES,
    "destination": ("string",),
    "key": _BYTES,
    "headers": ("array<struct<key:string,value:string>>", "map<string,string>"),
    "dedup_id": ("string",),
}
_OF_THE_SOURCE = frozenset(["log", "partition", "offset", "timestamp"])  # what was read may be written as it is
_OURS = frozenset(["destination", "content-length", "receipt", "transaction", "dedup-id"])


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    """One message. dedup_id: None where the row has none."""

    destination: str
    headers: list[tuple[str, str]]
    body: bytes
    dedup_id: str | None

    def headers_with(self, dedup_id: str | None) -> list[tuple[str, str]]:
        """Returns all headers that are sent; a dedup-id of the row itself takes precedence over the given one."""
        sent_id = self.dedup_id or dedup_id
        return self.headers if sent_id is None else [*self.headers, ("dedup-id", sent_id)]


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """types: by column, as Spark writes them. Raises RadiatorError with every mistake."""
    mistakes = []
    known = [*_WANTED, *_OF_THE_SOURCE, *([options.dedup_column] if options.dedup_column else [])]
    if "value" not in types:
        mistakes.append("What is written needs a column value: the body.")
    if "destination" not in types and options.destination is None:
        mistakes.append('Where is it sent to? Give the option destination ("/queue/orders"), or a column of that name.')
    for name, kind in types.items():
        if name in _WANTED and kind not in _WANTED[name]:
            mistakes.append(f"The column {name} is of type {kind}: it must be {' or '.join(_WANTED[name])}.")
        elif name not in known:
            close = ["destination"] if name == "topic" else get_close_matches(name, known, 1)
            hint = f"Is {close[0]} meant?" if close else f"There are: {', '.join(sorted(_WANTED))}."
            mistakes.append(f"Nothing is known of a column {name!r}. {hint}")
    if options.dedup_column is not None and types.get(options.dedup_column) != "string":
        mistakes.append(f"The option dedupColumn is {options.dedup_column!r}: it must name a column of type string.")
    if mistakes:
        raise RadiatorError("\n".join(mistakes))


class Columns:
    """Makes messages of Arrow batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._destination = options.destination
        self._dedup = options.dedup_column or "dedup_id"

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[OutgoingRow]:
        """Yields the messages, in the rows' order. Raises RadiatorError for a row that cannot be sent."""
        for batch in batches:
            yield from self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[OutgoingRow]:
        count, names = batch.num_rows, set(batch.schema.names)

        def column(name: str) -> list[Any]:
            return batch.column(name).to_pylist() if name in names else [None] * count

        destinations = [self._destination] * count if self._destination is not None else column("destination")
        for destination, value, key, headers, dedup_id in zip(
            destinations, column("value"), column("key"), column("headers"), column(self._dedup), strict=True
        ):
            if not destination:
                raise RadiatorError(f"A row has no destination ({destination!r}): where is it sent to?")
            if dedup_id is not None and not 1 <= len(dedup_id.encode()) <= NAME_MAX_BYTES:
                raise RadiatorError(f"The dedup-id {dedup_id[:40]!r} must have 1 to {NAME_MAX_BYTES} bytes.")
            yield OutgoingRow(destination, _headers(headers, key), _body(value), dedup_id)


def slices(rows: Iterator[OutgoingRow]) -> Iterator[list[OutgoingRow]]:
    """Yields the same rows in parts that one transaction can hold."""
    slice_: list[OutgoingRow] = []
    size = 0
    for one in rows:
        one_bytes = len(one.body) + sum(len(name) + len(value) for name, value in one.headers) + OVERHEAD_BYTES
        if slice_ and (len(slice_) == SLICE_MESSAGES or size + one_bytes > SLICE_BYTES):
            yield slice_
            slice_, size = [], 0
        slice_.append(one)
        size += one_bytes
    if slice_:
        yield slice_


def content_id(one: OutgoingRow) -> str:
    """Returns an id of the content: if the order of rows has changed, another row does not have the same one."""
    digest = blake2b(one.body, digest_size=8)
    digest.update(repr((one.destination, one.headers)).encode())
    return digest.hexdigest()


def _body(value: bytes | str | None) -> bytes:
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else value


def _headers(headers: Any, key: bytes | str | None) -> list[tuple[str, str]]:
    """Returns the headers in a column that is an array of key and value, or a map: Arrow gives pairs for both."""
    kept: list[tuple[str, str]] = []
    for one in headers or ():
        name, value = (one["key"], one["value"]) if isinstance(one, dict) else one
        if name in _OURS:
            raise RadiatorError(f"A row has the header {name!r}, which the writer itself must set.")
        if name is not None and value is not None and not (name == "partition-key" and key is not None):
            kept.append((name, value))
    if key is not None:
        try:
            kept.append(("partition-key", key if isinstance(key, str) else key.decode()))
        except UnicodeDecodeError:
            raise RadiatorError(f"The key {key[:40]!r} must be UTF-8: it is sent as a header.") from None
    return kept
