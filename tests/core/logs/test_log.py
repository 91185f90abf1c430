"""A log by itself: its segments, the records that it keeps in memory, what is let go of, and who waits for more."""

from random import Random
from typing import Any

import pytest

from radiator.core.logs import log as module
from radiator.core.logs.log import Log
from radiator.model.commands import CLIENT_INDIVIDUAL, EARLIEST, OFFSET
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import LOAD_BYTES
from radiator.model.message import Message
from radiator.model.replies import RecordPlace
from radiator.model.settings import Declarations, LogSettings
from radiator.model.writes import Append, DropSegment, KeepSegment, KeepSegments
from tests.core.node import Node
from tests.core.words import ack, send, subscribe

START_MS = 1_700_000_000_000


def node_of(**settings: Any) -> Node:
    node = Node(Declarations(logs={"l": LogSettings(**settings)}, create_queues=True))
    node.open(1, 2, 3)
    return node


def log_of(node: Node) -> Log:
    return node.broker.destinations.logs.all["l"]


def append(node: Node, *bodies: bytes) -> None:
    node.say(*(send(1, "/log/l", body) for body in bodies))


def read(connection: int, **more: Any) -> Any:
    return subscribe(connection, "/log/l", more.pop("ack", "auto"), start=more.pop("start", (EARLIEST, 0)), **more)


def segments(node: Node, partition: int = 0) -> list[tuple[int, int, int]]:
    """first, begin and count of each that is on the disk."""
    rows = node.disk.platter.segments.get((log_of(node).number, partition), {})
    return [(row.first, row.begin, row.count) for _, row in sorted(rows.items())]


# ---- segments


def test_a_segment_has_the_books_of_its_records() -> None:
    node = node_of()
    append(node, b"abc")
    node.wait(2)
    node.now_ms -= 5000
    append(node, b"de")
    (segment,) = log_of(node).partitions[0].segments
    assert segment == KeepSegment(1, 0, 0, 0, 2, 5, START_MS - 3000, START_MS)
    assert segment == node.disk.platter.segments[1, 0][0]


def test_a_batch_writes_each_segment_that_it_touches_once() -> None:
    node = node_of(partitions=3)
    node.auto = False
    append(node, *[b"x"] * 9)
    assert node.seal() and node.being_committed is not None
    writes = node.being_committed.writes
    assert [type(write) for write in writes[-1:]] == [KeepSegments]
    assert sum(isinstance(write, Append) for write in writes) == 9
    (kept,) = [write for write in writes if isinstance(write, KeepSegments)]
    assert sorted((row.partition, row.count) for row in kept.segments) == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({"retention_bytes": 80 * 8}, [8, 8, 8, 1]),
        ({"retention_bytes": 80 * 8 - 1}, [7, 7, 7, 4]),
        ({"retention_bytes": 1}, [1] * 25),
        ({"retention_bytes": None}, [25]),
    ],
)
def test_a_log_of_few_bytes_has_small_segments(settings: dict[str, Any], counts: list[int]) -> None:
    node = node_of(retention_ms=None, **settings)
    append(node, *[b"x" * 10] * 25)
    assert [segment.count for segment in log_of(node).partitions[0].segments] == counts


def test_a_log_that_is_kept_shortly_has_short_segments() -> None:
    node = node_of(retention_ms=80_000)
    for _ in range(25):
        append(node, b"x")
        node.now_ms += 1000
    assert [segment.count for segment in log_of(node).partitions[0].segments] == [11, 11, 3]


# ---- what is let go of: a checkout's log


def test_what_is_let_go_of_is_gone_for_readers_over_a_crash_and_then_from_the_disk() -> None:
    node = node_of(retention_ms=None)
    log_of(node).segment_bytes = 4
    append(node, *[b"%d" % n for n in range(10)])
    assert segments(node) == [(0, 0, 4), (4, 4, 4), (8, 8, 2)]
    node.auto = False
    log_of(node).let_go(6)
    assert log_of(node).partitions[0].first == 6
    node.wait(1)  # the batch that says so is not on the disk yet: nothing of it goes with the same one
    node.seal()
    assert node.being_committed is not None and not any(
        isinstance(write, DropSegment) for write in node.being_committed.writes
    )
    node.commit()
    assert segments(node) == [(0, 4, 4), (4, 6, 4), (8, 8, 2)]
    again = node.crashed()
    again.open(1, 2, 3)
    assert log_of(again).partitions[0].first == 6
    again.say(read(2))
    assert again.bodies(2) == [b"6", b"7", b"8", b"9"]
    again.say(read(3, start=(OFFSET, 5)))
    assert again.refusal(3).code == "no-such-offset"
    again.wait(1)
    assert segments(again) == [(4, 6, 4), (8, 8, 2)]


