"""T9: the core against a reference model of lists and dicts (tests/sim/model.py), over random histories of commands.

Every delivery, receipt and byte on the disk is judged, after each step. Hypothesis draws the steps, from seeds of this
run. It sees what the model says, one event at a time: tests/campaigns/simulation.py has many at once.

A difference is told with all its steps as they were drawn: to shorten them can take hours. With RADIATOR_SHRINK=1, and
the same seed and cases, `python -m tests.campaigns.one` does that, without a limit.
"""

import os
import traceback

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.campaigns.campaign import Campaign, Run
from tests.core.test_model import Machine, small_bounds

STEPS = {"quick": 50, "nightly": 80, "release": 80}
AT_ONCE = 50  # histories of one seed
PHASES = [Phase.generate, Phase.shrink] if os.environ.get("RADIATOR_SHRINK") else [Phase.generate]


def compare(run: Run) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small_bounds(patch)
        while not run.is_over:
            compare_some(run, min(AT_ONCE, run.cases - run.done), run.chance.randrange(2**32))


def compare_some(run: Run, examples: int, number: int) -> None:
    begun = 0

    class Counted(Machine):
        def __init__(self) -> None:
            nonlocal begun
            begun += 1
            super().__init__()

    try:
        run_state_machine_as_test(
            seed(number)(Counted),
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS[run.level],
                phases=PHASES,
                suppress_health_check=list(HealthCheck),
                database=None,
                deadline=None,
                derandomize=False,
                report_multiple_bugs=False,
            ),
        )
    except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
        # the traceback ends with the notes of hypothesis: the steps
        run.violation(f"The core and its model differ (seed {number} of hypothesis): {traceback.format_exc()}")
    run.case(min(begun, examples))


CAMPAIGNS = (
    Campaign(
        number="T9",
        name="model",
        title="random commands to the core and to a model of it, compared after each step",
        unit="histories",
        run=compare,
        cases=(130, 20_000, 200_000),
        mutants=(
            "returned-in-wrong-order",
            "returned-behind-the-others",
            "drop-oldest-drops-newest",
            "ack-client-means-only-the-last",
            "memory-part-before-sync",
            "two-in-the-shared-window",
            "auto-acked-before-written",
            "woken-behind-the-others",
            "expires-while-in-use",
            "immediate-judged-too-late",
            "durable-receipt-does-not-wait",
            "receipt-before-commit",
            "ack-not-committed",
            "lost-on-disconnect",
            "fanout-in-two-batches",
            "deliverable-before-commit",
            "remove-not-written",
            "redelivery-count-not-written",
            "max-messages-off-by-one",
            "expired-delivered",
            "load-skips-a-message",
            "new-overtakes-what-is-beyond",
            "transaction-sends-before-commit",
            "commit-receipt-does-not-wait",
            "window-not-opened-by-ack",
            "dedup-forgotten",
            "dedup-not-written",
            "max-redeliveries-off-by-one",
            "dead-letter-not-removed",
            "dead-letter-by-exchange-not-removed",
            "dead-letter-goes-round",
            "dead-letter-not-put",
            "clean-stop-does-not-mark",
            "abort-keeps-its-acks",
            "woken-before-due",
            "nack-delay-in-two-batches",
            "redelivery-delay-ignored",
            "binding-not-written",
        ),
        mutant_cases=300,
        quick_mutants=11,
        limit_s=(180, 2 * 3600, 12 * 3600),
    ),
)
