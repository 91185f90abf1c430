"""Logs in LmdbStore: blocks, segments, positions, over several boots; what is damaged is passed over and told."""

from pathlib import Path

import pytest

from radiator.model.commands import LoadedLog
from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import ACCEPTED, ACKED, EVENTS, JournalEvent, as_json
from radiator.model.limits import BLOCK_BYTES, BLOCK_RECORDS, EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.model.reads import ReadLog
from radiator.model.recovery import StoredLog
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Declare,
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
from radiator.storage import check_logs
from radiator.storage.check import check
from radiator.storage.codec import blocks, events, records
from radiator.storage.codec.tables import LOGS, POSITIONS, RECORDS, SEGMENTS
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.storage.lmdb.test_store import rewrite
from tests.storage.scribe import DELAYED, MAP_BYTES, filled

NOW_MS = 1_800_000_000_000


def record(number: int, size: int = 10) -> Message:
    return Message("/log/l", b"n:%d\n" % number, ESCAPING_ALL, b"%d" % number + b"x" * size, NOW_MS + number)


def told(number: int) -> JournalEvent:
    return JournalEvent(EVENTS[number % 14], NOW_MS + number, "orders", position_of(3, number), "1/a", 0, 200)


class Journalist:
    """Appends to one log as the broker does: with the segment's books."""

    def __init__(self, path: Path, log: int = 1, name: str = "l") -> None:
        self.path = path
        self.log = log
        self.store: LmdbStore = open_store(path, MAP_BYTES)
        if not self.store.recovery.logs:
            self.store.commit([DeclareLog(log, name)])
        self.segments = {(row.log, row.partition): row for one in self.store.recovery.logs for row in one.segments}

    def append(self, count: int, partition: int = 0, size: int = 10) -> None:
        """One batch."""
        row = self.segments.setdefault((self.log, partition), KeepSegment(self.log, partition, 0, 0))
        writes: list[Write] = []
        for _ in range(count):
            message = record(row.first + row.count, size)
            writes.append(Append(self.log, partition, row.first + row.count, message))
            self._book(row, message.size, message.accepted_ms)
        self.store.commit([*writes, KeepSegments(self.log, [row])])

    def tell(self, count: int) -> None:
        row = self.segments.setdefault((self.log, 0), KeepSegment(self.log, 0, 0, 0))
        first = row.first + row.count
        rows = [told(first + nth) for nth in range(count)]
        for one in rows:
            self._book(row, EVENT_BYTES, one.ms)
        self.store.commit([AppendEvent(self.log, 0, first, rows), KeepSegments(self.log, [row])])

    def roll(self, partition: int = 0) -> None:
        """The next batch begins a new segment."""
        row = self.segments[self.log, partition]
        end = row.first + row.count
        self.segments[self.log, partition] = KeepSegment(self.log, partition, end, end)

    def _book(self, row: KeepSegment, size: int, ms: int) -> None:
        row.first_ms = row.first_ms if row.count else ms
        row.last_ms = ms
        row.count += 1
        row.size += size

    def load(self, offset: int = 0, partition: int = 0, most: int = 10_000, bytes_max: int = 1 << 30) -> LoadedLog:
        return self.store.load_log(ReadLog(7, self.log, partition, offset, most, bytes_max))

    def offsets(self, offset: int = 0, partition: int = 0, most: int = 10_000) -> list[int]:
        loaded = self.load(offset, partition, most)
        return [one.offset for one in loaded.records if one.message is not None]

    def damaged(self, offset: int = 0, most: int = 10_000) -> list[int]:
        return [one.offset for one in self.load(offset, most=most).records if one.message is None]

    def again(self) -> "Journalist":
        """The next start."""
        self.store.close()
        return Journalist(self.path, self.log)


@pytest.fixture
def log(tmp_path: Path) -> Journalist:
    return Journalist(tmp_path / "data")


# ---- append and load ----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("count", [1, BLOCK_RECORDS - 1, BLOCK_RECORDS, BLOCK_RECORDS + 1, 2 * BLOCK_RECORDS])
def test_blocks_have_at_most_so_many_records(count: int) -> None:
    stretches = [*blocks.cut(5, [record(nth) for nth in range(count)], set())]
    assert [(first, len(run)) for first, run in stretches] == [
        (5 + at, min(BLOCK_RECORDS, count - at)) for at in range(0, count, BLOCK_RECORDS)
    ]


