"""Producers and consumers that speak AMQP beside those of crowd.py, by py-amqp; what they say and hear is in its books.

A producer has WINDOW messages that wait for their confirms: to a queue, by exchanges, and to nobody, which must come
back before its confirm. A consumer acks one and many, and gives back one and many; one gets. A trader acks and
publishes to two queues in one transaction, or takes that back. An ack alone has no answer: it holds while the broker
lives; what a commit-ok was for holds for ever.
"""

import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import amqp
from amqp import exceptions, spec

from tests.acceptance.amqp_clients import port_of
from tests.acceptance.wire import TIMEOUT_S, Gone
from tests.broker_process import BrokerProcess
from tests.crash.books import Books, Copy, body_of
from tests.crash.crowd import HELD, LEFT, RIGHT, TRADE_A, TRADE_B, WAYS, WINDOW, WORK, Lines

NOBODY = "nobody"  # a key that no queue is bound with
IDLE_S = 0.01
TRADED = 3  # messages that one transaction acks, at most

Held = deque[tuple[Copy, int]]  # with their delivery tags, ascending


class AmqpClient(Protocol):
    """Talks until the broker is gone, or its connection is cut."""

    def run(self, broker: BrokerProcess, lines: Lines) -> None: ...


class AmqpLine:
    """One connection, and its only channel, that can be cut."""

    def __init__(self, broker: BrokerProcess, lines: Lines) -> None:
        self.connection = amqp.Connection(f"127.0.0.1:{port_of(broker)}", heartbeat=0, connect_timeout=TIMEOUT_S)
        self.connection.connect()
        self.socket = self.connection.transport.sock
        self.channel = self.connection.channel()
        self.channel.auto_decode = False
        self.lines = lines
        lines.wires.append(self)

    def check(self) -> None:
        """Before anything that was read is believed."""
        if self.lines.are_cut.is_set():
            raise Gone("its connection is cut")

    def read(self) -> None:
        """At least one frame more: its callback has been called."""
        self.connection.drain_events(timeout=TIMEOUT_S)

    def nack(self, tag: int, multiple: bool) -> None:
        """Back to their queues; of the extension that py-amqp has no method for."""
        self.channel.send_method(spec.Basic.Nack, "Lbb", (tag, multiple, True))


def talk_amqp(broker: BrokerProcess, lines: Lines, books: Books, talk: Callable[[AmqpLine], None]) -> None:
    """What ends the talk is passed over, unless it is that the broker refuses something: all here keep the rules."""
    line = None
    try:
        line = AmqpLine(broker, lines)
        talk(line)
    except exceptions.RecoverableConnectionError:  # closed by a broker that stops
        pass
    except (Gone, OSError):
        pass
    except exceptions.AMQPError as refused:
        books.note(f"refused over AMQP: {refused!r}")
    finally:
        if line is not None:
            line.connection.collect()


def name_of(destination: str) -> str:
    return destination.removeprefix("/queue/")


def address_of(destination: str) -> tuple[str, str]:
    """Its exchange and routing key."""
    if destination.startswith("/queue/"):
        return "", name_of(destination)
    exchange, _, key = destination.removeprefix("/exchange/").partition("/")
    return exchange, key


class AmqpProducer:
    """WINDOW messages unconfirmed; some of them must be routed, and say so."""

    def __init__(self, number: int, books: Books, seed: str) -> None:
        self.name = f"a{number}"
        self.books = books
        self.random = random.Random(f"{seed} {self.name}")
        self.count = 0
        self.waiting: deque[tuple[str, bool]] = deque()  # names, and whether they lead nowhere
        self.returned: set[str] = set()
        self.confirmed = 0  # the tag of the last one

    def run(self, broker: BrokerProcess, lines: Lines) -> None:
        self.waiting.clear()
        self.returned.clear()
        self.confirmed = 0
        talk_amqp(broker, lines, self.books, self.produce)

    def produce(self, line: AmqpLine) -> None:
        def acked(tag: int, multiple: bool) -> None:
            line.check()
            self.confirm(tag, multiple)

        def returned(_error: object, _exchange: str, _key: str, message: amqp.Message) -> None:
            line.check()
            self.take_back(bytes(message.body))

        def nacked(tag: int, _multiple: bool) -> None:
            self.books.note(f"nacked: the message {tag} of {self.name}, for which there is room")

        line.channel.confirm_select()
        line.channel.events["basic_ack"].add(acked)
        line.channel.events["basic_nack"].add(nacked)
        line.channel.events["basic_return"].add(returned)
        while True:
            while len(self.waiting) < WINDOW:
                self.publish(line.channel)
            line.read()

    def publish(self, channel: amqp.Channel) -> None:
        name = f"{self.name}.{self.count}"
        self.count += 1
        made = [one for one in self.books.made if one == "bound"]
        kind = self.random.choice(("queue", "exchange", NOBODY, *made))
        destination, queues = (f"/exchange/trade/{NOBODY}", ()) if kind == NOBODY else WAYS[kind]
        exchange, key = address_of(destination)
        self.books.sending(name, queues)
        self.waiting.append((name, kind == NOBODY))
        is_mandatory = kind == NOBODY or self.random.random() < 0.3
        message = amqp.Message(body_of(name), delivery_mode=2)
        channel.basic_publish(message, exchange=exchange, routing_key=key, mandatory=is_mandatory)

    def confirm(self, tag: int, multiple: bool) -> None:
        """Confirms come in order; one for many names the last of them."""
        count = tag - self.confirmed
        if not 0 < count <= len(self.waiting) or (count > 1 and not multiple):
            waiting = f"{self.confirmed + 1} to {self.confirmed + len(self.waiting)}"
            self.books.note(f"confirmed out of turn: {tag} of {self.name}, where {waiting} wait")
            return
        self.confirmed = tag
        for _ in range(count):
            name, is_lost = self.waiting.popleft()
            if is_lost and name not in self.returned:
                self.books.note(f"confirmed before it has come back: {name}")
            self.books.sent(name)

    def take_back(self, body: bytes) -> None:
        name = body.partition(b"\n")[0].decode(errors="replace")
        if body != body_of(name) or (name, True) not in self.waiting:
            self.books.note(f"came back, though it has a queue: {body[:60]!r}")
        self.returned.add(name)


