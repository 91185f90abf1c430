"""A tree in memory that carries operations out by their docstrings: what the writer on LMDB is compared with."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
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
from radiator.storage.codec.tables import APPLIED, META, TABLES
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import LmdbStore

Rows = dict[bytes, dict[bytes, bytes]]

# tables for operations that are drawn: a writer would not know them from any others
ONE, TWO, PAIRED, INDEX = b"messages", b"delayed", b"counts", b"dedup_by_time"


def rows_in(path: Path) -> Rows:
    """All rows of a store on LMDB, by table."""
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return _without_applied({name: {key: bytes(value) for key, value in snapshot.rows(name)} for name in TABLES})


def rows_of(store: LmdbStore) -> Rows:
    """The same of one that is open in this process."""
    store._follower.apply()
    with store._env.begin() as txn:
        return _without_applied({name: dict(txn.cursor(table)) for name, table in store._tables.items()})


def _without_applied(rows: Rows) -> Rows:
    """Without the row that says how much of the log the tables have: no operation of a batch is about it."""
    rows[META].pop(APPLIED, None)
    return rows


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
                    if paired:
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


def drawn(chance: Random, tree: Tree) -> Operation:
    """One that fits what is there."""
    table, keys = chance.choice([ONE, TWO, PAIRED]), [bytes([number, chance.randrange(3)]) for number in range(12)]
    there = sorted(tree.rows[table])
    some = sorted(chance.sample(keys, chance.randint(1, 4)))
    start, end = sorted(chance.sample(keys, 2))
    new = [key for key in some if key not in there]
    kind = chance.randrange(9)
    if kind < 3 and new:
        return Insert(table, [(key, chance.randbytes(12)) for key in new])
    if kind == 3 and there:
        return Delete(table, sorted(chance.sample(there, chance.randint(1, len(there)))))
    if kind == 4:
        return DeleteIfPresent(table, some)
    if kind == 5:
        return DeleteRange(table, start, end)
    if kind == 6:
        paired = chance.choice([PAIRED, b""])
        return DeleteFirst((ONE, TWO), start, end, chance.randrange(5), False, paired, chance.randrange(2))
    if kind == 7:
        return UpsertIndexed(ONE, some[0], b"\1" + chance.randbytes(8) + b"rest", INDEX, b"i")
    return Upsert(table, [(key, chance.randbytes(12)) for key in some])


def leaf_pages(store: LmdbStore, table: bytes) -> int:
    """How many pages the rows of a table take."""
    store._follower.apply()
    with store._env.begin() as txn:
        return int(txn.stat(store._tables[table])["leaf_pages"])
