"""`/temp-queue/NAME`."""

from radiator.model.commands import AUTO, CLIENT
from tests.core.node import Node
from tests.core.words import header, send, subscribe, unsubscribe


def asked(node: Node, reply_to: str = "t") -> str:
    """Connection 1 asks, connection 2 hears the address of the reply."""
    node.say(subscribe(2, "work", AUTO), send(1, "work", b"question", headers=b"correlation-id:7\n", reply_to=reply_to))
    message = node.messages(2)[-1].message
    assert header(message, b"correlation-id") == b"7"
    address = header(message, b"reply-to")
    assert address is not None
    node.say(unsubscribe(2, "work"))
    return address.decode()


def test_ack_on_a_temp_queue_works_like_on_any_other() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t", CLIENT))
    address = asked(node)
    node.say(send(2, address, b"1"), send(2, address, b"2"))
    assert node.bodies(1) == [b"1"], "it shares the window"
