"""T8f: bytes at a port of AMQP, in all chunkings, before and after the login; and clients that break one rule.

The bytes of one conversation, harmed or not, come in several chunkings: whole, byte by byte and by chance. The commands
and the words of the session must be the same in all of them; nothing is raised, no more is held than was sent or than
the limits allow, nothing is heard or said behind the end, and nobody is connected without a login. The lies are of
clients that are connected: a body beyond its size, a table beyond its bounds (before the login too), a tag of another
channel or for a second time. Each is told the code that it has earned, and what is at the bound is taken.
"""

import traceback
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from radiator.model.amqp_limits import AMQP_FRAME_BYTES, TABLE_DEPTH_MAX, TABLE_FIELDS_MAX
from radiator.model.commands import Ack, Administer, Fail, Heard, Open, Send
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.principal import ANYONE, Check, Principal, RecognisedBy, Verdict
from radiator.model.replies import Deliver, Receipt, Refuse
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp import spec
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.connection_methods import ConnectionClose
from radiator.protocols.amqp.frame import encode_frame
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.session import AmqpSession
from tests.campaigns.amqp_plain import GREETING, PlainBroker, PlainClient
from tests.campaigns.campaign import Campaign, Run

NUMBER, FIRST, SECOND = 1, 2, 3  # the connection, and its first two channels
RPC = b"rpc"
LIMITS = Limits(max_frame_bytes=3000)
SOMEBODY = Principal("somebody", RecognisedBy.PASSWORD)
CONNECTED = m.ChannelOpen(), m.ChannelOpen()
DECLARE = b"\0\x32\0\x0a\0\0\x01q\0"  # queue.declare of q, without its table
OF_NOTHING = b"\0\x3c\0\0"  # a content header of class basic, without its size and its properties

Outcome = tuple[list[Any], bytes, bool]  # what is heard, what is answered, and whether that ended the connection


class PlainLogin:
    """Lets in whoever has a secret; whether a check finds that out, or it is known at once."""

    def __init__(self, is_at_once: bool) -> None:
        self.is_at_once = is_at_once

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        verdict: Verdict = SOMEBODY if secret == b"b" else Refusal("forbidden", "No.")
        return self.answered(verdict) if self.is_at_once else lambda: self.answered(verdict)

    def unasked(self, principal: Principal) -> Principal | None:
        return None

    def answered(self, verdict: Verdict) -> Principal:
        if isinstance(verdict, Refusal):
            raise verdict
        return verdict


def new_session(login: PlainLogin | None = None) -> AmqpSession:
    return AmqpSession(NUMBER, LIMITS, count(FIRST).__next__, map(str, count(1)).__next__, ANYONE, login)


# ---- chunkings ------------------------------------------------------------------------------------------------------


def outcome(wire: bytes, sizes: Callable[[], int], login: PlainLogin | None) -> Outcome:
    """What is heard in those bytes, and what is answered, by a broker that says nothing."""
    session = new_session(login)
    heard: list[Any] = []
    out, at = b"", 0
    is_over = False
    while at < len(wire):
        size = sizes()
        piece, at = wire[at : at + size], at + size
        commands = session.receive(piece)
        while session.pending is not None:
            commands += session.answered(verdict_of(session.pending))
        assert not is_over or not commands, f"{commands} was heard behind the end"
        is_over = is_over or session.is_closing
        is_over = is_over or any(isinstance(one, Fail) and one.connection == NUMBER for one in commands)
        # a rendering is equal to itself alone: what it reads says what was asked
        asked = [(one.connection, one.rendering.read(one.body)) for one in commands if isinstance(one, Administer)]
        heard += [asked.pop(0) if isinstance(one, Administer) else one for one in commands]
        out += session.take_outgoing()
        assert session.buffered_bytes <= max(at, AMQP_FRAME_BYTES), f"{session.buffered_bytes} of {at} bytes are held"
    return heard, out, is_over


def verdict_of(check: Check) -> Verdict:
    try:
        return check()
    except Refusal as refused:
        return refused


def harmed(chance: Random, wire: bytes) -> bytes:
    """With some small harms: half of them before the login is over."""
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at = chance.randrange(len(GREETING) if chance.random() < 0.5 else len(wire) + 1)
        new = chance.choice(
            (b"", b"\xce", b"\0\0\0\0", b"\xff\xff\xff\xff", chance.randbytes(2), wire[at : at + 9] * 2)
        )
        wire = wire[:at] + new + wire[at + chance.choice((0, 1, 1, 4)) :]
    return wire


