"""What a batch appends to logs, as blocks in the order of their keys."""

import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import JournalEvent
from radiator.model.limits import BLOCK_RECORDS
from radiator.model.message import Message, position_of
from radiator.model.writes import Append, AppendEvent, KeepSegment, KeepSegments
from radiator.storage.codec.appends import appended
from radiator.storage.codec.blocks import records_in
from radiator.storage.codec.operations import Row
from radiator.storage.codec.records import split_record_key


def message(number: int) -> Message:
    return Message("/log/l", b"", ESCAPING_ALL, b"%d" % number, 1)


def appends(log: int, partition: int, first: int, end: int) -> list[Append | AppendEvent]:
    return [Append(log, partition, number, message(number)) for number in range(first, end)]


def bodies(rows: list[Row]) -> dict[tuple[int, int, int], list[bytes]]:
    found = {}
    for key, value in rows:
        block = records_in(key, value)
        found[split_record_key(key)] = [one.body for one in block if isinstance(one, Message)]
    return found


def test_nothing_is_no_row() -> None:
    assert appended([], []) == []


def test_each_partition_has_its_blocks_in_the_order_of_their_keys() -> None:
    rows = appended([*appends(2, 0, 5, 7), *appends(1, 1, 0, 1), *appends(1, 0, 9, 10)], [])
    assert [*bodies(rows)] == sorted(bodies(rows)) == [(1, 0, 9), (1, 1, 0), (2, 0, 5)]
    assert bodies(rows)[2, 0, 5] == [b"5", b"6"]


@pytest.mark.parametrize(("count", "blocks"), [(BLOCK_RECORDS, 1), (BLOCK_RECORDS + 1, 2)])
def test_a_block_is_full_at_its_bound(count: int, blocks: int) -> None:
    assert len(appended(appends(1, 0, 0, count), [])) == blocks


def test_a_segment_that_begins_in_the_batch_begins_a_block() -> None:
    begins = KeepSegments(1, [KeepSegment(1, 0, 3, 3), KeepSegment(1, 1, 1, 1)])
    rows = appended([*appends(1, 0, 0, 5), *appends(1, 1, 0, 1)], [begins])
    assert [*bodies(rows)] == [(1, 0, 0), (1, 0, 3), (1, 1, 0)]


@pytest.mark.parametrize("offset", [1, 3])
def test_an_offset_that_does_not_follow_is_a_bug(offset: int) -> None:
    with pytest.raises(AssertionError, match=f"goes on with offset {offset} instead of 2"):
        appended([*appends(1, 0, 0, 2), Append(1, 0, offset, message(9))], [])


def test_a_partition_has_messages_or_events() -> None:
    event = JournalEvent("acked", 1, "q", position_of(1, 1))
    assert len(appended([AppendEvent(1, 0, 0, [event]), AppendEvent(1, 0, 1, [event])], [])) == 1
    with pytest.raises(AssertionError, match="both messages and events"):
        appended([AppendEvent(1, 0, 0, [event]), Append(1, 0, 1, message(1))], [])
