"""The log: what is appended is read again, a torn end is cut off, and damage before the end never is."""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import MIB
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.storage import wal as wal_module
from radiator.storage.wal import (
    Damaged,
    KeepBounds,
    Place,
    WalEntry,
    WalReading,
    WriteAheadLog,
    begin,
    give_up_kept,
)

STORE = "0123456789abcdef"
FIRST = Place(0, 7)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "WAL_SEGMENT_FIRST_BYTES", 4096)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    begin(tmp_path, STORE, FIRST)
    return tmp_path


def opened(data_dir: Path, after: Place = FIRST, keep: LogKeep = KEEP_NOTHING, free_min: int = 0) -> WriteAheadLog:
    reading = WalReading(data_dir / "wal", STORE, after)
    for _ in reading.entries():
        pass
    return WriteAheadLog(data_dir, reading, 4096, keep, free_min)


def entries(data_dir: Path, after: Place = FIRST) -> list[WalEntry]:
    return list(WalReading(data_dir / "wal", STORE, after).entries())


def filled(data_dir: Path, count: int, seed: int = 1, after: Place = FIRST) -> list[bytes]:
    chance = Random(seed)
    contents = [chance.randbytes(chance.choice((0, 1, 7, 100, 900))) for _ in range(count)]
    log = opened(data_dir, after)
    for content in contents:
        log.append(content, boot=3, ms=1_900_000_000_000)
    log.close()
    return contents


def files(data_dir: Path) -> Iterator[Path]:
    yield from sorted((data_dir / "wal").iterdir())


def test_what_is_appended_is_read_again_over_many_segments_and_starts(data_dir: Path) -> None:
    contents = filled(data_dir, 40) + filled(data_dir, 40, 2) + filled(data_dir, 1, 3)
    found = entries(data_dir)
    assert [entry.operations for entry in found] == contents
    assert [entry.place.index for entry in found] == list(range(1, 82))
    assert {(entry.term, entry.boot, entry.ms) for entry in found} == {(1, 3, 1_900_000_000_000)}
    assert len([*files(data_dir)]) > 4
    middle = found[40]
    assert entries(data_dir, middle.place) == entries(data_dir, Place(*middle.place[:2])) == found[41:]


def test_an_entry_longer_than_a_segment_is_kept(data_dir: Path) -> None:
    log = opened(data_dir)
    log.append(b"small", 1, 1)
    log.append(b"x" * 100_000, 1, 1)
    log.append(b"small", 1, 1)
    log.close()
    assert [len(entry.operations) for entry in entries(data_dir)] == [5, 100_000, 5]


@pytest.mark.durability("D12")
@pytest.mark.parametrize("count", [1, 5, 30])
def test_a_torn_last_entry_is_cut_off_at_every_byte_and_the_log_goes_on(data_dir: Path, count: int) -> None:
    contents = filled(data_dir, count)
    reading = WalReading(data_dir / "wal", STORE, FIRST)
    before = [*reading.entries()]
    end = reading.end
    assert end is not None
    file = data_dir / "wal" / f"{end.place.number:010}.wal"
    whole = file.read_bytes()
    log = opened(data_dir)
    log.append(b"torn" * 20, 3, 1)
    log.close()
    written = file.read_bytes()
    for at in range(end.place.at, end.place.at + 56 + 80):
        file.write_bytes(written[:at] + whole[at:])
        found = entries(data_dir)
        assert found == before, at
    log = opened(data_dir)
    log.append(b"next", 3, 1)
    log.close()
    assert [entry.operations for entry in entries(data_dir)] == [*contents, b"next"]


