"""T22: the journal against the books (tests/sim/journal.py), with each batch that reaches the disk and at each start.

Histories of the simulation (clients, disk, network, clocks and crashes), of several nodes that hand messages over, and
of the model (purges, bounds, what comes and goes at run time) run with the journal on. Each batch must tell of exactly
what it does: an event for each message that is stored and for each that leaves, with the queue's ledger moved by the
same numbers and with the trace of each that is stored, none twice; and what is read back at a start must give exactly
the messages that are stored.

It cannot see LMDB, nor how events are packed there: tests/store, T1 and T2 do.
"""

import time
import traceback

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.campaigns.campaign import Campaign, Run
from tests.core.test_model import Machine, small_bounds
from tests.sim.history import History
from tests.sim.journal import events_of
from tests.sim.mesh import Mesh

OF_NODES = 5  # of so many histories one is of several nodes
OF_THE_MODEL = 12  # and two are of the model
STEPS = 50


class JournalMachine(Machine):
    has_journal = True


def hold_against_the_books(run: Run) -> None:
    events = 0
    began_s = time.monotonic()
    while not run.is_over:
        number = run.chance.randrange(10**12)
        is_of_nodes = run.done % OF_NODES == OF_NODES - 1
        history: History | Mesh = (Mesh if is_of_nodes else History)(number, has_journal=True)
        nodes = [history.node] if isinstance(history, History) else history.nodes.values()
        for mistake in history.books.mistakes:
            run.violation(f"{type(history).__name__}({number}, has_journal=True): {mistake}")
        events += sum(1 for node in nodes for _ in events_of(node.disk.platter))
        run.case()
        if run.done % OF_THE_MODEL == 0 and not run.is_over:
            drive_the_model(run, number % 2**32)
    run.figures |= {"events": events, "histories a second": round(run.done / (time.monotonic() - began_s))}
    assert run.is_hunt or events > 50 * run.done or run.done < 100, f"too little was told: {run.figures}"


def drive_the_model(run: Run, number: int) -> None:
    count = 2
    try:
        with pytest.MonkeyPatch.context() as patch:
            small_bounds(patch)
            run_state_machine_as_test(
                seed(number)(JournalMachine),
                settings=settings(
                    max_examples=count,
                    stateful_step_count=STEPS,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                    database=None,
                    deadline=None,
                    derandomize=False,
                    report_multiple_bugs=False,
                ),
            )
    except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
        run.violation(f"The model with the journal (seed {number} of hypothesis): {traceback.format_exc()}")
    run.case(count)


CAMPAIGNS = (
    Campaign(
        number="T22",
        name="journal",
        title="holds the journal against the books and the stored messages, batch by batch, in random histories",
        unit="histories",
        run=hold_against_the_books,
        cases=(120, 100_000, 1_000_000),
        mutants=(
            "told-in-the-next-batch",
            "end-not-told",
            "told-twice",
            "traceparent-not-told",
            "traceparent-of-any-kind-told",
            "correlation-id-not-told",
            "correlation-id-of-any-length-told",
            "purge-not-told",
            "dead-letter-not-put",
            "remove-not-written",
        ),
        mutant_cases=1000,
        quick_mutants=3,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
