"""Random histories of clients, disks, crashes and cut connections: what was receipted comes, what was acked does not.

RADIATOR_SEEDS=20000 runs more of them, RADIATOR_SEED=17 one alone.
"""

import os

import pytest

from radiator.limits import Limits
from radiator.settings import Declarations, QueueSettings
from tests.broker.conftest import SMALL, shrink
from tests.sim.books import Books, Client, Consumer, Job, Producer
from tests.sim.simulation import Scheduler, SimNode

QUEUES = {
    "a": QueueSettings(),
    "b": QueueSettings(dead_letter="dead", max_redeliveries=2),
    "dead": QueueSettings(),
    "once": QueueSettings(dedup_window_s=10_000),
    "tight": QueueSettings(max_messages=4),
    "x": QueueSettings(),
    "y": QueueSettings(),
    "timeout": QueueSettings(ack_timeout_s=1),
}
FANOUTS = {"f": ("x", "y")}
QUEUES_OF = {f"/queue/{name}": (name,) for name in QUEUES} | {"/fanout/f": ("x", "y")}
JOBS: list[Job] = [
    ("/queue/a",),
    ("/queue/a",),
    ("/queue/b",),
    ("/queue/once",),
    ("/queue/tight",),
    ("/queue/timeout",),
    ("/fanout/f",),
    ("/queue/x", "/queue/y"),
]
SEEDS = range(int(os.environ.get("RADIATOR_SEEDS", "300")))
FAULTS_S = 1.5
END_S = 60.0


class Outcome:
    def __init__(self, seed: int) -> None:
        self.scheduler = scheduler = Scheduler(seed)
        random = scheduler.random
        self.books = books = Books()
        declarations = Declarations(queues=QUEUES, fanouts=FANOUTS)
        self.node = node = SimNode(scheduler, "one", declarations, Limits(block_timeout_s=5, outbox_max_bytes=4000))
        node.on_deliver = books.handed
        node.commit_s = random.choice([0.0005, 0.003, 0.02])
        self.producers = [
            Producer(scheduler, node, books, b"p%d" % n, [random.choice(JOBS) for _ in range(random.randrange(5, 25))])
            for n in range(3)
        ]
        self.consumers = [
            Consumer(scheduler, node, books, b"c%d" % n, random.sample(sorted(QUEUES), 4)) for n in range(3)
        ]
        clients: list[Client] = [*self.producers, *self.consumers]
        for _ in range(random.randrange(4)):
            way = random.choice([node.crash, node.crash, node.stop])
            scheduler.after(random.uniform(0, FAULTS_S), lambda way=way: way() if node.is_up else None)  # type: ignore[misc]
        for _ in range(random.randrange(6)):
            client = random.choice(clients)
            scheduler.after(
                random.uniform(0, FAULTS_S),
                lambda client=client: client.link.cut() if client.link is not None else None,  # type: ignore[misc]
            )
        scheduler.run(FAULTS_S)
        # from here on no faults: whoever is left must be able to finish
        for consumer in self.consumers:
            consumer.is_careful = True
        Consumer(scheduler, node, books, b"rest", sorted(QUEUES)).is_careful = True
        while scheduler.now_s < END_S and not self.is_done:
            scheduler.run(scheduler.now_s + 1)
        self.left = {name: ledger.stored for name, ledger in node.disk.platter.queues.values()}
        for producer in self.producers:
            if not producer.is_done:
                books.mistakes.append(f"stuck: {producer.name!r} has {len(producer.waiting)} without receipt")
        # a dead letter is a delivery of its body, in another queue
        for (queue, body), ids in [*books.came.items()]:
            if queue == "dead":
                books.came["b", body] |= ids
        books.judge(QUEUES_OF, self.left)

    @property
    def is_done(self) -> bool:
        stored = sum(ledger.stored for _, ledger in self.node.disk.platter.queues.values())
        return all(producer.is_done for producer in self.producers) and stored == 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL | {"BATCH_BYTES": 1500})


@pytest.mark.durability("D3")
def test_unacked_means_found(small: None) -> None:
    one = os.environ.get("RADIATOR_SEED")
    deliveries = redeliveries = boots = 0
    for seed in SEEDS if one is None else [int(one)]:
        outcome = Outcome(seed)
        assert outcome.books.mistakes == [], f"RADIATOR_SEED={seed}"
        deliveries += outcome.books.deliveries
        redeliveries += outcome.books.redeliveries
        boots += outcome.node.boots
    if one is None:
        assert deliveries > 20 * len(SEEDS) and redeliveries > 2 * len(SEEDS) and boots > 2 * len(SEEDS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_same_seed_gives_the_same_run(small: None, seed: int) -> None:
    first, second, other = Outcome(seed), Outcome(seed), Outcome(seed + 1000)
    assert first.scheduler.hash == second.scheduler.hash != other.scheduler.hash
    assert first.scheduler.steps == second.scheduler.steps
