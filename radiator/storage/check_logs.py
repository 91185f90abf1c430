"""`radiator check`: logs and prepared transactions.

What can change together under a running broker is read in one snapshot: the rows of all logs, then each segment with
its blocks, then each prepared transaction with its SENDs.
"""

from radiator.model.errors import DamagedRecord, count_text
from radiator.model.limits import CHECK_SLICE_RECORDS, EVENT_BYTES
from radiator.model.message import Message
from radiator.model.writes import KeepPosition, KeepSegment
from radiator.storage.codec import blocks, records, transactions
from radiator.storage.codec.tables import APPS, LOGS, POSITIONS, PREPARED_SENDS, QUEUES, RECORDS, SEGMENTS, TRANSACTIONS
from radiator.storage.lmdb.logs import segment_mistake
from radiator.storage.lmdb.reader import Reader, Snapshot
from radiator.storage.report import Report


def check_log_ledgers(snapshot: Snapshot, next_queue: int | None, report: Report) -> None:
    """Names, segments and positions of all logs, in one state of the store."""
    names: dict[str, int] = {}
    for key, value in snapshot.rows(LOGS):
        report.logs += 1
        number = records.queue_of(key)
        name = report.decoded(records.decode_text, key, value)
        if name is not None and names.setdefault(name, number) != number:
            report.find(f"Logs {names[name]} and {number} have one name, {name!r}.")
        if name == "" or key != records.log_key(number):
            report.find(f"The log under key {key.hex()} has no name, or no number.")
        if next_queue is not None and number >= next_queue:
            report.find(f"Log {number} has a number that was not given out yet: the next one is {next_queue}.")
        if snapshot.get(QUEUES, records.queue_key(number)) is not None:
            report.find(f"Number {number} is that of a queue and of a log.")
    ends: dict[tuple[int, int], int] = {}
    before: KeepSegment | None = None
    for key, value in snapshot.rows(SEGMENTS):
        segment = report.decoded(records.decode_segment, key, value)
        if segment is not None:
            mistake = segment_mistake(before, segment)
            if mistake:
                report.find(f"The {mistake}.")
            ends[segment.log, segment.partition] = segment.first + segment.count
        before = segment
    for key, value in snapshot.rows(POSITIONS):
        position = report.decoded(records.decode_position, key, value)
        if position is not None:
            _check_position(snapshot, position, ends, report)


def _check_position(
    snapshot: Snapshot, position: KeepPosition, ends: dict[tuple[int, int], int], report: Report
) -> None:
    shown = f"The position of group {position.group!r} in log {position.log}"
    if snapshot.get(LOGS, records.log_key(position.log)) is None:
        report.find(f"{shown} is left, but there is no such log.")
    for partition, offset in enumerate(position.offsets):
        end = ends.get((position.log, partition), offset)
        if offset > end:
            report.find(f"{shown} is {offset} in partition {partition}, which ends at {end}.")


# ---- blocks -------------------------------------------------------------------------------------------------------


def check_blocks(reader: Reader, report: Report) -> None:
    """Checks every block, and whether the blocks of each segment agree with its row."""
    start: bytes | None = b""
    done = 0
    while start is not None:
        with reader.snapshot() as snapshot:
            read = report.records
            report.progress("verifying logs", "segments", done, snapshot.entries(SEGMENTS))
            while start is not None and report.records - read < CHECK_SLICE_RECORDS:
                start = _check_next(snapshot, start, report)
                done += 1


def _check_next(snapshot: Snapshot, start: bytes, report: Report) -> bytes | None:
    """Checks the next segment, or the next block outside any segment, from that key on; returns where to continue."""
    segment = next(snapshot.rows(SEGMENTS, start), None)
    block = next(snapshot.rows(RECORDS, start), None)
    if segment is not None and (block is None or segment[0] <= block[0]):
        return _check_segment(snapshot, segment[0], bytes(segment[1]), report)
    if block is None:
        return None
    return _check_stray(snapshot, block[0], bytes(block[1]), report)


