"""T24: what the writer makes of operations on tables, whatever they are and in whatever batches.

Batches are drawn, carried out by the writer on LMDB and by a tree in memory, and both must have the same rows. Then
rows are appended one by one behind the last one that is left: they must lie as densely as in a table that was empty.
"""

from random import Random

from radiator.model.limits import MIB
from radiator.storage.codec.operations import Delete, Insert
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.campaigns.campaign import Campaign, Run
from tests.storage.tree import ONE, TWO, Tree, drawn, leaf_pages, rows_of

BATCHES = 40  # of a case
APPENDED = 300
ROW_BYTES = 1000  # four of them fill a page
ROWS_OF_PAGE = 4
SPARE_PAGES = 2  # more than rows that lie densely take, for those that were there
END = b"\xff"  # behind all that is drawn


def judge(run: Run, store: LmdbStore, chance: Random) -> None:
    tree = Tree(rows_of(store))
    for number in range(BATCHES):
        batch = []
        for _ in range(chance.randint(1, 12)):
            batch.append(drawn(chance, tree))
            tree.apply(batch[-1:])
        try:
            store._writer.apply(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, what was drawn fits what is there
            run.violation(f"Batch {number} was refused, though it fits: {error}")
            return
        if rows_of(store) != tree.rows:
            run.violation(f"Batch {number} has left other rows than it says: {batch}.")
            return
    for table in (ONE, TWO):
        behind = max(tree.rows[table], default=b"") + b"\0"
        store._writer.apply([Insert(table, [(END, b"last")])])
        store._writer.apply([Delete(table, [END])])
        before = leaf_pages(store, table)
        numbers = [row.to_bytes(2, "big") for row in range(APPENDED)]
        store._writer.apply([Insert(table, [(behind + number, bytes(ROW_BYTES))]) for number in numbers])
        grown, wanted = leaf_pages(store, table) - before, APPENDED // ROWS_OF_PAGE
        if grown > wanted + SPARE_PAGES:
            run.violation(f"{APPENDED} rows that were appended take {grown} pages instead of {wanted}.")


def operations(run: Run) -> None:
    while not run.is_over:
        directory = run.directory / str(run.done)
        store = open_store(directory, 64 * MIB)
        try:
            judge(run, store, Random(run.chance.random()))
        finally:
            store.close()
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T24",
        name="operations",
        title="operations on tables in any batches, beside a tree in memory; rows that are appended lie densely",
        unit="stores",
        run=operations,
        cases=(20, 200, 2_000),
        mutants=("last-key-kept-behind-an-upsert", "last-key-kept-behind-a-delete"),
        mutant_cases=40,
        quick_mutants=2,
    ),
)
