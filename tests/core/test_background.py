"""Long works go in slices of at most one batch, with everybody else in between."""

import json
from collections import deque
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO, CLIENT, Closed, Read, Send, Tick
from radiator.model.limits import COMMANDS_PER_TURN, DEAD_LETTER_HEADER_BYTES, GIB, STEP_MESSAGES
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.keyed import KEY
from tests.core.leased import done, join, settle, take
from tests.core.node import Node
from tests.core.words import nack, queue, queues, send, subscribe

MEMORY = Declarations(create_queues=True, queue_patterns=[("#", QueueSettings(persistent=False))])


def admin(do: str, **asked: object) -> Send:
    return send(9, "/admin", json.dumps({"do": do, **asked}).encode(), reply_to="t")


def lost(node: Node, count: int) -> None:
    """A connection with so many unacked messages ends."""
    node.open(1, 2, 3)
    for number in range(count):
        node.say(send(1, "q", b"%d" % number))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=1000))
    assert len(node.messages(2)) == count
    node.auto = False
    node.turn([Closed(2)])


def test_lost_messages_come_back_a_slice_a_turn(small: None) -> None:
    node = Node()
    lost(node, 10)
    assert node.numbers("q")["unacked"] == 7 and node.again
    node.say(send(3, "/topic/t", receipt=b"r"))
    assert node.receipts(3) == [b"r"] and node.numbers("q")["unacked"] == 4
    node.auto = True
    node.turn([])
    assert node.numbers("q")["unacked"] == 0 and not node.again
    node.say(subscribe(3, "q", AUTO))
    assert node.bodies(3) == [b"%d" % n for n in range(10)]


def test_one_goes_on_however_much_clients_settle_in_each_turn() -> None:
    node = Node(queues(q=QueueSettings(persistent=False), other=QueueSettings(persistent=False)))
    join(node, 1)
    node.open(9)
    node.turn([Read(9, [send(9, "other") for _ in range(3 * STEP_MESSAGES)])])
    leased = []
    for _ in range(4):
        node.turn([Read(9, [send(9, "q") for _ in range(STEP_MESSAGES)])])
        leased.append([done(one) for one in take(node, 1, most=STEP_MESSAGES)])
    node.auto = False
    node.turn([Read(9, [admin("purge", queue="other")])])
    stored = [node.broker.destinations.queues.all["other"].ledger.stored]
    for some in leased:
        node.turn([Read(1, [settle(1, *some)])])
        assert node.broker.context.handled >= STEP_MESSAGES
        stored.append(node.broker.destinations.queues.all["other"].ledger.stored)
    assert stored == [STEP_MESSAGES * left for left in (2, 2, 1, 1, 0)]


def test_long_works_that_begin_together_share_a_turn(small: None) -> None:
    node = Node()
    node.open(1, *range(10, 20), 9)
    for number in range(40):
        node.say(send(1, "q", b"%d" % number), send(1, "other"))
    for connection in range(10, 20):
        node.say(subscribe(connection, "q", CLIENT, prefetch_count=4))
    assert node.numbers("q")["unacked"] == 40
    node.auto = False
    move = Read(9, [admin("move", to="third", **{"from": "other"})])
    node.turn([move, *(Closed(number) for number in range(10, 20))])
    left = [40, node.numbers("q")["unacked"]]
    while node.again or node.being_committed is not None or node.seal():
        if node.seal():
            node.commit()
        else:
            node.turn([])
        left.append(node.numbers("q")["unacked"])
    assert left[1] == 37 and left[-1] == 0, left
    assert all(before - now <= 5 for before, now in pairwise(left)), "a slice, and the rest of another"
    node.auto = True
    node.turn([])
    assert node.numbers("third")["messages"] == 40


def filled(node: Node, name: str, count: int, **more: object) -> Queue:
    """A queue in memory with so many messages."""
    node.turn([Read(1, [send(1, name, b"%d" % number, **more) for number in range(count)])])
    return node.broker.destinations.queues.all[name]


def waiting_in(queues: list[Queue]) -> int:
    """How many of them have delayed messages."""
    return sum(queue.ledger.stored_delayed > 0 for queue in queues)


def test_queues_with_something_due_do_not_keep_long_works_waiting(small: None) -> None:
    """Each of them fills a turn; there may be as many as there are queues."""
    node = Node(MEMORY)
    node.open(1, 9)
    due, purged = [filled(node, f"due.{number}", 3, delay_ms=300) for number in range(40)], filled(node, "q", 60)
    node.auto = False
    node.now_s, node.now_ms = node.now_s + 0.4, node.now_ms + 400
    node.turn([Read(9, [admin("purge", queue="q")])])
    waiting, gone = [40, waiting_in(due)], [0, purged.ledger.purged]
    while waiting[-1]:
        node.turn([])
        waiting.append(waiting_in(due))
        gone.append(purged.ledger.purged)
    assert all(later < before for before, later in pairwise(waiting)), waiting
    assert all(later > before or later == 60 for before, later in zip(gone, gone[2:], strict=False)), gone
    assert gone[-1] == 60


