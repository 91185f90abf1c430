"""Clients of the simulation, and the books that they keep: what was receipted, what was acked, what came when.

A body names its producer and number, and is said again, unchanged, until its RECEIPT comes. So a body may be stored
twice (as promised: at least once), but a message id is one message: everything is judged by ids.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from radiator.commands import CLIENT, CLIENT_INDIVIDUAL, Ack, Begin, Command, Commit, Nack, Send, Subscribe
from radiator.replies import Deliver, Receipt, Refuse, Reply
from radiator.settings import QueueSettings
from tests.sim.simulation import Link, Scheduler, SimNode

ACKED, NACKED = "acked", "nacked"

Job = tuple[str, ...]  # the destinations that one body goes to, in one transaction if they are several


@dataclass
class Books:
    """What the clients know. `mistakes` must stay empty."""

    said: dict[bytes, Job] = field(default_factory=dict)
    receipted: set[bytes] = field(default_factory=set)
    came: dict[tuple[str, bytes], set[bytes]] = field(default_factory=lambda: defaultdict(set))  # queue, body -> ids
    acked: set[tuple[str, bytes]] = field(default_factory=set)  # queue, id: with receipt
    nacked: dict[tuple[str, bytes], int] = field(default_factory=lambda: defaultdict(int))  # with receipt, how often
    out: set[tuple[str, bytes]] = field(default_factory=set)  # queue, id: that were handed over
    last_first: dict[str, tuple[int, int]] = field(default_factory=dict)  # queue -> the last id first delivered
    deliveries: int = 0
    redeliveries: int = 0
    mistakes: list[str] = field(default_factory=list)

    def delivered(self, queue: str, deliver: Deliver) -> None:
        body, message_id = deliver.message.body, deliver.message_id
        self.deliveries += 1
        self.redeliveries += deliver.redelivered
        if body not in self.said:
            self.mistakes.append(f"unexpected: {body!r} in {queue}")
            return
        if b"%08x" % crc32(body) not in deliver.message.headers:
            self.mistakes.append(f"altered: {body!r}")
        if (queue, message_id) in self.acked:
            self.mistakes.append(f"acked and redelivered: {message_id!r} in {queue}")
        self.came[queue, body].add(message_id)

    def handed(self, deliver: Deliver, settings: dict[str, QueueSettings], now_ms: int) -> None:
        """As the node hands it over: what was never out before comes in the order of acceptance."""
        assert deliver.subscription is not None
        queue = deliver.subscription.decode()
        _, boot, sequence = deliver.message_id.split(b"-")
        place = int(boot), int(sequence)
        name = f"{deliver.message_id!r} in {queue}"
        most = settings[queue].max_redeliveries
        if 0 < deliver.message.expires_ms <= now_ms:
            self.mistakes.append(f"expired: {name} was handed over after its time")
        if (queue, deliver.message_id) in self.out and not deliver.redelivered:
            self.mistakes.append(f"not marked: {name} was out before, and comes without `redelivered`")
        if deliver.redeliveries < self.nacked[queue, deliver.message_id]:
            self.mistakes.append(f"count: {name} was NACKed with receipt more often than {deliver.redeliveries} times")
        if settings[queue].dead_letter is not None and deliver.redeliveries > most:
            self.mistakes.append(f"too often: {name} is redelivered for the {deliver.redeliveries}th time, of {most}")
        if b"dead-letter-reason:redeliveries\n" in deliver.message.headers:
            most = settings["b"].max_redeliveries
            if b"redelivery-count:%d\n" % most not in deliver.message.headers:
                self.mistakes.append(f"too early: {name} died before {most} redeliveries: {deliver.message.headers!r}")
        self.out.add((queue, deliver.message_id))
        if not deliver.redelivered:
            if place <= self.last_first.get(queue, (0, 0)):
                self.mistakes.append(f"order: {place} was first handed over after {self.last_first[queue]} in {queue}")
            self.last_first[queue] = place

    def judge(self, queues_of: dict[str, tuple[str, ...]], left: dict[str, int], may_expire: set[str]) -> None:
        """At the end, when everything has been drained."""
        for queue, count in left.items():
            if count:
                self.mistakes.append(f"not drained: {count} in {queue}")
        for body, job in self.said.items():
            queues = [queue for to in job for queue in queues_of.get(to, (to,))]
            if may_expire.issuperset(queues):
                continue
            times = [len(self.came.get((queue, body), ())) for queue in queues]
            if body in self.receipted and not all(times):
                self.mistakes.append(f"lost: {body!r} was receipted, and came {times} times in {queues}")
            if len(set(times)) > 1:
                self.mistakes.append(f"in part: {body!r} came {times} times in {queues}")
            if "once" in queues and max(times) > 1:
                self.mistakes.append(f"twice: {body!r} came {times} times in spite of its dedup-id")


class Client:
    """Connects, and connects again whenever it is cut off."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes) -> None:
        self.scheduler = scheduler
        self.random: Random = scheduler.random
        self.node = node
        self.books = books
        self.name = name
        self.link: Link | None = None
        self.asked: dict[bytes, list[object]] = {}
        self.count = 0
        scheduler.soon(0.02, self.connect)

    def connect(self) -> None:
        if self.link is not None:
            return
        self.link = self.node.connect(self.hear)
        if self.link is None:
            self.scheduler.soon(0.02, self.connect)
        else:
            self.asked = {}
            self.connected()

    def hear(self, reply: Reply | None) -> None:
        self.scheduler.trace(self.name, reply)
        if reply is None or isinstance(reply, Refuse):
            if self.link is not None and reply is not None:
                self.link.cut()
            if reply is None:
                self.link = None
                self.scheduler.soon(0.02, self.connect)
        elif isinstance(reply, Receipt):
            if reply.receipt not in self.asked or reply.receipt != next(iter(self.asked)):
                self.books.mistakes.append(f"receipts out of order: {reply.receipt!r} of {[*self.asked]}")
            for what in self.asked.pop(reply.receipt, []):
                self.receipted(what)
        elif isinstance(reply, Deliver):
            self.got(reply)

    def ask(self, *what: object) -> bytes:
        """A new receipt id, for all that."""
        self.count += 1
        receipt = b"%b-%d" % (self.name, self.count)
        self.asked[receipt] = [*what]
        return receipt

    def say(self, *commands: Command) -> None:
        if self.link is not None and not self.link.is_cut:
            self.link.say(*commands)

    def connected(self) -> None: ...

    def receipted(self, what: object) -> None: ...

    def got(self, deliver: Deliver) -> None: ...


