"""The one file of a store: how it is made and opened, and what is refused before it is mapped."""

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.message import position_of
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from radiator.storage.lmdb.directory import read_head
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import raw, refusal, rewrite, run_forked
from tests.storage.scribe import MAP_BYTES, Scribe, filled


def test_creation_killed_at_any_step_leaves_a_directory_that_starts(tmp_path: Path) -> None:
    """The child dies at its n-th system call that Python tells of, for every n until it lives."""
    steps = 0
    while True:
        path = tmp_path / f"data{steps}"

        def create(path: Path = path, last: int = steps) -> None:
            seen = 0

            def die_at_last(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal seen
                if event.startswith(("os.", "open", "fcntl.")):
                    if seen == last:
                        os._exit(42)
                    seen += 1

            sys.addaudithook(die_at_last)
            open_store(path, MAP_BYTES).close()

        status = run_forked(create)
        assert status in (0, 42)
        scribe = Scribe(path)
        scribe.fill(scribe.declare("orders"), 3)
        scribe.store.close()
        assert check(path).findings == []
        assert sorted(os.listdir(path)) == ["data.mdb", "lock.mdb", "radiator.lock", "wal"]
        if status == 0:
            break
        steps += 1
    assert steps > 10, "too few steps were seen for this to say anything"


def test_what_an_unfinished_creation_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.mdb.new").write_bytes(b"half a store")
    Scribe(tmp_path / "data").store.close()
    assert sorted(os.listdir(tmp_path / "data")) == ["data.mdb", "lock.mdb", "radiator.lock", "wal"]


@pytest.mark.durability("D34")
def test_nothing_turns_the_sync_off(scribe: Scribe) -> None:
    """With `sync` or `metasync` off, or `writemap` on, a power cut loses or corrupts what was confirmed."""
    flags = scribe.store._env.flags()
    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (True, True, False, False)
    assert scribe.store._env.lib_version()[:2] == (0, 9)


@pytest.mark.parametrize("number", [0, records.FORMAT + 1, 2**64 - 1])
def test_other_format_is_refused_by_number(tmp_path: Path, number: int) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", META, FORMAT, records.encode_number(FORMAT, number))
    assert f"has format {number}, this Radiator reads formats 1 to {records.FORMAT}:" in refusal(tmp_path / "data")


def test_store_of_another_program_is_refused(tmp_path: Path) -> None:
    with raw(tmp_path / "data") as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"value")
    assert "is an LMDB file, but not a store of Radiator" in refusal(tmp_path / "data")


def test_truncated_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """Read through the map it would kill the process (SIGBUS); the sentence must come first."""
    filled(tmp_path / "data")
    scribe = Scribe(tmp_path / "data")
    scribe.fill(1, 1, b"x" * 500_000)  # the file grows by it, so its last page is in use
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    end = read_head(file).end_bytes
    for length in [*range(0, end, 16 * 4096), end - 4096, end - 1]:
        file.write_bytes(whole[:length])
        assert "cut off" in refusal(tmp_path / "data"), length


def test_file_whose_last_pages_are_free_and_unwritten_is_whole(tmp_path: Path) -> None:
    """LMDB leaves such a tail out of the file; a power cut can take our filling up away again."""
    scribe = Scribe(tmp_path / "data")
    queues = [scribe.declare(f"q{number}") for number in range(3)]
    file = tmp_path / "data" / "data.mdb"
    chance = random.Random(3)
    copies = 0
    for _ in range(150):
        puts = [
            scribe.put(chance.choice(queues), b"x" * chance.choice([50, 1_000, 3_000]))
            for _ in range(chance.randrange(1, 60))
        ]
        gone = {(put.queue, put.position) for put in chance.sample(puts, chance.randrange(len(puts)))}
        gone.update(chance.sample(sorted(scribe.messages), len(scribe.messages) // 2))
        scribe.commit(*puts, *[scribe.remove(*place) for place in sorted(gone)])
        data = file.read_bytes()
        unwritten = (len(data) - len(data.rstrip(b"\0"))) // 4096 * 4096
        if unwritten and copies < 5:
            copies += 1
            copy = tmp_path / f"copy{copies}"
            copy.mkdir()
            (copy / "data.mdb").write_bytes(data[:-unwritten])
            shutil.copytree(tmp_path / "data" / "wal", copy / "wal")
            cut = Scribe(copy)
            assert all(cut.bodies(queue) == scribe.bodies(queue) for queue in queues)
            cut.store.close()
    assert copies, "no commit left free pages at the end: the test says nothing"


def test_short_file_with_keys_out_of_order_is_refused_in_a_sentence(tmp_path: Path, scribe: Scribe) -> None:
    """LMDB's own assertion about them would end the process by SIGABRT."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 4)
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    key, damaged = (records.message_key(queue, place) for place in (puts[1].position, position_of(1, 2**40)))
    file.write_bytes(file.read_bytes().replace(key, damaged))
    with pytest.raises(StoreError, match="damaged in LMDB's own structure: .* out of order .* Restore a backup"):
        Scribe(tmp_path / "data")
