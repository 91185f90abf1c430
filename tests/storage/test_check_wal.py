"""A check of a store whose log is damaged says what is lost of which queue, and goes on with the rest."""

from pathlib import Path

import pytest

from radiator.model.writes import Append, KeepDeclared, KeepPeer, KeepSegments, Retire, Sweep
from radiator.storage.check import check
from radiator.storage.codec.tables import LEDGERS, QUEUES
from radiator.storage.lmdb.directory import DATA_FILE
from tests.storage.breaking import rewrite
from tests.storage.broken_logs import break_entries, killed_copy, last_index
from tests.storage.scribe import DUE_MS, Scribe, record_of, segment_of, write_logs


class Written:
    """A store whose tables have all up to `applied`, and what its log has behind that."""

    def __init__(self, directory: Path) -> None:
        self.scribe = Scribe(directory / "whole")
        self.copy = directory / "killed"
        self.orders = self.scribe.declare("orders")
        self.mail = self.scribe.declare("mail")
        self.first = self.scribe.fill(self.orders, 3)
        write_logs(self.scribe.store, 3)
        self.scribe._next_queue = 5
        self.late = self.scribe.delay(self.mail, DUE_MS, b"late")
        self.scribe.commit(self.late)
        self.scribe.keeps_up = False
        self.applied = self.last

    @property
    def last(self) -> int:
        return last_index(self.scribe.path)

    def findings(self, *broken: int) -> list[str]:
        """Of a copy in which these entries are damaged, counted from the first that the tables do not have."""
        path = killed_copy(self.scribe.path, self.copy)
        break_entries(path, *(self.applied + nth for nth in broken))
        return check(path).findings


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_a_sound_log_has_no_findings(written: Written) -> None:
    written.scribe.fill(written.orders, 3)
    assert written.findings() == []


def test_what_lies_behind_the_damage_is_counted_by_queue(written: Written) -> None:
    scribe = written.scribe
    scribe.fill(written.orders, 1, b"carried out")
    scribe.fill(written.orders, 2, b"damaged")
    puts = scribe.fill(written.orders, 4)
    scribe.commit(
        scribe.remove(written.orders, puts[0].position), scribe.remove(written.orders, written.first[0].position)
    )
    scribe.commit(*scribe.wake(written.mail, written.late.position))
    at = written.applied
    damage, lost, orders, orders_ledger, mail, *more = written.findings(2)
    assert damage.startswith("The log is damaged: entry ") and f"entry {at + 2} in " in damage
    assert damage.endswith(f"is damaged, and entry {at + 3} follows it.")
    assert lost == (
        f"Entries {at + 2} to {at + 5} were receipted and cannot be read in order. Of these, 3 can be read one by one,"
        f" 1 cannot. Everything else is checked as it is with the entries up to {at + 1}."
    )
    assert orders == (
        "The queue 'orders' is touched by 2 entries that can be read one by one: 3 messages put and missing;"
        " 1 message removed and there again."
    )
    assert orders_ledger == "By its last ledger, 6 messages came to the queue 'orders' in all of these, and 2 went."
    assert mail == (
        "The queue 'mail' is touched by 1 entry that can be read one by one: no message is missing, and none is there"
        " again."
    )
    assert more == ["By its last ledger, 0 messages came to the queue 'mail' in all of these, and 0 went."]


def test_what_can_be_read_without_a_gap_is_checked(written: Written) -> None:
    """The tables alone would have three messages."""
    written.scribe.fill(written.orders, 7)
    written.scribe.fill(written.orders, 1)
    written.scribe.fill(written.orders, 1)
    path = killed_copy(written.scribe.path, written.copy)
    break_entries(path, written.applied + 2)
    report = check(path)
    assert (report.queues, report.messages) == (2, 3 + 7 + 1)
    assert len(report.findings) == 4 and report.structure_checked


def test_a_damaged_row_is_found_behind_a_damaged_log(written: Written) -> None:
    for _ in range(3):
        written.scribe.fill(written.orders, 1)
    path = killed_copy(written.scribe.path, written.copy)
    break_entries(path, written.applied + 1)
    rewrite(path, QUEUES, written.mail.to_bytes(4, "big"), b"rubbish and a lot more of it")
    rewrite(path, LEDGERS, written.orders.to_bytes(4, "big"), b"rubbish and a lot more of it")
    findings = check(path).findings
    assert any("The queue 'orders' is touched by 2 entries" in one for one in findings)
    assert any("By its last ledger, 6 messages came" in one for one in findings)
    assert any("under key 00000002 is damaged" in one for one in findings)


def test_logs_new_queues_deleted_ones_and_all_that_is_of_none(written: Written) -> None:
    scribe = written.scribe
    scribe.fill(written.orders, 1)
    made = scribe.declare("made")
    scribe.fill(made, 2)
    scribe.store.commit(
        [Append(3, 0, 1, record_of(1)), KeepSegments(3, [segment_of(3, 0, [record_of(0), record_of(1)])])]
    )
    scribe.store.commit([KeepDeclared("exchange", "x", "{}"), KeepPeer("b", "0123456789abcdef", 1, 0, 0, 0, 0)])
    stored = scribe.ledgers[made].stored
    scribe.store.commit([Retire(made, "made", stored)])
    scribe.store.commit([Sweep(made, stored, 0)])
    findings = written.findings(1)
    text = "\n".join(findings)
    assert "The queue 'made' is touched by 4 entries that can be read one by one: 2 messages put and missing." in text
    assert "The log 'trail' is touched by 1 entry that can be read one by one: 1 record appended and missing." in text
    assert "are touched: what was declared at run time, by 1 entry that can" in text
    assert "are touched: what is agreed with other nodes, by 1 entry that can" in text
    assert "The queue 'orders'" not in text


def test_only_damage_of_the_last_entry_is_taken_for_a_torn_one(written: Written) -> None:
    for _ in range(3):
        written.scribe.fill(written.orders, 1)
    assert written.findings(3) == []


def test_the_one_entry_before_the_last(written: Written) -> None:
    for _ in range(3):
        written.scribe.fill(written.orders, 1)
    at = written.applied
    assert f"Entries {at + 2} to {at + 3} were receipted" in written.findings(2)[1]


def test_a_missing_log_is_a_finding_and_the_tables_are_checked(written: Written) -> None:
    path = killed_copy(written.scribe.path, written.copy)
    (path / "wal").rename(path.parent / "wal")
    report = check(path)
    assert "wal is missing, and the broker was not stopped cleanly" in report.findings[0]
    assert report.findings[1].startswith(
        f"Nothing shows whether anything was receipted after entry {written.applied}. Everything"
    )
    assert len(report.findings) == 2 and report.messages == 4
    assert (path / DATA_FILE).exists()


def test_operations_of_a_later_radiator_are_counted(written: Written) -> None:
    store = written.scribe.store
    written.scribe.fill(written.orders, 1)
    store._wal.append(b"\xee", 1, 1)
    store._wal.append(b"\xee", 1, 1)
    assert written.findings(1)[2:] == [
        "2 entries have operations that this Radiator does not know: run the Radiator that wrote them."
    ]