def test_when_all_is_let_go_of_the_offsets_go_on() -> None:
    node = node_of(retention_ms=None)
    append(node, b"0", b"1", b"2")
    log_of(node).let_go(3)
    log_of(node).let_go(2)  # is no step back
    node.turn([])
    assert log_of(node).partitions[0].first == 3 and log_of(node).records == 0
    node.wait(1)
    node.wait(1)
    assert segments(node) == [(3, 3, 0)] and not node.disk.platter.records[1, 0]
    again = node.crashed()
    again.open(1, 2)
    append(again, b"3")
    again.say(read(2))
    assert again.message(2).log == RecordPlace(0, 3)


# ---- the tail


def tail(node: Node) -> list[bytes]:
    return [message.body for message in log_of(node).partitions[0].tail]


def test_nothing_is_kept_in_memory_where_nobody_reads() -> None:
    node = node_of()
    append(node, b"0")
    assert tail(node) == []
    node.say(read(2))
    append(node, b"1", b"2")
    assert tail(node) == [b"1", b"2"]
    node.close(2)
    assert tail(node) == [] and node.broker.destinations.readers.memory_bytes == 0


def test_the_tail_has_the_last_records_only_and_each_reader_gets_all() -> None:
    node = node_of()
    node.say(read(2), read(3, ack=CLIENT_INDIVIDUAL, prefetch_count=1))
    body = b"x" * 10_000
    append(node, *[body] * 300)
    partition, readers = log_of(node).partitions[0], node.broker.destinations.readers
    assert partition.tail_bytes <= LOAD_BYTES and 40 < len(partition.tail) < 110
    assert partition.tail_first + len(partition.tail) == 300
    assert readers.tails_bytes == partition.tail_bytes == sum(message.size + 256 for message in partition.tail)
    assert len(node.messages(2)) == 300
    got = 0
    while replies := node.messages(3):
        got += 1
        node.say(ack(replies[0]))
    assert got == 300


def test_a_large_record_is_in_no_tail_and_read_all_the_same() -> None:
    node = node_of()
    node.say(read(2))
    append(node, b"small", b"x" * LOAD_BYTES, b"small too", b"y")
    assert [len(body) for body in node.bodies(2)] == [5, LOAD_BYTES, 9, 1]
    assert tail(node) == [b"small too", b"y"]


@pytest.mark.parametrize("seed", range(5))
def test_all_tails_together_are_bounded_and_have_no_gap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAIL_BYTES", 4000)
    node, random = node_of(partitions=3), Random(seed)
    node.say(read(2), read(3, ack=CLIENT_INDIVIDUAL, prefetch_count=50))
    readers, sent, waiting, slow = node.broker.destinations.readers, 0, [], []
    for _ in range(200):
        headers = b"partition-key:%d\n" % random.randrange(9)
        node.say(send(1, "/log/l", b"%d " % sent + b"x" * random.choice((1, 100, 1500, 5000)), headers=headers))
        sent += 1
        assert readers.tails_bytes <= 4000
        kept = [message for partition in log_of(node).partitions for message in partition.tail]
        assert readers.tails_bytes == sum(message.size + 256 for message in kept)
        waiting += node.messages(3)
        if random.random() < 0.7 and waiting:
            slow.append(waiting.pop(0))
            node.say(ack(slow[-1]))
    while waiting:
        slow.append(waiting.pop(0))
        node.say(ack(slow[-1]))
        waiting += node.messages(3)
    for got in (node.messages(2), slow):
        assert sorted(int(one.message.body.split()[0]) for one in got) == list(range(sent))


# ---- asking


def test_tell_offsets_reads_where_the_time_is() -> None:
    node = node_of(partitions=2)
    log_of(node).segment_bytes = 3
    for number in range(12):
        append(node, b"%d" % number)
        node.wait(1)
    times = (0, START_MS, START_MS + 1, START_MS + 2000, START_MS + 11_000, START_MS + 11_001)
    found = [node.admin(1, do="offsets", log="l", time_ms=ms)["offsets"] for ms in times]
    assert found == [[0, 0], [0, 0], [1, 0], [1, 1], [6, 5], [6, 6]]


