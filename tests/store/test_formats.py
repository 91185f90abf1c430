"""Every format that was ever released is still read: a backup of each lies in formats/.

And a store of an earlier one becomes one of the present format with its first start, or stays what it is.
"""

import os
import resource
import shutil
import signal
from pathlib import Path

import lmdb
import pytest

from radiator.errors import DiskFailed, StoreError
from radiator.message import position_of
from radiator.reads import Load, LookUp
from radiator.recovery import StoredDoubt
from radiator.store import directory, records
from radiator.store.backup import backup, restore
from radiator.store.check import check
from radiator.store.datafile import write_meta
from radiator.store.lmdb import LmdbStore
from radiator.store.reader import Reader
from radiator.store.tables import BACKUP, BOOT, CLEAN, DOUBTS, FORMAT, META, PEERS, REDELIVERED_BELOW, TABLES
from radiator.writes import Doubt, KeepPeer
from tests.store.scribe import MAP_BYTES, Scribe
from tests.store.small_store import write_small_backup
from tests.store.test_lmdb import run_forked

FORMATS = Path(__file__).with_name("formats")


@pytest.mark.parametrize("number", range(1, records.FORMAT + 1))
def test_every_released_format_is_read(tmp_path: Path, number: int) -> None:
    report = restore(FORMATS / f"format-{number}.mdb", tmp_path / "data")
    assert report.findings == []
    assert not [table for table, _ in rows_of(tmp_path / "data") if table in (PEERS, DOUBTS)], (
        "of another store's links"
    )
    store = Scribe(tmp_path / "data").store
    recovery = store.recovery
    assert [(queue.number, queue.name, queue.ledger.stored) for queue in recovery.queues] == [
        (1, "orders", 3),
        (2, "mail.ä", 1),
    ]
    assert (recovery.boot, recovery.next_queue, recovery.retired) == (2, 4, {3: 2})
    orders = store.load(Load(1, 1, 0, 10, 1 << 20))
    assert [stored.message.body for stored in orders if stored.message] == [b"order 1", b"order 2", b"order 3"]
    assert [stored.redeliveries for stored in orders] == [3, 0, 0]
    assert [stored.position for stored in orders] == [position_of(1, sequence) for sequence in (1, 2, 3)]
    [mail] = store.load(Load(1, 2, 0, 10, 1 << 20))
    assert mail.message is not None
    assert (mail.message.body, mail.message.headers) == (b"\0" * 5_000, b"colour:blue\n")
    assert (mail.message.accepted_ms, mail.message.expires_ms) == (1_800_000_000_000, 1_900_000_000_000)
    assert store.look_up(LookUp(1, 1, b"order-1", 1_900_000_000_000))


def test_what_is_written_now_is_what_the_newest_fixture_holds(tmp_path: Path) -> None:
    """If only this fails, the fixture is of another format than the one in force: give that a number and a fixture."""
    write_small_backup(tmp_path / "now.mdb")
    assert rows_of(tmp_path / "now.mdb", {b"store_id"}) == rows_of(
        FORMATS / f"format-{records.FORMAT}.mdb", {b"store_id"}
    )


