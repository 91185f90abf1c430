"""Producers and consumers that talk to a real broker until it is gone; what they said and heard is in the books.

Four of each by default: SENDs to a queue, now or later, to a fanout, by an exchange, to a topic with a durable
subscription, and to two queues in one transaction; ACKs and NACKs with receipts, in windows, and always some messages
that are seen and not answered. A fifth consumer binds at run time and subscribes durably. `drain` takes out whatever is
left.
"""

import json
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from tests.acceptance.amqp_clients import LISTENING
from tests.acceptance.conftest import stats
from tests.acceptance.wire import TIMEOUT_S, Frame, Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.crash.books import Books, Copy, body_of

WINDOW = 20  # SENDs, or ACKs, of one client that wait for their receipts
HELD = 5  # messages that a consumer has always seen and not answered
LEAVES_WITHIN_S = 30.0

CONFIG = (
    LISTENING
    + EVERYTHING_MAY_BE_CREATED
    + """
[queue."work"]

[queue."left"]

[queue."right"]

[fanout."events"]
children = ["events.a", "events.b"]

[exchange."trade"]
type = "topic"
bindings = [{ key = "t.#", queue = "trade.a" }, { key = "*.x", queue = "trade.b" }]
"""
)
WORK, LEFT, RIGHT, A, B = "/queue/work", "/queue/left", "/queue/right", "/queue/events.a", "/queue/events.b"
TRADE_A, TRADE_B, NEWS = "/queue/trade.a", "/queue/trade.b", "/topic/news"
QUEUES = (WORK, LEFT, RIGHT, A, B, TRADE_A, TRADE_B)
READER = "reader"  # the id of the durable subscription
BOUND_LATER = {"do": "bind", "exchange": "amq.direct", "key": "later", "queue": "trade.b"}
DELAYS_MS = (0, 50, 400)
END_OF_TALK = (Gone, ConnectionError, TimeoutError)

Talk = Callable[[Wire], None]
TalkOfAnother = Callable[[BrokerProcess, "Lines"], None]  # by a protocol of its own


WAYS = {
    "queue": (WORK, (WORK,)),
    "later": (WORK, (WORK,)),
    "fanout": ("/fanout/events", (A, B)),
    "exchange": ("/exchange/trade/t.x", (TRADE_A, TRADE_B)),
    "bound": ("/exchange/amq.direct/later", (TRADE_B,)),
    "news": (NEWS, (NEWS,)),
}  # where a kind of SEND is said to, and the queues that it leads to


class Producer:
    """Sends to a queue, to a fanout, and to two queues in one transaction; WINDOW of them unreceipted."""

    def __init__(self, number: int, books: Books, seed: str) -> None:
        self.name = f"p{number}"
        self.books = books
        self.random = random.Random(f"{seed} {self.name}")
        self.count = 0

    def run(self, wire: Wire) -> None:
        waiting: deque[str] = deque()
        while True:
            while len(waiting) < WINDOW:
                waiting.append(self.send_one(wire))
            receipt = wire.read("RECEIPT")["receipt-id"]
            assert receipt == waiting.popleft()
            self.books.sent(receipt)

    def send_one(self, wire: Wire) -> str:
        name = f"{self.name}.{self.count}"
        self.count += 1
        kind = self.random.choice(("queue", "fanout", "transaction", "exchange", "later", *self.books.made))
        if kind != "transaction":
            destination, queues = WAYS[kind]
            later = {"delay": str(self.random.choice(DELAYS_MS))} if kind == "later" else {}
            self.books.sending(name, queues, later.get("delay", ""))
            wire.send_frame("SEND", {"destination": destination, "receipt": name, **later}, body_of(name))
        else:
            self.books.sending(name, (LEFT, RIGHT))
            frames = [wire.frame("BEGIN", {"transaction": name})]
            for queue in (LEFT, RIGHT):
                frames.append(wire.frame("SEND", {"destination": queue, "transaction": name}, body_of(name)))
            frames.append(wire.frame("COMMIT", {"transaction": name, "receipt": name}))
            wire.send_raw(b"".join(frames))
        return name


