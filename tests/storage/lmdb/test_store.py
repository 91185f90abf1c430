"""LmdbStore keeps what the Store contract says, over every write word, several boots, and damage."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import FILL_AHEAD_BYTES
from radiator.model.message import position_of
from radiator.model.reads import DedupLookup, ReadDelayed, ReadQueue
from radiator.model.writes import (
    Count,
    Declare,
    Delay,
    Doubt,
    Forget,
    KeepPeer,
    Ledger,
    MakeDue,
    Remember,
    Remove,
    Retire,
    SaveLedger,
    StoppedClean,
    Sweep,
    Write,
)
from radiator.storage.check import Report, check
from radiator.storage.codec import records
from radiator.storage.codec.tables import DOUBTS, FORMAT, MESSAGES, META, TABLES
from radiator.storage.lmdb.directory import LMDB_LOCK_FILE, fill_ahead, read_head
from radiator.storage.lmdb.measure import snapshots
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from tests.storage.scribe import DELAYED, DUE_MS, MAP_BYTES, Scribe, filled, message_of


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / "data")


def reopened(scribe: Scribe, path: Path, clean: bool = False) -> Scribe:
    """The next boot; without `clean` it is as after kill -9: LMDB keeps nothing in memory that a close would write."""
    if clean:
        scribe.store.commit([StoppedClean()])
    scribe.store.close()
    return Scribe(path)


def checked(scribe: Scribe) -> Report:
    """What `radiator check` says; it opens the file itself, so the store is closed."""
    scribe.store.close()
    return check(scribe.path)


def raw(path: Path) -> lmdb.Environment:
    """The file as a stranger would open it, to break it."""
    return lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=len(TABLES), lib_version=0)


def rewrite(path: Path, table: bytes, key: bytes, value: bytes | None) -> None:
    with raw(path) as env:
        opened = env.open_db(table)
        with env.begin(write=True) as txn:
            if value is None:
                assert txn.delete(key, db=opened)
            else:
                txn.put(key, value, db=opened)


# ---- boots and identity -------------------------------------------------------------------------------------------


def test_new_store_counts_as_clean_and_begins_with_boot_one(scribe: Scribe) -> None:
    recovery = scribe.store.recovery
    assert (recovery.boot, recovery.next_queue, recovery.was_clean) == (1, 1, True)
    assert (recovery.queues, recovery.retired) == ([], {})
    assert len(recovery.store_id) == 16 and int(recovery.store_id, 16)


def test_two_stores_have_two_ids(tmp_path: Path) -> None:
    assert Scribe(tmp_path / "one").store.recovery.store_id != Scribe(tmp_path / "two").store.recovery.store_id


def test_boot_rises_at_every_start_and_the_id_stays(tmp_path: Path, scribe: Scribe) -> None:
    store_id = scribe.store.recovery.store_id
    for boot, clean in enumerate([True, False, False, True, True], 2):
        scribe = reopened(scribe, tmp_path / "data", clean)
        assert scribe.store.recovery.boot == boot
        assert scribe.store.recovery.was_clean is clean
        assert scribe.store.recovery.store_id == store_id


@pytest.mark.durability("D8")
def test_boot_is_on_the_disk_before_the_store_is_handed_out(tmp_path: Path) -> None:
    """Ids never repeat: even a broker killed in its first moment has used its boot's number up."""
    script = "import os, sys; from radiator.storage.lmdb.store import open_store; s = open_store(sys.argv[1], 1 << 26);"
    script += "print(s.recovery.boot, flush=True); os.kill(os.getpid(), 9)"
    boots = []
    for _ in range(3):
        ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], capture_output=True, timeout=60)
        assert ran.returncode == -signal.SIGKILL
        boots.append(int(ran.stdout))
    assert boots == [1, 2, 3]


def test_queue_numbers_never_repeat_even_when_the_last_queue_is_gone(tmp_path: Path, scribe: Scribe) -> None:
    assert scribe.declare("orders") == 1
    scribe.retire(1, "orders")
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.store.recovery.queues == []
    assert scribe.store.recovery.next_queue == 2
    with pytest.raises(AssertionError, match="queue number 1 was used before"):
        scribe.store.commit([Declare(1, "mail")])


