"""What a log's consumer reads ahead: from the tail, from the disk, over damage, and behind what retention has taken."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.core.logs import read_ahead
from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, Tick
from radiator.model.errors import StoreError
from radiator.model.limits import GIB, LOAD_MESSAGES, Limits
from radiator.model.reads import ReadLog, StoredRecord
from radiator.model.replies import RecordPlace
from radiator.model.settings import Declarations, LogSettings
from tests.core.logs.reading import append, is_empty, node_of, read
from tests.core.words import ack, send


def test_a_live_tail_needs_no_disk() -> None:
    node = node_of(auto=False)
    node.say(read(2, start=None), read(3, ack=CLIENT, start=None, prefetch_count=99))
    for number in range(5):
        node.say(send(1, "/log/l", b"%d" % number))
        node.seal()
        node.commit()
        assert not node.read_requests
    assert node.bodies(2) == node.bodies(3) == [b"%d" % n for n in range(5)]


def test_damaged_records_are_passed_over_and_told() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    there = node.disk.load_log

    def damaged(load: ReadLog) -> Any:
        answer = there(load)
        answer.records = [StoredRecord(r.offset, None if r.offset in (1, 2) else r.message) for r in answer.records]
        return answer

    node.disk.load_log = damaged  # type: ignore[method-assign]
    node.say(read(2, ack=CLIENT, prefetch_count=9, group="g"))
    got = node.messages(2)
    assert [m.message.body for m in got] == [b"0", b"3"]
    node.say(ack(got[-1]))
    assert node.disk.platter.positions[1, "g"] == [4]
    assert [note.fields["offset"] for note in node.notes if note.event == "damaged_log"] == [1, 2]
    assert node.stats()["logs"]["l"]["damaged"] == 2


def test_records_that_are_missing_are_not_passed_over() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    there = node.disk.load_log
    node.disk.load_log = lambda load: there(replace(load, offset=load.offset + 1))  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="^partition 0 of /log/l has no record 0, but later ones"):
        node.say(read(2, ack=CLIENT, prefetch_count=9, group="g"))


def test_a_reader_that_is_overtaken_is_closed() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}), limits=Limits(outbox_max_bytes=2000))
    append(node, *[b"x" * 1000] * 3 * LOAD_MESSAGES)
    node.reads_slowly.add(2)
    node.say(read(2))
    node.wait(10)
    node.wait(1)
    node.reads_slowly.clear()
    node.turn([])
    assert node.refusal(2).code == "no-such-offset"
    assert any(note.event == "log_reader_overtaken" for note in node.notes)
    refused = [dict(note.fields) for note in node.notes if note.event == "refused"]
    assert [(one["connection"], one["code"]) for one in refused] == [(2, "no-such-offset")]
    assert node.stats()["counters"]["refusals"] == 1, "as any connection that is refused"
    node.close(2)
    assert is_empty(node)


def test_a_group_whose_first_records_go_while_they_are_read_back_hears_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("radiator.core.logs.log.SEGMENT_RECORDS", 1)
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g"))
    node.say(ack(node.message(2)))
    node.close(2)
    node.wait(5)
    append(node, b"3", b"4")
    node.auto = False
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=2))
    node.now_s += 5
    node.now_ms += 5000
    node.turn([Tick(GIB, 0)])
    while node.seal():
        node.commit()  # before the loader has answered
    assert node.broker.destinations.logs.all["l"].partitions[0].first == 3
    node.auto = True
    node.turn([])
    first, second = node.messages(3)
    assert first.log == RecordPlace(0, 3, skipped=2)
    assert second.log == RecordPlace(0, 4)
    assert not any(note.event == "log_reader_overtaken" for note in node.notes)
    node.say(ack(first), ack(second))
    assert node.disk.platter.positions == {(1, "g"): [5]}


@pytest.mark.parametrize("ack_mode", [AUTO, CLIENT_INDIVIDUAL])
def test_who_reads_without_a_group_is_closed_where_its_first_records_go_while_they_are_read_back(ack_mode: str) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.auto = False
    node.say(read(2, ack=ack_mode))
    node.now_s += 10
    node.now_ms += 10_000
    node.turn([Tick(GIB, 0)])
    while node.seal():
        node.commit()
    node.auto = True
    node.turn([])
    assert node.refusal(2).code == "no-such-offset"


def test_a_group_that_may_not_read_ahead_goes_on_behind_what_retention_has_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0")
    node.wait(5)
    append(node, b"1", b"2", b"3")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=3))
    got = node.messages(2)
    node.say(ack(got[1]), ack(got[2]))
    node.close(2)
    monkeypatch.setattr("radiator.core.logs.groups.AHEAD_MAX", 1)
    monkeypatch.setattr(read_ahead, "LOAD_MESSAGES", 1)
    node.wait(5)
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g"))
    assert (third := node.message(3)).log == RecordPlace(0, 3, skipped=1)
    node.say(ack(third))
    assert node.disk.platter.positions == {(1, "g"): [4]} and node.broker.destinations.readers.ahead == 0
