"""A backup is one state of the store, taken while it is written to; a restore is another store with its messages."""

import fcntl
import os
import resource
import shutil
import signal
import stat
import sys
import threading
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.limits import MIB
from radiator.model.reads import ReadDelayed, ReadQueue
from radiator.model.writes import KeepTime, StoppedClean
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from radiator.storage.lmdb.reader import _watched
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import rewrite, run_forked
from tests.storage.broken_logs import break_entries, killed_copy, last_index, segments
from tests.storage.scribe import DELAYED, DUE_MS, MAP_BYTES, Scribe, filled
from tests.storage.test_check import running_writer, until

COMPACT = pytest.mark.parametrize("compact", [False, True])


@COMPACT
def test_restored_store_has_every_message_under_a_new_id(tmp_path: Path, compact: bool) -> None:
    expected, names = filled(tmp_path / "data")
    source = open_store(tmp_path / "data", MAP_BYTES)
    source.commit([StoppedClean()])
    source.close()
    backup(tmp_path / "data", tmp_path / "copy", compact)
    report = restore(tmp_path / "copy", tmp_path / "new")
    assert (report.findings, report.messages, report.delayed) == ([], len(expected) + DELAYED, DELAYED)
    scribe = Scribe(tmp_path / "new")
    recovery = scribe.store.recovery
    assert recovery.store_id != source.recovery.store_id
    assert recovery.boot > source.recovery.boot
    assert [queue.name for queue in recovery.queues] == names[:2]
    for queue in (1, 2, 3):
        bodies = [message.body for (number, _), message in sorted(expected.items()) if number == queue]
        assert scribe.bodies(queue) == bodies


def test_restored_messages_count_as_from_before_an_unclean_stop(tmp_path: Path) -> None:
    """Nobody knows what was delivered since the backup was made, however cleanly its broker stopped."""
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    scribe.fill(queue, 3)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "new")
    restored = Scribe(tmp_path / "new").store
    assert not restored.recovery.was_clean
    assert [found.redelivered for found in restored.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages] == [True] * 3


def test_restored_store_knows_no_nodes_and_what_was_in_doubt_is_stored(tmp_path: Path) -> None:
    """To the others it is a store that they have never seen: sequences of the old one mean nothing between them."""
    expected, _ = filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    assert restore(tmp_path / "copy", tmp_path / "new").findings == []
    recovery = Scribe(tmp_path / "data").store.recovery
    assert (len(recovery.peers), len(recovery.doubts)) == (1, 3)
    scribe = Scribe(tmp_path / "new")
    assert (scribe.store.recovery.peers, scribe.store.recovery.doubts) == ([], [])
    in_doubt = [(doubt.queue, doubt.position) for doubt in recovery.doubts]
    scribe.messages = {place: expected[place] for place in in_doubt}
    scribe.commit(*[scribe.remove(*place) for place in in_doubt])
    scribe.store.close()
    assert check(tmp_path / "new").findings == []


