"""Stores that are opened again, or broken on purpose, and what is said of them."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from radiator.model.errors import StoreError
from radiator.model.reads import ReadQueue
from radiator.model.writes import (
    Delay,
    StoppedClean,
)
from radiator.storage.check import Report, check
from radiator.storage.codec import records
from radiator.storage.codec.tables import TABLES
from radiator.storage.lmdb.directory import read_head
from radiator.storage.lmdb.store import open_store
from tests.storage.scribe import MAP_BYTES, Scribe


def raw(path: Path) -> lmdb.Environment:
    """The file as a stranger would open it, to break it."""
    return lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=len(TABLES), lib_version=0)


def rewrite(path: Path, table: bytes, key: bytes, value: bytes | None) -> None:
    with raw(path) as env:
        opened = env.open_db(table)
        with env.begin(write=True) as txn:
            if value is None:
                assert txn.delete(key, db=opened)
            else:
                txn.put(key, value, db=opened)


def rewritten(path: Path, scribe: Scribe, delays: list[Delay]) -> Scribe:
    """The next boot, with those delayed messages damaged."""
    scribe.store.close()
    for delay in delays:
        key = records.delayed_key(delay.queue, delay.due_ms, delay.position)
        value = records.encode_delayed(key, delay.message, 5, redelivered=False)
        rewrite(path, b"delayed", key, value.replace(b"body", b"bode"))
    return Scribe(path)


def reopened(scribe: Scribe, path: Path, clean: bool = False) -> Scribe:
    """The next boot; without `clean` it is as after kill -9: LMDB keeps nothing in memory that a close would write."""
    if clean:
        scribe.store.commit([StoppedClean()])
    scribe.store.close()
    return Scribe(path)


def checked(scribe: Scribe) -> Report:
    """What `radiator check` says; it opens the file itself, so the store is closed."""
    scribe.store.close()
    return check(scribe.path)


def marks(scribe: Scribe, queue: int) -> list[tuple[int, bool]]:
    found = scribe.store.load(ReadQueue(1, queue, 0, 100_000, 1 << 40)).messages
    return [(stored.redeliveries, stored.redelivered) for stored in found]


def refusal(path: Path) -> str:
    """The sentence; and the data file is not touched."""
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(StoreError) as refused:
        open_store(path, MAP_BYTES)
    assert (path / "data.mdb").read_bytes() == before
    return str(refused.value)


def run_forked(step: Callable[[], None]) -> int:
    """The exit status of `step` in a child, negative for a signal: it may die as it likes."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            step()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def flipped_copy(path: Path, copy: Path, bit: int) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    data = bytearray((path / "data.mdb").read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    (copy / "data.mdb").write_bytes(data)
    shutil.copytree(path / "wal", copy / "wal")


def some_bits(path: Path, count: int) -> list[int]:
    chance = random.Random(11)
    size = read_head(path / "data.mdb").end_bytes
    return [chance.randrange(size * 8) for _ in range(count)]
