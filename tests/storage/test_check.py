"""`radiator check` finds every kind of damage, and finds nothing where there is none, beside a running broker too."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.message import position_of
from radiator.model.writes import Bind, KeepDeclared, KeepPeer, Ledger
from radiator.storage import check as checking
from radiator.storage.check import check
from radiator.storage.codec import records, transactions
from radiator.storage.codec.tables import FORMAT, META, TABLES
from radiator.tools.cli import main
from tests.storage.breaking import flipped_copy, raw, rewrite, run_forked, some_bits
from tests.storage.scribe import DELAYED, DUE_MS, LOG, Scribe, filled, message_of

DUPSORT = 0x04


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with something in every table."""
    filled(tmp_path / "data")
    return tmp_path / "data"


def only_finding(path: Path) -> str:
    report = check(path)
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def test_sound_store_has_no_findings_and_is_counted(path: Path) -> None:
    report = check(path)
    assert (report.findings, report.structure_checked) == ([], True)
    assert (report.messages, report.queues, report.counts, report.dedup_ids) == (128 + DELAYED, 2, 18, 20)
    bodies = 20 * (0 + 10 + 900 + 5_000) * 3 // 2 + 3 * 4 + 5 * 100 + sum(range(DELAYED))
    assert report.message_bytes == bodies + (128 + DELAYED) * len(b"colour:blue\n")
    assert (report.delayed, report.bindings, report.exchanges_elsewhere) == (DELAYED, 4, ["y"])
    assert (report.logs, report.records, report.prepared) == (2, 1 + 8 + 9, 1)


def test_new_store_has_no_findings(tmp_path: Path) -> None:
    Scribe(tmp_path / "data").store.close()
    assert check(tmp_path / "data").findings == []


def test_check_changes_nothing_and_takes_no_broker_lock(path: Path) -> None:
    (path / "lock.mdb").unlink()
    before = {file: file.read_bytes() for file in path.rglob("*.*")}
    check(path)
    assert {file: file.read_bytes() for file in path.rglob("*.*")} == before


def test_check_of_slices_smaller_than_the_tables_finds_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = check(path)
    for records_each in (1, 7):
        monkeypatch.setattr(checking, "CHECK_SLICE_RECORDS", records_each)
        assert check(path) == whole


@pytest.mark.parametrize("content", [None, "directory"])
def test_what_is_no_data_directory_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "data").mkdir()
    with pytest.raises(StoreError, match=r"is not a data directory: it has no data\.mdb"):
        check(tmp_path / "data")


def test_any_flipped_bit_that_matters_is_found(path: Path) -> None:
    """Without a finding, all that is stored must be as it was. And a check must live to tell."""
    expected, _ = filled(path.parent / "same")

    def check_or_compare() -> None:
        if check(path.parent / "flipped").findings:
            os._exit(3)
        scribe = Scribe(path.parent / "flipped")
        for queue in (1, 2, 3):
            bodies = [message.body for (number, _), message in sorted(expected.items()) if number == queue]
            assert scribe.bodies(queue) == bodies

    found = 0
    for bit in some_bits(path, 300):
        flipped_copy(path, path.parent / "flipped", bit)
        status = run_forked(check_or_compare)
        assert status in (0, 3), f"bit {bit}: {status}"
        found += status == 3
    assert found > 100


def test_flipped_bit_in_a_body_is_found(path: Path) -> None:
    scribe = Scribe(path)
    scribe.fill(1, 1, b"needle")
    scribe.store.close()
    data = (path / "data.mdb").read_bytes()
    assert data.count(b"needle") == 1
    flipped_copy(path, path.parent / "flipped", data.index(b"needle") * 8)
    assert "The message under key 00000001" in only_finding(path.parent / "flipped")
    assert "is damaged: its checksum is" in only_finding(path.parent / "flipped")


@pytest.mark.parametrize("length", [0, 5_000, 40_000])
def test_truncated_file_is_found(path: Path, length: int) -> None:
    os.truncate(path / "data.mdb", length)
    assert "cut off" in only_finding(path)


