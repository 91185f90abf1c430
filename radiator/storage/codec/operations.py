"""The operations of a batch: changes of rows in tables, carried out without knowledge of what the rows mean. Pure.

A table has rows, each a key and a value, in the order of their keys. Operations are carried out in the order of their
batch, all or none of them. One that does not find what it states contradicts the store: damage, or a bug.

As bytes they are the content of an entry of the write-ahead log (docs/FORMAT.md): an operation is a byte for its kind,
and its fields in their order; whole numbers are big-endian. Changing that: give it a new kind, keep reading the old
one, and add a fixture.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from radiator.model.errors import DamagedRecord
from radiator.model.limits import UNAPPLIED_BYTES, UNAPPLIED_ROWS

Row = tuple[bytes, bytes]


class MakeTable(NamedTuple):
    """Makes the table, empty. It must be new."""

    table: bytes


class Insert(NamedTuple):
    """Adds the rows: at least one. They ascend, and none of their keys may be there."""

    table: bytes
    rows: list[Row]


class Upsert(NamedTuple):
    """Adds each row, or replaces the row under its key."""

    table: bytes
    rows: list[Row]


class Delete(NamedTuple):
    """Removes the rows under these keys: at least one. They ascend, and all of them must be there."""

    table: bytes
    keys: list[bytes]


class DeleteIfPresent(NamedTuple):
    """Removes those of the rows that are there. The keys ascend."""

    table: bytes
    keys: list[bytes]


class DeleteRange(NamedTuple):
    """Removes all rows whose keys are at or after `start`, and before `end`."""

    table: bytes
    start: bytes
    end: bytes


class DeleteFirst(NamedTuple):
    """Removes the first `limit` rows from `start` to before `end`, in the first table first, then in the next one.

    is_exact: there must be that many. With each, if it is there, removes the row of the table `paired` whose key is
    that of the row from byte `key_at` on; b"": none.
    """

    tables: tuple[bytes, ...]
    start: bytes
    end: bytes
    limit: int
    is_exact: bool
    paired: bytes
    key_at: int = 0


class UpsertIndexed(NamedTuple):
    """An Upsert of one row, in a table that has an index: a second table, with one row for each of its rows.

    A row of the index has as its key the bytes 1 to 8 of the first row's value, and then that row's key. The index row
    of a replaced row is removed; that of the new row is added, with the value `index_value`.
    """

    table: bytes
    key: bytes
    value: bytes
    index_table: bytes
    index_value: bytes


class Require(NamedTuple):
    """Changes nothing: these keys must be there."""

    table: bytes
    keys: list[bytes]


class RequireAbsent(NamedTuple):
    """Changes nothing: none of these keys may be there."""

    table: bytes
    keys: list[bytes]


class RequireEmpty(NamedTuple):
    """Changes nothing: no key may be at or after `start` and before `end`."""

    table: bytes
    start: bytes
    end: bytes


Operation = (
    MakeTable
    | Insert
    | Upsert
    | Delete
    | DeleteIfPresent
    | DeleteRange
    | DeleteFirst
    | UpsertIndexed
    | Require
    | RequireAbsent
    | RequireEmpty
)


def rows_changed(operation: Operation) -> int:
    """Returns how many rows it changes at most, as far as it says that: a DeleteRange counts as one."""
    if isinstance(operation, Insert | Upsert):
        return len(operation.rows)
    if isinstance(operation, Delete | DeleteIfPresent):
        return len(operation.keys)
    if isinstance(operation, DeleteFirst):
        return 2 * operation.limit
    return 3 if isinstance(operation, UpsertIndexed) else 1


# ---- bytes --------------------------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct(">I")
_KEY = struct.Struct(">H")  # the length of a key, which follows
_ROW = struct.Struct(">HI")  # the lengths of key and value, which follow
_NUMBER = struct.Struct(">Q")

Parts = list[bytes]


class Bytes:
    """The bytes that are read; `at`: the next one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self._data)

    def take(self, count: int) -> bytes:
        """Returns the next `count` bytes. Raises DamagedRecord where there are fewer."""
        end = self.at + count
        if end > len(self._data):
            raise DamagedRecord("An operation in the log goes on beyond the end of its entry.")
        taken, self.at = self._data[self.at : end], end
        return taken

    def unpack(self, shape: struct.Struct) -> tuple[int, ...]:
        """Returns the numbers of that shape."""
        return shape.unpack(self.take(shape.size))


class FieldBytes(NamedTuple):
    """Writes and reads one field of an operation."""

    write: Callable[[Parts, Any], None]
    read: Callable[[Bytes], Any]


def _write_bytes(parts: Parts, value: bytes) -> None:
    parts += (_LENGTH.pack(len(value)), value)


