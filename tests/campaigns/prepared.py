"""T23: prepared transactions and checkouts, on simulated time, with crashes (tests/sim/prepared_history.py).

Proves, for the core: each message of a version comes to each of its destinations once, whoever commits how often, and
whatever crashes in between; what is committed is applied; what nobody commits is let go of and comes nowhere; and a
number of a checkout is the same message until it is acked, each message having one. The journal is on in half of them.

It cannot see LMDB or sockets (T1 and T2 have both in their scenario), nor what Spark makes of it
(tests/integrations/spark/crashes).
"""

import time

from tests.campaigns.campaign import Campaign, Run
from tests.sim.prepared_history import PreparedHistory


def simulate(run: Run) -> None:
    versions = taken = boots = 0
    began_s = time.monotonic()
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        history = PreparedHistory(seed)
        for mistake in history.books.mistakes:
            run.violation(f"StagingHistory({seed}): {mistake}")
        versions += sum(driver.version - 1 for driver in history.drivers)
        taken += len(history.engine.found)
        boots += history.node.boots
        run.case()
    run.figures |= {
        "versions committed": versions,
        "messages checked out": taken,
        "starts": boots,
        "histories a second": round(run.done / (time.monotonic() - began_s)),
    }
    enough = versions > 4 * run.done and taken > 4 * run.done and boots > 1.5 * run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T23",
        name="prepared",
        title="random histories of prepared transactions and checkouts, with crashes, on simulated time",
        unit="histories",
        run=simulate,
        cases=(200, 100_000, 1_000_000),
        mutants=(
            "removed-in-another-batch",
            "app-not-checked",
            "app-not-written",
            "checkout-without-remove",
            "prepared-not-written",
            "committed-forgotten-at-a-restart",
        ),
        mutant_cases=2000,
        quick_mutants=6,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
