"""Requests about the windows and messages of the connection that asks."""

import json
from typing import Any

import pytest

from radiator.model.limits import PREFETCH_COUNT_MAX
from tests.core.admin.asking import code, node_of
from tests.core.node import Node
from tests.core.words import queue, send, subscribe


def widened(node: Node, **request: Any) -> list[bytes]:
    """Bodies of what a `prefetch` of connection 9 has let out."""
    node.say(send(9, "/admin", json.dumps({"do": "prefetch", **request}).encode(), reply_to="t"))
    bodies = node.bodies(9)
    bodies.remove(json.dumps({"ok": True, "prefetch": request["count"]}).encode())
    return bodies


def test_a_live_subscription_gets_a_wider_and_a_narrower_window() -> None:
    node = node_of()
    node.say(subscribe(9, "q", prefetch_count=1, name=b"s"), *(send(1, "q", b"%d" % n) for n in range(9)))
    assert node.bodies(9) == [b"0"]
    assert widened(node, subscription="s", count=3) == [b"1", b"2"]
    assert widened(node, subscription="s", count=1) == []
    assert widened(node, subscription="s", count=4) == [b"3"]


def test_the_shared_window_of_a_connection_can_be_wider() -> None:
    node = node_of()
    node.say(subscribe(9, "q"), subscribe(9, "dead"))
    for number in range(3):
        node.say(send(1, "q", b"q%d" % number), send(1, "dead", b"d%d" % number))
    assert node.bodies(9) == [b"q0"]
    assert len(widened(node, count=3)) == 2
    assert widened(node, count=1) == []


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"subscription": "s"}, "bad-request"),
        ({"subscription": "s", "count": 0}, "bad-request"),
        ({"subscription": "s", "count": PREFETCH_COUNT_MAX + 1}, "bad-request"),
        ({"subscription": "s", "count": True}, "bad-request"),
        ({"subscription": "s", "count": 1, "of": "q"}, "bad-request"),
        ({"subscription": 7, "count": 1}, "bad-request"),
        ({"subscription": None, "count": 1}, "bad-request"),
        ({"subscription": "none", "count": 1}, "subscription"),
        ({"subscription": "\ud800", "count": 1}, "subscription"),
        ({"subscription": "of another", "count": 1}, "subscription"),
        ({"subscription": "shared", "count": 1}, "bad-request"),
        ({}, "bad-request"),
    ],
)
def test_what_has_no_window_gets_no_other(more: dict[str, Any], sentence: str) -> None:
    node = node_of()
    node.say(subscribe(9, "q", prefetch_count=1, name=b"s"), subscribe(9, "dead", name=b"shared"))
    node.say(subscribe(1, "q", prefetch_count=1, name=b"of another"))
    assert code(node, do="prefetch", **more) == sentence


def test_the_widest_window_is_taken() -> None:
    node = node_of()
    node.say(subscribe(9, "q", prefetch_count=1, name=b"s"))
    assert node.admin(9, do="prefetch", subscription="s", count=PREFETCH_COUNT_MAX)["prefetch"] == PREFETCH_COUNT_MAX


def test_a_long_job_gets_more_time() -> None:
    node = Node(queue(ack_timeout_s=10))
    node.open(1, 9)
    node.say(send(1, "q", b"1"), subscribe(9, "q"))
    name = node.message(9).message_id.decode()
    node.wait(9)
    assert node.admin(9, do="extend", id=name) == {"ok": True, "due_ms": node.now_ms + 10_000}
    node.wait(9)
    assert node.admin(9, do="extend", id=name, seconds=0.5) == {"ok": True, "due_ms": node.now_ms + 500}
    assert node.admin(9, do="extend", id=name, seconds=3600) == {"ok": True, "due_ms": node.now_ms + 3_600_000}
    node.wait(3599)
    assert not node.is_refused(9)
    node.wait(2)
    assert node.refusal(9).code == "ack-timeout"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "bad-request"),
        ({"id": 7}, "bad-request"),
        ({"id": "none"}, "not-unacked"),
        ({"id": "\ud800"}, "not-unacked"),
        ({"id": "ID", "seconds": 0}, "bad-request"),
        ({"id": "ID", "seconds": -1}, "bad-request"),
        ({"id": "ID", "seconds": 31_536_001}, "bad-request"),
        ({"id": "ID", "seconds": "10"}, "bad-request"),
        ({"id": "ID", "seconds": True}, "bad-request"),
        ({"id": "ID", "ms": 10}, "bad-request"),
    ],
)
def test_what_cannot_be_extended_is_refused(more: dict[str, Any], sentence: str) -> None:
    node = Node(queue(ack_timeout_s=10))
    node.open(1, 9)
    node.say(send(1, "q", b"1"), subscribe(9, "q"))
    name = node.message(9).message_id.decode()
    assert code(node, do="extend", **{key: name if value == "ID" else value for key, value in more.items()}) == sentence


def test_only_the_consumer_can_extend() -> None:
    node = Node(queue(ack_timeout_s=10))
    node.open(1, 9)
    node.say(send(1, "q", b"1"), subscribe(1, "q"))
    assert code(node, do="extend", id=node.message(1).message_id.decode()) == "not-unacked"


def test_without_an_ack_timeout_there_is_nothing_to_extend() -> None:
    node = node_of()
    node.say(send(1, "q", b"1"), subscribe(9, "q"))
    name = node.message(9).message_id.decode()
    assert node.admin(9, do="extend", id=name, seconds=5) == {"ok": True, "due_ms": None}
