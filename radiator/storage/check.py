"""`radiator check`: reads everything in a data directory and reports what is wrong, in sentences.

Runs in a process of its own, beside a running broker or alone. It changes nothing and never takes the broker's lock. It
checks the file's structure first, by plain reads, because LMDB itself trusts its file and may kill the process over a
damaged one; then the ledgers; then every row of every table.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from radiator.model.errors import DamagedRecord, Refusal, StoreError, count_text
from radiator.model.limits import CHECK_SLICE_RECORDS
from radiator.model.message import SEQUENCE_BITS
from radiator.model.settings import STANDARD_EXCHANGES
from radiator.model.users import without_maker
from radiator.model.validation import DECLARED as DECLARED_CHECKS
from radiator.model.writes import KeepPeer
from radiator.storage.check_kept import check_kept
from radiator.storage.check_keys import check_by_key, check_count_of_keys, check_held
from radiator.storage.check_logs import check_blocks, check_log_ledgers, check_prepared
from radiator.storage.check_wal import check_wal
from radiator.storage.codec import records
from radiator.storage.codec.tables import (
    BINDINGS,
    BOOT,
    BY_KEY,
    COUNTS,
    DECLARED,
    DEDUP,
    DEDUP_BY_TIME,
    DELAYED,
    DOUBTS,
    FORMAT,
    LEDGERS,
    LOGS,
    MESSAGES,
    META,
    NEXT_QUEUE,
    NODE,
    NUMBERS,
    PEERS,
    QUEUES,
    RETIRED,
    SETTINGS,
    STORE_ID,
    TIME,
    tables_of,
)
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import checked_head, refuse_bare_backups, refuse_other_formats, structure_mistakes
from radiator.storage.lmdb.reader import Reader, Snapshot
from radiator.storage.lmdb.replay import applied
from radiator.storage.lmdb.unreadable import reading
from radiator.storage.report import Progress, unheard
from radiator.storage.report import Report as Report

_PROGRESS_EVERY = 256  # rows between two reports of progress
_OF_NODES = ("no-copies", "durable-at")  # rows of other nodes, which have no settings


def check(data_dir: str | Path, progress: Progress = unheard) -> Report:
    """Reads everything. The report has what is wrong; raises StoreError only where there is no store to read, and
    DiskFailed where the disk cannot be read, which does not show whether the data are damaged.
    """
    file = Path(data_dir) / directory.DATA_FILE
    if not directory.is_regular(file):
        raise StoreError(f"{data_dir} is not a data directory: it has no {directory.DATA_FILE}.")
    report = Report(progress=progress)
    try:
        with reading(file):
            _check_structure(file, report)
            if not report.findings:
                with Reader(Path(data_dir), despite_damage=True) as reader:
                    reader.check_structure(progress)
                    _check_tables(reader, report)
    except (StoreError, OSError) as error:
        report.find(str(error))
    return report


def _check_structure(file: Path, report: Report) -> None:
    """LMDB's pages, read while no commit happens: where the file has changed meanwhile, the findings mean nothing."""
    before = checked_head(file)
    mistakes = structure_mistakes(file, report.progress)
    report.structure_checked = checked_head(file).transaction == before.transaction
    if report.structure_checked:
        for mistake in mistakes:
            report.find(f"{file} is damaged in LMDB's own structure: {mistake}.")


def _check_tables(reader: Reader, report: Report) -> None:
    with reader.snapshot() as snapshot:
        meta = snapshot.meta()
        refuse_other_formats(reader.file, meta)
        refuse_bare_backups(reader.file, meta)
        check_wal(snapshot, report)
        for table in tables_of(records.decode_number(FORMAT, meta[FORMAT])):
            if not snapshot.has(table):
                report.find(f"The table {table.decode()} is missing, or has flags that none of ours has.")
        numbers = _check_meta(meta, report)
        _check_ledgers(snapshot, numbers.get(NEXT_QUEUE), report)
        _check_links(snapshot, report)
        _check_declarations(snapshot, report)
        check_log_ledgers(snapshot, numbers.get(NEXT_QUEUE), report)
    _recount(reader, report)
    with suppress(DamagedRecord, StoreError):  # of meta, and of the directory, which are found above
        place = applied(meta)
        if place is not None and STORE_ID in meta and directory.has_wal(reader.file.parent):
            store_id = records.decode_text(STORE_ID, meta[STORE_ID])
            check_kept(reader.file.parent / directory.WAL_DIRECTORY, store_id, place, report)
    _check_messages(reader, numbers.get(BOOT), report)
    _check_delayed(reader, numbers.get(BOOT), report)
    _check_counts(reader, report)
    check_by_key(_slices(reader, BY_KEY, report), report)
    check_held(reader, report)
    _check_dedup(reader, report)
    check_blocks(reader, report)
    check_prepared(reader, report)


