"""Stores that tests open: what one of them leaves open is closed behind it. All of them in one process would have more
files open than a process may.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.storage.lmdb.store import LmdbStore, open_store

_collected: list[LmdbStore] | None = None


def opened_store(path: Path, map_size: int, node: str = "", log_keep: LogKeep = KEEP_NOTHING) -> LmdbStore:
    """The same as open_store."""
    store = open_store(path, map_size, node, log_keep)
    if _collected is not None:
        _collected.append(store)
    return store


@contextmanager
def closing_what_is_left() -> Iterator[None]:
    """At its end those that were opened in it are closed."""
    global _collected
    _collected = []
    try:
        yield
    finally:
        left, _collected = _collected, None
        for store in left:
            if is_open(store):
                store.close()


def is_open(store: LmdbStore) -> bool:
    try:
        store._env.info()
    except lmdb.Error:
        return False
    return True