def test_queues_come_back_with_name_and_ledger(tmp_path: Path, scribe: Scribe) -> None:
    names = ["orders", "ä/€.x", "n" * 255]
    for name in names:
        scribe.declare(name)
    scribe.fill(2, 3)
    ledgers = dict(scribe.ledgers)
    scribe = reopened(scribe, tmp_path / "data")
    found = scribe.store.recovery.queues
    assert [(queue.number, queue.name) for queue in found] == list(enumerate(names, 1))
    assert {queue.number: queue.ledger for queue in found} == ledgers


def test_declare_and_first_messages_may_share_a_batch(tmp_path: Path, scribe: Scribe) -> None:
    scribe.ledgers[1] = Ledger()
    put = scribe.put(1, b"first")
    scribe.store.commit([Declare(1, "orders"), put, SaveLedger(1, scribe.ledgers[1])])
    scribe = reopened(scribe, tmp_path / "data")
    assert scribe.store.recovery.queues[0].ledger.stored == 1
    assert scribe.bodies(1) == [b"first"]


# ---- Put, Remove, Load --------------------------------------------------------------------------------------------


def test_message_is_read_back_as_it_was_written(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.put(queue, bytes(range(256)) * 50, expires_ms=77)
    scribe.commit(put)
    for _ in range(2):
        [found] = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages
        assert found.message == put.message
        assert (found.position, found.redeliveries, found.redelivered) == (put.position, 0, False)
        scribe = reopened(scribe, tmp_path / "data", clean=True)


def test_messages_come_in_order_and_of_their_own_queue_alone(scribe: Scribe) -> None:
    queues = [scribe.declare(f"q{number}") for number in range(5)]
    puts = [scribe.put(queue, b"%d-%d" % (queue, nth)) for nth in range(50) for queue in queues]
    random.Random(1).shuffle(puts)
    for start in range(0, len(puts), 60):
        scribe.commit(*puts[start : start + 60])
    for queue in queues:
        assert scribe.bodies(queue) == [b"%d-%d" % (queue, nth) for nth in range(50)]


def test_later_boots_come_after_earlier_ones(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.commit(*[scribe.put(queue, b"1-%d" % nth) for nth in range(300)])
    scribe = reopened(scribe, tmp_path / "data")
    scribe.commit(scribe.put(queue, b"2-0"))
    assert scribe.bodies(queue)[-2:] == [b"1-299", b"2-0"]


def test_load_goes_on_after_a_position_and_keeps_both_limits(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 10, b"x" * 1000)
    load = ReadQueue(1, queue, 0, 1_000, 1 << 20)
    assert [found.position for found in scribe.store.load(load).messages] == [put.position for put in puts]
    assert len(scribe.store.load(replace(load, messages_max=3)).messages) == 3
    assert len(scribe.store.load(replace(load, bytes_max=3_500)).messages) == 3
    assert len(scribe.store.load(replace(load, after=puts[6].position)).messages) == 3
    assert scribe.store.load(replace(load, after=puts[9].position)).messages == []
    assert scribe.store.load(replace(load, queue=99)).messages == []


def test_load_gives_one_message_however_large(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.fill(queue, 2, b"x" * 100_000)
    assert len(scribe.store.load(ReadQueue(1, queue, 0, 10, 1)).messages) == 1


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
    with pytest.raises(AssertionError, match="something is already where messages"):
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


# ---- Count and the mark after an unclean stop ---------------------------------------------------------------------


def marks(scribe: Scribe, queue: int) -> list[tuple[int, bool]]:
    found = scribe.store.load(ReadQueue(1, queue, 0, 100_000, 1 << 40)).messages
    return [(stored.redeliveries, stored.redelivered) for stored in found]


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


def test_clean_stop_marks_nothing_and_unclean_stop_marks_all_before_it(tmp_path: Path, scribe: Scribe) -> None:
    """Contract 1: after an unclean stop every message stored before it is marked; over several boots, for good."""
    queue = scribe.declare("orders")
    path = tmp_path / "data"
    first = scribe.fill(queue, 1)[0]  # boot 1
    scribe = reopened(scribe, path, clean=True)
    assert marks(scribe, queue) == [(0, False)]
    scribe.fill(queue, 1)  # boot 2, unclean
    scribe.store.commit([Count(queue, first.position, 3)])
    scribe = reopened(scribe, path)
    assert not scribe.store.recovery.was_clean
    scribe.fill(queue, 1)  # boot 3, clean
    assert marks(scribe, queue) == [(3, True), (0, True), (0, False)]
    scribe = reopened(scribe, path, clean=True)
    assert scribe.store.recovery.was_clean
    assert marks(scribe, queue) == [(3, True), (0, True), (0, False)]
    scribe = reopened(scribe, path)  # boot 4 wrote nothing, and was not stopped clean
    assert marks(scribe, queue) == [(3, True), (0, True), (0, True)]


def test_nothing_is_committed_after_a_clean_stop(scribe: Scribe) -> None:
    scribe.store.commit([StoppedClean()])
    with pytest.raises(AssertionError, match="after a clean stop"):
        scribe.declare("orders")


# ---- Retire and Sweep ---------------------------------------------------------------------------------------------


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


# ---- Remember, Forget, look_up ------------------------------------------------------------------------------------


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


# ---- creation is all or nothing -----------------------------------------------------------------------------------


def run_forked(step: Callable[[], None]) -> int:
    """The exit status of `step` in a child, negative for a signal: it may die as it likes."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            step()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_creation_killed_at_any_step_leaves_a_directory_that_starts(tmp_path: Path) -> None:
    """The child dies at its n-th system call that Python tells of, for every n until it lives."""
    steps = 0
    while True:
        path = tmp_path / f"data{steps}"

        def create(path: Path = path, last: int = steps) -> None:
            seen = 0

            def die_at_last(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal seen
                if event.startswith(("os.", "open", "fcntl.")):
                    if seen == last:
                        os._exit(42)
                    seen += 1

            sys.addaudithook(die_at_last)
            open_store(path, MAP_BYTES).close()

        status = run_forked(create)
        assert status in (0, 42)
        scribe = Scribe(path)
        scribe.fill(scribe.declare("orders"), 3)
        scribe.store.close()
        assert check(path).findings == []
        assert sorted(os.listdir(path)) == ["data.mdb", "lock.mdb", "radiator.lock"]
        if status == 0:
            break
        steps += 1
    assert steps > 10, "too few steps were seen for this to say anything"


def test_what_an_unfinished_creation_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.mdb.new").write_bytes(b"half a store")
    Scribe(tmp_path / "data").store.close()
    assert sorted(os.listdir(tmp_path / "data")) == ["data.mdb", "lock.mdb", "radiator.lock"]


@pytest.mark.durability("D12")
def test_nothing_turns_the_sync_off(scribe: Scribe) -> None:
    """With `sync` or `metasync` off, or `writemap` on, a power cut loses or corrupts what was confirmed."""
    flags = scribe.store._env.flags()
    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (True, True, False, False)
    assert scribe.store._env.lib_version()[:2] == (0, 9)


# ---- what a start refuses -----------------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    """The sentence; and the data file is not touched."""
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(StoreError) as refused:
        open_store(path, MAP_BYTES)
    assert (path / "data.mdb").read_bytes() == before
    return str(refused.value)


@pytest.mark.parametrize("number", [0, 5, 2**64 - 1])
def test_other_format_is_refused_by_number(tmp_path: Path, number: int) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", META, FORMAT, records.encode_number(FORMAT, number))
    assert f"has format {number}, this Radiator reads formats 1 to 4:" in refusal(tmp_path / "data")


def test_store_of_another_program_is_refused(tmp_path: Path) -> None:
    with raw(tmp_path / "data") as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"value")
    assert "is an LMDB file, but not a store of Radiator" in refusal(tmp_path / "data")


def test_ledger_that_does_not_add_up_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    key = records.queue_key(1)
    rewrite(tmp_path / "data", b"ledgers", key, records.encode_ledger(key, Ledger(accepted=2, stored=1)))
    sentence = refusal(tmp_path / "data")
    assert "the ledger of queue 'orders'" in sentence and "does not add up" in sentence
    assert "damage, or a bug in Radiator. Run `radiator check`" in sentence


def test_ledgers_that_disagree_with_the_messages_are_refused(tmp_path: Path) -> None:
    messages, _ = filled(tmp_path / "data")
    queue, position = min(messages)
    rewrite(tmp_path / "data", MESSAGES, records.message_key(queue, position), None)
    stored = len(messages) + DELAYED
    assert f"say {stored} stored messages, LMDB counts {stored - 1}." in refusal(tmp_path / "data")


@pytest.mark.parametrize(("delayed", "moved"), [(1, "say 1 delayed message, LMDB counts 2."), (3, "say 3 delayed")])
def test_ledgers_that_disagree_with_the_delayed_messages_are_refused(
    tmp_path: Path, scribe: Scribe, delayed: int, moved: str
) -> None:
    queue = scribe.declare("orders")
    scribe.commit(scribe.put(queue), scribe.delay(queue, DUE_MS), scribe.delay(queue, DUE_MS))
    scribe.ledgers[queue].stored_delayed = delayed
    scribe.commit(scribe.put(queue))
    scribe.store.close()
    assert moved in refusal(tmp_path / "data")


@pytest.mark.parametrize(
    ("table", "key"),
    [
        (b"settings", records.settings_key(1)),
        (b"declared", records.declared_key("exchange", "x")),
        (b"bindings", records.binding_key(1, "x", "a.#")),
    ],
)
def test_damaged_row_of_a_declaration_is_refused(tmp_path: Path, table: bytes, key: bytes) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", table, key, b"\1rubbish and a lot more of it")
    assert f"under key {key.hex()} is damaged" in refusal(tmp_path / "data")


def test_binding_to_a_queue_that_is_not_there_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    key = records.binding_key(3, "x", "b")
    rewrite(tmp_path / "data", b"bindings", key, records.encode_binding(key, "x", "b"))
    sentence = refusal(tmp_path / "data")
    assert "there are bindings to queue 3, which is not there." in sentence
    assert "damage, or a bug in Radiator. Run `radiator check`" in sentence


@pytest.mark.parametrize("queue", [1, 2, 3, 9])
def test_message_in_doubt_that_is_not_there_is_refused(tmp_path: Path, queue: int) -> None:
    """3 is a deleted queue, whose messages are there."""
    messages, _ = filled(tmp_path / "data")
    key = records.doubt_key("node.b", 5)
    place = min((place for place in messages if place[0] == queue), default=(queue, 0))
    rewrite(tmp_path / "data", DOUBTS, key, records.encode_doubt(key, queue, place[1] + (queue < 3) * 1_000))
    sentence = refusal(tmp_path / "data")
    assert f"data.mdb message 5 is in doubt with node 'node.b', but the message is not in queue {queue}." in sentence
    assert "damage, or a bug in Radiator. Run `radiator check`" in sentence


def test_message_in_doubt_with_a_node_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", b"peers", records.peer_key("node.b"), None)
    assert "message 4 is in doubt with node 'node.b', but nothing is kept of the node." in refusal(tmp_path / "data")


@pytest.mark.parametrize("table", [b"peers", b"doubts"])
def test_damaged_row_of_a_node_is_refused(tmp_path: Path, table: bytes) -> None:
    filled(tmp_path / "data")
    key = records.peer_key("node.b") if table == b"peers" else records.doubt_key("node.b", 5)
    rewrite(tmp_path / "data", table, key, b"\1rubbish and a lot more of it")
    assert f"under key {key.hex()} is damaged" in refusal(tmp_path / "data")


@pytest.mark.parametrize("table", [table for table in TABLES if table != META])
def test_missing_table_is_refused(tmp_path: Path, table: bytes) -> None:
    filled(tmp_path / "data")
    with raw(tmp_path / "data") as env:
        opened = env.open_db(table)
        with env.begin(write=True) as txn:
            txn.drop(opened)
    assert "cannot be used: " in refusal(tmp_path / "data")


@pytest.mark.parametrize("table", [b"queues", b"ledgers"])
def test_queue_without_its_other_half_is_refused(tmp_path: Path, table: bytes) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", table, records.queue_key(1), None)
    assert "queues without a ledger, or ledgers without a queue" in refusal(tmp_path / "data")


@pytest.mark.parametrize("key", [b"boot", b"store_id", b"clean", b"next_queue", b"redelivered_below"])
def test_missing_row_of_meta_is_refused(tmp_path: Path, key: bytes) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", META, key, None)
    assert f"its table meta has no row {key.decode()!r}" in refusal(tmp_path / "data")


def test_damaged_row_of_meta_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    rewrite(tmp_path / "data", META, b"boot", records.encode_number(b"boot", 1)[:-1] + b"\0")
    assert "its checksum is" in refusal(tmp_path / "data")


def test_truncated_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """Read through the map it would kill the process (SIGBUS); the sentence must come first."""
    filled(tmp_path / "data")
    scribe = Scribe(tmp_path / "data")
    scribe.fill(1, 1, b"x" * 500_000)  # the file grows by it, so its last page is in use
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    whole = file.read_bytes()
    end = read_head(file).end_bytes
    for length in [*range(0, end, 16 * 4096), end - 4096, end - 1]:
        file.write_bytes(whole[:length])
        assert "cut off" in refusal(tmp_path / "data"), length


def test_file_whose_last_pages_are_free_and_unwritten_is_whole(tmp_path: Path) -> None:
    """LMDB leaves such a tail out of the file; a power cut can take our filling up away again."""
    scribe = Scribe(tmp_path / "data")
    queues = [scribe.declare(f"q{number}") for number in range(3)]
    file = tmp_path / "data" / "data.mdb"
    chance = random.Random(3)
    copies = 0
    for _ in range(150):
        puts = [
            scribe.put(chance.choice(queues), b"x" * chance.choice([50, 1_000, 3_000]))
            for _ in range(chance.randrange(1, 60))
        ]
        gone = {(put.queue, put.position) for put in chance.sample(puts, chance.randrange(len(puts)))}
        gone.update(chance.sample(sorted(scribe.messages), len(scribe.messages) // 2))
        scribe.commit(*puts, *[scribe.remove(*place) for place in sorted(gone)])
        data = file.read_bytes()
        unwritten = (len(data) - len(data.rstrip(b"\0"))) // 4096 * 4096
        if unwritten and copies < 5:
            copies += 1
            copy = tmp_path / f"copy{copies}"
            copy.mkdir()
            (copy / "data.mdb").write_bytes(data[:-unwritten])
            cut = Scribe(copy)
            assert all(cut.bodies(queue) == scribe.bodies(queue) for queue in queues)
            cut.store.close()
    assert copies, "no commit left free pages at the end: the test says nothing"


# ---- bit flips ----------------------------------------------------------------------------------------------------


def flipped_copy(path: Path, copy: Path, bit: int) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    data = bytearray((path / "data.mdb").read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    (copy / "data.mdb").write_bytes(data)


def some_bits(path: Path, count: int) -> list[int]:
    chance = random.Random(11)
    size = read_head(path / "data.mdb").end_bytes
    return [chance.randrange(size * 8) for _ in range(count)]


def test_flipped_bit_never_gives_a_wrong_message(tmp_path: Path) -> None:
    """Refused at the start, marked as damaged, or the process dies in LMDB: but what is given out was put in."""
    expected, _ = filled(tmp_path / "data")

    def load_all() -> None:
        try:
            store = open_store(tmp_path / "flipped", MAP_BYTES)
            for queue in (1, 2, 3):
                for found in store.load(ReadQueue(1, queue, 0, 1_000_000, 1 << 40)).messages:
                    if found.message is not None and expected.get((queue, found.position)) != found.message:
                        os._exit(7)
        except (StoreError, DiskFailed):
            pass

    for bit in some_bits(tmp_path / "data", 150):
        flipped_copy(tmp_path / "data", tmp_path / "flipped", bit)
        assert run_forked(load_all) not in (7, 99), f"bit {bit} gave a wrong message, or an exception of no known kind"


def test_damaged_message_is_withheld_and_the_others_are_given(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = [scribe.put(queue, b"body-%d" % nth) for nth in range(5)]
    scribe.commit(*puts)
    scribe.store.close()
    key = records.message_key(queue, puts[2].position)
    value = records.encode_message(key, message_of(b"body-2"))
    rewrite(tmp_path / "data", MESSAGES, key, value.replace(b"body-2", b"body-3"))
    scribe = Scribe(tmp_path / "data")
    assert scribe.bodies(queue) == [b"body-0", b"body-1", None, b"body-3", b"body-4"]
    found = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages[2]
    assert (found.position, found.message) == (puts[2].position, None)


@pytest.mark.parametrize("sequence", [0, 2**40])
def test_message_under_a_damaged_key_is_given_as_the_disk_has_it(tmp_path: Path, scribe: Scribe, sequence: int) -> None:
    """Its place means nothing: whoever asks sees that the positions do not ascend."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 4)
    file = tmp_path / "data" / "data.mdb"
    key, damaged = (records.message_key(queue, place) for place in (puts[1].position, position_of(1, sequence)))
    whole = file.read_bytes()
    assert whole.count(key) == 1
    with file.open("r+b") as served:  # a start would refuse so short a file: it is damaged while it is served
        served.seek(whole.index(key))
        served.write(damaged)
    found = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages
    places = [puts[nth].position for nth in range(4)]
    assert [stored.position for stored in found] == [places[0], position_of(1, sequence), *places[2:]]
    assert found[1].message is None


def test_short_file_with_keys_out_of_order_is_refused_in_a_sentence(tmp_path: Path, scribe: Scribe) -> None:
    """LMDB's own assertion about them would end the process by SIGABRT."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 4)
    scribe.store.close()
    file = tmp_path / "data" / "data.mdb"
    key, damaged = (records.message_key(queue, place) for place in (puts[1].position, position_of(1, 2**40)))
    file.write_bytes(file.read_bytes().replace(key, damaged))
    with pytest.raises(StoreError, match="damaged in LMDB's own structure: .* out of order .* Restore a backup"):
        Scribe(tmp_path / "data")


def test_damaged_count_says_redelivered_and_damaged_dedup_id_is_not_remembered(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.fill(queue, 1)[0]
    scribe.store.commit([Count(queue, put.position, 9, redelivered=False), Remember(queue, b"x", 9)])
    scribe = reopened(scribe, tmp_path / "data", clean=True)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    key, dedup = records.message_key(queue, put.position), records.dedup_key(queue, b"x")
    rewrite(tmp_path / "data", b"counts", key, records.encode_count(key, 9, False)[:-1] + b"?")
    rewrite(tmp_path / "data", b"dedup", dedup, records.encode_number(dedup, 9)[:-1] + b"?")
    scribe = Scribe(tmp_path / "data")
    assert marks(scribe, queue) == [(0, True)]
    assert not scribe.store.look_up(DedupLookup(1, queue, b"x", 0))
    assert len(checked(scribe).findings) == 3  # and the time that has lost its id


def rewritten(path: Path, scribe: Scribe, delays: list[Delay]) -> Scribe:
    """The next boot, with those delayed messages damaged."""
    scribe.store.close()
    for delay in delays:
        key = records.delayed_key(delay.queue, delay.due_ms, delay.position)
        value = records.encode_delayed(key, delay.message, 5, redelivered=False)
        rewrite(path, b"delayed", key, value.replace(b"body", b"bode"))
    return Scribe(path)


@pytest.mark.parametrize(("most", "bytes_max"), [(2, 1 << 20), (9, 1)])
def test_damaged_delayed_message_comes_without_message_and_keeps_no_other_back(
    tmp_path: Path, scribe: Scribe, most: int, bytes_max: int
) -> None:
    """However many there are before it: they stay where they are, and come in every answer."""
    queue = scribe.declare("orders")
    delays = [scribe.delay(queue, DUE_MS + nth, b"body-%d" % nth) for nth in range(8)]
    scribe.commit(*delays)
    scribe = rewritten(tmp_path / "data", scribe, [*delays[:5], delays[6]])
    found = scribe.store.load_delayed(ReadDelayed(1, queue, DUE_MS + 9, most, bytes_max))
    bodies = [one.stored.message and one.stored.message.body for one in found.messages]
    assert bodies == [None] * 5 + ([b"body-5", None, b"body-7"] if most == 2 else [b"body-5"])
    assert [one.due_ms for one in found.messages] == [delay.due_ms for delay in delays[: len(bodies)]]
    assert [one.stored.position for one in found.messages] == [delay.position for delay in delays[: len(bodies)]]
    assert found.next_due_ms == (0 if most == 2 else DUE_MS + 6)
    sound = [one for one in found.messages if one.stored.message is not None]
    wakes = [MakeDue(queue, one.due_ms, one.stored.position) for one in sound]
    scribe.store.commit(wakes)
    again = scribe.store.load_delayed(ReadDelayed(2, queue, DUE_MS + 7, 9, 1 << 20))
    assert [one.stored.message for one in again.messages] == [None] * 6


def test_damaged_delayed_messages_go_with_their_queue(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    delays = [scribe.delay(queue, DUE_MS + nth, b"body-%d" % nth) for nth in range(3)]
    scribe.commit(*delays)
    scribe = rewritten(tmp_path / "data", scribe, delays[:2])
    scribe.retire(queue, "orders")
    scribe.store.commit([Sweep(queue, 3, 0)])
    report = checked(scribe)
    assert (report.findings, report.messages) == ([], 0)


# ---- room ---------------------------------------------------------------------------------------------------------


def test_used_bytes_follow_what_is_stored_not_the_file(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    empty = scribe.store.used_bytes()
    puts = [put for _ in range(10) for put in scribe.fill(queue, 100, b"x" * 10_000)]
    full = scribe.store.used_bytes()
    assert empty < 200_000
    assert 10_000_000 < full < 15_000_000
    for start in range(0, 1_000, 100):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 100]])
    assert scribe.store.used_bytes() < empty + 100_000
    assert (tmp_path / "data" / "data.mdb").stat().st_size >= full - 100_000


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


def test_used_bytes_agree_with_what_a_compact_copy_needs(tmp_path: Path, scribe: Scribe) -> None:
    from radiator.storage.backup import backup

    queue = scribe.declare("orders")
    puts = [put for _ in range(20) for put in scribe.fill(queue, 200, b"x" * 2_500)]
    for start in range(0, 2_000, 200):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 200]])
    used = scribe.store.used_bytes()
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy", compact=True)
    copied = (tmp_path / "copy").stat().st_size
    assert copied <= used + 8 * 4096
    assert used <= copied * 1.02 + 8 * 4096


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
    map_bytes = read_head(file).map_bytes
    scribe.fill(queue, 1, bytes(map_bytes - 3 * FILL_AHEAD_BYTES))
    while map_bytes - read_head(file).end_bytes > FILL_AHEAD_BYTES // 2:
        scribe.fill(queue, 1, bytes(50_000))
    assert read_head(file).file_bytes == map_bytes


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


HOLD_SNAPSHOT = """
import sys
from pathlib import Path
from radiator.storage.lmdb.reader import Reader
with Reader(Path(sys.argv[1])) as reader, reader.snapshot() as snapshot:
    print("held", flush=True)
    sys.stdin.read()
"""


def test_reader_that_was_killed_pins_nothing_after_the_reader_check(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 200, b"x" * 10_000)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_SNAPSHOT, str(tmp_path / "data")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    for start in range(0, 200, 50):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 50]])
    assert scribe.store.used_bytes() > 2_000_000, "what a reader may still see is not free"
    holder.kill()
    holder.communicate()
    assert scribe.store.used_bytes() > 2_000_000
    scribe.store.reader_check()
    assert scribe.store.used_bytes() < 300_000


def test_snapshots_are_read_from_the_table_of_readers() -> None:
    table = "    pid         thread     txnid\n   12 7f0dc96b1680 -\n   77 7f0dc96b1680 41\n"
    assert snapshots(table) == [41]
    assert snapshots("(no active readers)\n") == []


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
            assert "data.mdb failed" in str(error)
            os._exit(42)

    assert run_forked(write_past_the_limit) == 42
    assert Scribe(path).bodies(queue) == [b"kept"]


# ---- threads ------------------------------------------------------------------------------------------------------


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


def test_start_does_not_depend_on_the_number_of_messages(tmp_path: Path, scribe: Scribe) -> None:
    """Counted in pages read, not in time: the start of a store 100 times as full touches hardly more of it."""
    queue = scribe.declare("orders")
    pages: list[int] = []
    for messages in (200, 20_000):
        for _ in range(messages // 200):
            scribe.fill(queue, 200, b"x" * 1_000)
        scribe.store.close()
        pages.append(minor_faults_of_a_start(tmp_path / "data"))
        scribe = Scribe(tmp_path / "data")
    assert pages[1] < pages[0] + 20  # 8 here; a scan of the second store takes over 400


def test_start_reads_nothing_of_messages_in_doubt_but_their_heads(tmp_path: Path, scribe: Scribe) -> None:
    """And as many as are in doubt, whatever else is stored."""
    queue = scribe.declare("orders")
    pages: list[int] = []
    for size in (1_000, 1_000_000):
        puts = scribe.fill(queue, 20, b"x" * size)
        doubts = [Doubt(f"n{size}", nth, queue, put.position) for nth, put in enumerate(puts, 1)]
        scribe.store.commit([KeepPeer(f"n{size}", "", 1, 0, 20, 0, 0), *doubts])
        scribe.store.close()
        pages.append(minor_faults_of_a_start(tmp_path / "data"))
        scribe = Scribe(tmp_path / "data")
    assert len(scribe.store.recovery.doubts) == 40
    assert {doubt.size for doubt in scribe.store.recovery.doubts} == {1_000 + 12, 1_000_000 + 12}
    assert pages[1] < pages[0] + 100  # a copy of one of the second store's messages takes 245


@pytest.mark.parametrize("queues", [1, 20])
def test_start_does_not_depend_on_the_number_of_delayed_messages(tmp_path: Path, scribe: Scribe, queues: int) -> None:
    """A look at the first of each queue."""
    numbers = [scribe.declare(f"q{nth}") for nth in range(queues)]
    pages: list[int] = []
    for messages in (200, 20_000):
        for start in range(0, messages, 200):
            delays = [
                scribe.delay(numbers[nth % queues], DUE_MS + nth, b"x" * 1_000) for nth in range(start, start + 200)
            ]
            scribe.commit(*delays)
        scribe.store.close()
        pages.append(minor_faults_of_a_start(tmp_path / "data"))
        scribe = Scribe(tmp_path / "data")
    assert [queue.next_due_ms for queue in scribe.store.recovery.queues] == [DUE_MS + nth for nth in range(queues)]
    assert pages[1] < pages[0] + 40 + 2 * queues  # a scan of the second store takes over 400


_START = """
import resource, sys
from radiator.storage.lmdb.store import open_store
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
store = open_store(sys.argv[1], int(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def minor_faults_of_a_start(data_dir: Path) -> int:
    """In a process of its own: nothing that this one holds is copied or counted."""
    started = subprocess.run(
        [sys.executable, "-c", _START, str(data_dir), str(MAP_BYTES)], capture_output=True, text=True, check=True
    )
    return int(started.stdout)


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