def test_foreign_file_is_found(path: Path) -> None:
    (path / "data.mdb").write_bytes(b"GIF89a" * 5_000)
    assert "is not an LMDB 0.9 file" in only_finding(path)


def test_newer_format_is_found(path: Path) -> None:
    rewrite(path, META, FORMAT, records.encode_number(FORMAT, records.FORMAT + 1))
    assert f"has format {records.FORMAT + 1}, this Radiator reads formats 1 to {records.FORMAT}:" in only_finding(path)


def test_damaged_rows_of_every_table_are_found(path: Path) -> None:
    orders = records.queue_key(1)
    message = records.message_key(1, position_of(1, 0))
    dedup = records.dedup_key(1, b"order-0")
    by_time = records.dedup_time_key(1_800_000_000_000, dedup)
    for table, key in [
        (b"messages", message),
        (b"counts", message),
        (b"queues", orders),
        (b"ledgers", orders),
        (b"retired", records.queue_key(3)),
        (b"dedup", dedup),
        (b"dedup_by_time", by_time),
        (b"peers", records.peer_key("node.b")),
        (b"doubts", records.doubt_key("node.b", 5)),
        (b"settings", records.settings_key(1)),
        (b"declared", records.declared_key("exchange", "x")),
        (b"bindings", records.binding_key(1, "x", "a.#")),
        (b"delayed", records.delayed_key(1, DUE_MS, position_of(1, 123))),
        (b"logs", records.log_key(LOG)),
        (b"records", records.record_key(LOG, 1, 5)),
        (b"records", records.record_key(LOG + 1, 0, 0)),
        (b"segments", records.record_key(LOG, 0, 0)),
        (b"positions", records.group_key(LOG, "g")),
        (b"stages", transactions.transaction_key(1)),
        (b"staged", transactions.send_key(1, 3)),
        (b"apps", transactions.app_key("app")),
        (b"meta", b"store_id"),
        (b"meta", b"boot"),
    ]:
        broken = path.parent / f"{table.decode()}-{key.hex()[:8]}"
        filled(broken)
        rewrite(broken, table, key, b"\x01rubbish and more of it")
        findings = check(broken).findings
        assert any("is damaged" in finding and key.hex() in finding for finding in findings), (table, findings)


def test_ledger_that_does_not_add_up_is_found(path: Path) -> None:
    key = records.queue_key(1)
    rewrite(path, b"ledgers", key, records.encode_ledger(key, Ledger(accepted=81, stored=80)))
    assert any("The ledger of queue 1 does not add up" in finding for finding in check(path).findings)


def test_ledger_with_wrong_bytes_is_found_by_the_recount(path: Path) -> None:
    """It adds up, and its count of messages is right: a start cannot see it."""
    key = records.queue_key(2)
    ledger = Ledger(accepted=45, accepted_bytes=29, stored=45, stored_bytes=29, stored_expiring=3)
    ledger.stored_delayed, ledger.stored_delayed_bytes = 2, 29
    rewrite(path, b"ledgers", key, records.encode_ledger(key, ledger))
    assert "Queue 2 stores 45 messages of" in only_finding(path)


def test_ledger_with_a_wrong_number_of_expiring_messages_is_found(path: Path) -> None:
    scribe = Scribe(path.parent / "other")
    queue = scribe.declare("orders")
    scribe.commit(scribe.put(queue, b"1", expires_ms=5))
    scribe.ledgers[queue].stored_expiring = 0
    scribe.commit(scribe.put(queue, b"2"))
    scribe.store.close()
    assert "1 expiring; its ledger says 2 of" in only_finding(path.parent / "other")


def test_missing_message_is_found(path: Path) -> None:
    rewrite(path, b"messages", records.message_key(1, position_of(1, 1)), None)
    findings = check(path).findings
    assert any("say 134 stored messages, LMDB counts 133" in finding for finding in findings)
    assert any("Queue 1 stores 81 messages" in finding for finding in findings)


