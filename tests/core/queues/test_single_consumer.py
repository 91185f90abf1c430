"""The single active consumer: who it is, who follows it and when, and what the next one gets first."""

import random
from collections import deque

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.getting import Get
from radiator.model.replies import Empty
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, address, nack, queue, send, subscribe, unsubscribe

KINDS = pytest.mark.parametrize(
    "settings", [{}, {"persistent": False}, {"max_priority": 3}, {"max_priority": 3, "persistent": False}]
)


def node_of(*connections: int, **settings: object) -> Node:
    node = Node(queue(single_active_consumer=True, **settings))
    node.open(*connections, 9)
    return node


def fill(node: Node, *bodies: bytes) -> None:
    for body in bodies:
        node.say(send(9, "q", body))


@KINDS
def test_only_the_first_one_gets_messages(settings: dict[str, object]) -> None:
    node = node_of(1, 2, **settings)
    node.say(subscribe(1, "q", prefetch_count=2), subscribe(2, "q", prefetch_count=9))
    fill(node, b"0", b"1", b"2")
    assert (node.bodies(1), node.bodies(2)) == ([b"0", b"1"], [])


def test_without_the_setting_all_get_some() -> None:
    node = Node(queue())
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=2), subscribe(2, "q", prefetch_count=9))
    fill(node, b"0", b"1", b"2")
    assert (node.bodies(1), node.bodies(2)) == ([b"0", b"2"], [b"1"])


@KINDS
def test_what_a_lost_one_held_comes_first_to_the_next(settings: dict[str, object]) -> None:
    node = node_of(1, 2, 3, **settings)
    for number in (1, 2, 3):
        node.say(subscribe(number, "q", prefetch_count=2))
    fill(node, b"0", b"1", b"2", b"3")
    node.close(1)
    first = node.messages(2)
    assert ([one.message.body for one in first], node.bodies(3)) == ([b"0", b"1"], [])
    node.say(*map(ack, first))
    assert node.bodies(2) == [b"2", b"3"]


@KINDS
def test_the_next_waits_until_what_an_unsubscribed_one_has_is_settled(settings: dict[str, object]) -> None:
    node = node_of(1, 2, **settings)
    node.say(subscribe(1, "q", prefetch_count=2), subscribe(2, "q", prefetch_count=9))
    fill(node, b"0", b"1", b"2")
    node.say(unsubscribe(1, "q"))
    first, second = node.messages(1)
    node.say(ack(first))
    assert not node.bodies(2), "one is still unacked"
    node.say(nack(second))
    assert node.bodies(2) == [b"1", b"2"] and not node.bodies(1)


def test_one_that_leaves_with_nothing_is_followed_at_once() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q"), subscribe(2, "q", prefetch_count=9), unsubscribe(1, "q"))
    fill(node, b"0")
    assert node.bodies(2) == [b"0"]


@KINDS
def test_one_that_acks_by_being_written_is_followed_when_all_is_written(settings: dict[str, object]) -> None:
    node = node_of(1, 2, **settings)
    node.say(subscribe(1, "q", AUTO), subscribe(2, "q", prefetch_count=9))
    node.reads_slowly.add(1)
    fill(node, b"0")
    node.say(unsubscribe(1, "q"))
    fill(node, b"1")
    assert not node.bodies(2), "it may come back: not all is written"
    node.reads_slowly.clear()
    node.turn([])
    assert node.bodies(2) == [b"1"]


def test_the_highest_priority_follows_and_takes_nothing_from_who_is_active() -> None:
    node = node_of(1, 2, 3, 4)
    node.say(subscribe(1, "q", prefetch_count=9), subscribe(2, "q"), subscribe(3, "q", consumer_priority=5))
    node.say(subscribe(4, "q", consumer_priority=5))
    fill(node, b"0")
    assert node.bodies(1) == [b"0"]
    node.close(1)
    assert [node.bodies(number) for number in (2, 3, 4)] == [[], [b"0"], []]


def test_one_that_is_held_stands_by_once_it_has_nothing_and_may_come_back() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", consumer_name="a", prefetch_count=9), subscribe(2, "q", prefetch_count=9))
    fill(node, b"0")
    assert node.admin(9, do="consumer-register", queue="q", name="a", ready=False)["ok"]
    fill(node, b"1")
    assert not node.bodies(2), "one is still unacked"
    node.say(ack(node.message(1)))
    assert node.bodies(2) == [b"1"]
    assert node.admin(9, do="consumer-register", queue="q", name="a")["ok"]
    fill(node, b"2")
    assert (node.bodies(1), node.bodies(2)) == ([], [b"2"])
    node.close(2)
    assert node.bodies(1) == [b"1", b"2"]


def test_a_further_subscription_of_the_same_connection_needs_not_wait() -> None:
    node = node_of(1)
    node.say(subscribe(1, "q", CLIENT, prefetch_count=1), subscribe(1, "q", name=b"2", prefetch_count=5))
    fill(node, b"0", b"1")
    node.say(unsubscribe(1, "q"))
    assert node.bodies(1) == [b"0", b"1"]


def test_a_get_beside_another_is_refused_and_is_the_one_where_nobody_is() -> None:
    node = node_of(1, 2)
    fill(node, b"0", b"1")
    node.say(Get(1, address("q"), b"g", CLIENT), Get(1, address("q"), b"h", CLIENT))
    assert node.bodies(1) == [b"0", b"1"]
    node.say(subscribe(2, "q"))
    assert not node.bodies(2), "what the Gets took is unacked"
    node.say(Get(1, address("q"), b"g", CLIENT))
    refusal = node.refusal(1)
    assert refusal.code == "exclusive" and "single_active_consumer" in refusal.sentence
    assert not [reply for reply in node.inbox[1] if isinstance(reply, Empty)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [({"exclusive": True}, "exclusive = true"), ({"partition_key": ("/a",)}, 'partition_key = "/a"')],
)
def test_what_contradicts_it_is_refused(more: dict[str, object], expected: str) -> None:
    node = Node(Declarations(create_queues=True))
    node.open(1)
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in more.items()}
    answer = node.admin(1, do="declare", queue="x", single_active_consumer=True, **given)
    assert not answer["ok"] and expected in answer["error"] and "single_active_consumer" in answer["error"]
    assert node.admin(1, do="declare", queue="x", **given)["ok"]


