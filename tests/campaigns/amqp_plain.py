"""The two sides that T8e and T8f have a session of AMQP talk to: a broker that answers late and refuses, and a client
that keeps the rules.

Both keep a list of deeds for each channel, in order: what was published, and what was acked and given back, by the ids
of the messages. What counts with a transaction stands there from its commit on.
"""

from collections import deque
from itertools import count
from random import Random
from typing import Any

from radiator.model.administration import DeclareDestination, PurgeQueue
from radiator.model.amqp_limits import AMQP_FRAME_BYTES
from radiator.model.answers import Deleted, Purged, QueueDeclared
from radiator.model.commands import (
    Abort,
    Ack,
    Administer,
    Begin,
    Closed,
    Commit,
    Disconnect,
    Fail,
    Nack,
    Open,
    Send,
    Subscribe,
)
from radiator.model.getting import Get
from radiator.model.headers import ESCAPING_ALL
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
from radiator.protocols.amqp.frame import HEARTBEAT, AmqpFrame, decode_content_header, encode_frame
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER

WIRES = (1, 2, 3)
NO_SUCH_TAG = 406
SETTLED_LATER = 4  # messages that a client holds before it answers for sure
GREETING = PROTOCOL_HEADER + b"".join(
    encode_method(0, one) for one in (m.ConnectionStartOk(response=b"\0a\0b"), m.ConnectionTuneOk(), m.ConnectionOpen())
)
PLAIN, CONFIRMS, TRANSACTIONS = range(3)

Deed = tuple[str, tuple[bytes, ...]]  # what is done, and with what: a body, or the ids of messages


class PlainBroker:
    """Answers each connection's commands in order, one at a time, as late as chance will have it.

    deeds: of each connection, what counts. answered, came_back: bodies whose confirm, or return, may be told. unacked:
    ids of what each connection was given, and has to ack.
    """

    def __init__(self, chance: Random, refuses: float) -> None:
        self.chance = chance
        self.refuses = refuses
        self.waiting: dict[int, deque[Any]] = {}
        self.paused: set[int] = set()
        self.deeds: dict[int, list[Deed]] = {}
        self.begun: dict[int, list[Deed]] = {}  # what waits for a commit
        self.unacked: dict[int, list[bytes]] = {}
        self.consumers: dict[int, bytes] = {}
        self.ids = count(1)
        self.answered: set[bytes] = set()
        self.came_back: set[bytes] = set()

    def hear(self, command: Any) -> None:
        number = command.connection
        if isinstance(command, Open):
            assert number not in self.deeds, "a connection is opened twice"
            self.waiting[number], self.deeds[number], self.unacked[number] = deque(), [], []
        elif isinstance(command, Closed):
            self.waiting.pop(number, None)
            self.paused.discard(number)
            self.consumers.pop(number, None)
        elif number in self.waiting:
            self.waiting[number].append(command)

    def turn(self) -> list[Any]:
        """The replies to one command of one connection; or a message for one of its consumers."""
        ready = [number for number, commands in self.waiting.items() if commands or number in self.paused]
        fed = [number for number in self.consumers if number in self.waiting]
        if fed and self.chance.random() < 0.2:
            number = self.chance.choice(fed)
            return [self.given(number, self.consumers[number])]
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

    def given(self, number: int, subscription: bytes, left: int | None = None, size: int = 0) -> Deliver:
        """One more message, whose id its body begins with."""
        message_id = b"m%d" % next(self.ids)
        self.unacked[number].append(message_id)
        message = Message("/queue/q", b"", ESCAPING_ALL, message_id + b"." * size, 1)
        return Deliver(number, subscription, message_id, message, True, left=left)

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
            if self.chance.random() < 0.5:
                return [Empty(number, command.receipt)]
            return [self.given(number, command.receipt, left=0, size=self.chance.choice((0, 9, 200_000)))]
        if isinstance(command, Send):
            return self.sent(number, command, refuses)
        if refuses:
            return [Refuse(number, "locked", "No.")]
        self.carry_out(number, command)
        return [Receipt(number, command.receipt)] if getattr(command, "receipt", None) else []

    def carry_out(self, number: int, command: Any) -> None:
        """What is neither refused nor published."""
        if isinstance(command, Subscribe):
            self.consumers[number] = command.subscription
        elif isinstance(command, Begin):
            assert number not in self.begun, "a transaction begins within another"
            self.begun[number] = []
        elif isinstance(command, Commit):
            self.deeds[number] += self.begun.pop(number)
        elif isinstance(command, Abort):
            for kind, ids in self.begun.pop(number):
                self.unacked[number] += ids if kind != "publish" else ()
        elif isinstance(command, Ack | Nack):
            ids = (command.message_id, *command.more)
            for one in ids:
                assert one in self.unacked[number], f"{one!r} is settled, which this connection does not hold"
                self.unacked[number].remove(one)
            self.note(number, command, ("ack" if isinstance(command, Ack) else "nack", ids))

    def note(self, number: int, command: Send | Ack | Nack, deed: Deed) -> None:
        if command.transaction is None:
            assert number not in self.begun, f"{deed} is no part of the transaction that has begun"
            self.deeds[number].append(deed)
        else:
            self.begun[number].append(deed)

    def sent(self, number: int, command: Send, refuses: bool) -> list[Any]:
        if refuses and command.receipt is None:
            return [Refuse(number, "no-such-destination", "None.")]
        self.note(number, command, ("publish", (command.body,)))
        if command.receipt is None:
            return []
        self.answered.add(command.body)
        if refuses:
            code = self.chance.choice(("queue-full", "no-such-destination"))
            return [RefusedReceipt(number, command.receipt, code, "No.")]
        if not command.returns or self.chance.random() < 0.5:
            return [Receipt(number, command.receipt)]
        self.came_back.add(command.body)
        back = Returned(number, command.destination, command.headers, ESCAPING_ALL, command.body)
        return [back, Receipt(number, command.receipt)]