def _check_meta(meta: dict[bytes, bytes], report: Report) -> dict[bytes, int]:
    """Returns the sound numbers in it."""
    for key in (*NUMBERS, STORE_ID):
        if key not in meta:
            report.find(f"The table meta has no row {key.decode()!r}.")
    if STORE_ID in meta:
        report.decoded(records.decode_text, STORE_ID, meta[STORE_ID])
    if NODE in meta:
        report.decoded(records.decode_text, NODE, meta[NODE])
    if TIME in meta:
        report.decoded(records.decode_number, TIME, meta[TIME])
    numbers = {key: report.decoded(records.decode_number, key, meta[key]) for key in NUMBERS if key in meta}
    return {key: number for key, number in numbers.items() if number is not None}


# ---- ledgers ------------------------------------------------------------------------------------------------------


def _check_ledgers(snapshot: Snapshot, next_queue: int | None, report: Report) -> None:
    """Names and ledgers of all queues, and their sum against LMDB's own counts: all in one state of the store."""
    names: dict[str, int] = {}
    booked = 0
    for key, value in snapshot.rows(QUEUES):
        report.queues += 1
        number = records.queue_of(key)
        name = report.decoded(records.decode_text, key, value)
        if name is not None and names.setdefault(name, number) != number:
            report.find(f"Queues {names[name]} and {number} have one name, {name!r}.")
        if next_queue is not None and number >= next_queue:
            report.find(f"Queue {number} has a number that was not given out yet: the next one is {next_queue}.")
        if snapshot.get(LEDGERS, key) is None:
            report.find(f"Queue {number} has no ledger.")
    for key, value in snapshot.rows(LEDGERS):
        ledger = report.decoded(records.decode_ledger, key, value)
        if ledger is not None:
            booked += ledger.stored
            if not ledger.adds_up():
                report.find(f"The ledger of queue {records.queue_of(key)} does not add up: {ledger}.")
        if snapshot.get(QUEUES, key) is None:
            report.find(f"There is a ledger of queue {records.queue_of(key)}, but no such queue.")
    for key, value in snapshot.rows(RETIRED):
        booked += report.decoded(records.decode_number, key, value) or 0
    counted = snapshot.entries(MESSAGES) + snapshot.entries(DELAYED)
    if booked != counted:
        report.find(f"The ledgers say {count_text(booked, 'stored message')}, LMDB counts {counted}.")


def _check_links(snapshot: Snapshot, report: Report) -> None:
    """Linked nodes, and what is in doubt with them, all in one state of the store: at most LINK_WINDOW for each."""
    peers: dict[str, KeepPeer] = {}
    for key, value in snapshot.rows(PEERS):
        peer = report.decoded(records.decode_peer, key, value)
        if peer is not None:
            peers[peer.peer] = peer
            if peer.out_taken > peer.out_offered:
                report.find(f"Node {peer.peer!r} has taken {peer.out_taken}, and was offered {peer.out_offered}.")
    in_doubt: dict[bytes, str] = {}
    for key, value in snapshot.rows(DOUBTS):
        place = report.decoded(records.decode_doubt, key, value)
        named = report.decoded(lambda key, _: records.split_doubt_key(key), key, value)
        if place is not None and named is not None:
            doubt = f"Message {named[1]} in doubt with node {named[0]!r}"
            message = records.message_key(*place)
            if snapshot.get(MESSAGES, message) is None or snapshot.get(QUEUES, records.queue_key(place[0])) is None:
                report.find(f"{doubt} is not stored, or its queue {place[0]} is not there.")
            if in_doubt.setdefault(message, doubt) != doubt:
                report.find(f"{in_doubt[message]} has one place with: {doubt}.")
            if snapshot.get(PEERS, records.peer_key(named[0])) is None:
                report.find(f"{doubt} is of a node that has no row.")
            _check_sequence(doubt, named[1], peers.get(named[0]), report)


def _check_sequence(doubt: str, sequence: int, peer: KeepPeer | None, report: Report) -> None:
    if peer is not None and not peer.out_taken < sequence <= peer.out_offered:
        report.find(f"{doubt} is not one of {peer.out_taken + 1} to {peer.out_offered}, as the node's row says.")


