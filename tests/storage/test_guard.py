"""The guard knows what each batch leaves, from the start's findings and the batches since, and asks no store."""

import pytest

from radiator.model.message import position_of
from radiator.model.recovery import Recovery, StoredDoubt, StoredLog, StoredQueue
from radiator.model.writes import (
    Append,
    Bind,
    Declare,
    DeclareLog,
    Doubt,
    DropLog,
    KeepPosition,
    KeepSettings,
    Ledger,
    Remove,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    Write,
)
from radiator.storage.guard import Guard
from tests.storage.scribe import record_of

PLACE = position_of(1, 1)


@pytest.fixture
def guard() -> Guard:
    """A queue 1 with a message in doubt, and the logs 2 and 3, of which 3 is deleted."""
    found = Recovery("id", 2, 4, was_clean=True, queues=[StoredQueue(1, "q", Ledger())])
    found.logs = [StoredLog(2, "l"), StoredLog(3, "")]
    found.doubts = [StoredDoubt("b", 7, 1, PLACE, 3, False)]
    return Guard(found)


@pytest.mark.parametrize(
    "batch",
    [
        [SaveLedger(1, Ledger()), KeepSettings(1, "{}"), KeepSettings(2, "{}")],
        [SaveLedger(4, Ledger()), Declare(4, "r"), Bind("", "a", 4), Declare(9, "s")],
        [Append(4, 0, 0, record_of(1)), DeclareLog(4, "m"), KeepPosition(4, "g", [0]), DropLog(4)],
        [Settle("b", 7), Remove(1, PLACE), Retire(1, "q", 0)],
        [Settle("b", 7), Doubt("b", 7, 1, PLACE)],
        [Doubt("b", 8, 1, PLACE + 1), Remove(1, PLACE + 2), StoppedClean()],
    ],
)
def test_what_fits_is_let_through(guard: Guard, batch: list[Write]) -> None:
    guard.judge(batch)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([SaveLedger(4, Ledger())], "queues .4."),
        ([SaveLedger(2, Ledger())], "queues .2."),
        ([Declare(3, "r")], "used before"),
        ([Declare(4, "r"), DeclareLog(4, "l")], "used before"),
        ([Retire(2, "l", 0)], "not there"),
        ([Retire(4, "r", 0)], "not there"),
        ([DropLog(3)], "not there"),
        ([Append(3, 0, 0, record_of(1))], "not there"),
        ([KeepPosition(3, "g", [0])], "not there"),
        ([DropLog(2), KeepSettings(2, "{}")], "not there"),
        ([Bind("", "a", 4), Declare(4, "r")], "not there"),
        ([Remove(1, PLACE)], "in doubt"),
        ([Retire(1, "q", 0)], "in doubt"),
        ([Doubt("b", 7, 1, PLACE + 1)], "in doubt already"),
        ([Doubt("c", 1, 1, PLACE)], "in doubt twice"),
        ([Settle("c", 7)], "not in doubt"),
    ],
)
def test_what_contradicts_is_a_bug(guard: Guard, batch: list[Write], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        guard.judge(batch)


def test_each_batch_is_judged_by_those_before_it(guard: Guard) -> None:
    guard.judge([Declare(4, "r"), Doubt("b", 8, 1, PLACE + 1)])
    guard.judge([SaveLedger(4, Ledger()), Settle("b", 8), Retire(4, "r", 0)])
    with pytest.raises(AssertionError, match="queues .4."):
        guard.judge([SaveLedger(4, Ledger())])
    guard.judge([StoppedClean()])
    with pytest.raises(AssertionError, match="after a clean stop"):
        guard.judge([])
