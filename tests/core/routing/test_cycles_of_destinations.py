"""What a connection had is free as soon as it is closed: nothing waits for the collector of garbage in circles.

The shell lets that collector run each hour only (server/serve.py, Collector), and one connection may have a thousand
reply queues.
"""

import gc
from collections.abc import Iterator

import pytest

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL
from tests.core.node import Node
from tests.core.words import ack, send, subscribe, unsubscribe
from tests.cycles import in_cycles, without_collector

MODES = (AUTO, CLIENT, CLIENT_INDIVIDUAL)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    with without_collector():
        yield


def circles() -> list[str]:
    """The kinds of objects of ours that only the collector can free."""
    return sorted({type(one).__name__ for one in in_cycles() if type(one).__module__.startswith("radiator")})


def use(node: Node) -> None:
    """A connection that does a bit of everything and is closed with some of it under way."""
    node.open(1, 2)
    for number, mode in enumerate(MODES):
        node.say(subscribe(1, f"/temp-queue/{number}", mode), subscribe(1, f"/topic/t{number}", mode))
        node.say(subscribe(1, f"q{number}", mode, prefetch_count=1))
        node.say(*(send(2, f"q{number}") for _ in range(3)), send(2, f"/topic/t{number}"))
    node.say(subscribe(1, "/exchange/amq.topic/#"), subscribe(1, "/exchange/amq.topic/a", AUTO, name=b"e"))
    node.say(subscribe(1, "/topic/d.#", durable=True), subscribe(1, "/exchange/amq.topic/d", durable=True, name=b"d"))
    node.say(*(send(2, to, mandatory=True) for to in ("/exchange/amq.topic/a", "/topic/d.a", "/exchange/amq.topic/d")))
    node.say(subscribe(1, "late"), send(2, "late", delay_ms=1000))
    node.say(subscribe(1, "other"), send(2, "other"), unsubscribe(1, "other"))
    node.close(1)
    node.close(2)
    node.inbox.clear()
    node.log.clear()
    node.turn([])


def test_closed_connection_leaves_no_circle() -> None:
    node = Node()
    use(node)
    gc.collect()  # what a first use leaves behind is not counted
    use(node)
    assert circles() == []


def test_acked_and_unsubscribed_leaves_no_circle() -> None:
    node = Node()
    node.open(1)
    for _ in range(2):
        gc.collect()
        node.say(subscribe(1, "q"), send(1, "q"))
        node.say(ack(node.message(1)), unsubscribe(1, "q"))
        node.take(1)
        node.log.clear()
        node.turn([])
    assert circles() == []


@pytest.mark.parametrize("to", ["/temp-queue/a", "/exchange/amq.topic/a"])
def test_queue_of_ones_own_goes_with_what_is_unacked(to: str) -> None:
    node = Node()
    for _ in range(2):
        circles()
        node.open(1, 2)
        node.say(subscribe(1, to, CLIENT, name=b"s", ack_timeout_s=1))
        node.say(*(send(1 if to.startswith("/temp") else 2, to, mandatory=True) for _ in range(3)))
        assert len(node.messages(1)) == 1
        node.close(1)
        node.close(2)
        node.inbox.clear()
        node.log.clear()
        node.turn([])
    assert circles() == []


def used(node: Node, settings: dict[str, object]) -> None:
    """A queue that is declared, used and deleted, with something of it unacked."""
    node.open(1, 2)
    assert node.admin(1, do="declare", queue="a", **settings)["ok"]
    if "partition_key" not in settings:  # who has consumed from such a queue is kept in mind with it
        node.say(subscribe(2, "a", CLIENT, prefetch_count=2))
    node.say(*(send(1, "a") for _ in range(4)))
    node.close(2)
    assert node.admin(1, do="delete", queue="a", if_unused=False)["ok"]
    node.close(1)
    node.inbox.clear()
    node.log.clear()
    node.turn([])


@pytest.mark.parametrize(
    "settings",
    [{}, {"dedup_window_s": 5}, {"max_priority": 3}, {"partition_key": "header:k"}, {"persistent": False}],
    ids=lambda settings: "-".join(settings) or "plain",
)
def test_deleted_queue_leaves_no_circle(settings: dict[str, object]) -> None:
    node = Node()
    used(node, settings)
    circles()
    gc.garbage.clear()
    used(node, settings)
    assert circles() == []
