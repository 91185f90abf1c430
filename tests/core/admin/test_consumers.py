"""Requests about consumers: what each of them answers. What becomes of messages: queues/test_registered.py."""

from dataclasses import replace

import pytest

from radiator.model.limits import LOOKED_AT_PER_COPY
from radiator.model.settings import Declarations, QueueSettings
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import ack, send, subscribe

KEYED = QueueSettings(partition_key=("header:key",))
DECLARED = Declarations(queues={"q": KEYED, "plain": QueueSettings(), "mem": replace(KEYED, persistent=False)})


@pytest.fixture
def node() -> Node:
    node = Node(DECLARED)
    node.open(1, 2, 3, 9)
    return node


def asked(node: Node, do: str, queue: str = "q", **more: object) -> dict[str, object]:
    answer = node.admin(9, do=do, queue=queue, **more)
    assert answer.pop("ok") is True, answer
    return answer


def rows(node: Node, queue: str = "q", **more: object) -> list[dict[str, object]]:
    found = asked(node, "consumers", queue, **more)["consumers"]
    assert isinstance(found, list)
    return found


def fill(node: Node, *keys: int, to: str = "q") -> None:
    node.say(*(send(1, to, b"%d" % key, headers=b"key:%d\n" % key) for key in keys))


@pytest.mark.parametrize("queue", ["q", "plain", "mem"])
def test_who_registers_is_told_how_to_subscribe_and_what_share_it_would_get(node: Node, queue: str) -> None:
    answer = asked(node, "consumer-register", queue, name="pod-3", ready=False)
    assert answer == {
        "name": "pod-3",
        "ready": False,
        "draining": False,
        "lease_ms": 30_000,
        "subscribe": {"destination": f"/queue/{queue}", "consumer-name": "pod-3"},
        "share": 1.0,
        "consumers": 0,
        "created": True,
    }
    node.say(subscribe(1, queue), subscribe(2, queue, consumer_name="pod-3", name=b"named"))
    again = asked(node, "consumer-register", queue, name="pod-3", lease_ms=5000)
    assert again == {**answer, "ready": True, "lease_ms": 5000, "share": 0.5, "consumers": 2, "created": False}
    asked(node, "consumer-register", queue, name="away")
    asked(node, "consumer-register", queue, name="later", ready=False)
    assert asked(node, "consumer-register", queue, name="pod-3")["share"] == 1 / 3


@pytest.mark.parametrize("queue", ["q", "plain"])
def test_one_that_is_not_ready_gets_nothing_until_it_says_so(node: Node, queue: str) -> None:
    asked(node, "consumer-register", queue, name="a", ready=False)
    node.say(subscribe(1, queue, consumer_name="a"), send(2, queue, b"x"))
    assert node.bodies(1) == []
    asked(node, "consumer-register", queue, name="a")
    assert node.bodies(1) == [b"x"]


def test_consumers_are_listed_by_name_and_in_pages(node: Node) -> None:
    asked(node, "consumer-register", name="b.1", lease_ms=9000)
    node.say(subscribe(1, "q", consumer_name="a.1", prefetch_count=9), subscribe(2, "q"))
    fill(node, *range(6))
    found = rows(node)
    assert [row["name"] for row in found] == ["a.1", "b.1"]
    a, b = found
    out = len(node.messages(1))
    assert a == {"name": "a.1", "connection": 1, "registered": False, "ready": True, "draining": False,
                 "unacked": out, "keys": a["keys"], "lease_left_ms": None, "stands": "has-room"}  # fmt: skip
    assert b == {"name": "b.1", "connection": None, "registered": True, "ready": True, "draining": False,
                 "unacked": 0, "keys": 0, "lease_left_ms": 9000, "stands": None}  # fmt: skip
    assert a["keys"] == 3
    assert [row["name"] for row in rows(node, limit=1)] == ["a.1"]
    assert [row["name"] for row in rows(node, after="a.1")] == ["b.1"]
    assert [row["name"] for row in rows(node, match="b.*")] == ["b.1"]
    assert rows(node, "plain") == []
    node.close(1)
    assert [row["name"] for row in rows(node)] == ["b.1"]


