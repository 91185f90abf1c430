"""The last hour of a broker on a simulated clock, and what it costs."""

import tracemalloc
from typing import Any

import pytest

from radiator.core.overview.last_hour import LastHour
from radiator.core.overview.looks import Looks
from radiator.model.commands import CLIENT_INDIVIDUAL, Closed, Event, Tick
from radiator.model.limits import GIB, HISTORY_QUEUES, HISTORY_S, MIB
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import ack, send, subscribe

QUEUES = 10_000


def history(node: Node) -> LastHour:
    return node.broker.parts.overview.history


def column(node: Node, name: str) -> list[Any]:
    series = history(node).series
    return series.values(name, series.periods.after(0))


def node_with(*queues: str) -> Node:
    node = Node()
    node.open(1)
    for queue in queues:
        node.broker.destinations.queues.get(queue)
    node.wait(0.25)
    return node


def seconds(node: Node, count: int) -> None:
    for _ in range(4 * count):
        node.wait(0.25)


def test_each_second_has_what_came_in_it_and_how_all_stands() -> None:
    node = node_with("a", "b")
    node.say(*(send(1, "a") for _ in range(3)), send(1, "b"))
    seconds(node, 1)
    node.say(subscribe(1, "a", CLIENT_INDIVIDUAL, prefetch_count=2))
    seconds(node, 2)
    assert column(node, "in") == [0, 4, 0, 0]
    assert column(node, "stored") == [0, 4, 4, 4] and column(node, "ready") == [0, 4, 2, 2]
    assert column(node, "unacked") == [0, 0, 2, 2] and column(node, "delivered") == [0, 0, 2, 0]
    assert column(node, "connections") == [1] * 4 and column(node, "parked") == [0] * 4
    node.say(*map(ack, node.messages(1)))
    seconds(node, 1)
    assert column(node, "out")[-1] == 2 and column(node, "stored")[-1] == 2


def test_latency_is_of_the_commits_of_that_second() -> None:
    node = node_with("a")
    node.say(send(1, "a"))
    seconds(node, 2)
    p50, p99 = column(node, "receipt_p50_ms"), column(node, "receipt_p99_ms")
    assert p50[0] is None and 0 <= p50[1] <= p99[1] <= 0.5 and p50[2] is None


def test_records_of_logs_are_counted() -> None:
    node = node_with()
    node.admin(1, do="declare", log="l")
    node.say(*(send(1, "/log/l") for _ in range(3)))
    seconds(node, 1)
    assert column(node, "appended")[-1] == 3 and column(node, "in")[-1] == 0


def test_a_gap_is_none_and_what_came_in_it_no_spike() -> None:
    node = node_with("a")
    seconds(node, 2)
    for _ in range(600):
        node.say(send(1, "a"))
    node.wait(60)
    seconds(node, 1)
    came = column(node, "in")
    assert came[:3] == [0, 0, 0] and came[3:-2] == [None] * 59 and came[-2:] == [10, 0]


def test_a_suspended_machine_is_a_gap_too() -> None:
    node = node_with("a")
    node.say(send(1, "a"))
    node.now_ms += 3_000_000
    seconds(node, 1)
    assert [one for one in column(node, "in") if one is not None] == [0, 1, 0]
    assert column(node, "stored")[1:-2] == [None] * 2999


def test_an_hour_is_kept() -> None:
    node = node_with("a")
    for second in range(HISTORY_S + 100):
        node.say(*[send(1, "a")] * (second % 3))
        node.wait(1)
    came = column(node, "in")[-HISTORY_S:]
    assert len(came) == HISTORY_S and None not in came and sum(came) == HISTORY_S
    ring = history(node).rings.all[node.broker.destinations.queues.all["a"]]
    places, (of_queue, *_) = history(node).rings.samples(ring, 0)
    assert len(places) == HISTORY_S // 5 and sum(filter(None, of_queue)) == HISTORY_S


def test_a_queue_that_is_deleted_takes_nothing_away() -> None:
    node = node_with("a", "b")
    node.say(*(send(1, "a") for _ in range(50)))
    seconds(node, 6)
    queue = node.broker.destinations.queues.all["a"]
    assert queue in history(node).rings.all
    node.admin(1, do="delete", queue="a")
    seconds(node, 6)
    assert queue not in history(node).rings.all and queue not in history(node).counters.places
    assert None not in column(node, "in") and column(node, "in")[-6:] == [0] * 6


def test_what_came_before_a_restart_has_not_come_again() -> None:
    node = node_with("a")
    node.say(*(send(1, "a") for _ in range(50)))
    again = node.crashed()
    seconds(again, 2)
    assert column(again, "in") == [0, 0, 0] and column(again, "stored") == [50] * 3


def moved(node: Node, second: int) -> None:
    """Some hundred of the queues are busy, others each ten seconds."""
    queues = [*node.broker.destinations.queues.all.values()]
    for nth in range(300):
        queues[(second // 10 * 300 + nth) % len(queues)].ledger.accepted += 100


def test_it_takes_less_than_4_mib_whatever_queues_are_busy() -> None:
    node = node_with(*(f"queue.{number}" for number in range(QUEUES)))
    tracemalloc.start(1)
    try:
        parts = node.broker.parts
        before, _ = tracemalloc.get_traced_memory()
        kept = LastHour(parts, Looks(parts.context))
        for second in range(120):
            moved(node, second)
            parts.context.now_s += 1
            parts.context.now_ms += 1000
            kept.ticked()
            while kept.looks.can_go_on:
                kept.looks.step()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept.rings.all) == HISTORY_QUEUES and len(kept.counters.places) == QUEUES
    assert 2 * MIB < taken < 4 * MIB, taken


def test_the_busiest_have_rings_after_a_while() -> None:
    node = node_with(*(f"q{number}" for number in range(2 * HISTORY_QUEUES)))
    seconds(node, 6)
    queues = [*node.broker.destinations.queues.all.values()]
    for _ in range(60):
        for queue in queues[HISTORY_QUEUES:]:
            queue.ledger.accepted += 1
        node.wait(1)
    assert {*history(node).rings.all} == {*queues[HISTORY_QUEUES:]}


@measures_turns
def test_no_turn_is_long_with_10000_queues() -> None:
    node = Timed()
    for number in range(QUEUES):
        node.broker.destinations.queues.get(f"q{number}")
    node.open(1)

    def make() -> list[Event]:
        node.now_s += 5
        node.now_ms += 5000
        return [Tick(GIB, node.disk.used_bytes())]

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert history(node).rated_s


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1500])
def test_every_queue_is_looked_at(count: int) -> None:
    node = node_with(*(f"q{number}" for number in range(count)))
    for queue in node.broker.destinations.queues.all.values():
        queue.ledger.accepted += 1
    node.turn([Closed(1)])
    seconds(node, 1)
    assert column(node, "in")[-1] == count
