"""`peek`: the oldest messages of a queue, and nothing is changed."""

import json

import pytest

from radiator.model.commands import CLIENT, Send
from radiator.model.limits import ANSWER_LINES, ANSWERS_AT_ONCE
from tests.core.admin.asking import node_with
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe


def test_peek_shows_the_oldest_and_changes_nothing(small: None) -> None:
    node = node_with(20)
    node.say(subscribe(1, "q", CLIENT))
    held = node.message(1)
    before = node.numbers("q")
    shown = node.admin(9, do="peek", queue="/queue/q", count=15)["messages"]
    assert [m["body"] for m in shown] == [str(n) for n in range(15)]
    assert [m["state"] for m in shown[:2]] == ["unacked", "ready"]
    assert shown[0]["message_id"] == held.message_id.decode() and shown[0]["destination"] == "/queue/q"
    assert node.numbers("q") == before
    node.say(ack(held))
    assert node.bodies(1) == [b"1"]


def test_however_many_ask_few_have_messages_read_back_at_once(small: None) -> None:
    node = node_with(40)
    askers = range(10, 40)
    node.open(*askers)
    node.auto = False
    for asker in askers:
        node.say(Send(asker, "/admin", b"", 2, b'{"do": "peek", "queue": "q", "count": 30}', reply_to="t"))
    for _ in range(100):
        node.turn([])
    assert 0 < len(node.read_requests) <= ANSWERS_AT_ONCE * len(ANSWER_LINES)
    node.auto = True
    node.turn([])
    for asker in askers:
        assert [one["body"] for one in json.loads(node.bodies(asker)[-1])["messages"]] == [str(n) for n in range(30)]


def test_peek_shows_headers_counts_and_bytes() -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(1, "q", b"\xff\x00", headers=b"a\\cb:c\\nd\n"), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    (shown,) = node.admin(9, do="peek", queue="q")["messages"]
    assert shown["headers"] == [["a:b", "c\nd"]] and shown["body"] is None and shown["body_base64"] == "/wA="
    assert shown["redelivered"] is True and shown["redelivery_count"] == 1 and shown["size"] == 12


@pytest.mark.parametrize("count, seen", [(None, 10), (1, 1), (1000, 30)])
def test_peek_shows_as_many_as_asked_for(count: int | None, seen: int) -> None:
    node = node_with(30)
    request = {"do": "peek", "queue": "q"} | ({} if count is None else {"count": count})
    assert len(node.admin(9, **request)["messages"]) == seen


def test_peek_cuts_long_bodies_between_characters() -> None:
    node = Node()
    node.open(1)
    node.say(Send(1, "/queue/Q", b"", 2, "ä".encode() * 70_000 + b"x"))
    node.say(Send(1, "/admin", b"", 2, b'{"do": "peek", "queue": "Q"}', reply_to="t"))
    message = json.loads(node.bodies(1)[-1])["messages"][0]
    assert message["body"] == "ä" * (64 * 1024 // 2)
    assert message["body_bytes"] == 140_001


def test_peek_shows_less_of_each_body_where_many_are_asked_for() -> None:
    node = Node()
    node.open(1)
    node.say(Send(1, "/queue/Q", b"", 2, b"a" * 100_000))
    node.say(Send(1, "/admin", b"", 2, b'{"do": "peek", "queue": "Q", "count": 1000}', reply_to="t"))
    message = json.loads(node.bodies(1)[-1])["messages"][0]
    assert len(message["body"]) == 8 * 1024 * 1024 // 1000
