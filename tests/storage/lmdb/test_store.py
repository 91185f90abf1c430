"""LmdbStore keeps what the Store contract says, over every write word, several boots, and damage."""

import errno
import os
import random
import resource
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import BATCH_WRITES, FILL_AHEAD_BYTES, MIB
from radiator.model.message import position_of
from radiator.model.reads import DedupLookup, ReadDelayed, ReadLog, ReadPrepared
from radiator.model.writes import (
    Count,
    Declare,
    Forget,
    KeepTransaction,
    Ledger,
    Remember,
    Remove,
    Retire,
    SaveLedger,
    StoppedClean,
    StorePrepared,
    Sweep,
    Write,
)
from radiator.storage.lmdb.datafile import map_bytes_of
from radiator.storage.lmdb.directory import LMDB_LOCK_FILE, fill_ahead, read_head
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from radiator.storage.wal import WalReading
from tests.storage.breaking import checked, marks, reopened, rewritten, run_forked
from tests.storage.scribe import DUE_MS, MAP_BYTES, Scribe, message_of, send_of, write_logs


def test_declare_and_first_messages_may_share_a_batch(tmp_path: Path, scribe: Scribe) -> None:
    scribe.ledgers[1] = Ledger()
    put = scribe.put(1, b"first")
    scribe.store.commit([Declare(1, "orders"), put, SaveLedger(1, scribe.ledgers[1])])
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.store.recovery.queues[0].ledger.stored == 1
    assert scribe.bodies(1) == [b"first"]


def test_remove_takes_exactly_its_message(tmp_path: Path, scribe: Scribe) -> None:
    queue, other = scribe.declare("orders"), scribe.declare("mail")
    puts = [scribe.put(queue, b"%d" % nth) for nth in range(10)]
    scribe.commit(*puts, scribe.put(other, b"mine"))
    scribe.commit(*[scribe.remove(queue, puts[nth].position) for nth in (7, 0, 3)])
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.bodies(queue) == [b"1", b"2", b"4", b"5", b"6", b"8", b"9"]
    assert scribe.bodies(other) == [b"mine"]