class _Consuming:
    """What consumers have in common: messages that they hold, with their tags."""

    def __init__(self, number: int, books: Books, seed: str, queues: tuple[str, ...]) -> None:
        self.name = f"ac{number}"
        self.books = books
        self.random = random.Random(f"{seed} {self.name}")
        self.queues = queues
        self.held: Held = deque()

    def run(self, broker: BrokerProcess, lines: Lines) -> None:
        self.held.clear()
        talk_amqp(broker, lines, self.books, self.talk)

    def talk(self, line: AmqpLine) -> None:
        raise NotImplementedError

    def consume(self, line: AmqpLine) -> None:
        line.channel.basic_qos(0, WINDOW, False)
        for queue in self.queues:
            line.channel.basic_consume(name_of(queue), callback=self.noting(line, queue))

    def noting(self, line: AmqpLine, queue: str) -> Any:
        return lambda message: self.note(line, queue, message)

    def note(self, line: AmqpLine, queue: str, message: amqp.Message) -> None:
        line.check()
        redelivered = bool(message.delivery_info["redelivered"])
        copy = self.books.delivered(queue, bytes(message.body), "", redelivered, in_order=False)
        self.held.append((copy, message.delivery_tag))

    def settle(self, line: AmqpLine) -> None:
        """Answers the oldest, or some of the oldest; mostly acks them."""
        count = self.random.choice((1, 1, 2, 4, len(self.held)))
        some = [self.held.popleft() for _ in range(min(count, len(self.held)))]
        is_multiple = len(some) > 1 or self.random.random() < 0.2
        is_acked = self.random.random() < 0.8
        for copy, _ in some:
            (self.books.acking if is_acked else self.books.giving_up)(copy)
        tag = some[-1][1]
        if is_acked:
            line.channel.basic_ack(tag, multiple=is_multiple)
        elif is_multiple:
            line.nack(tag, True)
        else:
            self.random.choice((lambda: line.nack(tag, False), lambda: line.channel.basic_reject(tag, True)))()


class AmqpConsumer(_Consuming):
    """Acks and gives back, one and many; holds some always."""

    def talk(self, line: AmqpLine) -> None:
        self.consume(line)
        while True:
            line.read()
            if len(self.held) > HELD:
                self.settle(line)


class AmqpGetter(_Consuming):
    """Asks for each message."""

    def talk(self, line: AmqpLine) -> None:
        while True:
            queue = self.random.choice(self.queues)
            message = line.channel.basic_get(name_of(queue))
            if message is None:
                time.sleep(IDLE_S)
            else:
                self.note(line, queue, message)
            if len(self.held) > HELD:
                self.settle(line)


class AmqpTrader(_Consuming):
    """Acks some messages and publishes one to two queues, all of it or nothing."""

    count = 0

    def talk(self, line: AmqpLine) -> None:
        line.channel.tx_select()
        self.consume(line)
        while True:
            line.read()
            if len(self.held) > HELD:
                self.trade(line)

    def trade(self, line: AmqpLine) -> None:
        name = f"{self.name}.{self.count}"
        self.count += 1
        is_kept = self.random.random() < 0.8
        some = [self.held[at] for at in range(self.random.randint(1, TRADED))]
        copies = [copy for copy, _ in some]
        self.books.sending(name, (LEFT, RIGHT) if is_kept else ())
        if is_kept:
            self.books.trading(name, copies)
            for _ in some:
                self.held.popleft()
        line.channel.basic_ack(some[-1][1], multiple=True)
        for queue in (LEFT, RIGHT):
            line.channel.basic_publish(amqp.Message(body_of(name), delivery_mode=2), "", name_of(queue))
        if not is_kept:
            line.channel.tx_rollback()  # all that it had acked is held again, under the same tags
            return
        line.channel.tx_commit()
        line.check()
        self.books.sent(name)
        for copy in copies:
            self.books.acked(copy)


def amqp_crowd(books: Books, seed: str) -> list[AmqpClient]:
    """Two producers, two consumers of queues that STOMP clients consume as well, and two traders."""
    return [
        AmqpProducer(1, books, seed),
        AmqpProducer(2, books, seed),
        AmqpConsumer(1, books, seed, (WORK, TRADE_B)),
        AmqpGetter(2, books, seed, (WORK, TRADE_A)),
        AmqpTrader(3, books, seed, (TRADE_A, LEFT)),
        AmqpTrader(4, books, seed, (WORK, LEFT)),
    ]