@pytest.mark.durability("D38")
@pytest.mark.parametrize("size", (10, 1000, 4000, 300_000))
@pytest.mark.parametrize("appended", (1, 2, 9))
def test_what_is_appended_while_the_end_is_looked_for_is_no_damage(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, size: int, appended: int
) -> None:
    """Between the look for the next entry, and the one whether anything stands behind the end."""
    contents = filled(data_dir, 5)
    log = opened(data_dir)
    left = [b"%d" % number * size for number in range(appended)]
    contents += reversed(left)
    assert_not_cut = WalReading._assert_not_cut

    def append_first(*args: object) -> None:
        while left:
            log.append(left.pop(), 3, 1)
        assert_not_cut(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(WalReading, "_assert_not_cut", append_first)
    found = [entry.operations for entry in entries(data_dir)]
    assert len(found) >= 5 and found == contents[: len(found)]
    log.close()


@pytest.mark.durability("D35")
def test_a_flipped_bit_before_the_end_is_never_cut_off(data_dir: Path) -> None:
    filled(data_dir, 30)
    before = entries(data_dir)
    chance = Random(5)
    refused = 0
    for file in files(data_dir):
        whole = file.read_bytes()
        for at in chance.sample(range(len(whole)), 150):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << chance.randrange(8)
            file.write_bytes(damaged)
            try:
                found = entries(data_dir)
            except Damaged:
                refused += 1
            else:
                assert found in (before, before[:-1])  # of the last entry it cannot be told from a torn one
        file.write_bytes(whole)
    assert refused > 100


def test_entries_that_change_places_or_come_twice_are_refused(data_dir: Path) -> None:
    log = opened(data_dir)
    places = [128]
    for number in range(4):
        log.append(b"entry %d" % number, 1, 1)
        places.append(log.place.at)
    log.close()
    [file, *_] = files(data_dir)
    whole = file.read_bytes()
    _, second, third, fourth = [whole[begin:end] for begin, end in pairwise(places)]
    for middle in (third + second, second + second, third + third):
        file.write_bytes(whole[: places[1]] + middle + fourth + whole[places[4] :])
        with pytest.raises(Damaged, match="belongs"):
            entries(data_dir)


def test_segments_that_are_missing_swapped_or_of_another_store_are_refused(data_dir: Path, tmp_path: Path) -> None:
    filled(data_dir, 60)
    names = list(files(data_dir))
    assert len(names) >= 4
    for file in names[:-2]:
        moved = tmp_path / "moved"
        file.rename(moved)
        with pytest.raises(Damaged, match="missing"):
            entries(data_dir)
        moved.rename(file)
    first, second = names[0].read_bytes(), names[1].read_bytes()
    names[0].write_bytes(second)
    names[1].write_bytes(first)
    with pytest.raises(Damaged, match="renamed"):
        entries(data_dir)
    names[0].write_bytes(first)
    names[1].write_bytes(second)
    with pytest.raises(StoreError, match="is of the store"):
        [*WalReading(data_dir / "wal", "f" * 16, FIRST).entries()]


@pytest.mark.durability("D36")
def test_segments_are_used_again_and_what_they_had_never_passes_for_new(data_dir: Path) -> None:
    log = opened(data_dir)
    chance = Random(9)
    kept: list[bytes] = []
    place = FIRST
    for _ in range(60):
        contents = [chance.randbytes(600) for _ in range(20)]
        for content in contents:
            log.append(content, 1, 1)
        kept = contents[-3:]
        for content in kept:
            log.append(content, 1, 1)
        found = entries(data_dir, place)
        assert [entry.operations for entry in found] == [*contents, *kept]
        place = found[-1].place
        log.tidy(place.index)
    log.close()
    assert len([*files(data_dir)]) <= 3
    assert entries(data_dir, place) == []


def append_some(log: WriteAheadLog, count: int = 100) -> None:
    """Entries of some twenty segments, which the tables have."""
    for _ in range(count):
        log.append(bytes(600), 1, 1)
        log.tidy(log.place.index)


def test_segments_grow_to_the_largest_size_whoever_tidies(data_dir: Path) -> None:
    """A committer that applies by itself leaves short ones to be used again: they must not stand for a longer one."""
    reading = WalReading(data_dir / "wal", STORE, FIRST)
    assert not [*reading.entries()]
    log = WriteAheadLog(data_dir, reading, 16 * 4096)
    for number in range(2_000):
        log.append(b"x" * 500, 1, 1)
        log.tidy(log.place.index, may_take_long=number % 10 == 9)
    log.close()
    sizes = [file.stat().st_size for file in files(data_dir)]
    assert min(sizes) >= 8 * 4096 and len(sizes) <= 3


def begun(data_dir: Path) -> list[Path]:
    return [file for file in files(data_dir) if file.read_bytes()[:12] == b"Radiator WAL"]


def test_so_many_bytes_of_closed_segments_are_kept(data_dir: Path) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=8 * 4096))
    append_some(log)
    assert log.kept_bytes == 8 * 4096
    assert len(begun(data_dir)) == 9
    assert log.segments == (len([*files(data_dir)]), len([*files(data_dir)]) - 9)
    first = entries_of_kept(data_dir)
    assert [entry.place.index for entry in first] == list(range(first[0].place.index, 101))
    log.close()
    again = opened(data_dir, log.place, keep=LogKeep(max_bytes=3 * 4096))
    again.tidy(log.place.index)
    assert again.kept_bytes == 3 * 4096
    again.close()
    last = opened(data_dir, log.place)
    last.tidy(log.place.index)
    assert last.kept_bytes == 0
    assert len([*files(data_dir)]) <= 2
    last.close()


