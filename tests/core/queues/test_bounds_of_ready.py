"""Bounds that leave out what is unacked, as RabbitMQ's do (bounds_count = "ready")."""

from random import Random

import pytest

from radiator.core.queues.capacity import LOOKED_AT
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.states import Event
from radiator.model.commands import AUTO, CLIENT, Command, Disconnect, Read
from radiator.model.replies import Deliver
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, queue, send, subscribe, unsubscribe

KINDS = pytest.mark.parametrize(
    "kind",
    [
        {"persistent": True},
        {"persistent": False},
        {"persistent": True, "max_priority": 2},
        {"persistent": False, "max_priority": 2},
        {"persistent": True, "partition_key": ("header:k",)},
        {"persistent": False, "partition_key": ("header:k",)},
    ],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
LETS_GO = pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
BOUND = pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])


def node_of(overflow: str, **settings: object) -> Node:
    node = Node(queue(bounds_count="ready", overflow=overflow, dead_letter="dead", **settings))
    node.open(1, 2, 9)
    return node


def burst(count: int) -> Read:
    """They come at once, so one commit stores them."""
    return Read(9, [send(9, "q", b"%d" % number) for number in range(count)])


def fill(node: Node, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        node.say(send(9, "q", b"%d" % number))


@KINDS
@BOUND
@LETS_GO
def test_what_is_unacked_keeps_nobody_out(kind: dict[str, object], bound: dict[str, int], overflow: str) -> None:
    node = node_of(overflow, **kind, **bound)
    node.say(subscribe(1, "q", prefetch_count=3))
    fill(node, 8)
    assert node.bodies(1) == [b"0", b"1", b"2"] and not node.is_refused(9)
    numbers = node.numbers("q")
    assert (numbers["unacked"], numbers["ready"]) == (3, 3), numbers
    assert numbers["dropped" if overflow == "drop-oldest" else "dead_lettered"] == 2
    node.say(subscribe(2, "q", AUTO))
    assert node.bodies(2) == [b"5", b"6", b"7"]


@KINDS
@BOUND
def test_a_queue_that_refuses_says_what_is_ready_and_what_is_not(
    kind: dict[str, object], bound: dict[str, int]
) -> None:
    node = node_of("reject", **kind, **bound)
    node.say(subscribe(1, "q", prefetch_count=2))
    fill(node, 6)
    refused = node.refusal(9)
    ((name, most),) = bound.items()
    expected = f"/queue/q is full: it holds 3 messages of 3 bytes, and 2 unacked ({name} {most})."
    assert str(refused.sentence) == expected and node.numbers("q")["accepted"] == 5


@KINDS
@LETS_GO
def test_what_comes_back_pushes_out_the_oldest(kind: dict[str, object], overflow: str) -> None:
    node = node_of(overflow, max_messages=3, **kind)
    node.say(subscribe(1, "q", prefetch_count=3))
    fill(node, 5)
    node.close(1)
    assert node.numbers("q")["ready"] == 3, "five are ready, and there is room for three"
    node.say(subscribe(2, "dead", AUTO))
    dead = node.messages(2)
    assert [one.message.body for one in dead] == ([] if overflow == "drop-oldest" else [b"0", b"1"])
    assert all(header(one.message, b"dead-letter-reason") == b"overflow" for one in dead)
    node.say(subscribe(9, "q", AUTO))
    assert node.bodies(9) == [b"2", b"3", b"4"]


@KINDS
def test_what_comes_back_to_a_queue_that_refuses_stays(kind: dict[str, object]) -> None:
    node = node_of("reject", max_messages=3, **kind)
    node.say(subscribe(1, "q", prefetch_count=3))
    fill(node, 5)
    node.close(1)
    assert node.numbers("q")["ready"] == 5
    node.say(send(9, "q"))
    assert node.refusal(9).code == "queue-full"


@KINDS
@LETS_GO
def test_what_comes_back_with_a_delay_pushes_out_the_oldest_once_it_is_ready(
    kind: dict[str, object], overflow: str
) -> None:
    node = node_of(overflow, max_messages=1, **kind)
    node.say(subscribe(1, "q", prefetch_count=4))
    fill(node, 4)
    first, second, third, last = node.messages(1)
    node.say(unsubscribe(1, "q"), *(nack(one, delay_ms=1000) for one in (first, second, third)))
    assert node.numbers("q")["delayed"] == 3, "delayed ones go to nobody, so they are not let go of"
    node.say(nack(last))  # it finds no room beside them, and none of them may go for it
    node.wait(1)
    node.wait(1)
    numbers = node.numbers("q")
    assert (numbers["ready"], numbers["delayed"]) == (1, 0) and numbers["adds_up"]
    node.say(subscribe(9, "q", AUTO), subscribe(2, "dead", AUTO))
    assert node.bodies(9) == [b"2"]
    assert sorted(node.bodies(2)) == ([] if overflow == "drop-oldest" else [b"0", b"1", b"3"])


WITHOUT_KEYS = pytest.mark.parametrize(
    "kind", [{"persistent": is_stored, **lanes} for is_stored in (True, False) for lanes in ({}, {"max_priority": 2})]
)


@WITHOUT_KEYS
@BOUND
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter", "reject"])
def test_what_consumers_have_room_for_is_not_beyond_the_bound(
    kind: dict[str, object], bound: dict[str, int], overflow: str
) -> None:
    """RabbitMQ hands each message on as it comes: a burst passes a queue of any length to a consumer with room."""
    node = node_of(overflow, **kind, **bound)
    node.say(subscribe(1, "q", prefetch_count=7))
    node.turn([burst(7)])
    assert len(node.messages(1)) == 7 and not node.is_refused(9)
    fill(node, 5)
    numbers = node.numbers("q")
    assert numbers["ready"] == 3 and numbers["unacked"] == 7 and numbers["adds_up"]


@WITHOUT_KEYS
def test_a_queue_for_no_message_that_refuses_refuses_all(kind: dict[str, object]) -> None:
    node = node_of("reject", max_messages=0, **kind)
    node.say(subscribe(1, "q", prefetch_count=7), send(9, "q"))
    assert node.refusal(9).code == "queue-full", "as RabbitMQ does"


@WITHOUT_KEYS
@BOUND
@LETS_GO
def test_what_is_delayed_stays_within_the_bound_though_a_consumer_has_room(
    kind: dict[str, object], bound: dict[str, int], overflow: str
) -> None:
    node = node_of(overflow, **kind, **bound)
    node.say(subscribe(1, "q", prefetch_count=7))
    for _ in range(3):
        node.say(send(9, "q"))
        node.say(nack(node.message(1), delay_ms=9000))
    node.say(send(9, "q"))
    assert node.refusal(9).code == "queue-full" and node.numbers("q")["delayed"] == 3


@WITHOUT_KEYS
@LETS_GO
def test_a_burst_leaves_as_many_as_consumers_and_the_bound_have_room_for(
    kind: dict[str, object], overflow: str
) -> None:
    node = node_of(overflow, max_messages=3, **kind)
    node.say(subscribe(1, "q", prefetch_count=4))
    node.turn([burst(10)])
    numbers = node.numbers("q")
    assert (numbers["unacked"], numbers["ready"]) == (4, 3) and numbers["adds_up"]


@pytest.mark.parametrize(("consumers", "dropped"), [(LOOKED_AT, 1), (LOOKED_AT + 5, 1), (LOOKED_AT - 1, 2)])
def test_so_many_consumers_are_looked_at_and_no_more(consumers: int, dropped: int) -> None:
    node = node_of("drop-oldest", max_messages=3)
    for connection in range(10, 10 + consumers):
        node.open(connection)
        node.say(subscribe(connection, "q", prefetch_count=1))
    node.turn([burst(LOOKED_AT + 4)])
    assert node.numbers("q")["dropped"] == dropped and node.numbers("q")["adds_up"]


@WITHOUT_KEYS
@LETS_GO
def test_a_consumer_that_goes_before_a_burst_is_on_the_disk_leaves_no_more_than_the_bound(
    kind: dict[str, object], overflow: str
) -> None:
    node = node_of(overflow, max_messages=3, **kind)
    node.say(subscribe(1, "q", prefetch_count=9))
    node.turn([burst(8), Read(1, [unsubscribe(1, "q")])])
    node.close(1)
    assert node.numbers("q")["ready"] == 3 and node.numbers("q")["adds_up"]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_consumer_with_room_that_must_wait_for_a_key_leaves_the_bound_as_it_is(persistent: bool) -> None:
    node = node_of("drop-oldest", max_messages=3, persistent=persistent, partition_key=("header:k",))
    node.say(subscribe(1, "q", prefetch_count=20))
    for _ in range(9):
        node.say(send(9, "q", headers=b"k:a\n"))
    assert (node.numbers("q")["unacked"], node.numbers("q")["ready"]) == (1, 3)


STORED = pytest.mark.parametrize("settings", [{}, {"max_priority": 2}, {"partition_key": ("header:k",)}])


def with_bytes_on_the_disk_alone(count: int, **settings: object) -> tuple[Node, list[Deliver]]:
    """A queue for two messages with so many unacked at connection 1, of which only the places are in memory."""
    node = node_of("dead-letter", max_messages=2, **settings)
    node.broker.destinations.windows.out_max = 4
    node.say(subscribe(1, "q", CLIENT, prefetch_count=count))
    fill(node, count, 10)
    return node, node.messages(1)


@STORED
def test_what_is_a_dead_letter_then_is_read_back_first(small: None, settings: dict[str, object]) -> None:
    node, _ = with_bytes_on_the_disk_alone(20, **settings)
    node.close(1)
    assert node.numbers("q")["ready"] == 2
    node.say(subscribe(2, "dead", AUTO))
    assert sorted(node.bodies(2)) == [b"%d" % number for number in range(10, 28)]


@STORED
def test_many_that_come_back_at_once_are_read_back_as_they_go(small: None, settings: dict[str, object]) -> None:
    node, delivered = with_bytes_on_the_disk_alone(20, **settings)
    node.say(unsubscribe(1, "q"), nack(delivered[-1]))  # and all before it: each alone would have found room
    assert node.numbers("q")["ready"] == 2
    node.say(subscribe(2, "dead", AUTO))
    assert sorted(node.bodies(2)) == [b"%d" % number for number in range(10, 28)]


@STORED
def test_the_oldest_go_though_their_bytes_are_on_the_disk_alone(settings: dict[str, object]) -> None:
    node = node_of("dead-letter", max_messages=20, **settings)
    windows = node.broker.destinations.windows
    out_max, windows.out_max = windows.out_max, 4
    node.say(subscribe(1, "q", CLIENT, prefetch_count=20))
    fill(node, 20, 10)
    windows.out_max = out_max
    node.say(subscribe(2, "q", CLIENT, prefetch_count=6))
    fill(node, 6, 30)
    old, new = node.messages(1), node.messages(2)
    node.say(unsubscribe(1, "q"), unsubscribe(2, "q"), nack(old[-1]))
    found = node.broker.destinations.queues.all["q"]
    assert isinstance(found, DurableQueue) and found.window.stubs > 10
    node.say(nack(new[-1]))
    assert node.numbers("q")["ready"] == 20
    node.say(subscribe(9, "dead", AUTO))
    assert sorted(node.bodies(9)) == [b"%d" % number for number in range(10, 16)]


def test_one_that_pushes_another_out_is_weighed_for_the_batch() -> None:
    node, delivered = with_bytes_on_the_disk_alone(3)
    found = node.broker.destinations.queues.all["q"]
    entries = [delivery.entry for delivery in found.entries_out.values()]
    assert not any(found.goes_elsewhere(entry, Event.NACK) for entry in entries)
    node.say(send(9, "q"), send(9, "q"))
    assert all(found.goes_elsewhere(entry, Event.NACK) for entry in entries), "there is no room for it beside two"


@KINDS
@LETS_GO
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_and_nothing_is_lost(small: None, kind: dict[str, object], overflow: str, seed: int) -> None:
    random = Random(seed)
    node = node_of(overflow, max_messages=4, **kind)
    sent, acked, connection = 0, set[bytes](), 10
    held: dict[int, list[object]] = {}
    for _ in range(150):
        step = random.random()
        if step < 0.5:
            node.say(send(9, "q", b"%d" % sent))
            sent += 1
        elif step < 0.65 and len(held) < 3:
            connection += 1
            node.open(connection)
            held[connection] = []
            node.say(subscribe(connection, "q", prefetch_count=random.randrange(1, 8)))
        elif held and step < 0.72:
            one = random.choice([*held])
            held.pop(one)
            node.close(one)
        for one, unacked in held.items():
            unacked += node.messages(one)
        if held and step >= 0.72 and (unacked := held[random.choice([*held])]):
            delivered = unacked.pop(random.randrange(len(unacked)))
            if step < 0.85:
                node.say(ack(delivered))
                acked.add(delivered.message.body)
            else:
                node.say(nack(delivered))
        assert node.numbers("q")["ready"] <= 4 and node.numbers("q")["adds_up"]
    for one in held:
        node.close(one)
    numbers = node.numbers("q")
    assert not node.is_refused(9) and numbers["acked"] == len(acked) and numbers["ready"] <= 4
    node.say(subscribe(1, "q", AUTO), subscribe(2, "dead", AUTO))
    left, dead = node.bodies(1), node.bodies(2)
    assert len({*left, *dead} | acked) == len(left) + len(dead) + len(acked)
    assert len(left) + len(dead) + len(acked) + numbers["dropped"] == sent


# ---- transactions ----------------------------------------------------------------------------------------------------


def transacted(count: int, *others: Command) -> list[Command]:
    """So many in one transaction, and what else is in it."""
    sends = [send(9, "q", b"%d" % number, transaction=b"t") for number in range(count)]
    return [begin(9), *sends, *others, commit(9, receipt=b"c")]


@pytest.mark.parametrize(("count", "left"), [(3, [0, 1, 2]), (4, [1, 2, 3]), (20, [17, 18, 19])])
@KINDS
@BOUND
@LETS_GO
def test_a_transaction_may_bring_more_than_there_is_room_for(
    small: None, kind: dict[str, object], bound: dict[str, int], overflow: str, count: int, left: list[int]
) -> None:
    node = node_of(overflow, **kind, **({"max_bytes": 3 + (count > 10) * 3} if "max_bytes" in bound else bound))
    node.say(send(9, "q", b"x"), send(9, "q", b"y"))
    node.say(*transacted(count))
    assert node.receipts(9) == [b"c"]
    assert node.stored("q") == ([b"%d" % number for number in left] if kind["persistent"] else [])
    numbers = node.numbers("q")
    assert (numbers["ready"], numbers["accepted"]) == (3, count + 2)
    assert numbers["dropped" if overflow == "drop-oldest" else "dead_lettered"] == count - 1
    if overflow == "dead-letter":
        node.say(subscribe(2, "dead", AUTO))
        assert node.bodies(2) == [b"x", b"y", *(b"%d" % number for number in range(count - 3))]
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"%d" % number for number in left]


