"""Clients of the simulation, and the books that they keep: what was receipted, what was acked, what came when.

A body names its producer and number, and is said again, unchanged, until its RECEIPT comes. So a body may be stored
twice (as promised: at least once), but a message id is one message: everything is judged by ids.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING
from zlib import crc32

from radiator.model.amqp_properties import expanded
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, Ack, Begin, Command, Commit, Nack, Send, Subscribe
from radiator.model.message import Message
from radiator.model.principal import ANYONE
from radiator.model.priorities import priority_of
from radiator.model.replies import Deliver, Receipt, Refuse, Reply, Scope
from radiator.model.settings import QueueSettings
from tests.sim.simulation import Link, Scheduler, SimNode

if TYPE_CHECKING:
    from tests.sim.bindings import Routes

ACKED, NACKED = "acked", "nacked"
DELAYS_MS = (0, 20, 100, 1000, 3000)

Job = tuple[str, ...]  # the destinations that one body goes to, in one transaction if they are several
ANSWERS = b"/temp-queue/"  # ids of subscriptions to the answers of /admin begin so


@dataclass
class Sent:
    """A body, and when it was said. receipted_s: when its RECEIPT came, which answers the last time that it was said.

    delay_ms, deliver_at_ms: as it is to be kept back, or None. without_effect: how many of the times it was answered
    that nothing of it is stored, or taken back.
    """

    job: Job
    delay_ms: int | None
    deliver_at_ms: int | None
    first_s: float
    last_s: float
    times: int = 1
    without_effect: int = 0
    receipted_s: float | None = None


@dataclass
class Books:
    """What the clients know. `mistakes` must stay empty.

    now_s: of the run. peaks: when the wall clock was set back, and what it showed until then. name_of: what the books
    call the queue of a subscription. leased: queues of which leases are taken: their answers leave at the end of a
    turn, so other messages may overtake them. keyed: queues that are partitioned (keys.py). is_leased: whether a
    message of a queue is surely under a lease.
    """

    routes: "Routes"
    now_s: Callable[[], float]
    sent: dict[bytes, Sent] = field(default_factory=dict)
    peaks: list[tuple[float, int]] = field(default_factory=list)
    name_of: Callable[[str], str] = str
    leased: set[str] = field(default_factory=set)
    keyed: set[str] = field(default_factory=set)
    is_leased: Callable[[str, bytes], bool] = lambda queue, message_id: False
    came: dict[tuple[str, bytes], set[bytes]] = field(default_factory=lambda: defaultdict(set))  # queue, body -> ids
    acked: set[tuple[str, bytes]] = field(default_factory=set)  # queue, id: with receipt
    nacked: dict[tuple[str, bytes], int] = field(default_factory=lambda: defaultdict(int))  # with receipt, how often
    out: dict[tuple[str, bytes], tuple[float, int]] = field(default_factory=dict)  # queue, id -> when last handed over
    times_out: dict[tuple[str, bytes], int] = field(default_factory=lambda: defaultdict(int))
    kept_back: dict[tuple[str, bytes], tuple[float, int]] = field(default_factory=dict)  # by NACK: since when, until
    last_first: dict[str, tuple[int, int]] = field(default_factory=dict)  # queue -> the last id first delivered
    deliveries: int = 0
    redeliveries: int = 0
    delayed: int = 0
    mistakes: list[str] = field(default_factory=list)

    def latest_ms(self, since_s: float, now_ms: int) -> int:
        """The latest time that the wall clock has shown since then."""
        return max([now_ms, *(shown_ms for at_s, shown_ms in self.peaks if at_s >= since_s)])

    def delivered(self, queue: str, deliver: Deliver) -> None:
        self.judge_acked(queue, deliver)
        self.arrived(queue, deliver)

    def judge_acked(self, queue: str, deliver: Deliver) -> None:
        """What was acked is handed over to nobody."""
        if (queue, deliver.message_id) in self.acked:
            self.mistakes.append(f"acked and redelivered: {deliver.message_id!r} in {queue}")

    def arrived(self, queue: str, deliver: Deliver) -> None:
        body, message_id = deliver.message.body, deliver.message_id
        self.deliveries += 1
        self.redeliveries += deliver.redelivered
        if body not in self.sent:
            self.mistakes.append(f"unexpected: {body!r} in {queue}")
            return
        if b"%08x" % crc32(body) not in headers_of(deliver.message):
            self.mistakes.append(f"altered: {body!r}")
        self.came[queue, body].add(message_id)
        if queue == "dead":  # it has been in `b`, whether or not anybody saw it there
            self.came["b", body].add(deliver.message.headers.split(b"original-message-id:")[1].split(b"\n")[0])

    def handed(self, deliver: Deliver, settings: Callable[[str], QueueSettings], now_ms: int, boot: int) -> None:
        """As the node hands it over: what was never out before, nor kept back, comes in the order of acceptance."""
        assert deliver.subscription is not None
        if deliver.subscription.startswith(ANSWERS):
            return
        queue = self.name_of(deliver.subscription.decode())
        _, accepted_boot, sequence = deliver.message_id.split(b"-")
        place = int(accepted_boot), int(sequence)
        name = f"{deliver.message_id!r} in {queue}"
        most = settings(queue).max_redeliveries
        is_delayed = self.judge_time(queue, deliver, settings(queue), now_ms, boot)
        if 0 < deliver.message.expires_ms <= now_ms:
            self.mistakes.append(f"expired: {name} was handed over after its time")
        if (queue, deliver.message_id) in self.out and not deliver.redelivered:
            self.mistakes.append(f"not marked: {name} was out before, and comes without `redelivered`")
        if deliver.redeliveries < self.nacked[queue, deliver.message_id]:
            self.mistakes.append(f"count: {name} was NACKed with receipt more often than {deliver.redeliveries} times")
        if settings(queue).dead_letter is not None and deliver.redeliveries > most:
            self.mistakes.append(f"too often: {name} is redelivered for the {deliver.redeliveries}th time, of {most}")
        if b"dead-letter-reason:redeliveries\n" in deliver.message.headers:
            most = settings("b").max_redeliveries
            if b"redelivery-count:%d\n" % most not in deliver.message.headers:
                self.mistakes.append(f"too early: {name} died before {most} redeliveries: {deliver.message.headers!r}")
        self.out[queue, deliver.message_id] = self.now_s(), boot
        self.times_out[queue, deliver.message_id] += 1
        if self.is_leased(queue, deliver.message_id):
            self.mistakes.append(f"leased: {name} was handed over while somebody has it under a lease")
        if not deliver.redelivered and not is_delayed and queue not in self.leased | self.keyed:
            # where there are keys, each has its order (keys.py)
            highest = settings(queue).max_priority
            line = queue if highest is None else f"{queue} of priority {priority_of(deliver.message, highest)}"
            if place <= self.last_first.get(line, (0, 0)):
                self.mistakes.append(f"order: {place} was first handed over after {self.last_first[line]} in {line}")
            self.last_first[line] = place

    def judge_time(self, queue: str, deliver: Deliver, settings: QueueSettings, now_ms: int, boot: int) -> bool:
        """Nothing is handed over while it is kept back. Whether it ever was."""
        key, replies = (queue, deliver.message_id), self.sent.get(deliver.message.body)
        name = f"{deliver.message.body!r} ({deliver.message_id!r}) in {queue}"
        is_delayed = replies is not None and (replies.delay_ms is not None or replies.deliver_at_ms is not None)
        if replies is not None and is_delayed and key not in self.out and queue != "dead":
            due_ms = max(deliver.message.accepted_ms + (replies.delay_ms or 0), replies.deliver_at_ms or 0)
            latest_ms = self.latest_ms(replies.first_s, now_ms)
            self.delayed += 1
            if latest_ms < due_ms:
                self.mistakes.append(f"too early: {name} came {due_ms - latest_ms} ms before its time")
        since_s, until_ms = self.kept_back.pop(key, (0.0, 0))
        latest_ms = self.latest_ms(since_s, now_ms)
        if latest_ms < until_ms:
            self.mistakes.append(f"too early: {name} was NACKed, and came back {until_ms - latest_ms} ms too early")
        last_s, last_boot = self.out.get(key, (0.0, 0))
        if settings.redelivery_delay_ms and last_boot == boot and all(at_s < last_s for at_s, _ in self.peaks):
            times = max(0, deliver.redeliveries - 1)
            wait_ms = settings.redelivery_delay_ms * settings.redelivery_delay_factor**times
            wait_ms = min(wait_ms, settings.redelivery_delay_max_ms)
            waited_ms = (self.now_s() - last_s) * 1000
            if waited_ms < wait_ms - 1:
                self.mistakes.append(f"spins: {name} came back after {waited_ms:.0f} ms, of {wait_ms:.0f} at least")
        return is_delayed

    def answered(self, what: tuple[object, ...]) -> None:
        """The RECEIPT of an ACK or NACK: (verb, queue, id), and of a NACK with a delay when it was said, until when it
        keeps the message back, and how often that had been handed over.
        """
        verb, queue, message_id, *kept = what
        key = queue, message_id
        if verb == ACKED:
            self.acked.add(key)  # type: ignore[arg-type]
            return
        self.nacked[key] += 1  # type: ignore[index]
        # if the clock was set meanwhile nobody knows until when it is kept back
        if kept and self.times_out[key] == kept[2] and all(at_s < kept[0] for at_s, _ in self.peaks):  # type: ignore[index, operator]
            self.kept_back[key] = kept[0], kept[1]  # type: ignore[index, assignment]

    def judge(self, queues_of: dict[str, tuple[str, ...]], left: dict[str, int], may_expire: set[str]) -> None:
        """At the end, when everything has been drained."""
        for queue, count in left.items():
            if count:
                self.mistakes.append(f"not drained: {count} in {queue}")
        came: dict[bytes, dict[str, int]] = defaultdict(dict)
        for (queue, body), ids in self.came.items():
            came[body][queue] = len(ids)
        for body, reported in self.sent.items():
            queues = [queue for to in reported.job for queue in queues_of.get(to, ())]
            if not may_expire.issuperset(queues) or not queues:
                self.judge_body(body, reported, queues, came[body])

    def judge_body(self, body: bytes, reported: Sent, queues: list[str], came: dict[str, int]) -> None:
        """queues: where it goes whatever is bound. What was bound all the time gets it as often as these."""
        end_s = reported.receipted_s if reported.receipted_s is not None else self.now_s()
        # what was said on a connection that is cut while the broker does not read may be carried out after the next one
        last_s = end_s if reported.times == 1 else self.now_s()
        whole, must, may = {*queues}, {*queues}, {*queues}
        for to in reported.job:
            whole |= self.routes.sure(to, reported.first_s, end_s)
            must |= self.routes.sure(to, reported.last_s, end_s)
            may |= self.routes.possible(to, reported.first_s, last_s)
        ended = self.routes.ended()
        times = {queue: came.get(queue, 0) for queue in sorted(whole - ended)}
        lost = [queue for queue in sorted(must - ended) if not came.get(queue)]
        if reported.receipted_s is not None and lost:
            self.mistakes.append(f"lost: {body!r} was receipted, and came to {came}, not to {lost}")
        if len(set(times.values())) > 1:
            self.mistakes.append(f"in part: {body!r} came {times} times")
        if came.keys() - may - {"dead"}:
            self.mistakes.append(f"not bound: {body!r} to {reported.job} came to {came}, and may come to {sorted(may)}")
        most = reported.times - reported.without_effect
        if max(came.values(), default=0) > most:
            self.mistakes.append(f"doubled: {body!r} was said {most} times, and came {came} times")
        if "once" in queues and max(times.values()) > 1:
            self.mistakes.append(f"twice: {body!r} came {times} times in spite of its dedup-id")


def trace_of(body: bytes) -> bytes:
    """The header `traceparent` of a third of the bodies, and in another third one that is none."""
    number = crc32(body)
    version = (b"00", b"01", b"")[number % 3]
    return b"traceparent:%b-%032x-%016x-01\n" % (version, number + 1, number + 1) if version else b""


def correlation_of(body: bytes) -> bytes:
    """The header `correlation-id` of two fifths of the bodies, one in two of them as long as the journal tells of any,
    and in another fifth one byte longer.
    """
    number = crc32(body) // 11 % 5
    name = (b"%08x" % crc32(body), b"%0255d" % number, b"%0256d" % number)
    return b"correlation-id:%b\n" % name[number] if number < len(name) else b""


def key_header(body: bytes) -> bytes:
    """One of three keys for most bodies, and none for the others."""
    number = crc32(body) // 7 % 5
    return b"key:%d\n" % (number % 3) if number else b""


def priority_header(body: bytes) -> bytes:
    """A priority from 1 to 4 for most bodies, and none for the others."""
    number = crc32(body) // 13 % 5
    return b"priority:%d\n" % number if number else b""


def headers_for(body: bytes) -> bytes:
    """All that a message has."""
    headers = b"crc:%08x\n" % crc32(body) + trace_of(body) + correlation_of(body)
    return headers + key_header(body) + priority_header(body)


def headers_of(message: Message) -> bytes:
    """As everybody sees them, also where the message has come over AMQP."""
    return _seen(message.headers, message.escaping)


@lru_cache(4096)
def _seen(headers: bytes, escaping: int) -> bytes:
    return expanded(headers, escaping)[0]


class Client:
    """Connects, and connects again whenever it is cut off. closes_at: as of Open."""

    principal = ANYONE
    closes_at = Scope.COMMAND

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
        self.link = self.node.connect(self.hear, self.principal, self.closes_at)
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
            self.waiting[body] = job
            self.note(body, job)
            self.send(body, job)

    def note(self, body: bytes, job: Job) -> None:
        """It is about to be said, once more perhaps."""
        reported, now_s = self.books.sent.get(body), self.scheduler.now_s
        if reported is not None:
            reported.last_s, reported.times = now_s, reported.times + 1
            return
        delay_ms = deliver_at_ms = None
        if not job[0].startswith("/topic/"):
            if self.random.random() < 0.25:
                delay_ms = self.random.choice(DELAYS_MS)
            if self.random.random() < 0.1:
                deliver_at_ms = max(0, self.node.now_ms + self.random.choice((-1000, *DELAYS_MS)))
        self.books.sent[body] = Sent(job, delay_ms, deliver_at_ms, now_s, now_s)

    def send(self, body: bytes, job: Job) -> None:
        assert self.link is not None
        number = self.link.number
        headers = headers_for(body)
        name = body if len(job) > 1 else None
        receipt = self.ask(body)
        reported = self.books.sent[body]
        sends = [
            Send(
                number,
                to,
                headers,
                2,
                body,
                None if name else receipt,
                name,
                dedup_id=body if "once" in to else None,
                delay_ms=reported.delay_ms,
                deliver_at_ms=reported.deliver_at_ms,
            )
            for to in job
        ]
        if name is None:
            self.say(*sends)
        else:
            self.say(Begin(number, name), *sends, Commit(number, name, receipt))

    def receipted(self, what: object) -> None:
        assert isinstance(what, bytes)
        self.books.sent[what].receipted_s = self.scheduler.now_s
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
            timeout_s = self.random.choice([None, None, None, 1]) if queue == "a" and not self.is_careful else None
            self.say(
                Subscribe(self.link.number, queue.encode(), f"/queue/{queue}", mode, prefetch, ack_timeout_s=timeout_s)
            )

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
            self.nack(queue, message_id)
        else:
            self.say(Ack(self.link.number, message_id, receipt=self.ask((ACKED, queue, message_id))))

    def nack(self, queue: str, message_id: bytes) -> None:
        """Now and then it wants to have it later. Where the queue itself keeps it back that is left to it."""
        assert self.link is not None
        delay_ms = self.random.choice([None, None, 0, 30, 500]) if queue != "later" else None
        kept: tuple[object, ...] = ()
        if delay_ms is not None:
            until_ms = self.node.now_ms + delay_ms
            kept = self.scheduler.now_s, until_ms, self.books.times_out[queue, message_id]
        receipt = self.ask((NACKED, queue, message_id, *kept))
        self.say(Nack(self.link.number, message_id, receipt=receipt, delay_ms=delay_ms))

    def receipted(self, what: object) -> None:
        assert isinstance(what, tuple)
        self.books.answered(what)
