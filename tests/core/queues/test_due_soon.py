"""What expires at a head, and what is delayed, is handled at its time: without a Tick, in each kind of queue.

A turn says when it wants the next one; `Node.wake` lets time pass until then. Where the rounds are wanted too, a test
lets the clock tick.
"""

from random import Random
from typing import Any

import pytest

from radiator.core.background import Expiring
from radiator.core.queues.due_soon import NEVER_MS, SOON_MS, DueSoon
from radiator.core.queues.entry import PassingEntry
from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, Event, Tick
from radiator.model.limits import BATCH_BYTES, DUE_STEP_MS, GIB, LOOKS_PER_TURN, WATCHED_LOOKS, Limits
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.writes import Delay, Put, Remove
from tests.core.backlogs import numbered
from tests.core.node import Node
from tests.core.queue_kinds import KINDS
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import ack, nack, queues, send, subscribe

EACH = pytest.mark.parametrize("kind", KINDS)
ON_DISK = pytest.mark.parametrize("kind", [kind for kind, given in KINDS.items() if given.get("persistent", True)])


def made(kind: str, **more: Any) -> Node:
    """The dead letters of `q` go to `d`, where 1 gets them; 2 is for `q`, 9 sends."""
    persistent = KINDS[kind].get("persistent", True)
    settings = QueueSettings(dead_letter="d", **(KINDS[kind] | more))
    node = Node(queues(q=settings, d=QueueSettings(persistent=persistent)))
    node.open(1, 2, 9)
    node.say(subscribe(1, "d", AUTO))
    return node


def found(node: Node, name: str = "q") -> Queue:
    return node.broker.destinations.queues.all[name]


def expiring(node: Node, body: bytes, in_ms: int, to: str = "q") -> None:
    node.say(send(9, to, body, expires_ms=node.now_ms + in_ms))


def later(node: Node, ms: int) -> None:
    """Time passes, and a turn has another reason; the clock does not tick."""
    node.now_s += ms / 1000
    node.now_ms += ms
    node.turn([])


# ---- at its time ----------------------------------------------------------------------------------------------------


@EACH
def test_what_expires_is_a_dead_letter_at_its_time_and_not_before(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 700)
    assert node.wake_in_s == pytest.approx(0.7)
    later(node, 699)
    assert node.bodies(1) == [] and node.wake_in_s == pytest.approx(0.001)
    node.wake()
    assert node.bodies(1) == [b"x"] and node.wake_in_s is None and node.numbers("q")["messages"] == 0