@pytest.mark.parametrize("persistent", [True, False])
def test_consumers_get_the_first_of_a_transaction_and_the_bound_is_for_the_last(persistent: bool) -> None:
    node = node_of("drop-oldest", persistent=persistent, max_messages=3)
    node.say(subscribe(1, "q", prefetch_count=2))
    node.say(*transacted(8))
    assert node.bodies(1) == [b"0", b"1"] and node.numbers("q")["dropped"] == 3
    node.say(subscribe(2, "q", AUTO))
    assert node.bodies(2) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("settings", [
    {"overflow": "reject", "bounds_count": "ready"}, {"overflow": "drop-oldest", "bounds_count": "stored"},
])  # fmt: skip
@KINDS
def test_a_transaction_is_refused_whole_where_nothing_of_it_may_be_dropped(
    kind: dict[str, object], settings: dict[str, object]
) -> None:
    node = Node(queue(max_messages=3, **settings, **kind))
    node.open(9)
    node.say(*transacted(4, send(9, "other", transaction=b"t")))
    assert node.refusal(9).code == "queue-full"
    assert node.numbers("q")["accepted"] == 0 and node.stored("other") == []


@KINDS
def test_a_transaction_is_refused_where_delayed_messages_take_the_bound(kind: dict[str, object]) -> None:
    node = node_of("drop-oldest", max_messages=3, **kind)
    node.say(*(send(9, "q", delay_ms=60_000) for _ in range(2)))
    node.say(*transacted(4))
    assert node.receipts(9) == [b"c"] and node.numbers("q")["ready"] == 1
    node.say(send(9, "q", delay_ms=60_000))
    node.say(*transacted(4))
    assert node.refusal(9).code == "queue-full"


