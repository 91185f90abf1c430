"""Clients of a simulated mesh: who sends work and takes it, who publishes and who is subscribed. Books: custody.py."""

from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, Ack, Nack, Send, Subscribe, Unsubscribe
from radiator.model.patterns import matches
from radiator.model.replies import Deliver
from tests.sim.books import Books, Client
from tests.sim.custody import CHILDREN, WORK, Custody, numbered
from tests.sim.simulation import Scheduler, SimNode

ACKED, NACKED = "acked", "nacked"
PEERS_TOPIC = "/topic/system.peers"
PUBLISHED_EVERY_S = 0.03
CLUSTER_TOPICS = "t.#"  # what is of scope "cluster"; other topics are the node's own


class Poster(Client):
    """Sends its work until each piece is receipted: again, under another body, where that is unknown."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, custody: Custody, name: bytes, jobs: list[str]
    ) -> None:
        self.custody = custody
        self.todo = [(b"%b:%d" % (name, number), to) for number, to in enumerate(jobs)]
        self.waiting: dict[bytes, str] = {}
        super().__init__(scheduler, node, books, name)

    @property
    def is_done(self) -> bool:
        return not self.todo and not self.waiting

    def connected(self) -> None:
        self.todo = [*((body + b"'", to) for body, to in self.waiting.items()), *self.todo]
        self.waiting = {}
        self.go_on()

    def go_on(self) -> None:
        while self.link is not None and self.todo and len(self.waiting) < 4:
            body, to = self.todo.pop(0)
            self.waiting[body] = to
            self.custody.sent[body] = self.node.name, to
            address = "/fanout/all" if to == "all" else f"/queue/{to}"
            delay_ms = self.random.choice([20, 300]) if to != "all" and self.random.random() < 0.2 else None
            self.say(Send(self.link.number, address, numbered(body), 2, body, self.ask(body), delay_ms=delay_ms))

    def receipted(self, what: object) -> None:
        assert isinstance(what, bytes)
        self.custody.receipted.add(what)
        self.waiting.pop(what, None)
        self.scheduler.soon(0.003, self.go_on)


class Worker(Client):
    """Takes from some queues of its node, thinks a while over each piece, and ACKs it; sometimes it gives one back."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, custody: Custody, name: bytes, queues: tuple[str, ...]
    ) -> None:
        self.custody = custody
        self.queues = queues
        self.is_careful = False
        self.think_s = 0.002
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        for queue in self.queues:
            mode = self.random.choice([CLIENT, CLIENT_INDIVIDUAL])
            prefetch = 20 if self.is_careful else self.random.choice([None, 1, 3])
            self.say(Subscribe(self.link.number, queue.encode(), f"/queue/{queue}", mode, prefetch))

    def got(self, deliver: Deliver) -> None:
        link = self.link
        self.scheduler.soon(self.think_s, lambda: self.answer(deliver) if self.link is link else None)

    def answer(self, deliver: Deliver) -> None:
        assert self.link is not None and deliver.subscription is not None
        number, queue, body = self.link.number, deliver.subscription.decode(), deliver.message.body
        if not self.is_careful and self.random.random() < 0.1:
            delay_ms = self.random.choice([None, None, 30, 300])
            receipt = self.ask((NACKED, queue, body))
            self.say(Nack(number, deliver.message_id, receipt=receipt, delay_ms=delay_ms))
        else:
            self.say(Ack(number, deliver.message_id, receipt=self.ask((ACKED, queue, body))))

    def receipted(self, what: object) -> None:
        assert isinstance(what, tuple)
        verb, queue, body = what
        if verb == NACKED:
            if queue in WORK:
                self.custody.nacked[body] += 1
        else:
            place = f"{self.node.name} {queue}" if queue in CHILDREN else ""
            self.custody.was_acked(f"{self.name!r} at {self.node.name}", place, body)


class Wanderer(Worker):
    """Takes what it can get, answers nothing, and goes to another node with empty hands: work follows it around."""

    def __init__(
        self, scheduler: Scheduler, nodes: list[SimNode], books: Books, custody: Custody, name: bytes, moves: int
    ) -> None:
        self.nodes = nodes
        self.moves = moves
        super().__init__(scheduler, scheduler.random.choice(nodes), books, custody, name, ("work",))
        self.think_s = 1.0
        self.is_careful = True
        scheduler.soon(0.15, self.move)

    def move(self) -> None:
        self.moves -= 1
        self.node = self.random.choice(self.nodes)
        if self.moves < 0:
            self.queues = ()
        else:
            self.scheduler.soon(0.15, self.move)
        if self.link is not None:
            self.link.cut()


class Publisher(Client):
    """Says each of its words once, to topics; nobody promises it more than that they come not twice, and in order
    where they were said on one connection: `life` counts these.
    """

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, topics: list[str]) -> None:
        self.todo = topics
        self.number = 0
        self.life = 0
        self.published: dict[bytes, str] = {}
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        self.life += 1
        self.go_on()

    def go_on(self) -> None:
        if self.link is not None and self.todo:
            self.publish(self.todo.pop(0))
            self.scheduler.soon(PUBLISHED_EVERY_S, self.go_on)

    def publish(self, topic: str) -> bytes:
        self.number += 1
        body = b"%b:%d:%d:%b" % (self.name, self.life, self.number, topic.encode())
        self.published[body] = topic
        if self.link is not None:
            self.say(Send(self.link.number, f"/topic/{topic}", numbered(body), 2, body))
        return body


