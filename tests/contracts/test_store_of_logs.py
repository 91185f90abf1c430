"""The Store contract on logs and prepared transactions: random histories on LMDB and on the simulated disk agree."""

from dataclasses import astuple, replace
from pathlib import Path
from random import Random

import pytest

from radiator.model.journal import JournalEvent
from radiator.model.message import position_of
from radiator.model.reads import ReadEvents, ReadLog, ReadPrepared
from radiator.model.recovery import Recovery
from radiator.storage.check import check
from radiator.storage.contract import Store
from tests.contracts.test_store import lmdb_again, sim_again
from tests.storage.log_batches import LogBatches


def of_logs(recovery: Recovery) -> list[object]:
    for log in recovery.logs:  # nobody promises an order
        log.positions.sort(key=astuple)
    return [*recovery.logs, *recovery.transactions, *recovery.apps, recovery.next_queue]


def assert_same_answers(real: Store, simulated: Store, history: LogBatches, chance: Random) -> None:
    for log, partition in [*history.open, (9, 0)]:
        row = history.open.get((log, partition))
        end = row.first + row.count if row else 0
        for offset in {0, end, end + 1, chance.randrange(end + 1), chance.randrange(end + 1)}:
            read_request = ReadLog(1, log, partition, offset, chance.randint(1, 400), chance.randrange(20_000))
            expected = simulated.load_log(read_request)
            for record in expected.records:  # the two stores have two ids
                if record.message and record.message.destination == "/log/journal":
                    body = record.message.body.replace(
                        simulated.recovery.store_id.encode(), real.recovery.store_id.encode()
                    )
                    record.message = replace(record.message, body=body)
            assert real.load_log(read_request) == expected, read_request
    assert_same_events(real, simulated, history, chance)
    for transaction in range(1, history.next_transaction + 1):
        for first in (0, 3):
            asked = ReadPrepared(1, transaction, first, chance.randint(1, 20), chance.randrange(300))
            assert real.load_prepared(asked) == simulated.load_prepared(asked), asked


def assert_same_events(real: Store, simulated: Store, history: LogBatches, chance: Random) -> None:
    """Of a search as a whole: its slices may end elsewhere."""
    row = history.open.get((history.journal, 0))
    end = row.first + row.count if row else 0
    first = min([one.first for one in history.full.get((history.journal, 0), [])] + [row.first if row else 0])
    for count in (0, 1, 5, 200):
        positions = frozenset(position_of(1, chance.randrange(end + 2)) for _ in range(count))
        for trace_id in ("", f"{chance.randrange(end + 1) + 1:032x}"):
            begin = chance.randint(first, end)
            asked = ReadEvents(1, history.journal, begin, chance.randint(begin, end), positions, trace_id, 0)
            found = [found_by(store, asked, chance) for store in (real, simulated)]
            assert found[0] == found[1], asked
    for number in range(8):
        asked = ReadEvents(1, history.journal, first, end, frozenset(), "", 0, f"task {number}")
        found = [found_by(store, asked, chance) for store in (real, simulated)]
        assert found[0] == found[1] and all(row.correlation_id == asked.correlation_id for _, row in found[0]), asked


def found_by(store: Store, asked: ReadEvents, chance: Random) -> list[tuple[int, JournalEvent]]:
    found: list[tuple[int, JournalEvent]] = []
    while asked.offset < asked.end:
        answer = store.load_events(replace(asked, work_max=chance.choice((0, 100_000, 1 << 40))))
        assert answer.request == asked.request and asked.offset < answer.next <= asked.end
        assert all(asked.offset <= offset < answer.next for offset, _ in answer.events)
        found += answer.events
        asked = replace(asked, offset=answer.next)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_both_stores_give_the_same_of_any_history(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    history = LogBatches(chance)
    again = lmdb_again(tmp_path), sim_again(tmp_path)
    real, simulated = (open_it(None) for open_it in again)
    for _ in range(60):
        batch = history.batch()
        for store in (real, simulated):
            store.commit(batch)
        if chance.random() < 0.2:
            assert_same_answers(real, simulated, history, chance)
        if chance.random() < 0.1:
            real, simulated = again[0](real), again[1](simulated)
            assert of_logs(real.recovery) == of_logs(simulated.recovery)
    assert_same_answers(real, simulated, history, chance)
    real.close()
    assert check(tmp_path / "data").findings == []
