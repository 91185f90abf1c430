"""The tables follow the log: in order, once, and wherever the process is killed."""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

from radiator.model import limits
from radiator.model.errors import Contradiction, DiskFailed, StoreError
from radiator.model.writes import Remove
from radiator.storage.codec import records
from radiator.storage.codec.encode import encode
from radiator.storage.codec.operations import Delete, Insert, Upsert, encode_operations
from radiator.storage.codec.tables import TABLES
from radiator.storage.lmdb import datafile, follower
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.storage.breaking import run_forked
from tests.storage.log_batches import LogBatches
from tests.storage.scribe import MAP_BYTES, Scribe
from tests.storage.tree import INDEX, ONE, PAIRED, TWO, Rows, Tree, drawn, rows_in, rows_of

BATCHES = 12
WRITING = ("storage/wal.py", "follower.py", "writer.py", "replay.py", "directory.py")


@pytest.mark.durability("D34")
def test_entries_are_applied_once_and_in_order_wherever_it_is_killed(tmp_path: Path) -> None:
    """The child dies at its n-th line in the files that write, for ever higher n until it lives. What it has said to be
    committed is found, the next batch perhaps, and nothing else.
    """
    history = LogBatches(Random(3), counts=(1, 2))
    batches = [history.batch() for _ in range(BATCHES)]
    killed = 0
    for steps in count(step=41):
        path = tmp_path / f"data{steps}"
        open_store(path, MAP_BYTES).close()
        reading, writing = os.pipe()

        def commit_all(path: Path = path, last: int = steps, writing: int = writing) -> None:
            store = open_store(path, MAP_BYTES)
            seen = 0

            def die_at_last(frame: FrameType, event: str, _: object) -> Any:
                nonlocal seen
                if not frame.f_code.co_filename.endswith(WRITING):
                    return None
                seen += event == "line"
                if seen > last:
                    os._exit(42)
                return die_at_last

            sys.settrace(die_at_last)
            for number, batch in enumerate(batches):
                store.commit(batch)
                os.write(writing, b".")
                if number % 3 == 2:
                    store.catch_up()
            store.close()

        status = run_forked(commit_all)
        os.close(writing)
        committed = len(os.read(reading, BATCHES + 1))
        os.close(reading)
        assert status in (0, 42)
        assert found_after(path) in (after(path, batches[:committed]), after(path, batches[: committed + 1]))
        killed += status == 42
        if status == 0:
            break
    assert killed > 5, "too few steps were seen for this to say anything"


def found_after(path: Path) -> Rows:
    """What a start finds, but for its own numbers."""
    store = open_store(path, MAP_BYTES)
    rows = rows_of(store)
    store.close()
    return without_boot(rows)


def after(path: Path, batches: list[list[object]]) -> Rows:
    tree = Tree({name: {} for name in rows_in(path)} | {b"meta": rows_in(path)[b"meta"]})
    for batch in batches:
        tree.apply(encode(batch))  # type: ignore[arg-type]
    return without_boot(tree.rows)


def without_boot(rows: Rows) -> Rows:
    for name in (b"boot", b"clean", b"redelivered_below"):
        rows[b"meta"].pop(name, None)
    return rows


@pytest.fixture
def store(tmp_path: Path) -> LmdbStore:
    return open_store(tmp_path / "data", MAP_BYTES)


def add(store: LmdbStore, *operations: object) -> None:
    content = b"".join(encode_operations(operations))  # type: ignore[arg-type]
    store._follower.add(operations, content, 1, 1)  # type: ignore[arg-type]


def test_what_is_put_and_removed_again_never_reaches_the_tables(store: LmdbStore) -> None:
    before = store._env.info()["last_txnid"]
    add(store, Insert(b"messages", [(b"k", b"v")]))
    add(store, Delete(b"messages", [b"k"]))
    assert store._follower._open.tables[b"messages"].rows == {}
    store.catch_up()
    assert store._env.info()["last_txnid"] == before + 1
    store.close()


@pytest.mark.parametrize("is_applied", (False, True))
def test_an_entry_that_contradicts_what_is_there_is_in_neither_and_nothing_follows(
    tmp_path: Path, is_applied: bool
) -> None:
    store = open_store(tmp_path / "data", MAP_BYTES)
    add(store, Insert(b"messages", [(b"k", b"v")]))
    if is_applied:
        store.catch_up()
    add(store, Insert(b"messages", [(b"l", b"v")]))
    place = store._wal.place
    refused = pytest.raises(Contradiction, match=r"In .*data\.mdb there is a row 6b in messages already\. That is")
    with refused:
        add(store, Insert(b"counts", [(b"new", b"v")]), Insert(b"messages", [(b"k", b"w")]))
    follows: list[Callable[[], object]] = [
        lambda: add(store, Insert(b"messages", [(b"m", b"v")])),
        store.catch_up,
        lambda: store._follower.get(b"messages", b"k"),
    ]
    for what in follows:
        with pytest.raises(Contradiction, match="there is a row 6b in messages already"):
            what()
    assert store._wal.place == place
    store.close()
    rows = rows_in(tmp_path / "data")
    assert rows[b"counts"] == {} and rows[b"messages"] == {b"k": b"v", b"l": b"v"}


