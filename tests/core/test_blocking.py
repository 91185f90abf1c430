"""Connections whose next command must wait: in which order they go on, and for how long they wait."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.model.commands import AUTO, Closed, InvalidSend, Read, Send
from radiator.model.limits import Limits
from radiator.model.replies import Pause, Receipt, RefusedReceipt, Resume
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, queue, queues, send, subscribe


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


def test_parked_sends_come_in_first_come_first_served() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 2, 3, 9)
    fill(node, 1)
    for connection in (3, 1, 2):
        node.say(send(connection, "q", b"c%d" % connection))
    node.say(subscribe(9, "q"))
    seen = []
    while out := node.messages(9):
        seen.append(out[0].message.body)
        node.say(ack(out[0]))
    assert seen == [b"0", b"c3", b"c1", b"c2"]


def test_new_send_does_not_overtake_those_that_wait() -> None:
    node = Node(queue(max_bytes=10))
    node.open(1, 2, 9)
    node.say(send(9, "q", bytes(8)), send(1, "q", bytes(5)))
    node.say(send(2, "q", b"s"))
    assert node.paused == {1, 2}, "it would fit, but another came first"


def test_all_parked_sends_come_in_when_there_is_room_for_all() -> None:
    node = Node(queue(max_messages=5))
    node.open(1, 2, 9)
    fill(node, 5)
    for number in range(3):
        node.say(send(1, "q", b"a%d" % number, b"%d" % number))
    node.say(send(2, "q", b"b", b"b"))
    assert node.admin(9, do="purge", queue="q")["purged"] == 5
    assert node.stored("q") == [b"a0", b"a1", b"a2", b"b"] and node.paused == set()
    assert node.receipts(1) == [b"0", b"1", b"2"] and node.receipts(2) == [b"b"]


@pytest.mark.parametrize("seconds, refused", [(59.9, False), (60, True)])
def test_parked_send_is_refused_after_block_timeout_s(seconds: float, refused: bool) -> None:
    node = Node(queue(max_messages=1))
    node.open(9)
    fill(node, 1)
    node.say(send(9, "q", b"1", b"r"))
    node.wait(seconds)
    assert node.is_refused(9) == refused
    if refused:
        refuse = node.refusal(9)
        assert refuse.code == "blocked" and refuse.receipt == b"r"
        node.say(send(9, "q", b"2"))
        assert node.numbers("q")["accepted"] == 1


def receipts_of(node: Node, connection: int) -> list[tuple[bytes, str]]:
    """Each RECEIPT of that connection, with the code of a refusal."""
    return [(one.receipt, getattr(one, "code", "")) for one in node.inbox[connection] if isinstance(one, Receipt)]


def test_send_that_asked_for_it_is_told_after_block_timeout_s_and_what_is_behind_it_goes_on() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 9)
    fill(node, 1)
    node.say(
        send(9, "q", b"1", b"r1", survives_refusal=True),
        send(9, "other", b"2", b"r2"),
        send(9, "q", b"3", b"r3", survives_refusal=True),
    )
    node.wait(59.9)
    assert receipts_of(node, 9) == [] and node.paused == {9}
    node.wait(0.1)
    assert receipts_of(node, 9) == [(b"r1", "blocked"), (b"r2", ""), (b"r3", "blocked")]
    assert not node.is_refused(9) and node.paused == set() and node.stored("other") == [b"2"]
    assert node.numbers("q")["accepted"] == 1 and node.numbers("q")["blocked"] == 0
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)), send(9, "q", b"4", b"r4"))
    assert receipts_of(node, 9)[-1] == (b"r4", "")


def test_a_wrong_send_is_refused_in_its_turn_behind_what_waits() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 9)
    fill(node, 1)
    node.say(send(9, "q", b"1", b"r1", survives_refusal=True), InvalidSend(9, "delay 'x' is not a number.", b"r2"))
    assert receipts_of(node, 9) == [] and node.paused == {9}
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    assert receipts_of(node, 9) == [(b"r1", ""), (b"r2", "protocol")] and not node.is_refused(9)
    before = node.broker.context.counters["refusals"]
    node.say(InvalidSend(9, "again", b"r3"), send(9, "other", b"2", b"r4"))
    assert receipts_of(node, 9)[-2:] == [(b"r3", "protocol"), (b"r4", "")]
    assert node.broker.context.counters["refusals"] == before + 1


def test_send_behind_a_refused_one_waits_for_other_room_as_long_as_any() -> None:
    node = Node(queues(a=QueueSettings(max_messages=1), b=QueueSettings(max_messages=1)))
    node.open(1, 9)
    node.say(send(1, "a"), send(1, "b"))
    node.say(send(9, "a", b"1", b"ra", survives_refusal=True), send(9, "b", b"2", b"rb"))
    node.wait(60)
    assert receipts_of(node, 9) == [(b"ra", "blocked")] and node.paused == {9} and not node.is_refused(9)
    node.wait(59.9)
    assert node.paused == {9} and not node.is_refused(9)
    node.wait(0.1)
    refuse = node.refusal(9)
    assert refuse.code == "blocked" and refuse.receipt == b"rb"


def test_refused_send_that_stays_lets_the_next_one_in_line() -> None:
    node = Node(queue(max_bytes=10), Limits(block_timeout_s=10))
    node.open(1, 2, 3, 9)
    node.say(send(9, "q", bytes(8)), send(3, "q", bytes(7), b"t"))
    node.wait(5)
    node.say(send(1, "q", bytes(5), b"r", survives_refusal=True), send(1, "q", bytes(6), b"r2"))
    node.wait(5)
    node.say(send(2, "q", b"s", b"s"))
    assert node.is_refused(3) and {1, 2} <= node.paused and receipts_of(node, 1) == []
    node.wait(5)
    assert receipts_of(node, 1) == [(b"r", "blocked")] and node.is_refused(1) and node.receipts(2) == [b"s"]


def test_refused_sender_lets_the_next_one_in_line() -> None:
    node = Node(queue(max_bytes=10), Limits(block_timeout_s=10))
    node.open(1, 2, 9)
    node.say(send(9, "q", bytes(8)), send(1, "q", bytes(5)))
    node.wait(5)
    node.say(send(2, "q", b"s", b"r"))
    node.wait(5)
    assert node.is_refused(1) and node.receipts(2) == [b"r"]


def test_pause_and_resume_come_in_pairs() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 9)
    fill(node, 1)
    turn = node.broker.turn([Read(9, [send(9, "q", b"1", b"r")])], node.now_s, node.now_ms)
    assert turn.replies == [Pause(9, "No room: /queue/q has none.")]
    node.paused.add(9)
    node.say(subscribe(1, "q"))
    deliver = node.message(1)
    turn = node.broker.turn([Read(1, [ack(deliver)])], node.now_s, node.now_ms)
    assert Resume(9) in turn.replies and Receipt(9, b"r") not in turn.replies


@pytest.mark.parametrize(
    ("destination", "more", "code"),
    [
        ("/amq/queue/none", {"mandatory": True}, "no-subscriber"),
        ("/exchange/none/k", {}, "no-such-destination"),
        ("/queue/a.*", {}, "wildcard"),
        ("/queue/full", {}, "queue-full"),
        ("/queue/full", {"immediate": True}, "no-consumer"),
        ("/topic/t", {"delay_ms": 9}, "no-delay"),
    ],
)
def test_refusal_that_is_told_by_a_receipt_leaves_the_connection(
    destination: str, more: dict[str, Any], code: str
) -> None:
    node = Node(queues(full=QueueSettings(max_messages=1, overflow="reject"), q=QueueSettings()))
    node.open(1, 2)
    node.say(send(1, "full", b"1"))
    refused = Send(1, destination, b"", 2, b"x", b"r", survives_refusal=True, **more)
    node.turn([Read(1, [refused, send(1, "q", b"2", b"s"), refused])])
    replies = [reply for reply in node.take(1) if isinstance(reply, Receipt)]
    assert [(one.receipt, getattr(one, "code", "")) for one in replies] == [(b"r", code), (b"s", ""), (b"r", code)]
    assert (
        isinstance(replies[0], RefusedReceipt)
        and replies[0].sentence.endswith(".")
        and node.stored("q") == [b"2"]
        and node.stored("full") == [b"1"]
    )
    node.say(replace(refused, connection=2, survives_refusal=False))
    error = node.refusal(2)
    assert (error.code, error.sentence) == (code, replies[0].sentence)


def test_parked_connection_is_paused_and_its_own_acks_wait() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 2)
    node.say(subscribe(1, "other"), send(2, "other"), send(2, "q"))
    held = node.message(1)
    turn = node.broker.turn([Read(1, [send(1, "q"), ack(held, b"r")])], node.now_s, node.now_ms)
    assert turn.replies == [Pause(1, "No room: /queue/q has none.")]
    node.turn([])
    assert node.receipts(1) == [] and node.stored("other") == [b"x"]
    node.open(3)
    node.say(subscribe(3, "q", AUTO))
    assert node.receipts(1) == [b"r"] and node.stored("other") == []


def test_other_connections_go_on_while_one_is_parked() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 2, 3)
    node.say(send(1, "q"), send(1, "q"))
    assert node.paused == {1}
    node.say(subscribe(3, "other"), send(2, "other", b"y", b"r"))
    assert node.receipts(2) == [b"r"] and node.bodies(3) == [b"y"]


def test_parked_connection_resumes_once_and_in_order() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 3)
    for number in range(4):
        node.say(send(1, "q", b"%d" % number, b"%d" % number))
    assert node.receipts(1) == [b"0"]
    node.say(subscribe(3, "q", AUTO))
    assert node.bodies(3) == [b"0", b"1", b"2", b"3"] and node.receipts(1) == [b"0", b"1", b"2", b"3"]
    assert node.paused == set()
    assert Resume(1) not in node.broker.turn([], node.now_s, node.now_ms).replies


def test_closed_connection_leaves_the_line_to_the_next() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 2, 3, 4)
    node.say(send(4, "q", b"first"), send(1, "q", b"gone"), send(2, "q", b"second"))
    node.turn([Closed(1)])
    node.say(subscribe(3, "q", AUTO))
    assert node.bodies(3) == [b"first", b"second"]
