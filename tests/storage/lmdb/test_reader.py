"""A store opened read-only: what a check, a backup or a command reads of it."""

from pathlib import Path

from radiator.model.limits import BLOCK_RECORDS
from radiator.model.message import position_of
from radiator.storage.codec import blocks, events
from radiator.storage.lmdb.reader import Reader
from tests.storage.journalist import Journalist, event_of, record
from tests.storage.scribe import DELAYED, filled


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


def test_reader_of_an_earlier_format_finds_no_logs() -> None:
    with Reader(Path(__file__).parents[1] / "formats" / "format-3.mdb") as reader, reader.snapshot() as snapshot:
        assert (snapshot.logs(), [*snapshot.blocks(1, 0)]) == ([], [])
