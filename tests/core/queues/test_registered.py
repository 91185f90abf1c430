"""Consumers with names: who has a name, whose keys are kept for it while it is away, and who gets nothing for now."""

from random import Random

import pytest

from radiator.core.queues.queue import Queue
from radiator.core.queues.registered import NamedConsumers, Registration
from radiator.model.commands import Send
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe, unsubscribe

PARTITIONED = pytest.mark.parametrize("persistent", [True, False])
KEYS = range(12)
LEASE_MS = 30_000


class NoLeases:
    """Nothing is ever over."""

    def away(self, registration: Registration) -> None:
        registration.due_s = 1.0

    def back(self, registration: Registration) -> None:
        registration.due_s = 0.0

    def ended(self, registration: Registration) -> None:
        registration.due_s = -1.0


def keyed(key: int, body: bytes) -> Send:
    return send(9, "q", body, headers=b"key:%d\n" % key)


def node_of(persistent: bool = False, **more: object) -> Node:
    node = Node(queue(persistent=persistent, partition_key=("header:key",), **more))
    node.open(1, 2, 3, 9)
    return node


def consumer(node: Node, connection: int, name: str, count: int = 100, **more: object) -> None:
    node.say(subscribe(connection, "q", consumer_name=name, prefetch_count=count, **more))


def all_keys(node: Node, connections: tuple[int, ...] = (1, 2)) -> dict[int, set[bytes]]:
    """One message of each key; who got which, all acked."""
    node.say(*(keyed(key, b"%d" % key) for key in KEYS))
    found = {}
    for connection in connections:
        messages = node.messages(connection)
        found[connection] = {message.message.body for message in messages}
        node.say(*map(ack, messages))
    return found


def found(node: Node) -> Queue:
    there = node.broker.destinations.queues.find("q")
    assert there is not None
    return there


def named(node: Node) -> NamedConsumers:
    there = found(node).named
    assert there is not None
    return there


def register(node: Node, name: str, is_ready: bool = True) -> Registration:
    consumers = found(node).named = found(node).named or NamedConsumers(found(node))
    registration = Registration(consumers, name, NoLeases(), is_ready, LEASE_MS)
    consumers.add(registration)
    return registration


# ---- names ----------------------------------------------------------------------------------------------------------


@PARTITIONED
def test_the_same_name_gets_the_same_keys_again(persistent: bool) -> None:
    node = node_of(persistent)
    consumer(node, 1, "a")
    consumer(node, 2, "b")
    before = all_keys(node)
    assert before[1] and before[2] and len(before[1] | before[2]) == len(KEYS)
    node.close(1)
    node.close(2)
    node.open(4, 5)
    consumer(node, 5, "b")
    consumer(node, 4, "a")
    after = all_keys(node, (4, 5))
    assert (after[4], after[5]) == (before[1], before[2])


@PARTITIONED
def test_a_newer_subscription_takes_the_name_over(persistent: bool) -> None:
    node = node_of(persistent)
    consumer(node, 1, "a")
    consumer(node, 2, "b")
    node.say(keyed(1, b"first"))
    holder = next(number for number in (1, 2) if node.delivers[number])
    name, other = ("a", 2) if holder == 1 else ("b", 1)
    (first,) = node.messages(holder)
    consumer(node, 3, name)
    noted = node.notes[-1]
    assert noted.event == "consumer_replaced" and noted.fields["connection"] == holder and noted.fields["by"] == 3
    node.say(keyed(1, b"second"))
    assert [node.bodies(number) for number in (holder, other, 3)] == [[], [], []]  # the key is with the older one still
    node.say(ack(first))
    assert [node.bodies(number) for number in (holder, other, 3)] == [[], [], [b"second"]]
    assert all_keys(node, (holder,))[holder] == set()


def test_what_the_older_one_has_comes_back_when_it_is_found_dead() -> None:
    node = node_of()
    consumer(node, 1, "a")
    node.say(keyed(1, b"x"))
    consumer(node, 2, "a")
    node.close(1)
    assert node.bodies(2) == [b"x"] and named(node).subscribed["a"].connection.number == 2


@pytest.mark.parametrize("count", [1, 100, None])
def test_the_older_one_gets_nothing_more_of_any_queue(count: int | None) -> None:
    """Whatever its window is, and whoever acks what."""
    node = Node(queue())
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", consumer_name="a", prefetch_count=count))
    node.say(send(9, "q", b"1"))
    (first,) = node.messages(1)
    node.say(subscribe(2, "q", consumer_name="a", prefetch_count=100))
    node.say(send(9, "q", b"2"), ack(first), send(9, "q", b"3"))
    assert (node.bodies(1), node.bodies(2)) == ([], [b"2", b"3"])
    node.say(unsubscribe(2, "q"), send(9, "q", b"4"), unsubscribe(1, "q"))
    assert node.bodies(1) == [] and found(node).named is not None and named(node).names() == []


def test_with_a_larger_window_of_a_key_the_next_does_not_follow_to_the_older_one() -> None:
    node = node_of(partition_window=3)
    consumer(node, 1, "a")
    node.say(keyed(1, b"1"), keyed(1, b"2"))
    held = node.messages(1)
    consumer(node, 2, "a")
    node.say(keyed(1, b"3"))
    assert node.bodies(1) == node.bodies(2) == []
    node.say(*map(ack, held))
    assert node.bodies(2) == [b"3"]


# ---- registrations --------------------------------------------------------------------------------------------------


