"""Which message may go to whom, and what it costs to know: never a look at all keys, nor a list that only grows."""

import heapq
from types import SimpleNamespace
from typing import Any

import pytest

from radiator.core.queues import free_partitions
from radiator.core.queues.entry import Stub
from radiator.core.queues.free_partitions import STALE_PLACES
from radiator.core.queues.partitions import SLOW_MS, Partitions
from radiator.model.keys import hash_of
from radiator.model.limits import KEY_MESSAGES, WINDOW_MESSAGES
from tests.core import bare
from tests.core.conftest import shrink
from tests.core.keyed import consume, got, is_clean, keyed, names, partitions, say
from tests.core.words import ack, nack, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


def made(window: int = 1) -> Partitions:
    """Their keys are the first bytes of the bodies."""
    queue = bare.in_memory()
    return Partitions(lambda message: message.body[:1], window, queue.ring)


def put(one: Partitions, position: int, body: bytes = b"a") -> None:
    entry = bare.entry(position)
    entry.message = bare.message(body)
    one.put(one.of(entry.message), entry)


def free(one: Partitions) -> list[int]:
    one.look()
    return sorted(one.free)


# ---- what is free ---------------------------------------------------------------------------------------------------


def test_the_first_of_each_key_is_free() -> None:
    one = made()
    for position, body in enumerate([b"a", b"a", b"b", b"a", b"b", b"c"], 1):
        put(one, position, body)
    assert free(one) == [1, 3, 6] and len(one) == 6
    head, oldest = one.free_head(), one.head()
    assert head is not None and head is oldest and head.position == 1


def test_one_that_comes_to_a_place_before_the_others_is_free_instead() -> None:
    one = made()
    put(one, 5)
    assert free(one) == [5]
    put(one, 3)
    assert free(one) == [3]


def test_a_stub_is_not_free_but_lacking() -> None:
    one = made()
    put(one, 1)
    put(one, 2)
    one.look()
    entry = one.entries[1]
    entry.message = Stub(entry.message)
    one.look_at_all()
    assert free(one) == [] and [stub.position for stub in one.stubs(is_needed=False)] == [1]
    entry.message = bare.message(b"a")
    one.touched[one.at[1]] = None
    assert free(one) == [1] and [*one.stubs(is_needed=True)] == []


def test_what_is_held_holds_only_what_is_behind_it() -> None:
    one = made()
    for position in (3, 5):
        put(one, position)
    one.take(one.entries[3])
    one.at[3].out = 1
    one.at[3].out = 0
    one.hold(3)
    assert free(one) == []
    put(one, 2)
    assert free(one) == [2]
    one.let_go(3)
    one.gone(2)
    assert free(one) == [5]


def test_a_key_held_since_before_the_start_is_known_by_its_hash_alone() -> None:
    one = made()
    put(one, 7)
    one.recover_held(3, hash_of(b"a"))
    one.recover_held(4, hash_of(b"a"))
    one.recover_held(5, hash_of(b"b"))
    assert not one.has_place(one.of(bare.message(b"b")), 0)
    put(one, 8, b"b")
    put(one, 9, b"c")
    assert free(one) == [9]
    one.let_go(3)
    assert free(one) == [9]
    one.let_go(4)
    assert free(one) == [7, 9]
    one.gone(5)
    assert free(one) == [7, 8, 9] and not one.held_by_hash and not one.held_back and not one.found_held


@pytest.mark.parametrize(("line", "has"), [(KEY_MESSAGES - 1, True), (KEY_MESSAGES, False)])
def test_so_many_of_a_key_may_be_in_memory(line: int, has: bool) -> None:
    one = made()
    for position in range(1, line + 1):
        put(one, position)
    assert one.has_place(one.keyed[b"a"], line) is has


