"""Clients of a simulation that do what HTTP offers: they publish whole batches, and lease messages and settle them.

A lease begins at some moment between its Receive and the answer. So it surely goes on for its time from when it was
asked for, and is surely over that long after the answer; in between nothing is demanded. Tokens are tried again in
later lives of the broker, and by another user's clients: there they must settle nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from zlib import crc32

from radiator.model.commands import PublishAll, Send
from radiator.model.leases import LEASE_OVER, Action, Leased, LeasedMessage, Receive, Settle, Settled, Settlement
from radiator.model.principal import Principal
from radiator.model.replies import Deliver, Published, Refuse, Reply, Scope
from tests.sim.books import ACKED, NACKED, Books, Client, Job, Producer
from tests.sim.simulation import Scheduler, SimNode

LEASES_MS = (1000, 1000, 3000)
WAITS_MS = (0, 50, 1000)
AGAIN_S = 0.03  # after a refusal
AGAIN = ("blocked", "memory", "no-such-destination")  # codes of what has no room now, or is declared later
DEAD_LETTERED = "b"  # the queue from which a message may be rejected and is not gone


class OverHttp(Client):
    """Its requests are answered each for itself, and a refused one ends nothing but itself."""

    closes_at = Scope.CONNECTION

    def hear(self, reply: Reply | None) -> None:
        is_refused = isinstance(reply, Refuse) and reply.scope < self.closes_at
        if not is_refused and not isinstance(reply, Leased | Settled | Published):
            super().hear(reply)
            return
        assert isinstance(reply, Refuse | Leased | Settled | Published) and reply.receipt is not None
        self.scheduler.trace(self.name, reply)
        if isinstance(reply, Refuse) and reply.code not in AGAIN:
            self.books.mistakes.append(f"refused: {self.name!r} was answered {reply}")
        for what in self.asked.pop(reply.receipt):
            self.answered(what, reply)

    def answered(self, what: object, reply: Refuse | Leased | Settled | Published) -> None:
        raise NotImplementedError

    def on_this_link(self, seconds: float, what: Callable[[], None]) -> None:
        """After that time, if its connection is still the same."""
        link = self.link
        self.scheduler.after(seconds, lambda: what() if self.link is link and link is not None else None)


class BatchProducer(OverHttp, Producer):
    """Says each of its bodies until it is answered as published; what goes to several places is one batch."""

    def send(self, body: bytes, job: Job) -> None:
        assert self.link is not None
        reported, headers = self.books.sent[body], b"crc:%08x\n" % crc32(body)
        sends = [
            Send(
                self.link.number,
                to,
                headers,
                2,
                body,
                dedup_id=body if "once" in to else None,
                delay_ms=reported.delay_ms,
                deliver_at_ms=reported.deliver_at_ms,
            )
            for to in job
        ]
        self.say(PublishAll(self.link.number, self.ask(body), sends))

    def answered(self, what: object, reply: Refuse | Leased | Settled | Published) -> None:
        assert isinstance(what, bytes)
        if isinstance(reply, Published):
            if reply.duplicates and self.books.sent[what].times == 1:
                self.books.mistakes.append(f"unknown: {what!r} was said once, and is answered as a duplicate")
            self.receipted(what)
            return
        job = self.waiting.pop(what)
        self.todo.append((what, job))
        self.on_this_link(AGAIN_S, self.go_on)


@dataclass(frozen=True)
class AskedReceive:
    """A Receive, and when it was said."""

    queue: str
    lease_s: float
    asked_s: float

    def is_stale(self, now_s: float) -> bool:
        """Whether what answers it now may be over, and with somebody else, since the answer had to wait for long."""
        return now_s >= self.asked_s + self.lease_s


@dataclass
class Held:
    """A lease, as its client knows it. client, user: who has it. boot: the broker's life in which it was given."""

    client: bytes
    user: str
    queue: str
    message_id: bytes
    lease_s: float
    boot: int
    sure_until_s: float
    over_from_s: float
    is_over: bool = False  # a settlement that may end it has been said