class PlainChannel:
    """What a client knows of one of its channels. is_open: it may send; is_closing: it waits for close-ok.

    published: bodies. held: the ids of what it has to ack, by their tags. deeds: what counts; begun: what its commit
    will add, and of which deliveries. is_waiting: it waits for the end of its transaction.
    """

    def __init__(self, wire: int) -> None:
        self.wire = wire
        self.is_open = self.is_closing = self.is_waiting = self.consumes = False
        self.kind = PLAIN
        self.published: list[bytes] = []
        self.confirmed = 0
        self.returned: set[bytes] = set()
        self.last_tag = 0
        self.held: dict[int, bytes] = {}
        self.deeds: list[Deed] = []
        self.begun: list[Deed] = []
        self.begun_tags: dict[int, bytes] = {}
        self.content: list[Any] = []  # the method whose content is on its way, its size, and as far as it has come

    def note(self, deed: Deed) -> None:
        (self.begun if self.kind == TRANSACTIONS else self.deeds).append(deed)


class PlainClient:
    """Sends what chance will have it, and keeps the rules. wire: the bytes that it has still to send. body_bytes: sizes
    of its messages.
    """

    def __init__(self, chance: Random, broker: PlainBroker, body_bytes: tuple[int, ...] = (0, 0, 100, 2900)) -> None:
        self.body_bytes = body_bytes
        self.chance = chance
        self.broker = broker
        self.parser = FrameParser()
        self.parser.use(AMQP_FRAME_BYTES)
        list(self.parser.frames(PROTOCOL_HEADER))
        self.wire = GREETING
        self.channels = [PlainChannel(wire) for wire in WIRES[: chance.choice((1, 3, 3))]]
        self.bodies = count(1)
        self.lived: list[PlainChannel] = []
        self.is_closed = self.is_closing = False

    def say(self, channel: PlainChannel, method: m.Method) -> None:
        self.wire += encode_method(channel.wire, method)

    def act(self) -> None:
        channel = self.chance.choice(self.channels)
        if channel.is_closing:
            return
        if not channel.is_open:
            self.open(channel.wire)
            return
        kind = self.chance.randrange(16)
        if kind < 5:
            for _ in range(self.chance.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, 30))):
                self.publish(channel)
        elif kind == 5:
            self.close_channel(channel)
        elif kind < 11:
            self.settle(channel)
        elif kind == 11:
            self.end_transaction(channel)
        elif kind < 14 and not channel.consumes:
            channel.consumes = True
            self.say(channel, m.BasicConsume(queue="q"))
        elif kind == 14:
            self.wire += HEARTBEAT
        else:
            rpcs = (m.QueueDeclare(queue="q", no_wait=self.chance.random() < 0.5), m.QueuePurge(queue="q"),
                    m.BasicGet(queue="q"), m.BasicGet(queue="q"), m.BasicQos(0, 1, True))  # fmt: skip
            self.say(channel, self.chance.choice(rpcs))

    def open(self, wire: int) -> None:
        channel = PlainChannel(wire)
        self.channels[wire - 1] = channel
        self.lived.append(channel)
        channel.is_open = True
        self.say(channel, m.ChannelOpen())
        channel.kind = self.chance.choice((PLAIN, CONFIRMS, CONFIRMS, TRANSACTIONS))
        if channel.kind != PLAIN:
            self.say(channel, m.ConfirmSelect() if channel.kind == CONFIRMS else m.TxSelect())

    def publish(self, channel: PlainChannel) -> None:
        body = b"%d" % next(self.bodies) + b"." * self.chance.choice(self.body_bytes)
        channel.published.append(body)
        channel.note(("publish", (body,)))
        mandatory = self.chance.random() < 0.3
        self.say(channel, m.BasicPublish(routing_key="q", mandatory=mandatory))
        self.wire += encode_frame(2, channel.wire, b"\0\x3c\0\0" + len(body).to_bytes(8) + b"\0\0")
        self.wire += b"".join(encode_frame(3, channel.wire, body[at : at + 1000]) for at in range(0, len(body), 1000))

    def settle(self, channel: PlainChannel) -> None:
        """Acks, or gives back, one delivery or all to one of them; as soon as it has them, or later."""
        if channel.is_waiting or not channel.held or len(channel.held) < self.chance.randrange(SETTLED_LATER):
            return
        tag = self.chance.choice([*channel.held])
        multiple, requeue = self.chance.random() < 0.5, self.chance.random() < 0.5
        tags = [one for one in channel.held if one <= tag] if multiple else [tag]
        ids = {one: channel.held.pop(one) for one in tags}
        is_acked = self.chance.random() < 0.6
        channel.note(("ack" if is_acked else "nack", tuple(ids.values())))
        if channel.kind == TRANSACTIONS:
            channel.begun_tags |= ids
        if is_acked:
            self.say(channel, m.BasicAck(tag, multiple))
        elif multiple or requeue:
            self.say(channel, m.BasicNack(tag, multiple, requeue))
        else:
            self.say(channel, m.BasicReject(tag, requeue))

    def end_transaction(self, channel: PlainChannel) -> None:
        """What is taken back counts nothing; what it had acked is held again, once that is answered."""
        if channel.kind != TRANSACTIONS or channel.is_waiting:
            return
        is_kept = self.chance.random() < 0.6
        if is_kept:
            channel.deeds += channel.begun
            channel.begun_tags = {}
        else:
            channel.is_waiting = True
        channel.begun = []
        self.say(channel, m.TxCommit() if is_kept else m.TxRollback())

    def close_channel(self, channel: PlainChannel) -> None:
        channel.is_open, channel.is_closing = False, True
        self.say(channel, m.ChannelClose())

    def close(self) -> None:
        """Some close their channels first, all of it at once."""
        self.is_closing = True
        if self.chance.random() < 0.5:
            for channel in self.channels:
                if channel.is_open:
                    self.close_channel(channel)
        self.wire += encode_method(0, m.ConnectionClose())

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def read(self, data: bytes) -> None:
        for frame in self.parser.frames(data):
            if frame.type == FRAME_METHOD:
                self.hear(frame.channel, decode_method(frame.payload))
            elif frame.channel:
                self.hear_content(self.channels[frame.channel - 1], frame)

    def hear(self, wire: int, method: Any) -> None:
        assert not self.is_closed, f"{method} comes behind close-ok"
        if not wire:
            assert not isinstance(method, m.ConnectionClose), f"a client that keeps the rules is closed: {method}"
            self.is_closed = isinstance(method, m.ConnectionCloseOk)
            return
        channel = self.channels[wire - 1]
        assert not channel.content, f"{method} comes within a content"
        if isinstance(method, m.ChannelClose):
            assert channel.is_open or channel.is_closing, "a channel that is not open is closed"
            assert method.reply_code != NO_SUCH_TAG, f"a client that keeps the rules is told {method}"
            channel.is_open = False
            if not self.is_closing:
                self.say(channel, m.ChannelCloseOk())
        elif isinstance(method, m.ChannelCloseOk):
            assert channel.is_closing, "a close-ok that nobody asked for"
            channel.is_closing = False
        elif isinstance(method, m.BasicAck | m.BasicNack) and (channel.is_open or channel.is_closing):
            self.hear_confirm(channel, method)
        elif isinstance(method, m.TxRollbackOk):
            channel.is_waiting = False
            channel.held = dict(sorted([*channel.held.items(), *channel.begun_tags.items()]))
            channel.begun_tags = {}
        elif isinstance(method, m.BasicDeliver | m.BasicGetOk | m.BasicReturn):
            channel.content = [method, 0, b""]

    def hear_confirm(self, channel: PlainChannel, method: Any) -> None:
        tag, first = method.delivery_tag, channel.confirmed + 1
        assert tag == first or (method.multiple and tag > first), f"{method}, and {first} is next"
        for body in channel.published[channel.confirmed : tag]:
            assert body in self.broker.answered, f"{method}, before {body[:9]!r} is stored"
            is_back = body not in self.broker.came_back or body in channel.returned
            assert is_back, f"{method}, and {body[:9]!r} has not come back"
        channel.confirmed = tag

    def hear_content(self, channel: PlainChannel, frame: AmqpFrame) -> None:
        assert channel.content, "a content comes that no method has announced"
        if frame.type == FRAME_HEADER:
            _, channel.content[1], _ = decode_content_header(frame.payload)
        else:
            channel.content[2] += frame.payload
        method, size, body = channel.content
        assert len(body) <= size, "a body is longer than its header says"
        if len(body) < size:
            return
        channel.content = []
        if isinstance(method, m.BasicReturn):
            assert body in channel.published, f"{body[:9]!r} has come back, and was not published here"
            channel.returned.add(body)
            return
        channel.last_tag += 1
        assert method.delivery_tag == channel.last_tag, f"{method}, and {channel.last_tag} is the next tag"
        channel.held[channel.last_tag] = body.rstrip(b".")


def judge(broker: PlainBroker, client: PlainClient, connection: int) -> None:
    """What was done on each channel was heard in order, without a gap, and was confirmed as far as it was open."""
    heard = [deeds for number, deeds in broker.deeds.items() if number != connection]
    assert len(heard) == len(client.lived), "not every channel was opened"
    for theirs, channel in zip(heard, client.lived, strict=True):
        assert theirs == channel.deeds[: len(theirs)], f"deeds are lost, others, or in another order: {theirs}"
        if channel.is_open:
            assert theirs == channel.deeds, f"deeds are lost: {channel.deeds[len(theirs) :]}"
            is_confirmed = channel.kind != CONFIRMS or channel.confirmed == len(channel.published)
            assert is_confirmed, "messages are not confirmed"
