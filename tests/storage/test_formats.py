"""Every format that was ever released is still read: a backup of each lies in formats/.

And a store of an earlier one becomes one of the present format with its first start, or stays what it is.
"""

import json
import os
import resource
import shutil
import signal
import tarfile
from base64 import b64decode
from dataclasses import astuple, replace
from pathlib import Path

import lmdb
import pytest

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.keys import hash_of as key_hash
from radiator.model.message import position_of
from radiator.model.reads import DedupLookup, ReadDelayed, ReadHeld, ReadKeys, ReadLog, ReadPrepared, ReadQueue
from radiator.model.recovery import Recovery, StoredDoubt
from radiator.model.settings import LogKeep
from radiator.model.writes import (
    Bind,
    Delay,
    Doubt,
    KeepApp,
    KeepDeclared,
    KeepPeer,
    KeepPosition,
    KeepTransaction,
    SaveLedger,
    StoppedClean,
)
from radiator.storage import changes
from radiator.storage.backup import backup, restore
from radiator.storage.changes import Changes
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.operations import Upsert
from radiator.storage.codec.tables import (
    APPLIED,
    BACKUP,
    BOOT,
    BY_KEY,
    CLEAN,
    DELAYED,
    DOUBTS,
    FIRST_WITH_LOG,
    FORMAT,
    HELD,
    MESSAGES,
    META,
    NODE,
    PEERS,
    REDELIVERED_BELOW,
    TABLES,
    tables_of,
)
from radiator.storage.compact import compact
from radiator.storage.lmdb.datafile import open_for_writing, write_meta
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from radiator.storage.rename import rename
from radiator.storage.wal import WalEntry
from tests.formats.make import KEYED, LATE_MS
from tests.storage.breaking import run_forked
from tests.storage.scribe import DUE_MS, MAP_BYTES, Scribe, hash_of, message_of, send_of, write_logs
from tests.storage.small_store import BINDINGS, write_small_backup

FORMATS = Path(__file__).with_name("formats")
RELEASED = Path(__file__).parent.parent / "formats"
OLD = pytest.mark.parametrize("number", range(1, records.FORMAT))
FIRST_WITH_KEYS = 6  # its messages are found by their keys
ALL_POSITIONS = (1 << 96) - 1
WITH_LOG = pytest.mark.parametrize("number", range(FIRST_WITH_LOG, records.FORMAT))


@pytest.mark.parametrize("number", range(1, records.FORMAT + 1))
def test_every_released_format_is_read(tmp_path: Path, number: int) -> None:
    report = restore(FORMATS / f"format-{number}.mdb", tmp_path / "data")
    assert report.findings == []
    assert not [table for table, _ in rows_of(tmp_path / "data") if table in (PEERS, DOUBTS)], (
        "of another store's links"
    )
    store = Scribe(tmp_path / "data").store
    recovery = store.recovery
    assert [(queue.number, queue.name, queue.ledger.stored) for queue in recovery.queues[:2]] == [
        (1, "orders", 3),
        (2, "mail.ä", 1),
    ]
    assert (recovery.boot, recovery.next_queue, recovery.retired) == (
        2,
        (4, 4, 5, 7, 7, 8)[number - 1],
        {3: 2 if number < 3 else 3},
    )
    orders = store.load(ReadQueue(1, 1, 0, 10, 1 << 20)).messages
    assert [stored.message.body for stored in orders if stored.message] == [b"order 1", b"order 2", b"order 3"]
    assert [stored.redeliveries for stored in orders] == [3, 0, 0]
    assert [stored.position for stored in orders] == [position_of(1, sequence) for sequence in (1, 2, 3)]
    [mail] = store.load(ReadQueue(1, 2, 0, 10, 1 << 20)).messages
    assert mail.message is not None
    assert (mail.message.body, mail.message.headers) == (b"\0" * 5_000, b"colour:blue\n")
    assert (mail.message.accepted_ms, mail.message.expires_ms) == (1_800_000_000_000, 1_900_000_000_000)
    assert store.look_up(DedupLookup(1, 1, b"order-1", 1_900_000_000_000))


