"""Random histories of clients, disks, crashes and cut connections: what was receipted comes, what was acked does not.

RADIATOR_SEEDS=20000 runs more of them, RADIATOR_SEED=17 one alone. `scripts/prove simulation` runs many.
"""

import os

import pytest

from tests.sim.history import History

SEEDS = range(int(os.environ.get("RADIATOR_SEEDS", "300")))


@pytest.mark.durability("D3", "D40")
def test_unacked_means_found() -> None:
    one = os.environ.get("RADIATOR_SEED")
    deliveries = redeliveries = boots = leases = confirms = commits = 0
    for seed in SEEDS if one is None else [int(one)]:
        history = History(seed)
        assert history.books.mistakes == [], f"RADIATOR_SEED={seed}"
        deliveries += history.books.deliveries
        redeliveries += history.books.redeliveries
        boots += history.node.boots
        leases += len(history.tokens.given)
        confirms += sum(client.confirms for client in history.amqp_clients)
        commits += sum(client.commits for client in history.amqp_clients)
    if one is None:
        assert deliveries > 20 * len(SEEDS) and redeliveries > 2 * len(SEEDS) and boots > 2 * len(SEEDS)
        assert leases > len(SEEDS) and confirms > 3 * len(SEEDS) and commits > 2 * len(SEEDS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_same_seed_gives_the_same_run(seed: int) -> None:
    first, second, other = History(seed), History(seed), History(seed + 1000)
    assert first.scheduler.hash == second.scheduler.hash != other.scheduler.hash
    assert first.scheduler.steps == second.scheduler.steps
