"""T26: a store is killed at any line of the code that writes it, life after life, with segments of a few kilobytes.

Batches of drawn operations are added; the tables follow now and then. Each start, which may be killed too, must find
what was said to be committed, the batch that was on its way perhaps, and nothing else: rows are compared with those of
a tree in memory. What is read in between must be as new as the last commit. And where two entries have changed places a
start must be refused.

Every other store keeps all segments. A backup of it is made after one of its lives, and its log is copied after some,
as a kill has left it. In the end there must be no gap, and the backup, brought forward by the copies to an entry that
is drawn, must have the rows that a tree in memory has when the operations of the entries up to that one are carried
out. A kill loses nothing that was handed to the operating system: that a sync is missing only T2 and T3 can see.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from radiator.model.errors import StoreError
from radiator.model.limits import MIB
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.storage import wal
from radiator.storage.backup import backup
from radiator.storage.codec import records
from radiator.storage.codec.operations import Operation, decode_operations, encode_operations
from radiator.storage.codec.tables import APPLIED, META, STORE_ID
from radiator.storage.forward import LogBehind, Until
from radiator.storage.lmdb import store as store_module
from radiator.storage.lmdb.reader import backup_meta
from radiator.storage.lmdb.store import LmdbStore, open_store
from radiator.storage.report import unheard
from radiator.storage.wal import WalReading, segments_in
from radiator.storage.wal_copy import LogCopier
from tests.campaigns.campaign import Campaign, Run
from tests.storage.tree import INDEX, ONE, PAIRED, TWO, Rows, Tree, drawn, rows_in, rows_of

LIVES = 6  # of a case
COPIED = 1 / 3
KEEP_ALL = LogKeep(max_bytes=1 << 40)
BATCHES = 40  # of a life
LINES_MAX = 8_000  # about those of a life
SEGMENT_BYTES = 4096
WRITING = ("wal.py", "follower.py", "writer.py", "replay.py", "directory.py", "store.py")
IN_STORE = {ONE: b"dedup", TWO: b"by_key", PAIRED: PAIRED, INDEX: INDEX}  # a start judges the rows of the others
BEFORE, BEHIND, WRONG, COMMITTED = b"0", b"1", b"!", b"."


@dataclass
class Known:
    """The rows of what is committed, and the batch that may be there too."""

    tree: Tree
    next: list[Operation]

    def behind(self) -> Tree:
        tree = Tree(self.tree.rows)
        tree.apply(self.next)
        return tree


def batch_of(chance: Random, tree: Tree) -> list[Operation]:
    """One that fits the tree, which is left as it is."""
    drawing = Tree(tree.rows)
    batch = []
    for _ in range(chance.randint(1, 6)):
        batch.append(drawn(chance, drawing))
        drawing.apply(batch[-1:])
    return batch


def of_store(operation: Operation) -> Operation:
    """The same on tables whose rows no start judges."""
    fields = []
    for value in operation:
        if isinstance(value, tuple):
            fields.append(tuple(IN_STORE.get(name, name) for name in value))
        else:
            fields.append(IN_STORE.get(value, value) if isinstance(value, bytes) else value)
    return type(operation)(*fields)


def rows(store: LmdbStore) -> Rows:
    found = rows_of(store)
    return {table: found[name] for table, name in IN_STORE.items()}


def live(path: Path, keep: LogKeep, known: Known, seed: str, last_line: int, writing: int) -> None:
    """One life, in a process of its own, which is killed at that line."""
    seen = 0

    def die_at_last(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.endswith(WRITING):
            return None
        seen += event == "line"
        if seen > last_line:
            os._exit(42)
        return die_at_last

    sys.settrace(die_at_last)
    store = open_store(path, 16 * MIB, log_keep=keep)
    found = rows(store)
    is_behind = found == known.behind().rows
    if not is_behind and found != known.tree.rows:
        os.write(writing, WRONG + b"the start finds other rows than were committed")
        os._exit(1)
    os.write(writing, BEHIND if is_behind else BEFORE)
    chance, tree = Random(seed), known.behind() if is_behind else known.tree
    for _ in range(BATCHES):
        batch = batch_of(chance, tree)
        operations = [of_store(operation) for operation in batch]
        store._follower.add(operations, b"".join(encode_operations(operations)), store.recovery.boot, 0)
        os.write(writing, COMMITTED)
        tree.apply(batch)
        if chance.random() < 0.1:
            store.catch_up()
        elif chance.random() < 0.1 and read_back(store) != tree.rows:
            os.write(writing, WRONG + b"what is read back is older than what was committed")
            os._exit(1)
    store.close()


def read_back(store: LmdbStore) -> Rows:
    """As the store's own reads do."""
    store._up_to_date()
    with store._env.begin() as txn:
        return {table: dict(txn.cursor(store._tables[name])) for table, name in IN_STORE.items()}