def entries_of_kept(data_dir: Path) -> list[WalEntry]:
    """All that the segments have, from the first sound opening on."""
    data = begun(data_dir)[0].read_bytes()
    opening = wal_module._opening_of(data)
    assert opening is not None
    return entries(data_dir, Place(opening.first - 1, opening.crc_before))


def test_closed_segments_are_kept_for_so_long(data_dir: Path) -> None:
    log = opened(data_dir, keep=LogKeep(max_ms=60_000))
    append_some(log)
    count = len(begun(data_dir))
    assert count > 15
    log.close()
    for file in begun(data_dir)[:5]:
        os.utime(file, (1_000_000_000, 1_000_000_000))
    again = opened(data_dir, log.place, LogKeep(max_ms=60_000))
    again.tidy(log.place.index)
    assert len(begun(data_dir)) == count, "the broker has not told the time yet"
    again.set_clock(time.time_ns() // 1_000_000)
    again.tidy(log.place.index)
    assert len(begun(data_dir)) == count - 5
    again.close()


def test_how_old_a_closed_segment_is_follows_the_clock_of_the_broker(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monotonic_s, now_ms = 100.0, 1_900_000_000_000
    monkeypatch.setattr(time, "monotonic", lambda: monotonic_s)
    log = opened(data_dir, keep=LogKeep(max_ms=60_000))
    log.set_clock(now_ms)
    append_some(log)
    count = len(begun(data_dir))
    for after_ms, left in ((59_000, count), (60_000, count), (60_001, 1)):
        log.set_clock(now_ms + after_ms)
        log.tidy(log.place.index)
        assert len(begun(data_dir)) == left, after_ms
    append_some(log)
    for after_s, is_kept in ((59, True), (61, False)):  # the clock goes on by itself while nothing is committed
        monotonic_s = 100.0 + after_s
        log.tidy(log.place.index)
        assert (len(begun(data_dir)) > 1) == is_kept
    log.close()


@pytest.mark.parametrize("ahead", (0, 7, -1))
def test_a_file_with_a_time_to_come_keeps_no_segment_for_ever(data_dir: Path, ahead: int) -> None:
    log = opened(data_dir, keep=LogKeep(max_ms=60_000))
    append_some(log)
    log.close()
    kept = begun(data_dir)[:-1]
    os.utime(kept[ahead], (4_000_000_000, 4_000_000_000))
    now_ms = time.time_ns() // 1_000_000
    again = opened(data_dir, log.place, LogKeep(max_ms=60_000))
    again.set_clock(now_ms)
    again.tidy(log.place.index)
    assert begun(data_dir)[:-1] == kept
    again.set_clock(now_ms + 60_001)
    again.tidy(log.place.index)
    assert begun(data_dir)[:-1] == []
    again.close()


@pytest.mark.parametrize(("missing", "given_up"), (((0,), 0), ((1, 1, 0), 2), ((1,) * 99, 9)))
def test_before_a_start_kept_segments_make_room_and_no_others(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[int, ...], given_up: int
) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=1 << 40))
    append_some(log)
    log.close()
    there, left = [*files(data_dir)], iter(missing)
    monkeypatch.setattr(KeepBounds, "missing_bytes", lambda bounds, directory: next(left))
    give_up_kept(data_dir, 10, KeepBounds(0, 4096))
    assert [*files(data_dir)] == there[given_up:]


