"""What logs let go of, and when."""

import zlib

import pytest

from radiator.model.commands import OFFSET, Read, Tick
from radiator.model.limits import GIB, SEGMENT_RECORDS
from radiator.model.settings import Declarations, LogSettings
from radiator.model.writes import DropSegment, Write
from tests.core.logs.reading import append, node_of, places, read
from tests.core.node import Node
from tests.core.words import send


def aged(node: Node, log: str = "l") -> list[int]:
    return [partition.first for partition in node.broker.destinations.logs.all[log].partitions]


def test_what_is_too_old_goes_in_stretches() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    for number in range(20):
        append(node, b"%d" % number)
        node.wait(1)
    first = aged(node)[0]
    assert 10 <= first <= 12  # younger than 8 s, and at most one segment more
    node.say(read(2))
    assert [m.message.body for m in node.messages(2)] == [b"%d" % n for n in range(first, 20)]
    assert node.disk.platter.records[1, 0].keys() == set(range(first, 20))
    node.say(read(3, start=(OFFSET, first - 1)))
    assert node.refusal(3).code == "no-such-offset"


def test_a_log_that_nobody_appends_to_is_empty_in_the_end_and_its_offsets_go_on() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.wait(8.1)
    node.wait(1)
    assert aged(node) == [3] and not node.disk.platter.records[1, 0]
    again = node.crashed()
    again.open(1, 2)
    append(again, b"3")
    again.say(read(2))
    assert places(again.messages(2)) == [(0, 3)]


def test_what_is_too_much_goes() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None, retention_bytes=8000)}))
    append(node, *[b"x" * 100] * 200)
    node.wait(1)
    node.wait(1)
    log = node.broker.destinations.logs.all["l"]
    assert 7000 <= log.size <= 8000 and log.records * 100 == log.size
    assert sum(m.size for m in node.disk.platter.records[1, 0].values()) == log.size  # type: ignore[union-attr]


def test_of_several_partitions_the_oldest_segment_goes() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=2, retention_ms=None, retention_bytes=3200)}))
    zero = next(b"%d" % n for n in range(9) if zlib.crc32(b"%d" % n) % 2 == 0)
    one = next(b"%d" % n for n in range(9) if zlib.crc32(b"%d" % n) % 2 == 1)
    append(node, *[b"x" * 100] * 16, key=zero)
    node.wait(1)
    append(node, *[b"x" * 100] * 40, key=one)
    node.wait(1)
    assert aged(node) == [14, 10] or aged(node)[0] >= 14, aged(node)


def test_nothing_goes_without_retention() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None)}))
    append(node, *[b"x" * 1000] * 100)
    node.wait(10**7)
    assert aged(node) == [0]


def test_segments_go_so_many_records_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.retention.SEGMENT_RECORDS", 4)
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    for _ in range(8):
        append(node, b"x")
        node.wait(0.9)
    drops: list[int] = []
    commit_them = node.disk.commit

    def counted(writes: list[Write]) -> None:
        drops.append(sum(isinstance(write, DropSegment) for write in writes))
        commit_them(writes)

    node.disk.commit = counted  # type: ignore[method-assign]
    node.wait(100)
    assert max(drops) == 1 and sum(drops) > 1 and not node.disk.platter.records[1, 0]


def test_as_many_small_segments_go_as_come() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_bytes=1)}), auto=False)
    for _ in range(40):
        node.turn([Read(1, [send(1, "/log/l", b"x") for _ in range(100)]), Tick(GIB, 0)])
        if node.seal():
            node.commit()
    # one a batch would leave nearly all of 4000
    assert 0 < len(node.disk.platter.segments) <= 300 and not node.broker.destinations.logs.retention.dropping


def test_a_segment_has_so_many_records_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.log.SEGMENT_RECORDS", 10)
    node = node_of()
    append(node, *[b"x"] * 25)
    segments = node.broker.destinations.logs.all["l"].partitions[0].segments
    assert [(s.first, s.count) for s in segments] == [(0, 10), (10, 10), (20, 5)]
    assert SEGMENT_RECORDS > 10
