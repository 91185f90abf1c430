"""Consumers with priorities: the highest with room gets the next message, and equal ones take turns."""

import random
from dataclasses import replace

import pytest

from radiator.core.queues.consumer_ranks import ConsumerRanks
from radiator.model.commands import AUTO
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe, unsubscribe

KINDS = pytest.mark.parametrize(
    "settings", [{}, {"persistent": False}, {"max_priority": 3}, {"max_priority": 3, "persistent": False}]
)


def node_of(*connections: int, **settings: object) -> Node:
    node = Node(queue(**settings))
    node.open(*connections, 9)
    return node


def fill(node: Node, count: int) -> None:
    for number in range(count):
        node.say(send(9, "q", b"%d" % number))


@KINDS
def test_the_highest_gets_all_that_it_has_room_for_and_then_the_next(settings: dict[str, object]) -> None:
    node = node_of(1, 2, 3, **settings)
    for number, priority in ((1, -1), (2, 7), (3, 0)):
        node.say(subscribe(number, "q", prefetch_count=2, consumer_priority=priority))
    fill(node, 5)
    first, second = node.messages(2)
    assert [first.message.body, second.message.body] == [b"0", b"1"]
    assert (node.bodies(1), node.bodies(3)) == ([b"4"], [b"2", b"3"])
    node.say(ack(first), send(9, "q", b"5"))
    assert node.bodies(2) == [b"5"], "it has room again"


def test_without_priorities_they_take_turns() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", prefetch_count=9), subscribe(2, "q", prefetch_count=9))
    fill(node, 4)
    assert (node.bodies(1), node.bodies(2)) == ([b"0", b"2"], [b"1", b"3"])


@KINDS
def test_equal_ones_take_turns(settings: dict[str, object]) -> None:
    node = node_of(1, 2, 3, **settings)
    node.say(subscribe(1, "q", prefetch_count=9))
    for number in (2, 3):
        node.say(subscribe(number, "q", prefetch_count=9, consumer_priority=1))
    fill(node, 4)
    assert [node.bodies(number) for number in (1, 2, 3)] == [[], [b"0", b"2"], [b"1", b"3"]]


def test_one_that_has_left_keeps_nothing_from_others() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", AUTO, consumer_priority=1), subscribe(2, "q", prefetch_count=9))
    node.say(unsubscribe(1, "q"))
    fill(node, 2)
    assert node.bodies(2) == [b"0", b"1"]


def test_of_one_connection_the_higher_comes_first_when_both_have_room_again() -> None:
    node = node_of(1)
    node.say(subscribe(1, "q", name=b"low", prefetch_count=1))
    node.say(subscribe(1, "q", name=b"high", prefetch_count=1, consumer_priority=2))
    fill(node, 4)
    first = node.messages(1)
    node.say(*map(ack, first))
    assert [one.subscription for one in [*first, *node.messages(1)]] == [b"high", b"low", b"high", b"low"]


def test_of_one_connection_the_higher_comes_first_though_it_is_the_turn_of_the_other() -> None:
    node = node_of(1)
    node.say(subscribe(1, "q", name=b"low", prefetch_count=1, consumer_priority=-1))
    node.say(subscribe(1, "q", name=b"high", prefetch_count=1))
    fill(node, 4)
    high, low = node.messages(1)
    node.say(ack(high))
    high = node.message(1)
    node.say(send(9, "q", b"4"), replace(ack(low), more=(high.message_id,)))
    found = {one.subscription: one.message.body for one in node.messages(1)}
    assert found == {b"high": b"3", b"low": b"4"}


def test_who_has_left_is_kept_nowhere_while_higher_ones_have_room() -> None:
    node = node_of(1, 2)
    node.say(subscribe(1, "q", AUTO, consumer_priority=1))
    for _ in range(3):
        node.say(subscribe(2, "q"), unsubscribe(2, "q"))
    order = node.broker.destinations.queues.all["q"].order
    assert isinstance(order, ConsumerRanks) and not order._tiers[0]


def test_a_partitioned_queue_has_no_such_priorities() -> None:
    node = node_of(1, 2, partition_key=("header:a",))
    node.say(subscribe(1, "q"), subscribe(2, "q", receipt=b"r", consumer_priority=-3))
    refusal = node.refusal(2)
    assert refusal.code == "bad-request" and "other than 0, as -3 is" in refusal.sentence


@pytest.mark.parametrize("start", range(40))
def test_no_message_goes_past_a_higher_one_that_has_room(start: int) -> None:
    """The model: a list of consumers in their turns, and for each message the first of the highest with room."""
    chance = random.Random(start)
    numbers = range(1, 7)
    node = node_of(*numbers, persistent=chance.random() < 0.5)
    priority: dict[int, int] = {}
    windows = {number: chance.randint(1, 3) for number in numbers}
    out: dict[int, dict[int, object]] = {number: {} for number in numbers}
    sent = 0
    for _ in range(150):
        c = chance.choice(numbers)
        had_room = {one for one in priority if len(out[one]) < windows[one]}
        word = chance.choice(["send", "send", "send", "subscribe", "unsubscribe", "ack", "ack"])
        if word == "send":
            node.say(send(9, "q", b"%d" % sent))
            sent += 1
        elif word == "subscribe" and c not in priority and not out[c]:
            priority[c] = chance.choice([0, 0, 1, 2, -1])
            node.say(subscribe(c, "q", prefetch_count=windows[c], consumer_priority=priority[c]))
        elif word == "unsubscribe" and c in priority:
            del priority[c]
            node.say(unsubscribe(c, "q"))
        elif word == "ack" and out[c]:
            node.say(ack(out[c].pop(chance.choice(sorted(out[c])))))  # type: ignore[arg-type]
        for number in numbers:
            for deliver in node.messages(number):
                out[number][int(deliver.message.body)] = deliver
                if word == "send":
                    assert number in had_room
                    assert priority[number] == max(priority[one] for one in had_room), "the highest that had room"
        free = [one for one in priority if len(out[one]) < windows[one]]
        ready = node.broker.destinations.queues.all["q"].ready_count
        assert not (free and ready), "what is ready goes to who has room"
