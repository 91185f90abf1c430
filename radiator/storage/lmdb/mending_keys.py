"""Mends, for `restore`, rows of keys that the broker could not read, or that are of no message.

A damaged row by which a message is found is made anew, if there is a message at its place. One of a key that is held is
left out: the key is no longer held.
"""

from collections.abc import Collection, Iterable

import lmdb

from radiator.model.errors import DamagedRecord, count_text
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, DELAYED, HELD, MESSAGES, RETIRED
from radiator.storage.lmdb.logs import Tables


def mend_keys(txn: "lmdb.Transaction[bytes]", tables: Tables) -> list[str]:
    """Returns a sentence for each thing that was wrong."""
    # while a deleted queue is swept, its rows are there without their messages
    retired = {key for key, _ in txn.cursor(tables[RETIRED])}
    mended: list[str] = []
    damaged: list[bytes] = []
    anew: list[bytes] = []
    strays: list[bytes] = []
    for key, value in txn.cursor(tables[BY_KEY]):
        has_message = txn.get(keyed.place_of(key), db=tables[MESSAGES]) is not None
        try:
            keyed.decode_by_key(key, value)
            if not has_message and key[: records.QUEUE_KEY_BYTES] not in retired:
                strays.append(key)
        except DamagedRecord as error:
            is_known = has_message and len(key) == keyed.KEY_BYTES
            (anew if is_known else damaged).append(key)
            mended.append(f"{error} It is {'rebuilt, with the key that it says' if is_known else 'left out'}.")
    for key in anew:
        txn.put(key, keyed.encode_by_key(key), db=tables[BY_KEY])
    _remove(txn, tables, BY_KEY, damaged)
    _remove(txn, tables, BY_KEY, strays)
    _note(BY_KEY, strays, mended)
    _mend_held(txn, tables, retired, mended)
    return mended


def _mend_held(txn: "lmdb.Transaction[bytes]", tables: Tables, retired: set[bytes], mended: list[str]) -> None:
    held: set[bytes] = set()
    damaged: list[bytes] = []
    for key, value in txn.cursor(tables[HELD]):
        try:
            keyed.decode_held(key, value)
            if key[: records.QUEUE_KEY_BYTES] not in retired:
                held.add(key)
        except DamagedRecord as error:
            damaged.append(key)
            mended.append(f"{error} It is left out: its key is held no more.")
    if held:
        for key in txn.cursor(tables[DELAYED]).iternext(values=False):
            held.discard(records.place_of_delayed(key))
    _remove(txn, tables, HELD, damaged)
    _remove(txn, tables, HELD, held)
    _note(HELD, held, mended)


def _remove(txn: "lmdb.Transaction[bytes]", tables: Tables, table: bytes, keys: Iterable[bytes]) -> None:
    for key in keys:
        txn.delete(key, db=tables[table])


def _note(table: bytes, strays: Collection[bytes], mended: list[str]) -> None:
    if strays:
        mended.append(f"{count_text(len(strays), 'row')} of {table.decode()} had no message, and went.")
