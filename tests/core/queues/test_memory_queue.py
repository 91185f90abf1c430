"""Queues in memory: accepted is ready, and gone with the broker."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import ack, nack, queue, queues, send, subscribe


def test_message_is_receipted_and_delivered_without_the_disk() -> None:
    node = Node(queue(persistent=False), auto=False)
    while node.step():
        pass
    node.open(1, 2)
    node.say(subscribe(1, "q", AUTO), send(2, "q", b"x", b"r"))
    assert node.bodies(1) == [b"x"] and node.receipts(2) == [b"r"]
    assert node.broker.seal() is None


@pytest.mark.parametrize("way", ["crash", "stop"])
def test_messages_are_gone_after_a_restart(way: str) -> None:
    node = Node(queue(persistent=False))
    node.open(2)
    node.say(send(2, "q", b"x", b"r"))
    if way == "stop":
        node.stop()
    again = node.again_on(node.disk.platter)
    assert again.numbers("q")["messages"] == again.numbers("q")["accepted"] == 0


def test_ledger_is_kept_like_that_of_a_persistent_queue() -> None:
    node = Node(queue(persistent=False, max_messages=3, overflow="drop-oldest"))
    node.open(1, 2)
    for number in range(5):
        node.say(send(2, "q", b"%d" % number, headers=b"a:b\n"))
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    node.say(nack(node.message(1), requeue=False))
    numbers = node.numbers("q")
    assert (numbers["accepted"], numbers["acked"], numbers["dropped"], numbers["stored"]) == (5, 1, 3, 1)
    assert (numbers["accepted_bytes"], numbers["stored_bytes"]) == (25, 5)


def test_dead_letter_of_a_memory_queue_may_be_persistent() -> None:
    node = Node(queues(q=QueueSettings(persistent=False, dead_letter="dead", max_redeliveries=0), dead=QueueSettings()))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    assert node.stored("dead") == [b"x"]


def test_memory_is_weighed_while_messages_wait() -> None:
    node = Node(queue(persistent=False))
    node.open(1, 2)
    node.say(send(1, "q", bytes(10_000)))
    assert node.in_use_bytes() >= 10_000
    node.say(subscribe(2, "q", AUTO))
    assert node.in_use_bytes() < 1000
