"""S11, S12, S14: clients that keep what they should give back: messages, a poisoned message, transactions.

S11: who subscribes and never ACKs is closed after ack_timeout_s, and what it held goes to others; who ACKs in time is
left alone. S12: a message that kills its consumers is dead-lettered after exactly its limit, and the others flow. S14:
open transactions and their bytes end at the limits, and leave no trace. Each in the simulated node, with the clock as
an argument, over many random cases; and first in a real broker.

How long one may stay open is shown in tests/core/test_memory.py, with the clock as an argument.
"""

import contextlib
import time
from dataclasses import dataclass, field
from random import Random

from radiator.core.turn import WRITE_COST_BYTES
from radiator.model.limits import MIB, Limits
from radiator.model.replies import Deliver, Refuse, Reply
from radiator.model.settings import Declarations, QueueSettings
from tests.acceptance.conftest import adds_up, stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import memory_bytes
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, header, nack, queues, send, subscribe

MODES = ("client", "client-individual")
HOARD_MAX_BYTES = 150 * MIB  # by a transaction that may have 64


def refusals(replies: list[Reply]) -> list[Refuse]:
    return [reply for reply in replies if isinstance(reply, Refuse)]


# ---- S11: messages that are held ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Consumer:
    """held: what it has not answered, with the time at which it came. is_holder: it never answers."""

    number: int
    is_holder: bool
    held: dict[bytes, tuple[Deliver, float]] = field(default_factory=dict)


class Held:
    """One queue with an ack_timeout_s, some that hold and some that ACK in time, and a clock that goes at random."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.chance = run.chance
        self.timeout_s = self.chance.choice((0.1, 0.5, 2.0, 30.0))
        settings = QueueSettings(persistent=self.chance.random() < 0.7, ack_timeout_s=self.timeout_s)
        self.node = Node(queues(q=settings), seed=run.done)
        self.consumers: dict[int, Consumer] = {}
        self.opened = 1
        self.acked: set[bytes] = set()
        self.timed_out = 0

    def violation(self, sentence: str) -> None:
        self.run.violation(f"seed {self.run.seed}, case {self.run.done}, ack_timeout_s {self.timeout_s}: {sentence}")

    def join(self, is_holder: bool) -> None:
        self.opened += 1
        number = self.opened
        self.node.open(number)
        prefetch_count = self.chance.choice((None, 1, 3, 10))
        self.node.say(subscribe(number, "q", self.chance.choice(MODES), prefetch_count=prefetch_count))
        self.consumers[number] = Consumer(number, is_holder)

    def listen(self) -> None:
        """Everybody hears what came, and who is refused must have held something for too long."""
        while any(self._hears(consumer) for consumer in list(self.consumers.values())):
            pass  # what a refused one held came to others, at the same time

    def _hears(self, consumer: Consumer) -> bool:
        replies = self.node.take(consumer.number)
        for reply in replies:
            if isinstance(reply, Deliver):
                consumer.held[reply.message_id] = (reply, self.node.now_s)
        for refusal in refusals(replies):
            self._was_right(consumer, refusal)
            del self.consumers[consumer.number]
            self.node.close(consumer.number)
            self.timed_out += 1
        return bool(replies)

    def _was_right(self, consumer: Consumer, refusal: Refuse) -> None:
        oldest_s = min((since_s for _, since_s in consumer.held.values()), default=self.node.now_s)
        if refusal.code != "ack-timeout" or self.node.now_s - oldest_s < self.timeout_s - 1e-6:
            self.violation(f"refused after {self.node.now_s - oldest_s:.3f} s with {refusal}")

    def nobody_holds_too_long(self) -> None:
        """Asked after a tick of the clock."""
        for consumer in self.consumers.values():
            for deliver, since_s in consumer.held.values():
                if self.node.now_s - since_s >= self.timeout_s + 1e-6:
                    held_s = self.node.now_s - since_s
                    self.violation(f"{deliver.message.body!r} is held for {held_s:.3f} s, and nothing is done")

    def answer(self, at_least_s: float) -> None:
        """Those who do answer ACK what they have had for so long, the oldest first (`client` means all before)."""
        for consumer in self.consumers.values():
            if consumer.is_holder:
                continue
            for message_id, (deliver, since_s) in list(consumer.held.items()):
                if self.node.now_s - since_s < at_least_s:
                    break
                del consumer.held[message_id]
                self.acked.add(deliver.message.body)
                self.node.say(ack(deliver))
        self.listen()

    def step(self, number: int) -> None:
        self.node.say(send(1, "q", b"%d" % number))
        self.listen()
        if len(self.consumers) < 4:
            self.join(is_holder=self.chance.random() < 0.5)
            self.listen()
        step_s = self.timeout_s * self.chance.choice((0.1, 0.3, 0.45))
        # who answers does so before the clock can pass its time
        self.answer(at_least_s=self.timeout_s - step_s - 1e-3 if self.chance.random() < 0.5 else 0.0)
        self.node.wait(step_s)
        self.listen()
        self.nobody_holds_too_long()

    def drain(self, count: int) -> None:
        """The holders' time passes; then one that answers gets all that is left."""
        for consumer in self.consumers.values():
            consumer.is_holder = True
        self.node.wait(self.timeout_s * 1.01)
        self.listen()
        self.nobody_holds_too_long()
        for number in self.consumers:
            self.node.close(number)  # what was held by others came to some of these
        self.consumers.clear()
        self.join(is_holder=False)
        for _ in range(2 * count):
            self.listen()
            self.answer(0.0)
        missing = count - len(self.acked)
        if missing or self.node.numbers("q")["stored"]:
            self.violation(f"{missing} messages never came to one who ACKs: {self.node.numbers('q')}")


