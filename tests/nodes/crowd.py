"""Clients at every node, each a thread with a connection that comes again when lost; the books know what they say.

At each node one sends jobs, events and news; where there is a worker, it takes jobs; an auditor takes the node's copies
of events, and hears the news.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence

from tests.acceptance.wire import Frame, Gone, Wire
from tests.crash.books import body_of
from tests.nodes.books import Books
from tests.nodes.cluster import Node, Nodes

WORK, EVENTS, AUDIT = "/queue/work", "/fanout/events", "/queue/events.audit"
ALL_JOBS = "work"  # the place of jobs, in the books
TABLES = """\
[queue."work"]
scope = "cluster"
[queue."filler"]
[fanout."events"]
children = ["events.audit"]
scope = "cluster"
[queue."events.audit"]
[topic."news.#"]
scope = "cluster"
"""

UNRECEIPTED_MAX = 10
HEAR_S = 0.05
AGAIN_S = 0.05
END_OF_TALK = (Gone, OSError)  # a TimeoutError is one too


class Client(threading.Thread):
    """Talks until `stop`. is_lost: it has no connection, and the books know."""

    def __init__(self, role: str, node: Node, books: Books) -> None:
        super().__init__(daemon=True)
        self.name = f"{node.name}.{role}"
        self.node = node
        self.books = books
        self.stop = threading.Event()
        self.is_lost = threading.Event()
        self.is_lost.set()
        self.crash: BaseException | None = None
        self.connections = 0
        self.holder = ""

    def run(self) -> None:
        while not self.stop.is_set():
            if self.node.is_running:
                self.talk_once()
            self.stop.wait(AGAIN_S)

    def talk_once(self) -> None:
        self.connections += 1
        self.holder = f"{self.name}.{self.connections}"
        try:
            with Wire((self.node.host, self.node.port)) as wire:
                self.is_lost.clear()
                wire.connect()
                self.begin(wire)
                while not self.is_done():
                    self.step(wire)
        except END_OF_TALK:
            pass
        except BaseException as crash:  # noqa: BLE001 - told to whoever judges
            self.crash = crash
            self.stop.set()
        self.books.lost(self.holder)
        self.is_lost.set()

    def begin(self, wire: Wire) -> None: ...

    def is_done(self) -> bool:
        return self.stop.is_set()

    def step(self, wire: Wire) -> None:
        try:
            frame = wire.read_frame(HEAR_S)
        except TimeoutError:
            return
        if frame.command == "ERROR":  # a SEND had no room for too long
            raise Gone(frame["message"])
        self.hear(wire, frame)

    def hear(self, wire: Wire, frame: Frame) -> None: ...


class Producer(Client):
    """rate: how many a second, jobs for the most part."""

    def __init__(self, node: Node, books: Books, copies: Sequence[str], rate: float, seed: str) -> None:
        super().__init__("producer", node, books)
        self.copies = tuple(copies)
        self.rate = rate
        self.random = random.Random(f"{seed} {self.name}")
        self.count = 0
        self.unreceipted: set[str] = set()

    def begin(self, wire: Wire) -> None:
        self.unreceipted.clear()

    def is_done(self) -> bool:
        return self.stop.is_set() and not self.unreceipted

    def step(self, wire: Wire) -> None:
        if len(self.unreceipted) < UNRECEIPTED_MAX and not self.stop.is_set():
            self.send_one(wire)
            time.sleep(self.random.uniform(0, 2 / self.rate))
        if self.unreceipted:
            super().step(wire)

    def send_one(self, wire: Wire) -> None:
        kind = self.random.random()
        if kind > 0.9:
            wire.send_frame("SEND", {"destination": "/topic/news.today"}, f"{self.name} {self.count}".encode())
            self.count += 1
            return
        # the books cut the number off behind the last dot
        name = f"{self.name}.{self.count}"
        self.count += 1
        destination, places = (EVENTS, self.copies) if kind > 0.75 else (WORK, (ALL_JOBS,))
        self.books.sending(name, places)
        self.unreceipted.add(name)
        wire.send_frame("SEND", {"destination": destination, "receipt": name}, body_of(name))

    def hear(self, wire: Wire, frame: Frame) -> None:
        self.books.sent(frame["receipt-id"])
        self.unreceipted.discard(frame["receipt-id"])


class Consumer(Client):
    """Acks what it gets, with a receipt. news: hears them too."""

    def __init__(self, role: str, node: Node, books: Books, queue: str, place: str, news: bool = False) -> None:
        super().__init__(role, node, books)
        self.queue = queue
        self.place = place
        self.news = news
        self.work_s = 0.0

    def begin(self, wire: Wire) -> None:
        headers = {"id": "queue", "destination": self.queue, "ack": "client-individual", "prefetch-count": "10"}
        wire.send_frame("SUBSCRIBE", headers)
        if self.news:
            wire.send_frame("SUBSCRIBE", {"id": "news", "destination": "/topic/news.*"})

    def hear(self, wire: Wire, frame: Frame) -> None:
        if frame.command == "RECEIPT":
            self.books.is_acked(self.place, frame["receipt-id"])
        elif frame["subscription"] == "news":
            self.books.heard(self.holder, frame.body)
        else:
            name = self.books.delivered(self.place, frame.body, self.holder, "node-path" in frame)
            time.sleep(self.work_s)
            self.books.acking(self.place, name)
            wire.send_frame("ACK", {"id": frame["ack"], "receipt": name})


class Crowd:
    """workers: the nodes that have one."""

    def __init__(self, nodes: Nodes, books: Books, workers: Sequence[str], rate: float, seed: str) -> None:
        self.nodes = nodes
        self.books = books
        self.producers: list[Client] = [
            Producer(node, books, (node.name, *nodes.neighbours[node.name]), rate, seed) for node in nodes.all
        ]
        self.consumers: list[Client] = [Consumer("worker", nodes[name], books, WORK, ALL_JOBS) for name in workers]
        self.consumers += [Consumer("auditor", node, books, AUDIT, node.name, news=True) for node in nodes.all]

    def start(self) -> None:
        for client in (*self.consumers, *self.producers):
            client.start()

    def wait_until_lost(self, *names: str) -> None:
        """Every client of these nodes, which are killed, knows it; what they had heard before is in the books."""
        for client in (*self.consumers, *self.producers):
            if client.node.name in names and client.is_alive():
                assert client.is_lost.wait(10), f"{client.name} does not find out that its node is dead"

    def stop_sending(self) -> None:
        self._stop(self.producers)

    def stop(self) -> None:
        self._stop([*self.producers, *self.consumers])

    def _stop(self, clients: list[Client]) -> None:
        for client in clients:
            client.stop.set()
        for client in clients:
            if client.ident is not None:
                client.join(30)
            assert not client.is_alive(), f"{client.name} is stuck"
            if client.crash is not None:
                raise client.crash


def until(is_so: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it comes to be so within the time."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True