def test_what_the_disk_must_have_before_it_keeps_segments(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk(whole_mib: int, free_mib: int) -> None:
        found = SimpleNamespace(f_frsize=MIB, f_blocks=whole_mib, f_bavail=free_mib)
        monkeypatch.setattr(os, "statvfs", lambda path: found)

    for whole_mib, disk_free_min_mib, segment_mib, wanted_mib in (
        (100_000, 0, 64, 128),
        (100_000, 128, 64, 256),
        (48, 0, 3, 18),
        (800, 0, 1, 100),
    ):
        bounds = KeepBounds(disk_free_min_mib * MIB, segment_mib * MIB)
        disk(whole_mib, wanted_mib)
        assert bounds.missing_bytes(data_dir) == 0
        disk(whole_mib, wanted_mib - 1)
        assert bounds.missing_bytes(data_dir) == MIB


def test_while_the_disk_has_little_left_nothing_is_kept(data_dir: Path) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=1 << 40), free_min=1 << 60)
    append_some(log)
    assert log.kept_bytes == 0
    assert len([*files(data_dir)]) <= 3
    log.close()


def test_what_must_stay_free_may_change(data_dir: Path) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=1 << 40))
    append_some(log)
    assert log.kept_bytes > 0
    log.use_disk_free_min(1 << 60)
    log.tidy(log.place.index)
    assert log.kept_bytes == 0
    log.close()


def test_on_a_full_disk_a_kept_segment_makes_way(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=1 << 40))
    append_some(log, 30)
    count = len([*files(data_dir)])
    made = wal_module._made

    def on_a_full_disk(new: Path, size: int, opening: bytes = b"", pause_s: float = 0.0) -> Path:
        if len([*files(data_dir)]) >= count:
            raise OSError(errno.ENOSPC, "No space left on device")
        return made(new, size, opening, pause_s)

    monkeypatch.setattr(wal_module, "_made", on_a_full_disk)
    append_some(log, 30)
    assert 0 < len([*files(data_dir)]) <= count
    for _ in range(10):  # the tables do not keep up
        log.append(bytes(600), 1, 1)
    log.append(bytes(10_000), 1, 1)
    log.close()
    assert entries_of_kept(data_dir)[-1].place.index == 71


def test_a_bad_segment_that_is_only_kept_refuses_no_start(data_dir: Path, tmp_path: Path) -> None:
    log = opened(data_dir, keep=LogKeep(max_bytes=1 << 40))
    append_some(log)
    log.close()
    kept = begun(data_dir)
    (tmp_path / "other").mkdir()
    begin(tmp_path / "other", "f" * 16, FIRST)
    foreign = next(files(tmp_path / "other")).read_bytes()
    kept[0].write_bytes(bytes(4096))  # blank, as a broker leaves it that is killed before it is renamed
    kept[1].write_bytes(foreign)
    kept[2].write_bytes(kept[2].read_bytes()[:50])
    kept[3].unlink()
    newest = kept[-2].read_bytes()
    again = opened(data_dir, log.place, LogKeep(max_bytes=1 << 40))
    append_some(again, 5)
    again.close()
    assert not kept[0].exists()
    assert kept[2].stat().st_size == 50
    assert kept[1].read_bytes() == foreign
    assert kept[-2].read_bytes() == newest
    assert len(entries(data_dir, log.place)) == 5


