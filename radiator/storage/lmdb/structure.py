"""Checks LMDB's own structure while the broker serves: whether each page is the one that it should be, and its keys are
in order and within the range that the pages above it give.

It runs in slices, each in a read transaction of its own, so that no pages are pinned for long; changes between two
slices do not matter, since the next one continues after the last key. Pages are read with plain reads: a damaged
pointer becomes a sentence here, where LMDB, which reads through its map, would end the process by a signal.

What it cannot see: the lists of free pages, pages that are used twice, and values. `radiator check` checks all of it.
"""

import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lmdb

from radiator.model.errors import StoreError
from radiator.model.limits import STRUCTURE_PAGES, STRUCTURE_SLICE_S
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.unreadable import reading

# LMDB 0.9 on a 64-bit machine: the head of a page (number, flags, where its free space begins and ends), of the pages
# of one large value (number, flags, how many), of a node (size of its data or number of its child, flags, size of its
# key), and what is kept of a table.
_PAGE = struct.Struct("=Q 2x H H H")
_LARGE_VALUE = struct.Struct("=Q 2x H I")
_NODE = struct.Struct("=H H H H")
_TABLE = struct.Struct("=4x H H Q Q Q Q Q")
_NUMBER = struct.Struct("=Q")
_HEAD_BYTES = _PAGE.size
_BRANCH, _LEAF, _LARGE = 1, 2, 4  # flags of pages
_LIES_ELSEWHERE, _IS_TABLE = 1, 2  # flags of nodes
_NO_ROOT = (1 << 64) - 1
_DEPTH_MAX = 32
_FREE_AT, _MAIN_AT = 40, 88  # where the tables of free pages, and of tables, are in a meta page
_LITTLE = sys.byteorder == "little"


class Table(NamedTuple):
    """A tree of pages. has_numbers: its keys are numbers in the machine's own order of bytes."""

    name: str
    depth: int
    leaf_pages: int
    root: int
    has_numbers: bool = False


class PageNode(NamedTuple):
    """A row, or a child of a branch page. number: of the child, or the size of the value, which lies at data_at."""

    key: bytes
    number: int
    flags: int
    data_at: int


