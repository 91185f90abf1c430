"""Mends, for `restore`, names, ledgers and messages of queues that disagree, so that a start accepts what is there.

No stored message is left out: a queue without a name gets one, a missing or wrong ledger is rebuilt from what is there,
with what it knew of the past. Rows under numbers that were never assigned are damaged keys: they are removed.
"""

from collections import Counter
from dataclasses import replace

import lmdb

from radiator.model.errors import DamagedRecord, count_text
from radiator.model.writes import Ledger
from radiator.storage.codec import records
from radiator.storage.codec.tables import (
    BINDINGS,
    DELAYED,
    LEDGERS,
    LOGS,
    MESSAGES,
    META,
    NEXT_QUEUE,
    QUEUES,
    RETIRED,
    SETTINGS,
)
from radiator.storage.lmdb.logs import Tables


def mend_ledgers(txn: "lmdb.Transaction[bytes]", tables: Tables) -> list[str]:
    """Returns a sentence for each thing that was wrong."""
    mended: list[str] = []
    value = txn.get(NEXT_QUEUE, db=tables[META])
    next_queue = records.decode_number(NEXT_QUEUE, value) if value is not None else 0
    stored = _recounted(txn, tables, next_queue, mended)
    retired = {records.queue_of(key) for key, _ in txn.cursor(tables[RETIRED])}
    there = {records.queue_of(key) for table in (QUEUES, LEDGERS) for key, _ in txn.cursor(tables[table])}
    names: set[str] = set()
    for number in sorted({*there, *stored} - (retired - there)):
        _mend_queue(txn, tables, number, stored.get(number, Ledger()), names, mended)
    for number in sorted(retired):
        key = records.queue_key(number)
        left = 0 if number in there else stored.get(number, Ledger()).stored
        row = records.encode_number(key, left)
        if txn.get(key, db=tables[RETIRED]) != row:
            mended.append(f"The deleted queue {number} has {count_text(left, 'message')} left, as is counted now.")
            if left:
                txn.put(key, row, db=tables[RETIRED])
            else:
                txn.delete(key, db=tables[RETIRED])
    numbers = {records.queue_of(key) for table in (QUEUES, LOGS) for key, _ in txn.cursor(tables[table])}
    for table, what in ((SETTINGS, "Settings"), (BINDINGS, "A binding")):
        for key in [key for key, _ in txn.cursor(tables[table]) if records.queue_of(key) not in numbers]:
            txn.delete(key, db=tables[table])
            mended.append(f"{what} of queue {records.queue_of(key)}, which is not there, are left out.")
    return mended


def _recounted(txn: "lmdb.Transaction[bytes]", tables: Tables, next_queue: int, mended: list[str]) -> dict[int, Ledger]:
    """Returns what is stored of each queue. Rows of queues that never existed are removed."""
    stored: dict[int, Ledger] = {}
    strays: Counter[bytes] = Counter()
    for table, sized in ((MESSAGES, records.message_bytes), (DELAYED, records.delayed_bytes)):
        cursor = txn.cursor(tables[table])
        is_there = cursor.first()
        while is_there:
            key, value = cursor.item()
            number = records.queue_of(key)
            if number >= next_queue:
                strays[table] += 1
                is_there = cursor.delete() and bool(cursor.key())
                continue
            size, expires = sized(value)
            ledger = stored.setdefault(number, Ledger())
            ledger.stored += 1
            ledger.stored_bytes += size
            ledger.stored_expiring += expires
            if table == DELAYED:
                ledger.stored_delayed += 1
                ledger.stored_delayed_bytes += size
            is_there = cursor.next()
    mended += [
        f"{count_text(count, 'row')} of {table.decode()} had impossible keys, and went."
        for table, count in strays.items()
    ]
    return stored


def _mend_queue(
    txn: "lmdb.Transaction[bytes]", tables: Tables, number: int, stored: Ledger, names: set[str], mended: list[str]
) -> None:
    key = records.queue_key(number)
    row, wrong = txn.get(key, db=tables[QUEUES]), "has no name"
    name = f"damaged-{number}"
    try:
        if row is not None:
            name = records.decode_text(key, row)
            wrong = "has the name of another" if name in names else ""
    except DamagedRecord as error:
        wrong = f"had a damaged name ({error})"
    if wrong:
        name = f"damaged-{number}"
        txn.put(key, records.encode_text(key, name), db=tables[QUEUES])
        mended.append(f"Queue {number} {wrong}; it is called {name} now, with {count_text(stored.stored, 'message')}.")
    names.add(name)
    row, wrong = txn.get(key, db=tables[LEDGERS]), "is missing"
    ledger = Ledger()
    try:
        if row is not None:
            ledger = records.decode_ledger(key, row)
            wrong = "" if _agree(ledger, stored) else "does not agree with what is stored"
    except DamagedRecord as error:
        wrong = f"is damaged ({error})"
    if wrong:
        past = replace(
            stored, acked=max(0, ledger.acked), expired=max(0, ledger.expired), dropped=max(0, ledger.dropped),
            purged=max(0, ledger.purged), dead_lettered=max(0, ledger.dead_lettered),
        )  # fmt: skip
        past.accepted = past.stored + past.acked + past.expired + past.dropped + past.purged + past.dead_lettered
        past.accepted_bytes = past.stored_bytes
        txn.put(key, records.encode_ledger(key, past), db=tables[LEDGERS])
        mended.append(
            f"The ledger of queue {name!r} {wrong}: it is rebuilt, with {count_text(past.stored, 'message')}."
        )


def _agree(ledger: Ledger, stored: Ledger) -> bool:
    columns = ("stored", "stored_bytes", "stored_expiring", "stored_delayed", "stored_delayed_bytes")
    return ledger.adds_up() and all(getattr(ledger, name) == getattr(stored, name) for name in columns)