def hold_messages(run: Run) -> None:
    hold_for_real(run)
    run.case()
    timed_out = 0
    while not run.is_over:
        held = Held(run)
        held.node.open(1)
        count = run.chance.randrange(5, 40)
        for number in range(count):
            held.step(number)
        held.drain(count)
        timed_out += held.timed_out
        run.case()
    run.figures["closed by ack_timeout_s"] = timed_out


def hold_for_real(run: Run) -> None:
    """Heart-beats go on, so nothing but ack_timeout_s can end it; another consumer then gets the message."""
    config = '[limits]\nheart_beat_ms = [100, 100]\n[queue."held"]\nack_timeout_s = 0.5\n'
    with BrokerProcess(run.directory, config) as broker, contextlib.ExitStack() as open_wires:
        address = (broker.host, broker.port)
        sender, holder, other = (open_wires.enter_context(Wire(address)) for _ in range(3))
        sender.connect()
        sender.send("/queue/held", "precious")
        holder.connect({"heart-beat": "100,100"})
        holder.subscribe("/queue/held")
        holder.message()
        began_s = time.monotonic()
        other.connect()
        other.subscribe("/queue/held")
        refusal = None
        while refusal is None and time.monotonic() - began_s < 5:
            holder.send_raw(b"\n")
            with contextlib.suppress(TimeoutError):
                refusal = holder.read_frame(0.05)
        took_s = time.monotonic() - began_s
        assert refusal is not None, f"whoever never ACKs, and sends heart-beats, was let be for {took_s:.1f} s"
        assert refusal["code"] == "ack-timeout" or b"not acked" in refusal.body, refusal
        assert 0.4 < took_s < 2.5, f"ack_timeout_s is 0.5, and it took {took_s:.2f} s"
        try:
            again = other.message(3)
        except TimeoutError:
            raise AssertionError("what was held came to nobody else") from None
        assert (again.body, again["redelivered"]) == (b"precious", "true"), again
        other.ack(again)
        assert stats(broker)["queues"]["held"]["stored"] == 0


# ---- S12: a poisoned message ----------------------------------------------------------------------------------------


def die_of(node: Node, deliver: Deliver, chance: Random) -> bool:
    """Whoever has the poison loses its connection, or gives it back by a NACK: whether it is gone."""
    if chance.random() < 0.4:
        node.say(nack(deliver))
        return False
    node.close(deliver.connection)
    return True


def poison_some(run: Run) -> None:
    poison_for_real(run)
    run.case()
    deliveries = 0
    while not run.is_over:
        deliveries += poison_once(run)
        run.case()
    run.figures["deliveries of poison"] = deliveries


def poison_once(run: Run) -> int:
    chance = run.chance
    limit = chance.choice((0, 1, 2, 3, 5, 16))
    is_persistent = chance.random() < 0.7
    settings = QueueSettings(persistent=is_persistent, dead_letter="dead", max_redeliveries=limit)
    node = Node(queues(q=settings), seed=run.done)
    bodies = [
        b"%s %d" % (chance.choice((b"good", b"good", b"poison")), number) for number in range(chance.randrange(1, 12))
    ]
    node.open(1)
    for body in bodies:
        node.say(send(1, "q", body))
    came: dict[bytes, int] = dict.fromkeys(bodies, 0)
    consumers = opened = 0
    workers: set[int] = set()
    for _ in range(len(bodies) * (limit + 2) * 2 + 4):
        while consumers < 2:
            opened, consumers = opened + 1, consumers + 1
            worker = 100 + opened
            node.open(worker)
            node.say(subscribe(worker, "q"))
            workers.add(worker)
        for worker in list(workers):
            for deliver in node.messages(worker):
                came[deliver.message.body] += 1
                if not deliver.message.body.startswith(b"poison"):
                    node.say(ack(deliver))
                elif die_of(node, deliver, chance):
                    workers.discard(worker)
                    consumers -= 1
    case = f"seed {run.seed}, case {run.done}, max_redeliveries {limit}: "
    for body, count in came.items():
        expected = 1 + limit if body.startswith(b"poison") else 1
        if count != expected:
            run.violation(f"{case}{body!r} was delivered {count} times and not {expected}")
    poisons = sorted(body for body in bodies if body.startswith(b"poison"))
    look_at_the_dead(run, node, poisons, case)
    return sum(count for body, count in came.items() if body in poisons)


