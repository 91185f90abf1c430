"""T21: logs and the groups that read them, on simulated time, with crashes (tests/sim/log_history.py).

Proves, for the core: what was receipted is in the log, in order, in the partition of its key; an offset is the same
record for ever; no reader is given a gap, or anything behind the end that it asked for; what a group has acked with
receipt does not come to it again, and a partition has one reader of a group at a time; and retention takes nothing too
early. Segments are a few records long, and partitions change hands all the time.

It cannot see LMDB (tests/store, T1 and T2 have logs too), sockets or damage; nor positions that an operator sets.
"""

import time

from tests.campaigns.campaign import Campaign, Run
from tests.sim.log_history import LogHistory


def simulate(run: Run) -> None:
    read = boots = 0
    began_s = time.monotonic()
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        history = LogHistory(seed)
        for mistake in history.books.mistakes:
            run.violation(f"LogHistory({seed}): {mistake}")
        read += history.logs.read
        boots += history.node.boots
        run.case()
    run.figures |= {
        "records read": read,
        "starts": boots,
        "histories a second": round(run.done / (time.monotonic() - began_s)),
    }
    enough = read > 20 * run.done and boots > 1.5 * run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T21",
        name="groups",
        title="random histories of logs: appends, groups, readers and retention, with crashes, on simulated time",
        unit="histories",
        run=simulate,
        cases=(300, 200_000, 2_000_000),
        mutants=(
            "position-not-written",
            "offset-used-again",
            "log-read-before-commit",
            "partition-shared-while-unacked",
            "retention-takes-too-much",
            "position-before-ack-is-synced",
            "acked-record-comes-again",
            "receipt-before-commit",
        ),
        mutant_cases=3000,
        quick_mutants=6,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