@PARTITIONED
def test_keys_of_one_that_is_away_are_kept_for_it_and_others_get_their_messages(persistent: bool) -> None:
    node = node_of(persistent)
    consumer(node, 1, "a")
    consumer(node, 2, "b")
    before = all_keys(node)
    registration = register(node, "a")
    assert registration.subscription is not None and registration.due_s == 0
    node.close(1)
    assert registration.subscription is None and registration.due_s == 1.0
    assert all_keys(node, (2,))[2] == {b"%d" % key for key in KEYS}
    node.say(*(keyed(key, b"%d" % key) for key in KEYS))
    out = node.messages(2)
    assert len(out) == len(KEYS)
    consumer(node, 3, "a")
    assert registration.due_s == 0
    node.say(*map(ack, out))
    assert all_keys(node, (3, 2)) == {3: before[1], 2: before[2]}


def test_who_has_work_of_its_own_takes_that_of_one_that_is_away_too() -> None:
    """By age: a consumer that is always busy does not leave it behind."""
    node = node_of()
    consumer(node, 1, "a", 1)
    consumer(node, 2, "b", 1)
    before = all_keys_of_one_each(node)
    register(node, "a")
    node.close(1)
    mine, others = sorted(before[2])[:2], sorted(before[1])[0]
    node.say(keyed(int(mine[0]), b"now"))
    (now,) = node.messages(2)
    node.say(keyed(int(others), b"of a"), keyed(int(mine[1]), b"of b"), ack(now))
    assert node.bodies(2) == [b"of a"]


def all_keys_of_one_each(node: Node) -> dict[int, set[bytes]]:
    """As all_keys, with windows of one."""
    node.say(*(keyed(key, b"%d" % key) for key in KEYS))
    found: dict[int, set[bytes]] = {1: set(), 2: set()}
    while True:
        got = [*node.messages(1), *node.messages(2)]
        if not got:
            return found
        for message in got:
            found[message.connection].add(message.message.body)
        node.say(*map(ack, got))


def test_one_that_is_away_counts_where_shares_are_made_equal() -> None:
    node = node_of()
    for connection, name in ((1, "a"), (2, "b"), (3, "c")):
        consumer(node, connection, name)
    register(node, "a")
    node.close(1)
    node.say(*(keyed(key, b"x") for key in range(300)))
    assignments = found(node).partitions.assignments  # type: ignore[attr-defined]
    loads = sorted(one.load for one in [*assignments.of.values(), *assignments.away.values()])
    assert assignments.total == sum(loads) == 300 and loads[0] >= 90 and loads[-1] <= 110
    named(node).forget(named(node).registered["a"])
    node.say(*map(ack, [*node.messages(2), *node.messages(3)]))
    node.say(*(keyed(key, b"y") for key in range(300)))
    assert sorted(one.load for one in assignments.of.values())[0] >= 135 and assignments.total == 300


def test_one_that_is_not_ready_gets_nothing_until_it_is() -> None:
    node = node_of()
    registration = register(node, "a", is_ready=False)
    consumer(node, 1, "a")
    node.say(keyed(1, b"1"))
    assert node.bodies(1) == []
    named(node).heard(registration, True, LEASE_MS)
    assert len(found(node).entries_out) == 1
    named(node).heard(registration, False, LEASE_MS)
    node.say(keyed(2, b"2"))
    assert len(found(node).entries_out) == 1


def test_among_how_many_the_work_is_shared() -> None:
    """Counted as things change: each heart-beat asks for it, of thousands."""
    chance = Random(7)
    node = Node(queue(partition_key=("header:key",)))
    node.open(*range(1, 7))
    subscribed: set[int] = set()
    for _ in range(400):
        connection, name = chance.randrange(1, 7), chance.choice("abc")
        deed = chance.choice(("come", "come", "go", "register", "register", "unready", "drain", "forget"))
        registrations = node.broker.parts.registrations
        if deed == "come" and connection not in subscribed:
            node.say(subscribe(connection, "q", consumer_name=chance.choice(("a", "b", "c", ""))))
            subscribed.add(connection)
        elif deed == "go" and connection in subscribed:
            node.say(unsubscribe(connection, "q"))
            subscribed.discard(connection)
        elif deed in ("register", "unready"):
            registrations.register(found(node), name, deed == "register", LEASE_MS)
        elif deed == "drain":
            registrations.drain(found(node), name, 0, lambda unacked: None, lambda: False)
        elif deed == "forget" and found(node).named is not None and name in named(node).registered:
            named(node).forget(named(node).registered[name])
        if found(node).named is None:
            continue
        subscriptions = found(node).subscriptions
        for asked in "abcd":
            there = sum(not one.is_held and one.consumer_name != asked for one in subscriptions)
            away = [one for one in named(node).registered.values() if one.subscription is None and one.name != asked]
            assert named(node).sharing(asked, len(subscriptions)) == 1 + there + sum(one.is_ready for one in away)


def test_one_that_is_drained_gets_nothing_more_and_is_forgotten_when_it_has_gone() -> None:
    node = node_of()
    consumer(node, 1, "a")
    consumer(node, 2, "b")
    all_keys(node)
    registration = register(node, "a")
    named(node).drain(registration)
    named(node).drain(registration)
    assert all_keys(node, (2, 1)) == {2: {b"%d" % key for key in KEYS}, 1: set()}
    named(node).heard(registration, True, LEASE_MS)  # a heart-beat does not end that
    assert all_keys(node, (2, 1))[1] == set()
    node.say(unsubscribe(1, "q"))
    assert named(node).registered == {} and registration.due_s == -1.0


def test_a_new_process_ends_the_drain_of_the_old_one() -> None:
    node = node_of()
    consumer(node, 1, "a")
    named(node).drain(register(node, "a"))
    consumer(node, 2, "a")
    assert named(node).registered == {}
    node.say(keyed(1, b"1"))
    assert (node.bodies(1), node.bodies(2)) == ([], [b"1"])
    node.say(unsubscribe(1, "q"))
    assert named(node).names() == ["a"]
