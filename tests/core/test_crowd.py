"""Where consumers stand, one reason at a time; what `why` says of that: test_why.py."""

from radiator.core.connections import Subscription
from radiator.core.crowd import CAN_TAKE, CLOSING, HELD, OUTBOX, STAND_BY, WINDOW, Crowd, listed, stands_of
from radiator.model.commands import AUTO
from tests.core.node import Node
from tests.core.words import queue, send, subscribe


def consumers(node: Node) -> list[Subscription]:
    found = node.broker.destinations.queues.find("q")
    assert found is not None
    return [*found.subscriptions]


def test_what_keeps_a_consumer_is_told_in_this_order() -> None:
    node = Node(queue())
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=1))
    (one,) = consumers(node)
    assert stands_of(one) == CAN_TAKE
    node.say(send(9, "q"))
    assert stands_of(one) == WINDOW
    one.connection.outbox_bytes += one.connection.outbox_max_bytes
    assert stands_of(one) == OUTBOX
    one.stands_by = True
    assert stands_of(one) == STAND_BY
    one.is_held = True
    assert stands_of(one) == HELD
    one.connection.is_closing = True
    assert stands_of(one) == CLOSING


def test_consumers_are_listed_with_their_names_and_windows() -> None:
    node = Node(queue())
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=3, consumer_name="a"), subscribe(2, "q", AUTO))
    assert [(one.name, one.stands, one.window) for one in listed(consumers(node))] == [
        ("a", CAN_TAKE, 3),
        ("", CAN_TAKE, None),
    ]


def test_the_worst_of_a_crowd_has_most_unacked() -> None:
    node = Node(queue())
    node.open(1, 2, 9)
    node.say(
        subscribe(1, "q", prefetch_count=1), subscribe(2, "q", prefetch_count=2), *(send(9, "q") for _ in range(4))
    )
    crowd = Crowd()
    assert [*crowd.look(consumers(node))] == []
    assert crowd.at == {WINDOW: 2} and crowd.worst is not None and crowd.worst.connection.number == 2