def _check_declarations(snapshot: Snapshot, report: Report) -> None:
    """Checks what was declared at run time, and all bindings, in one state of the store. Whether settings are valid
    depends on config.toml too: a start checks that.
    """
    for key, value in snapshot.rows(SETTINGS):
        number = records.queue_of(key)
        text = report.decoded(records.decode_text, key, value)
        if text is not None and _json_object(text) is None:
            report.find(f"The settings of queue {number} are no JSON object.")
        if not _has(snapshot, number) or key != records.settings_key(number):
            report.find(f"There are settings of queue {number}, but no such queue.")
    exchanges = {"", *STANDARD_EXCHANGES}
    for key, value in snapshot.rows(DECLARED):
        declared = report.decoded(lambda key, _: records.split_declared_key(key), key, value)
        text = report.decoded(records.decode_text, key, value)
        if declared is not None and text is not None:
            _check_declared(*declared, text, report)
            exchanges.add(declared[1] if declared[0] == "exchange" else "")
    elsewhere = set()
    for key, value in snapshot.rows(BINDINGS):
        report.bindings += 1
        number = records.queue_of(key)
        binding = report.decoded(records.decode_binding, key, value)
        if not _has(snapshot, number):
            report.find(f"There is a binding to queue {number}, but no such queue.")
        if binding is not None and binding[0] not in exchanges:
            elsewhere.add(binding[0])
    report.exchanges_elsewhere = sorted(elsewhere)


def _has(snapshot: Snapshot, number: int) -> bool:
    """Whether a queue or a log has that number."""
    is_queue = snapshot.get(QUEUES, records.queue_key(number)) is not None
    return is_queue or snapshot.get(LOGS, records.log_key(number)) is not None


def _check_declared(kind: str, name: str, text: str, report: Report) -> None:
    given = _json_object(text)
    if kind not in DECLARED_CHECKS and kind not in _OF_NODES:
        kinds = ", ".join((*DECLARED_CHECKS, *_OF_NODES))
        report.find(f"{name!r} is declared to be of kind {kind!r}; there are {kinds}.")
    elif given is None:
        report.find(f"What is declared of the {kind} {name!r} is not a JSON object.")
    elif kind in DECLARED_CHECKS:
        try:
            DECLARED_CHECKS[kind](without_maker(given))
        except Refusal as refusal:
            report.find(f"The {kind} {name!r} is declared wrongly: {refusal}")


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _recount(reader: Reader, report: Report) -> None:
    """Counts each queue's messages, the delayed ones too, against its own ledger.

    A running broker changes both in one commit, so both are read in one snapshot: a queue is never split over two,
    however long it is. Only the heads of its records are read, which takes about a second for a million.
    """
    number: int | None = 0
    done = 0
    while number is not None:
        with reader.snapshot() as snapshot:
            report.progress(
                "counting what is stored", "messages", done, snapshot.entries(MESSAGES) + snapshot.entries(DELAYED)
            )
            counted = 0
            while counted < CHECK_SLICE_RECORDS:
                number = _next_queue(snapshot, number)
                if number is None:
                    break
                counted += _recount_queue(snapshot, number, report)
                number += 1
            done += counted


def _next_queue(snapshot: Snapshot, number: int) -> int | None:
    """Returns the first queue from that number on that has messages or a row, or is being swept."""
    start = records.queue_key(number)
    heads = [next(snapshot.rows(table, start), None) for table in (MESSAGES, DELAYED, LEDGERS, RETIRED)]
    return min((records.queue_of(head[0]) for head in heads if head is not None), default=None)


def _recount_queue(snapshot: Snapshot, number: int, report: Report) -> int:
    key = records.queue_key(number)
    delayed, delayed_bytes, delayed_expiring = _count_rows(snapshot, DELAYED, key, records.delayed_bytes)
    stored, stored_bytes, stored_expiring = _count_rows(snapshot, MESSAGES, key, records.message_bytes)
    stored, stored_bytes = stored + delayed, stored_bytes + delayed_bytes
    stored_expiring += delayed_expiring
    ledger_row, retired_row = snapshot.get(LEDGERS, key), snapshot.get(RETIRED, key)
    try:
        if ledger_row is not None:
            ledger = records.decode_ledger(key, ledger_row)
            booked = (ledger.stored, ledger.stored_bytes, ledger.stored_expiring)
            if booked != (stored, stored_bytes, stored_expiring):
                report.find(
                    f"Queue {number} stores {count_text(stored, 'message')} of {stored_bytes} bytes,"
                    f" {stored_expiring} expiring;"
                    f" its ledger says {booked[0]} of {booked[1]} bytes, {booked[2]} expiring."
                )
            if (ledger.stored_delayed, ledger.stored_delayed_bytes) != (delayed, delayed_bytes):
                report.find(
                    f"Queue {number} stores {count_text(delayed, 'delayed message')} of {delayed_bytes} bytes;"
                    f" its ledger says {ledger.stored_delayed} of {ledger.stored_delayed_bytes} bytes."
                )
        elif retired_row is not None:
            left = records.decode_number(key, retired_row)
            if left != stored:
                report.find(
                    f"The deleted queue {number} has {count_text(stored, 'message')} left, its row says {left}."
                )
        else:
            there = "There is 1 message" if stored == 1 else f"There are {stored} messages"
            report.find(f"{there} of queue {number}, but no such queue.")
    except DamagedRecord:
        pass  # found already, with the ledgers
    check_count_of_keys(snapshot, number, stored, report)
    return stored


