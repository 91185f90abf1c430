"""The tree, and what of the log it does not have yet: kept as changes of rows, and applied many entries at a time.

Two runs of changes at most: `open` takes what is committed, on top of `closed`, which is being applied. A commit is
judged by both and the tree; nothing contradictory gets into the log. What is not applied is bounded: who commits beyond
the bound applies it, so commits wait for a tree that does not keep up.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb

from radiator.model.errors import Contradiction
from radiator.model.limits import APPLIED_EVERY_S, UNAPPLIED_ENTRIES, UNAPPLIED_ROWS
from radiator.storage.changes import Changes
from radiator.storage.codec.operations import Operation
from radiator.storage.lmdb.damage import UNREADABLE, contradiction, unreadable
from radiator.storage.lmdb.directory import DATA_FILE
from radiator.storage.lmdb.replay import mark
from radiator.storage.lmdb.writer import TreeRows, TreeWriter
from radiator.storage.wal import WriteAheadLog


class TreeFollower:
    """`add` is the committer's; all else may be called by any thread. unapplied_bytes: those of the log that the tree
    does not have; bound: how many there may be.
    """

    def __init__(
        self,
        env: lmdb.Environment,
        tables: "dict[bytes, lmdb._Database]",
        writer: TreeWriter,
        wal: WriteAheadLog,
        bound: int,
        rows_bound: int = UNAPPLIED_ROWS,
    ) -> None:
        """Commits wait while more is not applied: `bound` bytes of the log, or `rows_bound` rows."""
        self.unapplied_bytes = 0
        self._rows_bound = rows_bound
        self.bound = bound
        self._env = env
        self._file = Path(env.path()) / DATA_FILE
        self._tree = TreeRows(tables, env)
        self._writer = writer
        self._wal = wal
        self._adding = threading.Lock()  # while an entry is added
        self._failure: Exception | None = None
        self._applying = threading.Lock()  # while the tree is written
        self._closed: Changes | None = None
        self._open = Changes(self._tree)
        self._entries = 0
        self._row_count = 0  # of what is open: a number, since other threads look at it while entries are added
        self._since_s = 0.0
        self._applied = wal.place.index

    def add(self, operations: Sequence[Operation], content: bytes, boot: int, ms: int) -> None:
        """Adds one entry, which is on the disk when this returns. Raises DiskFailed; and Contradiction, or another
        StoreError where LMDB cannot read on: then nothing of it is written, and nothing more may be added.
        """
        with self._adding:
            self._refuse_after_failure()
            try:
                with self._reading():
                    for operation in operations:
                        self._open.carry_out(operation)
                self._wal.append(content, boot, ms)
            except Exception as error:
                self._failure = error  # what is open may have a part of it, which must reach no table
                raise
            self.unapplied_bytes += len(content)
            self._entries += 1
            self._row_count = self._open.row_count
            if self._entries == 1:
                self._since_s = time.monotonic()
        if self._is_behind(1):
            self.apply()

    def apply(self) -> None:
        """Brings the tree up to everything that was added before, synced, when this returns. Raises DiskFailed; and
        what was raised where an entry could not be added.
        """
        if not self._entries and self._closed is None:
            return
        with self._applying:
            with self._adding:
                self._refuse_after_failure()
                if not self._entries:
                    return
                changes, place, size = self._open, self._wal.place, self.unapplied_bytes
                # D34: in the transaction that brings the tables there
                changes.carry_out(mark(place))
                self._closed, self._open, self._entries, self._row_count = changes, Changes(changes), 0, 0
            self._writer.write(changes)
            with self._adding:
                self._tree.follow(changes)
                self._open.tree, self._closed = self._tree, None
                self.unapplied_bytes -= size
            self._applied = place.index
            self._wal.tidy(place.index, may_take_long=False)

    def catch_up(self) -> None:
        """Does what `apply` does, and makes a segment if there is none to go on in. That may take long, so neither
        commits nor reads do it: it belongs to the follower's thread.
        """
        self.apply()
        self._wal.tidy(self._applied)

    @property
    def unapplied_entries(self) -> int:
        """Entries of the log that nothing has begun to apply."""
        return self._entries

    @property
    def is_far_behind(self) -> bool:
        """Whether the tree is to be brought up to date now, before commits must wait for it."""
        return self._is_behind(4)

    def _is_behind(self, share: int) -> bool:
        """Whether more waits than that part of what may."""
        return (
            self.unapplied_bytes > self.bound // share
            or self._entries > UNAPPLIED_ENTRIES // share
            or self._row_count > self._rows_bound // share
        )

    def apply_if_due(self) -> float:
        """Returns after how many seconds it is to be called again, so that no entry waits longer than it may."""
        left_s = self._since_s + APPLIED_EVERY_S - time.monotonic()
        if self._entries and left_s > 0:
            return left_s
        self.catch_up()  # also without entries: kept segments may have come of age, or the disk be short of room
        return APPLIED_EVERY_S

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """Returns the value under that key, of the last entry that was added. Raises StoreError."""
        with self._adding:
            self._refuse_after_failure()
            with self._reading():
                return self._open.get(table, key)

    def close(self) -> None:
        """Does what `apply` does, unless an entry could not be added: then the log has what was added before it."""
        if self._failure is None:
            self.apply()

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Contradiction as clause:
            raise contradiction(self._file, clause) from None
        except UNREADABLE as error:
            raise unreadable(self._file, error) from error
        finally:
            self._tree.release()
