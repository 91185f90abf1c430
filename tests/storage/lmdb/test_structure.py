"""LMDB's own structure, looked through while the store is written to: what is sound is found sound, what is damaged is
found by its page, and a broker on such a store ends with a sentence.
"""

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import MIB
from radiator.model.reads import ReadQueue
from radiator.model.writes import StoppedClean
from radiator.storage.lmdb import datafile, structure
from radiator.storage.lmdb.datafile import structure_mistakes
from radiator.storage.lmdb.measure import snapshots
from radiator.storage.lmdb.store import LmdbStore, open_store
from radiator.storage.lmdb.structure import StructureCheck
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.storage.scribe import MAP_BYTES, Scribe

PAGE = 4096


@pytest.fixture(autouse=True)
def every_store_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datafile, "STRUCTURE_CHECKED_BYTES", 0)
    monkeypatch.setattr(structure, "STRUCTURE_PAGES", 3)


def filled(path: Path, seed: int = 1, batches: int = 40) -> Scribe:
    """Trees of two levels, values that lie elsewhere, free pages."""
    chance, scribe = random.Random(seed), Scribe(path)
    queues = [scribe.declare(f"q{number}") for number in range(4)]
    for _ in range(batches):
        change(scribe, chance, queues)
    return scribe


def change(scribe: Scribe, chance: random.Random, queues: list[int]) -> None:
    sizes = (50, 300, 700, 1400, 3000, 9000)
    puts = [scribe.put(chance.choice(queues), b"x" * chance.choice(sizes)) for _ in range(chance.randrange(1, 40))]
    scribe.commit(*puts)
    places = sorted(scribe.messages)
    scribe.commit(*[scribe.remove(*place) for place in chance.sample(places, len(places) // 10)])


def looked_through(store: LmdbStore, between: Callable[[], None] = lambda: None) -> int:
    slices = 1
    while store.go_on_checking():
        assert 0 <= store.checked_percent < 100
        between()
        slices += 1
    assert store.checked_percent == 100
    return slices


def test_a_sound_store_is_found_sound_in_slices_that_pin_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "data").store.close()
    store = open_store(tmp_path / "data", MAP_BYTES)
    assert store.checked_percent == 0
    assert looked_through(store) > 10 and not store.go_on_checking()
    assert not snapshots(store._env.readers())
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_is_written_to_meanwhile_is_found_sound(tmp_path: Path, seed: int) -> None:
    filled(tmp_path / "data", seed).store.close()
    scribe, chance = Scribe(tmp_path / "data"), random.Random(seed)
    queues = sorted(scribe.ledgers)
    left = iter(range(30))
    looked_through(scribe.store, lambda: change(scribe, chance, queues) if next(left, None) is not None else None)
    scribe.store.close()


def test_a_short_store_has_been_looked_through_by_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datafile, "STRUCTURE_CHECKED_BYTES", 64 * MIB)
    store = Scribe(tmp_path / "data").store
    assert store.checked_percent == 100 and not store.go_on_checking()
    store.close()


def test_every_flipped_bit_of_the_structure_that_the_whole_look_finds_is_found(tmp_path: Path) -> None:
    """Heads, pointers, and rows with their keys; free lists and counts are for `radiator check`."""
    filled(tmp_path / "data").store.close()
    file = tmp_path / "data" / "data.mdb"
    whole, chance, found = file.read_bytes(), random.Random(7), 0
    for _ in range(400):
        at = chance.randrange(2, len(whole) // PAGE) * PAGE + chance.choice(
            (chance.randrange(16), chance.randrange(16, 48), chance.randrange(PAGE))
        )
        data = bytearray(whole)
        data[at] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        mistakes = [one for one in structure_mistakes(file) if "freeDB" not in one and "record says" not in one]
        if mistakes:
            found += 1
            with pytest.raises(StoreError, match="damaged in LMDB's own structure: .*Restore a backup"):
                look_at(file)
    assert found > 20


@pytest.mark.parametrize("is_swap", [True, False])
def test_leaves_in_each_others_places_are_found_though_each_is_sound(tmp_path: Path, is_swap: bool) -> None:
    """Swapped or doubled, with their numbers put right: only the pages above know."""
    filled(tmp_path / "data").store.close()
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    with lmdb.open(str(file), subdir=False, readonly=True, lock=False, max_dbs=32) as env:
        check = StructureCheck(env, file, PAGE)
        with env.begin() as txn:
            [messages] = [table for table in check._tables(txn.id()) if table.name == "messages"]
            leaves = [int.from_bytes(page[:8], sys.byteorder) for page, _, _ in check._leaves(messages, b"")]
        check.close()
    assert len(leaves) > 20
    for one, other in zip(leaves, leaves[7:], strict=False):
        data = bytearray(whole)
        first, second = (slice(page * PAGE + 8, (page + 1) * PAGE) for page in (one, other))
        data[first] = whole[second]
        if is_swap:
            data[second] = whole[first]
        file.write_bytes(data)
        with pytest.raises(StoreError, match="of the table messages has keys out of order"):
            look_at(file)


def look_at(file: Path) -> None:
    with lmdb.open(str(file), subdir=False, readonly=True, lock=False, max_dbs=32) as env:
        check = StructureCheck(env, file, PAGE)
        try:
            while not check.is_done:
                check.go_on()
        finally:
            check.close()


def test_a_page_that_cannot_be_read_is_the_disk_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "data", batches=3).store.close()
    store = open_store(tmp_path / "data", MAP_BYTES)

    def fails(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(structure.os, "pread", fails)
    with pytest.raises(DiskFailed, match=r"data\.mdb could not be read \(Input/output error\): its disk failed"):
        store.go_on_checking()
    store.close()


# ---- a whole broker on a long file ----------------------------------------------------------------------------------


@pytest.fixture
def long_store(tmp_path: Path) -> tuple[BrokerProcess, list[int]]:
    """A broker's data directory of more than 64 MiB, and the leaf pages of its messages, in order."""
    broker = BrokerProcess(tmp_path)
    scribe = Scribe(broker.data_dir, 256 * MIB)
    queue = scribe.declare("orders")
    body = b"x" * 900
    for _ in range(40):
        scribe.commit(*[scribe.put(queue, body) for _ in range(1800)])
    scribe.store.commit([StoppedClean()])
    places = [row.position for row in scribe.store.load(ReadQueue(1, queue, 0, 100_000, 1 << 40)).messages]
    scribe.store.close()
    file = broker.data_dir / "data.mdb"
    data = file.read_bytes()
    assert len(data) > 64 * MIB
    leaves = []
    for place in places[::400]:
        at = data.find(place.to_bytes(12, "big") + b"\x01")
        leaves.append(at // PAGE)
    return broker, leaves


@pytest.mark.slow
@pytest.mark.parametrize("is_read", [True, False])
def test_a_broker_that_meets_a_damaged_page_of_a_long_file_ends_with_74_and_its_queue(
    long_store: tuple[BrokerProcess, list[int]], is_read: bool
) -> None:
    broker, leaves = long_store
    with (broker.data_dir / "data.mdb").open("r+b") as file:
        file.seek(leaves[100] * PAGE + 8)
        copy = file.read(PAGE - 8)
        file.seek(leaves[50] * PAGE + 8)
        file.write(copy)
    broker.start()
    if is_read:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.subscribe("/queue/orders", ack="client-individual", headers={"prefetch-count": "1000"})
            with pytest.raises((Gone, OSError)):
                while True:
                    wire.send_frame("ACK", {"id": wire.message(60)["ack"]})
    assert broker.wait(120) == 74
    answer = (
        "/queue/orders (has message|ends behind)|damaged in LMDB's own structure: page [0-9]+ of the table messages"
    )
    assert any(" halted " in line for line in broker.log.splitlines()) and re.search(answer, broker.log)