def test_message_of_an_unknown_queue_is_found(path: Path) -> None:
    key = records.message_key(9, position_of(1, 1))
    rewrite(path, b"messages", key, records.encode_message(key, message_of(b"whose?")))
    assert any("There is 1 message of queue 9, but no such queue" in finding for finding in check(path).findings)


def test_message_of_a_boot_to_come_is_found(path: Path) -> None:
    scribe = Scribe(path)
    scribe.boot = 77
    scribe.fill(1, 1)
    scribe.store.close()
    assert "is of boot 77, which has not been yet" in only_finding(path)


def test_wrong_rest_of_a_deleted_queue_is_found(path: Path) -> None:
    key = records.queue_key(3)
    rewrite(path, b"retired", key, records.encode_number(key, 4))
    assert any("The deleted queue 3 has 7 messages left, its row says 4" in found for found in check(path).findings)


def test_count_without_a_message_is_found(path: Path) -> None:
    key = records.message_key(1, position_of(1, 999))
    rewrite(path, b"counts", key, records.encode_count(key, 1, True))
    assert "There is a redelivery count under key" in only_finding(path)


@pytest.mark.parametrize(("table", "sentence"), [(b"queues", "but no such queue"), (b"ledgers", "has no ledger")])
def test_queue_without_its_other_half_is_found(path: Path, table: bytes, sentence: str) -> None:
    rewrite(path, table, records.queue_key(1), None)
    assert any(sentence in finding for finding in check(path).findings)


def test_two_queues_of_one_name_are_found(path: Path) -> None:
    key = records.queue_key(2)
    rewrite(path, b"queues", key, records.encode_text(key, "orders"))
    assert only_finding(path) == "Queues 1 and 2 have one name, 'orders'."


def test_queue_beyond_the_next_number_is_found(path: Path) -> None:
    rewrite(path, META, b"next_queue", records.encode_number(b"next_queue", 2))
    assert check(path).findings == [
        f"{what} has a number that was not given out yet: the next one is 2." for what in ("Queue 2", "Log 4", "Log 5")
    ]


def test_dedup_tables_that_disagree_are_found(path: Path) -> None:
    dedup = records.dedup_key(1, b"order-5")
    rewrite(path, b"dedup_by_time", records.dedup_time_key(1_800_000_000_005, dedup), None)
    assert "is missing from the table in the order of time" in only_finding(path)
    rewrite(path, b"dedup", dedup, None)
    rewrite(path, b"dedup", records.dedup_key(1, b"order-6"), None)
    assert "is not what the id's row says" in only_finding(path)


@pytest.mark.parametrize(
    ("out_taken", "out_offered", "sequences"), [(4, 6, [4]), (3, 5, [6]), (6, 6, [4, 5, 6]), (2, 7, [])]
)
def test_doubts_outside_of_what_is_offered_and_not_taken_are_found(
    path: Path, out_taken: int, out_offered: int, sequences: list[int]
) -> None:
    key = records.peer_key("node.b")
    peer = KeepPeer("node.b", "0123456789abcdef", 2, out_taken, out_offered, 7, 0)
    rewrite(path, b"peers", key, records.encode_peer(key, peer))
    assert check(path).findings == [
        f"Message {sequence} in doubt with node 'node.b' is not one of {out_taken + 1} to {out_offered},"
        " as the node's row says."
        for sequence in sequences
    ]


def test_node_that_has_taken_more_than_it_was_offered_is_found(path: Path) -> None:
    key = records.peer_key("a")
    rewrite(path, b"peers", key, records.encode_peer(key, KeepPeer("a", "", 1, 3, 2, 0, 0)))
    assert only_finding(path) == "Node 'a' has taken 3, and was offered 2."


def test_doubts_of_a_node_that_is_not_kept_are_found(path: Path) -> None:
    rewrite(path, b"peers", records.peer_key("node.b"), None)
    assert check(path).findings == [
        f"Message {sequence} in doubt with node 'node.b' is of a node that has no row." for sequence in (4, 5, 6)
    ]


