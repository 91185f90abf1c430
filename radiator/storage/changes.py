"""What a run of batches changes in the tree: of each row, only how it is in the end.

Operations are carried out in their order, on rows that are read of the tree where they must be, and kept here. What was
put and removed again in between never reaches the tree. Nothing is known here of messages, queues or LMDB.
"""

from collections.abc import Callable, Iterator
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

_INDEXED = slice(1, 9)  # the bytes of a value that its row in an index begins with


class TableRows(Protocol):
    """The tree, or changes of it, as they are before the run."""

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """The value under that key."""

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether there is a row under that key."""

    def is_behind(self, table: bytes, key: bytes) -> bool:
        """Whether the key is behind all that the table has; False where that is not known, too."""

    def keys(self, table: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """The keys at or after `start`, and before `end`, in their order."""

    def is_empty(self, table: bytes) -> bool:
        """Whether the table has no rows."""


class TableChanges:
    """Of one table. rows: how they are in the end; None: gone. new: those that the tree does not have yet.

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
        """The next one. MakeTable is none of these."""
        _CARRY_OUT[type(operation)](self, operation)

    def absorb(self, later: "Changes") -> None:
        """Takes over what was carried out on top of this."""
        for table, changes in later.tables.items():
            mine = self._of(table)
            rows, new = mine.rows, mine.new
            # what is later is small beside all that is kept here: neither line may look at each row that is kept
            for key in [key for key in new.intersection(changes.rows) if changes.rows[key] is None]:
                del rows[key], changes.rows[key]
                new.remove(key)
            new.update(changes.new.difference(rows))
            rows.update(changes.rows)
            mine.last = max(mine.last, changes.last)

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """The value under that key, as it is now."""
        rows = self._kept(table).rows
        return rows[key] if key in rows else self.tree.get(table, key)

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether there is a row under that key now."""
        rows = self._kept(table).rows
        return rows[key] is not None if key in rows else self.tree.has(table, key)

    def is_behind(self, table: bytes, key: bytes) -> bool:
        """Whether the key is behind all that the table has now; False where that is not known, too."""
        return key > self._kept(table).last and self.tree.is_behind(table, key)

    def is_empty(self, table: bytes) -> bool:
        """Whether the table has no rows now; False where that is not known, too."""
        return not self._kept(table).rows and self.tree.is_empty(table)

    def keys(self, table: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """The keys at or after `start`, and before `end`, in their order, as they are now."""
        rows = self._kept(table).rows
        added = sorted(key for key, value in rows.items() if value is not None and start <= key < end)
        before = (key for key in self.tree.keys(table, start, end) if key not in rows)
        return merge(added, before)

    def _kept(self, table: bytes) -> TableChanges:
        """To be read only."""
        return self.tables.get(table, _NONE)

    def _of(self, table: bytes) -> TableChanges:
        """To be changed."""
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
        if len(dict(added)) < len(added):
            raise Contradiction(f"two rows of one key from {added[0][0].hex()} on belong in {table.decode()}")
        if not self.is_behind(table, added[0][0]):
            for key, _ in added:
                if self.has(table, key):
                    raise Contradiction(f"there is a row {key.hex()} in {table.decode()} already")
        for key, value in added:
            if key not in rows:
                new.add(key)
            rows[key] = value
        changes.last = max(changes.last, added[-1][0])

    def _upsert(self, operation: Upsert) -> None:
        changes = self._of(operation.table)
        changes.rows.update(operation.rows)
        changes.last = max((changes.last, *(key for key, _ in operation.rows)))

    def _delete(self, operation: Delete) -> None:
        table, keys = operation
        changes = self._of(table)
        rows, new = changes.rows, changes.new
        for key in keys:
            if key in new:
                del rows[key]
                new.remove(key)
            elif self.has(table, key):
                rows[key] = None
            else:
                raise Contradiction(f"there is no row {key.hex()} in {table.decode()} to be deleted")

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
        for key in operation.keys:
            if not self.has(operation.table, key):
                raise Contradiction(f"there is no row {key.hex()} in {operation.table.decode()}")

    def _require_absent(self, operation: RequireAbsent) -> None:
        for key in operation.keys:
            if self.has(operation.table, key):
                name = operation.table.decode()
                raise Contradiction(f"there is a row {key.hex()} in {name}, and should not be")

    def _require_empty(self, operation: RequireEmpty) -> None:
        for key in self.keys(operation.table, operation.start, operation.end):
            name = operation.table.decode()
            raise Contradiction(f"there is a row {key.hex()} in {name}, and should not be")


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
