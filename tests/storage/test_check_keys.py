"""`radiator check` finds keys of messages that are not there, and keys that nothing delayed holds."""

from pathlib import Path

import pytest

from radiator.model.message import position_of
from radiator.model.writes import Retire, Sweep
from radiator.storage import check as checking
from radiator.storage import check_keys, compact
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, DELAYED, HELD, MESSAGES
from radiator.storage.rename import rename
from tests.storage.breaking import rewrite
from tests.storage.scribe import DUE_MS, Scribe, hash_of
from tests.storage.tree import rows_in

KEYS = 5  # messages that have one, and as many that have none
HOLDING = 3  # delayed messages that hold theirs, and one that does not


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    """A queue of both, and a second one with keys."""
    scribe = Scribe(tmp_path / "data")
    for name in ("orders", "mail"):
        queue = scribe.declare(name)
        scribe.fill(queue, KEYS, keys=2)
        scribe.fill(queue, KEYS)
        delays = [scribe.delay(queue, DUE_MS + nth, held=hash_of(nth)) for nth in range(HOLDING)]
        scribe.commit(*delays, scribe.delay(queue, DUE_MS))
    return scribe


@pytest.fixture
def path(scribe: Scribe) -> Path:
    scribe.store.close()
    return scribe.path


def keys_of(path: Path, table: bytes, queue: int = 1) -> list[bytes]:
    return sorted(key for key in rows_in(path)[table] if records.queue_of(key) == queue)


@pytest.fixture(params=[1, 2, 3, 10_000])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (check_keys, checking):
        monkeypatch.setattr(module, "CHECK_SLICE_RECORDS", request.param)


@pytest.mark.usefixtures("slices")
def test_sound_rows_are_no_finding(path: Path) -> None:
    assert check(path).findings == []


@pytest.mark.usefixtures("slices")
def test_a_key_without_its_message_is_found(path: Path) -> None:
    first = keyed.by_key_key(1, hash_of(0), position_of(1, 99))
    last = keyed.by_key_key(2, hash_of(9), position_of(1, 0))
    for key in (first, last):  # of no message, and of one of the other queue
        rewrite(path, BY_KEY, key, keyed.encode_by_key(key))
    assert check(path).findings == [
        f"There is a key of a message under {key.hex()}, but no such message at its place." for key in (first, last)
    ]


def test_the_key_of_a_delayed_message_is_found(path: Path) -> None:
    position = records.position_in(keys_of(path, HELD)[0])
    key = keyed.by_key_key(1, hash_of(0), position)
    rewrite(path, BY_KEY, key, keyed.encode_by_key(key))
    assert check(path).findings == [f"There is a key of a message under {key.hex()}, but no such message at its place."]


@pytest.mark.usefixtures("slices")
def test_a_key_that_nothing_delayed_holds_is_found(path: Path) -> None:
    strays = [keys_of(path, MESSAGES)[0], keys_of(path, MESSAGES, 2)[0]]
    for key in strays:
        rewrite(path, HELD, key, keyed.encode_held(key, hash_of(0)))
    found = [f"There is a key held under {key.hex()}, but no such delayed message." for key in strays]
    assert check(path).findings == found


def test_damaged_rows_are_found(path: Path) -> None:
    by_key, held = keys_of(path, BY_KEY)[1], keys_of(path, HELD)[2]
    rewrite(path, BY_KEY, by_key, keyed.encode_by_key(by_key)[:-1] + b"?")
    rewrite(path, HELD, held, keyed.encode_held(held, hash_of(2)).replace(hash_of(2), hash_of(3)))
    findings = check(path).findings
    assert [finding.split(" is damaged: ")[0] for finding in findings] == [
        f"The row of by_key under key {by_key.hex()}",
        f"The row of held under key {held.hex()}",
    ]


@pytest.mark.parametrize(("more", "is_found"), [(6, False), (7, True)])
def test_more_keys_than_messages_are_found(path: Path, more: int, is_found: bool) -> None:
    """Of 14 messages 8 have a row: so may 6 more."""
    position = records.position_in(keys_of(path, MESSAGES)[0])
    for number in range(more):
        key = keyed.by_key_key(1, hash_of(100 + number), position)
        rewrite(path, BY_KEY, key, keyed.encode_by_key(key))
    found = ["Queue 1 stores 14 messages, and has 15 rows of keys of messages."]
    assert check(path).findings == (found if is_found else [])


# ---- deleted queues -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 9, 10, 13, 14])
def test_queue_that_is_being_swept_is_no_finding(scribe: Scribe, count: int) -> None:
    scribe.retire(1, "orders")
    scribe.store.commit([Sweep(1, count, 14 - count)])
    scribe.store.close()
    assert check(scribe.path).findings == []
    left = len(keys_of(scribe.path, BY_KEY)) + len(keys_of(scribe.path, HELD))
    assert left == max(0, KEYS + HOLDING - count)
    assert len(keys_of(scribe.path, BY_KEY, 2)) == KEYS and len(keys_of(scribe.path, HELD, 2)) == HOLDING


@pytest.mark.parametrize("slice_", [1, 3, 14])
def test_nothing_is_left_of_a_queue_that_was_swept(scribe: Scribe, slice_: int) -> None:
    scribe.retire(1, "orders")
    for left in range(14, 0, -slice_):
        scribe.store.commit([Sweep(1, min(slice_, left), max(0, left - slice_))])
    scribe.store.close()
    tables = {table: keys_of(scribe.path, table) for table in (MESSAGES, DELAYED, BY_KEY, HELD)}
    assert tables == {MESSAGES: [], DELAYED: [], BY_KEY: [], HELD: []}


def test_too_many_keys_of_a_deleted_queue_are_found(scribe: Scribe) -> None:
    scribe.store.commit([Retire(1, "orders", 14), Sweep(1, 13, 1)])
    scribe.store.close()
    for number in range(2):
        key = keyed.by_key_key(1, hash_of(number), 1)
        rewrite(scribe.path, BY_KEY, key, keyed.encode_by_key(key))
    assert check(scribe.path).findings == ["Queue 1 stores 1 message, and has 2 rows of keys of messages."]


# ---- tools ----------------------------------------------------------------------------------------------------------


def test_compact_rename_backup_and_restore_keep_them(path: Path, tmp_path: Path) -> None:
    before = rows_in(path)
    assert (len(before[BY_KEY]), len(before[HELD])) == (2 * KEYS, 2 * HOLDING)
    compact.compact(path)
    rename(path, "node.b")
    backup(path, tmp_path / "copy", compact=True)
    assert restore(tmp_path / "copy", tmp_path / "new").findings == []
    for rows in (rows_in(path), rows_in(tmp_path / "new")):
        assert (rows[BY_KEY], rows[HELD]) == (before[BY_KEY], before[HELD])
