"""What a start finds in a store, and what it refuses."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from radiator.model.writes import Count, Declare, Doubt, KeepPeer, Ledger
from radiator.storage.codec import records
from radiator.storage.codec.tables import DOUBTS, MESSAGES, META, TABLES
from tests.storage.breaking import marks, raw, refusal, reopened, rewrite
from tests.storage.scribe import DELAYED, DUE_MS, MAP_BYTES, Scribe, filled


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
from tests.storage.breaking import marks, raw, refusal, reopened, rewrite
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
