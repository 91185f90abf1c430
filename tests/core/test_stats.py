"""Numbers that must agree with each other at every moment."""

import pytest

from radiator.core.histogram import Histogram
from radiator.model.commands import AUTO, Tick
from radiator.model.limits import GIB, MIB, OLDEST_AT_ONCE, Limits
from radiator.model.numbers import LatencyNumbers
from radiator.model.replies import Deliver
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe


def test_ledger_counts_every_way_out_in_messages_and_bytes() -> None:
    settings = QueueSettings(max_messages=6, overflow="drop-oldest")
    node = Node(queues(q=settings, d=QueueSettings(dead_letter="dead", max_redeliveries=0)))
    node.open(1, 9)
    for number in range(8):
        node.say(send(9, "q", b"1234", headers=b"a:b\n", expiration_ms=1000 if number == 2 else None))
    node.wait(2)
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    node.say(nack(node.message(1), requeue=False))
    node.messages(1)
    node.admin(9, do="purge", queue="q")
    n = node.numbers("q")
    assert [n[c] for c in ("accepted", "stored", "acked", "expired", "dropped", "purged", "dead_lettered")] == [
        8,
        1,
        1,
        1,
        3,
        2,
        0,
    ]
    assert n["accepted_bytes"] == 64 and n["stored_bytes"] == n["bytes"] == 8
    node.say(send(9, "d"), subscribe(9, "d"))
    node.say(nack(node.message(9)))
    assert node.numbers("d")["dead_lettered"] == node.numbers("dead")["accepted"] == 1


def test_storing_ready_and_in_flight_are_told_apart() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(send(9, "q"), send(9, "q"))
    assert node.numbers("q")["storing"] == 2
    node.seal()
    node.commit()
    node.say(subscribe(1, "q"))
    numbers = node.numbers("q")
    assert (numbers["storing"], numbers["ready"], numbers["unacked"]) == (0, 1, 1)


def test_memory_in_use_returns_to_nothing() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)))
    node.open(1, 9)
    for to in ("q", "m", "/topic/t"):
        node.say(subscribe(1, to, AUTO))
        for _ in range(10):
            node.say(send(9, to, bytes(1000)))
    node.close(1)
    node.close(9)
    assert node.in_use_bytes() == 0
    assert node.stats()["connections"] == node.stats()["subscriptions"] == 0


# ---- how long things take -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "bucket"), [(-5, 0), (0, 0), (1, 0), (1.001, 1), (5, 1), (5.5, 2), (10**9, 2)])
def test_histogram_counts_what_is_at_most_the_end_of_its_bucket(ms: float, bucket: int) -> None:
    histogram = Histogram((1, 5))
    histogram.add(ms)
    counts = [int(index == bucket) for index in range(3)]
    assert histogram.numbers() == LatencyNumbers([1, 5], counts, max(0, ms))


def observed(node: Node, of: str) -> tuple[int, float]:
    """How many, and how long all of them together."""
    numbers = node.stats()[of]
    return sum(numbers["counts"]), numbers["sum_ms"]


def test_commit_is_timed_from_its_seal_to_the_turn_that_hears_of_it() -> None:
    node = Node(auto=False)
    node.open(9)
    node.say(send(9, "q"))
    node.now_s += 5
    node.turn([])
    node.seal()
    before, before_ms = observed(node, "commit_latency")
    node.now_s += 0.007
    node.commit()
    count, sum_ms = observed(node, "commit_latency")
    assert count == before + 1 and sum_ms - before_ms == pytest.approx(7)


def test_delivery_is_timed_once_from_send_to_its_first_consumer() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)))
    node.open(1, 2, 9)
    for queue in ("q", "m"):
        count, sum_ms = observed(node, "delivery_latency")
        node.say(send(9, queue))
        assert observed(node, "delivery_latency") == (count, sum_ms)
        node.wait(3)
        node.say(subscribe(1, queue))
        assert observed(node, "delivery_latency") == (count + 1, sum_ms + 3000)
        node.wait(1)
        node.say(nack(node.message(1)))
        assert node.message(1).redelivered
        assert observed(node, "delivery_latency") == (count + 1, sum_ms + 3000)
        node.say(ack_of_last(node))


def ack_of_last(node: Node) -> object:
    return ack([reply for reply in node.log if isinstance(reply, Deliver)][-1])


