"""T10c: 1 to 5 nodes, their cables, disks, clocks and clients on one seeded scheduler (tests/sim/mesh.py).

Proves, for the core: a message that was receipted by one node comes to somebody, whichever node it is on by then; it
is never held by two, so never processed twice by a hand-over; a fanout's copies come to each node once; a topic's
message comes once, in order, to everybody who wants it, and to nobody else once all is quiet, and is kept for durable
subscriptions on every node; nothing is woken before its time; and all is drained.
Every hundredth history is made twice, and must be the same.

It cannot see sessions, sockets, threads and LMDB, nor how evenly work is shared, nor how long it takes.
"""

import time

from tests.campaigns.campaign import Campaign, Run
from tests.sim.mesh import Mesh

TWICE_EVERY = 100


def simulate(run: Run) -> None:
    deliveries = handed_over = delayed = kept = words = boots = 0
    began_s = time.monotonic()
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        is_twice = run.done % TWICE_EVERY == 0
        mesh = Mesh(seed, is_traced=is_twice)
        for mistake in mesh.mistakes:
            run.violation(f"RADIATOR_SEED={seed} python -m pytest tests/sim/test_mesh.py\n{mistake}")
        if is_twice and Mesh(seed, is_traced=True).scheduler.hash != mesh.scheduler.hash:
            run.violation(f"The history of the seed {seed} is another one when it is made again.")
        deliveries += mesh.custody.deliveries + mesh.books.deliveries
        handed_over += mesh.custody.handed_over
        delayed += mesh.custody.delayed
        kept += sum(len(keeper.ids) for keeper in mesh.keepers)
        words += mesh.words
        boots += sum(node.boots for node in mesh.nodes.values())
        run.case()
    run.figures |= {
        "deliveries": deliveries,
        "of messages handed over": handed_over,
        "delayed": delayed,
        "kept for durable subscriptions": kept,
        "words on links": words,
        "starts": boots,
        "histories a second": round(run.done / (time.monotonic() - began_s)),
    }
    # a simulation in which nothing is handed over would prove nothing
    enough = deliveries > 10 * run.done and handed_over > run.done and boots > 3 * run.done
    enough = enough and delayed > run.done / 2 and kept > run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T10c",
        name="cluster-simulation",
        title="random histories of 1 to 5 nodes, their links and clients, on simulated time",
        unit="histories",
        run=simulate,
        cases=(1200, 100_000, 1_000_000),
        mutants=(
            "outbox-entry-removed-when-sent",
            "delete-before-taken",
            "doubt-not-committed-before-transfer",
            "redeliveries-not-handed-over",
            "welcome-ignored",
            "stale-interest",
            "durable-interest-forgotten-at-a-restart",
            "published-elsewhere-not-kept",
            "durable-gets-live-and-copy",
            "durable-copy-not-put",
            "edge-of-one-end-counts",
            "give-back-on-disconnect",
            "no-epoch-fence",
            "interest-not-withdrawn",
            "taken-before-commit",
            "doubtful-loaded-as-ready",
            "fanout-outbox-in-another-batch",
            "item-and-last-in-two-commits",
            "no-topic-dedup",
        ),
        mutant_cases=2000,
        quick_mutants=14,
        limit_s=(240, 2 * 3600, 8 * 3600),
    ),
)
