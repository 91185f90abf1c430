"""Delayed messages of a partitioned queue: what came back holds its key, what was sent late joins it."""

from dataclasses import replace

import pytest

from radiator.core.queues import partitions
from radiator.core.queues.due import PASSED_OVER_MS
from radiator.model.commands import Tick
from radiator.model.reads import LoadedDelayed, ReadDelayed
from radiator.model.writes import MakeDue
from tests.core.backlogs import durable
from tests.core.conftest import shrink
from tests.core.keyed import consume, drained, got, is_clean, keyed, names, of_key, say
from tests.core.keyed import partitions as partitions_of
from tests.core.node import Node
from tests.core.words import ack, nack


def stuck(node: Node, *keys: str, delay_ms: int = 1000) -> None:
    """The next message of each of these keys comes back, and is delayed; of others it is acked."""
    for deliver in node.messages(1):
        if deliver.message.body.decode()[0] in keys:
            node.say(nack(deliver, delay_ms=delay_ms))
        else:
            node.say(ack(deliver))


# ---- what came back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_held_key_with_a_long_backlog_waits_and_others_go_on(small: None, is_restarted: bool) -> None:
    node = keyed()
    node.say(consume(1))
    say(node, " ".join(f"a{number} b{number}" for number in range(30)))
    stuck(node, "a")
    if is_restarted:
        node = node.crashed()
        node.open(1, 2, 9)
        node.say(consume(1))
    seen = drained(node)
    assert of_key(seen, "a") == [] and len(seen) == 29
    node.wait(1)
    assert drained(node) == [f"a{number}" for number in range(30)]
    assert node.numbers("q")["messages"] == 0 and is_clean(node) and not node.disk.platter.held