class Producer(Client):
    """Says each of its bodies until it is receipted, a few at a time."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, jobs: list[Job]) -> None:
        self.todo = [(b"%b:%d" % (name, number), job) for number, job in enumerate(jobs)]
        self.waiting: dict[bytes, Job] = {}
        super().__init__(scheduler, node, books, name)

    @property
    def is_done(self) -> bool:
        return not self.todo and not self.waiting

    def connected(self) -> None:
        self.todo = [*self.waiting.items(), *self.todo]
        self.waiting = {}
        self.go_on()

    def go_on(self) -> None:
        while self.link is not None and self.todo and len(self.waiting) < 4:
            body, job = self.todo.pop(0)
            self.waiting[body] = self.books.said[body] = job
            self.send(body, job)

    def send(self, body: bytes, job: Job) -> None:
        assert self.link is not None
        number = self.link.number
        headers = b"crc:%08x\n" % crc32(body)
        name = body if len(job) > 1 else None
        receipt = self.ask(body)
        sends = [
            Send(number, to, headers, 2, body, None if name else receipt, name, dedup_id=body if "once" in to else None)
            for to in job
        ]
        if name is None:
            self.say(*sends)
        else:
            self.say(Begin(number, name), *sends, Commit(number, name, receipt))

    def receipted(self, what: object) -> None:
        assert isinstance(what, bytes)
        self.books.receipted.add(what)
        self.waiting.pop(what, None)
        self.scheduler.soon(0.003, self.go_on)


class Consumer(Client):
    """Consumes some queues, thinks a while over each message, and ACKs it; sometimes it gives one back."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, queues: list[str]) -> None:
        self.queues = queues
        self.is_careful = False
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        for queue in self.queues:
            mode = CLIENT_INDIVIDUAL if self.is_careful else self.random.choice([CLIENT, CLIENT_INDIVIDUAL])
            prefetch = self.random.choice([None, None, 1, 3, 20])
            self.say(Subscribe(self.link.number, queue.encode(), f"/queue/{queue}", mode, prefetch))

    def got(self, deliver: Deliver) -> None:
        assert deliver.subscription is not None
        self.books.delivered(deliver.subscription.decode(), deliver)
        if deliver.ack_due:
            link = self.link
            self.scheduler.soon(0.002, lambda: self.answer(deliver) if self.link is link else None)

    def answer(self, deliver: Deliver) -> None:
        assert self.link is not None and deliver.subscription is not None
        queue, message_id = deliver.subscription.decode(), deliver.message_id
        if not self.is_careful and self.random.random() < 0.1:
            self.say(Nack(self.link.number, message_id, receipt=self.ask((NACKED, queue, message_id))))
        else:
            self.say(Ack(self.link.number, message_id, receipt=self.ask((ACKED, queue, message_id))))

    def receipted(self, what: object) -> None:
        assert isinstance(what, tuple)
        verb, queue, message_id = what
        if verb == ACKED:
            self.books.acked.add((queue, message_id))
        else:
            self.books.nacked[queue, message_id] += 1
