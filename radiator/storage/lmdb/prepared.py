"""Prepared transactions in the store, and the last versions of `producer-id`s: what a start finds of them, and how
SENDs are read back. Everything happens in the transaction of the caller (start.py, reads.py).
"""

from collections.abc import Iterable
from itertools import takewhile

import lmdb

from radiator.model.commands import LoadedPrepared, Send
from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.reads import ReadPrepared
from radiator.model.writes import KeepApp, KeepTransaction
from radiator.storage.codec import transactions
from radiator.storage.codec.tables import PREPARED_SENDS, TRANSACTIONS
from radiator.storage.lmdb.logs import Tables


def read_transactions(rows: Iterable[tuple[bytes, bytes]], counted: int) -> list[KeepTransaction]:
    """Returns the transactions that are not finished; counted: the number of prepared SENDs. Raises DamagedRecord, and
    StoreError (a clause) for contradictions.
    """
    found = [transactions.decode_transaction(key, value) for key, value in rows]
    names: set[str] = set()
    for row in found:
        if row.applied > row.count:
            raise StoreError(f"{row.applied} of {row.count} SENDs of transaction {row.transaction} are out")
        if row.name in names:
            raise StoreError(f"two transactions are prepared under the name {row.name!r}")
        names |= {row.name} - {""}
    left = sum(row.count - row.applied for row in found)
    if left != counted:
        raise StoreError(f"the prepared transactions say that they have {left} SENDs left, LMDB counts {counted}")
    return found


def read_apps(rows: Iterable[tuple[bytes, bytes]]) -> list[KeepApp]:
    """Returns the last version of each `producer-id`. Raises DamagedRecord."""
    return [transactions.decode_app(key, value) for key, value in rows]


def load_prepared(txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadPrepared) -> LoadedPrepared:
    """Answers the request as the contract says. Raises StoreError, a clause."""
    loaded = LoadedPrepared(load.request)
    prefix = transactions.transaction_key(load.transaction)
    bytes_left = load.bytes_max
    row = txn.get(prefix, db=tables[TRANSACTIONS])
    cursor = txn.cursor(tables[PREPARED_SENDS])
    if row is None or not cursor.set_range(transactions.send_key(load.transaction, load.first)):
        return loaded
    first = max(load.first, transactions.decode_transaction(prefix, row).applied)
    for key, value in takewhile(lambda row: row[0].startswith(prefix), cursor.iternext()):
        try:
            send: Send | None = transactions.decode_send(key, value)
        except DamagedRecord:
            send = None
        size = len(value) if send is None else send.size
        taken = len(loaded.sends) + loaded.damaged
        if transactions.split_send_key(key)[1] != first + taken:
            raise StoreError(f"the prepared transaction {load.transaction} has no SEND {first + taken}")  # D32
        if taken == load.messages_max or (taken and bytes_left < size):
            break
        bytes_left -= size
        if send is not None:
            loaded.sends.append(send)
        else:
            loaded.damaged += 1
    return loaded
