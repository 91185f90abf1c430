"""A backup is brought forward by the log behind it: to any entry, time or message, or it is said why not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import MIB
from radiator.model.message import message_id
from radiator.model.settings import LogKeep
from radiator.model.writes import StoppedClean
from radiator.storage import wal
from radiator.storage.backup import backup, restore
from radiator.storage.codec import records
from radiator.storage.codec.tables import APPLIED, DOUBTS, META, PEERS, TABLES, TIME
from radiator.storage.forward import Until
from radiator.storage.lmdb import store as store_module
from radiator.storage.lmdb.datafile import write_meta
from radiator.storage.lmdb.reader import Reader, backup_meta
from radiator.storage.lmdb.store import LmdbStore, open_store
from radiator.storage.wal_copy import LogCopier
from tests.storage.scribe import Scribe

SEGMENT_BYTES = 8192
ALL = LogKeep(max_bytes=1 << 40)

Rows = dict[tuple[bytes, bytes], bytes]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "WAL_SEGMENT_FIRST_BYTES", SEGMENT_BYTES)
    monkeypatch.setattr(store_module, "WAL_SEGMENT_BYTES", SEGMENT_BYTES)


COMPARED = [table for table in TABLES if table not in (META, PEERS, DOUBTS)]  # a restore changes the others


def rows_of(path: Path) -> Rows:
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {(table, key): bytes(value) for table in COMPARED for key, value in snapshot.rows(table)}


def rows_in(store: LmdbStore) -> Rows:
    """Of one that is open."""
    with store._env.begin() as txn:
        return {(table, key): value for table in COMPARED for key, value in txn.cursor(store._tables[table])}


@dataclass
class Life:
    """A store that was written to, its states, the time of each, and a backup of one of them."""

    directory: Path
    states: dict[int, Rows] = field(default_factory=dict)  # by the index of the entry that left it
    times_ms: dict[int, int] = field(default_factory=dict)
    ids: dict[int, bytes] = field(default_factory=dict)  # of a message that the entry stored
    backup_at: int = 0

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def backup(self) -> Path:
        return self.directory / "backup"

    @property
    def copies(self) -> Path:
        return self.directory / "copies"

    @property
    def last(self) -> int:
        return max(self.states)

    def restored(self, until: Until | None = None, log: Path | None = None, name: str = "new") -> dict[str, int | str]:
        report = restore(self.backup, self.directory / name, log=log or self.copies, until=until)
        assert report.findings == []
        assert report.forward is not None
        return report.forward


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """Two queues and 120 batches of messages that come and go; every fifth millisecond one. A backup after 40 of them,
    and a copy of the log in the middle and at the end; in between the broker is started again.
    """
    lived, chance = Life(tmp_path), Random(5)
    now_ms = 1_900_000_000_000

    def time_ns() -> int:
        return now_ms * 1_000_000

    monkeypatch.setattr(store_module.time, "time_ns", time_ns)
    scribe = Scribe(lived.data, log_keep=ALL)
    queues = [scribe.declare("orders"), scribe.declare("mail")]
    for number in range(120):
        now_ms += 5
        removed = chance.sample(sorted(scribe.messages), min(len(scribe.messages), chance.randrange(3)))
        puts = [scribe.put(chance.choice(queues), chance.randbytes(300)) for _ in range(chance.randrange(1, 4))]
        scribe.commit(*puts, *[scribe.remove(*one) for one in removed])
        index = scribe.store._wal.place.index
        lived.states[index], lived.times_ms[index] = rows_in(scribe.store), now_ms
        lived.ids[index] = message_id(scribe.store.recovery.store_id, puts[-1].position)
        if number in (40, 80):
            scribe.store.commit([StoppedClean()])
            scribe.store.close()
            if number == 40:
                backup(lived.data, lived.backup)
                lived.backup_at = index + 1
                lived.states[index + 1], lived.times_ms[index + 1] = lived.states[index], now_ms
            else:
                copy(lived.data, lived.copies)
            now_ms += 5
            again = Scribe(lived.data, log_keep=ALL)
            again.messages, again.ledgers = scribe.messages, scribe.ledgers
            scribe = again
    scribe.store.close()
    copy(lived.data, lived.copies)
    yield lived


def copy(data: Path, to: Path) -> None:
    with LogCopier(data, to) as copier:
        assert copier.copy().gaps == []


def test_to_the_end_of_the_log(life: Life) -> None:
    found = life.restored()
    assert rows_of(life.directory / "new") == life.states[life.last]
    assert (found["last"], found["left_out"], found["unread"]) == (life.last, 0, "")
    assert found["entries"] == life.last - life.backup_at
    assert len([*life.copies.iterdir()]) > 5
    Scribe(life.directory / "new").store.close()  # and it starts


@pytest.mark.durability("D39")
@pytest.mark.parametrize("log", ["copies", "data", "data/wal"])
def test_to_any_entry(life: Life, log: str) -> None:
    indexes = [index for index in life.states if index >= life.backup_at]
    for index in [indexes[0], *Random(log).sample(indexes, 8), indexes[-1]]:
        found = life.restored(Until(index=index), life.directory / log, f"new-{index}")
        assert rows_of(life.directory / f"new-{index}") == life.states[index], index
        assert found["last"] == index
        assert found["left_out"] == life.last - index


def test_to_any_time(life: Life) -> None:
    for index in Random(2).sample([one for one in life.states if one > life.backup_at], 5):
        for offset_ms in (0, 4):  # the next one comes after five
            name = f"new-{index}-{offset_ms}"
            found = life.restored(Until(ms=life.times_ms[index] + offset_ms), name=name)
            assert rows_of(life.directory / name) == life.states[index]
            assert found["last_ms"] == life.times_ms[index]
    found = life.restored(Until(ms=life.times_ms[life.backup_at]), name="before")
    assert (found["entries"], found["last"]) == (0, life.backup_at)


def test_to_a_message_with_the_whole_of_its_entry(life: Life) -> None:
    index = Random(3).choice([one for one in life.states if one > life.backup_at])
    life.restored(Until(message_id=life.ids[index]))
    assert rows_of(life.directory / "new") == life.states[index]


def test_a_time_before_the_backup_is_refused(life: Life) -> None:
    with pytest.raises(
        StoreError, match=r"has entry \d+ of the log already, written 2030-.*, which is later: take an ear"
    ):
        life.restored(Until(ms=life.times_ms[life.backup_at] - 1))
    assert not (life.directory / "new").exists()


def test_a_time_before_a_backup_whose_own_segment_is_gone_is_refused_by_its_clock(life: Life, tmp_path: Path) -> None:
    meta = backup_meta(life.backup)
    assert meta is not None
    write_meta(life.backup, {TIME: records.encode_number(TIME, life.times_ms[life.backup_at])}, 1 << 24)
    for file in sorted(life.copies.iterdir()):
        if int(file.stem) <= records.decode_place(APPLIED, meta[APPLIED])[2]:
            file.unlink()
    with pytest.raises(StoreError, match="which is later: take an earlier backup"):
        life.restored(Until(ms=life.times_ms[life.backup_at] - 1))


def test_a_copy_that_goes_on_in_a_segment_that_is_not_there_is_told(life: Life) -> None:
    last = max(life.copies.iterdir())
    last.unlink()
    found = life.restored()
    assert found["unread"] == f"the log went on in {last.name}, which is not in {life.copies}"
    assert rows_of(life.directory / "new") == life.states[int(found["last"])]


@pytest.mark.parametrize("content", [b"", bytes(3000), b"rubbish" * 500])
def test_a_last_copy_that_is_none_is_refused(life: Life, content: bytes) -> None:
    last = max(life.copies.iterdir())
    last.write_bytes(content)
    with pytest.raises(StoreError, match=r"wal is damaged at its beginning\. `--until \d+` restores what comes before"):
        life.restored()


def test_what_is_left_out_is_counted(life: Life) -> None:
    found = life.restored(Until(index=life.last - 1))
    assert (found["left_out"], found["left_out_ms"]) == (1, life.times_ms[life.last])
    assert 1 <= int(found["left_out_messages"]) <= 3


@pytest.mark.parametrize(
    ("until", "clause"),
    [
        (Until(index=3), r"has entry \d+ of the log already, and entry 3 is earlier: take an earlier backup"),
        (Until(index=1 << 40), r"ends with entry \d+, before entry 1099511627776"),
        (Until(message_id=b"f" * 16 + b"-1-1"), r"The message f{16}-1-1 is not of the store"),
    ],
)
def test_a_moment_that_cannot_be_reached_is_refused_and_nothing_is_made(life: Life, until: Until, clause: str) -> None:
    with pytest.raises(StoreError, match=clause):
        life.restored(until)
    assert not (life.directory / "new").exists()


def test_a_message_that_no_entry_stores_is_refused(life: Life) -> None:
    store = life.ids[life.last].rpartition(b"-")[0]
    with pytest.raises(
        StoreError, match=r"No entry of .* after entry \d+ stores the message .*-99999: the backup has it"
    ):
        life.restored(Until(message_id=store + b"-99999"))


def test_damage_ends_it_unless_it_lies_behind(life: Life) -> None:
    file = sorted(life.copies.iterdir())[-2]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(
        StoreError, match=r"is damaged, and .* follows it\. `--until (\d+)` restores what comes before\."
    ) as it:
        life.restored()
    last = int(str(it.value).split("`--until ")[1].split("`")[0])
    found = life.restored(Until(index=last))
    assert rows_of(life.directory / "new") == life.states[last]
    assert "is damaged" in str(found["unread"])
    assert "is damaged" in str(life.restored(Until(index=last - 5), name="earlier")["unread"])


def test_a_missing_segment_ends_it(life: Life) -> None:
    for file in sorted(life.copies.iterdir())[1:]:
        opening = wal._opening_of(file.read_bytes())
        assert opening is not None
        if opening.first > life.backup_at + 20:
            file.unlink()
            break
    with pytest.raises(StoreError, match=rf"goes on in segment {opening.number}, which is missing\. `--until"):
        life.restored()
    found = life.restored(Until(index=opening.first - 1))
    assert rows_of(life.directory / "new") == life.states[opening.first - 1]
    assert "is missing" in str(found["unread"])


def test_a_log_that_begins_behind_the_backup_is_refused(life: Life) -> None:
    for file in sorted(life.copies.iterdir())[:-2]:
        file.unlink()
    with pytest.raises(StoreError, match=r"begins with entry \d+, and entry \d+ is missing"):
        life.restored()


def test_the_log_of_another_store_is_refused(life: Life, tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "other")
    scribe.declare("orders")
    scribe.store.close()
    with pytest.raises(StoreError, match="is of the store .*, and the log of the store .* is wanted"):
        life.restored(log=tmp_path / "other")
    with pytest.raises(StoreError, match="holds 'backup', which is not a segment of a log: move it elsewhere"):
        life.restored(log=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="has no segments of a log"):
        life.restored(log=tmp_path / "empty")
    with pytest.raises(StoreError, match="has no segments of a log"):
        life.restored(log=tmp_path / "missing")


def test_a_torn_copy_ends_before_the_tear(life: Life) -> None:
    file = sorted(life.copies.iterdir())[-1]
    data = file.read_bytes()
    file.write_bytes(data[:-10])
    found = life.restored()
    assert (found["last"], found["unread"]) == (life.last - 1, "")
    assert rows_of(life.directory / "new") == life.states[life.last - 1]


def test_a_log_of_nothing_but_acks_has_room_in_the_tables(tmp_path: Path) -> None:
    """Each copies a page, and takes 36 bytes of the log."""
    scribe = Scribe(tmp_path / "data", 128 * MIB)
    queue = scribe.declare("orders")
    puts = [put for _ in range(40) for put in scribe.fill(queue, 500, b"x" * 1700)]
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "backup")
    scribe.store = open_store(tmp_path / "data", 128 * MIB, log_keep=ALL)
    for start in range(0, len(puts), 1000):
        scribe.commit(*(scribe.remove(queue, put.position) for put in puts[start : start + 1000 : 2]))
    scribe.store.close()
    report = restore(tmp_path / "backup", tmp_path / "new", log=tmp_path / "data")
    assert report.messages == len(puts) // 2
