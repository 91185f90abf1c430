"""A node's side of a connection over AMQP: a real session, and around it what a server does with one, without sockets.

The session's connection, and each of its channels, is a connection of the node. What it hears goes to the node, run by
run of each connection; what it says, and the frames of replies, are carried to its client as bytes.
"""

from collections.abc import Callable
from itertools import count, groupby
from operator import attrgetter

from radiator.model.commands import Closed, Command, Heard, Open, Read
from radiator.model.getting import Get
from radiator.model.replies import Bye, Deliver, Refuse, Reply
from radiator.protocols.amqp.session import AmqpSession
from tests.sim.simulation import Link, SimNode

CLOSED_AFTER_S = 0.02  # as SimNode closes a connection behind its last word
SPLIT_SHARE = 0.1  # of what a client sends that comes in two pieces
QUEUE = "/amq/queue/"


class ChannelLine:
    """What a node holds of one channel. wire: the number of its frames. got_from: the queue of its last Get."""

    has_channels = True

    def __init__(self, whole: "AmqpLine", number: int, wire: int) -> None:
        self.whole = whole
        self.number = number
        self.wire = wire
        self.got_from = ""

    def reply(self, reply: Reply) -> None:
        self.whole.reply(reply)

    def cut(self) -> None:
        self.whole.cut()


class AmqpLine(Link):
    """hear_bytes: called with what comes to the client; None: the connection is lost. on_handed: called with the wire
    of a channel, a queue and a message of it as this node hands it over; whether that arrives is another matter.
    """

    has_channels = True

    def __init__(
        self,
        node: SimNode,
        hear_bytes: Callable[[bytes | None], None],
        on_handed: Callable[[int, str, Deliver], None],
    ) -> None:
        super().__init__(node.scheduler, node, node.next_number(), lambda _: hear_bytes(None))
        self.hear_bytes = hear_bytes
        self.on_handed = on_handed
        self.session = AmqpSession(self.number, node.limits, node.next_number, map(str, count(1)).__next__)
        self.channels: dict[int, ChannelLine] = {}
        self.boot = node.boots
        self.written = b""  # by the client
        self.unread = b""  # by the session
        self.out = b""  # from the node
        self.held_bytes = 0
        self.is_settling = self.is_over = False

    # ---- what comes -------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """From the client to the node, together with all else of this moment."""
        if not self.written:
            self.scheduler.after(0.0, self.send)
        self.written += data

    def send(self) -> None:
        """As one packet or two: of these the second may get lost alone."""
        random, data, self.written = self.scheduler.random, self.written, b""
        at = random.randrange(1, len(data)) if random.random() < SPLIT_SHARE else len(data)
        for piece in (data[:at], data[at:]):
            if piece:
                self.carry(0, lambda piece=piece: self.arrive(piece))  # type: ignore[misc]

    def arrive(self, data: bytes) -> None:
        is_there = self.node.is_up and self.node.boots == self.boot
        if not is_there or (self.node.is_stopping and not self.session.is_open):
            self.cut()
            return
        self.unread += data
        self.read_on()

    def read_on(self) -> None:
        """What the session has held first, then what has come."""
        session = self.session
        while not (self.is_cut or self.is_over or self.node.is_stopping):
            if session.has_unread:
                heard = session.receive(b"")
            elif self.unread and not session.is_full:
                data, self.unread = self.unread, b""
                heard = session.receive(data)
            else:
                return
            self.flush()
            self.tell(heard)
            if session.is_closing:
                self.end()

    def tell(self, heard: list[Heard]) -> None:
        """Has the node know of it."""
        for number, group in groupby(heard, attrgetter("connection")):
            run: list[Command] = []
            for one in group:
                if isinstance(one, Open):
                    self.opened(one)
                elif isinstance(one, Closed):
                    self.read(number, run)
                    run = []
                    self.channel_over(number)
                else:
                    run.append(one)
            self.read(number, run)
        held_bytes = self.session.buffered_bytes
        if held_bytes != self.held_bytes and self.number in self.node.links:
            self.held_bytes = held_bytes
            self.node.turn(Read(self.number, [], held_bytes))

    def opened(self, one: Open) -> None:
        if one.connection == self.number:
            self.node.attach(self, one)
        elif self.number in self.node.links:
            wire = int(one.protocol.rpartition(" ")[2])
            line = self.channels[one.connection] = ChannelLine(self, one.connection, wire)
            self.node.attach(line, one)

    def read(self, number: int, commands: list[Command]) -> None:
        if not commands or number not in self.node.links:
            return
        if number in self.channels:
            for one in commands:
                if isinstance(one, Get):
                    self.channels[number].got_from = one.destination.removeprefix(QUEUE)
        self.node.turn(Read(number, commands, self.held_bytes if number == self.number else 0))

    # ---- what goes --------------------------------------------------------------------------------------------------

    def reply(self, reply: Reply) -> None:
        """What one turn has to say goes out together, with the confirms that are due."""
        session, number = self.session, reply.connection
        frames = session.encode(reply)
        if isinstance(reply, Deliver) and frames:
            line = self.channels[number]
            self.on_handed(line.wire, queue_of(line, reply), reply)
        self.out += frames
        if not self.is_settling:
            self.is_settling = True
            self.scheduler.after(0.0, self.settle)
        is_end = isinstance(reply, Bye) or (isinstance(reply, Refuse) and reply.scope >= session.closes_at)
        if session.is_closing or (is_end and number == self.number):
            self.end()
        elif is_end:
            self.scheduler.after(0.0, lambda: self.channel_over(number))

    def settle(self) -> None:
        """Behind a turn."""
        self.is_settling = False
        self.flush()
        self.read_on()

    def flush(self) -> None:
        """What replies have become goes first: what has come back of messages is there before their confirms."""
        data = self.out + self.session.take_outgoing()
        self.out = b""
        if data:
            self.carry(1, lambda: self.hear_bytes(data))

    # ---- ends -------------------------------------------------------------------------------------------------------

    def channel_over(self, number: int) -> None:
        line = self.channels.pop(number, None)
        if line is not None:
            self.node.lost(line)

    def end(self) -> None:
        """The last word is on its way."""
        self.is_over = True
        self.scheduler.after(CLOSED_AFTER_S, self.cut)

    def cut(self, found_out_s: float = 0.01) -> None:
        if not self.is_cut:
            self.is_cut = True
            self.scheduler.soon(found_out_s, self.lost)
            self.scheduler.soon(found_out_s, lambda: self.hear_bytes(None))

    def lost(self) -> None:
        """The node finds out: first of the channels."""
        self.session.forget()
        for number in [*self.channels]:
            self.channel_over(number)
        self.node.lost(self)


def queue_of(line: object, deliver: Deliver) -> str:
    """The queue of a message that is handed over on that channel. Consumers are named as their queues."""
    if deliver.left is not None:
        assert isinstance(line, ChannelLine)
        return line.got_from
    assert deliver.subscription is not None
    return deliver.subscription.decode()