def test_why_says_who_is_active_and_who_stands_by_and_what_the_next_waits_for() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", prefetch_count=1, consumer_name="a"), subscribe(2, "q", consumer_name="b"))
    fill(node, b"0", b"1")
    why = node.admin(9, do="why", queue="q")
    assert [one["stands"] for one in why["consumer_list"]] == ["window", "stand-by"]
    assert "Connection 1 has its single active consumer, and 1 other stands by." in why["sentence"]
    named = node.admin(9, do="consumers", queue="q")["consumers"]
    assert [one["stands"] for one in named] == ["window", "stand-by"]
    node.say(unsubscribe(1, "q"))
    why = node.admin(9, do="why", queue="q")
    assert why["verdict"] == "taking-over" and "1 message is unacked with connection 1" in why["sentence"]


def test_the_setting_counts_from_when_nobody_is_subscribed() -> None:
    node = Node(queue())
    node.open(1, 2, 9)
    node.say(subscribe(1, "q"), subscribe(2, "q"))
    one = node.broker.destinations.queues.all["q"]
    one.use(QueueSettings(single_active_consumer=True))
    fill(node, b"0", b"1")
    (first,), (second,) = node.messages(1), node.messages(2)
    node.say(ack(first), ack(second))
    node.say(unsubscribe(1, "q"), unsubscribe(2, "q"))
    node.say(subscribe(1, "q", prefetch_count=9), subscribe(2, "q"))
    fill(node, b"2", b"3")
    assert node.bodies(1) == [b"2", b"3"]
    one.use(QueueSettings())
    node.say(subscribe(1, "q", name=b"2"))
    fill(node, b"4")
    assert node.bodies(1) == [b"4"] and not node.bodies(2), "they are subscribed"
    node.close(1)
    node.close(2)
    node.open(3, 4)
    node.say(subscribe(3, "q"), subscribe(4, "q"))
    assert (len(node.bodies(3)), len(node.bodies(4))) == (1, 1)


def test_one_that_stands_by_is_no_room_for_a_message_that_must_go_out_at_once() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", prefetch_count=1), subscribe(2, "q", prefetch_count=9))
    node.say(send(9, "q", b"0", immediate=True))
    assert node.bodies(1) == [b"0"]
    node.say(send(9, "q", b"1", immediate=True))
    assert node.is_refused(9)


@pytest.mark.parametrize("start", range(40))
def test_whatever_consumers_do_messages_are_settled_in_their_order(start: int) -> None:
    """The model: one at a time has all that is out; each delivery is the first of what is neither out nor settled."""
    chance = random.Random(start)
    node = node_of(*range(1, 7), persistent=chance.random() < 0.5)
    waiting: deque[int] = deque()  # what the model has in the queue, in order
    out: dict[int, list[int]] = {}  # by connection
    line: list[tuple[int, int]] = []  # who is subscribed: priority, connection; by time
    active: int | None = None
    is_open, sent = set(range(1, 7)), 0
    unsettled: dict[int, dict[int, object]] = {number: {} for number in is_open}

    def expect() -> None:
        nonlocal active
        following = max(line, key=lambda one: one[0])[1] if line else None
        if active is None and all(number == following for number, held in out.items() if held):
            active = following
        while active is not None and waiting and len(out.setdefault(active, [])) < 3:
            out[active].append(waiting.popleft())

    for _ in range(120):
        c = chance.choice(sorted(is_open))
        word = chance.choice(["send", "send", "subscribe", "unsubscribe", "ack", "ack", "nack", "close"])
        subscribed = c in [one[1] for one in line]
        if word == "send":
            node.say(send(9, "q", b"%d" % sent))
            waiting.append(sent)
            sent += 1
        elif word == "subscribe" and not subscribed and not out.get(c):
            priority = chance.choice([0, 0, 1, -2])
            node.say(subscribe(c, "q", prefetch_count=3, consumer_priority=priority))
            line.append((priority, c))
        elif word == "unsubscribe" and subscribed:
            node.say(unsubscribe(c, "q"))
            line = [one for one in line if one[1] != c]
            active = None if active == c else active
        elif word in ("ack", "nack") and out.get(c):
            number = chance.choice(out[c])
            out[c].remove(number)
            node.say((ack if word == "ack" else nack)(unsettled[c].pop(number)))  # type: ignore[arg-type]
            if word == "nack":
                waiting = deque(sorted([*waiting, number]))
        elif word == "close" and len(is_open) > 1:
            node.close(c)
            is_open.discard(c)
            line = [one for one in line if one[1] != c]
            active = None if active == c else active
            waiting = deque(sorted([*waiting, *out.pop(c, [])]))
        expect()
        for number in is_open:
            for deliver in node.messages(number):
                unsettled[number][int(deliver.message.body)] = deliver
            assert sorted(unsettled[number]) == sorted(out.get(number, [])), (word, c)


def test_no_consumer_is_exclusive_where_others_may_stand_by() -> None:
    node = Node(queue(single_active_consumer=True))
    node.open(1, 2)
    node.say(subscribe(1, "q", exclusive=True))
    assert node.refusal(1).code == "exclusive"
    node.say(subscribe(2, "q"))
    assert not node.is_refused(2)
