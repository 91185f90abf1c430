"""What a transaction brings beyond a queue's bound goes in slices: what others see of it, and that none is lost."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from radiator.core.queues.evicting import Evicting
from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO, Read
from radiator.model.limits import COMMANDS_PER_TURN
from radiator.model.replies import Pause
from radiator.model.settings import QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.test_reload import reload
from tests.core.words import begin, commit, nack, queues, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])
MOST = COMMANDS_PER_TURN // 3 + 1  # dead letters of a slice, by an exchange to one queue


def bounded(persistent: bool, **more: object) -> QueueSettings:
    """A queue as AMQP clients declare it with x-max-length, here 3, and x-dead-letter-exchange."""
    given = {"overflow": "dead-letter", "dead_letter_exchange": "", "dead_letter_key": "dead", **more}
    return QueueSettings(persistent=persistent, max_messages=3, bounds_count="ready", **given)  # type: ignore[arg-type]


def committing(persistent: bool, count: int, names: tuple[str, ...] = ("q",), **more: object) -> Node:
    """A node on which a transaction with so many messages for each queue is committed; further turns are the test's."""
    dead = QueueSettings(persistent=persistent)
    node = Node(queues(dead=dead, **dict.fromkeys(names, bounded(persistent, **more))))
    node.open(1, 2, 3)
    begun(node, count, names)
    node.auto = False
    node.turn([Read(1, [commit(1, b"t", b"r")])])
    return node


def begun(node: Node, count: int, names: tuple[str, ...] = ("q",)) -> None:
    sends = [send(1, name, b"%d" % number, transaction=b"t") for number in range(count) for name in names]
    node.turn([Read(1, [begin(1, b"t"), *sends])])


def found(node: Node) -> Queue:
    return node.broker.destinations.queues.all["q"]


def finish(node: Node) -> None:
    node.auto = True
    node.turn([])


def went(node: Node, names: tuple[str, ...] = ("q",)) -> int:
    """How many messages have been pushed out so far."""
    return sum(node.numbers(name)["dead_lettered"] + node.numbers(name)["dropped"] for name in names)


def turns(node: Node, names: tuple[str, ...] = ("q",)) -> Iterator[int]:
    """Yields, after each further turn, how many have been pushed out, until nothing more happens."""
    while node.step():
        yield went(node, names)


def drain(node: Node, name: str) -> list[bytes]:
    node.open(9)
    node.say(subscribe(9, name, AUTO))
    return node.bodies(9)


@BOTH
@pytest.mark.parametrize(
    "kind", [{}, {"max_priority": 2}, {"partition_key": ("header:k",)}], ids=lambda kind: str(kind)
)
def test_what_a_commit_brings_beyond_the_bound_goes_a_slice_a_turn(kind: dict[str, object], persistent: bool) -> None:
    node = committing(persistent, 600, **kind)
    seen = [0, went(node), *turns(node)]
    assert seen[1] <= 2 * MOST, "one slice at once, and one behind it"
    assert max(now - before for before, now in pairwise(seen)) <= 2 * MOST
    assert seen[-1] == 597 and node.receipts(1) == [b"r"]
    finish(node)
    assert drain(node, "q") == [b"597", b"598", b"599"]
    assert drain(node, "dead") == [b"%d" % number for number in range(597)]


@pytest.mark.parametrize("first", ["a SEND", "a consumer"])
@pytest.mark.parametrize("end", ["crashed", "stopped"])
def test_what_a_stop_left_goes_with_the_first_send_or_consumer(end: str, first: str) -> None:
    node = committing(True, 600)
    while went(node) == 0:
        node.step()
    if end == "stopped":
        node.stop()
    node = node.crashed()
    left = node.numbers("q")["messages"]
    assert left >= 600 - 2 * MOST, "at most two slices had gone"
    node.open(1, 2)
    if first == "a SEND":
        node.say(send(1, "q", b"600", receipt=b"r"))
        assert node.receipts(1) == [b"r"] and drain(node, "q") == [b"598", b"599", b"600"]
        assert drain(node, "dead") == [b"%d" % number for number in range(598)]
    else:
        node.say(subscribe(2, "q", prefetch_count=2))
        assert node.bodies(2) == [b"%d" % number for number in range(600 - left, 602 - left)]
        assert drain(node, "q") == [b"597", b"598", b"599"]
        assert len(drain(node, "dead")) == 595


@BOTH
def test_so_does_what_is_only_dropped(small: None, persistent: bool) -> None:
    node = committing(persistent, 40, overflow="drop-oldest")
    seen = [0, went(node), *turns(node)]
    assert max(now - before for before, now in pairwise(seen)) <= 6 and seen[-1] == 37