@KINDS
def test_so_it_is_where_they_take_one_of_two_bounds(kind: dict[str, object]) -> None:
    """All of it would be dropped as soon as it is ready."""
    node = node_of("drop-oldest", max_messages=3, max_bytes=10, **kind)
    node.say(send(9, "q", b"0123456789", delay_ms=60_000))
    node.say(*transacted(4))
    assert node.refusal(9).code == "queue-full" and node.numbers("q")["accepted"] == 1


def test_others_are_taken_while_more_than_has_room_waits_for_the_disk() -> None:
    declared = queue(persistent=False, bounds_count="ready", overflow="drop-oldest", max_messages=3)
    node = Node(declared)
    node.open(1, 2, 9)
    node.auto = False
    node.say(*transacted(8, send(9, "other", transaction=b"t")))
    node.say(send(1, "q", b"x"))
    assert node.numbers("q")["ready"] == 1 and not node.is_refused(1)
    node.auto = True
    node.turn([])
    assert node.receipts(9) == [b"c"] and node.numbers("q")["ready"] == 3
    node.say(subscribe(2, "q", AUTO))
    assert node.bodies(2) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("leaves", [unsubscribe(1, "q"), Disconnect(1)], ids=["unsubscribes", "disconnects"])
@LETS_GO
def test_a_consumer_that_goes_before_a_part_in_memory_is_due_leaves_no_more_than_the_bound(
    leaves: Command, overflow: str
) -> None:
    """What is for the disk comes first; until then the part in memory has its room with the consumer."""
    node = node_of(overflow, persistent=False, max_messages=3)
    node.say(subscribe(1, "q", prefetch_count=9))
    node.auto = False
    node.say(*transacted(8, send(9, "other", transaction=b"t")))
    node.say(leaves)
    assert node.numbers("q")["messages"] == 0 and node.receipts(9) == []
    node.auto = True
    node.turn([])
    assert node.receipts(9) == [b"c"]
    assert node.numbers("q")["ready"] == 3 and node.numbers("q")["adds_up"]