def _read_bytes(source: Bytes) -> bytes:
    return source.take(*source.unpack(_LENGTH))


def _write_rows(parts: Parts, rows: list[Row]) -> None:
    pack = _ROW.pack
    parts.append(_COUNT.pack(len(rows)))
    for key, value in rows:
        parts += (pack(len(key), len(value)), key, value)


def _read_rows(source: Bytes) -> list[Row]:
    [count] = source.unpack(_COUNT)
    rows = []
    for _ in range(count):
        key_bytes, value_bytes = source.unpack(_ROW)
        rows.append((source.take(key_bytes), source.take(value_bytes)))
    return rows


def _write_keys(parts: Parts, keys: Sequence[bytes]) -> None:
    pack = _KEY.pack
    parts.append(_COUNT.pack(len(keys)))
    for key in keys:
        parts += (pack(len(key)), key)


def _read_keys(source: Bytes) -> list[bytes]:
    [count] = source.unpack(_COUNT)
    return [source.take(*source.unpack(_KEY)) for _ in range(count)]


def _write_number(parts: Parts, number: int) -> None:
    parts.append(_NUMBER.pack(number))


_BYTES = FieldBytes(_write_bytes, _read_bytes)
_ROWS = FieldBytes(_write_rows, _read_rows)
_KEYS = FieldBytes(_write_keys, _read_keys)
_NAMES = FieldBytes(_write_keys, lambda source: tuple(_read_keys(source)))
_NUMBERS = FieldBytes(_write_number, lambda source: source.unpack(_NUMBER)[0])
_FLAG = FieldBytes(_write_number, lambda source: source.unpack(_NUMBER)[0] == 1)

# by class: the byte for its kind, and its fields; a number is never used again for another one
_KINDS: dict[type, tuple[bytes, tuple[FieldBytes, ...]]] = {
    MakeTable: (b"\x01", (_BYTES,)),
    Insert: (b"\x02", (_BYTES, _ROWS)),
    Upsert: (b"\x03", (_BYTES, _ROWS)),
    Delete: (b"\x04", (_BYTES, _KEYS)),
    DeleteIfPresent: (b"\x05", (_BYTES, _KEYS)),
    DeleteRange: (b"\x06", (_BYTES, _BYTES, _BYTES)),
    DeleteFirst: (b"\x07", (_NAMES, _BYTES, _BYTES, _NUMBERS, _FLAG, _BYTES, _NUMBERS)),
    UpsertIndexed: (b"\x08", (_BYTES, _BYTES, _BYTES, _BYTES, _BYTES)),
    Require: (b"\x09", (_BYTES, _KEYS)),
    RequireAbsent: (b"\x0a", (_BYTES, _KEYS)),
    RequireEmpty: (b"\x0b", (_BYTES, _BYTES, _BYTES)),
}
_CLASSES = {code: (kind, fields) for kind, (code, fields) in _KINDS.items()}


def encode_operations(operations: Sequence[Operation]) -> Parts:
    """Their bytes, in parts that are to be joined."""
    parts: Parts = []
    for operation in operations:
        code, fields = _KINDS[type(operation)]
        parts.append(code)
        for field, value in zip(fields, operation, strict=True):
            field.write(parts, value)
    return parts


def decode_operations(data: bytes) -> list[Operation]:
    """Returns the operations of those bytes, whose checksum is right. Raises DamagedRecord for what no Radiator has
    written.
    """
    source = Bytes(data)
    operations: list[Operation] = []
    while not source.is_over:
        code = source.take(1)
        if code not in _CLASSES:
            raise DamagedRecord(f"The log has an operation of kind {code[0]}, which this Radiator does not know.")
        kind, fields = _CLASSES[code]
        operations.append(kind(*[field.read(source) for field in fields]))
    return operations


class Logged(Protocol):
    """The part of a batch that the log has."""

    @property
    def operations(self) -> bytes: ...


Entry = TypeVar("Entry", bound=Logged)


def pieces(entries: Iterable[Entry]) -> Iterator[tuple[list[Operation], Entry]]:
    """Yields the operations of entries in their order, as many as go in one transaction each, and the entry that is the
    last of these. There are no more rows than the pages that they copy have room for, unless one entry has them.
    """
    piece: list[Operation] = []
    rows = size = 0
    last: Entry | None = None
    for entry in entries:
        operations = decode_operations(entry.operations)
        added = sum(map(rows_changed, operations))
        if last is not None and (rows + added > UNAPPLIED_ROWS or size + len(entry.operations) > UNAPPLIED_BYTES):
            yield piece, last
            piece, rows, size = [], 0, 0
        piece += operations
        rows += added
        size += len(entry.operations)
        last = entry
    if last is not None:
        yield piece, last
