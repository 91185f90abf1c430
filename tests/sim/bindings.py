"""Clients of a simulation that make and unmake bindings and durable subscriptions, and when each of them was there.

A word takes its time, and its answer may never come: so a binding is there for sure from its answer until its end is
asked for, and perhaps from when it was asked for until its end is answered. Only what is sure is demanded.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from radiator.model.commands import CLIENT_INDIVIDUAL, Ack, Nack, Send, Subscribe, Unsubscribe
from radiator.model.patterns import matches
from radiator.model.replies import Deliver, Refuse, Reply
from radiator.model.settings import DIRECT, TOPIC
from tests.sim.books import ACKED, NACKED, Books, Client
from tests.sim.simulation import Scheduler, SimNode

ANSWERS = b"/temp-queue/answers"
RUNTIME_EXCHANGE = "made"
EXCHANGES = {"kept": TOPIC, "amq.direct": DIRECT, "amq.topic": TOPIC, RUNTIME_EXCHANGE: DIRECT}
BOUND = ("a", "b", "x", "tight", "later")  # queues that bindings may lead to
KEYS = {DIRECT: ("k.a", "k.b"), TOPIC: ("k.a", "k.*", "#", "*.b.#")}
REST_S = 0.05  # between two words of a binder


@dataclass
class Span:
    """One life of a binding, or of a durable subscription, whose queue goes with it. queue: as the books call it."""

    is_match: Callable[[str], bool]  # of the address of a SEND
    queue: str
    perhaps_from_s: float
    surely_from_s: float = inf
    surely_until_s: float = inf
    perhaps_until_s: float = inf
    is_durable: bool = False

    def was_throughout(self, start_s: float, end_s: float) -> bool:
        return self.surely_from_s <= start_s and end_s <= self.surely_until_s

    def was_perhaps(self, start_s: float, end_s: float) -> bool:
        return self.perhaps_from_s <= end_s and start_s <= self.perhaps_until_s


@dataclass
class Routes:
    """All that was ever bound."""

    spans: list[Span] = field(default_factory=list)

    def add(self, span: Span) -> Span:
        self.spans.append(span)
        return span

    def sure(self, address: str, start_s: float, end_s: float) -> set[str]:
        """Queues that everything sent there in that time goes to."""
        return {s.queue for s in self.spans if s.is_match(address) and s.was_throughout(start_s, end_s)}

    def possible(self, address: str, start_s: float, end_s: float) -> set[str]:
        """Queues that something sent there in that time may have gone to."""
        return {s.queue for s in self.spans if s.is_match(address) and s.was_perhaps(start_s, end_s)}

    def ended(self) -> set[str]:
        """Queues that were deleted, or may have been, with what was in them."""
        return {s.queue for s in self.spans if s.is_durable and s.surely_until_s < inf}


def matching(exchange: str, key: str) -> Callable[[str], bool]:
    """Whether a SEND to that address goes by this binding."""
    prefix = f"/exchange/{exchange}/"
    if EXCHANGES[exchange] == DIRECT:
        return lambda address: address == prefix + key
    return lambda address: address.startswith(prefix) and matches(key, address.removeprefix(prefix))


Binding = tuple[str, str, str]  # exchange, key, queue


class Binder(Client):
    """Binds and unbinds what is its own, one word after the other; what was not answered it says again."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, bindings: list[Binding]) -> None:
        self.bindings = bindings
        self.there: dict[Binding, Span] = {}
        self.waiting: tuple[str, Binding] | None = None
        self.is_over = False
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        self.request({"do": "declare", "exchange": RUNTIME_EXCHANGE, "type": DIRECT, "durable": True}, b"declared")

    def request(self, asked: dict[str, Any], name: bytes) -> None:
        assert self.link is not None
        body = json.dumps(asked).encode()
        self.say(Send(self.link.number, "/admin", b"", 2, body, reply_to="answers", correlation_id=name))

    def go_on(self) -> None:
        """The next word, unless all is over."""
        if self.link is None or self.is_over:
            return
        now_s = self.scheduler.now_s
        if self.waiting is None:
            binding = self.random.choice(self.bindings)
            exchange, key, queue = binding
            if binding in self.there:
                self.waiting = "unbind", binding
                self.there[binding].surely_until_s = now_s
            else:
                self.waiting = "bind", binding
                self.there[binding] = self.books.routes.add(Span(matching(exchange, key), queue, now_s))
        verb, (exchange, key, queue) = self.waiting
        self.request({"do": verb, "exchange": exchange, "key": key, "queue": queue}, verb.encode())

    def got(self, deliver: Deliver) -> None:
        answer = json.loads(deliver.message.body)
        if not answer["ok"]:
            self.books.mistakes.append(f"refused: {self.name!r} was answered {answer}, waiting for {self.waiting}")
        if b"correlation-id:declared\n" not in deliver.message.headers:
            assert self.waiting is not None
            verb, binding = self.waiting
            self.waiting = None
            if verb == "bind":
                self.there[binding].surely_from_s = self.scheduler.now_s
            else:
                self.there.pop(binding).perhaps_until_s = self.scheduler.now_s
        self.scheduler.soon(REST_S, lambda link=self.link: self.go_on() if self.link is link else None)  # type: ignore[misc]