def test_what_format_2_says_of_nodes_is_read(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    store = Scribe(tmp_path).store
    assert store.recovery.peers == [KeepPeer("node.b", "0123456789abcdef", 9, 6, 8, 7, 12)]
    assert store.recovery.doubts == [
        StoredDoubt("node.b", sequence, 1, position_of(1, sequence - 5), 19, False) for sequence in (7, 8)
    ]


# ---- an earlier format becomes the present one ----------------------------------------------------------------------


def old_store(path: Path, number: int) -> None:
    """As the broker of that format left it: the fixture is its copy with one row more."""
    shutil.copyfile(FORMATS / f"format-{number}.mdb", path / "data.mdb")
    write_meta(path / "data.mdb", {BACKUP: None}, 1 << 26)


def test_first_start_of_an_earlier_format_changes_nothing_but_what_is_new(tmp_path: Path) -> None:
    old_store(tmp_path, 1)
    before = rows_of(tmp_path)
    assert check(tmp_path).findings == []
    assert rows_of(tmp_path) == before
    assert tables_of(tmp_path) == set(TABLES) - {PEERS, DOUBTS}
    scribe = Scribe(tmp_path)
    assert (scribe.store.recovery.peers, scribe.store.recovery.doubts) == ([], [])
    scribe.store.close()
    started = {
        (META, FORMAT): records.encode_number(FORMAT, 2),
        (META, BOOT): records.encode_number(BOOT, 2),
        (META, CLEAN): records.encode_number(CLEAN, 0),
        (META, REDELIVERED_BELOW): records.encode_number(REDELIVERED_BELOW, 2),
    }
    assert rows_of(tmp_path) == before | started
    assert (tables_of(tmp_path), check(tmp_path).findings) == (set(TABLES), [])
    scribe = Scribe(tmp_path)
    scribe.store.commit([KeepPeer("b", "", 1, 0, 1, 0, 0), Doubt("b", 1, 1, position_of(1, 1))])
    scribe.store.close()
    assert len(Scribe(tmp_path).store.recovery.doubts) == 1
    assert check(tmp_path).findings == []


@pytest.mark.parametrize("pages", range(0, 12, 2))
def test_first_start_that_cannot_write_on_leaves_the_earlier_format(tmp_path: Path, pages: int) -> None:
    """The file may grow by so many pages: the new tables, the number and the boot are there together or not at all."""
    old_store(tmp_path, 1)
    before = rows_of(tmp_path)

    def start() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (tmp_path / "data.mdb").stat().st_size + pages * 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            Scribe(tmp_path)
        except (DiskFailed, StoreError):
            os._exit(3)

    status = run_forked(start)
    assert status in (0, 3)
    if status == 3:
        assert rows_of(tmp_path) == before
        assert tables_of(tmp_path) == set(TABLES) - {PEERS, DOUBTS}
    assert Scribe(tmp_path).store.recovery.boot == (2 if status == 3 else 3)
    assert tables_of(tmp_path) == set(TABLES)


def test_first_start_killed_before_its_commit_leaves_the_earlier_format(tmp_path: Path) -> None:
    old_store(tmp_path, 1)
    before = rows_of(tmp_path)

    class Killed(LmdbStore):
        def _set_number(self, txn: "lmdb.Transaction[bytes]", key: bytes, number: int) -> None:
            super()._set_number(txn, key, number)
            if key == REDELIVERED_BELOW:  # the last write of the boot
                os.kill(os.getpid(), signal.SIGKILL)

    def start() -> None:
        Killed(tmp_path, MAP_BYTES, directory.BrokerLock(tmp_path))

    assert run_forked(start) == -signal.SIGKILL
    assert rows_of(tmp_path) == before
    assert tables_of(tmp_path) == set(TABLES) - {PEERS, DOUBTS}
    assert Scribe(tmp_path).store.recovery.boot == 2
    assert check(tmp_path).findings == []


def test_backup_of_an_earlier_format_is_of_it_and_its_restored_store_of_the_present_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    old_store(tmp_path / "data", 1)
    before = rows_of(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    assert rows_of(tmp_path / "copy", {BACKUP}) == before
    restore(tmp_path / "copy", tmp_path / "new")
    assert rows_of(tmp_path / "new")[META, FORMAT] == records.encode_number(FORMAT, 2)
    assert tables_of(tmp_path / "new") == set(TABLES)


def rows_of(path: Path, ignored: frozenset[bytes] | set[bytes] = frozenset()) -> dict[tuple[bytes, bytes], bytes]:
    """Every row of every table."""
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {
            (table, key): bytes(value) for table in TABLES for key, value in snapshot.rows(table) if key not in ignored
        }


def tables_of(path: Path) -> set[bytes]:
    """The names of LMDB's databases in the file."""
    with lmdb.open(str(path), readonly=True, lock=False, lib_version=0) as env, env.begin() as txn:
        return set(txn.cursor().iternext(values=False))
