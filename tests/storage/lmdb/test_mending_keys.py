"""What `restore` does about rows of keys that are damaged, or of no message."""

from pathlib import Path

import pytest

from radiator.model.message import position_of
from radiator.model.reads import ReadHeld, ReadKeys
from radiator.model.writes import Put, Sweep
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, HELD, MESSAGES
from tests.storage.breaking import rewrite
from tests.storage.scribe import DUE_MS, Scribe, hash_of
from tests.storage.tree import rows_in

ALL = (1 << 96) - 1


class Written:
    """A closed store: four messages of one key, and two delayed ones that hold theirs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scribe = scribe = Scribe(path)
        queue = scribe.declare("orders")
        self.puts: list[Put] = scribe.fill(queue, 4, keys=1)
        self.delays = [scribe.delay(queue, DUE_MS, held=hash_of(nth)) for nth in range(2)]
        scribe.commit(*self.delays)
        scribe.store.close()

    def by_key(self, number: int) -> bytes:
        return keyed.by_key_key(1, hash_of(0), self.puts[number].position)

    def held(self, number: int) -> bytes:
        return records.message_key(1, self.delays[number].position)

    def restored(self, name: str = "new") -> tuple[list[str], Scribe]:
        copy, new = self.path.parent / f"{name}.copy", self.path.parent / name
        backup(self.path, copy)
        findings = restore(copy, new).findings
        assert check(new).findings == []
        return findings, Scribe(new)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "data")


def found_in(scribe: Scribe) -> tuple[list[int], list[tuple[int, bytes]]]:
    [found] = scribe.store.load_keys(ReadKeys(1, 1, [(hash_of(0), 0)], ALL, 100, 1 << 20)).found
    return [one.position for one in found.messages], scribe.store.load_held(ReadHeld(1, 1, 0, 9)).held


def test_sound_rows_stay(written: Written) -> None:
    findings, again = written.restored()
    positions = [put.position for put in written.puts]
    assert findings == []
    assert found_in(again) == (positions, [(delay.position, delay.held) for delay in written.delays])


def test_damaged_row_of_a_message_is_made_anew(written: Written) -> None:
    key = written.by_key(2)
    rewrite(written.path, BY_KEY, key, b"x" * 5)
    [finding], again = written.restored()
    assert finding.startswith(f"The row of by_key under key {key.hex()} is damaged: ")
    assert finding.endswith(" It is rebuilt, with the key that it says.")
    assert found_in(again)[0] == [put.position for put in written.puts]


@pytest.mark.parametrize(
    "key",
    [keyed.by_key_key(1, hash_of(0), position_of(1, 77)), keyed.by_key_key(9, hash_of(0), 1), b"k" * 23],
    ids=["of-no-message", "of-no-queue", "short"],
)
def test_damaged_row_of_no_message_is_left_out(written: Written, key: bytes) -> None:
    rewrite(written.path, BY_KEY, key, b"x" * 5)
    [finding], again = written.restored()
    assert finding.startswith(f"The row of by_key under key {key.hex()} is damaged: ")
    assert finding.endswith(" It is left out.")
    assert found_in(again)[0] == [put.position for put in written.puts]


def test_rows_without_their_messages_go(written: Written) -> None:
    """Also of a message that goes with its impossible number, which `restore` removes before."""
    stray = records.message_key(9, 9)
    rewrite(written.path, MESSAGES, stray, written.puts[0].message.body)
    for key in (keyed.by_key_key(9, hash_of(0), 9), keyed.by_key_key(1, hash_of(0), 9)):
        rewrite(written.path, BY_KEY, key, keyed.encode_by_key(key))
    for key in (written.by_key(0)[:4] + bytes(12), stray):
        rewrite(written.path, HELD, key, keyed.encode_held(key, hash_of(0)))
    findings, again = written.restored()
    assert "2 rows of by_key had no message, and went." in findings
    assert "2 rows of held had no message, and went." in findings
    assert found_in(again)[1] == [(delay.position, delay.held) for delay in written.delays]


def test_damaged_row_of_what_is_held_is_left_out(written: Written) -> None:
    key = written.held(1)
    rewrite(written.path, HELD, key, keyed.encode_held(key, hash_of(1)).replace(hash_of(1), hash_of(2)))
    [finding], again = written.restored()
    assert finding.startswith(f"The row of held under key {key.hex()} is damaged: ")
    assert finding.endswith(" It is left out: its key is held no more.")
    assert found_in(again)[1] == [(written.delays[0].position, hash_of(0))]


def test_rows_of_a_queue_that_is_being_swept_are_no_damage(written: Written) -> None:
    scribe = Scribe(written.path)
    scribe.retire(1, "orders")
    scribe.store.commit([Sweep(1, 1, 5)])
    scribe.store.close()
    before = rows_in(written.path)
    assert (len(before[MESSAGES]), len(before[BY_KEY]), len(before[HELD])) == (3, 3, 2)
    findings, again = written.restored()
    assert findings == []
    again.store.commit([Sweep(1, 3, 2)])
    again.store.commit([Sweep(1, 2, 0)])
    again.store.close()
    after = rows_in(again.path)
    assert (after[MESSAGES], after[BY_KEY], after[HELD]) == ({}, {}, {})