def conversation(chance: Random) -> bytes:
    """What a client says whom nobody answers: so it knows of no message. Some close in the end, and say more."""
    client = PlainClient(chance, PlainBroker(chance, 0), (0, 9, 100) if chance.random() < 0.8 else (2900,))
    if chance.random() < 0.1:
        client.wire = client.wire.replace(b"\0a\0b", b"\0a\0c")
    for _ in range(chance.choice((0, 3, 10, 30))):
        client.act()
        if chance.random() < 0.2:
            client.wire += encode_method(chance.choice((0, 1, 9)), chance.choice([*m.METHODS.values()])())
        for channel in client.channels:
            channel.is_closing = False
    if chance.random() < 0.2:
        client.close()
        client.wire += chance.choice((b"", chance.randbytes(20), GREETING))
    return client.wire


def compare(chance: Random) -> int:
    """One conversation in several chunkings: how many bytes that was, in all of them."""
    wire = harmed(chance, conversation(chance))
    login = chance.choice((None, PlainLogin(True), PlainLogin(False)))
    whole = outcome(wire, lambda: len(wire), login)
    chunkings = [lambda: chance.choice((1, 2, 7, 300)), lambda: chance.choice((100, 5000))]
    if len(wire) < 20_000:
        chunkings.append(lambda: 1)
    is_checked = login is not None and not login.is_at_once
    for sizes in chunkings:
        agree(outcome(wire, sizes, login), whole, is_checked)
    if login is not None:
        agree(outcome(wire, lambda: len(wire), PlainLogin(is_checked)), whole, True)
    who = {one.principal for one in whole[0] if isinstance(one, Open)}
    assert who <= {ANYONE if login is None else SOMEBODY}, f"{who} are connected"
    return len(wire) * (len(chunkings) + 1)


def agree(one: Outcome, other: Outcome, is_checked: bool) -> None:
    """They are the same. is_checked: a frame may come while a login waits for its check. If it is broken, or longer
    than one may be before a login, it ends the connection; in other pieces it comes too late for that.
    """
    if not is_checked or not (one[2] or other[2]):
        assert one == other, "it is heard otherwise where it comes in other pieces, or a login is checked"
        return
    short, long = sorted(
        ([heard for heard in words[0] if not isinstance(heard, Fail)] for words in (one, other)), key=len
    )
    assert long[: len(short)] == short, "it is heard in another order where it comes in other pieces"


# ---- lies -----------------------------------------------------------------------------------------------------------


