"""Clients of a simulation that speak AMQP: real bytes to a real session (amqp_line.py), and back.

Each has one connection, with a channel that confirms and one that has transactions (amqp_channel.py). They publish, are
given messages by consumers and by basic.get, ack, reject and give them back, one or many; they close channels and
connections, in order or not. What they find at the end is judged here: what was handed to them and not settled, or was
given back, has come again; and of each transaction all has happened, its acks too, or nothing.
"""

from collections.abc import Callable
from typing import Any

from radiator.model.amqp_limits import AMQP_FRAME_BYTES
from radiator.model.replies import Deliver
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from tests.sim.amqp_channel import (
    AGAIN_S,
    DEAD_LETTERED,
    Attempt,
    ClientChannel,
    ConfirmChannel,
    Handed,
    TransactionChannel,
)
from tests.sim.amqp_line import AmqpLine
from tests.sim.books import Books, Client, Job
from tests.sim.simulation import Scheduler, SimNode

CAPABILITIES = {"consumer_cancel_notify": True, "connection.blocked": True, "authentication_failure_close": True}
GREETING = PROTOCOL_HEADER + b"".join(
    encode_method(0, one)
    for one in (
        ConnectionStartOk({"capabilities": CAPABILITIES}, response=b"\0guest\0guest"),
        ConnectionTuneOk(),
        ConnectionOpen(),
    )
)
CONFIRMS, TRANSACTIONS = 1, 2  # the numbers of the two channels
ENDINGS = (320, 506)  # codes by which the broker may close a connection whose client keeps the rules
EXPIRES = "brief"
STAYS_S = 0.4  # before it closes something


def can_publish(job: Job) -> bool:
    """Whether AMQP has an address for all of that, and the queues want no dedup-id."""
    return all(to.startswith(("/queue/", "/exchange/")) and to != "/queue/once" for to in job)


