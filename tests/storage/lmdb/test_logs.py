"""Logs in LmdbStore: blocks, segments, positions, over several boots; what is damaged is passed over and told."""

from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import BLOCK_RECORDS
from radiator.model.message import Message, position_of
from radiator.model.reads import LoadedEvents, ReadEvents
from radiator.model.recovery import StoredLog
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    DeclareLog,
    DropLog,
    DropPosition,
    DropSegment,
    KeepPosition,
    KeepSegment,
    KeepSegments,
    KeepSettings,
    Unbind,
    Write,
)
from radiator.storage.check import check
from radiator.storage.codec import blocks, records
from radiator.storage.codec.tables import RECORDS
from tests.storage.breaking import rewrite
from tests.storage.journalist import NOW_MS, Journalist, block, event_of, record


def test_what_is_appended_is_read_from_any_offset(log: Journalist) -> None:
    for count in (1, 3, BLOCK_RECORDS, BLOCK_RECORDS + 1, 1):
        log.append(count)
    total = 2 * BLOCK_RECORDS + 6
    for offset in (0, 1, 3, 4, BLOCK_RECORDS + 3, BLOCK_RECORDS + 4, total - 1, total, total + 1):
        assert log.offsets(offset) == [*range(offset, total)]
    log = log.again()
    loaded = log.load(5, most=2)
    assert (loaded.request, [one.offset for one in loaded.records]) == (7, [5, 6])
    first = loaded.records[0].message
    assert first == Message("/log/l", b"n:5\n", ESCAPING_ALL, b"5" + b"x" * 10, NOW_MS + 5)


def test_partitions_and_logs_do_not_see_each_other(tmp_path: Path, log: Journalist) -> None:
    log.store.commit([DeclareLog(2, "m"), DeclareLog(3, "n")])
    log.append(3, partition=0)
    log.append(4, partition=2)
    assert log.offsets(0, 1) == [] and log.offsets(0, 3) == []
    assert log.offsets(1, 0) == [1, 2] and log.offsets(0, 2) == [0, 1, 2, 3]
    log.log = 2
    assert log.offsets() == []
    log.append(1, partition=1)
    assert log.offsets(0, 1) == [0] and log.offsets() == []


