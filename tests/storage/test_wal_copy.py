"""Copies of the log: complete, growing, never of a use of a segment that is over; and gaps are told."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.storage import wal, wal_copy
from radiator.storage.lmdb import store as store_module
from radiator.storage.wal import Place, SoundPart, WalReading
from radiator.storage.wal_copy import Copied, LogCopier
from tests.storage.scribe import Scribe

SEGMENT_BYTES = 8192
ALL = LogKeep(max_bytes=1 << 40)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "WAL_SEGMENT_FIRST_BYTES", SEGMENT_BYTES)
    monkeypatch.setattr(store_module, "WAL_SEGMENT_BYTES", SEGMENT_BYTES)


def written(data: Path, batches: int, keep: LogKeep = ALL) -> str:
    """So many batches more, of a KiB each. Returns the store's id."""
    scribe = Scribe(data, log_keep=keep)
    queue = scribe.declare(f"orders {scribe.boot}")
    for _ in range(batches):
        scribe.fill(queue, 1, bytes(1000))
    scribe.store.close()
    return scribe.store.recovery.store_id


def copied(data: Path, to: Path) -> Copied:
    with LogCopier(data, to) as copier:
        return copier.copy()


def indexes(directory: Path, store: str) -> list[int]:
    first = min(directory.iterdir())
    part = wal.sound_part(first, int(first.stem), store)
    assert part is not None
    reading = WalReading(directory, store, Place(part.first - 1, part.crc_before), is_copy=True)
    return [entry.place.index for entry in reading.entries()]


