"""What a transaction brings beyond a queue's bound goes in slices: what others see of it, and that none is lost."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from radiator.core.queues.evicting import Evicting
from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO, Read
from radiator.model.limits import COMMANDS_PER_TURN
from radiator.model.settings import QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
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