def test_limits_of_a_load_hold_but_for_the_first_record(log: Journalist) -> None:
    log.append(10, size=100)
    size = record(1, 100).size
    for bytes_max, taken in ((0, 1), (size - 1, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
        assert len(log.load(bytes_max=bytes_max).records) == taken, bytes_max
    for most in (1, 9, 10, 11):
        assert len(log.load(most=most).records) == min(most, 10)


def test_start_finds_logs_with_settings_segments_and_positions(tmp_path: Path, log: Journalist) -> None:
    log.store.commit([DeclareLog(2, "ö"), KeepSettings(2, '{"partitions": 2}'), Bind("x", "k", 2)])
    log.append(3)
    log.roll()
    log.append(2)
    log.append(1, partition=1)
    log.store.commit([KeepPosition(1, "g", [4, 0]), KeepPosition(1, "f\0" * 100, [1, 1]), KeepPosition(2, "g", [])])
    log.store.commit([KeepPosition(1, "g", [5, 2**63]), KeepPosition(2, "h" * 255, [0]), DropPosition(2, "g")])
    log = log.again()
    assert log.store.recovery.next_queue == 3
    assert log.store.recovery.bindings == [Bind("x", "k", 2)]
    size = record(0).size
    assert log.store.recovery.logs == [
        StoredLog(
            1,
            "l",
            "",
            [
                KeepSegment(1, 0, 0, 0, 3, 3 * size, NOW_MS, NOW_MS + 2),
                KeepSegment(1, 0, 3, 3, 2, 2 * size, NOW_MS + 3, NOW_MS + 4),
                KeepSegment(1, 1, 0, 0, 1, size, NOW_MS, NOW_MS),
            ],
            [KeepPosition(1, "f\0" * 100, [1, 1]), KeepPosition(1, "g", [5, 2**63])],
        ),
        StoredLog(2, "ö", '{"partitions": 2}', [], [KeepPosition(2, "h" * 255, [0])]),
    ]


def test_deleted_log_is_found_until_its_last_segment_is_gone(tmp_path: Path, log: Journalist) -> None:
    log.append(3)
    log.roll()
    log.append(3)
    log.store.commit([KeepSettings(1, "{}"), KeepPosition(1, "g", [2]), Bind("", "a", 1)])
    log.store.commit([DropLog(1), Unbind("", "a", 1), DeclareLog(2, "l")])
    log = log.again()
    gone, new = log.store.recovery.logs
    assert (gone.name, gone.settings, gone.positions, len(gone.segments)) == ("", "", [], 2)
    assert new == StoredLog(2, "l")
    log.store.commit([DropSegment(1, 0, 0, 3)])
    log.store.commit([DropSegment(1, 0, 3, 6)])
    log = log.again()
    assert log.store.recovery.logs == [StoredLog(2, "l")]
    assert log.offsets() == []


@pytest.mark.parametrize(
    "writes",
    [
        [DeclareLog(1, "again")],
        [Append(9, 0, 0, record(0))],
        [Append(1, 0, 0, record(0))],
        [Append(1, 0, 3, record(0)), Append(1, 0, 5, record(0))],
        [Append(1, 0, 3, record(0)), Append(1, 0, 3, record(0))],
        [Append(1, 0, 3, record(0)), AppendEvent(1, 0, 4, [event_of(1)])],
        [DropLog(2)],
        [DropSegment(1, 0, 1, 3)],
        [DropSegment(1, 1, 0, 3)],
        [KeepPosition(2, "g", [0])],
        [DropPosition(1, "g")],
        [KeepSegments(1, [KeepSegment(2, 0, 0, 0)])],
        [KeepSettings(2, "{}")],
        [Bind("", "a", 2)],
        [Bind("", "a", 1), DropLog(1)],
    ],
)
def test_a_batch_that_contradicts_the_store_is_a_bug_and_leaves_nothing(log: Journalist, writes: list[Write]) -> None:
    log.append(3)
    with pytest.raises(AssertionError):
        log.store.commit([KeepPosition(1, "other", [1]), *writes])
    log = log.again()
    assert log.offsets() == [0, 1, 2]
    assert log.store.recovery.logs[0].positions == []


def test_log_may_be_declared_appended_to_and_dropped_in_one_batch(log: Journalist) -> None:
    rows = KeepSegments(2, [KeepSegment(2, 0, 0, 0, 1, 15, NOW_MS, NOW_MS)])
    log.store.commit([Append(2, 0, 0, record(0)), DeclareLog(2, "m"), rows, DropLog(2)])
    log = log.again()
    assert [(one.number, one.name) for one in log.store.recovery.logs] == [(1, "l"), (2, "")]
    log.store.commit([DropSegment(2, 0, 0, 1)])
    log.store.close()
    assert check(log.path).findings == []


def flipped(value: bytes, at: int) -> bytes:
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


@pytest.mark.parametrize("value", [b"", b"\0", flipped(block(2, 3), 3), flipped(block(2, 3), 60)])
def test_records_of_a_damaged_block_come_without_a_message(log: Journalist, value: bytes) -> None:
    for count in (2, 3, 2):
        log.append(count)
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, 2), value)
    log = Journalist(log.path)
    assert (log.offsets(), log.damaged()) == ([0, 1, 5, 6], [2, 3, 4])
    assert [one.offset for one in log.load().records] == [*range(7)]
    assert (log.offsets(3), log.damaged(3)) == ([5, 6], [3, 4])
    assert [log.damaged(offset, most=1) for offset in (0, 2, 3, 4, 5)] == [[], [2], [3], [4], []]
    log.store.close()
    assert any("block" in sentence or "record" in sentence for sentence in check(log.path).findings)


@pytest.mark.durability("D32")
def test_a_block_that_is_missing_is_told_with_its_log_and_nothing_is_passed_over(log: Journalist) -> None:
    for count in (2, 3, 2):
        log.append(count)
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, 2), None)
    log = Journalist(log.path)
    assert log.offsets(most=2) == [0, 1] and log.offsets(5) == [5, 6]
    for offset in (0, 2, 4):
        with pytest.raises(StoreError, match=r"partition 0 of /log/l has a segment with record \d, and no block"):
            log.load(offset)
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, 5), None)
    log = Journalist(log.path)
    with pytest.raises(StoreError, match="has a segment with record 5, and no block"):
        log.load(5)


@pytest.mark.durability("D32")
def test_records_that_come_twice_are_told_with_their_log(log: Journalist) -> None:
    for count in (2, 3, 2):
        log.append(count)
    log.store.close()
    rewrite(log.path, RECORDS, *blocks.pack(records.record_key(1, 0, 4), [record(4), record(5)]))
    log = Journalist(log.path)
    with pytest.raises(StoreError, match="partition 0 of /log/l has record 4 twice"):
        log.load()


def test_last_block_that_is_damaged_is_known_by_its_segment(log: Journalist) -> None:
    for count in (2, 3):
        log.append(count)
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, 2), b"x" * 100)
    log = Journalist(log.path)
    assert (log.offsets(), log.damaged(), log.damaged(4), log.damaged(5)) == ([0, 1], [2, 3, 4], [4], [])