@pytest.mark.parametrize("error", (OSError(5, "Input/output error"), MemoryError()))
def test_what_could_not_be_appended_never_reaches_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store = open_store(tmp_path / "data", MAP_BYTES)
    store.catch_up()
    add(store, Insert(b"messages", [(b"k", b"v")]))

    def fails(opened: int) -> None:
        raise error

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises((DiskFailed, MemoryError)):
        add(store, Insert(b"messages", [(b"l", b"v")]))
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises((DiskFailed, MemoryError)):
            store.catch_up()
    with store._env.begin() as txn:
        assert not txn.stat(store._tables[b"messages"])["entries"]
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_there_is_known_with_the_tables_and_without_them(tmp_path: Path, seed: int) -> None:
    """Whatever is applied when: where keys are in the tables, in what is being applied, in what is open."""
    chance = Random(seed)
    store = open_store(tmp_path / "data", MAP_BYTES)
    store.catch_up()
    tree = Tree(rows_of(store))
    for _ in range(150):
        operation = drawn(chance, tree)
        tree.apply([operation])
        add(store, operation)
        if chance.random() < 0.2:
            store.catch_up()
        for table in (ONE, TWO, PAIRED, INDEX):
            keys = sorted({*tree.rows[table], *(bytes([chance.randrange(14), chance.randrange(4)]) for _ in range(5))})
            with store._follower._reading():
                assert store._follower._open.among(table, keys) == [key for key in keys if key in tree.rows[table]]
                assert store._follower._open.is_empty(table) <= (not tree.rows[table])
    assert rows_of(store) == tree.rows
    store.close()


def test_what_is_behind_all_that_there_is_is_added_without_a_read_of_the_tables(store: LmdbStore) -> None:
    class NoReads:
        def begin(self) -> None:
            raise AssertionError("the tables are read")

    add(store, Insert(b"messages", [(b"k", b"v")]), Upsert(b"ledgers", [(b"q", b"1")]))
    store.catch_up()
    store._follower._tree._env = NoReads()  # type: ignore[assignment]
    for number in range(3):
        add(store, Insert(b"messages", [(b"l%d" % number, b"v")]), Upsert(b"ledgers", [(b"q", b"2")]))
        add(store, Delete(b"messages", [b"l%d" % number]))
        store.catch_up()
    with pytest.raises(AssertionError, match="the tables are read"):
        add(store, Insert(b"messages", [(b"a", b"v")]))
    store.close()


def test_a_commit_waits_for_the_tables_where_too_much_is_not_applied(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.catch_up()
    assert not store.is_far_behind
    monkeypatch.setattr(follower, "UNAPPLIED_ENTRIES", 8)
    for number in range(20):
        add(store, Insert(b"messages", [(b"%03d" % number, b"v")]))
        assert store._follower.unapplied_entries <= 8
        assert store.is_far_behind == (store._follower._entries > 2)
    store._follower.bound = 250
    for number in range(20, 30):
        add(store, Insert(b"messages", [(b"%03d" % number, b"v")]))
        assert store._follower.unapplied_bytes <= 250
    store.close()


def test_it_applies_when_the_oldest_entry_has_waited_long_enough(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.catch_up()
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    add(store, Insert(b"messages", [(b"k", b"v")]))
    now_s += limits.APPLIED_EVERY_S / 2
    assert store.apply_if_due() == limits.APPLIED_EVERY_S / 2 and store._follower._entries == 1
    add(store, Insert(b"messages", [(b"l", b"v")]))
    now_s += limits.APPLIED_EVERY_S / 2
    assert store.apply_if_due() == limits.APPLIED_EVERY_S and store._follower._entries == 0
    store.close()


def test_a_commit_that_meets_a_damaged_page_is_refused_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a file that is too long to be looked through at a start."""
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    position = scribe.fill(queue, 500)[250].position
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    data = bytearray(file.read_bytes())
    key = records.message_key(queue, position)
    for page in {at // 4096 for at in range(len(data)) if data.startswith(key, at)}:
        data[page * 4096 + 10] ^= 1  # it is called a branch and a leaf
    file.write_bytes(data)
    monkeypatch.setattr(datafile, "STRUCTURE_CHECKED_BYTES", 0)
    store = open_store(tmp_path / "data", MAP_BYTES)
    place = store._wal.place
    with pytest.raises(StoreError, match=f"{file} cannot be read: .*`radiator check`"):
        store.commit([Remove(queue, position)])
    assert store._wal.place == place
    store.close()


def test_threads_that_look_at_it_and_apply_it_do_not_disturb_the_one_that_commits(store: LmdbStore) -> None:
    """With a switch of threads every few instructions."""
    ends_s = time.monotonic() + 1.0
    store._follower._rows_bound = 64  # so the one that commits applies, too
    calls: list[Callable[[], object]] = [
        lambda: store.is_far_behind,
        store.catch_up,
        lambda: store._follower.get(b"messages", b"000001"),
    ]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            others = [pool.submit(repeat_until, ends_s, call) for call in calls]
            for number in count():
                add(store, *(Insert(table, [(b"%06d" % number, b"v")]) for table in TABLES if table != b"meta"))
                if time.monotonic() > ends_s:
                    break
            for other in others:
                other.result()
    finally:
        sys.setswitchinterval(interval_s)
    store.close()


def repeat_until(ends_s: float, call: Callable[[], object]) -> None:
    while time.monotonic() < ends_s:
        call()