class Consumer:
    """ACKs with receipts, NACKs now and then. in_order: queues that it has alone; there it NACKs nothing."""

    def __init__(
        self, number: int, books: Books, seed: str, queues: tuple[str, ...], in_order: tuple[str, ...]
    ) -> None:
        self.books = books
        self.random = random.Random(f"{seed} c{number}")
        self.queues = queues
        self.in_order = in_order

    def run(self, wire: Wire) -> None:
        for queue in self.queues:
            if queue != NEWS:
                headers = {"id": queue, "destination": queue, "ack": "client-individual", "prefetch-count": str(WINDOW)}
                wire.send_frame("SUBSCRIBE", headers)
        if NEWS in self.queues:
            self.make(wire)
        unanswered: deque[tuple[Copy, Frame]] = deque()
        waiting: deque[Copy | None] = deque()
        while True:
            frame = wire.read_frame()
            if frame.get("receipt-id") == "news":
                self.books.has_made("news")
            elif frame.get("subscription") == "/temp-queue/made":
                assert json.loads(frame.body)["ok"], frame
                self.books.has_made("bound")
            elif frame.command == "RECEIPT":
                copy = waiting.popleft()
                if copy is not None:
                    self.books.acked(copy)
            else:
                unanswered.append(self.note(frame))
                if len(unanswered) > HELD:
                    waiting.append(self.answer(wire, *unanswered.popleft()))

    def make(self, wire: Wire) -> None:
        """What is made at run time; producers may count on it when it is answered."""
        headers = {"destination": "/admin", "reply-to": "/temp-queue/made"}
        wire.send_frame("SEND", headers, json.dumps(BOUND_LATER).encode())
        wire.send_frame("SUBSCRIBE", {**DURABLE, "prefetch-count": str(WINDOW), "receipt": "news"})

    def note(self, message: Frame) -> tuple[Copy, Frame]:
        assert message.command == "MESSAGE", message
        queue = NEWS if message["subscription"] == READER else message["subscription"]
        redelivered = message["redelivered"] == "true"
        copy = self.books.delivered(queue, message.body, message["message-id"], redelivered, queue in self.in_order)
        return copy, message

    def answer(self, wire: Wire, copy: Copy, message: Frame) -> Copy | None:
        """ACKs or NACKs it: the copy that is acked once the receipt comes."""
        self.books.giving_up(copy)
        is_acked = message["subscription"] in self.in_order or self.random.random() < 0.8
        later = {} if is_acked or self.random.random() < 0.5 else {"delay": str(self.random.choice(DELAYS_MS))}
        wire.send_frame("ACK" if is_acked else "NACK", {"id": message["ack"], "receipt": "1", **later})
        return copy if is_acked else None


DURABLE = {"id": READER, "destination": NEWS, "ack": "client-individual", "durable": "true", "auto-delete": "false"}


def crowd(books: Books, seed: str) -> list[Producer | Consumer]:
    """Four of each, and one more. Every queue has a consumer; two queues have one only, who watches their order."""
    return [
        *(Producer(number, books, seed) for number in range(4)),
        Consumer(1, books, seed, (WORK, A), ()),
        Consumer(2, books, seed, (WORK, LEFT), ()),
        Consumer(3, books, seed, (LEFT, A), ()),
        Consumer(4, books, seed, (RIGHT, B), (RIGHT, B)),
        Consumer(5, books, seed, (TRADE_A, TRADE_B, NEWS), ()),
    ]


class Cuttable(Protocol):
    """A connection. socket: what it goes over."""

    socket: socket.socket


@dataclass
class Lines:
    """The connections of a crowd. are_cut: what is read from now on was never read."""

    wires: list[Cuttable] = field(default_factory=list)
    are_cut: threading.Event = field(default_factory=threading.Event)

    def cut(self, count: int) -> None:
        """All so many connections are lost, in the midst of whatever was said."""
        deadline_s = time.monotonic() + LEAVES_WITHIN_S
        while len(self.wires) < count:
            assert time.monotonic() < deadline_s, "the broker does not take its clients"
            time.sleep(0.001)
        # first: what the one loses may come to the other, whose connection is cut a moment later
        self.are_cut.set()
        for wire in self.wires:
            with suppress(OSError):  # it has ended already
                wire.socket.shutdown(socket.SHUT_RDWR)


