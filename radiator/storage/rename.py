"""`radiator rename`: changes the node to which a data directory belongs, while no broker uses it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb

from radiator.model.errors import DamagedRecord, DiskFailed, StoreError
from radiator.model.patterns import is_node_name
from radiator.storage.codec import records
from radiator.storage.codec.tables import DOUBTS, FORMAT, META, NODE, PEERS
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import (
    checked_head,
    map_bytes_of,
    open_for_writing,
    refuse_bare_backups,
    refuse_other_formats,
)
from radiator.storage.lmdb.replay import applied, replay
from radiator.storage.lmdb.start import meta_rows, open_tables
from radiator.storage.lmdb.writer import TreeWriter


def rename(data_dir: str | Path, name: str) -> str:
    """Makes the data directory that of the node `name`. Returns its former node, "" where it had none or it cannot be
    read.

    What was kept about a node of that name is now kept about the former name: so two nodes whose disks are swapped find
    each other's numbers. Raises StoreError for an invalid name, and where messages are in doubt with a node of that
    name.
    """
    path = Path(data_dir)
    if not is_node_name(name):
        raise StoreError(f"{name!r:.80} is not a valid name for a node: it has letters, digits, `.`, `_` and `-`.")
    file = path / directory.DATA_FILE
    if not directory.is_regular(file):
        raise StoreError(f"{path} is not a data directory: it has no {directory.DATA_FILE}.")
    lock = directory.BrokerLock(path)
    try:
        return _renamed(path, file, name)
    except lmdb.Error as error:
        raise DiskFailed(f"Writing {file} failed: {error}.") from error
    finally:
        lock.release()


def _renamed(path: Path, file: Path, name: str) -> str:
    head = checked_head(file)
    with open_for_writing(path, map_bytes_of(head.end_bytes)) as env:
        with env.begin() as txn:
            meta = meta_rows(env, txn)
        refuse_other_formats(file, meta)
        refuse_bare_backups(file, meta)
        if applied(meta) is not None:  # else what the log has of the former name would come later
            tables = open_tables(env, file, records.decode_number(FORMAT, meta[FORMAT]))
            replay(TreeWriter(env, file, tables, head), path, meta)
        return _rename_in(env, file, name)


def _rename_in(env: lmdb.Environment, file: Path, name: str) -> str:
    with env.begin(write=True) as txn:
        tables = {}
        for table in (META, PEERS, DOUBTS):
            try:
                tables[table] = env.open_db(table, txn=txn, create=False)
            except lmdb.NotFoundError:
                continue  # of an earlier format
        meta = dict(txn.cursor(tables[META])) if META in tables else {}
        former = _node(meta)
        if DOUBTS in tables:
            doubts = txn.cursor(tables[DOUBTS])
            first = records.doubt_key(name, 0)
            if doubts.set_range(first) and records.split_doubt_key(doubts.key())[0] == name:
                raise StoreError(
                    f"In {file} messages are in doubt with the node {name}: start it under its own name, and say "
                    f"`radiator peer release {name} --force` first."
                )
            _hand_on(txn, tables[PEERS], name, former)
        txn.put(NODE, records.encode_text(NODE, name), db=tables[META])
    return former


def _hand_on(txn: lmdb.Transaction, peers: Any, name: str, former: str) -> None:
    """Moves what is kept about the node `name` to `former`, unless that has something already."""
    key, new = records.peer_key(name), records.peer_key(former)
    value = txn.pop(key, db=peers)
    if value is None or not former or txn.get(new, db=peers) is not None:
        return
    with suppress(DamagedRecord):
        txn.put(new, records.encode_peer(new, records.decode_peer(key, bytes(value))), db=peers)


def _node(meta: dict[bytes, bytes]) -> str:
    """Returns the store's node: "" where it has none, or one that cannot be read."""
    with suppress(DamagedRecord):
        return records.decode_text(NODE, meta[NODE]) if NODE in meta else ""
    return ""
