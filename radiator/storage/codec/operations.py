"""The operations of a batch: changes of rows in tables, which whoever carries them out need not understand. Pure.

A table has rows, each a key and a value, in the order of their keys. Operations are carried out in the order of their
batch, all or none of them. What an operation finds otherwise than it says contradicts the store: damage, or a bug.
"""

from typing import NamedTuple

Row = tuple[bytes, bytes]


class MakeTable(NamedTuple):
    """The table is there from now on, empty. It must be new."""

    table: bytes


class Insert(NamedTuple):
    """The rows are added: at least one. They ascend, and none of their keys may be there."""

    table: bytes
    rows: list[Row]


class Upsert(NamedTuple):
    """The rows are there from now on: each is added, or takes the place of the row under its key."""

    table: bytes
    rows: list[Row]


class Delete(NamedTuple):
    """The rows under these keys go: at least one. They ascend, and all of them must be there."""

    table: bytes
    keys: list[bytes]


class DeleteIfPresent(NamedTuple):
    """Those rows go that are there. The keys ascend."""

    table: bytes
    keys: list[bytes]


class DeleteRange(NamedTuple):
    """All rows go whose keys are at or behind `start`, and before `end`."""

    table: bytes
    start: bytes
    end: bytes


class DeleteFirst(NamedTuple):
    """The first `limit` rows from `start` to before `end` go, those of the first table first, then of the next one.

    is_exact: there must be so many. With each of them goes the row of another table, `paired`, if it is there, whose
    key is that of the row from its byte `key_at` on.
    """

    tables: tuple[bytes, ...]
    start: bytes
    end: bytes
    limit: int
    is_exact: bool
    paired: bytes
    key_at: int = 0


class UpsertIndexed(NamedTuple):
    """As Upsert of one row, in a table that has an index: a second table, with one row for each of its rows.

    A row of the index lies under the bytes 1 to 8 of the first row's value, and then that row's key. The one of the row
    whose place is taken goes; this one's is added, with the value `index_value`.
    """

    table: bytes
    key: bytes
    value: bytes
    index_table: bytes
    index_value: bytes


class Require(NamedTuple):
    """Nothing changes; these keys must be there."""

    table: bytes
    keys: list[bytes]


class RequireAbsent(NamedTuple):
    """Nothing changes; none of these keys may be there."""

    table: bytes
    keys: list[bytes]


class RequireEmpty(NamedTuple):
    """Nothing changes; no key may be at or behind `start` and before `end`."""

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