def test_keys_are_those_of_partitioned_queues(node: Node) -> None:
    node.say(subscribe(1, "plain", consumer_name="a"))
    assert rows(node, "plain")[0]["keys"] is None


def test_a_drain_says_what_is_left_and_says_it_again(node: Node) -> None:
    node.say(subscribe(1, "q", consumer_name="a", prefetch_count=9))
    fill(node, 1, 2)
    first, second = node.messages(1)
    assert asked(node, "consumer-drain", name="a") == {"drained": False, "unacked": 2}
    assert rows(node)[0]["draining"] is True and rows(node)[0]["keys"] == 0
    fill(node, 3)
    node.say(ack(first))
    assert asked(node, "consumer-drain", name="a", wait_ms=0) == {"drained": False, "unacked": 1}
    node.say(ack(second))
    assert node.bodies(1) == []
    for _ in range(2):
        assert asked(node, "consumer-drain", name="a", wait_ms=60_000) == {"drained": True, "unacked": 0}
    node.close(1)
    assert rows(node) == [] and asked(node, "consumer-drain", name="a") == {"drained": True, "unacked": 0}


def test_a_drain_that_waits_is_answered_by_the_last_ack(node: Node) -> None:
    node.say(subscribe(1, "q", consumer_name="a"))
    fill(node, 1)
    (message,) = node.messages(1)
    node.say(send(9, "/admin", b'{"do":"consumer-drain","queue":"q","name":"a","wait_ms":60000}', reply_to="r"))
    connection = node.broker.connections[9]
    assert connection.awaits == 1
    node.say(ack(message))
    node.wait(0.25)
    assert connection.awaits == 0


def test_who_is_held_or_released_costs_as_much_as_the_keys_that_are_looked_at(node: Node) -> None:
    """So that a client that says both again and again does not make one long turn; a heart-beat costs nothing."""
    admission = node.broker.parts.admission
    node.say(subscribe(1, "mem", consumer_name="a", prefetch_count=1))
    fill(node, *range(100), to="mem")
    costs = []
    for ready in (True, True, False, False, True):
        admission.copies = 0
        asked(node, "consumer-register", "mem", name="a", ready=ready)
        costs.append(admission.copies)
    assert costs[0] == costs[1] == costs[3] and costs[2] == costs[4] == costs[0] + 99 // LOOKED_AT_PER_COPY


@pytest.mark.parametrize("do", ["consumers", "consumer-register", "consumer-drain", "scale"])
def test_only_of_a_queue_that_is_there(node: Node, do: str) -> None:
    more = {"name": "a"} if do.startswith("consumer-") else {}
    assert code(node, do=do, queue="none", **more) == "no-such-destination"
    assert not node.has("none")


def test_the_numbers_for_who_scales_consumers(node: Node) -> None:
    empty = {"backlog": 0, "oldest_ms": None, "consumers": 0, "useful_consumers": 0}
    assert asked(node, "scale") == {**empty, "active_keys": 0}
    assert asked(node, "scale", "plain") == {**empty, "active_keys": None}
    fill(node, 1, 1, 1, 2)
    node.wait(2)
    node.say(subscribe(2, "q"), send(1, "plain"), send(1, "plain"))
    assert asked(node, "scale") == {
        "backlog": 4,
        "oldest_ms": 2000,
        "active_keys": 2,
        "consumers": 1,
        "useful_consumers": 2,
    }
    assert asked(node, "scale", "plain")["useful_consumers"] == 2


def test_a_queue_is_described_with_its_keys(node: Node) -> None:
    fill(node, 1, 7, 7, 7)
    described = asked(node, "describe")
    assert (described["active_keys"], described["key_moves"]) == (2, 0)
    assert described["hot_key"] == {"key": "7", "messages": 3}
    numbers = node.numbers("q")
    assert (numbers["active_keys"], numbers["useful_consumers"], numbers["key_moves"]) == (2, 2, 0)
