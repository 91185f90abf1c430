"""The data directory: modes, owner, lock, and what LMDB's head says before its map is read."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import FILL_AHEAD_BYTES
from radiator.storage.check import check
from radiator.storage.lmdb import directory
from radiator.storage.rename import rename
from tests.storage.scribe import Scribe, filled

TRANSACTION_OFFSET = 144  # in a meta page of LMDB 0.9 on a 64-bit machine

HOLD_LOCK = """
import sys
from pathlib import Path
from radiator.storage.lmdb.directory import BrokerLock
lock = BrokerLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def modes(path: Path) -> dict[str, int]:
    return {found.name: stat.S_IMODE(found.lstat().st_mode) for found in [path, *path.iterdir()]}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_new_store_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        Scribe(tmp_path / "data").store.close()
    finally:
        os.umask(before)
    assert modes(tmp_path / "data") == {
        "data": 0o700, "data.mdb": 0o600, "lock.mdb": 0o600, "wal": 0o700, "radiator.lock": 0o600,
    }  # fmt: skip


def test_start_tightens_modes_that_were_opened(tmp_path: Path) -> None:
    Scribe(tmp_path / "data").store.close()
    (tmp_path / "data").chmod(0o755)
    for file in (tmp_path / "data").iterdir():
        file.chmod(0o644)
    Scribe(tmp_path / "data").store.close()
    assert set(modes(tmp_path / "data").values()) == {0o700, 0o600}


def test_data_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 12345, 12345)
    with pytest.raises(StoreError, match=r"belongs to user 12345, this program runs as user 0: run it as that user"):
        Scribe(tmp_path / "data")


def test_second_broker_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    Scribe(tmp_path / "data").store.close()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    with pytest.raises(StoreError, match=rf"in use by another broker \(process {holder.pid}\)"):
        Scribe(tmp_path / "data")
    holder.kill()
    holder.communicate()
    Scribe(tmp_path / "data").store.close()


@pytest.mark.parametrize("gone", [["radiator.lock"], ["radiator.lock", "lock.mdb"]])
@pytest.mark.parametrize("is_new", [False, True])
def test_second_broker_is_refused_though_somebody_removed_the_locks(
    tmp_path: Path, gone: list[str], is_new: bool
) -> None:
    """Its data file is locked too: two would write over each other's pages."""
    if not is_new:
        Scribe(tmp_path / "data").store.close()
    scribe = Scribe(tmp_path / "data")
    for name in gone:
        (tmp_path / "data" / name).unlink()
    for act in (lambda: Scribe(tmp_path / "data"), lambda: rename(tmp_path / "data", "other")):
        with pytest.raises(StoreError, match=r"in use by another broker .*has locked data\.mdb"):
            act()
    scribe.fill(scribe.declare("orders"), 3)
    scribe.store.close()
    again = Scribe(tmp_path / "data")
    assert len(again.bodies(1)) == 3
    again.store.close()


def test_second_store_in_one_process_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    with pytest.raises(StoreError, match="in use by another broker"):
        Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    scribe.fill(queue, 3)
    scribe.store.close()
    assert len(Scribe(tmp_path / "data").bodies(queue)) == 3


def test_store_is_not_made_among_the_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home" / "letter.txt").touch()
    with pytest.raises(StoreError, match=r"holds no store, but it holds 'letter.txt': give an empty directory"):
        Scribe(tmp_path / "home")
    assert modes(tmp_path / "home")["home"] == 0o755
    assert os.listdir(tmp_path / "home") == ["letter.txt"]


def test_store_is_made_in_an_empty_directory_and_in_a_fresh_file_system(tmp_path: Path) -> None:
    (tmp_path / "data" / "lost+found").mkdir(parents=True)
    Scribe(tmp_path / "data").store.close()
    assert (tmp_path / "data" / "data.mdb").exists()


def test_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"cannot be made: create {tmp_path}/missing first"):
        Scribe(tmp_path / "missing" / "data")


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no store")
    with pytest.raises(StoreError, match="is a file; the data directory must be a directory"):
        Scribe(tmp_path / "data")


def test_store_behind_a_link_is_refused(tmp_path: Path) -> None:
    Scribe(tmp_path / "real").store.close()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.mdb").symlink_to(tmp_path / "real" / "data.mdb")
    with pytest.raises(StoreError, match="not a regular file"):
        Scribe(tmp_path / "data")


def test_head_tells_the_end_of_the_file(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    file = tmp_path / "data" / "data.mdb"
    head = directory.read_head(file)
    assert head.file_bytes == file.stat().st_size
    assert head.end_bytes <= head.file_bytes <= head.end_bytes + FILL_AHEAD_BYTES
    assert head.map_bytes >= 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is cut off within its first pages. Restore a backup."),
        (b"x" * 100, "it is cut off within its first pages. Restore a backup."),
        (b"#!/bin/sh\n" * 1000, "it is not an LMDB 0.9 file. Give another data directory."),
    ],
)
def test_foreign_file_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.mdb").write_bytes(content)
    with pytest.raises(StoreError, match=sentence):
        Scribe(tmp_path / "data")
    assert (tmp_path / "data" / "data.mdb").read_bytes() == content


def test_flipped_transaction_number_of_a_head_is_refused(tmp_path: Path) -> None:
    """LMDB would take the older head, and undo the last commit without a word.

    Two bits of the 128 are beyond telling: those that make the older number follow the newer.
    """
    filled(tmp_path / "data")
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    page_bytes = directory.read_head(file).page_bytes
    accepted = 0
    for page in (0, 1):
        offset = page * page_bytes + TRANSACTION_OFFSET
        for bit in range(64):
            damaged = bytearray(whole)
            damaged[offset + bit // 8] ^= 1 << bit % 8
            file.write_bytes(damaged)
            try:
                directory.read_head(file)
                accepted += 1
            except StoreError as refused:
                assert "do not follow each other" in str(refused)
    assert accepted <= 2
    file.write_bytes(whole)
    directory.read_head(file)


@pytest.mark.parametrize("bit", range(1, 7))
@pytest.mark.parametrize("offset", [44, 92], ids=["free", "main"])
def test_flipped_flag_of_a_database_in_the_newest_head_is_refused(tmp_path: Path, offset: int, bit: int) -> None:
    """LMDB's own assertion would end the process by SIGABRT, or it would read and write in another order."""
    filled(tmp_path / "data")
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    page_bytes = directory.read_head(file).page_bytes
    refused = 0
    for page in (0, 1):
        damaged = bytearray(whole)
        damaged[page * page_bytes + offset] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            directory.read_head(file)
        except StoreError as error:
            assert "is damaged: the flags of its head are" in str(error)
            refused += 1
            with pytest.raises(StoreError, match="the flags of its head"):
                Scribe(tmp_path / "data")
    assert refused == 1, "the older head is not in force"


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_file_that_is_cut_within_the_pages_of_one_message_is_refused(tmp_path: Path, pages: int) -> None:
    """Reading its end through the map would kill the process by SIGBUS; LMDB's own check looks at its first page."""
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    for _ in range(20):
        scribe.fill(queue, 1, b"x" * 4 * 4096)
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    end = max(at for at in range(0, len(whole), 4096) if whole[at : at + 4096].strip(b"\0"))
    file.write_bytes(whole[: end - (pages - 1) * 4096])
    assert any("is cut off: it has" in finding for finding in check(tmp_path / "data").findings)
    with pytest.raises(StoreError, match="is in use, but beyond the end of the file"):
        Scribe(tmp_path / "data")
