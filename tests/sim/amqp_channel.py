"""The channels of a simulated client of AMQP: one kind that confirms, and one that has transactions.

A message has no id on the wire: the n-th that the node has handed to a channel is the one with the tag n, so the books
have its id from there. An ack has no answer: it is surely on the disk once a message that was published behind it, on
the same channel, to a queue, is confirmed; or with the commit that it is part of.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from radiator.model.amqp_properties import properties_of
from radiator.model.headers import ESCAPING_ALL
from radiator.model.replies import Deliver
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.codec import encode_method
from radiator.protocols.amqp.frame import AmqpFrame, decode_content_header, encode_frame
from radiator.protocols.amqp.spec import FRAME_BODY, FRAME_HEADER
from tests.sim.books import ACKED, NACKED, Job, Sent, headers_for

if TYPE_CHECKING:
    from tests.sim.amqp import AmqpClient

AGAIN_S = 0.03  # after a refusal
THINKS_S, GETS_S = 0.002, 0.15
WAITING_MAX = 4  # publishes without confirm
OF_BASIC = b"\0\x3c\0\0"  # how a content header begins
DEAD_LETTERED = "b"  # the queue from which a message may be rejected and is not gone
PREFETCHES = (0, 0, 1, 3, 20)
REFUSALS = re.compile("no exchange 'made'|Out of memory|more than its share|[Nn]o room|was not acked within")
"""Why the broker may close a channel whose client keeps the rules."""

Settled = tuple[str, str, bytes]  # as Books.answered takes it


@dataclass(frozen=True)
class Handed:
    """A message of a queue that the node has handed to a channel. times: how often it had been handed over by then."""

    queue: str
    deliver: Deliver
    times: int

    @property
    def key(self) -> tuple[str, bytes]:
        return self.queue, self.deliver.message_id


@dataclass(frozen=True)
class Unconfirmed:
    """A message that waits for its confirm. settled: so many settlements of its channel were sent before it."""

    body: bytes
    job: Job
    settled: int


@dataclass
class Attempt:
    """A transaction whose commit was asked for: what it publishes, b"" for nothing, and what it acks and gives back."""

    body: bytes
    job: Job
    acked: list[Handed] = field(default_factory=list)
    given_back: list[Handed] = field(default_factory=list)


class ClientChannel:
    """One life of a channel. handed: what the node has handed to it, the first with the tag 1, whether or not it has
    arrived; received: how many have. unacked: tags of those that wait for an answer; gone: that have one.
    """

    def __init__(self, client: "AmqpClient", wire: int, queues: list[str]) -> None:
        self.client = client
        self.books = client.books
        self.random = client.random
        self.wire = wire
        self.queues = queues
        self.is_open = True
        self.is_closing = self.is_refused = False
        self.expected: deque[tuple[tuple[type, ...], Callable[[], None]]] = deque()
        self.content: list[Any] = []  # a method whose content is on its way, the size of this, and what has come of it
        self.handed: list[Handed] = []
        self.received = 0
        self.unacked: list[int] = []
        self.gone: set[int] = set()
        self.returned: set[bytes] = set()
        self.prefetch = self.random.choice(PREFETCHES)
        self.is_window_shared = self.random.random() < 0.3

    @property
    def name(self) -> str:
        return f"channel {self.wire} of {self.client.name!r}"

    # ---- what it says -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.ask(m.ChannelOpen(), m.ChannelOpenOk)
        self.select()
        self.ask(m.BasicQos(0, self.prefetch, self.is_window_shared), m.BasicQosOk)
        for queue in self.queues:
            self.ask(m.BasicConsume(queue=queue, consumer_tag=queue), m.BasicConsumeOk)
        self.go_on()
        self.soon(GETS_S, self.get)

    def say(self, method: m.Method) -> None:
        self.client.write(encode_method(self.wire, method))

    def ask(self, method: m.Method, *answers: type, then: Callable[[], None] = lambda: None) -> None:
        """then: what its answer leads to."""
        self.say(method)
        self.expected.append((answers, then))

    def publish(self, to: str, body: bytes) -> None:
        """Some come back where no queue takes them."""
        exchange, key = "", to.removeprefix("/queue/")
        if to.startswith("/exchange/"):
            exchange, _, key = to.removeprefix("/exchange/").partition("/")
        properties = properties_of(headers_for(body), ESCAPING_ALL)
        self.client.write(
            encode_method(self.wire, m.BasicPublish(0, exchange, key, self.random.random() < 0.5))
            + encode_frame(FRAME_HEADER, self.wire, OF_BASIC + len(body).to_bytes(8) + properties)
            + encode_frame(FRAME_BODY, self.wire, body)
        )

    def note(self, body: bytes, job: Job) -> None:
        """It is about to be published, once more perhaps."""
        now_s = self.client.scheduler.now_s
        reported = self.books.sent.get(body)
        if reported is None:
            self.books.sent[body] = Sent(job, None, None, now_s, now_s)
        else:
            reported.last_s, reported.times = now_s, reported.times + 1

    def soon(self, mean_s: float, what: Callable[[], None]) -> None:
        """After a random time, if it is still open."""
        self.client.scheduler.soon(mean_s, lambda: what() if self.is_open else None)

    def get(self) -> None:
        """One message, now and then."""
        if not self.client.is_careful:
            queue = self.random.choice(self.client.queues)
            self.ask(m.BasicGet(queue=queue), m.BasicGetOk, m.BasicGetEmpty)
            self.soon(GETS_S, self.get)

    def settle(self) -> None:
        """Acks or gives back one message, or all to one of them; some wait for more."""
        is_careful = self.client.is_careful
        if not self.unacked or (not is_careful and self.random.random() < 0.3):
            return
        tag = self.unacked[-1] if is_careful else self.random.choice(self.unacked)
        multiple = is_careful or self.random.random() < 0.5
        named = [one for one in self.unacked if one <= tag] if multiple else [tag]
        verb, requeue = ACKED, False
        if not is_careful:
            if self.random.random() < 0.1:
                verb, requeue = NACKED, True
            elif self.random.random() < 0.2 and all(self.handed[one - 1].queue == DEAD_LETTERED for one in named):
                verb = NACKED
        if verb == ACKED:
            self.say(m.BasicAck(tag, multiple))
        elif multiple or self.random.random() < 0.5:
            self.say(m.BasicNack(tag, multiple, requeue))
        else:
            self.say(m.BasicReject(tag, requeue))
        self.unacked = [one for one in self.unacked if one not in named]
        self.settled(named, requeue)

    def close(self) -> None:
        self.is_open, self.is_closing = False, True
        self.ask(m.ChannelClose(), m.ChannelCloseOk, then=self.closed)

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def mistake(self, what: str) -> None:
        self.books.mistakes.append(f"amqp: {self.name}: {what}")

    def hear(self, frame: AmqpFrame, method: Any) -> None:
        """method: None where the frame is part of a content."""
        if method is None:
            self.hear_content(frame)
        elif self.content:
            self.mistake(f"{method} comes within a content")
        elif isinstance(method, m.ChannelClose):
            self.refused(method)
        elif isinstance(method, m.BasicAck | m.BasicNack):
            self.confirmed(method)
        elif isinstance(method, m.BasicDeliver | m.BasicReturn):
            self.content = [method, 0, b""]
        elif not self.expected or not isinstance(method, self.expected[0][0]):
            self.mistake(f"{method} came, and {[*self.expected][:1]} is next")
        else:
            if isinstance(method, m.BasicGetOk):
                self.content = [method, 0, b""]
            self.expected.popleft()[1]()

    def hear_content(self, frame: AmqpFrame) -> None:
        if not self.content:
            self.mistake("a content comes that no method has announced")
        elif frame.type == FRAME_HEADER:
            _, self.content[1], properties = decode_content_header(frame.payload)
            self.content.append(properties)
        else:
            self.content[2] += frame.payload
            if len(self.content[2]) >= self.content[1]:
                method, _, body, properties = self.content
                self.content = []
                if b"%08x" % crc32(body) not in properties:
                    self.mistake(f"{body!r} has the properties {properties!r}")
                if not isinstance(method, m.BasicReturn):
                    self.got(method, body)
                elif self.awaits(body):
                    self.returned.add(body)
                else:
                    self.mistake(f"{body!r} has come back, and its confirm, or its commit, is there already")

    def got(self, method: m.BasicDeliver | m.BasicGetOk, body: bytes) -> None:
        self.received += 1
        handed = self.handed[self.received - 1]
        deliver = handed.deliver
        wanted = self.received, deliver.redelivered, deliver.message.body
        if (method.delivery_tag, method.redelivered, body) != wanted:
            self.mistake(f"{method} came with {body!r}, and the node has handed over {wanted}")
        if isinstance(method, m.BasicDeliver) and method.consumer_tag != handed.queue:
            self.mistake(f"{method} came, of the queue {handed.queue}")
        self.books.arrived(handed.queue, deliver)
        self.unacked.append(self.received)
        of_consumers = [one for one in map(self.handed_as, self.unacked) if one.deliver.left is None]
        beside = [one for one in of_consumers if self.is_window_shared or one.queue == handed.queue]
        if deliver.left is None and 0 < self.prefetch < len(beside):
            self.mistake(f"{len(beside)} messages are unacked, of {self.prefetch} at most")
        self.soon(THINKS_S, self.act)

    def handed_as(self, tag: int) -> Handed:
        return self.handed[tag - 1]

    def refused(self, method: m.ChannelClose) -> None:
        if not REFUSALS.search(method.reply_text):
            self.mistake(f"it keeps the rules, and is closed: {method}")
        self.is_open, self.is_refused = False, True
        self.say(m.ChannelCloseOk())
        if self.is_closing:
            self.expected = deque([self.expected[-1]])
        else:
            self.client.channel_over(self)

    def closed(self) -> None:
        self.judge_end()
        self.client.channel_over(self)

    # ---- what its kind says -----------------------------------------------------------------------------------------

    def select(self) -> None:
        raise NotImplementedError

    def go_on(self) -> None:
        """Publishes what there is."""
        raise NotImplementedError

    def act(self) -> None:
        """Answers what it has been given."""
        raise NotImplementedError

    def settled(self, tags: list[int], requeue: bool) -> None:
        """These were acked; or, with requeue, given back."""
        raise NotImplementedError

    def confirmed(self, method: m.BasicAck | m.BasicNack) -> None:
        raise NotImplementedError

    def judge_end(self) -> None:
        """It is closed in order, or its connection is: what was sent before that has been answered."""
        raise NotImplementedError

    def awaits(self, body: bytes) -> bool:
        """Whether what was published has no answer yet."""
        raise NotImplementedError

    def over(self) -> None:
        """It has no client any more: what waits is published by another."""
        self.is_open = False

    def unsettled(self) -> list[Handed]:
        """What was handed to it and must come again, if this life is over."""
        return [one for tag, one in enumerate(self.handed, 1) if tag not in self.gone]


class ConfirmChannel(ClientChannel):
    """Publishes what goes to one place, with confirms."""

    def __init__(self, client: "AmqpClient", wire: int, queues: list[str]) -> None:
        super().__init__(client, wire, queues)
        self.published: list[Unconfirmed] = []
        self.confirms = 0
        self.settlements: list[Settled] = []
        self.proven = 0  # so many of these are on the disk

    def select(self) -> None:
        self.ask(m.ConfirmSelect(), m.ConfirmSelectOk)

    def go_on(self) -> None:
        client = self.client
        while self.is_open and client.todo and len(client.waiting) < WAITING_MAX:
            body, job = client.todo.pop(0)
            client.waiting[body] = job
            self.note(body, job)
            self.published.append(Unconfirmed(body, job, len(self.settlements)))
            self.publish(job[0], body)

    def awaits(self, body: bytes) -> bool:
        return body in [one.body for one in self.published[self.confirms :]]

    def act(self) -> None:
        self.settle()
        if self.unacked:
            self.soon(10 * THINKS_S, self.act)

    def settled(self, tags: list[int], requeue: bool) -> None:
        self.gone.update(tags)
        named = [*map(self.handed_as, tags)]
        if requeue:
            self.client.given_back += named
        self.settlements += [(NACKED if requeue else ACKED, *one.key) for one in named]

    def confirmed(self, method: m.BasicAck | m.BasicNack) -> None:
        tag, first = method.delivery_tag, self.confirms + 1
        if not (tag == first or (method.multiple and first < tag)) or tag > len(self.published):
            self.mistake(f"{method} came, and {first} is next of {len(self.published)}")
            return
        for one in self.published[self.confirms : tag]:
            self.confirms += 1
            self.confirmed_one(one, isinstance(method, m.BasicAck))
        self.soon(0.003, self.go_on)

    def confirmed_one(self, one: Unconfirmed, is_acked: bool) -> None:
        client, reported = self.client, self.books.sent[one.body]
        del client.waiting[one.body]
        client.confirms += 1
        if not is_acked:
            reported.without_effect += 1
            client.nacks += 1
            client.todo.append((one.body, one.job))
            self.soon(AGAIN_S, self.go_on)
        elif one.body in self.returned:
            reported.without_effect += 1
            client.returns += 1
            bound = self.books.routes.sure(one.job[0], reported.last_s, client.scheduler.now_s)
            if bound or one.job[0].startswith("/queue/"):
                self.mistake(f"{one.body!r} to {one.job} has come back, and {bound} takes it")
        else:
            reported.receipted_s = client.scheduler.now_s
            if one.job[0].startswith("/queue/"):
                for settled in self.settlements[self.proven : one.settled]:
                    self.books.answered(settled)
                self.proven = max(self.proven, one.settled)

    def judge_end(self) -> None:
        if not self.is_refused and self.confirms < len(self.published):
            self.mistake(f"it is closed in order with {self.confirms} of {len(self.published)} messages confirmed")

    def over(self) -> None:
        super().over()
        self.client.todo = [*self.client.waiting.items(), *self.client.todo]
        self.client.waiting = {}


class TransactionChannel(ClientChannel):
    """Publishes what goes to several places, and acks beside it, in transactions, one at a time. A body that is not
    known to be committed is published under another name: what one transaction has done is told apart from the next.
    """

    def __init__(self, client: "AmqpClient", wire: int, queues: list[str]) -> None:
        super().__init__(client, wire, queues)
        self.begun: list[tuple[int, bool]] = []  # the tags that are settled in the transaction, and whether given back
        self.job: tuple[bytes, Job] | None = None  # what the one that is being ended publishes, and under which name
        self.body = b""
        self.is_ending = False

    def select(self) -> None:
        self.ask(m.TxSelect(), m.TxSelectOk)

    def go_on(self) -> None:
        self.act()

    def act(self) -> None:
        """A transaction, if there is anything to do."""
        client = self.client
        if not self.is_open or self.is_ending:
            return
        self.settle()
        if not self.is_open or not (self.begun or client.transactions):
            if self.unacked:
                self.soon(10 * THINKS_S, self.act)
            return
        attempt = Attempt(b"", ())
        if client.transactions:
            self.job = client.transactions.pop(0)
            client.attempts_made += 1
            attempt.body, attempt.job = b"%b.%d" % (self.job[0], client.attempts_made), self.job[1]
            self.body = attempt.body
            self.note(attempt.body, attempt.job)
            for to in attempt.job:
                self.publish(to, attempt.body)
        if self.random.random() < 0.3:
            self.settle()
        self.end(attempt, not client.is_careful and self.random.random() < 0.15)

    def judge_end(self) -> None:
        if not self.is_refused and self.is_ending:
            self.mistake("it is closed in order, and a commit or rollback is not answered")

    def awaits(self, body: bytes) -> bool:
        return self.is_ending and body == self.body

    def settled(self, tags: list[int], requeue: bool) -> None:
        self.begun += [(tag, requeue) for tag in tags]

    def end(self, attempt: Attempt, is_rolled_back: bool) -> None:
        self.is_ending = True
        attempt.acked = [self.handed_as(tag) for tag, is_given_back in self.begun if not is_given_back]
        attempt.given_back = [self.handed_as(tag) for tag, is_given_back in self.begun if is_given_back]
        if is_rolled_back:
            if attempt.body:
                self.books.sent[attempt.body].without_effect = 1
            self.ask(m.TxRollback(), m.TxRollbackOk, then=self.rolled_back)
            return
        self.client.attempts.append(attempt)
        self.client.given_back += attempt.given_back
        self.gone.update(tag for tag, _ in self.begun)
        self.ask(m.TxCommit(), m.TxCommitOk, then=lambda: self.committed(attempt))

    def rolled_back(self) -> None:
        """What was settled is unacked again, under the tags that it had."""
        self.unacked = sorted([*self.unacked, *(tag for tag, _ in self.begun)])
        self.client.rollbacks += 1
        if self.job is not None:
            self.client.transactions.append(self.job)
        self.ended()

    def committed(self, attempt: Attempt) -> None:
        self.client.commits += 1
        for verb, those in ((ACKED, attempt.acked), (NACKED, attempt.given_back)):
            for one in those:
                self.books.answered((verb, *one.key))
        if attempt.body:
            reported = self.books.sent[attempt.body]
            if attempt.body not in self.returned:  # in part, perhaps
                reported.receipted_s = self.client.scheduler.now_s
        self.ended()

    def ended(self) -> None:
        self.begun, self.job, self.is_ending = [], None, False
        self.soon(0.003, self.act)

    def confirmed(self, method: m.BasicAck | m.BasicNack) -> None:
        self.mistake(f"{method} came, and nothing is confirmed here")

    def over(self) -> None:
        super().over()
        if self.job is not None:
            self.client.transactions.insert(0, self.job)
            self.job = None