def test_what_retention_has_taken_is_not_damaged(log: Journalist) -> None:
    for _ in range(2):
        log.append(3)
        log.roll()
    log.append(3)
    log.store.commit([DropSegment(1, 0, 0, 3)])
    assert (log.offsets(), log.damaged()) == ([*range(3, 9)], [])
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, 3), b"x" * 100)
    log = Journalist(log.path)
    assert (log.offsets(1), log.damaged(1)) == ([6, 7, 8], [3, 4, 5])


# ---- searches of the journal ----------------------------------------------------------------------------------------


def searched(
    log: Journalist, *numbers: int, offset: int = 0, end: int = 1 << 40, work_max: int = 1 << 40
) -> LoadedEvents:
    positions = frozenset(position_of(3, number) for number in numbers)
    return log.store.load_events(ReadEvents(7, log.log, offset, end, positions, "", work_max))


def offsets_of(loaded: LoadedEvents) -> list[int]:
    assert all(event == event_of(offset) for offset, event in loaded.events)
    return [offset for offset, _ in loaded.events]


def test_events_are_found_from_any_offset_up_to_any_end(log: Journalist) -> None:
    for count in (1, 3, BLOCK_RECORDS, BLOCK_RECORDS + 1, 1):
        log.add(count)
    total = 2 * BLOCK_RECORDS + 6
    numbers = (0, 2, 3, 4, BLOCK_RECORDS + 3, BLOCK_RECORDS + 4, total - 1)
    for offset in (0, 1, 3, 4, BLOCK_RECORDS + 3, total - 1, total):
        for end in (0, 1, 4, BLOCK_RECORDS + 4, total - 1, total):
            loaded = searched(log, *numbers, offset=offset, end=end)
            assert offsets_of(loaded) == [one for one in numbers if offset <= one < end], (offset, end)
            assert loaded.next == end and loaded.request == 7


def test_what_is_committed_is_found_though_the_tables_do_not_have_it_yet(log: Journalist) -> None:
    log.add(5)
    log.store.catch_up()
    for number in range(5, 9):
        log.add(1)
        assert offsets_of(searched(log, number - 1, number, end=number + 1)) == [number - 1, number]


def test_a_search_of_what_the_tables_have_does_not_bring_them_up_to_date(log: Journalist) -> None:
    """A commit of LMDB for each of its slices would keep the disk from others."""
    log.add(5)
    log.store.catch_up()
    log.add(1)
    unapplied = log.store._follower.unapplied_bytes
    assert offsets_of(searched(log, 3, end=5)) == [3] and log.store._follower.unapplied_bytes == unapplied > 0
    assert offsets_of(searched(log, 5, end=6)) == [5] and log.store._follower.unapplied_bytes == 0


def test_slices_have_each_event_once_and_end_between_two_blocks(log: Journalist) -> None:
    for _ in range(20):
        log.add(7)
    for work_max in (0, 1, 20_000, 300_000):
        offset, slices, found = 0, 0, []
        while offset < 140:
            loaded = searched(log, *range(0, 140, 3), offset=offset, end=140, work_max=work_max)
            found += offsets_of(loaded)
            assert loaded.next > offset and loaded.next % 7 == 0
            offset, slices = loaded.next, slices + 1
        assert found == [*range(0, 140, 3)] and slices <= 20
        assert slices == 20 if work_max < 2 else slices < 20 or work_max < 300_000


def test_a_search_passes_over_what_retention_has_removed(log: Journalist) -> None:
    log.add(4)
    log.roll()
    log.add(4)
    assert offsets_of(searched(log, 1, 5, end=8)) == [1, 5]
    log.store.commit([DropSegment(1, 0, 0, 4)])
    assert offsets_of(searched(log, 1, 5, offset=4, end=8)) == [5]
    log.store.catch_up()
    loaded = searched(log, 1, 5, end=8)
    assert offsets_of(loaded) == [5] and loaded.next == 8


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_search_passes_over_a_damaged_block_wherever_it_is(log: Journalist, at: int) -> None:
    for _ in range(3):
        log.add(2)
    log.store.close()
    rewrite(log.path, RECORDS, records.record_key(1, 0, at), b"\xff" * 40)
    log = Journalist(log.path)
    log.add(1)  # which only the write-ahead log has
    loaded = searched(log, *range(7), end=7)
    assert offsets_of(loaded) == [one for one in range(7) if one not in (at, at + 1)] and loaded.next == 7


def test_a_search_of_a_log_that_is_not_there_is_over(log: Journalist) -> None:
    log.log = 9
    assert searched(log, 1, end=5) == LoadedEvents(7, [], 5)
