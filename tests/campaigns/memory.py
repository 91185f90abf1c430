"""T7: an allocation fails, each one in turn, in the parser, the session and the core; and what the broker ends with.

Every call is made on a twin too, which has memory enough. A call that comes back gives what the twin's gives, or a
connection is closed, or the broker is ended, as the shell does with whatever the core raises; then its disk is started
from, and holds what was receipted. bounds.py is the other half: how much memory is taken.

It cannot see a failed allocation in the shell, in gevent or in LMDB.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from radiator.core.broker import Broker
from radiator.model.commands import Closed, Open, Read
from radiator.model.limits import Limits
from radiator.model.replies import Deliver, Receipt, Refuse, Reply
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.stomp.session import StompSession
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.children import Report, run_cases
from tests.core.node import Node
from tests.core.words import subscribe

CASES_OF_A_CHILD = 50
CASE_MAX_S = 20
STEPS = 50
CALLS = 220  # guarded calls of a scenario, about
ALLOCATIONS_MAX = 60  # of one call: hardly any has more
WORKERS = (1, 2, 3)
QUEUES = ("a", "b", "left", "right", "dead")
DECLARATIONS = Declarations(
    queues={
        "a": QueueSettings(max_redeliveries=2, dead_letter="dead"),
        **{name: QueueSettings() for name in QUEUES[1:]},
    },
    fanouts={"f": ("left", "right")},
    create_topics=True,
)


class BrokerEnded(Exception):
    """The core has raised: the shell would end the process."""


@dataclass(slots=True)
class Shortage:
    """Lets one allocation fail: the nth within the call of that number."""

    call: int
    nth: int
    calls: int = 0
    is_felt: bool = False

    def guard(self, call: Callable[..., Any], *arguments: object) -> Any:
        self.calls += 1
        if self.calls != self.call:
            return call(*arguments)
        from _testcapi import remove_mem_hooks, set_nomemory  # type: ignore[import-not-found]  # not everywhere: needs.py

        try:
            set_nomemory(self.nth, self.nth + 1)
            return call(*arguments)
        except BaseException:
            self.is_felt = True
            raise
        finally:
            remove_mem_hooks()


class ShortBroker:
    """A broker to which the shortage comes in its two doors."""

    def __init__(self, broker: Broker, shortage: Shortage) -> None:
        self._broker = broker
        self._shortage = shortage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def turn(self, *arguments: object) -> Any:
        return self._guarded(self._broker.turn, *arguments)

    def seal(self) -> Any:
        return self._guarded(self._broker.seal)

    def _guarded(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return self._shortage.guard(call, *arguments)
        except Exception as error:
            raise BrokerEnded from error


@dataclass(slots=True)
class Side:
    """A node with its sessions: the one that is short of memory, or its twin."""

    node: Node
    sessions: dict[int, StompSession] = field(default_factory=dict)

    def connect(self, number: int) -> None:
        self.node.inbox[number] = []
        self.node.delivers[number] = 0
        self.sessions[number] = StompSession(number, f"s-{number}", Limits())

    def take(self, commands: list[Any], number: int) -> list[Reply]:
        """What was said becomes events; what came of them."""
        begin = len(self.node.log)
        for word in commands:
            self.node.turn([word] if isinstance(word, Open) else [Read(number, [word])])
        return self.node.log[begin:]

    def close(self, number: int) -> list[Reply]:
        begin = len(self.node.log)
        del self.sessions[number]
        self.node.turn([Closed(number)])
        self.node.delivers.pop(number, None)
        return self.node.log[begin:]


class Scenario:
    """Clients say things at random, on both sides. faults: promises broken."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.shortage = Shortage(self.chance.randrange(1, CALLS), int(ALLOCATIONS_MAX ** self.chance.random()))
        self.twin = Side(Node(DECLARATIONS, seed=1))
        self.side = Side(Node(DECLARATIONS, seed=1))
        self.side.node.broker = ShortBroker(self.side.node.broker, self.shortage)  # type: ignore[assignment]
        self.faults: list[str] = []
        self.sent: dict[bytes, tuple[str, ...]] = {}
        self.in_transaction: dict[int, list[bytes]] = {}
        self.receipted: set[bytes] = set()
        self.settled: set[tuple[bytes, bytes]] = set()  # its ACK or NACK was sent
        self.acked: set[tuple[bytes, bytes]] = set()  # its ACK was receipted
        self.asked: dict[bytes, Callable[[], None]] = {}
        self.out: dict[int, list[Deliver]] = {}
        self.count = 0

    def play(self) -> None:
        """Until the end, or until the broker ends."""
        try:
            for number in WORKERS:
                self.connect(number)
            for _ in range(STEPS):
                self.step()
        except BrokerEnded:
            pass
        self.judge()

    # ---- what clients say

    def connect(self, number: int) -> None:
        for side in (self.side, self.twin):
            side.connect(number)
        self.out[number] = []
        self.say(number, b"CONNECT\naccept-version:1.2\nhost:test\n\n\0")
        for queue in QUEUES:
            head = f"SUBSCRIBE\nid:{queue}\ndestination:/queue/{queue}\nack:client-individual\nprefetch-count:3\n\n\0"
            self.say(number, head.encode())

    def step(self) -> None:
        number = self.chance.choice(WORKERS)
        if number not in self.side.sessions:
            self.connect(number)
        kinds = [
            self.send,
            self.send,
            self.send_copies,
            self.send_in_transaction,
            self.answer,
            self.answer,
            self.publish,
        ]
        self.chance.choice(kinds)(number)

    def name(self) -> bytes:
        self.count += 1
        return b"m%d" % self.count

    def send(self, number: int) -> None:
        name, queue = self.name(), self.chance.choice(("a", "b"))
        self.sent[name] = (queue,)
        self.ask(
            number,
            b"SEND\ndestination:/queue/%b\ncolour:blue\\cgreen\n" % queue.encode(),
            name,
            lambda: self.receipted.add(name),
        )

    def send_copies(self, number: int) -> None:
        name = self.name()
        self.sent[name] = ("left", "right")
        self.ask(number, b"SEND\ndestination:/fanout/f\n", name, lambda: self.receipted.add(name))

    def publish(self, number: int) -> None:
        self.say(
            number,
            b"SUBSCRIBE\nid:t\ndestination:/topic/x.*\n\n\0SEND\ndestination:/topic/x.y\n\nnews\0UNSUBSCRIBE\nid:t\n\n\0",
        )

    def send_in_transaction(self, number: int) -> None:
        names = [self.name() for _ in range(2)]
        frames = b"BEGIN\ntransaction:t\n\n\0"
        for name in names:
            self.sent[name] = ("b",)
            frames += b"SEND\ndestination:/queue/b\ntransaction:t\n\n%b\0" % name
        self.say(number, frames)
        self.ask(number, b"COMMIT\ntransaction:t\n", b"", lambda: self.receipted.update(names))

    def answer(self, number: int) -> None:
        if not self.out[number]:
            return
        deliver = self.out[number].pop(self.chance.randrange(len(self.out[number])))
        copy = (deliver.subscription or b"", deliver.message.body)
        self.settled.add(copy)
        if self.chance.random() < 0.7:
            self.ask(number, b"ACK\nid:%b\n" % deliver.message_id, b"", lambda: self.acked.add(copy))
        else:
            self.ask(number, b"NACK\nid:%b\n" % deliver.message_id, b"", lambda: None)

    def ask(self, number: int, head: bytes, body: bytes, then: Callable[[], None]) -> None:
        receipt = b"r%d" % len(self.asked)
        self.asked[receipt] = then
        frame = head + b"receipt:%b\n\n%b\0" % (receipt, body)
        cut = self.chance.randrange(len(frame))
        self.say(number, frame[:cut])
        self.say(number, frame[cut:])

    # ---- both sides

    def say(self, number: int, data: bytes) -> None:
        if number not in self.side.sessions:
            return
        expected = self.twin.sessions[number].receive(data)
        greeting = self.twin.sessions[number].take_outgoing()
        try:
            commands = self.shortage.guard(self.side.sessions[number].receive, data)
        except Exception:  # noqa: BLE001 - as the shell does: it costs this connection
            self.close(number)
            return
        self.compare(commands, expected, f"what {data!r} says")
        self.compare(self.side.sessions[number].take_outgoing(), greeting, "the greeting")
        self.reply(self.side.take(commands, number), self.twin.take(expected, number))

    def close(self, number: int) -> None:
        self.out[number].clear()
        self.reply(self.side.close(number), self.twin.close(number))

    def compare(self, found: object, expected: object, what: str) -> None:
        if found != expected:
            self.faults.append(f"{what} is {found}, and with memory enough {expected}")

    def reply(self, found: list[Reply], expected: list[Reply]) -> None:
        self.compare(found, expected, "the answer")
        for reply, other in zip(found, expected, strict=False):
            if reply.connection in self.side.sessions and isinstance(reply, (Deliver, Receipt, Refuse)):
                try:
                    data = self.shortage.guard(self.side.sessions[reply.connection].encode, reply)
                except Exception as error:
                    raise BrokerEnded from error
                self.compare(data, self.twin.sessions[reply.connection].encode(other), "the frame")
            if isinstance(reply, Receipt) and reply.receipt in self.asked:
                self.asked[reply.receipt]()
            elif isinstance(reply, Deliver) and reply.ack_due and reply.connection in self.out:
                self.out[reply.connection].append(reply)

    # ---- what is on the disk

    def judge(self) -> None:
        """Started from what is on the disk now."""
        try:
            node = Node(DECLARATIONS, platter=self.side.node.disk.platter)
        except AssertionError as wrong:
            self.faults.append(f"its disk is refused: {wrong}")
            return
        node.open(99)
        found: set[tuple[bytes, bytes]] = set()
        for queue in QUEUES:
            node.say(subscribe(99, queue, prefetch_count=1000))
        for reply in node.inbox[99]:
            if isinstance(reply, Deliver):
                copy = (reply.subscription or b"", reply.message.body)
                if copy in found:
                    self.faults.append(f"{copy} is there twice")
                found.add(copy)
        self.faults += [f"{copy} was acked, and is there" for copy in sorted(found & self.acked)]
        for name in sorted(self.receipted):
            for queue in self.sent[name]:
                copy = (queue.encode(), name)
                if copy not in found | self.settled and (b"dead", name) not in found:
                    self.faults.append(f"{copy} was receipted, and is not there")


def lack_memory(run: Run) -> None:
    felt = 0
    while not run.is_over:
        seeds = [run.chance.randrange(1 << 60) for _ in range(min(CASES_OF_A_CHILD, run.cases - run.done))]
        for seed, faults in run_cases(lack_memory_once, seeds, CASE_MAX_S):
            run.case()
            felt += FELT in faults
            for fault in faults:
                if fault != FELT:
                    run.violation(f"{fault} (scenario {seed})")
    run.figures["failed allocations that raised"] = felt


FELT = "felt"


def lack_memory_once(seed: int, report: Report) -> list[str]:
    scenario = Scenario(seed)
    report(f"allocation {scenario.shortage.nth} of call {scenario.shortage.call}")
    with contextlib.suppress(BrokerEnded):
        scenario.play()
    return scenario.faults[:3] + ([FELT] if scenario.shortage.is_felt else [])


CAMPAIGNS = (
    Campaign(
        number="T7",
        name="no-memory",
        title="lets each allocation in the parser and the core fail, beside a twin that has memory enough",
        unit="failed allocations",
        run=lack_memory,
        cases=(300, 5000, 50_000),
        mutants=("memory-error-swallowed",),
        mutant_cases=300,
        needs=("nomemory",),
    ),
)
