"""T8e: conversations over AMQP: clients that keep its rules, a broker that answers late and refuses, and any bytes.

Judged of a client that keeps the rules: what it publishes, acks and gives back comes in order and once, and names the
messages that it means, in transactions too; each confirm comes once, behind the broker's word, and behind what has come
back; tags ascend; each close is answered, of a channel and of the connection, whoever closes first, and is the last
word; nothing waits once everything is answered. Of all clients: nothing is raised, no more is held than the limits
allow, nothing is heard behind the end. It does not see sockets, nor what a real broker makes of the commands.
"""

import traceback
from itertools import count
from random import Random
from typing import Any

from radiator.model.amqp_limits import AMQP_FRAME_BYTES, AMQP_HELD_BYTES
from radiator.model.commands import Fail
from radiator.model.limits import Limits
from radiator.model.replies import Deliver
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.codec import encode_method
from radiator.protocols.amqp.session import AmqpSession
from tests.campaigns.amqp_plain import GREETING, WIRES, PlainBroker, PlainClient, judge
from tests.campaigns.campaign import Campaign, Run

NUMBER = 1
LIMITS = Limits(max_frame_bytes=3000)
TURNS_MAX = 5_000
HELD_MAX = len(WIRES) * LIMITS.max_frame_bytes + AMQP_HELD_BYTES + AMQP_FRAME_BYTES


def converse(chance: Random, refuses: float) -> None:
    """One conversation of a client that keeps the rules. Asserts what is promised to it."""
    session = AmqpSession(NUMBER, LIMITS, count(2).__next__, map(str, count(1)).__next__)
    broker = PlainBroker(chance, refuses)
    client = PlainClient(chance, broker)
    steps = chance.randrange(10, 120)
    is_patient = chance.random() < 0.5  # it closes its connection when all is answered
    swiftness = chance.choice((1, 1, 0.3))  # of the network: the two sides may speak at once
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
        elif client.wire and chance.random() < swiftness:
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
    judge(broker, client, NUMBER)


def strange(chance: Random) -> None:
    """One conversation of a client that keeps no rule."""
    session = AmqpSession(NUMBER, LIMITS, count(2).__next__, map(str, count(1)).__next__)
    broker = PlainBroker(chance, 0.1)
    client = PlainClient(chance, broker)
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
            "confirmed-before-commit",
            "multiple-ack-past-the-tag",
            "return-after-the-confirm",
            "last-words-overtaken",
        ),
        mutant_cases=4_000,
        quick_mutants=9,
    ),
)