def test_delayed_message_is_timed_from_when_it_is_due() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", delay_ms=60_000))
    node.wait(59)
    assert not node.messages(1)
    node.wait(1.25)
    assert node.message(1)
    assert observed(node, "delivery_latency") == (1, 250)


# ---- the oldest message ---------------------------------------------------------------------------------------------


def test_oldest_ready_message_of_each_queue_is_told() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)))
    node.open(1, 9)
    for queue in ("q", "m"):
        node.say(send(9, queue))
        node.wait(2)
        node.say(send(9, queue))
        assert node.numbers(queue)["oldest_ms"] == 2000
        node.say(subscribe(1, queue, prefetch_count=1))
        assert node.numbers(queue)["oldest_ms"] == 0
        node.say(ack(node.messages(1)[-1]))
        assert node.numbers(queue)["oldest_ms"] is None


def test_oldest_message_that_is_on_the_disk_alone_is_read_back_once() -> None:
    node = Node()
    node.open(9)
    for number in range(3 * OLDEST_AT_ONCE):
        node.say(send(9, f"q{number}"))
    node = node.crashed()
    node.wait(5)
    node.auto = False
    asked = []
    for _ in range(4):
        node.stats()
        node.read_requests = node.broker.context.turn.read_requests
        node.broker.context.turn.read_requests = []
        asked.append(len(node.read_requests))
        while node.read_requests:
            node.answer()
    assert asked == [OLDEST_AT_ONCE] * 3 + [0]
    node.now_ms += 1000
    node.turn([])
    assert {one["oldest_ms"] for one in node.stats()["queues"].values()} == {6000}
    node.auto = True
    node.open(1)
    node.say(subscribe(1, "q0"))
    assert node.message(1) and node.numbers("q0")["oldest_ms"] is None
    node.close(1)
    assert node.numbers("q0")["oldest_ms"] == 6000


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_each_bound_stands_beside_its_use() -> None:
    node = Node(
        queues(q=QueueSettings(max_messages=5, max_bytes=MIB), m=QueueSettings(persistent=False)),
        Limits(max_connections=7, max_destinations=20),
    )
    node.open(1, 9)
    node.say(send(9, "q"), subscribe(1, "/topic/t", AUTO), send(9, "m", bytes(1000)))
    assert node.stats()["certificate_left_s"] is None and node.stats()["certificates_left_s"] == {}
    node.turn([Tick(GIB, 3 * MIB, 100, 2 * GIB, 8 * MIB, 4, 5 * MIB, 2 * MIB, {"": 9, "stomps://a:1": -7})])
    answer = node.stats()
    assert (answer["certificate_left_s"], answer["certificates_left_s"]) == (-7, {"stomps://a:1": -7})
    assert (answer["half_open"], answer["destinations"], answer["bindings"], answer["positions"]) == (4, 3, 0, 0)
    assert answer["limits"] == {
        "max_connections": 7, "max_half_open": 2000, "max_memory_bytes": GIB, "outbox_max_bytes": 32 * MIB,
        "max_destinations": 20, "max_bindings": 131_072, "max_prepared": 16_384, "max_positions": 262_144,
    }  # fmt: skip
    assert (answer["queues"]["q"]["max_messages"], answer["queues"]["q"]["max_bytes"]) == (5, MIB)
    assert 1000 <= answer["memory_counted_bytes"] < answer["memory_bytes"]
    store = answer["store"]
    assert store["disk_room_bytes"] == GIB and store["disk_free_bytes"] == 2 * GIB
    assert store["used_bytes"] == 3 * MIB and store["reusable_bytes"] == 8 * MIB
    assert store["wal_bytes"] == 5 * MIB and store["wal_kept_bytes"] == 2 * MIB


def test_outgoing_buffers_are_told_with_the_fullest() -> None:
    node = Node()
    node.open(1, 2, 9)
    node.reads_slowly |= {1, 2}
    for connection, count in ((1, 3), (2, 1)):
        node.say(subscribe(connection, f"/topic/{connection}", AUTO))
        for _ in range(count):
            node.say(send(9, f"/topic/{connection}", bytes(1000)))
    node.wait(1)
    answer = node.stats()
    assert answer["outbox_bytes"] == answer["outbox_largest_bytes"] * 4 // 3 > 4000