class Line(Wire):
    """One connection that can be cut."""

    def __init__(self, address: tuple[str, int], lines: Lines) -> None:
        super().__init__(address)
        self.lines = lines
        lines.wires.append(self)

    def read_frame(self, timeout_s: float = TIMEOUT_S) -> Frame:
        frame = super().read_frame(timeout_s)
        if self.lines.are_cut.is_set():
            raise Gone("its connection is cut")
        return frame


def talk(broker: BrokerProcess, run: Talk, crashed: list[BaseException], lines: Lines | None = None) -> None:
    """One client until the broker is gone, or its connection is cut."""
    try:
        with Line((broker.host, broker.port), lines or Lines()) as wire:
            wire.connect()
            run(wire)
    except END_OF_TALK:
        pass
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        crashed.append(error)


def talk_by_itself(run: TalkOfAnother, broker: BrokerProcess, crashed: list[BaseException], lines: Lines) -> None:
    try:
        run(broker, lines)
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        crashed.append(error)


@contextmanager
def talking(broker: BrokerProcess, runs: list[Talk], others: Sequence[TalkOfAnother] = ()) -> Iterator[Lines]:
    """Clients that talk within. Before its end the broker has ended, or the lines are cut."""
    crashed: list[BaseException] = []
    lines = Lines()
    threads = [threading.Thread(target=talk, args=(broker, run, crashed, lines)) for run in runs]
    threads += [threading.Thread(target=talk_by_itself, args=(run, broker, crashed, lines)) for run in others]
    for thread in threads:
        thread.start()
    is_done = False
    try:
        yield lines
        is_done = True
    finally:
        if not is_done:
            broker.kill()
        for thread in threads:
            thread.join(LEAVES_WITHIN_S)
    assert not any(thread.is_alive() for thread in threads), "a client is stuck"
    if crashed:
        raise crashed[0]


def drain(broker: BrokerProcess, books: Books) -> None:
    """Everything that is left, one queue after the other, in order where nothing was kept back."""
    await_the_delayed(broker)
    for queue in (*QUEUES, *((NEWS,) if "news" in books.made else ())):
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            if queue == NEWS:
                wire.ask("SUBSCRIBE", {**DURABLE, "prefetch-count": "1000"})
            else:
                wire.subscribe(queue, id=queue, headers={"prefetch-count": "1000"})
            wire.send_frame("SEND", {"destination": queue, "receipt": "end"}, b"end")
            is_receipted = is_ended = False
            while not (is_receipted and is_ended):
                # read back from the disk, a message may come before the RECEIPT of its SEND: both are after the sync
                message = wire.read_frame() if not wire.early else wire.early.pop(0)
                if message.command == "RECEIPT":
                    is_receipted = True
                    continue
                if message.body != b"end":
                    redelivered = message["redelivered"] == "true"
                    copy = books.delivered(queue, message.body, message["message-id"], redelivered, in_order=True)
                    books.giving_up(copy)
                wire.send_frame("ACK", {"id": message["ack"]})
                is_ended = is_ended or message.body == b"end"
            wire.fence()
    left = {name: numbers["messages"] for name, numbers in stats(broker)["queues"].items() if numbers["messages"]}
    assert not left, left


def await_the_delayed(broker: BrokerProcess) -> None:
    """All that was kept back is at its place, and not only on its way there."""
    deadline_s = time.monotonic() + LEAVES_WITHIN_S
    while any(numbers["delayed"] or numbers["storing"] for numbers in stats(broker)["queues"].values()):
        assert time.monotonic() < deadline_s, f"some messages wait for ever: {stats(broker)['queues']}"
        time.sleep(0.05)