def test_offsets_are_looked_for_no_further_when_the_asker_has_gone() -> None:
    node = node_of(partitions=3)
    append(node, b"0", b"1", b"2")
    node.auto = False
    node.say(send(2, "/admin", b'{"do": "offsets", "log": "l", "time_ms": 0}', reply_to="x"))
    assert len(node.read_requests) == 1
    node.close(2)
    while node.step():
        assert not node.read_requests


def test_who_waits_is_told_when_it_is_committed_or_late() -> None:
    node = node_of(partitions=2)
    answer: list[str] = []
    log = log_of(node)
    log.wait([0, 0], 0, lambda: answer.append("asks only"), lambda: False)
    log.wait([0, 0], 10_000, lambda: answer.append("more"), lambda: False)
    log.wait([5, 5], 1000, lambda: answer.append("late"), lambda: False)
    log.wait([5, 5], 1000, lambda: answer.append("gone by then"), lambda: True)
    assert answer == ["asks only"]
    node.auto = False
    append(node, b"0")
    node.seal()
    assert answer == ["asks only"]
    node.commit()
    assert answer == ["asks only", "more"]
    node.wait(0.9)
    assert answer == ["asks only", "more"]
    node.wait(0.1)
    assert answer == ["asks only", "more", "late"]
    log.wait([0, 0], 1000, lambda: answer.append("at once"), lambda: False)
    assert answer[3:] == ["at once"] and not log.waiting.all


# ---- groups, as an operator sets them


def test_positions_are_set_and_forgotten() -> None:
    node = node_of(partitions=2)
    append(node, *[b"x"] * 6)
    log = log_of(node)
    log.set_position("g", [1, 3])
    node.turn([])
    assert node.disk.platter.positions == {(1, "g"): [1, 3]}
    for offsets, code in (([4, 0], "no-such-offset"), ([0, -1], "no-such-offset"), ([0], "bad-request")):
        with pytest.raises(Refusal) as refused:
            log.set_position("g", offsets)
        assert refused.value.code == code
    log.set_position("new", [0, 0])
    assert log.forget("new") and not log.forget("never was")
    assert log.forget("g")
    node.turn([])
    assert node.disk.platter.positions == {}


def test_groups_of_a_log_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    node = node_of()
    node.say(*(read(2, ack=CLIENT_INDIVIDUAL, group=f"g{n}", name=b"%d" % n) for n in range(2)))
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g1"))
    assert not node.is_refused(2) and not node.is_refused(3)
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g2", name=b"one too many"))
    assert node.refusal(3).code == "too-many-destinations"
    node.close(2)
    node.close(3)
    assert not node.broker.destinations.readers.all


def test_positions_of_all_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POSITIONS_MAX", 6)
    node = node_of(partitions=3)
    log, readers = log_of(node), node.broker.destinations.readers
    log.set_position("g", [0, 0, 0])
    log.set_position("h", [0, 0, 0])
    assert readers.positions == 6
    with pytest.raises(Refusal):
        log.set_position("i", [0, 0, 0])
    log.forget("g")
    log.set_position("i", [0, 0, 0])
    node.turn([])
    assert node.crashed().broker.destinations.readers.positions == 6
    node.admin(1, do="declare", log="other")
    node.broker.destinations.logs.all["other"].is_declared = log.is_declared = False
    assert node.admin(1, do="delete", log="l")["ok"] and readers.positions == 0


def test_what_was_acked_beyond_a_gap_is_not_missed_and_the_position_passes_it() -> None:
    node = node_of(retention_ms=None)
    log_of(node).segment_bytes = 2
    append(node, *[b"%d" % n for n in range(8)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=8))
    got = node.messages(2)
    node.say(*(ack(got[n]) for n in (1, 4, 5)))
    log_of(node).let_go(4)
    node.say(ack(got[0]))  # gone, and done with all the same
    node.close(2)
    assert node.disk.platter.positions[1, "g"] == [2]
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=8))
    first, *others = node.messages(3)
    assert first.log == RecordPlace(0, 6, skipped=2) and len(others) == 1
    assert node.stats()["logs"]["l"]["unread"] == {"g": 4}
    node.say(ack(first))
    assert node.disk.platter.positions[1, "g"] == [7]


def test_a_message_is_stored_as_it_was_sent() -> None:
    node = node_of()
    node.say(read(2))
    node.say(send(1, "/log/l", b"body", headers=b"a:b\n"))
    (stored,) = node.disk.platter.records[1, 0].values()
    assert stored == Message("/log/l", b"a:b\n", ESCAPING_ALL, b"body", START_MS)
