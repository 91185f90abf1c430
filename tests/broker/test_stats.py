"""Numbers that must agree with each other at every moment."""

from radiator.commands import AUTO
from radiator.settings import QueueSettings
from tests.broker.node import Node
from tests.broker.words import ack, nack, queues, send, subscribe


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
    assert node.broker.memory_in_use() == 0
    assert node.stats()["connections"] == node.stats()["subscriptions"] == 0