@EACH
def test_a_delayed_message_is_delivered_at_its_time_and_not_before(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q"), send(9, "q", b"x", delay_ms=700))
    assert node.wake_in_s == pytest.approx(0.7)
    later(node, 699)
    assert node.bodies(2) == []
    node.wake()
    assert node.bodies(2) == [b"x"] and node.wake_in_s is None


@EACH
def test_so_is_one_that_came_back_and_waits_first(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q"), send(9, "q", b"x"))
    node.say(nack(node.message(2), delay_ms=300))
    node.wake()
    assert node.now_ms % 1000 == 300 and node.bodies(2) == [b"x"]


@EACH
def test_one_that_expires_while_it_is_delayed_is_a_dead_letter_then(kind: str) -> None:
    node = made(kind)
    node.say(send(9, "q", b"x", delay_ms=800, expires_ms=node.now_ms + 200))
    node.wake()
    assert node.now_ms % 1000 == 200 and node.bodies(1) == [b"x"]


@EACH
def test_each_of_several_has_its_time(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q", prefetch_count=100))
    for body, ms in ((b"c", 300), (b"a", 100), (b"b", 200)):
        node.say(send(9, "q", body, delay_ms=ms))
    came = []
    for _ in range(3):
        node.wake()
        came.append((node.now_ms % 1000, node.bodies(2)))
    assert came == [(100, [b"a"]), (200, [b"b"]), (300, [b"c"])]


@EACH
def test_the_next_head_has_its_time_once_what_stood_before_it_is_gone(kind: str) -> None:
    node = made(kind)
    node.say(send(9, "q", b"first"))
    expiring(node, b"second", 500)
    assert node.wake_in_s is None, "it is not the head"
    node.say(subscribe(2, "q", prefetch_count=1))
    assert node.bodies(2) == [b"first"] and node.wake_in_s == pytest.approx(0.5)
    node.wake()
    assert node.bodies(1) == [b"second"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("keys")])
def test_so_it_has_where_consumers_have_priorities(kind: str) -> None:
    node = made(kind)
    node.say(send(9, "q", b"first"))
    expiring(node, b"second", 500)
    node.say(subscribe(2, "q", prefetch_count=1, consumer_priority=1))
    assert node.bodies(2) == [b"first"] and node.wake_in_s == pytest.approx(0.5)


@EACH
def test_one_behind_a_head_that_lives_longer_goes_when_that_does(kind: str) -> None:
    node = made(kind)
    expiring(node, b"long", 400)
    expiring(node, b"short", 100)
    node.wake()
    assert node.now_ms % 1000 == 400 and node.bodies(1) == [b"long", b"short"]


@EACH
def test_what_comes_back_has_expired_or_has_its_time(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q", prefetch_count=1))
    expiring(node, b"x", 600)
    out = node.message(2)
    assert node.wake_in_s is None or node.wake_in_s > 0
    later(node, 100)
    node.close(2)
    assert out.message.body == b"x" and node.wake_in_s == pytest.approx(0.5)
    node.wake()
    assert node.bodies(1) == [b"x"]


@EACH
def test_it_is_late_by_less_than_a_step(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 401)
    node.wake()
    assert node.now_ms % 1000 == 410 and node.bodies(1) == [b"x"]


@EACH
def test_what_is_due_much_later_is_found_by_a_look_within_the_last_second(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 5100)
    node.say(send(9, "q", b"delayed", delay_ms=5100))
    assert node.wake_in_s is None and not node.broker.context.due_soon.times.keys
    for _ in range(20):
        assert node.bodies(1) == []
        node.wait(0.25)
    assert node.wake_in_s == pytest.approx(0.1)
    node.wake()
    assert node.bodies(1) == [b"x"] and node.numbers("q")["ready"] == 1


def test_what_expires_in_a_temp_queue_leaves_it_at_its_time() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "/temp-queue/t", prefetch_count=1), send(1, "/temp-queue/t", b"out"))
    node.say(send(1, "/temp-queue/t", b"x", expires_ms=node.now_ms + 300))
    (queue,) = node.broker.destinations.temp_queues.by_id.values()
    assert queue.ledger.stored == 2
    node.wake()
    assert queue.ledger.stored == 1 and queue.ledger.expired == 1


def test_who_waits_for_room_gets_it_as_the_head_expires() -> None:
    node = Node(queues(q=QueueSettings(max_messages=1)))
    node.open(8, 9)
    expiring(node, b"x", 300)
    node.say(send(8, "q", b"y", b"r"))
    assert node.receipts(8) == []
    node.wake()
    assert node.receipts(8) == [b"r"] and node.stored("q") == [b"y"]


@ON_DISK
def test_after_a_crash_the_first_tick_finds_what_is_due_before_the_next(kind: str) -> None:
    node = made(kind)
    node.say(send(9, "q", b"delayed", delay_ms=300))
    expiring(node, b"x", 200)
    again = node.crashed()
    again.open(1, 2)
    again.say(subscribe(1, "d", AUTO))
    again.wait(0)
    assert again.wake_in_s == pytest.approx(0.2)
    again.wake()
    assert again.bodies(1) == [b"x"]
    again.say(subscribe(2, "q"))
    again.wake()
    assert again.now_ms % 1000 == 300 and again.bodies(2) == [b"delayed"]


@EACH
def test_a_backlog_that_is_longer_than_memory_goes_at_its_time(kind: str, small: None) -> None:
    node = made(kind)
    for number in range(30):
        expiring(node, b"%d" % number, 300)
    node.wake()
    assert node.now_ms % 1000 == 300 and sorted(node.bodies(1), key=int) == numbered(0, 30)
    assert node.wake_in_s is None and not node.broker.background and not found(node).is_expiring


@EACH
def test_so_do_the_delayed_of_one(kind: str, small: None) -> None:
    node = made(kind)
    node.say(subscribe(2, "q", AUTO))
    for number in range(30):
        node.say(send(9, "q", b"%d" % number, delay_ms=300 + number % 2))
    node.wake()
    assert node.now_ms % 1000 == 300 and len(node.bodies(2)) == 15
    node.wake()
    assert node.now_ms % 1000 == 310 and len(node.bodies(2)) == 15 and node.wake_in_s is None


def test_one_whose_batch_takes_longer_than_it_lives_goes_with_that() -> None:
    node = made("durable")
    node.auto = False
    node.say(send(9, "q", b"x", expires_ms=node.now_ms + 5))
    node.seal()
    later(node, 20)
    assert node.wake_in_s is None
    node.commit()
    assert found(node).ledger.stored == 0, "in the turn in which it would have been READY"


# ---- no more turns than that ----------------------------------------------------------------------------------------


@EACH
def test_what_neither_expires_nor_is_delayed_asks_for_no_turn(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q", prefetch_count=1), *(send(9, "q", body) for body in numbered(0, 5)))
    node.say(nack(node.message(2)))
    node.say(ack(node.message(2)))
    node.wait(0.25)
    assert node.wake_in_s is None and not node.broker.context.due_soon.times.keys


@EACH
def test_a_queue_has_one_time_however_much_comes_and_goes(kind: str) -> None:
    node = made(kind)
    node.say(subscribe(2, "q", AUTO))
    for number in range(100):
        later(node, 1)
        expiring(node, b"%d" % number, 300)
    assert len(node.bodies(2)) == 100
    times = node.broker.context.due_soon.times
    assert sum(map(len, times.buckets.values())) <= 1 and len(times.keys) <= 1
    node.say(*(send(9, "q", b"x", delay_ms=900 - number) for number in range(100)))
    assert sum(map(len, times.buckets.values())) == 1 and len(times.keys) <= 11


@EACH
def test_a_time_that_means_nothing_any_more_costs_one_turn(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 300)
    node.say(subscribe(2, "q", AUTO))
    assert node.bodies(2) == [b"x"] and node.wake_in_s is not None
    before = node.broker.context.batches
    node.wake()
    assert node.wake_in_s is None and not node.again and node.broker.context.batches == before


@EACH
def test_what_must_wait_for_the_disk_is_not_asked_for_again_and_goes_on_by_itself(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 300)
    node.auto = False
    node.broker.context.open.size = BATCH_BYTES
    node.wake()
    assert found(node).is_expiring and (node.wake_in_s, node.again) == (None, False)
    later(node, 50)
    assert (node.wake_in_s, node.again) == (None, False)
    node.broker.context.open.size = 0
    node.auto = True
    node.turn([])
    assert node.bodies(1) == [b"x"] and not found(node).is_expiring


@ON_DISK
def test_what_is_read_back_is_asked_for_once(kind: str) -> None:
    node = made(kind)
    node.say(send(9, "q", b"x", delay_ms=300))
    node.auto = False
    node.wake()
    assert len(node.read_requests) == 1 and (node.wake_in_s, node.again) == (None, False)
    later(node, 50)
    assert len(node.read_requests) == 1 and (node.wake_in_s, node.again) == (None, False)
    node.auto = True
    node.turn([])
    assert node.numbers("q")["ready"] == 1


def test_of_one_that_may_not_wait_no_turn_is_asked_for() -> None:
    node = made("memory")
    queue = found(node)
    node.say(send(9, "q", b"first"), send(9, "q", b"x", expires_ms=node.now_ms))
    assert isinstance([*queue.in_memory()][-1], PassingEntry) and node.wake_in_s is None
    node.say(subscribe(2, "q", prefetch_count=1))
    assert node.bodies(2) == [b"first"] and node.bodies(1) == [b"x"] and node.wake_in_s is None
    node.auto = False
    node.say(send(9, "q", b"y", expires_ms=node.now_ms))
    assert node.bodies(1) == [b"y"] and (node.wake_in_s, node.again) == (None, False)


@EACH
def test_a_queue_that_is_deleted_is_nobodys(kind: str) -> None:
    node = Node()
    node.open(9)
    node.admin(9, do="declare", queue="q", persistent=KINDS[kind].get("persistent", True))
    expiring(node, b"x", 300)
    node.admin(9, do="delete", queue="q")
    node.wake()
    assert node.wake_in_s is None and not node.has("q")


def test_nothing_is_looked_at_once_it_stops() -> None:
    node = made("durable")
    expiring(node, b"x", 300)
    node.stop()
    assert node.wake_in_s is None


# ---- the clock ------------------------------------------------------------------------------------------------------


@EACH
def test_a_clock_that_is_set_on_loses_nothing(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 500)
    node.say(send(9, "q", b"delayed", delay_ms=600))
    node.now_ms += 3_600_000
    node.turn([])
    assert node.bodies(1) == [b"x"] and node.numbers("q")["ready"] == 1 and node.wake_in_s is None


@EACH
def test_a_clock_that_is_set_back_makes_no_turns_and_loses_nothing(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 500)
    node.now_ms -= 3_600_000
    node.turn([])
    assert node.wake_in_s == pytest.approx(3600.5) and not node.again
    node.wait(0.25)
    expiring(node, b"y", 100)
    node.say(send(9, "q", b"soon", delay_ms=200))
    assert node.wake_in_s == pytest.approx(0.2), "x is the head"
    node.wake()
    assert node.numbers("q")["ready"] == 3
    node.wait(3600.5)
    assert node.bodies(1) == [b"x", b"y"] and node.numbers("q")["ready"] == 1


@EACH
def test_what_was_missed_is_found_by_the_next_tick(kind: str) -> None:
    node = made(kind)
    expiring(node, b"x", 100)
    node.say(send(9, "q", b"delayed", delay_ms=100))
    node.broker.context.due_soon.times.take_due(1e18, 1)  # and the queue thinks that it is there
    assert found(node).due_soon_ms < NEVER_MS
    node.wait(0.25)
    assert node.bodies(1) == [b"x"] and node.numbers("q")["ready"] == 1


# ---- many -----------------------------------------------------------------------------------------------------------


def many(count: int, node_type: type[Node] = Node) -> Node:
    """So many queues in memory."""
    patterns = [("m.#", QueueSettings(persistent=False))]
    declared = Declarations(create_queues=True, queue_patterns=patterns)
    node = node_type(declared, Limits(max_destinations=40_000))
    node.open(9)
    for number in range(count):
        node.broker.destinations.queues.get(f"m.{number}").used()
    return node


def test_a_turn_looks_at_some_and_the_next_ones_at_the_others() -> None:
    at_once = LOOKS_PER_TURN // WATCHED_LOOKS
    node = many(3 * at_once)
    for number in range(3 * at_once):
        expiring(node, b"x", 300, f"m.{number}")
    node.auto = False
    for left in (2 * at_once, at_once):
        node.now_s, node.now_ms = node.now_s + 0.3 * (left > at_once), node.now_ms + 300 * (left > at_once)
        node.turn([])
        assert node.again and sum(map(len, node.broker.context.due_soon.times.buckets.values())) == left
    node.turn([])
    assert node.wake_in_s is None
    node.auto = True
    node.turn([])
    assert not node.broker.background
    assert all(found(node, f"m.{number}").ledger.stored == 0 for number in range(3 * at_once))


@measures_turns
@pytest.mark.parametrize("way", ["expires", "delay"])
def test_thousands_that_are_due_at_once_make_no_long_turn(way: str) -> None:
    node = many(5000, Timed)
    assert isinstance(node, Timed)

    def make() -> list[Event]:
        node.wait(1)
        for number in range(5000):
            expires_ms = node.now_ms + 900 if way == "expires" else None
            node.say(send(9, f"m.{number}", expires_ms=expires_ms, delay_ms=900 if way == "delay" else None))
        node.now_s += 0.9
        node.now_ms += 900
        return []

    assert node.longest_turn_s(make) <= TURN_MAX_S


# ---- whatever happens -----------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_and_goes_nothing_is_late_by_more_than_a_step(kind: str, seed: int, small: None) -> None:
    random, node = Random(seed), made(kind)
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=2))
    for tick in range(1200):
        queue = found(node)
        if random.random() < 0.15:
            ways = {"expires_ms": node.now_ms + random.randint(1, 400), "delay_ms": random.randint(1, 400)}
            chosen = {way: ways[way] for way in ways if random.random() < 0.5}
            node.say(send(9, "q", b"%d" % tick, headers=b"key:%d\npriority:%d\n" % (tick % 3, tick % 6), **chosen))
        for deliver in node.messages(2):
            if random.random() < 0.5:
                node.say(ack(deliver))
            else:
                node.say(nack(deliver, delay_ms=random.choice((None, 1, 150)), requeue=random.random() < 0.8))
        node.now_s += 0.01
        node.now_ms += DUE_STEP_MS
        node.turn([Tick(GIB, node.disk.used_bytes())] if tick % 25 == 0 else [])
        head = queue.head()
        assert head is None or not 0 < head.message.expires_ms <= node.now_ms - DUE_STEP_MS, "it has expired"
        assert not 0 < queue.next_due_ms <= node.now_ms - DUE_STEP_MS, "its delay is over"
        assert Expiring(node.broker.context, queue).is_done


