"""T8e: conversations over AMQP: clients that keep its rules, a broker that answers late and refuses, and any bytes.

Judged of a client that keeps the rules: what it publishes comes in order and once; each confirm comes once; each close
is answered, of a channel and of the connection, whoever closes first; nothing waits once everything is answered. Of all
clients: nothing is raised, no more is held than the limits allow, nothing is heard behind the end. It does not see
sockets, nor what a real broker makes of the commands.
"""

import traceback
from collections import deque
from itertools import count
from random import Random
from typing import Any

from radiator.model.administration import DeclareDestination, PurgeQueue
from radiator.model.amqp_limits import AMQP_FRAME_BYTES, AMQP_HELD_BYTES
from radiator.model.answers import Deleted, Purged, QueueDeclared
from radiator.model.commands import Administer, Closed, Disconnect, Fail, Open, Send
from radiator.model.getting import Get
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.replies import (
    Answered,
    Bye,
    Deliver,
    Empty,
    Pause,
    Receipt,
    Refuse,
    RefusedReceipt,
    Resume,
    Returned,
)
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.frame import HEARTBEAT, encode_frame
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.session import AmqpSession
from radiator.protocols.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from tests.campaigns.campaign import Campaign, Run

NUMBER, WIRES = 1, (1, 2, 3)
LIMITS = Limits(max_frame_bytes=3000)
TURNS_MAX = 5_000
HELD_MAX = len(WIRES) * LIMITS.max_frame_bytes + AMQP_HELD_BYTES + AMQP_FRAME_BYTES
GREETING = PROTOCOL_HEADER + b"".join(
    encode_method(0, one) for one in (m.ConnectionStartOk(response=b"\0a\0b"), m.ConnectionTuneOk(), m.ConnectionOpen())
)


class PlainBroker:
    """Answers each connection's commands in order, one at a time, as late as chance will have it."""

    def __init__(self, chance: Random, refuses: float) -> None:
        self.chance = chance
        self.refuses = refuses
        self.waiting: dict[int, deque[Any]] = {}
        self.paused: set[int] = set()
        self.published: dict[int, list[bytes]] = {}

    def hear(self, command: Any) -> None:
        number = command.connection
        if isinstance(command, Open):
            assert number not in self.published, "a connection is opened twice"
            self.waiting[number], self.published[number] = deque(), []
        elif isinstance(command, Closed):
            self.waiting.pop(number, None)
            self.paused.discard(number)
        elif number in self.waiting:
            self.waiting[number].append(command)

    def turn(self) -> list[Any]:
        """The replies to one command of one connection."""
        ready = [number for number, commands in self.waiting.items() if commands or number in self.paused]
        if not ready:
            return []
        number = self.chance.choice(ready)
        if number in self.paused:
            self.paused.discard(number)
            return [Resume(number)]
        command = self.waiting[number][0]
        if isinstance(command, Send) and self.chance.random() < 0.1:
            self.paused.add(number)
            return [Pause(number, self.chance.choice(("", "No room.")))]
        self.waiting[number].popleft()
        replies = self.replies(number, command)
        if any(isinstance(reply, Refuse | Bye) for reply in replies):
            del self.waiting[number]
        return replies

    def replies(self, number: int, command: Any) -> list[Any]:
        refuses = self.chance.random() < self.refuses
        if isinstance(command, Fail):
            return [Refuse(number, "protocol", command.sentence)]
        if isinstance(command, Disconnect):
            return [Receipt(number, command.receipt or b""), Bye(number)]
        if isinstance(command, Administer):
            asked = command.rendering.read(command.body)
            if refuses:
                return [Answered(number, command.receipt or b"", b"No.", "locked")]
            answer = QueueDeclared(0, 0, 0, True) if isinstance(asked, DeclareDestination) else Deleted(1)
            whole = command.rendering.whole(Purged(1) if isinstance(asked, PurgeQueue) else answer)
            return [Answered(number, command.receipt or b"", whole)]
        if isinstance(command, Get):
            message = Message("/queue/q", b"", ESCAPING_ALL, b"x" * self.chance.choice((0, 9, 200_000)), 1)
            found = Deliver(number, command.receipt, b"m", message, True, left=0)
            return [self.chance.choice((Empty(number, command.receipt), found))]
        if isinstance(command, Send):
            return self.sent(number, command, refuses)
        if refuses:
            return [Refuse(number, "locked", "No.")]
        return [Receipt(number, command.receipt)] if getattr(command, "receipt", None) else []

    def sent(self, number: int, command: Send, refuses: bool) -> list[Any]:
        if refuses and command.receipt is None:
            return [Refuse(number, "no-such-destination", "None.")]
        self.published[number].append(command.body)
        if command.receipt is None:
            return []
        if refuses:
            code = self.chance.choice(("queue-full", "no-such-destination"))
            return [RefusedReceipt(number, command.receipt, code, "No.")]
        back = [Returned(number, "/amq/queue/q", b"", ESCAPING_ALL, b"")] if command.mandatory else []
        return [*back, Receipt(number, command.receipt)]