@pytest.mark.parametrize("works", [("due",), ("purge",), ("due", "purge")])
def test_commands_that_fill_every_turn_keep_neither_waiting(small: None, works: tuple[str, ...]) -> None:
    node = Node(MEMORY)
    others = range(10, 50)
    node.open(1, 9, *others)
    due, purged = [filled(node, f"due.{number}", 3, delay_ms=300) for number in range(9)], filled(node, "q", 27)
    filled(node, "unacked", 3 * len(others))
    node.say(*(subscribe(number, "unacked", CLIENT, prefetch_count=3) for number in others))
    node.auto = False
    if "due" in works:
        node.now_s, node.now_ms = node.now_s + 0.4, node.now_ms + 400
    waiting = [9]
    for number in others:
        does = [Read(9, [admin("purge", queue="q")])] if number == others[0] and "purge" in works else []
        node.turn([*does, Closed(number)])
        assert node.broker.context.handled >= 3, "the turn is full"
        waiting.append(waiting_in(due))
    assert (waiting[-1] == 0) is ("due" in works) and purged.ledger.purged == (27 if "purge" in works else 0)
    if "due" in works:
        assert all(later < before or not before for before, later in zip(waiting, waiting[2:], strict=False)), waiting


@pytest.mark.parametrize("does", ["purge", "delete"])
def test_a_queue_in_memory_is_emptied_a_slice_a_turn(small: None, does: str) -> None:
    node = Node()
    node.open(1, 2, 9)
    node.say(admin("declare", queue="q", persistent=False), *(send(1, "q", b"%d" % number) for number in range(10)))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=2))
    node.take(9)
    node.say(*(nack(deliver) for deliver in node.messages(2)[:1]), send(1, "q", b"late", delay_ms=60_000))
    node.messages(2)
    if does == "delete":
        node.close(2)
    there = node.broker.destinations.queues.all["q"]
    node.auto = False
    node.turn([Read(9, [admin(does, queue="q")]), Read(1, [send(1, "q", b"new")])])
    purged = [there.ledger.purged]
    while node.again:
        node.turn([])
        purged.append(there.ledger.purged)
    assert purged[0] == 3 and all(now - before <= 3 for before, now in pairwise(purged))
    assert there.ledger.purged == (9 if does == "purge" else 11)
    node.auto = True
    node.turn([])
    if does == "purge":
        (answer,) = node.bodies(9)
        assert json.loads(answer) == {"ok": True, "purged": 9}
    assert node.numbers("q")["messages"] == (3 if does == "purge" else 1), "what came later stays"


def test_slice_waits_for_the_next_batch_when_the_open_one_is_full(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    shrink(monkeypatch, {"BATCH_BYTES": 4 * 64})
    lost(node, 30)
    for _ in range(5):
        node.turn([])
    assert node.broker.context.open.size <= 6 * 64 and node.numbers("q")["unacked"] >= 20 and not node.again
    node.auto = True
    node.turn([])
    assert node.numbers("q")["unacked"] == 0


def test_counts_of_lost_messages_are_kept_on_the_disk(small: None) -> None:
    node = Node()
    lost(node, 10)
    node.auto = True
    node.turn([])
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q", AUTO))
    assert [d.redeliveries for d in again.messages(1)] == [1] * 10


def test_crash_in_the_middle_of_a_long_work_loses_nothing(small: None) -> None:
    node = Node()
    lost(node, 10)
    node.seal()
    node.commit()
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q", AUTO))
    out = again.messages(1)
    assert [d.message.body for d in out] == [b"%d" % n for n in range(10)] and all(d.redelivered for d in out)


@pytest.mark.parametrize("persistent", [True, False])
def test_everything_that_has_expired_leaves_at_one_tick(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, message_ttl_ms=300))
    node.open(1)
    node.auto = False
    for number in range(4000):
        node.say(send(1, "q", b"%d" % number))
    node.auto = True
    node.wait(0.2)
    assert node.numbers("q")["stored"] == 4000
    node.wait(0.2)
    numbers = node.numbers("q")
    assert (numbers["stored"], numbers["expired"]) == (0, 4000)


DEAD_LETTERS = queues(q=QueueSettings(dead_letter_exchange="", dead_letter_key="dead"), dead=QueueSettings())


def most_in_a_turn(node: Node, count: int) -> int:
    """How many dead letters a turn makes at most from now on, until q has made so many."""
    made = [node.numbers("q")["dead_lettered"]]
    while made[-1] < count:
        assert node.again or node.broker.behind, made
        node.turn([])
        made.append(node.numbers("q")["dead_lettered"])
    return max(now - before for before, now in pairwise(made))


