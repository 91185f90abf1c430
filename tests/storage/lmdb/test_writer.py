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
from radiator.storage.codec.tables import BY_KEY
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.storage.scribe import MAP_BYTES
from tests.storage.tree import INDEX, ONE, TWO, Tree, drawn, leaf_pages, rows_of


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


@pytest.mark.parametrize("again", [["b"], ["a", "b"], ["b", "z"]])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_second_row_of_an_index_is_refused_before_the_tables_have_it_or_when_they_get_it(
    store: LmdbStore, again: list[str], is_known: bool
) -> None:
    writer, first, second = store._writer, Insert(BY_KEY, rows("b", "d")), Insert(BY_KEY, rows(*again, value=b"w"))
    if not is_known:
        writer.apply([first])
    before = rows_of(store)
    with pytest.raises(Contradiction, match="That is damage, or a bug in Radiator"):
        writer.apply([first, second] if is_known else [second])
    assert rows_of(store) == before


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


@pytest.mark.parametrize("gone", [Delete(ONE, [b"z"]), DeleteIfPresent(ONE, [b"z"]), DeleteRange(ONE, b"z", b"zz")])
def test_rows_lie_densely_behind_one_that_has_gone(store: LmdbStore, gone: Operation) -> None:
    """What comes behind the last row that is there is appended, not sorted in: half of the pages would be empty."""
    store._writer.apply([Insert(ONE, rows("z"))])
    store._writer.apply([gone])
    for table in (ONE, TWO):
        keys = [f"a{number:05}" for number in range(300)]
        store._writer.apply([Insert(table, rows(key, value=bytes(1000))) for key in keys])
    assert leaf_pages(store, ONE) == leaf_pages(store, TWO) == 75, "four to a page"


def test_a_row_that_is_put_behind_the_last_one_is_no_place_to_append_before(store: LmdbStore) -> None:
    for put in (Upsert(ONE, rows("z")), UpsertIndexed(TWO, b"z", b"\1" + bytes(8), ONE, b"i")):
        store._writer.apply([Insert(ONE, rows("a" + type(put).__name__))])
        store._writer.apply([put])
        store._writer.apply([Insert(ONE, rows("b" + type(put).__name__))])
    assert sorted(rows_of(store)[ONE])[-1] == b"z"
