"""Random histories of 1 to 5 linked nodes: what is handed over, copied or published arrives, once, and all is drained.

RADIATOR_SEEDS=20000 runs more of them, RADIATOR_SEED=17 one alone. `scripts/prove cluster-simulation` runs many.
"""

import os

import pytest

from tests.sim.mesh import Mesh

SEEDS = range(int(os.environ.get("RADIATOR_SEEDS", "100")))


def test_nothing_is_lost_or_doubled_between_nodes() -> None:
    one = os.environ.get("RADIATOR_SEED")
    handed_over = 0
    for seed in SEEDS if one is None else [int(one)]:
        mesh = Mesh(seed)
        assert mesh.mistakes == [], f"RADIATOR_SEED={seed}"
        handed_over += mesh.custody.handed_over
    assert one is not None or handed_over > len(SEEDS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_same_seed_gives_the_same_mesh(seed: int) -> None:
    first, second = Mesh(seed, is_traced=True), Mesh(seed, is_traced=True)
    assert first.scheduler.hash == second.scheduler.hash != Mesh(seed + 1000, is_traced=True).scheduler.hash
    assert first.scheduler.steps == second.scheduler.steps == Mesh(seed).scheduler.steps
