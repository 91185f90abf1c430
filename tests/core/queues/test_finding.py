"""One message of a queue is found by its place, and one that is not there is not."""

import pytest

from radiator.core.queues.finding import is_ready_on_disk
from radiator.core.queues.queue import Queue
from radiator.core.states import State
from radiator.model.reads import StoredMessage
from radiator.model.settings import QueueSettings
from tests.core.keyed import KEY
from tests.core.node import Node
from tests.core.words import nack, queues, send, subscribe

S = QueueSettings
KINDS = [S(), S(partition_key=KEY), S(persistent=False), S(persistent=False, partition_key=KEY)]


def of(settings: QueueSettings) -> tuple[Node, Queue]:
    node = Node(queues(q=settings))
    node.open(1, 2)
    return node, node.broker.destinations.queues.all["q"]


def put(node: Node) -> int:
    node.say(send(1, "q", headers=b"key:k\n"))
    queue = node.broker.destinations.queues.all["q"]
    ((position, _),) = [(one.position, one) for one in queue.in_memory() if one.state is State.READY][-1:]
    return position


@pytest.mark.parametrize("settings", KINDS)
def test_one_is_found_where_it_is_ready_or_unacked_and_no_other_is(settings: QueueSettings) -> None:
    node, queue = of(settings)
    first, second = put(node), put(node)
    for position in (first, second):
        entry = queue.finder().at(position)
        assert entry is not None and (entry.position, entry.state) == (position, State.READY)
    for position in (0, first - 1, second + 1):
        assert queue.finder().at(position) is None and not queue.finder().is_in_doubt(position)
    node.say(subscribe(2, "q"))
    out = queue.finder().at(first)
    assert out is not None and out.state is State.UNACKED


@pytest.mark.parametrize("settings", [S(), S(persistent=False)])
def test_what_came_back_is_among_those_in_no_order(settings: QueueSettings) -> None:
    node, queue = of(settings)
    first, _ = put(node), put(node)
    node.say(subscribe(2, "q", prefetch_count=2))
    node.say(nack(node.messages(2)[0]))
    node.close(2)
    assert queue.finder().at(first) is None
    assert first in [placed[-1].position for placed in queue.finder().unordered()]


def test_what_is_delayed_in_memory_is_among_them_too() -> None:
    node, queue = of(S(persistent=False))
    node.say(send(1, "q", delay_ms=1000))
    (placed,) = queue.finder().unordered()
    assert placed[-1].state is State.DELAYED


@pytest.mark.parametrize("settings", KINDS[:2])
def test_what_was_read_back_is_ready_only_behind_what_is_in_memory(settings: QueueSettings) -> None:
    node, queue = of(settings)
    position = put(node)
    entry = queue.finder().at(position)
    assert entry is not None
    stored = StoredMessage(position, entry.message, 0, False)
    node.say(subscribe(2, "q"))
    assert not is_ready_on_disk(queue.picker(position, [position]), stored), "a consumer has it"
    again = node.crashed().broker.destinations.queues.all["q"]
    assert again.finder().at(position) is None
    assert is_ready_on_disk(again.picker(position, [position]), stored)


def test_one_whose_time_has_come_is_found_on_its_way_to_its_place() -> None:
    node, queue = of(S())
    node.say(send(1, "q", delay_ms=1000))
    ((_, _, position),) = node.disk.platter.delayed
    assert queue.finder().at(position) is None
    node.auto = False
    node.wait(2)
    node.answer()
    entry = queue.finder().at(position)
    assert entry is not None and entry.state is State.DUE
