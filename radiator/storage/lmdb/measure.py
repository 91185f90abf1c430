"""Measures how much of its file a store uses: called by the loader's thread."""

from pathlib import Path

import lmdb

from radiator.model.errors import StoreError
from radiator.storage.lmdb.damage import CHECK_HINT

_FREE_PAGES_PER_LIST_PAGE = 500  # LMDB's list of free pages: 8 bytes each in pages of 4 KiB


def used_bytes(env: lmdb.Environment, file: Path, tables: "dict[bytes, lmdb._Database]") -> int:
    """Returns the bytes of the file that a commit cannot use again: pages of the tables, and of LMDB's list of free
    pages.

    While a reader (a backup, a check) holds an older snapshot, it may use free pages: then the whole file counts.
    Raises StoreError where LMDB cannot read on.
    """
    try:
        with env.begin() as txn:
            stats = [txn.stat(table) for table in tables.values()]
        stats.append(env.stat())
        info = env.info()
        transactions = snapshots(env.readers())
    except lmdb.Error as error:
        raise StoreError(f"{file} cannot be read: {error}. {CHECK_HINT}.") from error
    pages = info["last_pgno"] + 1
    if not transactions or min(transactions) >= info["last_txnid"] - 1:
        used = 2 + sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        pages = min(pages, used + max(0, pages - used) // _FREE_PAGES_PER_LIST_PAGE + 1)
    return pages * stats[0]["psize"]


def spare_bytes(file: Path, used: int) -> int:
    """Returns the bytes of the disk that the file occupies and no longer uses: commits take them before it grows."""
    return max(0, file.stat().st_blocks * 512 - used)


def snapshots(readers: str) -> list[int]:
    """Returns the transaction numbers that LMDB's table of readers (process, thread, transaction) shows in use."""
    last_words = [line.split()[-1] for line in readers.splitlines() if line.strip()]
    return [int(word) for word in last_words if word.isdigit()]
