"""What `check` says of logs: sound ones have no findings, and each kind of damage has one."""

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import BLOCK_RECORDS
from radiator.model.writes import (
    Declare,
    DeclareLog,
    DropSegment,
    KeepPosition,
    KeepSegment,
    KeepSegments,
)
from radiator.storage import check_logs
from radiator.storage.check import check
from radiator.storage.codec import blocks, records
from radiator.storage.codec.tables import LOGS, POSITIONS, RECORDS, SEGMENTS
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import rewrite
from tests.storage.journalist import Journalist, record
from tests.storage.scribe import MAP_BYTES


def segment_row(segment: KeepSegment) -> tuple[bytes, bytes]:
    key = records.record_key(segment.log, segment.partition, segment.first)
    return key, records.encode_segment(key, segment)


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        (SEGMENTS, records.record_key(1, 0, 0), b"x" * 45),
        (SEGMENTS, *segment_row(KeepSegment(1, 0, 9, 9))),
        (SEGMENTS, *segment_row(KeepSegment(1, 0, 0, 4, 3))),
        (POSITIONS, records.group_key(1, "g"), b"x" * 15),
        (POSITIONS, records.group_key(8, "g"), records.encode_position(records.group_key(8, "g"), [1])),
        (LOGS, records.log_key(1), b""),
        (LOGS, records.log_key(1), None),
    ],
)  # fmt: skip
def test_start_refuses_damaged_books_and_check_says_what_they_are(
    log: Journalist, table: bytes, key: bytes, value: bytes | None
) -> None:
    log.append(3)
    log.store.commit([KeepPosition(1, "g", [2])])
    log.store.close()
    assert check(log.path).findings == []
    rewrite(log.path, table, key, value)
    assert check(log.path).findings
    with pytest.raises(StoreError, match="radiator check"):
        open_store(log.path, MAP_BYTES)


def finding(log: Journalist) -> str:
    log.store.close()
    [found] = check(log.path).findings
    return found


def put_back(log: Journalist, table: bytes, key: bytes, value: bytes | None) -> None:
    log.store.close()
    rewrite(log.path, table, key, value)
    log.store = open_store(log.path, MAP_BYTES)


@pytest.mark.parametrize("slice_records", [1, 4, 10_000])
def test_check_finds_nothing_in_sound_logs(
    log: Journalist, monkeypatch: pytest.MonkeyPatch, slice_records: int
) -> None:
    monkeypatch.setattr(check_logs, "CHECK_SLICE_RECORDS", slice_records)
    for partition in (0, 1, 5):
        for count in (3, 1, BLOCK_RECORDS + 1):
            log.append(count, partition)
            log.roll(partition)
    log.store.commit([KeepSegments(1, [KeepSegment(1, 1, BLOCK_RECORDS + 5, BLOCK_RECORDS + 5)])])
    log.store.commit([KeepPosition(1, "g", [BLOCK_RECORDS + 5, 0, 0, 7])])
    log.store.commit([DropSegment(1, 5, 0, 3)])
    log.store.close()
    report = check(log.path)
    assert (report.findings, report.logs, report.records) == ([], 1, 3 * (BLOCK_RECORDS + 5) - 3)


def test_check_finds_missing_and_superfluous_records(log: Journalist) -> None:
    for count in (2, 3, 2):
        log.append(count)
    size = record(0).size
    key = records.record_key(1, 0, 2)
    put_back(log, RECORDS, key, None)
    assert finding(log) == "Segment 0 of partition 0 of log 1 has no records 2 to 4, or has some twice."
    log.store = open_store(log.path, MAP_BYTES)
    put_back(log, RECORDS, key, blocks.pack(key, [record(2), record(3), record(4), record(5)])[1])
    assert finding(log) == "Segment 0 of partition 0 of log 1 has no records 6 to 4, or has some twice."
    log.store = open_store(log.path, MAP_BYTES)
    put_back(log, RECORDS, key, blocks.pack(key, [record(2), record(3), record(4, 11)])[1])
    assert finding(log) == (
        f"Segment 0 of partition 0 of log 1 has 7 records of {7 * size + 1} bytes; its row says 7 of {7 * size} bytes."
    )


@pytest.mark.parametrize("place", [(1, 0, 7), (1, 1, 0), (9, 0, 0)])
def test_check_finds_blocks_that_no_segment_has(log: Journalist, place: tuple[int, int, int]) -> None:
    log.append(7)
    key = records.record_key(*place)
    put_back(log, RECORDS, key, blocks.pack(key, [record(0)])[1])
    assert finding(log) == f"The block under key {key.hex()} has 1 records that no segment has."


def test_check_finds_a_block_of_a_segment_that_has_none(log: Journalist) -> None:
    log.append(7)
    log.roll()
    log.store.commit([KeepSegments(1, [KeepSegment(1, 0, 7, 7)])])
    key = records.record_key(1, 0, 7)
    put_back(log, RECORDS, key, blocks.pack(key, [record(0)])[1])
    assert "has 1 records that no segment has" in finding(log)


def test_check_finds_books_that_say_more(log: Journalist) -> None:
    log.append(3)
    size = record(0).size
    log.store.commit([KeepSegments(1, [KeepSegment(1, 0, 0, 0, 4, 3 * size)])])
    assert finding(log) == (
        f"Segment 0 of partition 0 of log 1 has 3 records of {3 * size} bytes; its row says 4 of {3 * size} bytes."
    )


def test_check_finds_a_position_behind_the_end(log: Journalist) -> None:
    log.append(3)
    log.append(2, partition=1)
    log.store.commit([KeepPosition(1, "g", [3, 3])])
    assert finding(log) == "The position of group 'g' in log 1 is 3 in partition 1, which ends at 2."


def test_check_finds_two_logs_of_one_name_and_a_number_of_both(log: Journalist) -> None:
    log.store.commit([DeclareLog(2, "m"), Declare(3, "q")])
    key = records.log_key(2)
    put_back(log, LOGS, key, records.encode_text(key, "l"))
    assert finding(log) == "Logs 1 and 2 have one name, 'l'."
    log.store = open_store(log.path, MAP_BYTES)
    put_back(log, LOGS, key, records.encode_text(key, "m"))
    key = records.log_key(3)
    put_back(log, LOGS, key, records.encode_text(key, "n"))
    assert finding(log) == "Number 3 is that of a queue and of a log."
