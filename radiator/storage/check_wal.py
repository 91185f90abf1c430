"""Finds, for `radiator check`, what a damaged write-ahead log has lost: what is lost of which queue, as far as it
shows.

The entries that cannot be carried out are not lost without a trace: those behind the damage can be read one by one.
Each has the ledgers of the queues that it touches, so the last one accounts for those between, which cannot be read,
too.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from radiator.model.errors import DamagedRecord, count_text
from radiator.model.writes import Ledger
from radiator.storage.codec import blocks, records
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    Operation,
    Upsert,
    UpsertIndexed,
    decode_operations,
)
from radiator.storage.codec.tables import (
    APPS,
    BINDINGS,
    BY_KEY,
    COUNTS,
    DECLARED,
    DEDUP,
    DELAYED,
    DOUBTS,
    HELD,
    LEDGERS,
    LOGS,
    MESSAGES,
    PEERS,
    POSITIONS,
    PREPARED_SENDS,
    QUEUES,
    RECORDS,
    RETIRED,
    SEGMENTS,
    SETTINGS,
    TRANSACTIONS,
)
from radiator.storage.lmdb.reader import Snapshot
from radiator.storage.report import Report
from radiator.storage.wal import WalEntry
from radiator.storage.wal_damage import UNKNOWN

_OF_A_QUEUE = frozenset({
    MESSAGES, COUNTS, QUEUES, LEDGERS, RETIRED, DEDUP, DELAYED, SETTINGS, BINDINGS, LOGS, RECORDS, SEGMENTS, POSITIONS,
    BY_KEY, HELD,
})  # fmt: skip
"""Tables whose keys begin with the number of a queue or log."""

_KINDS = {QUEUES: "queue", LOGS: "log"}
_OTHERS = {
    DECLARED: "what was declared at run time", PEERS: "what is agreed with other nodes",
    DOUBTS: "what is agreed with other nodes", TRANSACTIONS: "prepared transactions",
    PREPARED_SENDS: "prepared transactions", APPS: "the last transactions of apps",
}  # fmt: skip


@dataclass(slots=True)
class LostOfQueue:
    """The changes to one queue or log by entries that cannot be carried out. records: appended to the log."""

    entries: int = 0
    records: int = 0
    ledger: Ledger | None = None  # of the last of them that has one


@dataclass(slots=True)
class LostEntries:
    """The losses of all queues and logs, by number. rows: of messages, by table and key, whether they exist in the end.

    names: of queues and logs that are declared in these entries. others: how many entries change what belongs to no
    queue. unknown: how many have operations that this Radiator does not know.
    """

    queues: dict[int, LostOfQueue] = field(default_factory=dict)
    rows: dict[tuple[bytes, bytes], bool] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    unknown: int = 0

    def add(self, entry: WalEntry) -> None:
        """Adds the next entry."""
        try:
            operations = decode_operations(entry.operations)
        except DamagedRecord:
            self.unknown += 1
            return
        for number in {number for operation in operations for number in _queues_of(operation)}:
            self.queues.setdefault(number, LostOfQueue()).entries += 1
        tables = {table for operation in operations for table in _tables_of(operation)}
        for words in {_OTHERS[table] for table in tables if table in _OTHERS}:
            self.others[words] = self.others.get(words, 0) + 1
        for operation in operations:
            self._note(operation)

    def _note(self, operation: Operation) -> None:
        if isinstance(operation, Insert | Delete) and operation.table in (MESSAGES, DELAYED):
            for key in _keys_of(operation):
                self.rows[operation.table, key] = isinstance(operation, Insert)
        elif isinstance(operation, Insert | Upsert):
            for key, value in operation.rows:
                number = records.queue_of(key)
                if operation.table in _KINDS:
                    self.names[number] = f"{_KINDS[operation.table]} {records.decode_text(key, value)!r}"
                elif operation.table == LEDGERS:
                    self.queues[number].ledger = records.decode_ledger(key, value)
                elif operation.table == RECORDS:
                    self.queues[number].records += blocks.count_of(value)


def _tables_of(operation: Operation) -> tuple[bytes, ...]:
    """Returns the tables that it changes."""
    if isinstance(operation, DeleteFirst):
        return operation.tables
    if isinstance(operation, Insert | Upsert | UpsertIndexed | Delete | DeleteIfPresent | DeleteRange):
        return (operation.table,)
    return ()


def _keys_of(operation: Operation) -> list[bytes]:
    if isinstance(operation, Insert | Upsert):
        return [key for key, _ in operation.rows]
    if isinstance(operation, Delete | DeleteIfPresent):
        return operation.keys
    if isinstance(operation, UpsertIndexed):
        return [operation.key]
    if isinstance(operation, DeleteRange | DeleteFirst):
        return [operation.start]
    return []


def _queues_of(operation: Operation) -> Iterator[int]:
    if _OF_A_QUEUE.issuperset(_tables_of(operation)):
        yield from map(records.queue_of, _keys_of(operation))


def check_wal(snapshot: Snapshot, report: Report) -> None:
    """Reports what is wrong with the log, and what of it cannot be carried out; nothing, if the log is sound."""
    if snapshot.damage is None:
        return
    sentence, remains = snapshot.damage
    report.find(sentence)
    sound, lost = len(remains.behind), LostEntries()
    more = f" Of these, {sound} can be read one by one, {remains.lost - sound} cannot." if remains.lost else ""
    state = "as the tables have it" if remains.after == UNKNOWN else f"as it is with the entries up to {remains.end}"
    report.find(f"{remains.sentence}{more} Everything else is checked {state}.")
    for entry in remains.behind:
        lost.add(entry)
    names = _names(snapshot) | lost.names
    missing, again = _messages(snapshot, lost)
    for number, of_queue in sorted(lost.queues.items()):
        name = names.get(number, f"deleted queue or log {number}")
        parts = [
            f"{count_text(missing[number], 'message')} put and missing" if missing[number] else "",
            f"{count_text(again[number], 'message')} removed and there again" if again[number] else "",
            f"{count_text(of_queue.records, 'record')} appended and missing" if of_queue.records else "",
        ]
        changes = "; ".join(part for part in parts if part) or "no message is missing, and none is there again"
        entries = count_text(of_queue.entries, "entry", "entries")
        report.find(f"The {name} is touched by {entries} that can be read one by one: {changes}.")
        if of_queue.ledger is not None and remains.lost > sound:
            report.find(_of_ledger(snapshot, number, name, of_queue.ledger))
    for words, count in sorted(lost.others.items()):
        entries = count_text(count, "entry", "entries")
        report.find(f"Not only queues and logs are touched: {words}, by {entries} that can be read one by one.")
    if lost.unknown:
        entries = count_text(lost.unknown, "entry has", "entries have")
        report.find(f"{entries} operations that this Radiator does not know: run the Radiator that wrote them.")


def _names(snapshot: Snapshot) -> dict[int, str]:
    """Returns the names of queues and logs, by number; a damaged one is found later."""
    names = {}
    for table, kind in _KINDS.items():
        for key, value in snapshot.rows(table):
            with suppress(DamagedRecord):
                names[records.queue_of(key)] = f"{kind} {records.decode_text(key, bytes(value))!r}"
    return names


def _messages(snapshot: Snapshot, lost: LostEntries) -> tuple[Counter[int], Counter[int]]:
    """Returns, for each queue, how many messages are missing that the entries put, and how many are there that they
    remove. A delayed message that they put at its place is neither.
    """
    after: dict[bytes, bool] = {}
    before: dict[bytes, bool] = {}
    for (table, key), is_there in lost.rows.items():
        place = key if table == MESSAGES else records.place_of_delayed(key)
        after[place] = after.get(place, False) or is_there
        before[place] = before.get(place, False) or snapshot.get(table, key) is not None
    missing = Counter(records.queue_of(place) for place in after if after[place] and not before[place])
    again = Counter(records.queue_of(place) for place in after if before[place] and not after[place])
    return missing, again


def _of_ledger(snapshot: Snapshot, number: int, name: str, later: Ledger) -> str:
    """Returns what its ledger says of all that is lost: of the entries between that cannot be read, too."""
    key = records.queue_key(number)
    value = snapshot.get(LEDGERS, key)
    before = Ledger()
    if value is not None:
        with suppress(DamagedRecord):
            before = records.decode_ledger(key, value)
    accepted = later.accepted - before.accepted
    gone = accepted + before.stored - later.stored
    return f"By its last ledger, {count_text(accepted, 'message')} came to the {name} in all of these, and {gone} went."