@pytest.mark.parametrize(
    ("queue", "sequence", "sentence"),
    [
        (1, 999, "Message 5 in doubt with node 'node.b' is not stored, or its queue 1 is not there."),
        (3, 123, "Message 5 in doubt with node 'node.b' is not stored, or its queue 3 is not there."),
        (2, 120, "Message 4 in doubt with node 'node.b' has one place with: Message 5 in doubt with node 'node.b'."),
    ],
)
def test_doubt_of_a_message_that_is_not_there_or_is_in_doubt_twice_is_found(
    path: Path, queue: int, sequence: int, sentence: str
) -> None:
    key = records.doubt_key("node.b", 5)
    rewrite(path, b"doubts", key, records.encode_doubt(key, queue, position_of(1, sequence)))
    assert only_finding(path) == sentence


@pytest.mark.parametrize("key", [b"node.b", bytes(9), b"\xff" + bytes(9)])
def test_doubt_without_a_name_in_its_key_is_found(path: Path, key: bytes) -> None:
    rewrite(path, b"doubts", key, records.encode_doubt(key, 1, position_of(1, 0)))
    assert f"The doubt under key {key.hex()} is damaged" in only_finding(path)


@pytest.mark.parametrize("table", [table for table in TABLES if table != META])
def test_missing_table_is_found(path: Path, table: bytes) -> None:
    with raw(path) as env:
        opened = env.open_db(table)
        with env.begin(write=True) as txn:
            txn.drop(opened)
    assert f"The table {table.decode()} is missing, or has flags that none of ours has." in check(path).findings


@pytest.mark.parametrize("table", [b"messages", b"settings", b"meta"])
def test_flipped_flag_of_a_table_is_found_and_refused(path: Path, table: bytes) -> None:
    """With DUPSORT a second row under one key would stand beside the first; LMDB's structure is sound with it."""
    data = bytearray((path / "data.mdb").read_bytes())
    head = struct.pack("=HHHH", 48, 0, 2, len(table)) + table  # the node of its record in LMDB's main database
    at = -1
    while (at := data.find(head, at + 1)) >= 0:
        data[at + len(head) + 4] ^= DUPSORT  # whichever of the copies is in force
    (path / "data.mdb").write_bytes(data)
    assert f"The table {table.decode()} is missing, or has flags that none of ours has." in check(path).findings
    with pytest.raises(StoreError, match=f"is damaged: its table {table.decode()} has flags. Restore a backup"):
        Scribe(path)


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """A closed store with a queue of three messages, the last two of them delayed."""
    scribe = Scribe(tmp_path / "late")
    queue = scribe.declare("q")
    scribe.commit(
        scribe.put(queue, b"now"), scribe.delay(queue, DUE_MS, b"late"), scribe.delay(queue, DUE_MS, b"later")
    )
    scribe.store.close()
    assert check(tmp_path / "late").findings == []
    return tmp_path / "late"


def ledger_of(messages: int, size: int, delayed: int, delayed_bytes: int) -> bytes:
    ledger = Ledger(messages, size, messages, size, stored_delayed=delayed, stored_delayed_bytes=delayed_bytes)
    return records.encode_ledger(records.queue_key(1), ledger)


@pytest.mark.parametrize(("delayed", "delayed_bytes"), [(1, 33), (2, 32), (3, 33), (0, 0)])
def test_ledger_with_wrong_numbers_of_delayed_messages_is_found(late: Path, delayed: int, delayed_bytes: int) -> None:
    rewrite(late, b"ledgers", records.queue_key(1), ledger_of(3, 48, delayed, delayed_bytes))
    assert only_finding(late) == (
        f"Queue 1 stores 2 delayed messages of 33 bytes; its ledger says {delayed} of {delayed_bytes} bytes."
    )


