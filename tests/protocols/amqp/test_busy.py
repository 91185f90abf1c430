"""Which channels hold something: the sums, and that nothing looks at all of them for each read."""

import time

from radiator.model.amqp_limits import AMQP_CHANNELS_MAX
from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import Message
from radiator.model.replies import Deliver, Pause, Resume
from radiator.protocols.amqp.busy import BusyChannels
from radiator.protocols.amqp.frame import HEARTBEAT
from radiator.protocols.amqp.methods import BasicGet, BasicPublish, BasicQos, ChannelOpen
from tests.protocols.amqp.talking import FIRST, content, made, method, opened
from tests.protocols.amqp.talking import greeting as greeting_of

READS = 1000
HALF = 1008  # of the content below: its last frame


def half(wire: int) -> bytes:
    """A message without its last thousand bytes."""
    return method(wire, BasicPublish(0, "", "q")) + content(wire, b"x" * 2000)[:-HALF]


def test_what_they_hold_is_the_sum_and_nothing_where_they_are_done() -> None:
    session = opened(3)
    assert session.buffered_bytes == 0
    session.receive(half(1) + half(3))
    one = session.buffered_bytes // 2
    assert one > 1000
    session.receive(content(1, b"x" * 2000)[-HALF:])
    assert session.buffered_bytes == one
    session.receive(content(3, b"x" * 2000)[-HALF:])
    assert session.buffered_bytes == 0 and not session.has_unread


def test_one_that_is_paused_can_go_on_when_it_is_resumed() -> None:
    session = opened(2)
    session.encode(Pause(FIRST, "No room."))
    assert session.receive(method(1, BasicQos(0, 5))) == [] and not session.has_unread
    held_bytes = session.buffered_bytes
    assert held_bytes > 0
    session.encode(Pause(FIRST + 1, "No room."))
    assert not session.has_unread
    session.encode(Resume(FIRST + 1))
    assert not session.has_unread  # it holds nothing
    session.encode(Resume(FIRST))
    assert session.has_unread
    session.receive(b"")
    assert session.buffered_bytes == 0 and not session.has_unread


def test_one_can_go_on_when_a_large_message_that_it_has_asked_for_is_sent() -> None:
    session = opened(1)
    session.receive(method(1, BasicGet(0, "q")))
    session.receive(method(1, BasicQos(0, 5)))
    assert not session.has_unread
    message = Message("/queue/q", b"", ESCAPING_ALL, bytes(200_000), 0)
    session.pieces(Deliver(FIRST, None, b"m-1", message, ack_due=False, left=0))
    assert session.has_unread


def test_nothing_is_counted_twice_and_nothing_that_is_forgotten() -> None:
    session, busy = opened(1), BusyChannels()
    session.receive(half(1))
    (channel,) = session._channels.values()
    for _ in range(2):
        busy.note(channel)
        assert 1 in busy.sizes and busy.content_bytes == session.buffered_bytes and not busy.ready
    for _ in range(2):
        busy.forget(1)
        assert 1 not in busy.sizes and busy.content_bytes == busy.held_bytes == 0


def test_a_read_costs_the_same_however_many_channels_hold_half_a_message() -> None:
    session = made()
    session.receive(greeting_of())
    for wire in range(1, AMQP_CHANNELS_MAX + 1):
        session.receive(method(wire, ChannelOpen()) + half(wire))
    began_s = time.process_time()
    for _ in range(READS):
        session.receive(HEARTBEAT)
        assert not session.is_full and not session.has_unread and session.buffered_bytes
    assert time.process_time() - began_s < READS * 0.0005  # a look at each channel takes six times as long
