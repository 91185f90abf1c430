"""What channels share is one object of their connection: how much has come of messages that are not whole, too."""

from collections.abc import Callable

import pytest

from radiator.model.amqp_limits import AMQP_MESSAGES_IN_PART
from radiator.model.commands import Fail, Send
from radiator.model.limits import Limits
from radiator.model.replies import Refuse
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.common import CommonToChannels
from radiator.protocols.amqp.frame import encode_frame
from radiator.protocols.amqp.session import AmqpSession
from tests.protocols.amqp.talking import FIRST, NO_PROPERTIES, content, method, only, open_channel, opened

SIZE = 1000  # max_frame_bytes
ENDS: dict[str, Callable[[AmqpSession, int, int], object]] = {
    "whole": lambda session, wire, number: session.receive(encode_frame(3, wire, b"x")),
    "closed by its client": lambda session, wire, number: session._by_number[number].end([]),  # noqa: SLF001
    "refused": lambda session, wire, number: session.encode(Refuse(number, "ack-timeout", "It is so.")),
}


def begun(wire: int, size: int) -> bytes:
    """So many bytes of properties and a body that is not whole."""
    body = b"x" * (size - len(NO_PROPERTIES))
    return method(wire, m.BasicPublish(0, "", "q")) + content(wire, body + b"x", step=len(body))[: -len(b"x") - 8]


def test_each_connection_has_its_own() -> None:
    one, other = (CommonToChannels(4096, 1, 1, "ann", str, can_cancel=False) for _ in range(2))
    one.own_queues["amq.gen-1"] = None
    one.out.append(b"frame")
    assert (other.own_queues, other.out) == ({}, [])


def test_a_connection_holds_so_much_of_messages_that_are_not_whole() -> None:
    session = opened(AMQP_MESSAGES_IN_PART + 2, Limits(max_frame_bytes=SIZE))
    for wire in range(1, AMQP_MESSAGES_IN_PART + 1):
        assert session.receive(begun(wire, SIZE - 1)) == []
    last = AMQP_MESSAGES_IN_PART + 1
    assert session.receive(begun(last, AMQP_MESSAGES_IN_PART)) == []
    assert session.buffered_bytes == AMQP_MESSAGES_IN_PART * SIZE
    fail = only(session.receive(begun(last + 1, 3)))
    assert isinstance(fail, Fail) and fail.connection == FIRST + last, "the channel ends, and not the connection"
    assert "8002 bytes of messages that are not whole: 8000 is the most, 8 times max_frame_bytes" in fail.sentence
    held_bytes = 9  # the frame that came behind it
    assert session.buffered_bytes == AMQP_MESSAGES_IN_PART * SIZE + held_bytes
    assert isinstance(only(session.receive(encode_frame(3, 1, b"x"))), Send), "the others go on"
    assert session.buffered_bytes == (AMQP_MESSAGES_IN_PART - 1) * SIZE + 1 + held_bytes


def test_one_byte_of_a_body_past_it_is_too_much() -> None:
    session = opened(AMQP_MESSAGES_IN_PART + 1, Limits(max_frame_bytes=SIZE))
    for wire in range(1, AMQP_MESSAGES_IN_PART + 1):
        assert session.receive(begun(wire, SIZE - 1)) == []
    wire = AMQP_MESSAGES_IN_PART + 1
    assert (
        session.receive(method(wire, m.BasicPublish(0, "", "q")) + content(wire, b"x" * 100, step=6)[: 22 + 14]) == []
    )
    assert isinstance(only(session.receive(encode_frame(3, wire, b"x"))), Fail)


@pytest.mark.parametrize("way", ENDS)
def test_what_is_let_go_of_makes_way(way: str) -> None:
    session = opened(1, Limits(max_frame_bytes=SIZE))
    for wire in range(2, 3 * AMQP_MESSAGES_IN_PART):
        number = open_channel(session, wire)
        assert session.receive(begun(wire, SIZE - 1)) == []
        ENDS[way](session, wire, number)
        assert session._shared.content_bytes == 0  # noqa: SLF001
