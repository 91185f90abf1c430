"""What `restore` does about damaged rows: all else can be had again."""

from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.reads import ReadLog
from radiator.model.writes import KeepSegment
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records, transactions
from tests.storage.breaking import rewrite
from tests.storage.scribe import DELAYED, LOG, Scribe, filled


def test_store_with_a_damaged_doubt_can_be_had_again_without_it(tmp_path: Path) -> None:
    """A start refuses it; a restored backup has all of its messages."""
    filled(tmp_path / "data")
    key = records.doubt_key("node.b", 4)
    rewrite(tmp_path / "data", b"doubts", key, b"rubbish that is no doubt")
    with pytest.raises(StoreError, match=f"The doubt under key {key.hex()} is damaged"):
        Scribe(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    report = restore(tmp_path / "copy", tmp_path / "new")
    assert (report.findings, report.messages) == ([], 128 + DELAYED)


@pytest.mark.parametrize(
    ("table", "key", "left"),
    [
        (b"settings", records.settings_key(1), ("", 1, 4)),
        (b"declared", records.declared_key("exchange", "x"), ('{"max_messages": 9}', 0, 4)),
        (b"bindings", records.binding_key(1, "x", "a.#"), ('{"max_messages": 9}', 1, 3)),
    ],
    ids=["settings", "declared", "bindings"],
)
def test_store_with_a_damaged_declaration_can_be_had_again_without_it(
    tmp_path: Path, table: bytes, key: bytes, left: tuple[str, int, int]
) -> None:
    """A start refuses it; the restored store has all else, and it is told what it has not."""
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", table, key, b"\1rubbish and more of it")
    with pytest.raises(StoreError, match=f"under key {key.hex()} is damaged"):
        Scribe(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    report = restore(tmp_path / "copy", tmp_path / "new")
    (finding,) = report.findings
    assert f"under key {key.hex()} is damaged" in finding and finding.endswith(". It is left out.")
    assert (check(tmp_path / "new").findings, report.messages) == ([], 128 + DELAYED)
    recovery = Scribe(tmp_path / "new").store.recovery
    assert (recovery.queues[0].settings, len(recovery.declared), len(recovery.bindings)) == left


LEFT_OUT = "It is left out."


@pytest.mark.parametrize(
    ("table", "key", "case", "left"),
    [
        (b"positions", records.group_key(LOG, "g"), LEFT_OUT, ("trail", 5, 0, 1, 1)),
        (b"apps", transactions.app_key("app"), LEFT_OUT, ("trail", 5, 1, 1, 0)),
        (b"stages", transactions.transaction_key(1), LEFT_OUT, ("trail", 5, 1, 0, 1)),
        (b"logs", records.log_key(LOG), "The log is called damaged-4 now.", ("damaged-4", 5, 1, 1, 1)),
        (b"segments", records.record_key(LOG, 1, 0), "rebuilt from its blocks, with 5 rec", ("trail", 5, 1, 1, 1)),
        (b"segments", records.record_key(LOG, 1, 5), "rebuilt from its blocks, with 3 rec", ("trail", 5, 1, 1, 1)),
        (b"segments", records.record_key(LOG + 1, 0, 0), "rebuilt from its blocks, with 9", ("trail", 5, 1, 1, 1)),
        (b"segments", b"short", LEFT_OUT, ("trail", 5, 1, 1, 1)),
    ],
)  # fmt: skip
def test_store_with_damaged_books_of_logs_can_be_had_again(
    tmp_path: Path, table: bytes, key: bytes, case: str, left: tuple[str, int, int, int, int]
) -> None:
    filled(tmp_path / "data")
    segments = [row for log in Scribe(tmp_path / "data").store.recovery.logs for row in log.segments]
    filled(tmp_path / "broken")
    rewrite(tmp_path / "broken", table, key, b"\1rubbish and more of it")
    with pytest.raises(StoreError, match=f"under key {key.hex()} is damaged"):
        Scribe(tmp_path / "broken")
    backup(tmp_path / "broken", tmp_path / "copy")
    report = restore(tmp_path / "copy", tmp_path / "new")
    (finding,) = report.findings
    assert f"under key {key.hex()} is damaged" in finding and case in finding
    assert (check(tmp_path / "new").findings, report.records) == ([], 18)
    recovery = Scribe(tmp_path / "new").store.recovery
    log = recovery.logs[0]
    first = recovery.logs[0].segments[1]
    assert (log.name, first.count, len(log.positions), len(recovery.transactions), len(recovery.apps)) == left
    assert [row for log in recovery.logs for row in log.segments] == segments


def test_books_of_a_segment_with_a_damaged_block_are_made_anew_too(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    for table in (b"segments", b"records"):
        rewrite(tmp_path / "data", table, records.record_key(LOG, 1, 0), b"\1rubbish and more of it")
    backup(tmp_path / "data", tmp_path / "copy")
    assert len(restore(tmp_path / "copy", tmp_path / "new").findings) == 2
    store = Scribe(tmp_path / "new").store
    assert store.recovery.logs[0].segments[1] == KeepSegment(LOG, 1, 0, 0, 5)
    loaded = store.load_log(ReadLog(1, LOG, 1, 0, 100, 1 << 20)).records
    assert [one.offset for one in loaded if one.message is None] == [0, 1, 2, 3, 4] and len(loaded) == 8
