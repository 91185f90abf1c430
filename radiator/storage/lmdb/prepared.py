"""Prepared transactions in the store, and the last versions of `txn-app-id`s: what a start finds of them, and how SENDs
are read back. Everything happens in the transaction of the caller (start.py, reads.py).
"""

from collections.abc import Iterable
from itertools import takewhile

import lmdb

from radiator.model.commands import LoadedPrepared, Send
from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.reads import ReadPrepared
from radiator.model.writes import KeepApp, KeepTransaction
from radiator.storage.codec import transactions
from radiator.storage.codec.tables import STAGED, STAGES
from radiator.storage.lmdb.logs import Tables


def read_transactions(rows: Iterable[tuple[bytes, bytes]], counted: int) -> list[KeepTransaction]:
    """Those that are not over; counted: so many SENDs are staged. Raises DamagedRecord, and StoreError (a clause) for
    what contradicts itself.
    """
    stages = [transactions.decode_transaction(key, value) for key, value in rows]
    names: set[str] = set()
    for stage in stages:
        if stage.applied > stage.count:
            raise StoreError(f"{stage.applied} of {stage.count} SENDs of transaction {stage.stage} are out")
        if stage.name in names:
            raise StoreError(f"two transactions are prepared under the name {stage.name!r}")
        names |= {stage.name} - {""}
    left = sum(stage.count - stage.applied for stage in stages)
    if left != counted:
        raise StoreError(f"the prepared transactions say that they have {left} SENDs left, LMDB counts {counted}")
    return stages


def read_apps(rows: Iterable[tuple[bytes, bytes]]) -> list[KeepApp]:
    """The last version of each `txn-app-id`. Raises DamagedRecord."""
    return [transactions.decode_app(key, value) for key, value in rows]


def load_prepared(txn: "lmdb.Transaction[bytes]", tables: Tables, load: ReadPrepared) -> LoadedPrepared:
    """Answers it: see the contract. Raises StoreError, a clause."""
    loaded = LoadedPrepared(load.request)
    prefix = transactions.transaction_key(load.stage)
    bytes_left = load.bytes_max
    row = txn.get(prefix, db=tables[STAGES])
    cursor = txn.cursor(tables[STAGED])
    if row is None or not cursor.set_range(transactions.send_key(load.stage, load.first)):
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
            raise StoreError(f"the prepared transaction {load.stage} has no SEND {first + taken}")  # D32
        if taken == load.messages_max or (taken and bytes_left < size):
            break
        bytes_left -= size
        if send is not None:
            loaded.sends.append(send)
        else:
            loaded.damaged += 1
    return loaded