def test_put_and_remove_of_one_message_may_share_a_batch(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.put(queue, b"dropped while it was being stored")
    scribe.commit(put, scribe.remove(queue, put.position))
    assert scribe.bodies(queue) == []
    reopened(scribe, tmp_path / "data")


def test_batch_with_a_remove_of_nothing_is_a_bug_and_leaves_no_trace(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.fill(queue, 1, b"kept")
    with pytest.raises(AssertionError, match="there is no row .* in messages to be deleted"):
        scribe.store.commit([scribe.put(queue, b"new"), Remove(queue, position_of(9, 9))])
    assert scribe.bodies(queue) == [b"kept"]


@pytest.mark.parametrize("later", [0, 1])
def test_put_over_a_stored_message_is_a_bug_and_leaves_no_trace(scribe: Scribe, later: int) -> None:
    """Both ways of putting: past the last key, and among the others."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 2, b"kept")
    with pytest.raises(AssertionError, match="there is a row .* in messages already"):
        scribe.store.commit([replace(puts[later], message=message_of(b"other"))])
    assert scribe.bodies(queue) == [b"kept", b"kept"]


def test_thousands_of_messages_over_many_batches_come_and_go(tmp_path: Path, scribe: Scribe) -> None:
    """Against a plain dictionary: sizes over and under LMDB's overflow pages, removals everywhere."""
    chance = random.Random(7)
    queues = [scribe.declare(f"q{number}") for number in range(7)]
    for _ in range(60):
        puts = [
            scribe.put(chance.choice(queues), os.urandom(chance.choice([0, 30, 1_000, 2_100, 9_000])))
            for _ in range(chance.randrange(60))
        ]
        gone = chance.sample(sorted(scribe.messages), len(scribe.messages) // 3)
        scribe.commit(*puts, *[scribe.remove(queue, position) for queue, position in gone])
    expected = scribe.messages
    scribe = reopened(scribe, tmp_path / "data")
    for queue in queues:
        bodies = [message.body for (number, _), message in sorted(expected.items()) if number == queue]
        assert scribe.bodies(queue) == bodies
    assert checked(scribe).findings == []


def test_count_is_kept_and_goes_with_its_message(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 4)
    scribe.store.commit([Count(queue, puts[2].position, 5), Count(queue, puts[1].position, 0)])
    scribe.store.commit([Count(queue, puts[2].position, 6)])
    scribe = reopened(scribe, tmp_path / "data", clean=True)
    assert marks(scribe, queue) == [(0, False), (0, True), (6, True), (0, False)]
    scribe.messages = {(queue, put.position): put.message for put in puts}
    scribe.commit(scribe.remove(queue, puts[2].position))
    assert marks(scribe, queue) == [(0, False), (0, True), (0, False)]
    assert checked(scribe).counts == 1


def test_counts_of_many_removed_messages_all_go(tmp_path: Path, scribe: Scribe) -> None:
    """Several pages of counts, and removals that leave some between them."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 3_000, b"")
    scribe.store.commit([Count(queue, put.position, 1) for put in puts if put.position % 3])
    scribe.commit(*[scribe.remove(queue, put.position) for put in puts if put.position % 5])
    left = [put.position for put in puts if not put.position % 5]
    assert marks(scribe, queue) == [(1, True) if position % 3 else (0, False) for position in left]
    report = checked(scribe)
    assert report.counts == sum(position % 3 != 0 for position in left)
    assert report.findings == []


def test_count_and_remove_may_share_a_batch(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.fill(queue, 1)[0]
    scribe.commit(Count(queue, put.position, 1), scribe.remove(queue, put.position))
    assert checked(scribe).counts == 0


def test_nothing_is_committed_after_a_clean_stop(scribe: Scribe) -> None:
    scribe.store.commit([StoppedClean()])
    with pytest.raises(AssertionError, match="after a clean stop"):
        scribe.declare("orders")


def test_retired_queue_is_swept_in_slices_over_restarts(tmp_path: Path, scribe: Scribe) -> None:
    orders, mail = scribe.declare("orders"), scribe.declare("mail")
    puts = scribe.fill(orders, 25)
    scribe.fill(mail, 3, b"stays")
    scribe.store.commit([Count(orders, puts[3].position, 1), Count(orders, puts[24].position, 1)])
    scribe.retire(orders, "orders")
    scribe.store.commit([Declare(3, "orders")])  # the name is free at once
    for left in (25, 15, 5):
        count = min(left, 10)
        assert checked(scribe).findings == []
        scribe = Scribe(tmp_path / "data")
        assert scribe.store.recovery.retired == {orders: left}
        assert [queue.name for queue in scribe.store.recovery.queues] == ["mail", "orders"]
        scribe.store.commit([Sweep(orders, count, left - count)])
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.store.recovery.retired == {}
    assert scribe.bodies(orders) == []
    assert scribe.bodies(mail) == [b"stays"] * 3
    report = checked(scribe)
    assert (report.findings, report.counts) == ([], 0)


def test_retire_counts_what_its_own_batch_stored_and_removed(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 3)
    writes: list[Write] = [scribe.put(queue), scribe.put(queue), scribe.remove(queue, puts[0].position)]
    scribe.store.commit([Retire(queue, "orders", 4), *writes, SaveLedger(queue, scribe.ledgers[queue])])
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.store.recovery.retired == {queue: 4}


def test_retiring_an_empty_queue_leaves_nothing(tmp_path: Path, scribe: Scribe) -> None:
    scribe.declare("orders")
    scribe.store.commit([Retire(1, "orders", 0)])
    assert reopened(scribe, tmp_path / "data").store.recovery.retired == {}


def test_sweeping_more_than_there_is_is_a_bug_and_leaves_no_trace(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.fill(queue, 3)
    scribe.retire(queue, "orders")
    with pytest.raises(AssertionError, match="1 of 4 rows"):
        scribe.store.commit([Sweep(queue, 4, 0)])
    assert reopened(scribe, tmp_path / "data").store.recovery.retired == {queue: 3}


def test_retiring_an_unknown_queue_is_a_bug(scribe: Scribe) -> None:
    with pytest.raises(AssertionError, match="is not there"):
        scribe.store.commit([Retire(5, "orders", 0)])


def test_dedup_id_is_remembered_until_its_time_and_for_its_queue(tmp_path: Path, scribe: Scribe) -> None:
    scribe.store.commit([Remember(1, b"order-1", 1_000)])
    scribe = reopened(scribe, tmp_path / "data")

    def found(queue: int, dedup_id: bytes, now_ms: int) -> bool:
        return scribe.store.look_up(DedupLookup(1, queue, dedup_id, now_ms))

    assert found(1, b"order-1", 1_000)
    assert not found(1, b"order-1", 1_001)
    assert not found(2, b"order-1", 0)
    assert not found(1, b"order-2", 0)
    assert not found(1, b"order-", 0)


@pytest.mark.parametrize("length", [0, 255])
def test_dedup_id_of_any_allowed_length_is_kept(scribe: Scribe, length: int) -> None:
    dedup_id = b"\xff" * length
    scribe.store.commit([Remember(2**32 - 1, dedup_id, 5)])
    assert scribe.store.look_up(DedupLookup(1, 2**32 - 1, dedup_id, 5))


def test_forget_drops_what_is_past_oldest_first_and_up_to_its_limit(tmp_path: Path, scribe: Scribe) -> None:
    scribe.store.commit([Remember(1, b"%d" % until, until) for until in (30, 10, 20, 40)])

    def kept() -> list[int]:
        return [until for until in (10, 20, 30, 40) if scribe.store.look_up(DedupLookup(1, 1, b"%d" % until, 0))]

    scribe.store.commit([Forget(before_ms=30, limit=1)])
    assert kept() == [20, 30, 40]
    scribe.store.commit([Forget(before_ms=30, limit=100)])
    assert kept() == [30, 40]
    assert checked(scribe).findings == []


@pytest.mark.parametrize("again", [50, 5])
def test_dedup_id_remembered_again_has_one_time_alone(tmp_path: Path, scribe: Scribe, again: int) -> None:
    scribe.store.commit([Remember(1, b"x", 10)])
    scribe.store.commit([Remember(1, b"x", again)])
    report = checked(scribe)
    assert (report.findings, report.dedup_ids) == ([], 1)


def test_dedup_id_remembered_again_keeps_its_new_time(tmp_path: Path, scribe: Scribe) -> None:
    scribe.store.commit([Remember(1, b"x", 10)])
    scribe.store.commit([Remember(1, b"x", 50)])
    scribe.store.commit([Forget(before_ms=20, limit=100)])
    assert scribe.store.look_up(DedupLookup(1, 1, b"x", 50))
    scribe.store.commit([Forget(before_ms=51, limit=100)])
    assert not scribe.store.look_up(DedupLookup(1, 1, b"x", 0))
    report = checked(scribe)
    assert (report.findings, report.dedup_ids) == ([], 0)


def test_damaged_delayed_messages_go_with_their_queue(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    delays = [scribe.delay(queue, DUE_MS + nth, b"body-%d" % nth) for nth in range(3)]
    scribe.commit(*delays)
    scribe = rewritten(tmp_path / "data", scribe, delays[:2])
    scribe.retire(queue, "orders")
    scribe.store.commit([Sweep(queue, 3, 0)])
    report = checked(scribe)
    assert (report.findings, report.messages) == ([], 0)


def test_messages_at_the_end_of_the_table_lie_densely(scribe: Scribe) -> None:
    """Three of 1 KiB fit a page; split in halves, as LMDB does elsewhere, it would hold two."""
    queue = scribe.declare("orders")
    for _ in range(30):
        scribe.fill(queue, 100, b"x" * 1024)
    assert scribe.store.used_bytes() < 3_000 / 3 * 4096 * 1.1


def test_delayed_messages_that_come_in_the_order_of_time_lie_densely(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    for start in range(0, 3_000, 100):
        scribe.commit(*[scribe.delay(queue, DUE_MS + nth, b"x" * 1024) for nth in range(start, start + 100)])
    assert scribe.store.used_bytes() < 3_000 / 3 * 4096 * 1.1


def test_small_commits_find_their_pages_on_the_disk(tmp_path: Path, scribe: Scribe) -> None:
    """Each of them takes more pages, and nearly none makes the file longer."""
    queue = scribe.declare("orders")
    file = tmp_path / "data" / "data.mdb"
    lengths = set()
    for _ in range(100):
        scribe.fill(queue, 4, b"x" * 3_000)
        head = read_head(file)
        assert head.end_bytes <= head.file_bytes <= head.end_bytes + FILL_AHEAD_BYTES
        assert file.stat().st_blocks * 512 >= head.end_bytes
        lengths.add(head.file_bytes)
    assert 3 <= len(lengths) <= 5  # 1.6 MB
    scribe.store.close()
    assert Scribe(tmp_path / "data").bodies(queue) == [b"x" * 3_000] * 400


def test_behind_a_large_commit_nothing_is_laid_out_ahead(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.fill(queue, 300, b"x" * 3_000)
    head = read_head(tmp_path / "data" / "data.mdb")
    assert head.end_bytes == head.file_bytes


def test_what_is_laid_out_ahead_stays_within_the_map(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    file = tmp_path / "data" / "data.mdb"
    scribe.fill(queue, 1, bytes(MAP_BYTES - 3 * FILL_AHEAD_BYTES))
    while MAP_BYTES - read_head(file).end_bytes > FILL_AHEAD_BYTES // 2:
        scribe.fill(queue, 1, bytes(50_000))
    assert read_head(file).file_bytes == MAP_BYTES
    assert read_head(file).map_bytes == map_bytes_of(MAP_BYTES), "the rest is for what removing copies"


def test_no_room_ahead_is_no_failure(tmp_path: Path) -> None:
    """Whatever there is room for is laid out; the commit itself needs less."""
    path = tmp_path / "data"
    scribe = Scribe(path)
    queue = scribe.declare("orders")
    scribe.store.close()
    end_bytes = read_head(path / "data.mdb").end_bytes
    os.truncate(path / "data.mdb", end_bytes)

    def fill_up_to_the_limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (end_bytes + 100_000, end_bytes + 100_000))
        limited = Scribe(path)
        for _ in range(5):
            limited.fill(queue, 1, b"x" * 6_000)
        limited.store.close()
        # now there is room for nothing, and the system says so
        assert fill_ahead(path / "data.mdb", end_bytes + 200_000) == end_bytes + 100_000

    assert run_forked(fill_up_to_the_limit) == 0
    assert (path / "data.mdb").stat().st_size == end_bytes + 100_000
    assert Scribe(path).bodies(queue) == [b"x" * 6_000] * 5


def test_full_map_is_a_failed_disk_and_the_store_can_be_opened_again(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data", map_size=1)
    queue = scribe.declare("orders")
    scribe.fill(queue, 1, b"kept")
    with pytest.raises(DiskFailed, match="MDB_MAP_FULL"):
        for _ in range(100):
            scribe.store.commit([scribe.put(queue, b"x" * 40_000_000)])
    with pytest.raises(AssertionError, match="after a failure"):
        scribe.store.commit([])
    scribe.store.close()
    with pytest.raises(StoreError, match="ledgers"):
        Scribe(tmp_path / "data")  # the test wrote messages without books


def test_store_over_a_lowered_map_size_can_be_emptied(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 50, b"x" * 100_000)
    scribe.store.close()
    lowered = Scribe(tmp_path / "data", map_size=1024 * 1024)
    lowered.messages = scribe.messages
    for put in puts:
        lowered.commit(lowered.remove(queue, put.position))
    assert lowered.bodies(queue) == []


def test_failed_disk_is_told_at_every_size_of_file_allowed(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the system refuse to let the file grow, as a full disk does: nothing of that batch is kept."""

    path = tmp_path / "data"
    scribe = Scribe(path)
    queue = scribe.declare("orders")
    scribe.fill(queue, 1, b"kept")
    scribe.store.close()

    def write_past_the_limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limited = Scribe(path)
        size = read_head(path / "data.mdb").end_bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
        try:
            limited.fill(queue, 10, b"x" * 10_000)
        except DiskFailed as error:
            assert ".wal failed" in str(error)
            os._exit(42)

    assert run_forked(write_past_the_limit) == 42
    assert Scribe(path).bodies(queue) == [b"kept"]


@pytest.mark.durability("D37")
def test_what_is_read_is_never_older_than_what_was_committed(scribe: Scribe) -> None:
    """Of each kind of read, right behind the commit: the tables have none of it yet."""
    store, queue = scribe.store, scribe.declare("orders")
    put = scribe.put(queue, b"body")
    delay = scribe.delay(queue, DUE_MS, b"late")
    store.commit([put, delay, SaveLedger(queue, scribe.ledgers[queue]), Remember(queue, b"id", 1_900_000_000_000)])
    assert store.look_up(DedupLookup(1, queue, b"id", 1_800_000_000_000))
    assert not store.look_up(DedupLookup(1, queue, b"other", 1_800_000_000_000))
    assert len(store._follower._open.tables) > 2, "a look-up need not wait for the tables"
    assert scribe.bodies(queue) == [b"body"]
    store.commit([Remove(queue, put.position)])
    assert scribe.bodies(queue) == []
    late = store.load_delayed(ReadDelayed(1, queue, DUE_MS + 9, 9, 1 << 20)).messages
    assert [one.due_ms for one in late] == [DUE_MS]
    write_logs(store, 2)
    loaded = store.load_log(ReadLog(1, 2, 1, 3, 2, 1 << 20)).records
    assert [one.offset for one in loaded] == [3, 4]
    store.commit([KeepTransaction(9, "new", 1, 10, 0, DUE_MS), StorePrepared(9, 0, [send_of(0)])])
    assert store.load_prepared(ReadPrepared(1, 9, 0, 9, 1 << 20)).sends == [send_of(0)]


def test_one_thread_commits_while_another_loads(scribe: Scribe) -> None:
    """A load sees whole batches only, whatever is being committed."""
    queue = scribe.declare("orders")
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(len(scribe.bodies(queue)))
            scribe.store.used_bytes()

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        scribe.fill(queue, 10)
    done.set()
    reader.join()
    assert seen == sorted(seen)
    assert all(count % 10 == 0 for count in seen)


def test_the_table_of_readers_lies_on_the_disk_and_no_reader_makes_it_longer(tmp_path: Path) -> None:
    """It is written through a map: on a full disk that would end the process by a signal."""
    open_store(tmp_path, MAP_BYTES).close()
    table = tmp_path / LMDB_LOCK_FILE
    size = table.stat().st_size
    with Reader(tmp_path) as reader, reader.snapshot():
        assert table.stat().st_size == size <= 512 * table.stat().st_blocks


def test_no_room_for_the_table_of_readers_is_a_failed_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(DiskFailed, match="Opening the data directory .* failed"):
        open_store(tmp_path, MAP_BYTES)


def scattered(path: Path, map_size: int, messages: int) -> tuple[Scribe, list[list[Write]]]:
    """A store with so many messages, two on a page, in the tables; and batches that remove every second one of them."""
    scribe = Scribe(path, map_size)
    queue = scribe.declare("orders")
    positions = [put.position for _ in range(messages // 500) for put in scribe.fill(queue, 500, b"x" * 1700)]
    batches = [positions[start : start + 2 * BATCH_WRITES : 2] for start in range(0, messages, 2 * BATCH_WRITES)]
    return scribe, [[scribe.remove(queue, position) for position in batch] for batch in batches]


@pytest.mark.slow
@pytest.mark.durability("D10")
@pytest.mark.parametrize("map_size", (32 * MIB, 128 * MIB))
def test_acks_of_scattered_messages_have_room_in_a_full_map(tmp_path: Path, map_size: int) -> None:
    """Each of them copies a page, and pages that are freed are not used again at once."""
    scribe, batches = scattered(tmp_path / "data", map_size, map_size * 85 // 100 // 2048 // 500 * 500)
    assert scribe.store.used_bytes() > map_size * 4 // 5
    scribe.keeps_up = False
    for batch in batches:
        scribe.commit(*batch)
    scribe.store.close()
    assert (tmp_path / "data" / "data.mdb").stat().st_size <= map_size + 64 * MIB
    again = Scribe(tmp_path / "data", map_size)
    assert len(again.bodies(1)) == len(scribe.messages)
    again.store.close()


@pytest.mark.slow
def test_a_start_after_a_kill_has_room_for_acks_that_the_tables_do_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_size = 128 * MIB

    def die_behind() -> None:
        scribe, batches = scattered(tmp_path / "data", map_size, 50_000)
        scribe.keeps_up = False
        scribe.store._follower._rows_bound = scribe.store._follower._bound = 1 << 30
        for batch in batches:
            scribe.commit(*batch)
        os._exit(0)

    assert run_forked(die_behind) == 0
    again = Scribe(tmp_path / "data", map_size)
    assert len(again.bodies(1)) == 25_000
    again.store.close()
    again = Scribe(tmp_path / "data", map_size)
    again.store.close()


def test_the_times_of_the_log_are_the_brokers(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    place = scribe.store._wal.place
    for now_ms in (1_900_000_000_000, 1_900_000_000_007):
        scribe.store.set_clock(now_ms)
        scribe.store.commit([Declare(now_ms % 100 + 1, f"q{now_ms}")])
    reading = WalReading(tmp_path / "data" / "wal", scribe.store.recovery.store_id, place)
    assert [entry.ms for entry in reading.entries()] == [1_900_000_000_000, 1_900_000_000_007]
    scribe.store.close()
