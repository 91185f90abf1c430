"""Random histories of nodes that change their disks: every job is done once, on whichever disk it was in doubt.

RADIATOR_SEEDS=5000 runs more of them, RADIATOR_SEED=17 one alone.
"""

import os
from collections import Counter
from itertools import combinations, product
from random import Random

import pytest

from radiator.model.replies import Deliver
from tests.core.cluster.nodes import Nodes
from tests.core.words import ack, send, subscribe
from tests.sim.disk import Platter

SEEDS = range(int(os.environ.get("RADIATOR_SEEDS", "8")))
STEPS = 120
DISKS = 2
ROUNDS = 4  # of all disks of all nodes together, after which nothing may be left
DEEDS = (*["send"] * 5, *["consume"] * 3, *["answer"] * 4, *["words"] * 25, "wait", "leave", "link", "link", "disk")


class History:
    """done: how often each job was acked. No job is ever released by an operator."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.letters = self.random.choice(["ab", "ab", "abc"])
        self.nodes = Nodes(self.letters)
        self.disks = {
            name: [self.nodes[name].disk.platter, *(Platter(store_id=name * 8 + f"{n:08}") for n in range(1, DISKS))]
            for name in self.letters
        }
        self.on = dict.fromkeys(self.letters, 0)
        self.clients = dict.fromkeys(self.letters, 0)
        self.held: dict[str, list[Deliver]] = {}
        self.sent: list[bytes] = []
        self.done: Counter[bytes] = Counter()
        for name in self.letters:
            self.connect(name)

    def connect(self, name: str) -> None:
        self.clients[name] += 1
        self.held[name] = []
        self.nodes[name].open(self.clients[name])

    def link_all(self) -> None:
        for pair in combinations(self.letters, 2):
            self.nodes.link(*pair)

    def put_in(self, name: str, disk: int) -> None:
        """It is killed, and starts on that disk of its own."""
        nodes = self.nodes
        self.disks[name][self.on[name]] = nodes[name].disk.platter
        self.on[name] = disk
        for other in self.letters:
            if other != name:
                nodes.cut(name, other)
        nodes.start(name, self.disks[name][disk])
        self.connect(name)

    def consume(self, name: str, count: int) -> None:
        which = b"%d" % self.random.randrange(10**9)
        self.nodes[name].say(subscribe(self.clients[name], "work", prefetch_count=count, name=which))

    def answer(self, name: str, share: float) -> None:
        node, client = self.nodes[name], self.clients[name]
        self.held[name] += node.messages(client)
        for message in [message for message in self.held[name] if self.random.random() < share]:
            self.held[name].remove(message)
            self.done[message.message.body] += 1
            node.say(ack(message))

    def step(self) -> None:
        random, nodes = self.random, self.nodes
        name = random.choice(self.letters)
        match random.choice(DEEDS):
            case "send":
                jobs = [b"%d" % (len(self.sent) + n) for n in range(random.choice([1, 1, 8]))]
                self.sent += jobs
                nodes[name].say(*[send(self.clients[name], "work", body) for body in jobs])
            case "consume":
                self.consume(name, random.choice([1, 3, 9]))
            case "answer":
                self.answer(name, 0.7)
            case "words":
                nodes.step(random.choice(["", *self.letters]))
            case "wait":
                nodes[name].wait(random.choice([0.25, 1]))
            case "leave":
                nodes[name].close(self.clients[name])
                self.connect(name)
            case "link":
                one, other = random.sample(self.letters, 2)
                nodes.cut(one, other)
                nodes.link(one, other)
            case "disk":
                self.put_in(name, random.randrange(DISKS))
                self.link_all()

    def finish(self) -> None:
        """Every disk meets every other one, with consumers everywhere."""
        for disks in product(range(DISKS), repeat=len(self.letters)):
            for name, disk in zip(self.letters, disks, strict=True):
                self.put_in(name, disk)
            for _ in range(3):
                for pair in combinations(self.letters, 2):
                    self.nodes.cut(*pair)
                self.link_all()
                self.nodes.run()
            for name in self.letters:
                self.consume(name, 99)
            for _ in range(6):
                self.nodes.wait(0.5)
                for name in self.letters:
                    self.answer(name, 1)

    @property
    def left(self) -> int:
        for name in self.letters:
            self.disks[name][self.on[name]] = self.nodes[name].disk.platter
        return sum(len(platter.messages) for disks in self.disks.values() for platter in disks)


@pytest.mark.parametrize("seed", [int(os.environ["RADIATOR_SEED"])] if "RADIATOR_SEED" in os.environ else SEEDS)
def test_every_job_is_done_once_whatever_disks_its_nodes_run_on(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    for _ in range(ROUNDS):
        history.finish()
        if not history.left:
            break
    assert history.left == 0
    assert history.done == Counter(history.sent)
    notes = [note for node in history.nodes.at.values() for note in node.notes]
    assert [note.fields for note in notes if note.event in ("link_error", "stores_disagree")] == []