@dataclass
class AskedSettlement:
    """A settlement that was said. held: its lease; None: it is none of this client's, and must be refused. times_out:
    how often the message had been handed over until then.
    """

    settlement: Settlement
    held: Held | None
    asked_s: float
    now_ms: int
    times_out: int = 0


@dataclass
class Tokens:
    """All tokens that were ever given in a history, and what was asked for, by the receipt ids of the Receives."""

    asked: dict[bytes, "AskedReceive"] = field(default_factory=dict)
    given: dict[bytes, Held] = field(default_factory=dict)

    def holding(self, queue: str, message_id: bytes, boot: int, now_s: float) -> bool:
        """Whether somebody surely has that message under a lease."""
        key = queue, message_id, boot
        return any(
            (one.queue, one.message_id, one.boot) == key and not one.is_over and now_s < one.sure_until_s
            for one in self.given.values()
        )


class Lessee(OverHttp):
    """Leases messages of some queues, thinks a while, and settles them; some leases run out. It keeps its tokens when
    its connection is lost, or the broker.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        node: SimNode,
        books: Books,
        name: bytes,
        queues: list[str],
        tokens: Tokens,
        principal: Principal,
    ) -> None:
        self.queues = queues
        self.tokens = tokens
        self.principal = principal
        self.user = principal.name if node.authorizer is not None else ""
        self.is_careful = False
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        """Of what it has from before it knows nothing but the tokens."""
        mine = [
            token
            for token, held in self.tokens.given.items()
            if held.client == self.name and not held.is_over and self.random.random() < 0.5
        ]
        if mine:
            self.settle(mine[:10])
        self.receive()

    def receive(self) -> None:
        assert self.link is not None
        queue, most = self.random.choice(self.queues), self.random.choice((1, 2, 10))
        wait_ms, lease_ms = self.random.choice(WAITS_MS), self.random.choice(LEASES_MS)
        asked = AskedReceive(queue, lease_ms / 1000, self.scheduler.now_s)
        receipt = self.ask(asked)
        self.tokens.asked[receipt] = asked
        self.say(Receive(self.link.number, receipt, f"/queue/{queue}", most, wait_ms, lease_ms))

    def answered(self, what: object, reply: Refuse | Leased | Settled | Published) -> None:
        if isinstance(reply, Settled):
            assert isinstance(what, list)
            for asked, verdict in zip(what, reply.verdicts, strict=True):
                self.judge(asked, verdict.code)
        elif isinstance(reply, Leased):
            assert isinstance(what, AskedReceive)
            is_stale = what.is_stale(self.scheduler.now_s)
            tokens = [] if is_stale else [self.note(one, what) for one in reply.messages]
            self.on_this_link(self.random.expovariate(1 / 0.004), lambda: self.answer(tokens))
        elif isinstance(what, AskedReceive):
            self.on_this_link(AGAIN_S, self.receive)

    def note(self, leased: LeasedMessage, asked: AskedReceive) -> bytes:
        self.books.delivered(asked.queue, deliver_of(leased, asked.queue))
        if leased.lease in self.tokens.given:
            self.books.mistakes.append(f"token twice: {leased.lease!r} was given before")
        self.tokens.given[leased.lease] = Held(
            self.name,
            self.user,
            asked.queue,
            leased.message_id,
            asked.lease_s,
            self.node.boots,
            sure_until_s=asked.asked_s + asked.lease_s,
            over_from_s=self.scheduler.now_s + asked.lease_s,
        )
        return leased.lease

    def answer(self, tokens: list[bytes]) -> None:
        """What it keeps for longer it settles late, or when it is over."""
        kept = [] if self.is_careful else [token for token in tokens if self.random.random() < 0.15]
        if kept:
            self.on_this_link(self.random.uniform(0.3, 1.5), lambda: self.settle(kept))
        now = [token for token in tokens if token not in kept]
        if now:
            self.settle(now)
        self.receive()

    def settle(self, tokens: list[bytes]) -> None:
        assert self.link is not None
        asked: list[AskedSettlement] = []
        for token in tokens:
            held = self.tokens.given[token]
            if held.is_over:
                continue
            asked.append(self.drawn(token, held))
            if held.is_over and self.random.random() < 0.1:
                asked.append(self.asked_for(Settlement(token, Action.ACK), None))  # it is over by the one before
        if self.tokens.given and self.random.random() < 0.3:
            asked.append(self.asked_for(Settlement(self.drawn_stranger(), Action.ACK), None))
        if asked:
            self.say(Settle(self.link.number, self.ask(asked), [one.settlement for one in asked]))

    def asked_for(self, settlement: Settlement, held: Held | None) -> AskedSettlement:
        times_out = 0 if held is None else self.books.times_out[held.queue, held.message_id]
        return AskedSettlement(settlement, held, self.scheduler.now_s, self.node.now_ms, times_out)

    def drawn(self, token: bytes, held: Held) -> AskedSettlement:
        """What becomes of that lease."""
        shares = (1.0, 0, 0, 0) if self.is_careful else (6, 2, 1 if held.queue == DEAD_LETTERED else 0, 2)
        action = self.random.choices((Action.ACK, Action.RELEASE, Action.REJECT, Action.EXTEND), shares)[0]
        delay_ms = None
        if action is Action.RELEASE and held.queue != "later":
            delay_ms = self.random.choice((None, None, 0, 30, 500))
        held.is_over = action is not Action.EXTEND
        if action is Action.EXTEND:
            held.over_from_s = inf  # until that is answered: where its connection is lost it may have been carried out
        return self.asked_for(Settlement(token, action, delay_ms), held)

    def drawn_stranger(self) -> bytes:
        """A token that settles nothing: another user's, one of an earlier life, or one that was never given."""
        token, held = self.random.choice([*self.tokens.given.items()])
        if held.user != self.user or held.boot != self.node.boots:
            return token
        number, _, proof = token.partition(b".")
        return number + b"." + proof[::-1]

    def judge(self, asked: AskedSettlement, code: str) -> None:
        """The verdict on what was said, as it comes."""
        settlement, held, now_s = asked.settlement, asked.held, self.scheduler.now_s
        name = f"{settlement} of {self.name!r} at {now_s}"
        if code not in ("", LEASE_OVER):
            self.books.mistakes.append(f"settlement: {name} is answered {code!r}")
        elif held is None:
            if not code:
                self.books.mistakes.append(f"stranger: {name} settles what is not its client's, or is over")
        elif code:
            if held.boot == self.node.boots and now_s < held.sure_until_s:
                self.books.mistakes.append(f"lease lost: {name} has {code!r}, and goes on until {held.sure_until_s}")
            held.is_over = True
        elif held.boot != self.node.boots:
            self.books.mistakes.append(f"lease of before: {name} settles what was leased in life {held.boot}")
        elif held.over_from_s <= asked.asked_s:
            self.books.mistakes.append(f"lease overdue: {name} settles what was over at {held.over_from_s}")
        else:
            self.settled(asked, held)

    def settled(self, asked: AskedSettlement, held: Held) -> None:
        action, delay_ms = asked.settlement.action, asked.settlement.delay_ms
        if action is Action.EXTEND:
            held.sure_until_s = asked.asked_s + held.lease_s
            held.over_from_s = self.scheduler.now_s + held.lease_s
            token = asked.settlement.lease
            self.on_this_link(self.random.uniform(0, 0.95) * held.lease_s, lambda: self.settle([token]))
        elif action is Action.RELEASE:
            kept = () if delay_ms is None else (asked.asked_s, asked.now_ms + delay_ms, asked.times_out)
            self.books.answered((NACKED, held.queue, held.message_id, *kept))
        else:
            self.books.answered((ACKED, held.queue, held.message_id))


def deliver_of(leased: LeasedMessage, queue: str) -> Deliver:
    """The same as a MESSAGE would bring it, for the books."""
    return Deliver(0, queue.encode(), leased.message_id, leased.message, True, leased.redelivered, leased.redeliveries)