def test_one_that_was_sent_late_and_finds_no_room_keeps_nobody_from_what_makes_some(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delays hold as many keys as they may, so nothing is delivered, and the window stays full until some are due."""
    shrink(monkeypatch, {"WINDOW_MESSAGES": 2, "LOAD_MESSAGES": 1, "STEP_MESSAGES": 1})
    node = keyed()
    node.say(consume(1))
    say(node, "x0 y0 z0", delay_ms=1000)
    say(node, "a1")
    stuck(node, "a", delay_ms=2000)
    durable(node).windows.held_max = 1
    say(node, "b1 c1 d1 e1")
    node.wait(1)
    assert names(node) == "" and node.numbers("q")["delayed"] == 4
    node.wait(1)
    seen = drained(node)
    assert {*seen} >= {"a1", "b1", "c1", "d1", "e1"}
    node.wait(PASSED_OVER_MS / 1000)
    assert {*seen, *drained(node)} == {"a1", "b1", "c1", "d1", "e1", "x0", "y0", "z0"} and is_clean(node)


def test_what_found_no_room_before_keys_held_too_much_does_not_keep_them_held(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 2, "LOAD_MESSAGES": 1})
    node = keyed()
    node.say(consume(1, prefetch_count=1))
    say(node, "x0", delay_ms=1000)
    say(node, "a1 b1 c1")
    out = got(node)
    node.wait(1)
    assert [*out] == ["a1"] and durable(node).delayed.blocked_bytes > 0
    durable(node).windows.held_max = 1
    node.say(nack(out["a1"], delay_ms=1000))
    assert names(node) == ""
    node.wait(1)
    seen = drained(node)
    node.wait(PASSED_OVER_MS / 1000)
    assert sorted([*seen, *drained(node)]) == ["a1", "b1", "c1", "x0"] and is_clean(node)


def test_where_keys_held_too_much_a_short_disk_does_not_keep_them_held() -> None:
    node = keyed()
    node.say(consume(1, prefetch_count=1))
    say(node, "a1 b1")
    out = got(node)
    durable(node).windows.held_max = 1
    node.say(nack(out["a1"], delay_ms=1000))
    node.now_s, node.now_ms = node.now_s + 1, node.now_ms + 1000
    node.turn([Tick(-1, 0)])
    assert durable(node).windows.is_disk_tight
    assert drained(node) == ["a1", "b1"] and is_clean(node)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_key_does_not_wait_for_a_damaged_record_that_is_due(small: None, is_restarted: bool) -> None:
    """It stays where it is, and is delivered no more: nobody could ever settle it."""
    node = keyed()
    node.say(consume(1))
    say(node, " ".join(f"a{number}" for number in range(30)))
    stuck(node, "a")
    if is_restarted:
        node = node.crashed()
        node.open(1, 2, 9)
        node.say(consume(1))
    real = node.disk.load_delayed

    def load(asked: ReadDelayed) -> LoadedDelayed:
        answer = real(asked)
        for row in answer.messages:
            row.stored = replace(row.stored, message=None)
        return answer

    node.disk.load_delayed = load  # type: ignore[method-assign]
    assert drained(node) == []
    node.wait(1)
    assert drained(node) == [f"a{number}" for number in range(1, 30)]
    assert node.numbers("q")["damaged"] == 1 and node.numbers("q")["delayed"] == 0
    assert [note.fields["queue"] for note in node.notes if note.event == "damaged_record"] == ["q"]


def test_a_full_window_takes_what_a_key_waits_for(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 2, "LOAD_MESSAGES": 1, "STEP_MESSAGES": 1})
    node = keyed()
    node.say(consume(1))
    say(node, "a1 b1 c1 d1 a2 b2 c2 d2")
    stuck(node, *"abcd")
    say(node, "a3 b3 c3 d3")
    assert names(node) == ""
    node.wait(1)
    seen = drained(node)
    assert len(seen) == 12 and all(of_key(seen, key) == [f"{key}{n}" for n in (1, 2, 3)] for key in "abcd")


def test_bytes_that_find_no_room_are_read_back_when_they_are_wanted(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"WINDOW_BYTES": 100, "LOAD_BYTES": 100})
    node = keyed()
    node.say(consume(1))
    for key in "abc":
        say(node, f"{key}1{'x' * 90} {key}2{'x' * 90}")
    stuck(node, *"abc")
    node.wait(1)
    seen = [body[:2] for body in drained(node)]
    assert sorted(seen) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert all(of_key(seen, key) == [f"{key}1", f"{key}2"] for key in "abc") and is_clean(node)


def test_of_several_that_are_held_all_must_be_settled(small: None) -> None:
    node = keyed(window=3)
    node.say(consume(1))
    say(node, "a1 a2 a3 a4 a5")
    out = got(node)
    node.say(nack(out["a3"], delay_ms=500), nack(out["a1"], delay_ms=1500))
    node.say(ack(out["a2"]))
    assert names(node) == ""
    node.wait(0.5)
    assert names(node) == "", "a1 comes before it"
    node.wait(1)
    assert names(node) == "a1 a3 a4"


def test_what_is_due_is_on_the_disk_with_its_key_again() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 1")
    stuck(node, "a", "1")
    node.say(consume(2))
    node.auto = False
    node.wait(1)
    while node.read_requests:
        node.answer()
    node.seal()
    assert node.being_committed is not None
    ended = [bool(write.held) for write in node.being_committed.writes if isinstance(write, MakeDue)]
    assert ended == [True, False]


# ---- what was sent late ---------------------------------------------------------------------------------------------


def test_one_sent_late_joins_its_key_at_its_own_place(small: None) -> None:
    node = keyed()
    say(node, "a0", delay_ms=1000)
    say(node, " ".join(f"a{number}" for number in range(1, 30)))
    node.say(consume(1))
    out = got(node)
    assert [*out] == ["a1"]
    node.wait(1)
    node.say(ack(out["a1"]))
    assert drained(node) == ["a0", *(f"a{number}" for number in range(2, 30))] and is_clean(node)


@pytest.mark.parametrize("at", [5, 15, 25])
def test_one_that_is_due_among_those_passed_over_comes_in_its_turn(small: None, at: int) -> None:
    node = keyed()
    say(node, " ".join(f"a{number:02}" for number in range(at)))
    say(node, f"a{at:02}", delay_ms=1000)
    say(node, " ".join(f"a{number:02}" for number in range(at + 1, 30)))
    node.wait(1)
    node.say(consume(1))
    assert drained(node) == [f"a{number:02}" for number in range(30)] and is_clean(node)
    assert not node.disk.platter.keys


@pytest.mark.parametrize("at", [0, 5, 29])
def test_the_same_in_a_queue_that_is_read_back_from_its_start(small: None, at: int) -> None:
    node = keyed()
    for number in range(30):
        say(node, f"a{number:02}", **({"delay_ms": 1000} if number == at else {}))
        say(node, f"b{number:02}")
    again = node.crashed()
    again.open(1, 9)
    again.say(consume(1, prefetch_count=1))
    out = got(again)
    again.wait(1)
    again.say(*map(ack, out.values()))
    seen = [*out, *drained(again)]
    late = [body for body in of_key(seen, "a") if body != f"a{at:02}"]
    assert late == sorted(late) and len(seen) == 60 and of_key(seen, "b") == sorted(of_key(seen, "b"))
    assert again.numbers("q")["messages"] == 0 and is_clean(again)


def test_one_that_is_due_at_its_expiry_has_expired_and_its_key_goes_on() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1", expiration_ms=500, delay_ms=1000)
    say(node, "a2")
    node.wait(1)
    assert names(node) == "a2" and node.numbers("q")["expired"] == 1


def test_a_purge_takes_late_ones_and_spares_those_that_come_back_meanwhile(small: None) -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    say(node, "a3 b1", delay_ms=1000)
    out = got(node)
    assert node.admin(9, do="purge", queue="q")["purged"] == 3
    node.say(nack(out["a1"], delay_ms=500))
    say(node, "a4")
    node.wait(0.4)
    assert names(node) == ""
    node.wait(2)
    assert drained(node) == ["a1", "a4"] and is_clean(node)


# ---- hashes ---------------------------------------------------------------------------------------------------------


def test_of_two_keys_of_one_hash_each_holds_only_itself(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "hash_of", lambda key: b"the same")
    node = keyed()
    node.say(consume(1))
    say(node, " ".join(f"a{number} b{number}" for number in range(20)))
    stuck(node, "a")
    assert drained(node) == [f"b{number}" for number in range(1, 20)]
    node.wait(1)
    assert drained(node) == [f"a{number}" for number in range(20)]
    assert is_clean(node) and durable(node).window.size == 0


def test_keys_that_are_held_again_and_again_leave_nothing(small: None) -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2 b1")
    for _ in range(20):
        stuck(node, "a", "b", delay_ms=100)
        node.wait(0.1)
    assert drained(node) == ["a1", "b1", "a2"] and is_clean(node)
    assert not partitions_of(node).found_held
