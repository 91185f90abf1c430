"""Segments that log_keep keeps are checked, though no start needs them."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from radiator.model.errors import DiskFailed
from radiator.model.settings import LogKeep
from radiator.storage import wal
from radiator.storage.check import check
from radiator.storage.lmdb import store as store_module
from tests.storage.scribe import Scribe

SEGMENT_BYTES = 8192


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Segments of a store at rest: some that are kept, the last one, and a blank one."""
    monkeypatch.setattr(wal, "WAL_SEGMENT_FIRST_BYTES", SEGMENT_BYTES)
    monkeypatch.setattr(store_module, "WAL_SEGMENT_BYTES", SEGMENT_BYTES)
    scribe = Scribe(tmp_path / "data", log_keep=LogKeep(max_bytes=1 << 40))
    queue = scribe.declare("orders")
    for _ in range(40):
        scribe.fill(queue, 1, bytes(1000))
    scribe.store.close()
    found = sorted((tmp_path / "data" / "wal").iterdir())
    assert len(found) > 6
    return found


def findings(kept: list[Path]) -> list[str]:
    return check(kept[0].parent.parent).findings


def test_sound_ones_are_right(kept: list[Path]) -> None:
    assert findings(kept) == []


def test_a_flipped_bit_is_found_with_the_entry_before_it(kept: list[Path]) -> None:
    data = bytearray(kept[1].read_bytes())
    data[len(data) // 2] ^= 1
    kept[1].write_bytes(data)
    [found] = findings(kept)
    assert found.startswith(f"{kept[1]}, which log_keep keeps, is damaged after entry ")
    assert found.endswith("no backup can be brought beyond that with it; make a new one.")


def test_one_that_is_missing_is_found(kept: list[Path]) -> None:
    kept[1].unlink()
    [found] = findings(kept)
    assert "where log_keep keeps segments, lacks the entries between " in found


def test_the_oldest_may_be_gone_or_blank(kept: list[Path]) -> None:
    kept[0].unlink()
    kept[1].write_bytes(bytes(SEGMENT_BYTES))  # a broker was about to use it again
    assert findings(kept) == []


def test_one_that_the_disk_does_not_give_back_is_no_damage(kept: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv

    def failing(opened_file: int, *more: Any) -> int:
        if os.readlink(f"/proc/self/fd/{opened_file}") == str(kept[1]):
            raise OSError(errno.EIO, "Input/output error")
        return preadv(opened_file, *more)

    with monkeypatch.context() as patch, pytest.raises(DiskFailed) as failed:
        patch.setattr(os, "preadv", failing)
        findings(kept)
    assert str(failed.value).startswith(f"{kept[1]} could not be read (Input/output error): ")
    assert findings(kept) == []


@pytest.mark.parametrize("damage", ("flipped", "cut"))
def test_a_damaged_opening_is_told(kept: list[Path], damage: str) -> None:
    data = bytearray(kept[1].read_bytes())
    data[20] ^= 1
    kept[1].write_bytes(data if damage == "flipped" else data[:20])
    found, *_ = findings(kept)
    assert found.startswith(f"log_keep keeps {kept[1].name}, and it is of no use: its opening is damaged; ")


def test_what_is_no_segment_of_the_store_is_told(kept: list[Path]) -> None:
    kept[0].unlink()
    os.mkfifo(kept[0])
    kept[1].write_bytes(kept[2].read_bytes())
    one, other = findings(kept)
    assert one.startswith(f"log_keep keeps {kept[0].name}, and it is of no use: ") and "is not a regular file" in one
    assert other.startswith(f"log_keep keeps {kept[1].name}, and it is of no use: ") and "was renamed" in other


def test_one_that_a_broker_uses_again_meanwhile_is_nothing_wrong(
    kept: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from radiator.storage import check_kept

    sound_part = check_kept.sound_part

    def used_again(path: Path, number: int, store_id: str) -> object:
        part = sound_part(path, number, store_id)
        if path == kept[0] and part is not None:
            path.unlink()
            return part._replace(next=0)
        return part

    monkeypatch.setattr(check_kept, "sound_part", used_again)
    assert findings(kept) == []