class Liar:
    """A client with two channels that breaks one rule, in pieces of any size."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.session = new_session()
        self.parser = FrameParser()
        self.parser.use(AMQP_FRAME_BYTES)
        list(self.parser.frames(spec.PROTOCOL_HEADER))
        self.sent_bytes = 0
        self.say(GREETING + encode_method(1, CONNECTED[0]) + encode_method(2, CONNECTED[1]))

    def say(self, wire: bytes) -> list[Heard]:
        heard: list[Heard] = []
        self.sent_bytes += len(wire)
        while wire:
            size = self.chance.choice((1, 7, 100, 5000))
            heard += self.session.receive(wire[:size])
            wire = wire[size:]
        return heard

    def code_for(self, heard: list[Heard]) -> int:
        """The code of the close that its lie is answered with, of its channel or the connection; 0: there is none."""
        out = self.session.take_outgoing()
        for one in heard:
            if isinstance(one, Fail):
                out += self.session.encode(Refuse(one.connection, "protocol", one.sentence))
        methods = [decode_method(one.payload) for one in self.parser.frames(out) if one.type == spec.FRAME_METHOD]
        codes = [one.reply_code for one in methods if isinstance(one, ConnectionClose | m.ChannelClose)]
        return codes[0] if codes else 0

    def hold(self, number: int, wire: int, names: list[bytes]) -> None:
        """That channel consumes, and is given these messages."""
        self.say(encode_method(wire, m.BasicConsume(queue="q", consumer_tag="c")))
        self.session.encode(Receipt(number, RPC))
        for name in names:
            message = Message("/queue/q", b"", ESCAPING_ALL, name, 1)
            self.session.encode(Deliver(number, b"c", name, message, True))


def a_body_of_another_size(liar: Liar) -> None:
    """More of it than its header says; less, and then another method; and just so much."""
    size, excess = liar.chance.choice((1, 5, 900)), liar.chance.choice((0, 1, 900))
    head = OF_NOTHING + size.to_bytes(8) + b"\0\0"
    wire = encode_method(1, m.BasicPublish(routing_key="q")) + encode_frame(2, 1, head)
    first = liar.chance.randrange(size)
    for part in (b"x" * first, b"x" * (size + excess - first)):
        wire += encode_frame(3, 1, part) if part else b""
    heard = liar.say(wire)
    sends = [one.body for one in heard if isinstance(one, Send)]
    code = liar.code_for(heard)
    assert code == (spec.FRAME_ERROR if excess else 0), f"a body of {size} + {excess} bytes is answered {code}"
    assert sends == ([] if excess else [b"x" * size]), f"a body of {size} + {excess} bytes is heard as {sends}"


def a_table_without_a_bound(liar: Liar) -> None:
    """As many fields, or as deep, as there may be; and one more, or many."""
    more = liar.chance.choice((0, 1, 900))
    is_deep = liar.chance.random() < 0.5
    if is_deep:
        table = b""
        for _ in range(TABLE_DEPTH_MAX + more - 1):
            table = b"\x01aF" + len(table).to_bytes(4) + table
    else:
        names = [b"%d" % number for number in range(TABLE_FIELDS_MAX + more)]
        table = b"".join(bytes((len(name),)) + name + b"V" for name in names)
    is_before_the_login = liar.chance.random() < 0.5 and len(table) < 3000
    if is_before_the_login:
        start = encode_method(0, m.METHODS[10, 11](response=b"\0a\0b"))[7:-1]
        empty, with_table = start[:4] + bytes(4), start[:4] + len(table).to_bytes(4) + table
        session = new_session()
        heard = session.receive(spec.PROTOCOL_HEADER + encode_frame(1, 0, with_table + start[len(empty) :]))
        is_taken = not session.is_closing and not heard
        assert is_taken is (not more), f"a table with {more} too many comes before the login, and is taken: {is_taken}"
        return
    heard = liar.say(encode_frame(1, 1, DECLARE + len(table).to_bytes(4) + table))
    code = liar.code_for(heard)
    asked = [one for one in heard if isinstance(one, Administer)]
    is_broken = code in (spec.SYNTAX_ERROR, spec.FRAME_ERROR)
    assert is_broken is bool(more) and not (asked and more), f"a table with {more} too many is answered {code}"


def a_tag_that_is_not_ours(liar: Liar) -> None:
    """Of another channel, acked already, of nothing yet, 0 for one; each ends that channel alone. Then all acks name
    what they mean.
    """
    liar.hold(FIRST, 1, [b"a1", b"a2"])
    liar.hold(SECOND, 2, [b"b1", b"b2", b"b3", b"b4"])
    heard = liar.say(encode_method(2, m.BasicAck(2, True)))
    wanted = [Ack(SECOND, b"b1", more=(b"b2",))]
    assert heard == wanted, f"an ack of all to the second is heard as {heard}"
    wire, tag, multiple = liar.chance.choice((
        (1, 3, False), (1, 4, True), (1, 0, False), (2, 1, False), (2, 2, False), (2, 2, True), (2, 5, True),
    ))  # fmt: skip
    number = (FIRST, SECOND)[wire - 1]
    method = liar.chance.choice((m.BasicAck(tag, multiple), m.BasicNack(tag, multiple), m.BasicReject(tag)))
    if multiple and isinstance(method, m.BasicReject):
        return
    heard = liar.say(encode_method(wire, method))
    assert [type(one) for one in heard] == [Fail], f"{method} on channel {wire} is heard as {heard}"
    assert heard[0].connection == number, f"{method} on channel {wire} ends {heard}"
    assert liar.code_for(heard) == spec.PRECONDITION_FAILED


LIES: tuple[Callable[[Liar], Any], ...] = (a_body_of_another_size, a_table_without_a_bound, a_tag_that_is_not_ours)


def lie(chance: Random) -> int:
    liar = Liar(chance)
    chance.choice(LIES)(liar)
    return liar.sent_bytes


def fuzz(run: Run) -> None:
    lies = conversations = 0
    while not run.is_over:
        number = run.chance.randrange(2**32)
        chance = Random(number)
        is_lie = number % 3 == 0
        try:
            sent_bytes = lie(chance) if is_lie else compare(chance)
        except Exception:  # noqa: BLE001 - a session that raises ends its connection
            sent_bytes = 1
            run.violation(f"bytes {number}: {traceback.format_exc()}")
        run.case(sent_bytes)
        lies += is_lie
        conversations += not is_lie
    run.figures |= {"lies": lies, "conversations in several chunkings": conversations}


CAMPAIGNS = (
    Campaign(
        number="T8f",
        name="amqp-bytes",
        title="bytes of AMQP in all chunkings, before and after the login, and clients that break one rule",
        unit="bytes",
        run=fuzz,
        cases=(10_000_000, 300_000_000, 3_000_000_000),
        mutants=(
            "body-over-its-size-taken",
            "table-of-any-depth",
            "table-of-any-size",
            "tag-of-another-channel",
            "frame-end-not-awaited",
            "heard-behind-the-end",
        ),
        mutant_cases=30_000_000,
        quick_mutants=6,
    ),
)