@BOTH
def test_one_turn_drops_no_more_of_many_queues(persistent: bool) -> None:
    names = tuple(f"q{number}" for number in range(30))
    node = committing(persistent, 60, names)
    seen = [0, went(node, names), *turns(node, names)]
    # one slice at once; then tasks, until these have used up a turn's share
    assert max(now - before for before, now in pairwise(seen)) <= 6 * MOST and seen[-1] == 30 * 57


@BOTH
def test_consumers_with_room_get_the_first_and_one_that_comes_meanwhile_the_oldest_that_are_left(
    persistent: bool,
) -> None:
    node = Node(queues(q=bounded(persistent), dead=QueueSettings(persistent=persistent)))
    node.open(1, 2, 3)
    begun(node, 600)
    node.say(subscribe(2, "q", prefetch_count=5))
    node.auto = False
    node.turn([Read(1, [commit(1, b"t")])])
    while went(node) == 0:
        assert node.step()
    assert node.bodies(2) == [b"%d" % number for number in range(5)]
    before = went(node)
    node.turn([Read(3, [subscribe(3, "q", prefetch_count=4)])])
    assert node.bodies(3) == [b"%d" % number for number in range(5 + before, 9 + before)]
    finish(node)
    assert node.numbers("q")["unacked"] == 9 and node.numbers("q")["ready"] == 3
    out = {delivery.entry.message.body for delivery in found(node).entries_out.values()}
    dead = drain(node, "dead")
    assert len(dead) == 600 - 12 and not out & {*dead} and dead == sorted(dead, key=int)


@BOTH
def test_who_sends_meanwhile_waits_until_the_bound_holds(persistent: bool) -> None:
    node = committing(persistent, 600)
    while not found(node).is_evicting:
        assert node.step()
    node.turn([Read(2, [send(2, "q", b"later", b"s")])])
    assert node.paused == {2} and node.numbers("q")["blocked"] == 1
    begun(node, 600)
    node.turn([Read(1, [commit(1, b"t")])])
    assert node.paused == {1, 2}, "a second transaction waits too, or more would come than goes"
    finish(node)
    assert node.paused == set() and node.receipts(2) == [b"s"]
    assert drain(node, "q") == [b"597", b"598", b"599"] and len(drain(node, "dead")) == 1201 - 3


def test_a_crash_in_between_loses_and_doubles_nothing(small: None) -> None:
    """Each message is in its queue or is a dead letter, in whichever step the power fails."""
    node, every, bounds = committing(True, 30), {b"%d" % number for number in range(30)}, set()
    while node.step():
        stored = node.stored("q") + node.stored("dead")
        assert len(stored) in (0, 30) and {*stored} in ({*()}, every)
        again = node.crashed()
        if stored:
            bounds.add(again.numbers("q")["messages"])
            rest, dead = drain(again, "q"), drain(again, "dead")
            assert len(rest) + len(dead) == 30 and {*rest} | {*dead} == every
    assert len(bounds) > 3 and min(bounds) == 3, "some of it had gone"


def committing_into_full(persistent: bool, count: int, names: tuple[str, ...] = ("q",), **more: object) -> Node:
    """A node with full queues, on which a transaction with as many messages for each is committed. Their bounds count
    all that is stored; further turns are the test's.
    """
    settings = replace(bounded(persistent, **more), bounds_count="stored", max_messages=count)
    node = Node(queues(dead=QueueSettings(persistent=persistent), **dict.fromkeys(names, settings)))
    node.open(1, 2, 3)
    for name in names:
        node.say(*(send(2, name, b"old%d" % number) for number in range(count)))
    begun(node, count, names)
    node.auto = False
    node.turn([Read(1, [commit(1, b"t", b"r")])])
    return node


@BOTH
@pytest.mark.parametrize(
    "kind", [{}, {"max_priority": 2}, {"partition_key": ("header:k",)}], ids=lambda kind: str(kind)
)
def test_what_a_commit_pushes_out_of_a_full_queue_goes_a_slice_a_turn(
    kind: dict[str, object], persistent: bool
) -> None:
    node = committing_into_full(persistent, 600, **kind)
    seen = [0, went(node)]
    node.turn([Read(2, [send(2, "q", b"late", receipt=b"s")])])
    seen += [went(node), *turns(node)]
    assert max(now - before for before, now in pairwise(seen)) <= 2 * MOST
    assert seen[-1] == 601 and node.receipts(1) == [b"r"] and node.receipts(2) == [b"s"]
    finish(node)
    assert drain(node, "q") == [b"%d" % number for number in range(1, 600)] + [b"late"]
    assert drain(node, "dead") == [b"old%d" % number for number in range(600)] + [b"0"]


