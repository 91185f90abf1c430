"""Bytes however they are cut, and any bytes: the same commands, nothing raised, no more held than is promised."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radiator.model.amqp_limits import AMQP_FRAME_BYTES, AMQP_HELD_BYTES
from radiator.model.commands import Abort, Administer, Closed, Fail, Heard, Send
from radiator.model.limits import Limits
from radiator.model.replies import Answered, Bye, Empty, Pause, Receipt, Refuse, Resume
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.channel import Channel
from radiator.protocols.amqp.frame import HEARTBEAT, encode_frame
from radiator.protocols.amqp.session import AmqpSession
from radiator.protocols.amqp.spec import FRAME_MIN_BYTES, PROTOCOL_HEADER
from tests.protocols.amqp.talking import (
    FIRST,
    NUMBER,
    content,
    greeting,
    kinds,
    made,
    method,
    methods_in,
    publish,
    start_ok,
)

RPC = b"rpc"
STEPS = (PROTOCOL_HEADER, start_ok(), method(0, m.ConnectionTuneOk()))

TALK = b"".join([
    greeting(frame_max=FRAME_MIN_BYTES),
    method(1, m.ChannelOpen()),
    publish(1, body=b"x" * 3000),
    method(2, m.ChannelOpen()),
    method(2, m.TxSelect()),
    method(2, m.BasicPublish()) + content(2)[:22],
    HEARTBEAT,
    method(1, m.ConfirmSelect()),
    publish(1, mandatory=True),
    method(1, m.BasicQos(0, 5)),
    method(1, m.QueueDeclare(queue="q")),
    publish(1, "held"),
    method(1, m.BasicAck(9)),
    publish(1, "behind the end"),
])  # fmt: skip


def hear(session: AmqpSession, pieces: list[bytes], is_answered: bool = False) -> tuple[list[Heard], bytes]:
    """The commands, and what the session says by itself. is_answered: what the first channel waits for before it has
    something to say.
    """
    commands: list[Heard] = []
    outgoing = b""
    for piece in pieces:
        heard = session.receive(piece)
        commands += heard
        outgoing += session.take_outgoing()
        while is_answered and any(isinstance(command, Abort) for command in heard):
            outgoing += session.encode(Receipt(FIRST, RPC))
            heard = session.receive(b"")
            commands += heard
    outgoing += session.encode(Answered(FIRST, RPC, b""))
    return commands + session.receive(b""), outgoing


def shape(commands: list[Heard]) -> list[Any]:
    """Requests of the administration are equal to none other."""
    return [Administer if isinstance(command, Administer) else command for command in commands]


def cut(places: list[int], wire: bytes = TALK) -> list[bytes]:
    ends = [0, *sorted(place % len(wire) for place in places), len(wire)]
    return [wire[start:end] for start, end in zip(ends, ends[1:], strict=False)]


@given(st.lists(st.integers(0, len(TALK)), max_size=8))
@settings(deadline=None)
def test_a_conversation_is_the_same_however_it_is_cut(places: list[int]) -> None:
    whole, outgoing = hear(made(), [TALK], True)
    assert len(whole) == 14 and isinstance(whole[-1], Fail) and whole[-1].connection == FIRST
    commands, said_so = hear(made(), cut(places), True)
    assert shape(commands) == shape(whole) and sorted(kinds(said_so), key=str) == sorted(kinds(outgoing), key=str)


def test_a_conversation_is_the_same_byte_by_byte() -> None:
    pieces = [TALK[n : n + 1] for n in range(len(TALK))]
    assert shape(hear(made(), pieces, True)[0]) == shape(hear(made(), [TALK], True)[0])


# ---- messages that come whole ---------------------------------------------------------------------------------------


def message(chance: random.Random) -> bytes:
    """A message, which may be wrong in one of the ways that one can be."""
    wire, body = chance.choice((1, 1, 1, 2, 3)), chance.randbytes(chance.choice((0, 1, 5, 2000)))
    properties = chance.choice((
        b"\0\0", b"\x10\0\x02", b"\x10\0\x02", b"\1\0\x03100", b"\1\0\3soon", b"\0\x10\4shop", b"\0\x10\5other",
        b"\2\0\x15amq.rabbitmq.reply-to", b"\0\1", b"", b"\x80\0\xff", bytes(60),
        b"\x20\0\0\0\0\x0b\2CCA\0\0\0\3S\0\0", b"\x20\0" + b"\0\0\0\x0e\2CCA\0\0\0\6S\0\0\0\1k",
    ))  # fmt: skip
    return publish(wire, chance.choice(("q", "p")), body, chance.choice(("", "", "e", "a/b")), properties=properties,
                   mandatory=chance.random() < 0.2, immediate=chance.random() < 0.1)  # fmt: skip


def message_talk(chance: random.Random) -> bytes:
    others = (
        method(1, m.ConfirmSelect(True)), method(1, m.TxSelect()), method(1, m.ChannelClose()),
        method(1, m.BasicAck(3)), method(2, m.BasicQos(0, 5)), method(2, m.BasicPublish(0, "", "q")), HEARTBEAT,
        method(0, m.ChannelOpen()),
    )  # fmt: skip
    parts = [message(chance) if chance.random() < 0.8 else chance.choice(others) for _ in range(chance.randrange(12))]
    if chance.random() < 0.5:
        parts = [mutated(chance, part) if chance.random() < 0.2 else part for part in parts]
    opening = [method(1, m.ChannelOpen()), method(2, m.ChannelOpen())]
    is_confirmed = chance.random() < 0.5
    return b"".join([*opening, *[method(wire, m.ConfirmSelect(True)) for wire in (1, 2) if is_confirmed], *parts])


@pytest.mark.parametrize("nth", range(200))
def test_what_comes_whole_is_heard_as_what_comes_byte_by_byte(nth: int) -> None:
    """No message comes whole then: each frame is taken for itself."""
    chance = random.Random(nth)
    limits = Limits(max_frame_bytes=1500, max_header_bytes=50)
    wire = b"".join(message_talk(chance) for _ in range(2))
    ways = [[wire], [wire[at : at + 1] for at in range(len(wire))], cut(chance.choices(range(9000), k=6), wire)]
    ended = []
    for pieces in ways:
        session = made(None, limits)
        session.receive(greeting())
        commands, outgoing = hear(session, pieces)
        # what the client is told of a failure, and what the next method has to say
        outgoing += session.encode(Refuse(NUMBER, "protocol", "x")) if commands and type(commands[-1]) is Fail else b""
        ended.append(
            (shape(commands), sorted(map(str, methods_in(outgoing))), session.buffered_bytes, session.is_closing)
        )
    assert ended[0] == ended[1] == ended[2]


def test_a_message_that_comes_whole_is_taken_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    session = made()
    session.receive(greeting() + method(1, m.ChannelOpen()))
    monkeypatch.setattr(Channel, "take", None)
    assert [type(command) for command in session.receive(publish(1) * 3)] == [Send] * 3


# ---- any bytes ------------------------------------------------------------------------------------------------------


def mutated(chance: random.Random, wire: bytes) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(wire) + 1)
        end = min(len(wire), start + chance.choice((0, 1, 1, 3, 20)))
        new = chance.choice((b"", wire[start:end] * 2, chance.randbytes(1), chance.randbytes(4), b"\xce", HEARTBEAT))
        wire = wire[:start] + new + wire[end:]
    return wire


ALL_METHODS = [kind() for kind in m.METHODS.values()]


def random_talk(chance: random.Random) -> bytes:
    """Frames in an order in which no client sends them."""
    frames = [
        lambda wire: method(wire, chance.choice(ALL_METHODS)),
        lambda wire: publish(wire, body=chance.randbytes(chance.randrange(300))),
        lambda wire: content(wire, b"x" * chance.randrange(3000), step=chance.choice((10, 700))),
        lambda wire: encode_frame(chance.choice((1, 2, 3, 8)), wire, chance.randbytes(chance.randrange(40))),
        lambda wire: method(wire, m.ChannelOpen()),
        lambda wire: method(wire, m.ChannelClose()),
    ]
    talk = b"".join(chance.choice(frames)(chance.choice((0, 1, 1, 1, 2, 2))) for _ in range(chance.randrange(20)))
    return greeting() + method(1, m.ChannelOpen()) + method(2, m.ChannelOpen()) + talk


def random_reply(chance: random.Random) -> Any:
    number = chance.choice((NUMBER, FIRST, FIRST + 1, FIRST + 2))
    return chance.choice((
        Receipt(number, RPC), Receipt(number, b"%d" % chance.randrange(3)), Answered(number, RPC, b""),
        Answered(number, RPC, b"No.", "locked"), Pause(number, "No room."), Resume(number), Empty(number, RPC),
        Bye(number), Refuse(number, "locked", "No."),
    ))  # fmt: skip


@pytest.mark.parametrize("nth", range(300))
def test_no_bytes_make_a_session_raise_or_hold_much(nth: int) -> None:
    chance = random.Random(nth)
    session = made(None, Limits(max_frame_bytes=2000))
    wire = random_talk(chance)
    if nth % 3:
        wire = mutated(chance, wire)
    read_bytes = chance.choice((1, 100, 5000))
    ended = False
    for start in range(0, len(wire), read_bytes):
        was_open, is_full = session.is_open, session.is_full
        if is_full:
            assert not session.has_unread
            break
        commands = session.receive(wire[start : start + read_bytes])
        assert not ended or commands == [], "something was heard after the end"
        ended = any(isinstance(command, Fail) and command.connection == NUMBER for command in commands)
        assert was_open or not commands or commands[0].connection == NUMBER, "Open comes first"
        assert session.buffered_bytes <= 2 * 2000 + AMQP_FRAME_BYTES + AMQP_HELD_BYTES + read_bytes
        if not session.is_open:
            assert session.buffered_bytes <= FRAME_MIN_BYTES
        methods_in(session.take_outgoing().removesuffix(PROTOCOL_HEADER))
        if chance.random() < 0.3 and not ended:
            methods_in(session.encode(random_reply(chance)) + session.take_outgoing())
    assert all(not isinstance(late, Closed) or late.connection >= FIRST for late in session.receive(b""))


@given(st.binary(max_size=60), st.sampled_from([0, 1, 2]))
def test_any_bytes_behind_any_step_are_taken_or_refused(junk: bytes, done: int) -> None:
    session = made()
    assert session.receive(b"".join(STEPS[: done + 1]) + junk) == []
    assert session.buffered_bytes <= FRAME_MIN_BYTES


def test_a_stranger_holds_no_more_than_a_frame() -> None:
    session = made()
    session.receive(PROTOCOL_HEADER)
    frame = b"\1\0\0" + (FRAME_MIN_BYTES - 8).to_bytes(4) + bytes(FRAME_MIN_BYTES - 8)
    assert session.receive(frame) == [] and session.buffered_bytes == FRAME_MIN_BYTES - 1 and not session.is_closing
    session = made()
    session.receive(PROTOCOL_HEADER + b"\1\0\0" + (FRAME_MIN_BYTES - 7).to_bytes(4))
    assert session.is_closing and session.buffered_bytes == 0