def test_missing_delayed_message_is_found(late: Path) -> None:
    rewrite(late, b"delayed", records.delayed_key(1, DUE_MS, position_of(1, 2)), None)
    assert check(late).findings == [
        "The ledgers say 3 stored messages, LMDB counts 2.",
        "Queue 1 stores 2 messages of 31 bytes, 0 expiring; its ledger says 3 of 48 bytes, 0 expiring.",
        "Queue 1 stores 1 delayed message of 16 bytes; its ledger says 2 of 33 bytes.",
    ]


@pytest.mark.parametrize(
    ("due_ms", "position", "sentence"),
    [
        (DUE_MS, position_of(1, 0), "is in its queue too."),
        (0, position_of(1, 5), "has no time."),
        (DUE_MS, position_of(7, 5), "is of boot 7, which has not been yet."),
    ],
)
def test_delayed_message_that_cannot_be_is_found(late: Path, due_ms: int, position: int, sentence: str) -> None:
    key = records.delayed_key(1, due_ms, position)
    rewrite(late, b"delayed", key, records.encode_delayed(key, message_of(b"?"), 0, False))
    rewrite(late, b"ledgers", records.queue_key(1), ledger_of(4, 61, 3, 46))
    assert only_finding(late) == f"The delayed message under key {key.hex()} {sentence}"


def test_delayed_message_of_an_unknown_queue_is_found(late: Path) -> None:
    key = records.delayed_key(9, DUE_MS, position_of(1, 1))
    rewrite(late, b"delayed", key, records.encode_delayed(key, message_of(b"whose?"), 0, False))
    assert "There is 1 message of queue 9, but no such queue." in check(late).findings


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[]", "3", "null", "[" * 100_000])
def test_declarations_that_are_no_json_are_found(path: Path, text: str) -> None:
    key = records.settings_key(1)
    rewrite(path, b"settings", key, records.encode_text(key, text))
    assert only_finding(path) == "The settings of queue 1 are no JSON object."
    key = records.declared_key("fanout", "ä\n")
    rewrite(path, b"declared", key, records.encode_text(key, text))
    assert "What is declared of the fanout 'ä\\n' is not a JSON object." in check(path).findings


@pytest.mark.parametrize("key", [records.settings_key(3), records.settings_key(9), records.queue_key(1)])
def test_settings_of_no_queue_are_found(path: Path, key: bytes) -> None:
    rewrite(path, b"settings", key, records.encode_text(key, "{}"))
    assert f"There are settings of queue {records.queue_of(key)}, but no such queue." == only_finding(path)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("exchange", '{"type": "odd"}'),
        ("exchange", '{"durable": 1}'),
        ("exchange-binding", '{"source": "a", "key": "k"}'),
        ("exchange-binding", '{"source": "a", "key": 1, "destination": "b"}'),
        ("fanout", "{}"),
        ("fanout", '{"children": [7]}'),
    ],
)
def test_declaration_that_a_start_would_not_take_is_found(path: Path, kind: str, text: str) -> None:
    key = records.declared_key(kind, "y")
    rewrite(path, b"declared", key, records.encode_text(key, text))
    assert only_finding(path).startswith(f"The {kind} 'y' is declared wrongly: ")


def test_declaration_of_an_unknown_kind_is_found(path: Path) -> None:
    key = records.declared_key("queue", "q")
    rewrite(path, b"declared", key, records.encode_text(key, "{}"))
    kinds = "exchange, exchange-binding, fanout, no-copies, durable-at"
    assert only_finding(path) == f"'q' is declared to be of kind 'queue'; there are {kinds}."


@pytest.mark.parametrize("queue", [3, 9])
def test_binding_to_a_queue_that_is_not_there_is_found(path: Path, queue: int) -> None:
    key = records.binding_key(queue, "x", "b")
    rewrite(path, b"bindings", key, records.encode_binding(key, "x", "b"))
    assert only_finding(path) == f"There is a binding to queue {queue}, but no such queue."