def _count_rows(
    snapshot: Snapshot, table: bytes, prefix: bytes, sized: Callable[[memoryview], tuple[int, bool]]
) -> tuple[int, int, int]:
    """Returns how many messages of a queue are in a table, their bytes, and how many of them expire."""
    count = count_bytes = expiring = 0
    for key, value in snapshot.rows(table, prefix):
        if not key.startswith(prefix):
            break
        size, expires = sized(value)
        count += 1
        count_bytes += size
        expiring += expires
    return count, count_bytes, expiring


# ---- every row ----------------------------------------------------------------------------------------------------


def _slices(reader: Reader, table: bytes, report: Report) -> Iterator[tuple[Snapshot, bytes, memoryview]]:
    """Yields every row of a table, with a snapshot that contains it. One that is added or removed meanwhile may be
    missed.
    """
    start: bytes | None = b""
    done = 0
    while start is not None:
        with reader.snapshot() as snapshot:
            slice_start, start = start, None
            whole = snapshot.entries(table)
            for read, (key, value) in enumerate(snapshot.rows(table, slice_start), 1):
                yield snapshot, key, value
                done += 1
                if done % _PROGRESS_EVERY == 0:
                    report.progress(f"verifying the table {table.decode()}", "rows", done, whole)
                if read == CHECK_SLICE_RECORDS:
                    start = key + b"\0"
                    break


def _check_messages(reader: Reader, boot: int | None, report: Report) -> None:
    for _, key, value in _slices(reader, MESSAGES, report):
        report.messages += 1
        message = report.decoded(records.decode_message, key, value)
        if message is not None:
            report.message_bytes += message.size
            _check_boot(reader, "message", key, records.position_in(key), boot, report)


def _check_delayed(reader: Reader, boot: int | None, report: Report) -> None:
    for snapshot, key, value in _slices(reader, DELAYED, report):
        report.messages += 1
        report.delayed += 1
        found = report.decoded(records.decode_delayed, key, value)
        if found is not None:
            report.message_bytes += found[0].size
            due_ms, position = records.split_delayed_key(key)
            _check_boot(reader, "delayed message", key, position, boot, report)
            if due_ms == 0:
                report.find(f"The delayed message under key {key.hex()} has no time.")
            if snapshot.get(MESSAGES, records.message_key(records.queue_of(key), position)) is not None:
                report.find(f"The delayed message under key {key.hex()} is in its queue too.")


def _check_boot(reader: Reader, what: str, key: bytes, position: int, boot: int | None, report: Report) -> None:
    stored_in = position >> SEQUENCE_BITS
    # the broker may have been started again since meta was read
    if boot is not None and stored_in > boot and stored_in > _boot_now(reader):
        report.find(f"The {what} under key {key.hex()} is of boot {stored_in}, which has not been yet.")


def _boot_now(reader: Reader) -> int:
    with reader.snapshot() as snapshot:
        value = snapshot.get(META, BOOT)
    return 0 if value is None else records.decode_number(BOOT, value)


def _check_counts(reader: Reader, report: Report) -> None:
    for snapshot, key, value in _slices(reader, COUNTS, report):
        report.counts += 1
        report.decoded(records.decode_count, key, value)
        if snapshot.get(MESSAGES, key) is None:
            report.find(f"There is a redelivery count under key {key.hex()}, but no such message.")


def _check_dedup(reader: Reader, report: Report) -> None:
    for snapshot, key, value in _slices(reader, DEDUP, report):
        report.dedup_ids += 1
        until_ms = report.decoded(records.decode_number, key, value)
        if until_ms is not None and snapshot.get(DEDUP_BY_TIME, records.dedup_time_key(until_ms, key)) is None:
            report.find(f"The dedup-id under key {key.hex()} is missing from the table in the order of time.")
    for snapshot, key, value in _slices(reader, DEDUP_BY_TIME, report):
        if report.decoded(records.decode_number, key, value) is None:
            continue
        until_ms, dedup = records.split_dedup_time_key(key)
        row = snapshot.get(DEDUP, dedup)
        if row != records.encode_number(dedup, until_ms):
            report.find(f"The time {until_ms} of the dedup-id under key {dedup.hex()} is not what the id's row says.")
