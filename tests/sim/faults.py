"""What goes wrong in a history of one node: how slow and faulty its disk is, when it crashes, when connections end."""

from collections.abc import Callable, Sequence
from random import Random

from tests.sim.books import Client
from tests.sim.simulation import Scheduler, SimNode

FAULTS_S = 1.5  # the time in which it does


def draw_slowness(random: Random, node: SimNode) -> None:
    """Of its disk and network, and how often its disk fails."""
    node.commit_s = random.choice([0.0005, 0.003, 0.02, 0.1])
    node.stall_share = random.choice([0.0, 0.0, 0.05])
    node.load_s = random.choice([0.0005, 0.003, 0.05])
    node.write_s = random.choice([0.0005, 0.001, 0.03])
    node.load_fails_share = random.choice([0.0, 0.0, 0.02])


def draw_ends(scheduler: Scheduler, node: SimNode, clients: Sequence[Client], ends_max: int) -> None:
    """Of the node, so often at most, and of connections."""
    random = scheduler.random
    for _ in range(random.randrange(ends_max + 1)):
        way = random.choice([node.crash, node.crash, node.stop])
        during_the_faults(scheduler, lambda way=way: way() if node.is_up else None)  # type: ignore[misc]
    for _ in range(random.randrange(6)):
        client, found_out_s = random.choice(clients), random.choice([0.01, 0.01, 0.5])
        during_the_faults(scheduler, lambda c=client, s=found_out_s: c.link.cut(s) if c.link else None)  # type: ignore[misc]


def during_the_faults(scheduler: Scheduler, what: Callable[[], None]) -> None:
    """At some moment of that time."""
    scheduler.after(scheduler.random.uniform(0, FAULTS_S), what)


def end_the_faults(scheduler: Scheduler, node: SimNode) -> None:
    """That time passes: whoever is left then must be able to finish."""
    scheduler.run(FAULTS_S)
    node.stall_share = node.load_fails_share = 0.0