@BOTH
def test_a_commit_pushes_no_more_out_of_many_full_queues_at_once(persistent: bool) -> None:
    names = tuple(f"q{number}" for number in range(30))
    node = committing_into_full(persistent, 60, names)
    seen = [0, went(node, names), *turns(node, names)]
    assert max(now - before for before, now in pairwise(seen)) <= 6 * MOST and seen[-1] == 30 * 60


def test_a_crash_while_a_commit_pushes_out_of_a_full_queue_loses_and_doubles_nothing(small: None) -> None:
    node, bounds = committing_into_full(True, 30), set()
    old, new = {b"old%d" % number for number in range(30)}, {b"%d" % number for number in range(30)}
    while node.step():
        again = node.crashed()
        bounds.add(again.numbers("q")["messages"])
        found = drain(again, "q") + drain(again, "dead")
        assert len(found) == len({*found}) and {*found} in (old, old | new)
    assert min(bounds) == 30 and len(bounds) > 3, "some of it had gone"


@BOTH
@pytest.mark.parametrize("does", ["purge", "delete"])
def test_a_queue_that_is_purged_or_deleted_meanwhile_drops_no_more(does: str, persistent: bool) -> None:
    node = committing(persistent, 600)
    while not found(node).is_evicting:
        assert node.step()
    before = went(node)
    node.auto = True
    node.open(8)
    node.admin(8, do=does, queue="q")
    assert not any(isinstance(task, Evicting) for task in node.broker.background)
    if does == "purge":
        assert node.numbers("q")["messages"] <= 3 and not found(node).is_evicting
        node.say(send(2, "q", b"later", b"s"))
        assert node.receipts(2) == [b"s"]
    assert before < 597


def test_it_fills_a_batch_and_waits_for_the_next_without_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    node = committing(True, 600)
    shrink(monkeypatch, {"BATCH_BYTES": 1000})
    while went(node) == 0:
        assert node.step()
    size = node.broker.context.open.size
    assert 1000 <= size < 1500, "one dead letter more at most"
    node.turn([])
    assert node.broker.context.open.size == size and not node.again
    finish(node)
    assert went(node) == 597


@BOTH
def test_who_waits_goes_on_when_consumers_have_made_the_room(persistent: bool) -> None:
    node = committing(persistent, 600)
    while not found(node).is_evicting:
        assert node.step()
    node.turn([Read(2, [send(2, "q", b"later", b"s")])])
    assert node.paused == {2}
    node.turn([Read(3, [subscribe(3, "q", prefetch_count=1000)])])
    finish(node)
    assert node.receipts(2) == [b"s"] and node.bodies(3)[-1] == b"later" and not found(node).is_evicting


@BOTH
def test_delayed_messages_that_become_ready_at_once_push_out_a_slice_a_turn(persistent: bool) -> None:
    node = Node(queues(q=bounded(persistent), dead=QueueSettings(persistent=persistent)))
    node.open(1)
    node.say(subscribe(1, "q", prefetch_count=400))
    node.turn([Read(1, [send(1, "q", b"%d" % number) for number in range(400)])])
    node.turn([Read(1, [nack(one, delay_ms=300) for one in node.messages(1)])])
    node.say(unsubscribe(1, "q"))
    assert node.numbers("q")["delayed"] == 400
    node.auto = False
    node.wait(1)
    seen = [0, went(node), *turns(node)]
    assert max(now - before for before, now in pairwise(seen)) <= 2 * MOST and seen[-1] == 397


# ---- a bound that a reload has lowered ------------------------------------------------------------------------------


def lowered(persistent: bool, count: int, max_messages: int | None = 3, **more: object) -> Node:
    """A node whose queue holds more than its bounds allow from now on; further turns are the test's."""
    max_bytes = more.pop("max_bytes", None)
    given = {"overflow": "dead-letter", "dead_letter": "dead", **more}
    before = QueueSettings(persistent=persistent, **given)  # type: ignore[arg-type]
    dead = QueueSettings(persistent=persistent)
    node = Node(queues(q=before, dead=dead))
    node.open(1, 2, 3)
    node.turn([Read(1, [send(1, "q", b"%d" % number, headers=b"k:%d\n" % (number % 3)) for number in range(count)])])
    reload(node, queues(q=replace(before, max_messages=max_messages, max_bytes=max_bytes), dead=dead))
    assert node.numbers("q")["messages"] == count, "nothing goes before somebody sends"
    node.auto = False
    return node