def test_copies_grow_and_have_every_entry(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    end = 0
    for batches in (1, 3, 40, 0, 7, 1):
        store = written(data, batches)
        before = {file.name: file.read_bytes() for file in to.iterdir()} if to.exists() else {}
        found = copied(data, to)
        end += batches + 2  # the boot, and a queue
        assert (found.first, found.last, found.gaps) == (1, end, [])
        assert indexes(to, store) == list(range(1, end + 1))
        after = {file.name: file.read_bytes() for file in to.iterdir()}
        assert all(after[name].startswith(before[name]) for name in before)
        assert found.size == sum(map(len, after.values()))
        assert found.copied_bytes == found.size - sum(map(len, before.values()))
        assert copied(data, to) == found._replace(copied_bytes=0)
    assert {file.stat().st_mode & 0o777 for file in to.iterdir()} == {0o600}
    assert to.stat().st_mode & 0o777 == 0o700


def test_one_copier_follows(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    store = written(data, 1)
    with LogCopier(data, to) as copier:
        for _ in range(5):
            copier.copy()
            written(data, 9)
        found = copier.copy()
    assert found.gaps == []
    assert indexes(to, store) == list(range(1, found.last + 1))
    assert found == copied(data, to)._replace(copied_bytes=found.copied_bytes)


def test_segments_that_were_used_again_are_a_gap_that_each_run_tells(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 1, KEEP_NOTHING)
    first = copied(data, to)
    written(data, 60, KEEP_NOTHING)
    second = copied(data, to)
    [gap] = second.gaps
    assert gap.startswith(f"{to} lacks entries {first.last + 1} to ")
    assert "Raise log_keep" in gap
    assert copied(data, to).gaps == [gap]


def test_a_segment_that_is_used_again_while_it_is_copied_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 30)
    append = LogCopier._append

    def used_again_before(copier: LogCopier, source: int, target: Path, *ends: int, progress: object = None) -> None:
        if target.name == "0000000002.wal":
            with (data / "wal" / target.name).open("r+b") as opened:
                opened.write(bytes(4096))
        append(copier, source, target, *ends)  # type: ignore[arg-type]

    monkeypatch.setattr(LogCopier, "_append", used_again_before)
    found = copied(data, to)
    assert not (to / "0000000002.wal").exists()
    [gap] = found.gaps
    assert "lacks entries" in gap


def test_a_copy_that_a_kill_has_cut_off_is_made_whole(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    store = written(data, 30)
    found = copied(data, to)
    whole = {file.name: file.read_bytes() for file in to.iterdir()}
    last = max(whole)
    for size in (0, 50, 128, 500, len(whole[last]) - 1):
        (to / last).write_bytes(whole[last][:size])
        assert copied(data, to) == found._replace(
            copied_bytes=len(whole[last]) - sound_bytes(whole[last], size, to, store)
        )
        assert {file.name: file.read_bytes() for file in to.iterdir()} == whole


def sound_bytes(whole: bytes, size: int, directory: Path, store: str) -> int:
    """How much of a copy that was cut at that size can stay."""
    file = directory.parent / "cut"
    file.write_bytes(whole[:size])
    part = wal.sound_part(file, wal._opening_of(whole).number, store)  # type: ignore[union-attr]
    return 0 if part is None or part.end_at > size else part.end_at  # it may lack a byte behind its last entry


def test_copies_that_are_gone_or_cut_off_are_made_again_from_their_beginning(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    store = written(data, 30)
    with LogCopier(data, to) as copier:
        copier.copy()
        for _ in range(3):
            *_, middle, last = sorted(to.iterdir())
            last.unlink()
            middle.write_bytes(middle.read_bytes()[:-10])
            written(data, 3)
            found = copier.copy()
            assert found.gaps == []
            assert indexes(to, store) == list(range(1, found.last + 1))
    sorted(to.iterdir())[1].unlink()
    found = copied(data, to)
    assert found.gaps == []
    assert indexes(to, store) == list(range(1, found.last + 1))


def test_the_oldest_copies_may_be_removed(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 30)
    copied(data, to)
    for file in sorted(to.iterdir())[:2]:
        file.unlink()
    written(data, 1)
    found = copied(data, to)
    assert found.gaps == []
    assert found.first > 1
    assert min(to.iterdir()).name == "0000000003.wal"


def test_a_disk_that_takes_a_part_only_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "data", 3)
    pwrite = os.pwrite
    monkeypatch.setattr(wal_copy.os, "pwrite", lambda file, data, at: pwrite(file, data[:100], at))
    with pytest.raises(StoreError, match=r"cannot be written: .*100 of \d+ bytes were written"):
        copied(tmp_path / "data", tmp_path / "copies")


def test_a_copy_that_is_another_file_is_refused(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 30)
    copied(data, to)
    one, other, *_ = sorted(to.iterdir())
    one.rename(to / "0000000099.wal")
    with pytest.raises(StoreError, match=r"was renamed, .* segment 1: it is not a copy of this log"):
        copied(data, to)


def test_another_log_is_refused(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 1)
    shutil.copytree(data, tmp_path / "twin")
    written(data, 1)
    copied(data, to)
    written(tmp_path / "twin", 2)
    with pytest.raises(StoreError, match="has other entries than .*: one of them is of a copy of the data directory"):
        copied(tmp_path / "twin", to)
    written(data, 30)
    copied(data, to)
    written(tmp_path / "twin", 30)
    with pytest.raises(StoreError, match=r"is another segment \d+ than"):
        copied(tmp_path / "twin", to)
    written(tmp_path / "other", 1)
    with pytest.raises(StoreError, match="is of the store .*, and the log of the store .* is wanted"):
        copied(tmp_path / "other", to)


@pytest.mark.parametrize("to", ["data", "data/wal", "data/wal/copies", "link"])
def test_copies_need_a_directory_of_their_own(tmp_path: Path, to: str) -> None:
    written(tmp_path / "data", 1)
    (tmp_path / "link").symlink_to("data/wal/copies")
    with pytest.raises(StoreError, match="belongs to a data directory: give the copies a directory of their own"):
        copied(tmp_path / "data", tmp_path / to)
    written(tmp_path / "data", 1)


def test_what_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a data directory: it has no data\.mdb"):
        copied(tmp_path, tmp_path / "copies")
    assert not (tmp_path / "copies").exists()


def test_two_copiers_into_one_directory_are_refused(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    written(data, 1)
    with LogCopier(data, to), pytest.raises(StoreError, match="Another `radiator backup --log` copies into"):
        LogCopier(data, to)
    LogCopier(data, to).__exit__()


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    written(tmp_path / "data", 1)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file is not a directory: the copies need one of their own"):
        copied(tmp_path / "data", tmp_path / "file")
    with pytest.raises(StoreError, match="The copies of the log in .* cannot be written: "):
        copied(tmp_path / "data", tmp_path / "missing" / "copies")


def test_a_full_disk_leaves_what_was_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    store = written(data, 30)
    pwrite, left = os.pwrite, [20_000]

    def on_a_full_disk(file: int, data: bytes, at: int) -> int:
        if len(data) > left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= len(data)
        return pwrite(file, data, at)

    monkeypatch.setattr(wal_copy.os, "pwrite", on_a_full_disk)
    with pytest.raises(StoreError, match="cannot be written: .*No space left"):
        copied(data, to)
    left[0] = 1 << 40
    found = copied(data, to)
    assert found.gaps == []
    assert indexes(to, store) == list(range(1, found.last + 1))


@pytest.mark.durability("D39")
def test_what_is_not_synced_is_synced_before_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "data", 1)
    order: list[str] = []
    fdatasync, bring = os.fdatasync, LogCopier._append

    def noted_sync(file: int) -> None:
        order.append("synced")
        fdatasync(file)

    def noted_append(*given: object) -> None:
        order.append("copied")
        bring(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(wal_copy.os, "fdatasync", noted_sync)
    monkeypatch.setattr(LogCopier, "_append", noted_append)
    copied(tmp_path / "data", tmp_path / "copies")
    assert order == ["synced", "copied"]


def parts(directory: Path, store: str) -> Iterator[tuple[SoundPart, SoundPart | None]]:
    for file in sorted(directory.iterdir()):
        whole = wal.sound_part(file, int(file.stem), store)
        assert whole is not None
        yield whole, wal.closed_part(file, int(file.stem), store)


def test_the_ends_of_a_copy_tell_what_is_in_it(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copies"
    store = written(data, 30)
    copied(data, to)
    *closed, (last, not_closed) = parts(to, store)
    assert len(closed) > 3
    assert [short for _, short in closed] == [whole._replace(ms=0) for whole, _ in closed]
    assert (last.next, not_closed) == (0, None)
