"""What all readers of all logs have together is bounded."""

from typing import Any

import pytest

from radiator.core.logs import log_consumer, log_consumers
from radiator.core.turn import Turn
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL
from radiator.model.limits import ENCODED_RECORDS, LOAD_MESSAGES
from radiator.model.replies import Deliver
from tests.core.logs.reading import append, is_empty, node_of, read
from tests.core.words import ack, send


def test_a_turn_hands_out_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumers, "RECORDS_PER_TURN", 10)
    node = node_of(auto=False)
    for number in range(30):
        node.say(send(1, "/log/l", b"%d" % number))
    while node.step():
        pass
    node.say(read(2), read(3))
    most = 0
    while node.step():
        most = max(most, sum(isinstance(r, Deliver) for r in node.log[-40:]))
        node.log.clear()
    assert most <= 20
    assert node.bodies(2) == node.bodies(3) == [b"%d" % n for n in range(30)]


def test_a_turn_hands_out_fewer_that_are_written_in_another_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumers, "RECORDS_PER_TURN", 10 * ENCODED_RECORDS)
    node = node_of()
    append(node, *[b"%d" % number for number in range(100)])
    make_turn, counts = node.broker.turn, []

    def noted(*arguments: Any) -> Turn:
        turn = make_turn(*arguments)
        counts.append(sum(isinstance(reply, Deliver) for reply in turn.replies))
        return turn

    monkeypatch.setattr(node.broker, "turn", noted)
    command = read(2)
    command.encoded_bytes = lambda message, partitions: message.size + partitions
    node.say(command)
    assert len(node.messages(2)) == 100
    assert max(counts) <= 20, "10 that the turn itself has, and 10 for who has waited"


def test_turns_that_hand_out_records_leave_time_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumers, "RECORDS_PER_TURN", 10)
    node = node_of()
    append(node, *[b"%d" % number for number in range(100)])
    make_turn, turns = node.broker.turn, []

    def noted(*arguments: Any) -> Turn:
        turn = make_turn(*arguments)
        turns.append((turn, bool(node.broker.destinations.readers.due)))
        return turn

    monkeypatch.setattr(node.broker, "turn", noted)
    node.say(read(2))
    assert len(node.messages(2)) == 100
    busy = [turn for turn, is_due in turns if is_due]
    assert len(busy) >= 5 and all(turn.again and turn.is_background for turn in busy)


def test_many_readers_of_one_log_all_get_all() -> None:
    node = node_of()
    node.open(*range(10, 60))
    node.say(*(read(number) for number in range(10, 60)))
    append(node, *[b"%d" % n for n in range(100)])
    for number in range(10, 60):
        assert node.bodies(number) == [b"%d" % n for n in range(100)]


def test_what_all_readers_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumer, "WATCHED_MAX", 7)
    node = node_of()
    node.say(read(1, "three", name=b"1"), read(2, "three", ack=CLIENT, group="g"), read(3, "three", partition=0))
    assert not any(node.is_refused(number) for number in (1, 2, 3))
    node.open(4)
    node.say(read(4, "l"))
    assert node.refusal(4).code == "too-many-subscriptions"
    node.close(4)
    node.close(2)
    node.open(4)
    node.say(read(4, "three"))
    assert not node.is_refused(4)
    for number in (1, 3, 4):
        node.close(number)
    assert is_empty(node) and node.broker.destinations.readers.watched == 0


def test_what_groups_have_acked_beyond_their_positions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.groups.AHEAD_MAX", 50)
    node = node_of()
    readers = node.broker.destinations.readers
    append(node, *[b"%d" % number for number in range(3 * LOAD_MESSAGES)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=100))
    first = node.messages(2)
    behind = first[1:]
    while behind:
        node.say(*(ack(one) for one in behind))
        behind = node.messages(2)
    assert 50 <= readers.ahead <= 2 * LOAD_MESSAGES
    node.close(2)
    node.open(4)
    node.say(read(4, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=100))
    replies: list[bytes] = []
    while new := node.messages(4):
        replies += [one.message.body for one in new]
        node.say(*(ack(one) for one in new))
    assert replies[0] == b"0" and replies[-1] == b"%d" % (3 * LOAD_MESSAGES - 1) and len(replies) == len(set(replies))
    assert readers.ahead == 0 and node.disk.platter.positions[1, "g"] == [3 * LOAD_MESSAGES]