def test_blocks_have_at_most_so_many_bytes_but_one_record_may_have_more() -> None:
    half, whole = record(0, BLOCK_BYTES // 2 - 5), record(0, BLOCK_BYTES - 5)
    assert (half.size, whole.size) == (BLOCK_BYTES // 2, BLOCK_BYTES)
    more = record(0, BLOCK_BYTES + 1)
    run = [half, half, half, whole, more, half, record(0, BLOCK_BYTES // 2 - 4)]
    assert [len(entries) for _, entries in blocks.cut(0, run, set())] == [2, 1, 1, 1, 1, 1]


def test_a_block_never_lies_in_two_segments(log: Journalist) -> None:
    old, new = KeepSegment(1, 0, 0, 0, 3, 9), KeepSegment(1, 0, 3, 3, 4, 12)
    log.store.commit([*(Append(1, 0, nth, record(nth)) for nth in range(7)), KeepSegments(1, [old, new])])
    assert log.offsets() == [*range(7)]
    log.store.commit([DropSegment(1, 0, 0, 3)])
    assert log.offsets() == [3, 4, 5, 6]


def test_events_are_read_as_the_json_of_the_journal(tmp_path: Path) -> None:
    journal = Journalist(tmp_path / "data", name="journal")
    journal.tell(1)
    journal.tell(BLOCK_RECORDS + 20)
    for offset in (0, 1, 2, BLOCK_RECORDS, BLOCK_RECORDS + 1, BLOCK_RECORDS + 20):
        found = journal.load(offset, most=3).records
        assert [one.offset for one in found] == [*range(offset, min(offset + 3, BLOCK_RECORDS + 21))]
        for one in found:
            assert one.message == Message(
                "/log/journal",
                b"content-type:application/json\n",
                ESCAPING_ALL,
                as_json(told(one.offset), one.offset, journal.store.recovery.store_id),
                NOW_MS + one.offset,
            )


# ---- events -------------------------------------------------------------------------------------------------------

LARGEST = JournalEvent(
    ACCEPTED, 2**63, "ö" * 127, position_of(2**32 - 1, 2**64 - 1), "c" * 64, 2**31, 2**40, position_of(1, 0), "q" * 255,
    "r" * 64, "/exchange/" + "x" * 520, 2**60,
)  # fmt: skip


@pytest.mark.parametrize(
    "run",
    [
        [JournalEvent(ACKED, 0, "", 0)],
        [LARGEST],
        [
            JournalEvent(ACKED, 5, "q", 1),
            LARGEST,
            JournalEvent(ACKED, 2**63, "q", 2, "", 255),
            JournalEvent(ACCEPTED, 1, "", 3, "", 256),
        ],
        [
            JournalEvent(EVENTS[nth % 16], 9, f"q{nth}", nth, f"c{nth}", 65_535 + nth, 2**32 - 2 + nth)
            for nth in range(256)
        ],
    ],
)
def test_events_come_back_as_they_were_told(run: list[JournalEvent]) -> None:
    block = events.pack(run)
    assert events.unpack(block, len(run)) == run
    for count in (len(run) - 1, len(run) + 1):
        with pytest.raises(ValueError):
            events.unpack(block, count)
    for cut in (0, 1, len(block) - 1):
        with pytest.raises(ValueError):
            events.unpack(block[:cut], len(run))
    with pytest.raises(ValueError):
        events.unpack(block + b"\0", len(run))


def test_an_event_takes_about_what_it_counts_for() -> None:
    run = [
        JournalEvent(
            EVENTS[nth % 3], NOW_MS + nth // 9, f"orders.{nth % 4}", position_of(7, nth), f"{nth % 16}/sub", 0, 200
        )
        for nth in range(256)
    ]
    assert len(events.pack(run)) < 256 * EVENT_BYTES


# ---- what a start finds -------------------------------------------------------------------------------------------


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
        [Append(1, 0, 3, record(0)), AppendEvent(1, 0, 4, [told(1)])],
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


# ---- damage -------------------------------------------------------------------------------------------------------


def flipped(value: bytes, at: int) -> bytes:
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


def block(first: int, count: int) -> bytes:
    key = records.record_key(1, 0, first)
    return blocks.pack(key, [record(first + nth) for nth in range(count)])[1]


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


def segment_row(segment: KeepSegment) -> tuple[bytes, bytes]:
    key = records.record_key(segment.log, segment.partition, segment.first)
    return key, records.encode_segment(key, segment)


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


# ---- what check finds ---------------------------------------------------------------------------------------------


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
        f"Segment 0 of partition 0 of log 1 has 7 records of {7 * size + 1} bytes; its books say 7 of {7 * size} bytes."
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
        f"Segment 0 of partition 0 of log 1 has 3 records of {3 * size} bytes; its books say 4 of {3 * size} bytes."
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


@pytest.mark.parametrize(
    "content",
    [
        b"\1\2\0\1",  # of no kind
        b"\1\0\0\0",  # of none
        b"\1\0\0\1",  # without lengths
        b"\1\0\0\1" + (23).to_bytes(4, "big") + bytes(22),
        b"\1\0\0\1" + (23).to_bytes(4, "big") + bytes(24),
        b"\1\0\0\1" + (22).to_bytes(4, "big") + bytes(22),
        b"\1\0\0\1" + (23).to_bytes(4, "big") + b"\3" + bytes(22),
        b"\1\0\0\1" + (23).to_bytes(4, "big") + b"\0\0\1" + bytes(20),
        b"\1\1\0\1" + bytes(5),
    ],
)
def test_block_of_impossible_numbers_is_damaged(log: Journalist, content: bytes) -> None:
    log.append(1)
    key = records.record_key(1, 0, 0)
    value = records.seal(key, content)
    with pytest.raises(DamagedRecord, match="impossible"):
        blocks.records_in(key, value)
    put_back(log, RECORDS, key, value)
    assert log.damaged() == [0]
    assert "impossible" in finding(log)


@pytest.mark.durability("D11")
def test_flipped_bits_of_a_block_are_found_wherever_they_are(log: Journalist) -> None:
    key = records.record_key(1, 0, 0)
    for value in (block(0, 3), blocks.pack(key, [told(0), told(1)])[1]):
        for bit in range(0, len(value) * 8, 7):
            with pytest.raises(DamagedRecord):
                blocks.records_in(key, flipped(value, bit // 8))
            with pytest.raises(DamagedRecord):
                blocks.records_in(records.record_key(1, 0, 1), value)


# ---- what tools read ----------------------------------------------------------------------------------------------


def test_reader_gives_logs_and_their_blocks(log: Journalist) -> None:
    for count in (2, 3, 2):
        log.append(count)
    log.append(1, partition=1)
    recovered = log.again().store
    recovered.close()
    with Reader(log.path) as reader, reader.snapshot() as snapshot:
        assert snapshot.store_id() == recovered.recovery.store_id
        assert snapshot.logs() == recovered.recovery.logs
        for offset, firsts in ((0, [0, 2, 5]), (1, [0, 2, 5]), (2, [2, 5]), (4, [2, 5]), (5, [5]), (6, [5]), (9, [5])):
            assert [first for first, _, _ in snapshot.blocks(1, 0, offset)] == firsts, offset
        assert [blocks.count_of(value) for _, _, value in snapshot.blocks(1, 0)] == [2, 3, 2]
        [(first, key, value)] = snapshot.blocks(1, 1, 5)
        assert (first, blocks.records_in(key, value)) == (0, [record(0)])
        assert [*snapshot.blocks(1, 2)] == [*snapshot.blocks(0, 0)] == [*snapshot.blocks(2, 0, 9)] == []


def test_reader_finds_a_position_in_a_block_without_decoding_it(tmp_path: Path) -> None:
    journal = Journalist(tmp_path / "data", name="journal")
    journal.tell(3)
    journal.tell(BLOCK_RECORDS + 5)
    journal.store.close()
    sought = position_of(3, 4).to_bytes(events.POSITION_BYTES, "big")
    with Reader(journal.path) as reader, reader.snapshot() as snapshot:
        [(first, key, value)] = [row for row in snapshot.blocks(1, 0) if sought in row[2]]
        assert blocks.events_in(key, value)[4 - first] == told(4)


def test_reader_gives_what_is_stored_in_queues(tmp_path: Path) -> None:
    messages, names = filled(tmp_path / "data")
    with Reader(tmp_path / "data") as reader, reader.snapshot() as snapshot:
        stored = [*snapshot.stored()]
        assert len(stored) == len(messages) + DELAYED
        assert {*messages} < {*stored}
        assert [*snapshot.queues().values()] == names[:2]


def test_reader_of_an_earlier_format_finds_no_logs() -> None:
    with Reader(Path(__file__).parents[1] / "formats" / "format-3.mdb") as reader, reader.snapshot() as snapshot:
        assert (snapshot.logs(), [*snapshot.blocks(1, 0)]) == ([], [])