def look_at_the_dead(run: Run, node: Node, poisons: list[bytes], case: str) -> None:
    if node.numbers("q")["stored"]:
        run.violation(f"{case}something stays in the queue: {node.numbers('q')}")
    node.open(2)
    node.say(subscribe(2, "dead", prefetch_count=100))
    dead = node.messages(2)
    if sorted(one.message.body for one in dead) != poisons:
        run.violation(f"{case}the dead letters are {[one.message.body for one in dead]} and not {poisons}")
    reasons = {header(one.message, b"dead-letter-reason") for one in dead}
    if reasons - {b"redeliveries"}:
        run.violation(f"{case}the reasons of the dead letters are {reasons}")


def poison_for_real(run: Run) -> None:
    """Consumers are processes that die: each takes the poison, and its connection is lost."""
    config = '[queue."jobs"]\ndead_letter = "dead"\nmax_redeliveries = 3\n[queue."dead"]\n'
    with BrokerProcess(run.directory, config) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as wire:
            wire.connect()
            for body in ("poison", *map(str, range(20))):
                wire.send("/queue/jobs", body)
        deaths, done = 0, []
        for _ in range(8):
            with Wire(address) as worker:
                worker.connect()
                worker.subscribe("/queue/jobs")
                while len(done) < 20 and (message := worker.message()).body != b"poison":
                    worker.ack(message)
                    done.append(message.body)
                if len(done) == 20:
                    break
                deaths += 1
        assert deaths == 4, f"with max_redeliveries 3 the poison killed {deaths} consumers and not 4"
        assert sorted(done) == sorted(b"%d" % number for number in range(20)), f"of the others came {done}"
        numbers = stats(broker)["queues"]
        assert (numbers["jobs"]["stored"], numbers["dead"]["stored"]) == (0, 1), numbers
        assert all(map(adds_up, numbers.values())), numbers


# ---- S14: transactions that are hoarded -----------------------------------------------------------------------------


def hoard(run: Run) -> None:
    hoard_for_real(run)
    run.case()
    while not run.is_over:
        hoard_once(run)
        run.case()