class PlainChannel:
    """What a client knows of one of its channels. is_open: it may send; is_closing: it waits for close-ok."""

    def __init__(self, wire: int) -> None:
        self.wire = wire
        self.is_open = self.is_closing = self.confirms = False
        self.published: list[bytes] = []
        self.confirmed = 0


class PlainClient:
    """Sends what chance will have it, and keeps the rules. wire: the bytes that it has still to send."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.parser = FrameParser()
        self.parser.use(AMQP_FRAME_BYTES)
        list(self.parser.frames(PROTOCOL_HEADER))
        self.wire = GREETING
        self.channels = [PlainChannel(wire) for wire in WIRES]
        self.bodies = count(1)
        self.lived: list[PlainChannel] = []
        self.is_closed = self.is_closing = False

    def act(self) -> None:
        channel = self.chance.choice(self.channels)
        wire = channel.wire
        if channel.is_closing:
            return
        if not channel.is_open:
            channel = PlainChannel(wire)
            self.channels[wire - 1] = channel
            self.lived.append(channel)
            channel.is_open, channel.confirms = True, self.chance.random() < 0.5
            self.wire += encode_method(wire, m.ChannelOpen())
            if channel.confirms:
                self.wire += encode_method(wire, m.ConfirmSelect())
            return
        kind = self.chance.randrange(10)
        if kind < 5:
            for _ in range(self.chance.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, 30))):
                self.publish(channel)
        elif kind == 5:
            channel.is_open, channel.is_closing = False, True
            self.wire += encode_method(wire, m.ChannelClose())
        else:
            rpc = (m.QueueDeclare(queue="q", no_wait=self.chance.random() < 0.5), m.QueuePurge(queue="q"),
                   m.BasicGet(queue="q"), m.BasicQos(0, 1, True), HEARTBEAT)[kind - 6 if kind < 10 else 4]  # fmt: skip
            self.wire += rpc if isinstance(rpc, bytes) else encode_method(wire, rpc)

    def publish(self, channel: PlainChannel) -> None:
        body = b"%d" % next(self.bodies) + b"." * self.chance.choice((0, 0, 100, 2900))
        channel.published.append(body)
        mandatory = self.chance.random() < 0.3
        self.wire += encode_method(channel.wire, m.BasicPublish(routing_key="q", mandatory=mandatory))
        self.wire += encode_frame(2, channel.wire, b"\0\x3c\0\0" + len(body).to_bytes(8) + b"\0\0")
        self.wire += b"".join(encode_frame(3, channel.wire, body[at : at + 1000]) for at in range(0, len(body), 1000))

    def close(self) -> None:
        self.is_closing = True
        self.wire += encode_method(0, m.ConnectionClose())

    def read(self, data: bytes) -> None:
        for frame in self.parser.frames(data):
            if frame.type != FRAME_METHOD:
                continue
            method = decode_method(frame.payload)
            assert not self.is_closed, f"{method} comes behind close-ok"
            if not frame.channel:
                assert not isinstance(method, m.ConnectionClose), f"a client that keeps the rules is closed: {method}"
                self.is_closed = isinstance(method, m.ConnectionCloseOk)
                continue
            channel = self.channels[frame.channel - 1]
            if isinstance(method, m.ChannelClose):
                assert channel.is_open or channel.is_closing, "a channel that is not open is closed"
                channel.is_open = False
                if not self.is_closing:
                    self.wire += encode_method(channel.wire, m.ChannelCloseOk())
            elif isinstance(method, m.ChannelCloseOk):
                assert channel.is_closing, "a close-ok that nobody asked for"
                channel.is_closing = False
            elif isinstance(method, m.BasicAck | m.BasicNack) and (channel.is_open or channel.is_closing):
                first = channel.confirmed + 1
                assert method.delivery_tag == first or (method.multiple and method.delivery_tag > first), method
                channel.confirmed = method.delivery_tag


def converse(chance: Random, refuses: float) -> None:
    """One conversation of a client that keeps the rules. Asserts what is promised to it."""
    session = AmqpSession(NUMBER, LIMITS, count(2).__next__, map(str, count(1)).__next__)
    broker, client = PlainBroker(chance, refuses), PlainClient(chance)
    steps = chance.randrange(10, 120)
    is_patient = chance.random() < 0.5  # it closes its connection when all is answered
    is_held = False  # as a server holds what is full
    idle = 0
    for turn in count():
        if idle == 3:
            break
        assert turn < TURNS_MAX, "it comes to no end"
        heard: list[Any] = []
        if steps > 0:
            steps -= 1
            client.act()
        elif not client.is_closing and (idle == 2 or not is_patient):
            assert not is_patient or not any(channel.is_closing for channel in client.channels), "a close is unanswered"
            client.close()
        is_held = is_held and session.is_full
        if is_held:
            pass
        elif session.has_unread:
            heard = session.receive(b"")
        elif client.wire:
            size = chance.choice((1, 20, 300, 5000, 100_000) if len(client.wire) < 500 else (300, 5000, 100_000))
            heard = session.receive(client.wire[:size])
            client.wire = client.wire[size:]
        is_held = is_held or session.is_full
        out = session.take_outgoing()
        for command in heard:
            broker.hear(command)
        for _ in range(chance.choice((0, 0, 1, 4)) if steps else 1):
            for reply in broker.turn():
                is_large = isinstance(reply, Deliver) and len(reply.message.body) > 100_000
                out += b"".join(session.pieces(reply)) if is_large else session.encode(reply)
        out += session.take_outgoing()
        client.read(out)
        assert session.buffered_bytes <= HELD_MAX, f"{session.buffered_bytes} bytes are held"
        is_idle = not (heard or out or any(broker.waiting.values()) or broker.paused)
        idle = idle + 1 if is_idle and not steps and (is_held or not (client.wire or session.has_unread)) else 0
    assert client.is_closed and session.is_closing, "connection.close is not answered"
    judge(broker, client)


def judge(broker: PlainBroker, client: PlainClient) -> None:
    """What was published on each channel has come in order, without a gap, and was confirmed as far as it was open."""
    heard = [published for number, published in broker.published.items() if number != NUMBER]
    assert len(heard) == len(client.lived), "not every channel was opened"
    for theirs, channel in zip(heard, client.lived, strict=True):
        assert theirs == channel.published[: len(theirs)], "messages were lost, or changed places"
        if channel.is_open:
            assert theirs == channel.published, "messages were lost"
            assert not channel.confirms or channel.confirmed == len(theirs), "messages are not confirmed"


def strange(chance: Random) -> None:
    """One conversation of a client that keeps no rule."""
    session = AmqpSession(NUMBER, LIMITS, count(2).__next__, map(str, count(1)).__next__)
    broker, client = PlainBroker(chance, 0.1), PlainClient(chance)
    for _ in range(chance.randrange(40)):
        client.act()
        if chance.random() < 0.2:
            client.wire += encode_method(chance.choice((0, 1, 9)), chance.choice([*m.METHODS.values()])())
        for channel in client.channels:  # it reads nothing
            channel.is_closing = False
    wire = client.wire
    for _ in range(chance.choice((0, 1, 1, 3))):
        at = chance.randrange(len(GREETING) // 2, len(wire) + 1)
        wire = wire[:at] + chance.choice((b"", b"\xce", chance.randbytes(2), wire[at : at + 9] * 2)) + wire[at + 1 :]
    is_over = False
    while wire and not session.is_full:
        size = chance.choice((1, 300, 5000, 100_000))
        heard, wire = session.receive(wire[:size]), wire[size:]
        assert not is_over or not heard, f"{heard} was heard behind the end"
        for command in heard:
            is_over |= isinstance(command, Fail) and command.connection == NUMBER
            broker.hear(command)
        for reply in broker.turn():
            session.encode(reply)
        session.take_outgoing()
        assert session.buffered_bytes <= HELD_MAX + size, f"{session.buffered_bytes} bytes are held"


def talk(run: Run) -> None:
    """Conversations of both kinds."""
    while not run.is_over:
        number = run.chance.randrange(2**32)
        chance = Random(number)
        try:
            if number % 4:
                converse(chance, chance.choice((0, 0.02, 0.2)))
            else:
                strange(chance)
        except Exception:  # noqa: BLE001 - a session that raises ends its connection
            run.violation(f"conversation {number}: {traceback.format_exc()}")
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T8e",
        name="amqp-sessions",
        title="conversations over AMQP, of clients that keep its rules and of others",
        unit="conversations",
        run=talk,
        cases=(4_000, 200_000, 2_000_000),
        mutants=(
            "confirms-lost-at-close",
            "close-beside-a-refusal-unanswered",
            "full-for-ever",
            "close-overtakes",
            "unanswered-methods-overtaken",
        ),
        mutant_cases=4_000,
        quick_mutants=5,
    ),
)