@pytest.mark.parametrize(("count", "has"), [(WINDOW_MESSAGES // 2 - 1, True), (WINDOW_MESSAGES // 2, False)])
def test_what_must_wait_has_half_of_the_window(count: int, has: bool) -> None:
    one = made()
    put(one, 1)
    assert one.has_place(one.keyed[b"a"], count) is has
    assert one.has_place(one.of(bare.message(b"b")), count), "the first of a key always may"


def test_behind_what_is_on_the_disk_alone_nothing_may_be_in_memory() -> None:
    one = made()
    put(one, 1)
    one.skip(one.keyed[b"a"], 2, 1)
    assert not one.has_place(one.keyed[b"a"], 0) and one.behind_count == 1
    one.look()
    one.gone(1)
    one.look()
    assert [*one.wanting] == [one.keyed[b"a"]]
    one.was_read(one.keyed[b"a"], 1, 2, is_complete=True)
    one.look()
    assert not one.wanting and not one.behind and not one.keyed and one.behind_count == 0


@BOTH
@pytest.mark.parametrize("set_by_ms", [-3_600_000, 0, 3_600_000])
@pytest.mark.parametrize(("waited_ms", "first"), [(SLOW_MS - 1, "e1"), (SLOW_MS, "d1")])
def test_what_waits_for_a_slow_consumer_goes_to_another_before_its_own(
    persistent: bool, waited_ms: int, first: str, set_by_ms: int
) -> None:
    """However the clock is set meanwhile: set back by an hour, nothing of a stuck consumer's went on for that hour."""
    node = keyed(persistent)
    node.say(consume(1, prefetch_count=2))
    say(node, "a1 b1 c1 d1")
    assert names(node) == "a1 b1"  # it has no room any more, and d is assigned to it
    node.say(consume(2, prefetch_count=1))
    out = got(node, 2)
    say(node, "e1")
    node.now_ms += set_by_ms
    node.wait(waited_ms / 1000)
    node.say(ack(out["c1"]))
    assert [*out] == ["c1"] and names(node, 2) == first


# ---- what is remembered ---------------------------------------------------------------------------------------------


@BOTH
def test_of_what_has_left_nothing_is_remembered(persistent: bool) -> None:
    node = keyed(persistent, 3)
    node.say(consume(1), consume(2))
    for number in range(200):
        say(node, f"{chr(97 + number % 20)}{number} {number}")
        for connection in (1, 2):
            for deliver in node.messages(connection):
                node.say(nack(deliver) if number % 7 == 0 else ack(deliver))
    for _ in range(50):
        for connection in (1, 2):
            node.say(*map(ack, node.messages(connection)))
    assert node.numbers("q")["messages"] == 0 and is_clean(node)
    assert not any(one.heads and len(one.heads) > 2 * STALE_PLACES for one in partitions(node).assignments.of.values())


@BOTH
@pytest.mark.parametrize("consumers", [0, 1])
def test_heaps_do_not_grow_with_the_messages_of_a_key_that_waits(persistent: bool, consumers: int) -> None:
    node = keyed(persistent, max_messages=10**6, max_bytes=10**9)
    if consumers:
        node.say(consume(1, prefetch_count=1))
    say(node, "b1 b2")
    for number in range(1000):
        say(node, f"a{number}")
    one = partitions(node)
    for heap in (
        one.free_ones.heads,
        one.free_ones.unassigned,
        *(assignee.heads for assignee in one.assignments.of.values()),
    ):
        assert len(heap) <= 2 * (len(one.free) + STALE_PLACES) + 1


@BOTH
def test_heaps_do_not_grow_behind_a_slow_consumer(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1, prefetch_count=1), consume(2, prefetch_count=2))
    say(node, " ".join(f"{key}0" for key in "abcdefgh"))
    assert len(got(node)) == 1
    for number in range(1000):
        say(node, f"{'abcdefgh'[number % 8]}{number}")
        node.say(*map(ack, node.messages(2)))
    one = partitions(node)
    one.look()
    for heap in (
        one.free_ones.heads,
        one.free_ones.unassigned,
        *(assignee.heads for assignee in one.assignments.of.values()),
    ):
        assert len(heap) <= 2 * (len(one.free) + STALE_PLACES) + 1
    assert len(one.ages) <= 2 * (len(one.entries) + STALE_PLACES) + 1


@BOTH
def test_heaps_do_not_grow_with_a_consumer_that_is_held_and_released(persistent: bool) -> None:
    node = keyed(persistent, max_messages=10**6)
    node.say(subscribe(1, "q", consumer_name="a", prefetch_count=1))
    say(node, " ".join(chr(number) for number in range(200, 500)))
    asked = {"do": "consumer-register", "queue": "q", "name": "a"}
    for number in range(40):
        assert node.admin(9, **asked, ready=number % 2 == 1)["ok"]
    one = partitions(node)
    one.look()
    assert len(one.free) == 299 and len(one.free_ones.unassigned) <= 2 * (len(one.free) + STALE_PLACES)


@pytest.mark.parametrize("is_registered", [False, True])
def test_consumers_that_go_and_come_together_do_not_each_look_at_all_keys(
    is_registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one turn: a thousand of them, at a hundred thousand keys, took seconds."""
    consumers, keys = 100, 3000
    node = keyed(False, max_messages=10**6)
    queue = node.broker.destinations.queues.find("q")
    assert queue is not None
    come = [
        subscribe(1, "q", name=b"%d" % number, prefetch_count=1, consumer_name=f"c{number}" if is_registered else "")
        for number in range(consumers)
    ]
    node.say(*come)
    for number in range(consumers if is_registered else 0):
        node.broker.parts.registrations.register(queue, f"c{number}", True, 30_000)
    node.say(*(send(9, "q", headers=b"key:%d\n" % number) for number in range(keys)))
    looked_at = 0

    class Counting(dict[int, object]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += len(self)
            return super().items()

    def heapify(heap: list[Any]) -> None:
        nonlocal looked_at
        looked_at += len(heap)
        heapq.heapify(heap)

    one = partitions(node)
    one.free = one.free_ones.by_place = Counting(one.free)  # type: ignore[assignment]
    monkeypatch.setattr(free_partitions, "heapq", SimpleNamespace(**{**vars(heapq), "heapify": heapify}))
    node.close(1)
    node.open(1)
    node.say(*come)
    one.look()
    assert looked_at < 10 * keys and len(one.free) == keys - consumers


def test_keys_that_are_out_are_not_looked_at_while_there_is_no_room(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 8})
    node = keyed()
    node.say(consume(1, prefetch_count=1000))
    keys = [chr(97 + number) for number in range(26)]
    say(node, " ".join(f"{key}{number}" for number in range(3) for key in keys))
    one = partitions(node)
    assert len(got(node)) == 26 and not one.wanting and len(one.early) > 15
    assert len(one) <= 8


# ---- who gets what --------------------------------------------------------------------------------------------------


@BOTH
def test_a_key_stays_with_its_consumer_while_that_has_room(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), consume(2))
    owners: dict[str, set[int]] = {}
    for number in range(400):
        say(node, f"{chr(97 + number % 20)}{number}")
        for connection in (1, 2):
            for deliver in node.messages(connection):
                owners.setdefault(deliver.message.body.decode()[0], set()).add(connection)
                node.say(ack(deliver))
    assert all(len(connections) == 1 for connections in owners.values()) and len(owners) == 20
    assert partitions(node).moves == 0 and {*map(tuple, owners.values())} == {(1,), (2,)}


@BOTH
def test_a_newcomer_gets_a_share_of_keys_that_are_always_active(persistent: bool) -> None:
    node = keyed(persistent, max_messages=10**6, max_bytes=10**9)
    node.say(consume(1))
    keys = [chr(97 + number) for number in range(20)]
    say(node, " ".join(f"{key}{number}" for number in range(10) for key in keys))
    node.say(consume(2))
    given: list[str] = []
    for _ in range(5):
        given += names(node, 2).split()
        for deliver in node.messages(1):
            node.say(ack(deliver))
    assert 9 <= len({body[0] for body in given}) <= 11 and partitions(node).moves >= 9


@BOTH
def test_keys_of_one_that_goes_are_given_to_others(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1, prefetch_count=1), consume(2, prefetch_count=1))
    say(node, "a1 b1 c1 d1")
    assert len(got(node)) == len(got(node, 2)) == 1
    node.close(2)
    one = partitions(node)
    one.look()
    assert one.assignments.known == 1 and len(one.free) == 3


@BOTH
def test_without_consumers_nothing_is_assigned_and_who_comes_gets_all(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 b1 1")
    out = got(node)
    node.say(unsubscribe(1, "q"))
    say(node, "a2 c1")
    one = partitions(node)
    assert one.assignments.known == one.assignments.total == 0
    node.say(consume(2))
    assert names(node, 2) == "c1"
    node.say(*map(ack, out.values()))
    assert names(node, 2) == "a2"


def test_who_had_a_key_before_gets_none_of_it_while_another_has_some() -> None:
    one, queue = made(3), bare.in_memory()
    first, second = bare.consumer(queue), bare.consumer(queue)
    for name, subscription in (("1", first), ("2", second)):
        one.assignments.join(name, subscription)
    for position in (1, 2, 3):
        put(one, position)
    for position, subscription, other in ((1, first, second), (2, second, first)):
        one.look()
        entry = one.entries[position]
        one.hand(entry, subscription)
        one.look()
        after = one.choose(subscription, 0)
        assert after is one.entries[position + 1] and one.choose(other, 0) is None
        if position == 1:
            one.at[1].out -= 1
            one.at[1].holder = None
            one.gone(1)
            one.assignments.of[first].flows[one.keyed[b"a"]] = None  # as while it had no room