class AmqpClient(Client):
    """todo, waiting: of its confirming channels, what is to be published, and what waits for a confirm. transactions:
    jobs of transactions that are to be committed. queues: of which it gets and consumes. lives: all its channels.
    """

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, jobs: list[Job], queues: list[str]
    ) -> None:
        named = [(b"%b:%d" % (name, number), job) for number, job in enumerate(jobs)]
        self.todo: list[tuple[bytes, Job]] = [(body, job) for body, job in named if len(job) == 1]
        self.waiting: dict[bytes, Job] = {}
        self.transactions = [(body, job) for body, job in named if len(job) > 1]
        self.attempts_made = self.confirms = self.nacks = self.returns = self.commits = self.rollbacks = 0
        self.queues = queues
        self.is_careful = self.is_leaving = False
        self.channels: dict[int, ClientChannel] = {}
        self.lives: list[ClientChannel] = []
        self.given_back: list[Handed] = []
        self.attempts: list[Attempt] = []
        super().__init__(scheduler, node, books, name)

    @property
    def is_done(self) -> bool:
        is_committing = any(isinstance(one, TransactionChannel) and one.job for one in self.channels.values())
        return not (self.todo or self.waiting or self.transactions or is_committing)

    # ---- the connection ---------------------------------------------------------------------------------------------

    def connect(self) -> None:
        if self.link is not None:
            return
        if not self.node.takes_connections:
            self.scheduler.soon(0.02, self.connect)
            return
        channels: dict[int, ClientChannel] = {}

        def handed(wire: int, queue: str, deliver: Deliver) -> None:
            self.books.judge_acked(queue, deliver)  # it may arrive behind the end of its channel, and another's ack
            times = self.books.times_out[queue, deliver.message_id]
            channels[wire].handed.append(Handed(queue, deliver, times))

        self.line = self.link = AmqpLine(self.node, self.hear, handed)
        self.parser = FrameParser()
        list(self.parser.frames(PROTOCOL_HEADER))
        self.parser.use(AMQP_FRAME_BYTES)
        self.channels, self.is_leaving = channels, False
        self.write(GREETING)
        for wire in (CONFIRMS, TRANSACTIONS):
            self.open(wire)
        self.later(STAYS_S, self.leave)

    def write(self, data: bytes) -> None:
        if not self.line.is_cut:
            self.line.write(data)

    def later(self, mean_s: float, what: Callable[[], None]) -> None:
        """After a random time, if it is connected as it is now."""
        line = self.line

        def due() -> None:
            if self.line is line and not (line.is_cut or self.is_leaving):
                what()

        self.scheduler.soon(mean_s, due)

    def open(self, wire: int) -> None:
        queues = [queue for queue in self.queues if self.random.random() < 0.5]
        if wire == CONFIRMS:
            channel: ClientChannel = ConfirmChannel(self, wire, queues)
        else:
            channel = TransactionChannel(self, wire, queues)
        self.channels[wire] = channel
        self.lives.append(channel)
        channel.begin()

    def channel_over(self, channel: ClientChannel) -> None:
        """Another takes its number, a while later."""
        channel.over()
        self.later(AGAIN_S, lambda: self.open(channel.wire))

    def leave(self) -> None:
        """Closes a channel or the connection, or hangs up."""
        if self.is_careful:
            return
        way = self.random.randrange(4)
        channel = self.random.choice([*self.channels.values()])
        if way == 0:
            self.line.cut()
        elif way == 1:
            self.is_leaving = True
            for one in self.channels.values():
                one.is_open = False
            self.write(encode_method(0, ConnectionClose()))
        elif channel.is_open:
            channel.close()
        self.later(STAYS_S, self.leave)

    def hear(self, data: Any) -> None:
        self.scheduler.trace(self.name, data)
        if data is None:
            for channel in self.channels.values():
                channel.over()
            self.link = None
            self.scheduler.soon(0.02, self.connect)
            return
        for frame in (one for read in self.parser.frames(data) for one in read.frames):
            method = decode_method(frame.payload) if frame.type == FRAME_METHOD else None
            if frame.channel:
                self.channels[frame.channel].hear(frame, method)
            elif isinstance(method, ConnectionClose):
                self.closed_by_node(method)
            elif isinstance(method, ConnectionCloseOk):
                for channel in self.channels.values():
                    channel.judge_end()
                self.line.cut()

    def closed_by_node(self, method: ConnectionClose) -> None:
        if method.reply_code not in ENDINGS:
            self.books.mistakes.append(f"amqp: {self.name!r} keeps the rules, and is closed: {method}")
        self.line.cut()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """When everything has been drained."""
        books = self.books
        if not self.is_done:
            waiting = len(self.waiting) + len(self.transactions)
            books.mistakes.append(f"stuck: {self.name!r} has {waiting} without confirm")
        for one in [*self.given_back, *(one for life in self.lives for one in life.unsettled())]:
            if self.must_stay(one) and books.times_out[one.key] <= one.times:
                books.mistakes.append(f"gone: {one.key} was handed to {self.name!r}, not settled, and never came again")
        for attempt in self.attempts:
            self.judge_attempt(attempt)

    def must_stay(self, one: Handed) -> bool:
        """Whether it neither expires nor goes to a dead-letter queue by itself."""
        return one.queue not in (EXPIRES, DEAD_LETTERED)

    def judge_attempt(self, attempt: Attempt) -> None:
        """A transaction whose commit was asked for: its message has come to a queue if and only if its acks hold."""
        books = self.books
        queues = [to.removeprefix("/queue/") for to in attempt.job if to.startswith("/queue/")]
        if not queues:
            return
        has_come = any((queue, attempt.body) in books.came for queue in queues)
        for one in filter(self.must_stay, attempt.acked):
            is_again = books.times_out[one.key] > one.times
            if is_again == has_come:
                what = "holds" if not is_again else "does not hold"
                came = "came" if has_come else "never came"
                books.mistakes.append(f"in part: {attempt.body!r} {came}, and the ack of {one.key} beside it {what}")