def _check_segment(snapshot: Snapshot, key: bytes, value: bytes, report: Report) -> bytes:
    """Checks a segment with its blocks; returns where the next one may begin."""
    try:
        segment = records.decode_segment(key, value)
    except DamagedRecord:
        return key + b"\0"  # found already, with the segments
    if segment.count == 0:
        there = snapshot.get(RECORDS, key)
        return key + b"\0" if there is None else _check_stray(snapshot, key, there, report)
    end = records.record_key(segment.log, segment.partition, segment.first + segment.count)
    shown = f"Segment {segment.first} of partition {segment.partition} of log {segment.log}"
    following, size, is_whole = segment.first, 0, True
    for block_key, block in snapshot.rows(RECORDS, key):
        if block_key >= end:
            break
        entries = report.decoded(blocks.records_in, block_key, block)
        if entries is None:
            is_whole = False
            continue
        report.records += len(entries)
        first = records.split_record_key(block_key)[2]
        if is_whole and first != following:
            report.find(f"{shown} has no records {following} to {first - 1}, or has some twice.")
            is_whole = False
        following = first + len(entries)
        size += sum(entry.size if isinstance(entry, Message) else EVENT_BYTES for entry in entries)
    count = following - segment.first
    if is_whole and (count, size) != (segment.count, segment.size):
        report.find(
            f"{shown} has {count_text(count, 'record')} of {size} bytes;"
            f" its row says {segment.count} of {segment.size} bytes."
        )
    return end


def _check_stray(snapshot: Snapshot, key: bytes, block: bytes, report: Report) -> bytes:
    """Reports a block that begins no segment and was found in none, unless its segment has grown in the meantime.
    Returns the key to go on from.
    """
    entries = report.decoded(blocks.records_in, key, block)
    segment_row = snapshot.at_or_before(SEGMENTS, key)
    if segment_row is not None and segment_row[0][: -records.OFFSET_BYTES] == key[: -records.OFFSET_BYTES]:
        try:
            segment = records.decode_segment(*segment_row)
        except DamagedRecord:
            return key + b"\0"
        end = records.record_key(segment.log, segment.partition, segment.first + segment.count)
        if key < end:
            return end
    if entries is not None:
        report.find(f"The block under key {key.hex()} has {len(entries)} records that no segment has.")
    return key + b"\0"


# ---- prepared transactions ----------------------------------------------------------------------------------------


def check_prepared(reader: Reader, report: Report) -> None:
    """Checks every prepared transaction with its SENDs, and every version of a producer-id."""
    names: dict[str, int] = {}
    number: int | None = 0
    while number is not None:
        with reader.snapshot() as snapshot:
            if number == 0:
                for key, value in snapshot.rows(APPS):
                    report.decoded(transactions.decode_app, key, value)
            number = _next_transaction(snapshot, number)
            if number is not None:
                _check_transaction(snapshot, number, names, report)
                number += 1


def _next_transaction(snapshot: Snapshot, number: int) -> int | None:
    start = transactions.transaction_key(number)
    heads = [next(snapshot.rows(table, start), None) for table in (TRANSACTIONS, PREPARED_SENDS)]
    return min((transactions.split_send_key(head[0])[0] for head in heads if head is not None), default=None)


def _check_transaction(snapshot: Snapshot, number: int, names: dict[str, int], report: Report) -> None:
    prefix = transactions.transaction_key(number)
    numbers, size, is_whole = [], 0, True
    for key, value in snapshot.rows(PREPARED_SENDS, prefix):
        if not key.startswith(prefix):
            break
        send = report.decoded(transactions.decode_send, key, value)
        numbers.append(transactions.split_send_key(key)[1])
        size += send.size if send is not None else 0
        is_whole = is_whole and send is not None
    row = snapshot.get(TRANSACTIONS, prefix)
    if row is None:
        report.find(f"There are {len(numbers)} SENDs of transaction {number}, but it is not prepared.")
        return
    report.prepared += 1
    transaction = report.decoded(transactions.decode_transaction, prefix, row)
    if transaction is None:
        return
    shown = f"The prepared transaction {number}"
    if transaction.name and names.setdefault(transaction.name, number) != number:
        report.find(
            f"Transactions {names[transaction.name]} and {number} are prepared under one name, {transaction.name!r}."
        )
    if numbers != [*range(transaction.applied, transaction.count)]:
        report.find(
            f"{shown} has {len(numbers)} SENDs left; its row says {transaction.applied} of {transaction.count} are out."
        )
    elif transaction.applied == 0 and size != transaction.size and is_whole:
        report.find(f"{shown} has SENDs of {size} bytes; its row says {transaction.size}.")
