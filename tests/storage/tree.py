"""A tree in memory that carries operations out by their docstrings: what the writer on LMDB is compared with."""

from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    MakeTable,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Upsert,
    UpsertIndexed,
)
from radiator.storage.codec.tables import TABLES
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import LmdbStore

Rows = dict[bytes, dict[bytes, bytes]]


def rows_in(path: Path) -> Rows:
    """All rows of a store on LMDB, by table."""
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {name: {key: bytes(value) for key, value in snapshot.rows(name)} for name in TABLES}


def rows_of(store: LmdbStore) -> Rows:
    """The same of one that is open in this process."""
    with store._env.begin() as txn:
        return {name: dict(txn.cursor(table)) for name, table in store._tables.items()}


class Tree:
    def __init__(self, rows: Rows) -> None:
        self.rows = {name: dict(found) for name, found in rows.items()}

    def apply(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._apply(operation)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case MakeTable(table):
                assert table not in self.rows
                self.rows[table] = {}
            case Insert(table, rows):
                assert [*rows] == sorted(rows) and rows and not self.rows[table].keys() & dict(rows).keys()
                self.rows[table].update(rows)
            case Upsert(table, rows):
                self.rows[table].update(rows)
            case Delete(table, keys):
                assert keys and keys == sorted(keys)
                for key in keys:
                    del self.rows[table][key]
            case DeleteIfPresent(table, keys):
                assert keys == sorted(keys)
                for key in keys:
                    self.rows[table].pop(key, None)
            case DeleteRange(table, start, end):
                for key in self.between(table, start, end):
                    del self.rows[table][key]
            case DeleteFirst(tables, start, end, limit, is_exact, paired, key_at):
                found = [(table, key) for table in tables for key in self.between(table, start, end)][:limit]
                assert len(found) == limit or not is_exact
                for table, key in found:
                    del self.rows[table][key]
                    self.rows[paired].pop(key[key_at:], None)
            case UpsertIndexed(table, key, value, index, index_value):
                before = self.rows[table].get(key)
                if before is not None:
                    self.rows[index].pop(before[1:9] + key, None)
                self.rows[table][key] = value
                self.rows[index][value[1:9] + key] = index_value
            case Require(table, keys):
                assert self.rows[table].keys() >= {*keys}
            case RequireAbsent(table, keys):
                assert not self.rows[table].keys() & {*keys}
            case RequireEmpty(table, start, end):
                assert not self.between(table, start, end)
            case _:
                assert_never(operation)

    def between(self, table: bytes, start: bytes, end: bytes) -> list[bytes]:
        return sorted(key for key in self.rows[table] if start <= key < end)