def test_backup_and_restore_carry_delays_and_declarations(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    before = Scribe(tmp_path / "data")
    delayed = before.store.load_delayed(ReadDelayed(1, 1, DUE_MS + 9, 9, 1 << 20))
    before.store.close()
    assert [one.due_ms for one in delayed.messages] == [DUE_MS, DUE_MS + 3]
    backup(tmp_path / "data", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "new")
    after = Scribe(tmp_path / "new").store
    assert after.load_delayed(ReadDelayed(1, 1, DUE_MS + 9, 9, 1 << 20)) == delayed
    recovered = before.store.recovery
    assert after.recovery.queues == recovered.queues and recovered.queues[0].next_due_ms == DUE_MS
    assert (after.recovery.declared, after.recovery.bindings) == (recovered.declared, recovered.bindings)
    assert len(recovered.declared) == 1 and len(recovered.bindings) == 4
    logs_and_transactions = [
        (recovery.logs, recovery.transactions, recovery.apps) for recovery in (after.recovery, recovered)
    ]
    assert logs_and_transactions[0] == logs_and_transactions[1] and all(logs_and_transactions[0])


def test_two_restores_of_one_backup_have_two_ids(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    ids = set()
    for name in ("one", "two"):
        restore(tmp_path / "copy", tmp_path / name)
        ids.add(Scribe(tmp_path / name).store.recovery.store_id)
    assert len(ids) == 2


@COMPACT
def test_backup_beside_a_running_broker_is_one_state_of_it(tmp_path: Path, compact: bool) -> None:
    writer = running_writer(tmp_path / "data")
    try:
        until(lambda: check(tmp_path / "data").messages > 500)
        for number in range(3):
            backup(tmp_path / "data", tmp_path / f"copy{number}", compact)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    for number in range(3):
        report = restore(tmp_path / f"copy{number}", tmp_path / f"new{number}")
        assert report.findings == []
        assert report.messages > 400
        Scribe(tmp_path / f"new{number}").store.close()


def test_compact_backup_leaves_free_pages_out(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    for put in scribe.fill(queue, 200, b"x" * 10_000):
        scribe.commit(scribe.remove(queue, put.position))
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "whole")
    backup(tmp_path / "data", tmp_path / "compact", compact=True)
    assert (tmp_path / "whole").stat().st_size > 2_000_000
    assert (tmp_path / "compact").stat().st_size < 200_000


def test_backup_and_restored_store_are_for_their_owner_alone(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    before = os.umask(0)
    try:
        backup(tmp_path / "data", tmp_path / "copy")
        restore(tmp_path / "copy", tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "new").iterdir()} == {0o600}


def test_backup_leaves_the_source_and_nothing_beside_it(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    before = (tmp_path / "data" / "data.mdb").read_bytes()
    backup(tmp_path / "data", tmp_path / "copy")
    assert (tmp_path / "data" / "data.mdb").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["copy", "data"]


def test_newer_backup_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    scribe = Scribe(tmp_path / "data")
    scribe.fill(1, 1)
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy")
    assert restore(tmp_path / "copy", tmp_path / "new").messages == 129 + DELAYED


@pytest.mark.parametrize("there", ["letter", "store", "directory", "link"])
def test_backup_over_anything_else_is_refused(tmp_path: Path, there: str) -> None:
    filled(tmp_path / "data")
    target = tmp_path / "target"
    if there == "letter":
        target.write_text("dear sir")
    elif there == "store":
        filled(tmp_path / "other")
        target = tmp_path / "other" / "data.mdb"
    elif there == "directory":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=f"{target} exists and is not a backup: choose another name"):
        backup(tmp_path / "data", target)


def test_backup_of_nothing_and_to_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a data directory"):
        backup(tmp_path / "data", tmp_path / "copy")
    filled(tmp_path / "data")
    with pytest.raises(StoreError, match="cannot be written"):
        backup(tmp_path / "data", tmp_path / "missing" / "copy")


def test_backup_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "data")

    def without_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        with pytest.raises(StoreError, match="cannot be copied: .*File too large"):
            backup(tmp_path / "data", tmp_path / "copy")

    assert run_forked(without_room) == 0
    assert os.listdir(tmp_path) == ["data"]


def test_backup_that_is_being_made_is_not_cleared_away(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    others = [tmp_path / name for name in ("x.7.radiator-backup.new", "y.8.new", "letter", "z.9.radiator-backup.new")]
    for other in others:
        other.touch()
    with others[0].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        backup(tmp_path / "data", tmp_path / "copy")
    assert sorted(os.listdir(tmp_path)) == ["copy", "data", "letter", "x.7.radiator-backup.new", "y.8.new"]


def test_backup_put_into_a_data_directory_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "new").mkdir()
    (tmp_path / "copy").rename(tmp_path / "new" / "data.mdb")
    with pytest.raises(StoreError, match="make a data directory from it with `radiator restore FILE DATA_DIR`"):
        open_store(tmp_path / "new", MAP_BYTES)
    assert any("is a backup" in finding for finding in check(tmp_path / "new").findings)
    with pytest.raises(StoreError, match="is a backup"):
        backup(tmp_path / "new", tmp_path / "second")


def test_backup_given_as_a_data_directory_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    with pytest.raises(StoreError, match="make a data directory from it with `radiator restore FILE DATA_DIR`"):
        open_store(tmp_path / "copy", MAP_BYTES)


def test_restore_into_a_used_directory_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    before = (tmp_path / "data" / "data.mdb").read_bytes()
    with pytest.raises(StoreError, match="holds a store already"):
        restore(tmp_path / "copy", tmp_path / "data")
    assert (tmp_path / "data" / "data.mdb").read_bytes() == before
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    with pytest.raises(StoreError, match="holds no store, but it holds 'letter'"):
        restore(tmp_path / "copy", tmp_path / "home")


def test_directory_with_an_unfinished_restore_is_not_served_and_may_be_emptied(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data.mdb.restore").touch()
    with pytest.raises(StoreError, match=r"remove .*data\.mdb\.restore to begin with an empty store"):
        open_store(tmp_path / "new", MAP_BYTES)
    (tmp_path / "new" / "data.mdb.restore").unlink()
    open_store(tmp_path / "new", MAP_BYTES).close()


def test_restore_that_finds_no_room_is_not_served_and_can_be_said_again(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")

    def without_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        with pytest.raises(StoreError, match="File too large"):
            restore(tmp_path / "copy", tmp_path / "new")

    assert run_forked(without_room) == 0
    with pytest.raises(StoreError, match="has not come to its end"):
        open_store(tmp_path / "new", MAP_BYTES)
    assert restore(tmp_path / "copy", tmp_path / "new").messages == 128 + DELAYED


def test_restore_takes_nothing_of_others_for_its_own(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "new.restoring").mkdir()
    (tmp_path / "new.restoring" / "letter").touch()
    with pytest.raises(StoreError, match="is in the way"):
        restore(tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_restore_beside_a_running_broker_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    scribe = Scribe(tmp_path / "running")
    with pytest.raises(StoreError, match="in use by another broker"):
        restore(tmp_path / "copy", tmp_path / "running")
    scribe.store.close()


@pytest.mark.parametrize("content", ["nothing", "letter", "store", "cut"])
def test_restore_of_what_is_no_whole_backup_is_refused(tmp_path: Path, content: str) -> None:
    filled(tmp_path / "data")
    source = tmp_path / "copy"
    if content == "letter":
        source.write_bytes(b"dear sir" * 1_000)
    elif content == "store":
        source = tmp_path / "data" / "data.mdb"
    elif content == "cut":
        backup(tmp_path / "data", source)
        os.truncate(source, source.stat().st_size // 2)
    with pytest.raises(StoreError, match="is not a backup made by `radiator backup`, or it is cut off"):
        restore(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_restore_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "broken").mkdir()
    (tmp_path / "copy").rename(tmp_path / "broken" / "data.mdb")
    rewrite(tmp_path / "broken", META, FORMAT, records.encode_number(FORMAT, records.FORMAT + 1))
    sentence = f"has format {records.FORMAT + 1}, this Radiator reads formats 1 to {records.FORMAT}:"
    with pytest.raises(StoreError, match=sentence):
        restore(tmp_path / "broken" / "data.mdb", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_restore_of_a_backup_with_a_damaged_message_says_which(tmp_path: Path) -> None:
    """One bad message is no reason to keep the others back."""
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("orders")
    scribe.commit(scribe.put(queue, b"sound"), scribe.put(queue, b"needle"))
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy", compact=True)
    data = (tmp_path / "copy").read_bytes()
    assert data.count(b"needle") == 1
    (tmp_path / "copy").write_bytes(data.replace(b"needle", b"noodle"))
    report = restore(tmp_path / "copy", tmp_path / "new")
    assert len(report.findings) == 1 and "its checksum is" in report.findings[0]
    assert Scribe(tmp_path / "new").bodies(queue) == [b"sound", None]


def test_restore_of_a_backup_with_a_damaged_structure_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy", compact=True)
    data = bytearray((tmp_path / "copy").read_bytes())
    at = data.rindex(b"o" * 900) // 4096 * 4096
    data[at + 12] ^= 0xFF  # where the free space of that page begins
    (tmp_path / "copy").write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"):
        restore(tmp_path / "copy", tmp_path / "new")


@pytest.mark.parametrize("step", ["backup", "restore"])
def test_killed_at_any_step_leaves_nothing_by_the_name_or_all_of_it(tmp_path: Path, step: str) -> None:
    filled(tmp_path / "data")
    if step == "restore":
        backup(tmp_path / "data", tmp_path / "copy")
    steps = 0
    status = 42
    while status == 42:
        copy = tmp_path / f"copy{steps}"
        new = tmp_path / f"new{steps}"

        def killed(copy: Path = copy, new: Path = new, last: int = steps) -> None:
            seen = 0

            def die_at_last(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal seen
                if event.startswith(("os.", "open", "fcntl.", "shutil.")):
                    if seen == last:
                        os._exit(42)
                    seen += 1

            sys.addaudithook(die_at_last)
            if step == "backup":
                backup(tmp_path / "data", copy)
            else:
                restore(tmp_path / "copy", new)

        status = run_forked(killed)
        assert status in (0, 42)
        if step == "backup":
            if copy.exists():
                assert restore(copy, new).messages == 128 + DELAYED
                shutil.rmtree(new)
                copy.unlink()
            backup(tmp_path / "data", tmp_path / "another")
            assert sorted(os.listdir(tmp_path)) == ["another", "data"], "what a killed one left goes with the next"
        else:
            if not (new / "data.mdb").exists():
                if new.exists():
                    with pytest.raises(StoreError, match="has not come to its end: run `radiator restore FILE"):
                        open_store(new, MAP_BYTES)
                restore(tmp_path / "copy", new)
            assert check(new).messages == 128 + DELAYED
            open_store(new, MAP_BYTES).close()
            assert sorted(os.listdir(new)) == ["data.mdb", "lock.mdb", "radiator.lock", "wal"]
            assert sorted(os.listdir(tmp_path)) == ["copy", "data", new.name]
            shutil.rmtree(new)
        steps += 1
    assert steps >= 8, "too few steps were seen for this to say anything"


def test_a_restored_store_keeps_no_time_however_old_its_backup_is(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path / "data")
    scribe.store.commit([KeepTime(5)])
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "new")
    restored = Scribe(tmp_path / "new").store
    assert restored.recovery.time_ms == 0
    restored.close()


def test_copy_is_watched_while_lmdb_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.storage.lmdb.reader._WATCH_EVERY_S", 0.001)
    heard: list[tuple[object, ...]] = []
    is_heard, threads = threading.Event(), threading.active_count()

    def hear(*found: object) -> None:
        heard.append(found)
        if found[2] == 7:
            is_heard.set()

    with (tmp_path / "copy").open("wb", buffering=0) as opened, _watched(opened.fileno(), 70, hear):
        opened.write(b"seventh")
        assert is_heard.wait(10)
    assert heard[-1] == ("copying", "bytes", 7, 70)
    assert threading.active_count() == threads


def damaged_log(tmp_path: Path, broken: int = 3) -> Path:
    """A store of which a kill has left five entries in the log alone, each with one message; one of them is damaged."""
    scribe = Scribe(tmp_path / "whole")
    queue = scribe.declare("orders")
    scribe.fill(queue, 1, b"in the tables")
    scribe.keeps_up = False
    at = last_index(scribe.path)
    for number in range(1, 6):
        scribe.fill(queue, 1, b"body %d" % number)
    path = killed_copy(scribe.path, tmp_path / "killed")
    if broken:
        break_entries(path, at + broken)
    return path


def test_a_backup_has_room_for_acks_that_only_the_log_has(tmp_path: Path) -> None:
    """Each copies a page of the backup, and takes 36 bytes of the log."""

    def ack_and_die() -> None:
        scribe = Scribe(tmp_path / "data", 128 * MIB)
        queue = scribe.declare("orders")
        positions = [put.position for _ in range(40) for put in scribe.fill(queue, 500, b"x" * 1700)]
        scribe.keeps_up = False
        scribe.store._follower._rows_bound = 1 << 30
        for start in range(0, len(positions), 1000):
            scribe.commit(*(scribe.remove(queue, position) for position in positions[start : start + 1000 : 2]))
        os._exit(0)

    assert run_forked(ack_and_die) == 0
    backup(tmp_path / "data", tmp_path / "copy", compact=True)
    assert restore(tmp_path / "copy", tmp_path / "new").messages == 10_000


@COMPACT
def test_a_store_whose_log_is_damaged_is_backed_up_on_request_alone(tmp_path: Path, compact: bool) -> None:
    path = damaged_log(tmp_path)
    files = [path / "data.mdb", *segments(path)]
    before = [file.read_bytes() for file in files]
    with pytest.raises(StoreError, match="follows it. Entries .* were receipted and cannot be read in order"):
        backup(path, tmp_path / "copy", compact)
    assert not (tmp_path / "copy").exists()
    report = backup(path, tmp_path / "copy", compact, despite_damage=True)
    assert report.findings == check(path).findings and len(report.findings) == 4
    assert "touched by 2 entries that can be read one by one: 2 messages put and missing." in report.findings[2]
    assert [file.read_bytes() for file in files] == before
    assert restore(tmp_path / "copy", tmp_path / "new").findings == []
    scribe = Scribe(tmp_path / "new")
    assert scribe.bodies(1) == [b"in the tables", b"body 1", b"body 2"]
    scribe.fill(1, 1, b"goes on")
    assert Scribe.bodies(scribe, 1)[-1] == b"goes on"


def test_a_whole_log_is_backed_up_whole_despite_damage_that_is_not_there(tmp_path: Path) -> None:
    path = damaged_log(tmp_path, broken=0)
    assert backup(path, tmp_path / "copy", despite_damage=True).findings == []
    restore(tmp_path / "copy", tmp_path / "new")
    assert len(Scribe(tmp_path / "new").bodies(1)) == 6


def test_a_store_whose_log_is_missing_is_backed_up_as_its_tables_are(tmp_path: Path) -> None:
    path = damaged_log(tmp_path, broken=0)
    shutil.rmtree(path / "wal")
    with pytest.raises(StoreError, match="wal is missing, and the broker was not stopped cleanly"):
        backup(path, tmp_path / "copy")
    first, second = backup(path, tmp_path / "copy", despite_damage=True).findings
    assert "wal is missing" in first and second.startswith("Nothing shows whether anything was receipted after entry")
    restore(tmp_path / "copy", tmp_path / "new")
    assert Scribe(tmp_path / "new").bodies(1) == [b"in the tables"]


def test_damaged_tables_are_backed_up_no_more_than_before(tmp_path: Path) -> None:
    path = damaged_log(tmp_path)
    (path / "data.mdb").write_bytes(b"rubbish" * 10_000)
    with pytest.raises(StoreError, match="not an LMDB"):
        backup(path, tmp_path / "copy", despite_damage=True)