def test_a_segment_that_is_made_beside_commits_is_synced_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    pauses: list[float] = []
    fdatasync = os.fdatasync

    def noted(opened: int) -> None:
        synced.append(os.fstat(opened).st_size)
        fdatasync(opened)

    monkeypatch.setattr(wal_module.os, "fdatasync", noted)
    monkeypatch.setattr(wal_module.time, "sleep", pauses.append)
    piece = wal_module._SYNCED_BYTES
    wal_module._made(tmp_path / "paced", 3 * piece + 100, pause_s=0.5)
    assert synced == [piece, 2 * piece, 3 * piece]
    assert pauses == [0.5] * 3
    wal_module._made(tmp_path / "urgent", 3 * piece + 100, b"opening")
    assert len(synced) == len(pauses) == 3
    assert (tmp_path / "paced").read_bytes() == bytes(3 * piece + 100)
    assert (tmp_path / "urgent").read_bytes() == b"opening" + bytes(3 * piece + 93)


def test_after_a_lost_log_no_number_is_used_again(tmp_path: Path) -> None:
    place = Place(70, 5, 9, 400)
    begin(tmp_path, STORE, place)
    assert [file.name for file in files(tmp_path)] == ["0000000010.wal", "0000000011.wal"]
    log = opened(tmp_path, place)
    log.append(b"next", 1, 1)
    log.close()
    assert [entry.place.index for entry in entries(tmp_path, place)] == [71]


def test_a_segment_stays_until_the_next_one_is_begun_on_the_disk(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables catch up while a commit goes on in the next segment, and the power fails; and again behind a start."""
    log, crashes = opened(data_dir), []
    new_salt = wal_module._new_salt

    def catch_up_and_crash() -> int:
        log.tidy(log.place.index)
        crashes.append((tmp_path / f"crash{len(crashes)}", log.place))
        shutil.copytree(data_dir / "wal", crashes[-1][0] / "wal")
        return new_salt()

    monkeypatch.setattr(wal_module, "_new_salt", catch_up_and_crash)
    for number in range(60):
        log.append(b"%d" % number * 200, 1, 1)
    log.close()
    assert len(crashes) > 3
    monkeypatch.setattr(wal_module, "_new_salt", new_salt)
    for copy, place in crashes:
        assert entries(copy, place) == []
        again = opened(copy, place)
        again.tidy(place.index)
        assert entries(copy, place) == []
        again.append(b"next", 1, 1)
        assert [entry.operations for entry in entries(copy, place)] == [b"next"]
        again.close()


def test_a_log_that_ends_before_what_the_tables_have_is_refused(data_dir: Path) -> None:
    filled(data_dir, 3)
    with pytest.raises(Damaged, match="ends with entry 3"):
        entries(data_dir, Place(4, 1))
    with pytest.raises(Damaged, match="another entry 2"):
        entries(data_dir, Place(2, 1))


def test_a_segment_that_follows_another_entry_is_refused(data_dir: Path) -> None:
    """The tables have all of the segment before, which is gone: what they had last must be what this one follows."""
    log = opened(data_dir)
    while len(log._used) < 2:
        last = log.place
        log.append(bytes(500), 1, 1)
    log.tidy(last.index)
    log.close()
    assert len(entries(data_dir, last)) == 1
    with pytest.raises(Damaged, match=f"follows another entry {last.index} than the one that data.mdb has"):
        entries(data_dir, Place(last.index, last.crc ^ 1, last.number, last.at))