class Hoard:
    """One connection that opens transactions up to the limits and one step further."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.chance = run.chance
        self.limits = Limits(
            max_transactions=self.chance.choice((1, 2, 3, 16)),
            max_batch_bytes=self.chance.choice((4096, 20_000, 100_000)),
        )
        self.node = Node(Declarations(create_queues=True, create_topics=True), self.limits, seed=run.done)
        self.node.open(1, 2)
        self.before = self.node.in_use_bytes()

    def violation(self, sentence: str) -> None:
        self.run.violation(f"seed {self.run.seed}, case {self.run.done}, {self.limits}: {sentence}")

    @property
    def was_refused(self) -> str:
        """The code of the ERROR that it got; "": none."""
        codes = [refusal.code for refusal in refusals(self.node.take(1))]
        return codes[0] if codes else ""

    def begin_all(self) -> None:
        most = self.limits.max_transactions
        for number in range(most):
            self.node.say(begin(1, b"t%d" % number))
            if self.was_refused:
                self.violation(f"BEGIN {number + 1} was refused: {most} may be open")

    def begin_one_more(self) -> None:
        """After some came and went: only those that are open count."""
        name = b"t%d" % self.chance.randrange(self.limits.max_transactions)
        for _ in range(self.chance.randrange(3)):
            self.node.say(self.chance.choice((abort, commit))(1, name), begin(1, name))
            if self.was_refused:
                self.violation("a BEGIN in the place of one that has ended was refused")
        self.node.say(begin(1, b"one more"))
        if self.was_refused != "too-many-transactions":
            self.violation(f"{self.limits.max_transactions + 1} transactions are open")

    def fill_one(self) -> None:
        """SENDs until it is refused: what was taken, with its cost, is within the bound, and nearly reached it."""
        most, taken = self.limits.max_batch_bytes, 0
        name = b"t%d" % self.chance.randrange(self.limits.max_transactions)
        destination = self.chance.choice(("q", "/topic/t"))
        while taken <= most:
            body = bytes(self.chance.choice((0, 1, 100, most // 5)))
            self.node.say(send(1, destination, body, transaction=name))
            code = self.was_refused
            cost = len(body) + WRITE_COST_BYTES
            if code:
                if code != "too-large" or taken + cost <= most:
                    self.violation(f"refused as {code} with {taken} + {cost} bytes in it")
                return
            taken += cost
        self.violation(f"{taken} bytes were taken into one transaction")

    def end_all(self) -> None:
        """What was in them is not counted any more, although the connection goes on."""
        for number in range(self.limits.max_transactions):
            name = b"t%d" % number
            self.node.say(send(1, "/topic/t", bytes(100), transaction=name))
            self.node.say(self.chance.choice((abort, commit))(1, name))
        self.node.wait(0.25)
        left = self.node.in_use_bytes() - self.before
        if left or self.was_refused:
            self.violation(f"its transactions have ended, and {left} bytes are still counted")

    def leave(self) -> None:
        self.node.close(1)
        self.node.wait(0.25)
        after = self.node.in_use_bytes()
        if after != self.before:
            self.violation(f"the connection is gone, and {after - self.before} bytes are still counted")
        if self.node.has("q") and self.node.numbers("q")["accepted"]:
            self.violation(f"a transaction that never saw COMMIT left {self.node.numbers('q')}")
        self.node.say(send(2, "other"))
        if self.node.numbers("other")["stored"] != 1:
            self.violation("somebody else cannot send")


def hoard_once(run: Run) -> None:
    one = Hoard(run)
    one.begin_all()
    run.chance.choice((one.begin_one_more, one.fill_one, one.end_all, lambda: None))()
    one.leave()


def last_word(wire: Wire) -> bytes:
    """The body of the ERROR; nothing where the connection was reset, since more was under way."""
    try:
        return wire.read_frame().body
    except Gone:
        return b"max_batch_bytes"
    except TimeoutError:
        return b"nothing"


def hoard_for_real(run: Run) -> None:
    """10,000 BEGINs; and far more bytes than max_batch_bytes, which must never be in memory."""
    poured = 256 * MIB if run.level == "quick" else 1024 * MIB
    with BrokerProcess(run.directory) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as other, Wire(address) as wire:
            other.connect()
            wire.connect()
            with contextlib.suppress(ConnectionError):
                wire.send_raw(
                    b"".join(wire.frame("BEGIN", {"transaction": f"t{n}", "receipt": f"r{n}"}) for n in range(10_000))
                )
            begun = 0
            while (frame := wire.read_frame()).command == "RECEIPT":
                begun += 1
            assert begun == 16, f"max_transactions is 16, and {begun} are open"
            assert frame["code"] == "too-many-transactions" or b"max_transactions" in frame.body, frame
            other.send("/queue/other", "x")
        before, most = memory_bytes(broker.pid), 0
        with Wire(address) as wire:
            wire.connect()
            wire.send_frame("BEGIN", {"transaction": "t"})
            data = wire.frame("SEND", {"destination": "/queue/hoard", "transaction": "t"}, bytes(MIB))
            with contextlib.suppress(ConnectionError, TimeoutError):
                for _ in range(poured // MIB):
                    wire.send_raw(data)
                    most = max(most, memory_bytes(broker.pid))
                    if most - before > HOARD_MAX_BYTES:
                        break
            grown = (most - before) // MIB
            run.figures["MiB by a hoarder"] = grown
            assert most - before <= HOARD_MAX_BYTES, f"a transaction may have 64 MiB; the broker grew by {grown} MiB"
            assert b"max_batch_bytes" in last_word(wire), "it is over its limit, and was not told so"
        numbers = stats(broker)["queues"]
        assert "hoard" not in numbers or numbers["hoard"]["accepted"] == 0, numbers


CAMPAIGNS = (
    Campaign(
        number="S11",
        name="held-messages",
        title="consumers that send heart-beats and never ACK, beside others that do",
        unit="histories",
        run=hold_messages,
        cases=(150, 20_000, 300_000),
        mutants=("ack-timeout-off", "overdue-not-given-back"),
        mutant_cases=60,
        is_waiting=True,
    ),
    Campaign(
        number="S12",
        name="poison",
        title="messages that kill every consumer, among others that must flow",
        unit="histories",
        run=poison_some,
        cases=(150, 20_000, 300_000),
        mutants=("poison-never-dead-lettered", "max-redeliveries-off-by-one", "dead-letter-not-put"),
        mutant_cases=60,
    ),
    Campaign(
        number="S14",
        name="hoarders",
        title="transactions that are opened and filled up to the limits, and beyond",
        unit="hoarders",
        run=hoard,
        cases=(150, 20_000, 300_000),
        mutants=("transaction-limit-off-by-one", "transaction-bytes-not-bounded", "ended-transaction-keeps-its-bytes"),
        mutant_cases=60,
        needs=("linux",),
    ),
)