@pytest.mark.parametrize(("length", "most"), [
    (0, COMMANDS_PER_TURN // 3 + 1),
    (10 * DEAD_LETTER_HEADER_BYTES, COMMANDS_PER_TURN // 13 + 1),
])  # fmt: skip
def test_what_expires_into_an_exchange_does_in_smaller_slices(length: int, most: int) -> None:
    """A longer block may have a line of deaths, which is read and written anew."""
    node = Node(DEAD_LETTERS)
    node.open(1)
    for _ in range(400):
        node.say(send(1, "q", headers=b"long:%b\n" % (b"x" * length) if length else b"", expiration_ms=300))
    node.now_s += 1
    node.now_ms += 1000
    node.auto = False
    node.turn([Tick(GIB, node.disk.used_bytes())])
    assert node.numbers("q")["dead_lettered"] <= most and most_in_a_turn(node, 400) <= most
    assert node.numbers("dead")["messages"] == 400


def test_delayed_messages_that_expire_into_an_exchange_do_in_smaller_slices() -> None:
    memory = QueueSettings(persistent=False)
    node = Node(queues(q=replace(DEAD_LETTERS.queues["q"], persistent=False), dead=memory))
    node.open(1)
    for _ in range(400):
        node.say(send(1, "q", delay_ms=300, expires_ms=node.now_ms + 300))
    node.now_s += 1
    node.now_ms += 1000
    node.auto = False
    node.turn([])
    most = COMMANDS_PER_TURN // 3 + 1
    assert 0 < node.numbers("q")["dead_lettered"] <= 2 * most, "one slice at once, and one behind it"
    assert most_in_a_turn(node, 400) <= most
    node.auto = True
    node.turn([])
    assert node.numbers("dead")["messages"] == 400 and node.broker.background == deque()


def test_lost_messages_that_die_come_in_smaller_slices() -> None:
    declared = queues(q=replace(DEAD_LETTERS.queues["q"], max_redeliveries=0), dead=QueueSettings())
    node = Node(declared)
    lost(node, 1000)
    most = COMMANDS_PER_TURN // 3 + 1
    assert node.numbers("q")["dead_lettered"] <= 2 * most, "one slice at once, and one behind it"
    assert most_in_a_turn(node, 1000) <= most
    assert node.numbers("dead")["messages"] == 1000 and node.broker.background == deque()


def test_other_long_works_go_on_while_dead_letters_are_made() -> None:
    """What commands have made of them takes nothing from these."""
    declared = queues(q=replace(DEAD_LETTERS.queues["q"], max_redeliveries=0), dead=QueueSettings())
    node = Node(declared)
    lost(node, 500)
    before = node.numbers("q")["dead_lettered"]
    node.broker.context.dead_letters_cost = 10 * COMMANDS_PER_TURN
    node.broker.background[0].step()
    assert node.numbers("q")["dead_lettered"] > before


def test_expiry_stops_at_a_head_that_lives() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", b"dies", expiration_ms=100), send(1, "q", b"lives"), send(1, "q", b"dies", expiration_ms=100))
    node.wait(1)
    assert (node.numbers("q")["expired"], node.numbers("q")["stored"]) == (1, 2)
    assert not node.again


def test_queue_that_is_deleted_while_it_expires_writes_nothing_more(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    for number in range(5):
        node.say(send(1, "q", b"%d" % number, expiration_ms=100))
    node.seal()
    node.commit()
    node.wait(1)
    assert 0 < node.numbers("q")["messages"] < 5, "a slice has gone, the rest goes on"
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    node.auto = True
    node.turn([])
    assert not node.has("q") and not node.disk.platter.messages and not node.disk.platter.queues


def test_full_batch_keeps_a_sweep_waiting_without_a_turn(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.open(1, 9)
    node.say(*(send(1, "q") for _ in range(5)))
    node.auto = False
    shrink(monkeypatch, {"BATCH_BYTES": 4 * 64})
    node.say(*(send(1, "other", b"x" * 100) for _ in range(4)))
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    assert node.broker.context.open.size >= 4 * 64 and node.broker.background and not node.again
    node.auto = True
    node.turn([])
    assert {name for name, _ in node.disk.platter.queues.values()} == {"other"} and not node.disk.platter.retired


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("dead_letter", [None, "dead"])
@pytest.mark.parametrize("while_down", [True, False])
@pytest.mark.parametrize("kind", [{}, {"max_priority": 5}, {"partition_key": KEY}], ids=["one line", "lanes", "keys"])
def test_what_expires_after_a_restart_leaves_though_nobody_consumes(
    small: None, is_clean: bool, dead_letter: str | None, while_down: bool, kind: dict[str, Any]
) -> None:
    node = Node(queue(message_ttl_ms=1000, dead_letter=dead_letter, **kind))
    node.open(1)
    for number in range(40):
        node.say(send(1, "q", b"%d" % number))
    if is_clean:
        node.stop()
    node.now_ms += 2000 if while_down else 500
    again = node.crashed()
    again.wait(0.1)
    assert (again.numbers("q")["ready"] == 0) is while_down
    again.wait(1)
    numbers = again.numbers("q")
    assert numbers["ready"] == numbers["messages"] == 0 and again.stored("q") == []
    assert numbers["dead_lettered" if dead_letter else "expired"] == 40
