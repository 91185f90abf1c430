"""What `restore` does where names, ledgers and messages of queues disagree."""

from collections.abc import Callable
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.writes import Bind, KeepSettings, Ledger, StoppedClean
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import LEDGERS, MESSAGES, QUEUES, RETIRED
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import rewrite
from tests.storage.scribe import MAP_BYTES, Scribe


def refused(path: Path) -> tuple[Scribe, int, int]:
    """Two queues with messages, and the settings and a binding of the first."""
    scribe = Scribe(path)
    broken, sound = scribe.declare("broken"), scribe.declare("sound")
    scribe.fill(broken, 5)
    scribe.fill(sound, 7)
    scribe.store.commit([KeepSettings(broken, "{}"), Bind("amq.direct", "k", broken), StoppedClean()])
    scribe.store.close()
    return scribe, broken, sound


NONE = records.queue_key(0)


BREAKS: dict[str, Callable[[Path, bytes], object]] = {
    "ledger without a queue": lambda path, key: rewrite(path, QUEUES, key, None),
    "queue without a ledger": lambda path, key: rewrite(path, LEDGERS, key, None),
    "damaged name": lambda path, key: rewrite(path, QUEUES, key, b"x" * 20),
    "damaged ledger": lambda path, key: rewrite(path, LEDGERS, key, b"x" * 200),
    "ledger of fewer": lambda path, key: rewrite(path, LEDGERS, key, records.encode_ledger(key, Ledger(2, 0, 2, 0))),
    "ledger that does not add up": lambda path, key: rewrite(path, LEDGERS, key, records.encode_ledger(key, Ledger(9))),
    "a message of nobody": lambda path, key: rewrite(path, MESSAGES, records.message_key(9, 9), b"x" * 60),
    "swept more than there is": lambda path, key: rewrite(path, RETIRED, NONE, records.encode_number(NONE, 4)),
    "neither name nor ledger": lambda path, key: [rewrite(path, table, key, None) for table in (QUEUES, LEDGERS)],
}


@pytest.mark.parametrize("broken_by", BREAKS)
def test_what_a_start_refuses_is_had_again_by_backup_and_restore(tmp_path: Path, broken_by: str) -> None:
    """All queues: the others as they were, and what is left of the broken one."""
    scribe, broken, sound = refused(tmp_path / "data")
    BREAKS[broken_by](tmp_path / "data", records.queue_key(broken))
    with pytest.raises(StoreError, match="`radiator check`.*`radiator backup` and `radiator restore`"):
        open_store(tmp_path / "data", MAP_BYTES)
    backup(tmp_path / "data", tmp_path / "copy")
    report = restore(tmp_path / "copy", tmp_path / "new")
    assert report.findings
    assert check(tmp_path / "new").findings == []
    again = Scribe(tmp_path / "new")
    queues = {queue.number: queue for queue in again.store.recovery.queues}
    assert queues[sound].name == "sound" and again.bodies(sound) == bodies_of(scribe, sound)
    assert queues[broken].ledger.stored == 5 and again.bodies(broken) == bodies_of(scribe, broken)


def bodies_of(scribe: Scribe, queue: int) -> list[bytes]:
    return [message.body for (number, _), message in sorted(scribe.messages.items()) if number == queue]