class Durable(Client):
    """Comes and goes, and consumes what was collected meanwhile; now and then it ends its durable subscription."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, address: str) -> None:
        self.address = address
        self.is_careful = False
        self.span: Span | None = None
        self.is_ending = False
        self.lives = 0
        super().__init__(scheduler, node, books, name)

    def is_match(self, address: str) -> bool:
        kind, _, name = self.address[1:].partition("/")
        if kind == "topic":
            return address.startswith("/topic/") and matches(name, address.removeprefix("/topic/"))
        exchange, _, key = name.partition("/")
        return matching(exchange, key)(address)

    def connected(self) -> None:
        """An end that was never answered is said once more."""
        assert self.link is not None
        if self.is_ending:
            self.end()
        else:
            self.begin()

    def begin(self) -> None:
        assert self.link is not None
        if self.span is None:
            if self.random.random() < 0.5:  # it comes again before it knows
                self.scheduler.soon(0.003, lambda link=self.link: link.cut())  # type: ignore[misc]
            self.lives += 1
            queue = f"{self.address} {self.name.decode()} {self.lives}"
            self.span = self.books.routes.add(Span(self.is_match, queue, self.scheduler.now_s, is_durable=True))
        ack, prefetch = CLIENT_INDIVIDUAL, self.random.choice([None, 1, 3, 20])
        receipt = self.ask(("begun",))
        number = self.link.number
        self.say(Subscribe(number, self.name, self.address, ack, prefetch, receipt=receipt, durable=True))
        self.scheduler.soon(0.1, lambda link=self.link: self.leave() if self.link is link else None)  # type: ignore[misc]

    def leave(self) -> None:
        """It goes without a word, stays away for a while, or ends what it collects."""
        if self.link is None or self.is_careful or self.is_ending or self.span is None:
            return
        if self.random.random() < 0.3:
            self.end()
        else:
            self.link.cut()

    def end(self) -> None:
        assert self.link is not None and self.span is not None
        self.is_ending = True
        self.span.surely_until_s = min(self.span.surely_until_s, self.scheduler.now_s)
        self.say(Unsubscribe(self.link.number, self.name, self.ask(("ended",)), durable=True, destination=self.address))

    def hear(self, reply: Reply | None) -> None:
        if isinstance(reply, Refuse) and self.is_ending and reply.code == "subscription":
            # the one before was carried out; whether that is on the disk an ERROR does not say: perhaps it goes on
            self.is_ending = False
        super().hear(reply)

    def got(self, deliver: Deliver) -> None:
        assert self.span is not None
        self.books.delivered(self.span.queue, deliver)
        link, span = self.link, self.span
        self.scheduler.soon(0.002, lambda: self.answer(deliver, span) if self.link is link else None)

    def answer(self, deliver: Deliver, span: Span) -> None:
        """What it holds of a queue that it has deleted, too: until then that counts in the connection's window."""
        assert self.link is not None
        number, queue, message_id = self.link.number, span.queue, deliver.message_id
        if self.is_ending or self.span is not span:
            self.say(Ack(number, message_id))
        elif not self.is_careful and self.random.random() < 0.1:
            self.say(Nack(number, message_id, receipt=self.ask((NACKED, queue, message_id))))
        else:
            self.say(Ack(number, message_id, receipt=self.ask((ACKED, queue, message_id))))

    def receipted(self, what: object) -> None:
        assert isinstance(what, tuple)
        if what[0] == "begun":
            if self.span is not None and self.span.surely_from_s == inf:
                self.span.surely_from_s = self.scheduler.now_s
        elif what[0] == "ended":
            if self.span is not None:
                self.span.perhaps_until_s = self.scheduler.now_s
            self.span, self.is_ending = None, False
            if self.link is not None and not self.link.is_cut:
                self.scheduler.soon(REST_S, lambda link=self.link: self.begin() if self.link is link else None)  # type: ignore[misc]
        else:
            self.books.answered(what)