def test_binding_under_a_key_of_another_is_found(path: Path) -> None:
    key = records.binding_key(1, "x", "b")
    rewrite(path, b"bindings", key, records.encode_binding(key, "x", "c"))
    assert only_finding(path) == f"The binding under key {key.hex()} is damaged: it is another one's."


def test_exchanges_that_only_config_can_declare_are_told_and_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scribe = Scribe(tmp_path / "data")
    queue = scribe.declare("q")
    scribe.store.commit(
        [KeepDeclared("exchange", "here", "{}"), KeepDeclared("fanout", "there", '{"children": ["q"]}')]
    )
    names = ["", "amq.topic", "amq.direct", "amq.fanout", "here", "there", "nowhere"]
    scribe.store.commit([Bind(name, "a", queue) for name in names])
    scribe.store.close()
    report = check(tmp_path / "data")
    assert (report.findings, report.bindings, report.exchanges_elsewhere) == ([], 7, ["nowhere", "there"])
    assert main(["check", str(tmp_path / "data")]) == 0
    assert "config.toml can declare" in (printed := capsys.readouterr().out) and printed.endswith(": nowhere, there.\n")


WRITE_ON = """
import random, sys
from pathlib import Path
from radiator.model.writes import Bind, Count, Forget, KeepSettings, Remember, Remove, Unbind
from tests.storage.scribe import Scribe
scribe = Scribe(Path(sys.argv[1]))
chance = random.Random(5)
queues = [scribe.declare("q%d-%d" % (scribe.boot, number)) for number in range(4)]
print("writing", flush=True)
commits = 0
while True:
    puts = [scribe.put(chance.choice(queues), b"x" * chance.choice([10, 1000, 3000])) for _ in range(40)]
    gone = chance.sample(sorted(scribe.messages), min(len(scribe.messages), 40 if commits > 30 else 10))
    scribe.commit(*puts, *[scribe.remove(*place) for place in gone])
    counted = chance.sample(sorted(scribe.messages), 5)
    times = [Remember(1, b"%d" % chance.randrange(1000), commits) for _ in range(5)]
    scribe.store.commit([*[Count(*place, 1) for place in counted], *times, Forget(commits - 20, 100)])
    later = chance.sample(sorted(scribe.messages), 10)
    removes = [Remove(*place) for place in later]
    delays = [*removes, *[scribe.delay_again(*place, chance.randrange(1, 1000), 1) for place in later]]
    woken = chance.sample(sorted(scribe.delayed), min(len(scribe.delayed) // 2, 20))
    scribe.commit(*delays, *[write for place in woken if place not in later for write in scribe.wake(*place)])
    queue = chance.choice(queues)
    scribe.store.commit([Bind("x", "k%d" % commits, queue), KeepSettings(queue, '{"max_messages": %d}' % commits)])
    if commits % 2:
        scribe.store.commit([Unbind("x", "k%d" % commits, queue)])
    commits += 1
"""


def running_writer(path: Path) -> "subprocess.Popen[bytes]":
    writer = subprocess.Popen([sys.executable, "-c", WRITE_ON, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"writing\n"
    return writer


def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
    raise AssertionError("it never became so")


def test_check_beside_a_running_broker_finds_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CHECK_SLICE_RECORDS", 50)
    writer = running_writer(tmp_path / "data")
    try:
        until(lambda: check(tmp_path / "data").messages > 500)
        for _ in range(5):
            report = check(tmp_path / "data")
            assert (report.findings, report.delayed > 0, report.bindings > 0) == ([], True, True)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    report = check(tmp_path / "data")
    assert (report.findings, report.structure_checked) == ([], True)


def test_store_is_sound_after_kill_at_any_moment(tmp_path: Path) -> None:
    for moment in range(4):
        writer = running_writer(tmp_path / "data")
        try:
            until(lambda least=moment * 100: check(tmp_path / "data").messages >= least)  # type: ignore[misc]
        finally:
            writer.kill()
            writer.communicate()
        assert check(tmp_path / "data").findings == []
