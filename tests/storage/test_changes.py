"""What a run of batches changes is what the batches do one by one, whatever is taken together."""

import time
from collections.abc import Sequence
from random import Random

import pytest

from radiator.model.errors import Contradiction
from radiator.storage.changes import Changes
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    Insert,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Upsert,
    decode_operations,
    encode_operations,
)
from radiator.storage.codec.tables import TABLES
from tests.storage.tree import INDEX, ONE, PAIRED, TWO, Rows, Tree, drawn


class Kept:
    """Rows in memory, as the tables are to a run of changes."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def get(self, table: bytes, key: bytes) -> bytes | None:
        return self.rows[table].get(key)

    def among(self, table: bytes, keys: Sequence[bytes]) -> list[bytes]:
        assert [*keys] == sorted(keys), "they ascend"
        return [key for key in keys if key in self.rows[table]]

    def keys(self, table: bytes, start: bytes, end: bytes) -> list[bytes]:
        return sorted(key for key in self.rows[table] if start <= key < end)

    def is_empty(self, table: bytes) -> bool:
        return not self.rows[table]


def applied(rows: Rows, changes: Changes) -> Rows:
    """The rows with those changes; what is new must not have been there, and what goes may be there or not."""
    result = {table: dict(found) for table, found in rows.items()}
    for table, changed in changes.tables.items():
        assert not changed.new & rows[table].keys(), "it is there already"
        assert all(changed.rows[key] is not None for key in changed.new)
        for key, value in changed.rows.items():
            if value is None:
                result[table].pop(key, None)
            else:
                result[table][key] = value
    return result


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_what_the_operations_do_one_by_one(seed: int) -> None:
    """Carried out on the tables, on a run that is not applied yet, and on two of those."""
    chance = Random(seed)
    tree = Tree({table: {} for table in TABLES})
    rows: Rows = {table: {} for table in TABLES}
    for _ in range(8):
        closed = Changes(Kept(rows))  # type: ignore[arg-type]
        opened = Changes(closed)
        for part in (closed, opened):
            for _ in range(chance.randint(0, 20)):
                operation = drawn(chance, tree)
                tree.apply([operation])
                part.carry_out(operation)
                for table in (ONE, TWO, PAIRED, INDEX):
                    there = sorted(tree.rows[table])
                    assert [*part.keys(table, b"", b"\xff" * 30)] == there
                    assert all(part.get(table, key) == value for key, value in tree.rows[table].items())
                    assert part.among(table, sorted({*there, b"\1", b"\7\1\1"})) == there
        rows = applied(rows, closed)
        rows = applied(rows, opened)
        assert rows == tree.rows


def test_what_is_put_and_removed_again_leaves_nothing() -> None:
    changes = Changes(Kept({table: {} for table in TABLES}))  # type: ignore[arg-type]
    for _ in range(2):
        changes.carry_out(Insert(ONE, [(b"a", b"1"), (b"b", b"2")]))
        changes.carry_out(Delete(ONE, [b"a", b"b"]))
        assert changes.tables[ONE].rows == {} and changes.tables[ONE].new == set()


def least_commit_s(rows: int) -> float:
    """How long it takes to put a row, replace one and delete one, where so many rows are kept."""
    kept = Changes(Kept({table: {} for table in TABLES}))
    kept.carry_out(Insert(ONE, [(b"%09d" % number, b"v") for number in range(rows)]))
    took = []
    for number in range(30):
        began_s = time.process_time()
        kept.carry_out(Insert(ONE, [(b"%09d" % (rows + number), b"v")]))
        kept.carry_out(Upsert(ONE, [(b"%09d" % number, b"w")]))
        kept.carry_out(Delete(ONE, [b"%09d" % (rows - 1 - number)]))
        took.append(time.process_time() - began_s)
    return min(took)


def test_a_commit_costs_the_same_however_many_rows_are_kept() -> None:
    assert least_commit_s(100_000) < 10 * least_commit_s(100)


def test_an_operation_without_rows_changes_nothing() -> None:
    changes = Changes(Kept({table: {} for table in TABLES}))  # type: ignore[arg-type]
    operations = [Insert(ONE, []), Upsert(ONE, []), Delete(ONE, []), DeleteIfPresent(ONE, []), Require(ONE, [])]
    for operation in decode_operations(b"".join(encode_operations(operations))):
        changes.carry_out(operation)
    assert not any(changed.rows for changed in changes.tables.values())


def test_who_reads_changes_leaves_them_as_they_are() -> None:
    """The follower writes a run to the tables while commits read it, on tables that it does not change too."""
    run = Changes(Kept({table: {} for table in TABLES}))  # type: ignore[arg-type]
    run.carry_out(Upsert(ONE, [(b"there", b"v")]))
    later = Changes(run)
    for operation in (
        Insert(TWO, [(b"a", b"1")]),
        Require(ONE, [b"there"]),
        RequireAbsent(PAIRED, [b"a"]),
        RequireEmpty(INDEX, b"", b"\xff"),
        DeleteFirst((TWO, ONE), b"", b"\xff", 2, True, PAIRED, 0),
    ):
        later.carry_out(operation)
    for table in TABLES:
        assert (later.get(table, b"a"), later.among(table, [b"a"])) == (None, [])
        assert [*later.keys(table, b"", b"\xff")] == []
        later.is_empty(table)
    assert run.tables.keys() == {ONE} and run.tables[ONE].rows == {b"there": b"v"}


BAD: list[tuple[Operation, str]] = [
    (Insert(ONE, [(b"there", b"x")]), "there is a row 7468657265 in messages already"),
    (Insert(ONE, [(b"a", b"x"), (b"a", b"y")]), "two rows of one key"),
    (Delete(ONE, [b"missing"]), "there is no row 6d697373696e67 in messages to be deleted"),
    (DeleteFirst((ONE, TWO), b"", b"\xff", 2, True, PAIRED, 0), "1 of 2 rows from  on are missing"),
    (Require(ONE, [b"missing"]), "there is no row 6d697373696e67 in messages"),
    (RequireAbsent(ONE, [b"there"]), "there is a row 7468657265 in messages, and should not be"),
    (RequireEmpty(ONE, b"", b"\xff"), "there is a row 7468657265 in messages, and should not be"),
]


@pytest.mark.parametrize(("operation", "sentence"), BAD, ids=[type(one).__name__ for one, _ in BAD])
@pytest.mark.parametrize("is_in_the_run", [False, True])
def test_what_is_not_as_it_is_stated_is_a_contradiction(
    operation: Operation, sentence: str, is_in_the_run: bool
) -> None:
    rows: Rows = {table: {} for table in TABLES}
    if not is_in_the_run:
        rows[ONE][b"there"] = b"v"
    changes = Changes(Kept(rows))  # type: ignore[arg-type]
    if is_in_the_run:
        changes.carry_out(Upsert(ONE, [(b"there", b"v")]))
    with pytest.raises(Contradiction) as raised:
        Changes(changes).carry_out(operation)
    assert sentence in str(raised.value)
    Changes(changes).carry_out(Upsert(TWO, [(b"x", b"y")]))  # the run itself is as it was
