"""Blocks: how many records one has, and that damage of it is found."""

import pytest

from radiator.model.errors import DamagedRecord
from radiator.model.limits import BLOCK_BYTES, BLOCK_RECORDS
from radiator.model.writes import (
    Append,
    DropSegment,
    KeepSegment,
    KeepSegments,
)
from radiator.storage.check import check
from radiator.storage.codec import blocks, records
from radiator.storage.codec.tables import RECORDS
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import rewrite
from tests.storage.journalist import Journalist, block, event_of, record
from tests.storage.scribe import MAP_BYTES

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


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


def flipped(value: bytes, at: int) -> bytes:
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


def finding(log: Journalist) -> str:
    log.store.close()
    [found] = check(log.path).findings
    return found


def put_back(log: Journalist, table: bytes, key: bytes, value: bytes | None) -> None:
    log.store.close()
    rewrite(log.path, table, key, value)
    log.store = open_store(log.path, MAP_BYTES)


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
        b"\2\1\0\1" + bytes(5),
        b"\3\1\0\1" + bytes(5),
        b"\2\1\0\0",
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


def test_a_block_has_the_version_of_the_columns_that_it_needs() -> None:
    key = records.record_key(1, 0, 0)
    events = [event_of(0), event_of(1)]
    traced = [events[0], events[1]._replace(traceparent=TRACEPARENT)]
    named = [events[0]._replace(correlation_id="c"), events[1]]
    both = [events[0]._replace(correlation_id="c"), traced[1]]
    for written, version in ((events, 1), (traced, 2), (named, 3), (both, 3)):
        _, value = blocks.pack(key, written)
        assert value[0] == version and blocks.records_in(key, value) == written
    for value, version in ((block(0, 1), 2), (block(0, 1), 3), (blocks.pack(key, events)[1], 4)):
        other = records.seal(key, bytes([version]) + value[1:-4])
        with pytest.raises(DamagedRecord, match=f"has version {version}; this program reads version 1"):
            blocks.records_in(key, other)


@pytest.mark.durability("D11")
def test_flipped_bits_of_a_block_are_found_wherever_they_are(log: Journalist) -> None:
    key = records.record_key(1, 0, 0)
    events = [event_of(0), event_of(1)]
    traced = [events[0], events[1]._replace(traceparent=TRACEPARENT)]
    named = [events[0]._replace(correlation_id="c"), traced[1]]
    for value in (block(0, 3), *(blocks.pack(key, run)[1] for run in (events, traced, named))):
        for bit in range(0, len(value) * 8, 7):
            with pytest.raises(DamagedRecord):
                blocks.records_in(key, flipped(value, bit // 8))
            with pytest.raises(DamagedRecord):
                blocks.records_in(records.record_key(1, 0, 1), value)