class StructureCheck:
    """`go_on` belongs to the thread that reads; `percent` may be read from any thread."""

    def __init__(self, env: lmdb.Environment, file: Path, page_bytes: int) -> None:
        self.is_done = False
        self._env = env
        self._path = file
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self._page_bytes = page_bytes
        self._last_page = 0
        self._pages = 0  # leaves that there were at the beginning
        self._pages_read = 0
        self._place = (0, b"")  # the next slice begins with this table, at this key

    def close(self) -> None:
        """Ends the check."""
        os.close(self._file)

    @property
    def pages_read(self) -> int:
        return self._pages_read

    @property
    def pages(self) -> int:
        """How many leaves there were at the beginning."""
        return self._pages

    @property
    def percent(self) -> int:
        """How much has been checked; 100 only where that is all."""
        return 100 if self.is_done else min(99, 100 * self._pages_read // max(1, self._pages))

    def go_on(self) -> None:
        """Checks the next slice. Raises StoreError where a page is damaged, DiskFailed where one cannot be read."""
        until_s = time.monotonic() + STRUCTURE_SLICE_S
        try:
            with reading(self._path), self._env.begin() as txn:
                tables = self._tables(txn.id())
                if tables:
                    self._look_at(tables, until_s)
        except lmdb.Error as error:
            raise StoreError(f"{self._path} cannot be read: {error}.") from error

    def _look_at(self, tables: list[Table], until_s: float) -> None:
        """Checks STRUCTURE_PAGES leaves, or as many as it can until then, but at least one."""
        self._pages = self._pages or sum(table.leaf_pages for table in tables)
        left = STRUCTURE_PAGES
        first, start = self._place
        for index, table in enumerate(tables[first:], first):
            for page, nodes, end in self._leaves(table, start):
                self._pages_read += 1
                left -= 1
                for node in nodes:
                    if node.flags == _LIES_ELSEWHERE:
                        self._look_at_value(table, page, node)
                        left -= 1
                if left <= 0 or time.monotonic() >= until_s:
                    self._place = (index, end) if end is not None else (index + 1, b"")
                    return
            start = b""
        self.is_done = True

    def _look_at_value(self, table: Table, page: bytes, node: PageNode) -> None:
        """Whether a value that does not fit its page is where the node says."""
        (first,) = _NUMBER.unpack_from(page, node.data_at)
        count = (_HEAD_BYTES - 1 + node.number) // self._page_bytes + 1
        if not 2 <= first <= first + count - 1 <= self._last_page:
            raise self._damaged(table, first, "is in use, but there is no such page")
        if _LARGE_VALUE.unpack(self._read(first, _LARGE_VALUE.size)) != (first, _LARGE, count):
            raise self._damaged(table, first, f"does not begin a value of {node.number} bytes")

    # ---- the trees of one state -------------------------------------------------------------------------------------

    def _tables(self, transaction: int) -> list[Table]:
        """Returns all tables, as that transaction has left them; none where the next but one has overwritten its meta
        page.
        """
        page = self._read(transaction & 1, self._page_bytes)
        meta = directory.Meta.of(page)
        if meta.transaction != transaction:
            return []
        self._last_page = meta.last_page
        free = _table("of free pages", page, _FREE_AT)._replace(has_numbers=True)
        main = _table("of tables", page, _MAIN_AT)
        tables = [free]
        for leaf, nodes, _ in self._leaves(main, b""):
            for node in nodes:
                name = node.key.decode("ascii", "replace")
                if node.flags != _IS_TABLE or node.number != _TABLE.size:
                    raise StoreError(f"{self._path} is damaged in LMDB's own structure: {name!r} is not a table.")
                tables.append(_table(name, leaf, node.data_at))
        return tables

    def _leaves(self, table: Table, start: bytes) -> Iterator[tuple[bytes, list[PageNode], bytes | None]]:
        """Yields the leaves from that key on, each with the key that ends it; None: it is the last."""
        if table.root == _NO_ROOT:
            return
        if not 1 <= table.depth <= _DEPTH_MAX:
            raise self._damaged(table, table.root, f"is the root of a tree of depth {table.depth}")
        yield from self._leaves_of(table, table.root, 1, b"", None, start)

    def _leaves_of(
        self, table: Table, number: int, level: int, low: bytes, high: bytes | None, start: bytes
    ) -> Iterator[tuple[bytes, list[PageNode], bytes | None]]:
        """Yields the leaves below a page, whose keys are from low on, and before high."""
        is_leaf = level == table.depth
        page = self._page(table, number, _LEAF if is_leaf else _BRANCH)
        nodes = self._nodes(table, number, page, is_leaf)
        keys = [node.key for node in nodes]
        if not is_leaf:
            keys[0] = low  # the first key of a branch page means nothing
        ascends = all(map(bytes.__lt__, keys, keys[1:]))
        if not ascends or keys[0] < low or (high is not None and keys[-1] >= high):
            raise self._damaged(table, number, "has keys out of order")
        if is_leaf:
            yield page, nodes, high
            return
        for node, key, end in zip(nodes, keys, [*keys[1:], high], strict=True):
            if end is None or end > start:
                yield from self._leaves_of(table, node.number, level + 1, key, end, start)

    def _page(self, table: Table, number: int, flags: int) -> bytes:
        if not 2 <= number <= self._last_page:
            raise self._damaged(table, number, "is in use, but there is no such page")
        page = self._read(number, self._page_bytes)
        if len(page) < self._page_bytes:
            raise self._damaged(table, number, "is beyond the end of the file")
        given_number, given_flags, *_ = _PAGE.unpack_from(page)
        if (given_number, given_flags) != (number, flags):
            raise self._damaged(table, number, f"says that it is page {given_number}, of kind {given_flags}")
        return page

    def _nodes(self, table: Table, number: int, page: bytes, is_leaf: bool) -> list[PageNode]:
        """Returns the nodes of a page, all of which is accounted for, since nodes fill it from its free space on."""
        _, _, lower, upper = _PAGE.unpack_from(page)
        count = (lower - _HEAD_BYTES) // 2
        if count < (1 if is_leaf else 2) or lower % 2 or not lower <= upper <= self._page_bytes:
            raise self._damaged(table, number, f"has free space from {lower} to {upper}")
        nodes = []
        filled = 0
        for at in struct.unpack_from(f"={count}H", page, _HEAD_BYTES):
            if not upper <= at <= self._page_bytes - _NODE.size:
                raise self._damaged(table, number, f"has a row at {at}")
            low, middle, flags, key_bytes = _NODE.unpack_from(page, at)
            data_at = at + _NODE.size + key_bytes
            key = page[at + _NODE.size : data_at]
            if is_leaf:
                size = low | middle << 16
                end = data_at + (_NUMBER.size if flags == _LIES_ELSEWHERE else size)
                if flags > _IS_TABLE:
                    raise self._damaged(table, number, f"has a row of kind {flags}")
                nodes.append(PageNode(key[::-1] if table.has_numbers and _LITTLE else key, size, flags, data_at))
            else:
                end = data_at
                child = low | middle << 16 | flags << 32
                nodes.append(PageNode(key[::-1] if table.has_numbers and _LITTLE else key, child, 0, data_at))
            if end > self._page_bytes:
                raise self._damaged(table, number, f"has a row from {at} to {end}")
            filled += end - at + (end - at) % 2
        if filled != self._page_bytes - upper:
            raise self._damaged(table, number, f"has rows of {filled} bytes in {self._page_bytes - upper}")
        return nodes

    def _read(self, number: int, size: int) -> bytes:
        return os.pread(self._file, size, number * self._page_bytes)

    def _damaged(self, table: Table, number: int, how: str) -> StoreError:
        return StoreError(
            f"{self._path} is damaged in LMDB's own structure: page {number} of the table {table.name} {how}."
            " Restore a backup."
        )


def _table(name: str, page: bytes, at: int) -> Table:
    _, depth, _, leaf_pages, _, _, root = _TABLE.unpack_from(page, at)
    return Table(name, depth, leaf_pages, root)
