"""Keeps what a run of batches changes in the tree: of each row, only its state in the end.

Operations are carried out in their order, on rows that are read from the tree where they must be, and kept here. What
was put and removed again in between never reaches the tree. This module knows nothing of messages, queues or LMDB, and
of the tables only which are INDEXES.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Any, Protocol

from radiator.model.errors import Contradiction
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Upsert,
    UpsertIndexed,
)
from radiator.storage.codec.tables import INDEXES

_INDEXED = slice(1, 9)  # the bytes of a value that its row in an index begins with


class TableRows(Protocol):
    """The tree, or changes of it, as they are before the run."""

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """Returns the value under that key."""

    def among(self, table: bytes, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the keys under which there is a row, out of these, which ascend."""

    def keys(self, table: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """Returns the keys at or after `start`, and before `end`, in their order."""

    def is_empty(self, table: bytes) -> bool:
        """Whether the table has no rows."""


class TableChanges:
    """The changes of one table. rows: how they are in the end; None: removed. new: those that the tree does not have
    yet.

    last: no key that was put here is larger.
    """

    __slots__ = ("last", "new", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.new: set[bytes] = set()
        self.last = b""


_NONE = TableChanges()  # of a table that nothing was carried out on; it stays empty


class Changes:
    """One run. Raises Contradiction where an operation does not find what it states; what it has kept means nothing
    then. Reading it changes nothing in it: one thread may write it to the tree while another one reads it.
    """

    def __init__(self, tree: TableRows) -> None:
        self.tree = tree
        self.tables: dict[bytes, TableChanges] = {}

    def carry_out(self, operation: Operation) -> None:
        """Carries out the next operation, which is not a MakeTable."""
        _CARRY_OUT[type(operation)](self, operation)

    @property
    def row_count(self) -> int:
        """How many rows of the tree it changes."""
        return sum(len(changed.rows) for changed in self.tables.values())

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """Returns the value under that key, as it is now."""
        rows = self._kept(table).rows
        return rows[key] if key in rows else self.tree.get(table, key)

    def among(self, table: bytes, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the keys under which there is a row now, out of these, which ascend."""
        rows = self._kept(table).rows
        if rows.keys().isdisjoint(keys):
            return self.tree.among(table, keys)
        in_tree = {*self.tree.among(table, [key for key in keys if key not in rows])}
        return [key for key in keys if (rows[key] is not None if key in rows else key in in_tree)]

    def is_empty(self, table: bytes) -> bool:
        """Whether the table has no rows now; False where that is not known, too."""
        return not self._kept(table).rows and self.tree.is_empty(table)

    def keys(self, table: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """Returns the keys at or after `start`, and before `end`, in their order, as they are now."""
        rows = self._kept(table).rows
        added = sorted(key for key, value in rows.items() if value is not None and start <= key < end)
        before = (key for key in self.tree.keys(table, start, end) if key not in rows)
        return merge(added, before)

    def _kept(self, table: bytes) -> TableChanges:
        """Returns the changes of a table, to be read only."""
        return self.tables.get(table, _NONE)

    def _of(self, table: bytes) -> TableChanges:
        """Returns the changes of a table, to be changed."""
        changes = self.tables.get(table)
        if changes is None:
            changes = self.tables[table] = TableChanges()
        return changes

    # ---- one operation ----------------------------------------------------------------------------------------------

    def _insert(self, operation: Insert) -> None:
        table, added = operation
        if not added:
            return
        changes = self._of(table)
        rows, new = changes.rows, changes.new
        fresh = dict(added)
        if len(fresh) < len(added):
            raise Contradiction(f"two rows of one key from {added[0][0].hex()} on belong in {table.decode()}")
        if table in INDEXES:
            # its keys are scattered, and the tree would be asked for each; it refuses a second one when it gets them
            there = [key for key in fresh if rows.get(key) is not None]
        else:
            there = self.among(table, [*fresh])
        if there:
            raise Contradiction(f"there is a row {there[0].hex()} in {table.decode()} already")
        new.update({*fresh}.difference(rows))  # which looks at each of the smaller one only
        rows.update(fresh)
        changes.last = max(changes.last, added[-1][0])

    def _upsert(self, operation: Upsert) -> None:
        changes = self._of(operation.table)
        changes.rows.update(operation.rows)
        if operation.rows:
            changes.last = max(changes.last, max(operation.rows)[0])

    def _delete(self, operation: Delete) -> None:
        table, keys = operation
        changes = self._of(table)
        rows, new = changes.rows, changes.new
        kept: dict[bytes, None] = {}  # in the tree, or in a row that is one of its rows changed
        for key in keys:
            if key in new:
                del rows[key]
                new.remove(key)
            elif key in kept:
                raise _missing(table, key)
            else:
                kept[key] = None
        if kept:
            there = self.among(table, [*kept])
            if len(there) < len(kept):
                raise _missing(table, next(key for key in kept if key not in there))
            rows.update(kept)

    def _delete_if_present(self, operation: DeleteIfPresent) -> None:
        table, keys = operation
        changes = self._of(table)
        rows, new = changes.rows, changes.new
        is_empty = self.tree.is_empty(table)
        if is_empty and not rows:
            return
        for key in keys:
            if key in new:
                del rows[key]
                new.remove(key)
            elif not is_empty or key in rows:
                rows[key] = None

    def _delete_range(self, operation: DeleteRange) -> None:
        keys = list(self.keys(operation.table, operation.start, operation.end))
        self._delete_if_present(DeleteIfPresent(operation.table, keys))

    def _delete_first(self, operation: DeleteFirst) -> None:
        left = operation.limit
        for table in operation.tables:
            keys = [key for key, _ in zip(self.keys(table, operation.start, operation.end), range(left), strict=False)]
            left -= len(keys)
            self._delete_if_present(DeleteIfPresent(table, keys))
            if operation.paired:
                paired = [key[operation.key_at :] for key in keys]
                self._delete_if_present(DeleteIfPresent(operation.paired, paired))
        if left and operation.is_exact:
            names = " and ".join(name.decode() for name in operation.tables)
            start = operation.start.hex()
            raise Contradiction(f"{left} of {operation.limit} rows from {start} on are missing in {names}")

    def _upsert_indexed(self, operation: UpsertIndexed) -> None:
        before = self.get(operation.table, operation.key)
        if before is not None:
            # where that row was damaged its index row may stay behind
            self._delete_if_present(DeleteIfPresent(operation.index_table, [before[_INDEXED] + operation.key]))
        self._upsert(Upsert(operation.table, [(operation.key, operation.value)]))
        index_key = operation.value[_INDEXED] + operation.key
        self._upsert(Upsert(operation.index_table, [(index_key, operation.index_value)]))

    def _require(self, operation: Require) -> None:
        there = self.among(operation.table, sorted(operation.keys))
        if len(there) < len(operation.keys):
            key = next(key for key in operation.keys if key not in there)
            raise Contradiction(f"there is no row {key.hex()} in {operation.table.decode()}")

    def _require_absent(self, operation: RequireAbsent) -> None:
        if there := self.among(operation.table, sorted(operation.keys)):
            name = operation.table.decode()
            raise Contradiction(f"there is a row {there[0].hex()} in {name}, and should not be")

    def _require_empty(self, operation: RequireEmpty) -> None:
        for key in self.keys(operation.table, operation.start, operation.end):
            name = operation.table.decode()
            raise Contradiction(f"there is a row {key.hex()} in {name}, and should not be")


def _missing(table: bytes, key: bytes) -> Contradiction:
    return Contradiction(f"there is no row {key.hex()} in {table.decode()} to be deleted")


_CARRY_OUT: dict[type, Callable[[Changes, Any], None]] = {
    Insert: Changes._insert,
    Upsert: Changes._upsert,
    Delete: Changes._delete,
    DeleteIfPresent: Changes._delete_if_present,
    DeleteRange: Changes._delete_range,
    DeleteFirst: Changes._delete_first,
    UpsertIndexed: Changes._upsert_indexed,
    Require: Changes._require,
    RequireAbsent: Changes._require_absent,
    RequireEmpty: Changes._require_empty,
}
