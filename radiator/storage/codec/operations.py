"""The operations of a batch: changes of rows in tables, carried out without knowledge of what the rows mean. Pure.

A table has rows, each a key and a value, in the order of their keys. Operations are carried out in the order of their
batch, all or none of them. One that does not find what it states contradicts the store: damage, or a bug.
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
    """The rows are there from now on: each is added, or replaces the row under its key."""

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

    is_exact: there must be that many. With each goes, if it is there, the row of the table `paired` whose key is that
    of the row from byte `key_at` on.
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

    A row of the index has as its key the bytes 1 to 8 of the first row's value, and then that row's key. The index row
    of a replaced row goes; that of the new row is added, with the value `index_value`.
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
    """Nothing changes; no key may be at or after `start` and before `end`."""

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
