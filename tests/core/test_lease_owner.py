"""An Owner, as queues and memory see it: a connection that nobody closes, and a consumer for each Receive."""

import pytest

from radiator.core.lease_owner import Owner, Receiving
from radiator.core.memory import Weighing
from radiator.model.limits import GIB, KIB, Limits
from radiator.model.replies import MESSAGE_COST_BYTES, Refuse
from radiator.model.users import UserBounds
from tests.core.leased import answers, bodies, done, join, outcome, receive, settle, take
from tests.core.node import Node
from tests.core.test_usage import ANN, BOB, node_of, usage
from tests.core.words import queue, send


def owner_of(node: Node, name: str = "") -> Owner:
    return node.broker.parts.leases.owners[name]


def test_all_clients_share_one_where_there_are_no_users_and_each_user_has_one() -> None:
    node = Node(queue())
    join(node, 1, 2, 3)
    node.say(send(3, "q"), send(3, "q"))
    assert len(take(node, 1, most=1)) == len(take(node, 2, most=1)) == 1
    assert [*node.broker.parts.leases.owners] == [""]
    assert owner_of(node).address == "leases of all clients" and len(owner_of(node).leases) == 2
    node = node_of()
    join(node, 1, principal=ANN)
    join(node, 2, principal=BOB)
    node.say(send(1, "q"), send(1, "q"))
    take(node, 1, most=1), take(node, 2, most=1)
    assert {one.name: one.address for one in node.broker.parts.leases.owners.values()} == {
        "ann": "leases of ann",
        "bob": "leases of bob",
    }
    numbers = [one.number for one in node.broker.parts.leases.owners.values()]
    assert len({*numbers}) == 2 and max(numbers) < 0, "no connection has one of these"


def test_an_owner_that_has_nothing_is_forgotten() -> None:
    node = node_of()
    join(node, 1, principal=ANN)
    node.say(send(1, "q"))
    (one,) = take(node, 1)
    assert usage(node).has_leases and usage(node).unacked_bytes == 1
    node.close(1)
    node.wait(1)
    assert usage(node).has_leases, "whoever connects again has as much unacked"
    join(node, 2, principal=ANN)
    assert outcome(node, 2, done(one)) == [""]
    assert usage(node).unacked_bytes == 0
    node.wait(1)
    assert node.broker.parts.leases.owners == {} and not usage(node).has_leases
    node.close(2)
    node.wait(1)
    assert "ann" not in node.broker.parts.usages.all or usage(node).destinations


def test_an_answer_has_at_most_so_many_messages() -> None:
    node = Node(queue())
    join(node, 1)
    for number in range(3):
        node.say(send(1, "q", b"%d" % number))
    assert bodies(take(node, 1, most=2)) == [b"0", b"1"]
    assert bodies(take(node, 1, most=2)) == [b"2"]


def test_an_answer_has_at_most_so_many_bytes_and_one_message_of_any_size() -> None:
    node = Node(queue(), Limits(max_frame_bytes=4 * KIB))
    join(node, 1)
    for body in (b"a" * 3 * KIB, b"b" * (KIB - 2 * MESSAGE_COST_BYTES), b"c", b"d" * 5 * KIB, b"e"):
        node.say(send(1, "q", body))
    assert [len(one) for one in map(bodies, [take(node, 1), take(node, 1), take(node, 1), take(node, 1)])] == [
        2,
        1,
        1,
        1,
    ]


def test_one_owner_may_have_max_leases_and_the_next_receive_is_refused() -> None:
    node = Node(queue(), Limits(max_leases=3))
    join(node, 1, 2)
    for number in range(5):
        node.say(send(1, "q", b"%d" % number))
    assert len(take(node, 1, most=2)) == 2
    (third,) = take(node, 1)
    node.say(receive(1))
    refusal = node.refusal(1)
    assert refusal.code == "too-many-leases" and "max_leases is 3" in refusal.sentence
    assert not node.broker.connections[1].is_closing
    assert outcome(node, 1, done(third)) == [""]
    assert len(take(node, 1)) == 1


def test_who_waits_at_max_leases_goes_on_when_some_are_settled() -> None:
    node = Node(queue(), Limits(max_leases=1))
    join(node, 1, 2, 3)
    node.say(receive(1, wait_ms=60_000), receive(2, wait_ms=60_000))
    node.say(send(3, "q", b"a"), send(3, "q", b"b"))
    (first,) = [one for number in (1, 2) for answer in answers(node, number) for one in answer.messages]
    assert node.numbers("q")["ready"] == 1
    assert outcome(node, 3, done(first)) == [""]
    (second,) = [one for number in (1, 2) for answer in answers(node, number) for one in answer.messages]
    assert second.message.body == b"b"