@dataclass
class Heard:
    """What came for one SUBSCRIBE. It is judged as it comes."""

    bodies: dict[bytes, None] = field(default_factory=dict)
    last: dict[tuple[bytes, bytes], int] = field(default_factory=dict)  # of a publisher's connection


class Subscriber(Client):
    """Listens to one pattern, which may change. node_of: where the publisher of that name is."""

    def __init__(
        self,
        scheduler: Scheduler,
        node: SimNode,
        books: Books,
        name: bytes,
        pattern: str,
        node_of: Callable[[bytes], str],
    ) -> None:
        self.pattern: str | None = pattern
        self.node_of = node_of
        self.subscription = 0
        self.heard = Heard()
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        self.heard = Heard()
        self.subscription += 1
        if self.pattern is not None:
            self.say(Subscribe(self.link.number, b"%d" % self.subscription, f"/topic/{self.pattern}"))

    def change(self, pattern: str | None) -> None:
        """None: it listens to nothing."""
        if self.link is not None and self.pattern is not None:
            self.say(Unsubscribe(self.link.number, b"%d" % self.subscription))
        self.pattern = pattern
        if self.link is not None:
            self.connected()

    def wants(self, topic: str, origin: str) -> bool:
        """Whether a publish there is for it."""
        if self.pattern is None or not matches(self.pattern, topic):
            return False
        return origin == self.node.name or matches(CLUSTER_TOPICS, topic)

    def got(self, deliver: Deliver) -> None:
        body = deliver.message.body
        if deliver.subscription != b"%d" % self.subscription or deliver.message.destination == PEERS_TOPIC:
            return  # on its way when the pattern changed; or the node's own news, for whoever listens to everything
        publisher, life, number, topic = body.split(b":")
        sent_by = publisher, life
        mistakes, where = self.books.mistakes, f"{self.name!r} at {self.node.name} ({self.pattern})"
        self.books.deliveries += 1
        if numbered(body) not in deliver.message.headers or deliver.message.destination != f"/topic/{topic.decode()}":
            mistakes.append(f"altered: {body!r} for {where}")
        if body in self.heard.bodies:
            mistakes.append(f"topic twice: {body!r} for {where}")
        elif int(number) <= self.heard.last.get(sent_by, 0):
            mistakes.append(f"topic order: {body!r} came after {self.heard.last[sent_by]} for {where}")
        if not self.wants(topic.decode(), self.node_of(publisher)):
            mistakes.append(f"topic unwanted: {body!r} came to {where}")
        self.heard.bodies[body] = None
        self.heard.last[sent_by] = max(int(number), self.heard.last.get(sent_by, 0))


class Keeper(Client):
    """Has a durable subscription to one pattern, and comes and goes; what is published meanwhile is kept for it."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, pattern: str) -> None:
        self.pattern = pattern
        self.is_steady = False
        self.is_away = False
        self.is_known = False  # that it is there: its SUBSCRIBE was receipted
        self.ids: dict[bytes, bytes] = {}  # body -> message id
        super().__init__(scheduler, node, books, name)

    @property
    def queue(self) -> str:
        """As the node calls it."""
        return f"$durable/topic/{self.pattern}/{self.name.decode()}"

    def wants(self, topic: str, origin: str) -> bool:
        """Whether a publish there is for it."""
        return matches(self.pattern, topic) and (origin == self.node.name or matches(CLUSTER_TOPICS, topic))

    def has(self, body: bytes) -> bool:
        """Whether it came, or waits for it on the disk."""
        platter = self.node.disk.platter
        waiting = {m.body for (queue, _), m in platter.messages.items() if platter.queues[queue][0] == self.queue}
        return body in self.ids or body in waiting

    def connect(self) -> None:
        if self.is_away:
            self.scheduler.soon(0.05, self.connect)
        else:
            super().connect()

    def connected(self) -> None:
        assert self.link is not None
        receipt = self.ask(("begun",))
        say = Subscribe(
            self.link.number, self.name, f"/topic/{self.pattern}", CLIENT_INDIVIDUAL, 5, receipt=receipt, durable=True
        )
        self.say(say)
        if not self.is_steady:
            self.scheduler.soon(0.2, self.leave)

    def leave(self) -> None:
        if self.link is not None and not self.is_steady:
            self.link.cut()

    def got(self, deliver: Deliver) -> None:
        body, where = deliver.message.body, f"{self.name!r} at {self.node.name} (durable, {self.pattern})"
        if deliver.message.destination == PEERS_TOPIC:
            self.books.mistakes.append(f"news: {where} was told {body!r}")
        elif numbered(body) not in deliver.message.headers:
            self.books.mistakes.append(f"altered: {body!r} for {where}")
        if self.ids.setdefault(body, deliver.message_id) != deliver.message_id:
            self.books.mistakes.append(f"topic twice: {body!r} for {where}")
        self.books.deliveries += 1
        link = self.link
        self.scheduler.soon(0.002, lambda: self.answer(deliver) if self.link is link else None)

    def answer(self, deliver: Deliver) -> None:
        assert self.link is not None
        self.say(Ack(self.link.number, deliver.message_id, receipt=self.ask(("acked",))))

    def receipted(self, what: object) -> None:
        self.is_known = True
