"""Random histories of logs, of prepared transactions and of checkouts, and of clients whose journal is on.

RADIATOR_SEEDS=20000 runs more of them, RADIATOR_SEED=17 one alone. `scripts/prove groups journal staging` run many.
"""

import os

import pytest

from radiator.model.journal import ACCEPTED, ACKED, DELIVERED, JournalEvent
from radiator.model.message import Message
from radiator.model.settings import JOURNAL
from radiator.model.writes import (
    AppendEvent,
    Declare,
    DeclareLog,
    KeepSegment,
    KeepSegments,
    Ledger,
    Put,
    Remove,
    SaveLedger,
    Write,
)
from tests.sim.disk import SimDisk
from tests.sim.history import History
from tests.sim.log_history import LogHistory
from tests.sim.prepared_history import PreparedHistory

ONE = os.environ.get("RADIATOR_SEED")
SEEDS = range(int(os.environ.get("RADIATOR_SEEDS", "60"))) if ONE is None else [int(ONE)]


def test_records_are_read_once_in_order_and_go_on_where_they_were_acked() -> None:
    read = boots = 0
    for seed in SEEDS:
        history = LogHistory(seed)
        assert history.books.mistakes == [], f"RADIATOR_SEED={seed}"
        read += history.logs.read
        boots += history.node.boots
    assert ONE is not None or (read > 20 * len(SEEDS) and boots > 1.5 * len(SEEDS))


def test_what_is_prepared_or_checked_out_comes_once() -> None:
    versions = taken = 0
    for seed in SEEDS:
        history = PreparedHistory(seed)
        assert history.books.mistakes == [], f"RADIATOR_SEED={seed}"
        versions += sum(driver.version - 1 for driver in history.drivers)
        taken += len(history.engine.found)
    assert ONE is not None or (versions > 4 * len(SEEDS) and taken > 4 * len(SEEDS))


def test_each_batch_tells_what_it_does() -> None:
    for seed in SEEDS:
        history = History(seed, has_journal=True)
        assert history.books.mistakes == [], f"RADIATOR_SEED={seed}"


# ---- the journal's judge sees what is wrong

POSITION = 1 << 64 | 1


def event_of(event: str, position: int = POSITION) -> JournalEvent:
    return JournalEvent(event, 1, "q", position, size=4)


def batch(events: list[JournalEvent], *writes: Write, offset: int = 0, ledger: Ledger | None = None) -> list[Write]:
    """These writes, the queue's books, and these events."""
    count = offset + len(events)
    return [
        *writes,
        *([AppendEvent(1, 0, offset, events)] if events else []),
        *([SaveLedger(2, ledger)] if ledger is not None else []),
        KeepSegments(1, [KeepSegment(1, 0, 0, 0, count, 32 * count, 1, 1)]),
    ]


@pytest.fixture
def disk() -> SimDisk:
    """One message is stored, and told of."""
    disk = SimDisk(has_journal=True)
    disk.commit([DeclareLog(1, JOURNAL), Declare(2, "q")])
    message = Message("/queue/q", b"", 2, b"body", 1)
    ledger = Ledger(accepted=1, accepted_bytes=4, stored=1, stored_bytes=4)
    disk.commit(batch([event_of(ACCEPTED), event_of(DELIVERED)], Put(2, POSITION, message), ledger=ledger))
    return disk


GONE = Ledger(accepted=1, accepted_bytes=4, acked=1, acked_bytes=4)


def test_what_is_right_is_right(disk: SimDisk) -> None:
    disk.commit(batch([event_of(ACKED)], Remove(2, POSITION), offset=2, ledger=GONE))
    SimDisk(disk.platter, has_journal=True)


@pytest.mark.parametrize(
    ("events", "writes", "ledger"),
    [
        ([], [Remove(2, POSITION)], GONE),
        ([event_of(ACKED)], [], None),
        ([event_of(ACKED), event_of(ACKED)], [Remove(2, POSITION)], GONE),
        ([event_of(ACKED)], [Remove(2, POSITION)], Ledger(accepted=1, accepted_bytes=4, purged=1, purged_bytes=4)),
        ([event_of(ACKED, POSITION + 1)], [Remove(2, POSITION)], GONE),
        ([event_of(ACCEPTED)], [], None),
        ([event_of(DELIVERED, POSITION + 1)], [], None),
    ],
)
def test_what_the_judge_refuses(
    disk: SimDisk, events: list[JournalEvent], writes: list[Write], ledger: Ledger | None
) -> None:
    with pytest.raises(AssertionError):
        disk.commit(batch(events, *writes, offset=2, ledger=ledger))


def test_a_journal_that_has_lost_an_event_is_refused_at_the_start(disk: SimDisk) -> None:
    disk.platter.records[1, 0].clear()
    disk.platter.segments[1, 0].clear()
    with pytest.raises(AssertionError, match="not told of"):
        SimDisk(disk.platter, has_journal=True)