def test_leases_count_in_max_unacked_bytes_of_their_user() -> None:
    node = node_of(max_unacked_bytes=10)
    join(node, 1, 2, principal=ANN)
    for _ in range(3):
        node.say(send(1, "q", b"x" * 6))
    first, second = take(node, 1)
    assert usage(node).unacked_bytes == 12 and take(node, 2) == []
    node.say(receive(2, wait_ms=60_000))
    assert answers(node, 2) == []
    node.close(1)
    assert answers(node, 2) == [], "they are leased still"
    assert outcome(node, 2, done(first)) == [""]
    assert len(answers(node, 2)) == 1
    assert outcome(node, 2, done(second)) == [""]
    assert usage(node).unacked_bytes == 6


def test_memory_is_weighed_and_the_largest_owner_gives_all_back() -> None:
    node = Node(queue(), Limits(max_memory_bytes=256 * KIB))
    join(node, 1, 2, 3)
    for _ in range(400):
        node.say(send(1, "q"))
    leased = take(node, 2, most=1000)
    assert len(leased) == 400
    node.say(receive(3, "other", wait_ms=60_000))
    held = owner_of(node).held_bytes
    assert 400 * 512 < held < 400 * 1200
    weighing = Weighing(node.broker.parts.memory)
    weighing.connection(owner_of(node))
    assert weighing.bytes == held
    node.wait(1)
    assert [reply.code for reply in node.take(3) if isinstance(reply, Refuse)] == ["memory"]
    assert node.numbers("q")["ready"] == 400 and node.numbers("q")["redelivered"] == 0
    assert {note.fields.get("code") for note in node.notes if note.event == "leases_ended"} == {"memory"}
    assert set(outcome(node, 2, *map(done, leased))) == {"lease-over"}
    (again, *_) = take(node, 2)
    assert again.redelivered and again.redeliveries == 0, "it may have been worked on, and that counts not"


def test_a_bound_on_memory_of_a_user_ends_his_leases_too() -> None:
    node = node_of(max_memory_bytes=32 * KIB)
    join(node, 1, 2, principal=ANN)
    for _ in range(100):
        node.say(send(1, "q"))
    assert len(take(node, 2, most=100)) == 100
    node.wait(1)
    assert node.numbers("q")["ready"] == 100
    assert UserBounds(max_memory_bytes=32 * KIB) == usage(node).bounds
    assert not any(connection.is_closing for connection in node.broker.connections.values())


def test_what_a_waiting_receive_takes() -> None:
    """Measured: under 2 KiB, and counted as about that."""
    import tracemalloc

    node = Node(queue())
    numbers = range(1, 1001)
    join(node, *numbers)
    commands = [receive(number, wait_ms=60_000, receipt=b"%d" % number) for number in numbers]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    node.say(*commands)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(owner_of(node).queue_subscriptions) == 1000
    each = (after - before) / 1000
    assert each < 2 * KIB, f"{each:.0f} bytes"
    assert owner_of(node).held_bytes >= 1000 * each


def test_what_a_lease_takes() -> None:
    """Measured beside the message itself, and counted as at least that."""
    import tracemalloc

    node = Node(queue())
    join(node, 1)
    for _ in range(1000):
        node.say(send(1, "q"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    assert len(take(node, 1, most=1000)) == 1000
    node.log.clear()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert owner_of(node).held_bytes >= after - before, f"{(after - before) / 1000:.0f} bytes each"


def test_a_receiving_is_a_consumer_and_counts_as_no_subscription() -> None:
    node = node_of(max_subscriptions=1)
    join(node, 1, 2, principal=ANN)
    node.say(receive(1, wait_ms=60_000), receive(2, wait_ms=60_000))
    assert node.numbers("q")["consumers"] == 2
    (one, _) = owner_of(node, "ann").queue_subscriptions.values()
    assert isinstance(one, Receiving) and one.name == b"leases of ann #0"
    assert owner_of(node, "ann").subscriptions_count == 0
    node.wait(1)
    assert usage(node).subscriptions == 0


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_of_it_stays_at_a_consumer_that_is_over(count: int) -> None:
    node = Node(queue())
    join(node, 1)
    for _ in range(count):
        node.say(send(1, "q"))
    leased = take(node, 1)
    node.say(settle(1, *map(done, leased)))
    owner = owner_of(node)
    assert not owner.unacked and not owner.leases and not owner.queue_subscriptions
    assert not owner.unlisted_private and not owner.unlisted_shared
    assert node.broker.parts.leases.asked == {} and not node.broker.parts.leases.filled
    assert GIB > owner.held_bytes == 0