def test_what_is_written_now_is_what_the_newest_fixture_holds(tmp_path: Path) -> None:
    """If only this fails, the fixture is of another format than the one in force: give that a number and a fixture."""
    write_small_backup(tmp_path / "now.mdb")
    own = {b"store_id", APPLIED}
    assert rows_of(tmp_path / "now.mdb", own) == rows_of(FORMATS / f"format-{records.FORMAT}.mdb", own)


def test_what_format_2_says_of_nodes_is_read(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    store = Scribe(tmp_path).store
    assert store.recovery.peers == [KeepPeer("node.b", "0123456789abcdef", 9, 6, 8, 7, 12)]
    assert store.recovery.doubts == [
        StoredDoubt("node.b", sequence, 1, position_of(1, sequence - 5), 19, False) for sequence in (7, 8)
    ]


def test_what_format_3_says_of_delays_and_declarations_is_read(tmp_path: Path) -> None:
    old_store(tmp_path, 3)
    store = Scribe(tmp_path).store
    orders, mail, late = store.recovery.queues
    assert (orders.settings, mail.settings, late.settings) == ('{"max_messages": 9}', "", "")
    assert (late.name, late.next_due_ms, orders.next_due_ms) == ("$durable/topic/a.#/ä", DUE_MS - 1, 0)
    assert (late.ledger.stored, late.ledger.stored_delayed, late.ledger.stored_delayed_bytes) == (4, 3, 3 * 18)
    found = store.load_delayed(ReadDelayed(1, 4, DUE_MS + 3, 9, 1 << 20))
    assert [(one.due_ms, one.stored.message.body, one.stored.redeliveries) for one in found.messages] == [  # type: ignore[union-attr]
        (DUE_MS - 1, b"late 2", 4),
        (DUE_MS + 1, b"late 1", 0),
    ]
    assert found.next_due_ms == DUE_MS + 3
    assert [one.stored.message.expires_ms for one in found.messages] == [0, 1_900_000_000_000]  # type: ignore[union-attr]
    [woken] = store.load(ReadQueue(1, 4, 0, 9, 1 << 20)).messages
    assert woken.message is not None and woken.message.body == b"late 0"
    assert store.recovery.declared == [
        KeepDeclared("exchange", "x", '{"type": "topic"}'),
        KeepDeclared("fanout", "f", '{"children": ["orders"]}'),
    ]
    assert sorted(store.recovery.bindings, key=astuple) == BINDINGS


def test_what_format_4_says_of_logs_and_prepared_transactions_is_read(tmp_path: Path) -> None:
    restore(FORMATS / "format-4.mdb", tmp_path / "data")
    store = Scribe(tmp_path / "data").store
    trail, journal = store.recovery.logs
    assert (trail.number, trail.name, trail.settings) == (5, "trail", '{"partitions": 2}')
    assert [(row.partition, row.first, row.begin, row.count, row.size) for row in trail.segments] == [
        (0, 0, 0, 1, 12),
        (1, 0, 0, 5, 60),
        (1, 5, 5, 3, 36),
    ]
    assert (trail.segments[2].first_ms, trail.segments[2].last_ms) == (DUE_MS + 5, DUE_MS + 7)
    assert trail.positions == [KeepPosition(5, "g", [1, 2])]
    loaded = store.load_log(ReadLog(1, 5, 1, 3, 3, 1 << 20)).records
    assert [(one.offset, one.message.body, one.message.headers) for one in loaded if one.message] == [
        (number, b"record %d" % number, b"n:%d\n" % number) for number in (3, 4, 5)
    ]
    assert (journal.name, journal.settings, [row.count for row in journal.segments]) == ("journal", "", [9])
    [answer] = store.load_log(ReadLog(1, 6, 0, 8, 9, 1 << 20)).records
    assert answer.message is not None
    assert json.loads(answer.message.body) == {
        "seq": 8, "event": "acked", "ms": DUE_MS + 8, "queue": "orders", "attempt": 0, "bytes": 9, "client": "1/a",
        "message_id": f"{store.recovery.store_id}-1-8",
    }  # fmt: skip
    assert store.recovery.transactions == [KeepTransaction(1, "", 4, 40, 1, DUE_MS)]
    assert store.recovery.apps == [KeepApp("app", 7, DUE_MS)]
    sends = store.load_prepared(ReadPrepared(1, 1, 0, 9, 1 << 20)).sends
    assert sends == [send_of(number) for number in (1, 2, 3)]


def test_what_format_6_says_of_keys_is_read(tmp_path: Path) -> None:
    restore(FORMATS / "format-6.mdb", tmp_path / "data")
    store = Scribe(tmp_path / "data").store
    assert [(queue.number, queue.name, queue.ledger.stored) for queue in store.recovery.queues[-1:]] == [
        (7, "keyed", 5)
    ]
    keys = [(hash_of(number), 0) for number in range(3)]
    found = store.load_keys(ReadKeys(1, 7, keys, position_of(2, 0), 9, 1 << 20)).found
    assert [[one.message.body for one in of_key.messages if one.message] for of_key in found] == [
        [b"keyed 2", b"keyed 4"],
        [b"keyed 1"],
        [],
    ]
    [late] = store.load_delayed(ReadDelayed(1, 7, DUE_MS + 1, 9, 1 << 20)).messages
    assert late.stored.message is not None and late.stored.message.body == b"keyed 3"
    assert store.load_held(ReadHeld(1, 7, 0, 9)).held == [(late.stored.position, hash_of(1))]


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("number", range(FIRST_WITH_KEYS, records.FORMAT + 1))
def test_what_a_released_broker_was_told_of_keys_is_found_by_them(tmp_path: Path, number: int, kind: str) -> None:
    """Each key's messages in order, also of those that its log alone has; and what holds its key until it is due."""
    unpack(tmp_path, number, kind)
    expected = json.loads((RELEASED / str(number) / f"{kind}.json").read_text())
    assert check(tmp_path).findings == []
    store = Scribe(tmp_path).store
    [queue] = [row.number for row in store.recovery.queues if row.name == KEYED]
    (held, *behind), (later,) = expected["keys"]["late"]
    ann, cleo, *keyless = expected["keys"]["free"]
    names = [key_hash(name) for name in (b"ann", b"cleo", b"ben", b"dan")]
    keys = ReadKeys(1, queue, [(name, 0) for name in names], ALL_POSITIONS, 99, 1 << 20)
    found = [[one.message and one.message.body for one in of_key.messages] for of_key in store.load_keys(keys).found]
    assert found == [[b64decode(entry["body"]) for entry in entries] for entries in (ann, cleo, behind, [])]
    late = store.load_delayed(ReadDelayed(1, queue, expected["written_ms"] + LATE_MS, 9, 1 << 20)).messages
    position = {one.stored.message.body: one.stored.position for one in late if one.stored.message}
    assert {*position} == {b64decode(entry["body"]) for entry in (held, later)}
    assert store.load_held(ReadHeld(1, queue, 0, 9)).held == [(position[b64decode(held["body"])], key_hash(b"ben"))]
    everything = store.load(ReadQueue(1, queue, 0, 99, 1 << 20)).messages
    assert len(everything) == sum(map(len, [*found, keyless]))


# ---- an earlier format becomes the present one ----------------------------------------------------------------------


def old_store(path: Path, number: int) -> None:
    """As the broker of that format left it, if it had no log: the fixture is its copy with one row more, or two."""
    shutil.copyfile(FORMATS / f"format-{number}.mdb", path / "data.mdb")
    write_meta(path / "data.mdb", {BACKUP: None, APPLIED: None}, 1 << 26)


def old_store_with_log(path: Path, number: int) -> None:
    """As the broker of that format left it when it was killed: its tables are behind its log."""
    unpack(path, number, "unclean")


def unpack(path: Path, number: int, kind: str) -> None:
    with tarfile.open(RELEASED / str(number) / f"{kind}.tar.xz") as packed:
        packed.extractall(path)


@OLD
def test_first_start_of_an_earlier_format_changes_nothing_but_what_is_new(tmp_path: Path, number: int) -> None:
    old_store(tmp_path, number)
    before = rows_of(tmp_path)
    assert check(tmp_path).findings == []
    assert rows_of(tmp_path) == before
    assert names_of(tmp_path) == set(tables_of(number))
    scribe = Scribe(tmp_path)
    recovery = scribe.store.recovery
    assert (len(recovery.peers), len(recovery.doubts)) == ((0, 0) if number == 1 else (1, 2))
    assert (len(recovery.declared), len(recovery.bindings)) == ((0, 0) if number < 3 else (2, len(BINDINGS)))
    if number < 3:
        assert [(queue.settings, queue.next_due_ms) for queue in recovery.queues] == [("", 0)] * 2
        assert all(queue.ledger.stored_delayed == 0 for queue in recovery.queues)
    logs_and_transactions = (len(recovery.logs), len(recovery.transactions), len(recovery.apps))
    assert logs_and_transactions == ((0, 0, 0) if number < 4 else (2, 1, 1))
    bindings = [*recovery.bindings, Bind("", "b.#", 1)]
    scribe.store.close()
    started = {
        (META, FORMAT): records.encode_number(FORMAT, records.FORMAT),
        (META, BOOT): records.encode_number(BOOT, 2),
        (META, CLEAN): records.encode_number(CLEAN, 0),
        (META, REDELIVERED_BELOW): records.encode_number(REDELIVERED_BELOW, 2),
    }
    assert rows_of(tmp_path, {APPLIED}) == before | started
    assert (names_of(tmp_path), check(tmp_path).findings) == (set(TABLES), [])
    scribe = Scribe(tmp_path)
    mail = scribe.store.recovery.queues[1]
    message = message_of(b"late")
    ledger = replace(mail.ledger, accepted=2, accepted_bytes=mail.ledger.accepted_bytes + message.size, stored=2)
    ledger.stored_bytes, ledger.stored_delayed, ledger.stored_delayed_bytes = ledger.accepted_bytes, 1, message.size
    scribe.store.commit([KeepPeer("b", "", 1, 0, 1, 0, 0), Doubt("b", 1, 2, position_of(1, 4)), Bind("", "b.#", 1)])
    if number < 4:
        write_logs(scribe.store, recovery.next_queue)
    scribe.store.commit([Delay(2, DUE_MS, position_of(3, 0), message), SaveLedger(2, ledger)])
    scribe.store.close()
    recovery = recovered(tmp_path)
    assert len(recovery.doubts) == (1 if number == 1 else 3)
    assert sorted(recovery.bindings, key=astuple) == sorted(bindings, key=astuple)
    assert ([log.name for log in recovery.logs], len(recovery.transactions)) == (["trail", "journal"], 1)
    assert (recovery.queues[1].ledger, recovery.queues[1].next_due_ms) == (ledger, DUE_MS)
    assert check(tmp_path).findings == []


@OLD
@pytest.mark.parametrize("pages", range(0, 12, 2))
def test_first_start_that_cannot_write_on_leaves_the_earlier_format(tmp_path: Path, pages: int, number: int) -> None:
    """The file may grow by so many pages: the new tables, the number and the boot are there together or not at all."""
    old_store(tmp_path, number)
    before = rows_of(tmp_path)

    def start() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (tmp_path / "data.mdb").stat().st_size + pages * 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            Scribe(tmp_path)
        except (DiskFailed, StoreError):
            os._exit(3)

    status = run_forked(start)
    assert status in (0, 3)
    if status == 3:
        assert rows_of(tmp_path) == before
        assert names_of(tmp_path) == set(tables_of(number))
    assert recovered(tmp_path).boot == (2 if status == 3 else 3)
    assert names_of(tmp_path) == set(TABLES)


@OLD
@pytest.mark.parametrize("last", [FORMAT, REDELIVERED_BELOW])
def test_first_start_killed_before_a_commit_leaves_a_whole_store(tmp_path: Path, number: int, last: bytes) -> None:
    """Of the earlier format before the first one, and of the present one, before its boot, before the second."""
    old_store(tmp_path, number)
    before = rows_of(tmp_path)

    kill_before(tmp_path, last)
    if last == FORMAT:
        assert rows_of(tmp_path) == before
        assert names_of(tmp_path) == set(tables_of(number))
    else:
        assert rows_of(tmp_path, {FORMAT, APPLIED}) == {row: before[row] for row in before if row[1] != FORMAT}
        assert names_of(tmp_path) == set(TABLES)
    assert recovered(tmp_path).boot == 2
    assert check(tmp_path).findings == []


@OLD
def test_backup_of_an_earlier_format_is_of_it_and_its_restored_store_of_the_present_one(
    tmp_path: Path, number: int
) -> None:
    (tmp_path / "data").mkdir()
    old_store(tmp_path / "data", number)
    before = rows_of(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    assert rows_of(tmp_path / "copy", {BACKUP}) == before
    restore(tmp_path / "copy", tmp_path / "new")
    assert rows_of(tmp_path / "new")[META, FORMAT] == records.encode_number(FORMAT, records.FORMAT)
    assert names_of(tmp_path / "new") == set(TABLES)


# ---- one with a log -------------------------------------------------------------------------------------------------


@WITH_LOG
def test_what_an_earlier_format_has_in_its_log_alone_is_read_and_carried_out(tmp_path: Path, number: int) -> None:
    old_store_with_log(tmp_path, number)
    behind = entries_behind(tmp_path)
    assert len(behind) > 1, "the tables have it all: this shows nothing"
    before = rows_of(tmp_path)
    assert check(tmp_path).findings == []
    backup(tmp_path, tmp_path.parent / "copy")
    assert rows_of(tmp_path.parent / "copy", {BACKUP, APPLIED}) == rows_of(tmp_path, {APPLIED})
    scribe = Scribe(tmp_path)
    assert scribe.store._wal.place.index == behind[-1].place.index + 1, "the log goes on with the new boot"
    scribe.store.close()
    boot = records.decode_number(BOOT, before[META, BOOT]) + 1
    started = {
        (META, FORMAT): records.encode_number(FORMAT, records.FORMAT),
        (META, BOOT): records.encode_number(BOOT, boot),
        (META, CLEAN): records.encode_number(CLEAN, 0),
        (META, REDELIVERED_BELOW): records.encode_number(REDELIVERED_BELOW, boot),
    }
    ignored = {APPLIED}
    assert rows_of(tmp_path, ignored) == {row: before[row] for row in before if row[1] not in ignored} | started
    assert (names_of(tmp_path), check(tmp_path).findings) == (set(TABLES), [])


@WITH_LOG
def test_store_whose_log_is_gone_behind_a_clean_stop_becomes_one_of_the_present_format(
    tmp_path: Path, number: int
) -> None:
    old_store_with_log(tmp_path, number)
    scribe = Scribe(tmp_path)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    age(tmp_path, number)
    shutil.rmtree(tmp_path / "wal")
    scribe = Scribe(tmp_path)
    scribe.fill(scribe.declare("more"), 3, keys=1)
    scribe.store.close()
    assert (names_of(tmp_path), check(tmp_path).findings) == (set(TABLES), [])


@WITH_LOG
@pytest.mark.parametrize("last", [FORMAT, REDELIVERED_BELOW])
def test_start_of_one_with_a_log_that_is_killed_is_made_again(tmp_path: Path, number: int, last: bytes) -> None:
    old_store_with_log(tmp_path, number)
    before = rows_of(tmp_path)
    kill_before(tmp_path, last)
    assert rows_of(tmp_path, {FORMAT, APPLIED}) == {
        row: before[row] for row in before if row[1] not in (FORMAT, APPLIED)
    }
    assert names_of(tmp_path) == set(tables_of(number) if last == FORMAT else TABLES)
    scribe = Scribe(tmp_path)
    assert scribe.boot == records.decode_number(BOOT, before[META, BOOT]) + 1
    scribe.store.close()
    assert (names_of(tmp_path), check(tmp_path).findings) == (set(TABLES), [])


@WITH_LOG
def test_backup_of_an_earlier_format_is_brought_forward_by_a_log_that_goes_on_in_the_present_one(
    tmp_path: Path, number: int
) -> None:
    (tmp_path / "data").mkdir()
    old_store_with_log(tmp_path / "data", number)
    backup(tmp_path / "data", tmp_path / "copy")
    scribe = Scribe(tmp_path / "data", log_keep=LogKeep(max_bytes=1 << 30))
    more = scribe.declare("more")
    puts = scribe.fill(more, 3, keys=1)
    scribe.commit(scribe.remove(more, puts[0].position), scribe.delay(more, DUE_MS, b"late", held=hash_of(1)))
    scribe.store.close()
    report = restore(tmp_path / "copy", tmp_path / "new", log=tmp_path / "data")
    assert report.findings == []
    tables = (MESSAGES, DELAYED, BY_KEY, HELD)
    restored, written = rows_of(tmp_path / "new"), rows_of(tmp_path / "data")
    assert {row: restored[row] for row in restored if row[0] in tables} == {
        row: written[row] for row in written if row[0] in tables
    }
    assert len([row for row in restored if row[0] in (BY_KEY, HELD)]) == 3


@WITH_LOG
def test_store_of_an_earlier_format_is_renamed_and_compacted(tmp_path: Path, number: int) -> None:
    old_store_with_log(tmp_path, number)
    before = rows_of(tmp_path, {APPLIED})
    rename(tmp_path, "node.b")
    compact(tmp_path)
    assert rows_of(tmp_path, {APPLIED, NODE}) == {row: before[row] for row in before if row[1] != NODE}
    assert names_of(tmp_path) == set(tables_of(number))


def recovered(path: Path) -> Recovery:
    """Of a start; it is stopped again."""
    store = Scribe(path).store
    store.close()
    return store.recovery


def entries_behind(path: Path) -> list[WalEntry]:
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return snapshot.entries_behind


def age(path: Path, number: int) -> None:
    """Makes a store of the present format one of that: it has nothing that came later."""
    write_meta(path / "data.mdb", {FORMAT: records.encode_number(FORMAT, number)}, 1 << 26)
    with open_for_writing(path, 1 << 26) as env, env.begin(write=True) as txn:
        for name in set(TABLES) - set(tables_of(number)):
            txn.drop(env.open_db(name, txn=txn, create=False))


def kill_before(path: Path, last: bytes) -> None:
    """A start is killed before it has written that row of meta, or anything of the transaction that it is in."""

    def upsert_and_die(run: Changes, operation: Upsert) -> None:
        Changes._upsert(run, operation)
        if operation.rows[0][0] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def start() -> None:
        changes._CARRY_OUT[Upsert] = upsert_and_die
        open_store(path, MAP_BYTES)

    assert run_forked(start) == -signal.SIGKILL


def rows_of(path: Path, ignored: frozenset[bytes] | set[bytes] = frozenset()) -> dict[tuple[bytes, bytes], bytes]:
    """Every row of every table."""
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {
            (table, key): bytes(value) for table in TABLES for key, value in snapshot.rows(table) if key not in ignored
        }


def names_of(path: Path) -> set[bytes]:
    """The names of LMDB's databases in the file."""
    with lmdb.open(str(path), readonly=True, lock=False, lib_version=0) as env, env.begin() as txn:
        return set(txn.cursor().iternext(values=False))