# ---- the parts ------------------------------------------------------------------------------------------------------


def test_an_earlier_time_takes_the_place_of_a_later_one_and_no_other_does() -> None:
    node = made("memory")
    queue, due_soon, now_ms = found(node), DueSoon(), 1_000_000
    for ms in (500, 700, 300, 400):
        due_soon.add(queue, now_ms + ms, now_ms)
    assert queue.due_soon_ms == now_ms + 300 and due_soon.first_in_s(now_ms) == pytest.approx(0.3)
    assert due_soon.take(now_ms + 299) is None
    assert due_soon.take(now_ms + 300) is queue and queue.due_soon_ms == NEVER_MS
    assert due_soon.take(now_ms + 10_000) is None and due_soon.first_in_s(now_ms) is None


def test_only_what_is_due_soon_is_kept() -> None:
    node = made("memory")
    queue, due_soon, now_ms = found(node), DueSoon(), 1_000_000
    due_soon.add(queue, now_ms + SOON_MS + 1, now_ms)
    assert queue.due_soon_ms == NEVER_MS and not due_soon.times.keys
    due_soon.add(queue, now_ms + SOON_MS, now_ms)
    assert queue.due_soon_ms == now_ms + SOON_MS


def test_a_dead_letter_is_in_the_batch_that_removes_it_here_too() -> None:
    node = made("durable")
    expiring(node, b"x", 300)
    node.auto = False
    node.wake()
    writes = node.broker.context.open.writes
    assert [type(write) for write in writes if isinstance(write, Put | Remove | Delay)] == [Put, Remove]
