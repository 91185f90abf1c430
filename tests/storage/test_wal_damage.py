"""What is left of a damaged log: entries are found wherever they are, and put in order by their checksums."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from radiator.storage import wal as wal_module
from radiator.storage.wal import Place, WalEntry, WalReading, WriteAheadLog, begin, segment_name
from radiator.storage.wal_damage import WalRemains, remains_of
from tests.storage.broken_logs import break_entries, entry_of, flip, segments, standing_in

STORE = "0123456789abcdef"
FIRST = Place(0, 7)
COUNT = 90


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "WAL_SEGMENT_FIRST_BYTES", 4096)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Entries of different lengths in some segments."""
    log = WriteAheadLog(tmp_path, begin(tmp_path, STORE, FIRST), 4096)
    for number in range(1, COUNT + 1):
        log.append(b"%d " % number * (number * 17 % 120), boot=3, ms=number)
    log.close()
    assert len(segments(tmp_path)) > 4
    return tmp_path


def read(data_dir: Path) -> list[WalEntry]:
    return list(WalReading(data_dir / "wal", STORE, FIRST).entries())


def remains(data_dir: Path, after: Place = FIRST) -> WalRemains:
    return remains_of(data_dir / "wal", STORE, after)


def indexes(entries: list[WalEntry]) -> list[int]:
    return [entry.place.index for entry in entries]


def test_of_a_sound_log_all_is_left_and_as_a_reading_gives_it(data_dir: Path) -> None:
    whole = read(data_dir)
    found = remains(data_dir)
    assert found == WalRemains(0, whole, [], COUNT)
    assert (found.lost, found.end) == (0, COUNT)
    assert found.sentence == f"Nothing shows whether anything was receipted after entry {COUNT}."
    middle = whole[14].place
    assert remains(data_dir, middle) == WalRemains(15, whole[15:], [], COUNT)


@pytest.mark.parametrize("broken", [1, 2, COUNT // 2, COUNT - 1])
def test_what_is_behind_a_damaged_head_is_found(data_dir: Path, broken: int) -> None:
    whole = read(data_dir)
    break_entries(data_dir, broken)
    found = remains(data_dir)
    assert (found.before, found.behind) == (whole[: broken - 1], whole[broken:])
    assert (found.lost, found.end, found.last) == (COUNT - broken + 1, broken - 1, COUNT)


def test_the_salt_of_a_segment_with_a_damaged_opening_is_in_the_closing_before_it(data_dir: Path) -> None:
    """Also where the tables have all of the segment with that closing, and a part of the damaged one."""
    whole = read(data_dir)
    number = whole[COUNT // 2].place.number
    of_it = [entry for entry in whole if entry.place.number == number]
    assert len(of_it) > 3
    flip(data_dir / "wal" / segment_name(number), 20)
    for after in (of_it[0].place, of_it[1].place, of_it[-2].place):
        found = remains(data_dir, after)
        assert found == WalRemains(after.index, whole[after.index :], [], COUNT)


def test_nothing_shows_that_there_was_a_last_entry_whose_head_is_damaged(data_dir: Path) -> None:
    break_entries(data_dir, COUNT)
    assert (remains(data_dir).lost, remains(data_dir).last) == (0, COUNT - 1)


def test_an_entry_of_which_only_the_head_is_sound_counts_as_lost(data_dir: Path) -> None:
    where = entry_of(data_dir, COUNT)
    flip(where.path, where.begin + 60)
    found = remains(data_dir)
    assert (found.lost, found.last, found.behind) == (1, COUNT, [])
    assert found.sentence == f"Entry {COUNT} was receipted and cannot be read in order."


def test_many_damages_leave_what_is_between_them(data_dir: Path) -> None:
    broken = range(5, COUNT, 3)
    break_entries(data_dir, *broken)
    found = remains(data_dir)
    assert indexes(found.before) == [1, 2, 3, 4]
    assert indexes(found.behind) == [index for index in range(5, COUNT + 1) if index not in broken]


def test_a_segment_without_its_opening_is_read_by_the_closing_before_it(data_dir: Path) -> None:
    whole = read(data_dir)
    flip(segments(data_dir)[1], 20)
    assert remains(data_dir).before == whole
    closing = standing_in(segments(data_dir)[0])[-1]
    assert closing.is_closing
    flip(closing.path, closing.begin + 8)
    found = remains(data_dir)
    kept = [one.index for one in standing_in(segments(data_dir)[0]) if not one.is_closing]
    after = standing_in(segments(data_dir)[2])[0].index
    assert indexes(found.before) == kept
    assert indexes(found.behind) == [*range(after, COUNT + 1)]


def test_segments_that_changed_their_names_are_read_in_order(data_dir: Path) -> None:
    whole = read(data_dir)
    first, second, *_ = segments(data_dir)
    first.rename(data_dir / "kept")
    second.rename(first)
    (data_dir / "kept").rename(second)
    assert remains(data_dir).before == whole


def test_a_segment_that_is_missing_takes_its_entries_alone(data_dir: Path) -> None:
    second = segments(data_dir)[1]
    gone = [one.index for one in standing_in(second) if not one.is_closing]
    second.unlink()
    found = remains(data_dir)
    assert indexes(found.before) == [*range(1, gone[0])]
    assert indexes(found.behind) == [*range(gone[-1] + 1, COUNT + 1)]
    assert found.lost == COUNT - gone[0] + 1


def _directory(path: Path) -> None:
    path.mkdir()


def _foreign(path: Path) -> None:
    path.write_bytes(b"no segment at all")


def _other_store(path: Path) -> None:
    directory = path.parent.parent / "other"
    directory.mkdir()
    log = WriteAheadLog(directory, begin(directory, "f" * 16, FIRST), 4096)
    log.append(b"of another store", 1, 1)
    log.close()
    shutil.copy(segments(directory)[0], path)


@pytest.mark.parametrize("make", [_directory, _foreign, _other_store])
@pytest.mark.parametrize("name", ["0000000000.wal", "0000009999.wal", "notes.txt", "notes.wal", "next.new"])
def test_what_is_no_segment_of_the_store_is_passed_over(
    data_dir: Path, make: Callable[[Path], None], name: str
) -> None:
    whole = read(data_dir)
    make(data_dir / "wal" / name)
    assert remains(data_dir).before == whole


def test_a_message_that_holds_a_whole_segment_is_not_taken_for_one(data_dir: Path) -> None:
    """With its real salt, as somebody may send a file of his own broker."""
    copied = segments(data_dir)[-2].read_bytes()
    reading = WalReading(data_dir / "wal", STORE, FIRST)
    assert len(list(reading.entries())) == COUNT
    log = WriteAheadLog(data_dir, reading, 4096)
    log.append(copied, 1, 1)
    log.append(b"behind", 1, 1)
    log.close()
    whole = read(data_dir)
    break_entries(data_dir, 2)
    found = remains(data_dir)
    assert found.before + found.behind == [whole[0], *whole[2:]]


def test_an_empty_directory_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir()
    assert remains(tmp_path, Place(7, 7, 1, 500)) == WalRemains(7, [], [], 7)
