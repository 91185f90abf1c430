"""Every format that was ever released is still read: a backup of each lies in formats/."""

from pathlib import Path

import pytest

from radiator.message import position_of
from radiator.reads import Load, LookUp
from radiator.store import records
from radiator.store.backup import restore
from radiator.store.reader import Reader
from radiator.store.tables import TABLES
from tests.store.scribe import Scribe
from tests.store.small_store import write_small_backup

FORMATS = Path(__file__).with_name("formats")


@pytest.mark.parametrize("number", range(1, records.FORMAT + 1))
def test_every_released_format_is_read(tmp_path: Path, number: int) -> None:
    report = restore(FORMATS / f"format-{number}.mdb", tmp_path / "data")
    assert report.findings == []
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
    restore(tmp_path / "now.mdb", tmp_path / "now")
    restore(FORMATS / f"format-{records.FORMAT}.mdb", tmp_path / "fixture")
    ignored = {b"store_id"}
    assert rows_of(tmp_path / "now", ignored) == rows_of(tmp_path / "fixture", ignored)


def rows_of(path: Path, ignored: set[bytes]) -> dict[tuple[bytes, bytes], bytes]:
    """Every row of every table."""
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {
            (table, key): bytes(value) for table in TABLES for key, value in snapshot.rows(table) if key not in ignored
        }
