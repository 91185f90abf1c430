"""A store opened read-only: what a check, a backup or a command reads of it."""

import os
import signal
import time
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import BLOCK_RECORDS
from radiator.model.message import position_of
from radiator.model.writes import SaveLedger
from radiator.storage.check import check
from radiator.storage.codec import blocks, events
from radiator.storage.codec.tables import MESSAGES
from radiator.storage.lmdb.reader import Reader
from tests.storage.broken_logs import break_entries, killed_copy, last_index
from tests.storage.journalist import Journalist, event_of, record
from tests.storage.scribe import DELAYED, Scribe, filled


def test_reader_gives_logs_and_their_blocks(log: Journalist) -> None:
    for count in (2, 3, 2):
        log.append(count)
    log.append(1, partition=1)
    recovered = log.again().store
    recovered.close()
    with Reader(log.path) as reader, reader.snapshot() as snapshot:
        assert snapshot.store_id() == recovered.recovery.store_id
        assert snapshot.logs() == recovered.recovery.logs
        for offset, firsts in ((0, [0, 2, 5]), (1, [0, 2, 5]), (2, [2, 5]), (4, [2, 5]), (5, [5]), (6, [5]), (9, [5])):
            assert [first for first, _, _ in snapshot.blocks(1, 0, offset)] == firsts, offset
        assert [blocks.count_of(value) for _, _, value in snapshot.blocks(1, 0)] == [2, 3, 2]
        [(first, key, value)] = snapshot.blocks(1, 1, 5)
        assert (first, blocks.records_in(key, value)) == (0, [record(0)])
        assert [*snapshot.blocks(1, 2)] == [*snapshot.blocks(0, 0)] == [*snapshot.blocks(2, 0, 9)] == []


def test_reader_finds_a_position_in_a_block_without_decoding_it(tmp_path: Path) -> None:
    journal = Journalist(tmp_path / "data", name="journal")
    journal.add(3)
    journal.add(BLOCK_RECORDS + 5)
    journal.store.close()
    sought = position_of(3, 4).to_bytes(events.POSITION_BYTES, "big")
    with Reader(journal.path) as reader, reader.snapshot() as snapshot:
        [(first, key, value)] = [row for row in snapshot.blocks(1, 0) if sought in row[2]]
        assert blocks.events_in(key, value)[4 - first] == event_of(4)


def test_reader_gives_what_is_stored_in_queues(tmp_path: Path) -> None:
    messages, names = filled(tmp_path / "data")
    with Reader(tmp_path / "data") as reader, reader.snapshot() as snapshot:
        stored = [*snapshot.stored()]
        assert len(stored) == len(messages) + DELAYED
        assert {*messages} < {*stored}
        assert [*snapshot.queues().values()] == names[:2]


@pytest.mark.durability("D38")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_snapshot_has_what_the_tables_have_not_yet(tmp_path: Path, is_killed: bool) -> None:
    """Beside a running broker, and after a kill."""

    def write() -> None:
        scribe = Scribe(tmp_path / "data")
        queue = scribe.declare("orders")
        puts = [scribe.put(queue, b"body %d" % number) for number in range(3)]
        scribe.store.commit([*puts, SaveLedger(queue, scribe.ledgers[queue])])
        scribe.store.commit([scribe.remove(queue, puts[0].position), SaveLedger(queue, scribe.ledgers[queue])])
        os.write(done, b".")
        time.sleep(60)  # it is killed meanwhile

    def assert_complete() -> None:
        with Reader(tmp_path / "data") as reader, reader.snapshot() as snapshot:
            assert len(snapshot.entries_behind) == 2
            assert snapshot.entries(MESSAGES) == 2 == len([*snapshot.rows(MESSAGES)])
            [(key, _), (last, _)] = snapshot.rows(MESSAGES)
            assert snapshot.get(MESSAGES, last) is not None
            assert snapshot.at_or_before(MESSAGES, last + b"more")[0] == last  # type: ignore[index]
            assert snapshot.at_or_before(MESSAGES, key + b"more")[0] == key  # type: ignore[index]
            assert snapshot.at_or_before(MESSAGES, b"") is None
        assert check(tmp_path / "data").findings == []

    waiting, done = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            write()
        finally:
            os._exit(1)
    os.close(done)
    assert os.read(waiting, 1) == b"."
    if not is_killed:
        assert_complete()
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    os.close(waiting)
    assert_complete()


def test_a_snapshot_of_a_damaged_log_is_refused_or_says_what_is_left(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "whole")
    queue = scribe.declare("orders")
    scribe.keeps_up = False
    at = last_index(scribe.path)
    for _ in range(3):
        scribe.fill(queue, 1)
    path = killed_copy(scribe.path, tmp_path / "killed")
    with Reader(path, despite_damage=True) as reader, reader.snapshot() as snapshot:
        assert snapshot.damage is None and len(snapshot.entries_behind) == 3
    break_entries(path, at + 2)
    with (
        Reader(path) as reader,
        pytest.raises(StoreError, match=f"Entries {at + 2} to {at + 3} were receipted and cannot"),
        reader.snapshot(),
    ):
        pass
    with Reader(path, despite_damage=True) as reader:
        for _ in range(2):
            with reader.snapshot() as snapshot:
                assert snapshot.damage is not None and snapshot.entries(MESSAGES) == 1
                assert snapshot.damage.remains.before == snapshot.entries_behind
                assert [entry.place.index for entry in snapshot.damage.remains.behind] == [at + 3]


def test_damage_is_over_once_the_tables_of_a_running_broker_have_what_was_damaged(tmp_path: Path) -> None:
    def write() -> None:
        scribe = Scribe(tmp_path / "data")
        queue = scribe.declare("orders")
        scribe.keeps_up = False
        at = last_index(scribe.path)
        for _ in range(3):
            scribe.fill(queue, 1)
        break_entries(scribe.path, at + 1)
        os.write(done, b".")
        os.read(goes_on, 1)
        scribe.store.catch_up()
        scribe.fill(queue, 1)
        os.write(done, b".")
        os.read(goes_on, 1)

    waiting, done = os.pipe()
    goes_on, let_go_on = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            write()
        finally:
            os._exit(0)
    os.close(done)
    assert os.read(waiting, 1) == b"."
    with Reader(tmp_path / "data", despite_damage=True) as reader:
        with reader.snapshot() as snapshot:
            first = snapshot.damage
            assert first is not None and snapshot.entries(MESSAGES) == 0
        with reader.snapshot() as snapshot:
            assert snapshot.damage is first, "all segments are searched once"
        os.write(let_go_on, b".")
        assert os.read(waiting, 1) == b"."
        with reader.snapshot() as snapshot:
            assert snapshot.damage is None and snapshot.entries(MESSAGES) == 4
    os.write(let_go_on, b".")
    os.waitpid(writer, 0)
    for one in (waiting, goes_on, let_go_on):
        os.close(one)


def test_reader_of_an_earlier_format_finds_no_logs() -> None:
    with Reader(Path(__file__).parents[1] / "formats" / "format-3.mdb") as reader, reader.snapshot() as snapshot:
        assert (snapshot.logs(), [*snapshot.blocks(1, 0)]) == ([], [])
