"""What the log has is in the tables before anybody writes to them."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.writes import StoppedClean
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.operations import Operation
from radiator.storage.codec.tables import APPLIED, META
from radiator.storage.lmdb.store import open_store
from radiator.storage.lmdb.writer import TreeWriter
from radiator.storage.rename import rename
from tests.storage.breaking import refusal, rewrite, run_forked
from tests.storage.broken_logs import break_entries, killed_copy, last_index
from tests.storage.scribe import MAP_BYTES, Scribe


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store that was killed, of the node `a`: the last two entries of its log are not in the tables."""

    def write() -> None:
        open_store(tmp_path / "data", MAP_BYTES, "a")
        os._exit(0)

    scribe = Scribe(tmp_path / "data")
    scribe.fill(scribe.declare("orders"), 3, b"kept")
    scribe.store.close()
    assert run_forked(write) == 0
    return tmp_path / "data"


def test_a_start_has_what_only_the_log_has(killed: Path) -> None:
    assert Scribe(killed).store.recovery.boot == 3


def test_a_renamed_store_keeps_its_new_name(killed: Path) -> None:
    """The log has the former name, and comes first."""
    assert rename(killed, "b") == "a"
    open_store(killed, MAP_BYTES, "b").close()
    with pytest.raises(StoreError, match="is the data directory of the node 'b'"):
        open_store(killed, MAP_BYTES, "a")


def test_a_missing_log_refuses_a_start_unless_the_broker_was_stopped_cleanly(killed: Path) -> None:
    shutil.move(killed / "wal", killed.parent / "wal")
    assert "wal is missing, and the broker was not stopped cleanly" in refusal(killed)
    assert "wal is missing" in check(killed).findings[0]
    shutil.move(killed.parent / "wal", killed / "wal")
    scribe = Scribe(killed)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    shutil.rmtree(killed / "wal")
    assert check(killed).findings == []
    assert Scribe(killed).bodies(1) == [b"kept"] * 3


def test_a_log_without_its_tables_refuses_a_start(killed: Path) -> None:
    (killed / "data.mdb").unlink()
    with pytest.raises(StoreError, match=r"holds the log of a store, and no data\.mdb: put that back, or remove"):
        open_store(killed, MAP_BYTES)


def test_a_log_whose_place_is_not_known_refuses_a_start(killed: Path) -> None:
    """Where that row is missing the store is new, restored, or of an earlier format: its log has no entry."""
    rewrite(killed, META, APPLIED, None)
    assert "has entries, and data.mdb does not say which of them it has" in refusal(killed)


DAMAGE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("ahead", lambda value: records.encode_place(APPLIED, 99, 1, 1, 128), "lacks entry 99, which data.mdb has"),
    ("another", lambda value: records.encode_place(APPLIED, 2, 1, 0, 0), "has another entry 2"),
    ("flipped", lambda value: value[:-1] + bytes([value[-1] ^ 1]), "its checksum is"),
]


@pytest.mark.parametrize(
    ("damage", "sentence"), [(one, text) for _, one, text in DAMAGE], ids=[one[0] for one in DAMAGE]
)
def test_tables_and_a_log_that_do_not_belong_together_refuse_a_start(
    killed: Path, damage: Callable[[bytes], bytes], sentence: str
) -> None:
    rewrite(killed, META, APPLIED, damage(records.encode_place(APPLIED, 1, 2, 3, 4)))
    assert sentence in refusal(killed)
    assert any(sentence in finding for finding in check(killed).findings)


@pytest.mark.durability("D35")
def test_a_refusal_says_what_would_be_lost_and_what_to_do(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "whole")
    queue = scribe.declare("orders")
    scribe.keeps_up = False
    at = last_index(scribe.path)
    for _ in range(5):
        scribe.fill(queue, 1)
    path = killed_copy(scribe.path, tmp_path / "killed")
    break_entries(path, at + 3)
    assert refusal(path).endswith(
        f"is damaged, and entry {at + 4} follows it. Entries {at + 3} to {at + 5} were receipted and cannot be read in"
        f" order. `radiator check {path}` shows which queues that touches. Restore a backup; or let `radiator backup"
        " --despite-damage` make one of what can be read in order."
    )
    path = killed_copy(scribe.path, tmp_path / "again")
    break_entries(path, at + 1, at + 4)
    assert f"Entries {at + 1} to {at + 5} were receipted" in refusal(path)


def test_the_tables_get_nothing_of_a_log_that_is_not_synced(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed broker has written last may be in memory only, and a power cut would take it from the log alone."""
    order: list[str] = []
    sync, apply = os.fdatasync, TreeWriter.apply

    def noted_sync(opened: int) -> None:
        order.append("sync")
        sync(opened)

    def noted_apply(writer: TreeWriter, operations: Iterable[Operation]) -> None:
        order.append("apply")
        apply(writer, operations)

    monkeypatch.setattr(os, "fdatasync", noted_sync)
    monkeypatch.setattr(TreeWriter, "apply", noted_apply)
    open_store(killed, MAP_BYTES).close()
    assert order[0] == "sync" and "apply" in order