@BOTH
@pytest.mark.parametrize("counts", ["stored", "ready"])
@pytest.mark.parametrize("overflow", ["dead-letter", "drop-oldest"])
@pytest.mark.parametrize(
    "kind", [{}, {"max_priority": 2}, {"partition_key": ("header:k",)}], ids=lambda kind: str(kind)
)
def test_what_exceeds_a_lowered_bound_goes_a_slice_a_turn_before_the_next_send_comes_in(
    small: None,
    monkeypatch: pytest.MonkeyPatch,
    kind: dict[str, object],
    overflow: str,
    counts: str,
    persistent: bool,
) -> None:
    shrink(monkeypatch, {"KEY_MESSAGES": 4, "COMMANDS_PER_TURN": 3})
    node = lowered(persistent, 60, overflow=overflow, bounds_count=counts, **kind)
    node.turn([Read(1, [send(1, "q", b"60", b"r")])])
    seen = [0, went(node)]
    for now in turns(node):
        seen.append(now)
        assert found(node).in_memory_count <= 20 or not persistent, "not all is read back before the first goes"
    assert max(now - before for before, now in pairwise(seen)) <= 6
    assert seen[-1] == 58 and node.receipts(1) == [b"r"] and node.paused == set()
    finish(node)
    assert drain(node, "q") == [b"58", b"59", b"60"]
    if overflow == "dead-letter":
        assert sorted(drain(node, "dead"), key=int) == [b"%d" % number for number in range(58)]


@BOTH
def test_what_is_unacked_stays_and_the_send_is_refused_if_that_is_too_much(
    small: None, monkeypatch: pytest.MonkeyPatch, persistent: bool
) -> None:
    monkeypatch.setattr("radiator.core.queues.evicting.COMMANDS_PER_TURN", 3)
    node = lowered(persistent, 10)
    node.auto = True
    node.say(subscribe(2, "q", prefetch_count=2))
    node.say(send(1, "q", b"10", b"r"))
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] == 3
    node.say(subscribe(3, "q", prefetch_count=2))
    node.say(send(1, "q", b"11"))
    assert node.refusal(1).code == "queue-full" and node.numbers("q")["unacked"] == 3


@BOTH
@pytest.mark.parametrize(("bound", "count", "is_at_once"), [
    ({"max_messages": 3}, 259, True), ({"max_messages": 3}, 260, False),
    ({"max_messages": None, "max_bytes": 10}, 256, True), ({"max_messages": None, "max_bytes": 10}, 257, False),
])  # fmt: skip
def test_as_many_as_a_turn_has_time_for_go_with_the_send(
    bound: dict[str, Any], count: int, is_at_once: bool, persistent: bool
) -> None:
    node = lowered(persistent, count, overflow="drop-oldest", **bound)
    node.turn([Read(1, [send(1, "q", b"x", b"r")])])
    assert any(isinstance(reply, Pause) for reply in node.log) is not is_at_once
    finish(node)
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] <= 10


def test_while_the_disk_is_asked_for_the_oldest_nobody_asks_for_turns(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radiator.core.queues.evicting.COMMANDS_PER_TURN", 3)
    node = lowered(True, 60)
    node.turn([Read(1, [send(1, "q", b"60", b"r")])])
    for _ in range(100):
        if node.read_requests and not (node.again or node.broker.has_batch or node.being_committed):
            break
        if not (node.again or node.broker.wants_turn or node.seal() or node.being_committed):
            break
        if node.being_committed is not None:
            node.commit()
        else:
            node.turn([])
    else:
        raise AssertionError("it asks for turns without an end")
    assert node.read_requests and node.paused == {1} and node.receipts(1) == []
    finish(node)
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] == 3


def test_a_crash_while_a_lowered_bound_is_reached_loses_and_doubles_nothing(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radiator.core.queues.evicting.COMMANDS_PER_TURN", 3)
    node, every = lowered(True, 30), {b"%d" % number for number in range(30)}
    node.turn([Read(1, [send(1, "q", b"30", b"r")])])
    seen = set()
    while node.step():
        rest, dead = node.stored("q"), node.stored("dead")
        assert {*rest, *dead} - {b"30"} == every and len(rest) + len(dead) == 30 + (b"30" in rest)
        seen.add(len(dead))
    assert len(seen) > 5 and max(seen) == 28
