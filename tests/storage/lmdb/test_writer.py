"""The writer carries out operations on tables of LMDB, and knows nothing of what is in them."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from radiator.model.errors import Contradiction
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
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.storage.scribe import MAP_BYTES
from tests.storage.tree import Tree, rows_of

# the writer would not know them from any others
ONE, TWO, PAIRED, INDEX = b"messages", b"delayed", b"counts", b"dedup_by_time"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = open_store(tmp_path / "data", MAP_BYTES)
    yield store
    store.close()


def rows(*keys: str, value: bytes = b"v") -> list[tuple[bytes, bytes]]:
    return [(key.encode(), value) for key in keys]


@pytest.mark.parametrize(
    "wrong",
    [
        Insert(ONE, rows("b")),
        Insert(ONE, rows("a", "b", "c")),
        Insert(ONE, rows("d")),
        Delete(ONE, [b"c"]),
        Delete(ONE, [b"b", b"e"]),
        DeleteFirst((ONE, TWO), b"b", b"e", 4, True, INDEX),
        Require(ONE, [b"b", b"c"]),
        RequireAbsent(ONE, [b"c", b"d"]),
        RequireEmpty(ONE, b"c", b"e"),
        MakeTable(ONE),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_what_is_not_as_an_operation_says_leaves_no_trace(store: LmdbStore, wrong: Operation) -> None:
    writer = store._writer
    writer.apply([Insert(ONE, rows("b", "d")), Insert(TWO, rows("bb"))])
    before = rows_of(store)
    with pytest.raises(Contradiction, match="That is damage, or a bug in Radiator"):
        writer.apply([Insert(ONE, rows("y", "z")), Upsert(TWO, rows("z")), wrong])
    assert rows_of(store) == before
    writer.apply([Insert(ONE, rows("x")), Insert(ONE, rows("c")), Insert(ONE, rows("w", "y"))])


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
        return DeleteFirst((ONE, TWO), start, end, chance.randrange(5), False, PAIRED, chance.randrange(2))
    if kind == 7:
        return UpsertIndexed(ONE, some[0], b"\1" + chance.randbytes(8) + b"rest", INDEX, b"i")
    return Upsert(table, [(key, chance.randbytes(12)) for key in some])


@pytest.mark.parametrize("seed", range(5))
def test_any_operations_do_what_they_say(store: LmdbStore, seed: int) -> None:
    chance = Random(seed)
    tree = Tree(rows_of(store))
    for _ in range(150):
        batch = []
        for _ in range(chance.randint(1, 4)):
            batch.append(drawn(chance, tree))
            tree.apply(batch[-1:])
        store._writer.apply(batch)
        assert rows_of(store) == tree.rows