def answers_of(path: Path, keep: LogKeep, known: Known, seed: str, last_line: int) -> bytes:
    """What a life has answered until its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            live(path, keep, known, seed, last_line, writing)
        except BaseException as error:  # noqa: BLE001 - whatever it is, no kill was
            os.write(writing, WRONG + f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answers:
        given = answers.read()
    os.waitpid(child, 0)
    return given


def known_after(known: Known, seed: str, given: bytes) -> Known:
    if not given:
        return known
    tree, chance = known.behind() if given[:1] == BEHIND else known.tree, Random(seed)
    for _ in range(given.count(COMMITTED)):
        tree.apply(batch_of(chance, tree))
        if chance.random() >= 0.1:
            chance.random()
    return Known(tree, batch_of(chance, tree))


def exchanged(path: Path, copy: Path) -> bool:
    """Makes a copy of the store in which two entries of a segment have changed places; False: none has as many."""
    for _, segment in segments_in(path / wal.WAL_DIRECTORY):
        data = segment.read_bytes()
        opening, places = wal._opening_of(data), [wal._ENTRIES_AT]
        if opening is None:
            continue
        while (found := wal._head_at(data[places[-1] :][: wal._HEAD_BYTES], opening.salt)) is not None:
            if found[0].magic != wal._ENTRY_MAGIC:
                break
            places.append(places[-1] + wal._HEAD_BYTES + wal._padded(found[0].length))
        if len(places) > 4:
            parts = [data[begin:end] for begin, end in pairwise(places)]
            parts[-2], parts[-3] = parts[-3], parts[-2]
            shutil.copytree(path, copy)
            whole = data[: places[0]] + b"".join(parts) + data[places[-1] :]
            (copy / wal.WAL_DIRECTORY / segment.name).write_bytes(whole)
            return True
    return False


def judge_exchanged(run: Run, path: Path, name: str) -> None:
    """The copy's log is read from its beginning: the tables may have all of it."""
    copy = path.with_name("copy")
    if not exchanged(path, copy):
        return
    found = [wal._opening_of(segment.read_bytes()) for _, segment in segments_in(copy / wal.WAL_DIRECTORY)]
    first = next(opening for opening in found if opening is not None)
    place = wal.Place(first.first - 1, first.crc_before)
    try:
        list(WalReading(copy / wal.WAL_DIRECTORY, first.store.rstrip(b"\0").decode(), place).entries())
    except StoreError:
        pass
    else:
        run.violation(f"{name}: two entries have changed places, and the log is read as if nothing had happened")
    shutil.rmtree(copy)


def copy_log(run: Run, path: Path, name: str) -> None:
    with LogCopier(path, path.with_name("copies")) as copier:
        for gap in copier.copy().gaps:
            run.violation(f"{name}: {gap}")


def judge_forward(run: Run, path: Path, name: str) -> None:
    """The backup is brought forward to an entry, and to the last one that the store has now."""
    file, copies = path.with_name("backup"), path.with_name("copies")
    copy_log(run, path, name)
    meta = backup_meta(file)
    assert meta is not None
    place = wal.Place(*records.decode_place(APPLIED, meta[APPLIED]))
    entries = [*WalReading(path / wal.WAL_DIRECTORY, records.decode_text(STORE_ID, meta[STORE_ID]), place).entries()]
    index = run.chance.randint(place.index, place.index + len(entries))
    expected = Tree(rows_in(file))
    for entry in entries:
        if entry.place.index <= index:
            expected.apply(decode_operations(entry.operations))
    expected.rows[META].pop(APPLIED, None)
    for until, wanted in ((index, expected.rows), (place.index + len(entries), None)):
        brought = path.with_name("brought")
        shutil.copyfile(file, brought)
        behind = LogBehind(brought, meta, copies)
        plan = behind.plan(Until(index=until), unheard)
        if plan.entries:
            behind.bring(brought, plan, unheard)
        found = rows_in(brought)
        if wanted is None:
            wanted, now = without_meta(rows_in(path)), without_meta(found)
        else:
            now = found
        if now != wanted:
            run.violation(
                f"{name}: brought forward to entry {until} of {place.index + len(entries)}, it has other rows"
            )
        brought.unlink()
    file.unlink()
    shutil.rmtree(copies)


def without_meta(found: Rows) -> Rows:
    return {table: kept for table, kept in found.items() if table != META}


def write_ahead(run: Run) -> None:
    wal.WAL_SEGMENT_FIRST_BYTES = SEGMENT_BYTES
    store_module.WAL_SEGMENT_FIRST_BYTES = SEGMENT_BYTES
    store_module.WAL_SEGMENT_BYTES = 2 * SEGMENT_BYTES
    while not run.is_over:
        path = run.directory / "data"
        keep = (KEEP_ALL, KEEP_NOTHING)[run.done % 2]
        open_store(path, 16 * MIB, log_keep=keep).close()
        backed_up = run.chance.randrange(LIVES - 1)
        known = Known(Tree({table: {} for table in IN_STORE}), [])
        for life in range(LIVES):
            seed, last_line = f"{run.chance.random()}", run.chance.randrange(LINES_MAX)
            name = f"case {run.done}, life {life}, killed at line {last_line}"
            given = answers_of(path, keep, known, seed, last_line)
            if WRONG in given:
                run.violation(f"{name}: {given[given.index(WRONG) + 1 :].decode(errors='replace')}")
                break
            known = known_after(known, seed, given)
            judge_exchanged(run, path, name)
            if keep is KEEP_ALL and life == backed_up:
                backup(path, path.with_name("backup"))
            if keep is KEEP_ALL and run.chance.random() < COPIED:
                copy_log(run, path, name)
        else:
            if keep is KEEP_ALL:
                judge_forward(run, path, name)
        shutil.rmtree(path)
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T26",
        name="write-ahead-log",
        title="kills a store at any line of the code that writes it, life after life, and finds what was committed",
        unit="stores",
        run=write_ahead,
        cases=(12, 1_000, 10_000),
        mutants=(
            "entries-applied-backwards",
            "applied-in-another-transaction",
            "recycled-before-the-tables-are-synced",
            "old-entries-pass-for-new",
            "reads-of-an-earlier-state",
            "chain-not-checked",
            "kept-segments-used-again",
            "forward-without-the-last",
            "forward-from-a-later-entry",
        ),
        mutant_cases=60,
        quick_mutants=9,
    ),
)
