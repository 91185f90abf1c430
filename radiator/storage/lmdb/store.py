"""The broker's store on LMDB: one environment, full sync always (datafile.py), one write transaction a batch.

Promises what the Store contract in __init__ says. The order on the disk is LMDB's: data pages, fdatasync, then the meta
page, written synchronously; so a crash at any point leaves the whole batch or nothing of it.

Values go through records.py, where every one gets its checksum: LMDB has none. Read next: check.py, backup.py.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import lmdb

from radiator.model.commands import Loaded, LoadedDelayed, LoadedLog, LoadedPrepared, StoredDelayed, StoredMessage
from radiator.model.errors import Contradiction, DamagedRecord, DiskFailed, StoreError, count_text
from radiator.model.limits import DRAIN_BYTES, FILL_AHEAD_BYTES, FILL_AHEAD_GROWN_BYTES
from radiator.model.message import SEQUENCE_BITS
from radiator.model.reads import DedupLookup, ReadDelayed, ReadLog, ReadPrepared, ReadQueue
from radiator.model.recovery import Recovery, StoredDoubt, StoredQueue
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Count,
    Declare,
    DeclareLog,
    Delay,
    Doubt,
    DropDeclared,
    DropLog,
    DropSegment,
    Forget,
    KeepDeclared,
    KeepPeer,
    KeepSettings,
    KeepTime,
    Ledger,
    MakeDue,
    Put,
    Remember,
    Remove,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    Sweep,
    Unbind,
    Write,
)
from radiator.storage.codec import records
from radiator.storage.codec.tables import (
    APPS,
    BINDINGS,
    BOOT,
    CLEAN,
    COUNTS,
    DECLARED,
    DEDUP,
    DEDUP_BY_TIME,
    DELAYED,
    DOUBTS,
    FORMAT,
    LEDGERS,
    LOGS,
    MESSAGES,
    META,
    NEXT_QUEUE,
    NODE,
    NUMBERS,
    PEERS,
    QUEUES,
    RECORDS,
    REDELIVERED_BELOW,
    RETIRED,
    SETTINGS,
    STAGED,
    STAGES,
    STORE_ID,
    TABLES,
    TIME,
    tables_of,
)
from radiator.storage.lmdb import directory, logs, prepared
from radiator.storage.lmdb.datafile import (
    bare_backup,
    checked_head,
    create,
    open_for_writing,
    refuse_bare_backups,
    refuse_damaged_structure,
    refuse_other_formats,
)
from radiator.storage.lmdb.reader import backup_meta
from radiator.storage.lmdb.structure import StructureCheck
from radiator.storage.lmdb.unreadable import READ_ERRORS

_FREE_PAGES_PER_LIST_PAGE = 500  # LMDB's list of free pages: 8 bytes each in pages of 4 KiB

_DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError)  # what LMDB says of pages that are not what was written

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT}) | READ_ERRORS
_CHECK_HINT = (
    "Run `radiator check` on it; `radiator backup` and `radiator restore` make a store of what is sound, unless the "
    "file itself is damaged"
)


def open_store(path: str | Path, map_size: int, node: str = "") -> "LmdbStore":
    """Opens the data directory for the one broker, making it if it is missing, and begins its next boot. node: whose it
    must be, and is from now on if it was nobody's; "": any.

    Raises StoreError (one sentence that says what to do) where it cannot be used, DiskFailed where its disk fails.
    """
    data_dir = Path(path)
    try:
        if backup_meta(data_dir) is not None:
            raise StoreError(bare_backup(data_dir))
        directory.prepare(data_dir)
        lock = directory.BrokerLock(data_dir)
        try:
            (data_dir / directory.NEW_FILE).unlink(missing_ok=True)
            if not directory.is_regular(data_dir / directory.DATA_FILE):
                directory.refuse_unfinished_restore(data_dir)
                create(data_dir)
                lock.lock_data()
            (data_dir / directory.COMPACT_FILE).unlink(missing_ok=True)
            directory.lay_out_lock(data_dir)
            # the start that gave the file its name may have been killed before the name was on the disk
            directory.sync_directory(data_dir)
            return LmdbStore(data_dir, map_size, lock, node)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise DiskFailed(f"Opening the data directory {data_dir} failed: {error}.") from error
        raise StoreError(f"The data directory {data_dir} cannot be used: {error}.") from error


class LmdbStore:
    """The Store contract. `commit` belongs to one thread; `load`, `look_up`, `used_bytes` to one other thread."""

    recovery: Recovery

    def __init__(self, data_dir: Path, map_size: int, lock: directory.BrokerLock, node: str = "") -> None:
        """Through `open_store` only: the directory is prepared and locked."""
        self._file = data_dir / directory.DATA_FILE
        self._lock = lock
        self._ended = False
        head = checked_head(self._file)
        is_checked = refuse_damaged_structure(self._file, head)
        self._page_bytes = head.page_bytes
        self._end_bytes = head.end_bytes  # of the last page
        self._filled_bytes = 0  # the file is known to be as long
        self._queues: set[int] = set()  # which are there
        self._logs: set[int] = set()
        self._structure: StructureCheck | None = None
        self._last_record: bytes | None = None  # no key of RECORDS is larger; None: that is to be looked up
        try:
            # a file that has outgrown a lowered map_size can still be emptied; the broker keeps SENDs within the bound
            self._env = open_for_writing(data_dir, max(map_size, head.end_bytes + DRAIN_BYTES))
            try:
                (data_dir / directory.LMDB_LOCK_FILE).chmod(0o600)
                self._env.reader_check()
                self._begin_boot(node)
                if not is_checked:
                    self._structure = StructureCheck(self._env, self._file, head.page_bytes)
            except BaseException:
                self._env.close()
                raise
        except lmdb.Error as error:
            if getattr(error, "code", 0) in _DISK_ERRORS:
                raise DiskFailed(f"Opening {self._file} failed: {error}.") from error
            raise StoreError(f"{self._file} cannot be used: {error}. {_CHECK_HINT}.") from error
        except DamagedRecord as error:
            raise StoreError(f"{self._file} is damaged: {error} {_CHECK_HINT}.") from error
        except DiskFailed as error:
            if isinstance(error.__cause__, _DAMAGE):
                raise StoreError(f"{self._file} is damaged: {error.__cause__}. {_CHECK_HINT}.") from error
            raise

    def _begin_boot(self, node: str) -> None:
        """Reads what was left, checks that it adds up, and commits the next boot's number before anybody can use it.

        A store of an earlier format becomes one of the present format in that same commit.
        """
        with self._env.begin() as txn:
            meta = _meta_rows(self._env, txn)
        refuse_other_formats(self._file, meta)
        refuse_bare_backups(self._file, meta)
        kept = records.decode_text(NODE, meta[NODE]) if NODE in meta else ""
        if node and kept not in ("", node):
            raise StoreError(
                f"{self._file.parent} is the data directory of the node {kept!r}, and [node] calls this one {node!r}: "
                f"give it its own, or, if this one is to be {node} from now on, say "
                f"`radiator rename {self._file.parent} {node}`."
            )
        there = tables_of(records.decode_number(FORMAT, meta[FORMAT]))
        self._tables = {name: self._env.open_db(name, create=False) for name in there}
        flagged = [name.decode() for name, table in self._tables.items() if any(table.flags().values())]
        if flagged:
            raise StoreError(f"{self._file} is damaged: its table {flagged[0]} has flags. Restore a backup.")
        missing = [key.decode() for key in (*NUMBERS, STORE_ID) if key not in meta]
        if missing:
            raise StoreError(f"{self._file} is damaged: its table meta has no row {missing[0]!r}. {_CHECK_HINT}.")
        numbers = {key: records.decode_number(key, meta[key]) for key in NUMBERS}
        was_clean = numbers[CLEAN] == 1
        boot = numbers[BOOT] + 1
        self._redelivered_below = numbers[REDELIVERED_BELOW] if was_clean else boot
        self.recovery = Recovery(
            store_id=records.decode_text(STORE_ID, meta[STORE_ID]),
            boot=boot,
            next_queue=numbers[NEXT_QUEUE],
            was_clean=was_clean,
            time_ms=records.decode_number(TIME, meta[TIME]) if TIME in meta else 0,
        )
        with self._env.begin() as txn:
            self.recovery.queues, self.recovery.retired = self._read_queues(txn)
            self._queues = {queue.number for queue in self.recovery.queues}
            self._assert_books_agree(txn)
            self._read_logs(txn)
            self.recovery.declared, self.recovery.bindings = self._read_declarations(txn)
        if PEERS in self._tables:
            with self._env.begin(buffers=True) as views:
                self.recovery.peers, self.recovery.doubts = self._read_links(views)
        self._in_doubt = {
            records.doubt_key(doubt.peer, doubt.sequence): records.message_key(doubt.queue, doubt.position)
            for doubt in self.recovery.doubts
        }
        # D8: whoever is given this boot can be sure that no later start gets it
        with self._commit_or_fail() as txn:
            if there != TABLES:
                self._tables |= {name: self._env.open_db(name, txn=txn) for name in TABLES if name not in there}
                self._set_number(txn, FORMAT, records.FORMAT)
            if node and not kept:
                txn.put(NODE, records.encode_text(NODE, node), db=self._tables[META])
            self._set_number(txn, BOOT, boot)
            self._set_number(txn, CLEAN, 0)
            self._set_number(txn, REDELIVERED_BELOW, self._redelivered_below)

    def _read_queues(self, txn: "lmdb.Transaction[bytes]") -> tuple[list[StoredQueue], dict[int, int]]:
        names = dict(self._rows(txn, QUEUES))
        ledgers = dict(self._rows(txn, LEDGERS))
        if names.keys() != ledgers.keys():
            raise self._contradiction("there are queues without a ledger, or ledgers without a queue")
        queues = [
            StoredQueue(records.queue_of(key), records.decode_text(key, name), records.decode_ledger(key, ledgers[key]))
            for key, name in names.items()
        ]
        if DELAYED in self._tables:
            settings = dict(self._rows(txn, SETTINGS))
            delayed = txn.cursor(self._tables[DELAYED])
            for queue in queues:
                key = records.queue_key(queue.number)
                settings_key = records.settings_key(queue.number)
                if settings_key in settings:
                    queue.settings = records.decode_text(settings_key, settings[settings_key])
                if delayed.set_range(key) and delayed.key().startswith(key):
                    queue.next_due_ms, position = records.split_delayed_key(delayed.key())
                    if self._stored_delayed(delayed.key(), delayed.value(), position).message is None:
                        queue.next_due_ms = 1  # nobody knows: it is looked at, and told of
                elif queue.ledger.stored_delayed:
                    raise self._contradiction(f"the delayed messages of queue {queue.name!r} are missing")
        retired = {records.queue_of(key): records.decode_number(key, value) for key, value in self._rows(txn, RETIRED)}
        return queues, retired

    def _read_logs(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Logs, prepared transactions and versions. Raises StoreError where they contradict themselves."""
        if LOGS not in self._tables:
            return
        try:
            self.recovery.logs = logs.read_logs(lambda table: self._rows(txn, table))
            self._logs = {log.number for log in self.recovery.logs if log.name}
            self.recovery.stages = prepared.read_stages(
                self._rows(txn, STAGES), txn.stat(self._tables[STAGED])["entries"]
            )
            self.recovery.apps = prepared.read_apps(self._rows(txn, APPS))
        except Contradiction:
            raise
        except StoreError as error:
            raise self._contradiction(error) from None

    def _contradiction(self, clause: object) -> Contradiction:
        """What is said of a store that contradicts itself, or a write."""
        return Contradiction(f"In {self._file} {clause}. That is damage, or a bug in Radiator. {_CHECK_HINT}.")

    def _rows(self, txn: "lmdb.Transaction[Any]", table: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows of a table that a start reads whole. Raises StoreError unless they ascend and are all there."""
        last, count = b"", 0
        for key, value in txn.cursor(self._tables[table]):
            # D32: what LMDB's pages have lost, or have twice, no checksum of a row tells of
            if bytes(key) <= last:
                raise self._contradiction(f"the table {table.decode()} has key {last.hex()} before {bytes(key).hex()}")
            last, count = bytes(key), count + 1
            yield last, bytes(value)
        counted = txn.stat(self._tables[table])["entries"]
        if count != counted:
            raise self._contradiction(f"the table {table.decode()} has {count} rows, LMDB counts {counted}")

    def _read_declarations(self, txn: "lmdb.Transaction[bytes]") -> tuple[list[KeepDeclared], list[Bind]]:
        """What was declared at run time, and all bindings. Raises StoreError where a binding's queue is not there."""
        if DECLARED not in self._tables:
            return [], []
        declared = [
            KeepDeclared(*records.split_declared_key(key), records.decode_text(key, value))
            for key, value in self._rows(txn, DECLARED)
        ]
        bindings = [
            Bind(*records.decode_binding(key, value), records.queue_of(key)) for key, value in self._rows(txn, BINDINGS)
        ]
        there = {queue.number for queue in self.recovery.queues}
        there |= {log.number for log in self.recovery.logs if log.name}
        stray = {binding.queue for binding in bindings} - there
        if stray:
            raise self._contradiction(f"there are bindings to queue {min(stray)}, which is not there")
        return declared, bindings

    def _read_links(self, txn: "lmdb.Transaction[memoryview]") -> tuple[list[KeepPeer], list[StoredDoubt]]:
        """The linked nodes, and what is in doubt with them: as many rows as that, whatever else is stored.

        Raises StoreError where a message in doubt is not there, since its doubt goes with it, or its node is not.
        """
        peers = [records.decode_peer(key, value) for key, value in self._rows(txn, PEERS)]
        kept = {peer.peer for peer in peers}
        queues = {queue.number for queue in self.recovery.queues}
        doubts = []
        for key, value in self._rows(txn, DOUBTS):
            peer, sequence = records.split_doubt_key(key)
            queue, position = records.decode_doubt(key, value)
            message_key = records.message_key(queue, position)
            message = txn.get(message_key, db=self._tables[MESSAGES])
            if message is None or queue not in queues or peer not in kept:
                missing = f"the message is not in queue {queue}" if peer in kept else "nothing is kept of the node"
                raise self._contradiction(f"message {sequence} is in doubt with node {peer!r}, but {missing}")
            size, expires = records.message_bytes(message)
            redeliveries = _redeliveries(message_key, txn.get(message_key, db=self._tables[COUNTS]))
            doubts.append(StoredDoubt(peer, sequence, queue, position, size, expires, redeliveries))
        return peers, doubts

    def _assert_books_agree(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Raises StoreError unless every ledger adds up, and all together agree with LMDB's own counts of messages."""
        for queue in self.recovery.queues:
            if not queue.ledger.adds_up():
                raise self._contradiction(f"the ledger of queue {queue.name!r} does not add up: {queue.ledger}")
        ledgers = [queue.ledger for queue in self.recovery.queues]
        retired = sum(self.recovery.retired.values())
        rows = txn.stat(self._tables[DELAYED])["entries"] if DELAYED in self._tables else 0
        counted = txn.stat(self._tables[MESSAGES])["entries"] + rows
        self._assert_counted("stored", sum(ledger.stored for ledger in ledgers) + retired, counted)
        if not retired:  # the row of a deleted queue does not say how many of its messages are delayed
            self._assert_counted("delayed", sum(ledger.stored_delayed for ledger in ledgers), rows)

    def _assert_counted(self, what: str, booked: int, counted: int) -> None:
        if booked != counted:
            said = count_text(booked, f"{what} message")
            raise self._contradiction(f"the ledgers say {said}, LMDB counts {counted}")

    # ---- commit: the committer's thread

    def _assert_there(self, queues: set[int], others: list[Write]) -> None:
        """Something is written in these queues: else the next start would find a ledger without a queue."""
        gone = queues - self._queues
        if gone:
            gone -= {write.queue for write in others if isinstance(write, Declare)}
        assert not gone, f"something is written in the queues {gone}, which are not there"

    def commit(self, writes: Sequence[Write]) -> None:
        """One write transaction, begun and ended here, synced when this returns. Raises DiskFailed.

        Puts are carried out first, then Counts, Removes, Delays, Wakes, Books and what logs are appended, each in the
        order of keys, then the others as they come: so a Retire finds the last books of its queue, and a Doubt the
        messages of its batch. What contradicts the store (see the contract) is a bug: AssertionError, and nothing of
        the batch is kept.
        """
        assert not self._ended, "nothing may be committed after a failure or a clean stop"
        puts: list[tuple[bytes, bytes]] = []
        counts: list[tuple[bytes, bytes]] = []
        removes: list[bytes] = []
        delays: list[tuple[bytes, bytes]] = []
        wakes: list[bytes] = []
        books: list[tuple[bytes, bytes]] = []
        appends: logs.Appends | None = None
        others: list[Write] = []
        kept: set[int] = set()  # queues in which something is written
        for write in writes:
            if isinstance(write, Put):
                key = records.message_key(write.queue, write.position)
                puts.append((key, records.encode_message(key, write.message)))
                kept.add(write.queue)
            elif isinstance(write, Remove):
                removes.append(records.message_key(write.queue, write.position))
            elif isinstance(write, Count):
                key = records.message_key(write.queue, write.position)
                counts.append((key, records.encode_count(key, write.redeliveries, write.redelivered)))
            elif isinstance(write, SaveLedger):
                key = records.queue_key(write.queue)
                books.append((key, records.encode_ledger(key, write.ledger)))
                kept.add(write.queue)
            elif isinstance(write, Delay):
                key = records.delayed_key(write.queue, write.due_ms, write.position)
                delays.append((key, records.encode_delayed(key, write.message, write.redeliveries, write.redelivered)))
                kept.add(write.queue)
            elif isinstance(write, MakeDue):
                wakes.append(records.delayed_key(write.queue, write.due_ms, write.position))
            elif isinstance(write, Append | AppendEvent):
                appends = appends or logs.Appends()
                appends.add(write)
            else:
                others.append(write)
        self._assert_there(kept, others)
        in_doubt = self._in_doubt_after(others)
        _assert_doubts_stay(in_doubt, removes, others)
        blocks = appends.rows(others) if appends else []
        # D12: all of it in one transaction, synced when this returns
        with self._commit_or_fail() as txn:
            if puts:
                self._add(txn, MESSAGES, puts)
            if counts:
                counts.sort()
                txn.cursor(self._tables[COUNTS]).putmulti(counts)
            if removes:
                removes.sort()
                self._remove(txn, removes)
            if delays:
                self._delay(txn, delays)
            if wakes:
                self._wake(txn, wakes)
            if books:
                books.sort()
                txn.cursor(self._tables[LEDGERS]).putmulti(books)
            if appends:
                declared = {write.log for write in others if isinstance(write, DeclareLog)}
                missing = appends.logs() - declared - self._logs
                assert not missing, f"the logs {missing} are appended to, but are not there"
                self._append(txn, blocks)
            for write in others:
                self._carry_out(txn, write)
            self._assert_unbound(txn, others)
            if in_doubt is not self._in_doubt:
                self._keep_doubts(txn, in_doubt)
        self._in_doubt = in_doubt

    def _in_doubt_after(self, writes: Sequence[Write]) -> dict[bytes, bytes]:
        """Which message is in doubt under which key once these are carried out."""
        changes = [write for write in writes if isinstance(write, Doubt | Settle)]
        if not changes:
            return self._in_doubt
        in_doubt = self._in_doubt.copy()
        for write in changes:
            key = records.doubt_key(write.peer, write.sequence)
            if isinstance(write, Doubt):
                assert key not in in_doubt, f"sequence {write.sequence} of {write.peer} is in doubt already"
                in_doubt[key] = records.message_key(write.queue, write.position)
            else:
                assert in_doubt.pop(key, None), f"a Settle of {write.sequence} of {write.peer}, which is not in doubt"
        return in_doubt

    @contextmanager
    def _commit_or_fail(self) -> Iterator["lmdb.Transaction[bytes]"]:
        """A write transaction. Whatever LMDB refuses is a failed disk: what reached it is unknown; no second try."""
        try:
            with self._env.begin(write=True) as txn:
                yield txn
            self._fill_up()
        except (lmdb.Error, OSError, SystemError) as error:  # the last is what a Cursor says of some damaged pages
            self._ended = True
            raise DiskFailed(f"Writing to {self._file} failed: {error}.{self._free_told()}") from error

    def _free_told(self) -> str:
        """For whoever reads it: LMDB calls a full disk an input/output error."""
        try:
            told = os.statvfs(self._file)
        except OSError:
            return ""
        return f" Its file system has {told.f_bavail * told.f_frsize} bytes free."

    def _fill_up(self) -> None:
        """LMDB leaves free pages at the end of the file unwritten; then a later start could not tell it from a cut one.

        The length is synced by the next commit. After a power cut in between, the start takes a long look instead.
        Where commits are small, the next ones find their pages on the disk already.
        """
        info = self._env.info()
        end_bytes = (info["last_pgno"] + 1) * self._page_bytes
        grown_bytes, self._end_bytes = end_bytes - self._end_bytes, end_bytes
        if end_bytes > self._filled_bytes:
            directory.fill_up(self._file, end_bytes)
            self._filled_bytes = end_bytes
            if grown_bytes <= FILL_AHEAD_GROWN_BYTES:
                ahead_bytes = min(end_bytes + FILL_AHEAD_BYTES, info["map_size"])
                self._filled_bytes = directory.fill_ahead(self._file, ahead_bytes)

    def _add(self, txn: "lmdb.Transaction[bytes]", table: bytes, rows: list[tuple[bytes, bytes]]) -> None:
        """Rows of which none may be there."""
        rows.sort()
        cursor = txn.cursor(self._tables[table])
        # past the last key LMDB need not split pages in halves: 39 MiB instead of 59 for 30,000 x 1 KiB
        append = not cursor.last() or cursor.key() < rows[0][0]
        _, added = cursor.putmulti(rows, overwrite=False, append=append)
        if added != len(rows):
            raise self._contradiction(f"something is already where {table.decode()} from {rows[0][0].hex()} on belong")

    def _append(self, txn: "lmdb.Transaction[bytes]", rows: list[tuple[bytes, bytes]]) -> None:
        """The same for blocks; one in one call: each lets the dispatcher's thread in, which is not quick to let go."""
        if self._last_record is None:
            cursor = txn.cursor(self._tables[RECORDS])
            self._last_record = cursor.key() if cursor.last() else b""
        if len(rows) > 1:
            self._last_record = max(self._last_record, max(rows)[0])
            self._add(txn, RECORDS, rows)
            return
        [(key, value)] = rows
        append = key > self._last_record
        if append:
            self._last_record = key
        if not txn.put(key, value, overwrite=False, append=append, db=self._tables[RECORDS]):
            raise self._contradiction(f"there is a block under {key.hex()} already")

    def _delay(self, txn: "lmdb.Transaction[bytes]", rows: list[tuple[bytes, bytes]]) -> None:
        self._add(txn, DELAYED, rows)
        messages = txn.cursor(self._tables[MESSAGES])
        for key, _ in rows:
            due_ms, position = records.split_delayed_key(key)
            assert due_ms, f"the message under {key.hex()} is delayed until never"
            at_place = messages.set_key(records.message_key(records.queue_of(key), position))
            assert not at_place, f"the message under {key.hex()} is delayed, and at its place"

    def _wake(self, txn: "lmdb.Transaction[bytes]", keys: list[bytes]) -> None:
        for key in sorted(keys):
            if not txn.delete(key, db=self._tables[DELAYED]):
                raise self._contradiction(f"there is no delayed message under {key.hex()} to be taken out")

    def _remove(self, txn: "lmdb.Transaction[bytes]", keys: list[bytes]) -> None:
        """Deletes messages and their counts. Few messages have a count: the walk asks LMDB only where one may be."""
        messages = self._tables[MESSAGES]
        counts = txn.cursor(self._tables[COUNTS])
        nearest: bytes | None = b""  # the smallest key of a count that is not before the message; None: there is none
        for key in keys:
            if not txn.delete(key, db=messages):
                raise self._contradiction(f"there is no message under {key.hex()} to be removed")
            if nearest is not None and nearest < key:
                nearest = counts.key() if counts.set_range(key) else None
            if nearest == key:
                counts.delete()
                nearest = b""

    def _carry_out(self, txn: "lmdb.Transaction[bytes]", write: Write) -> None:
        if isinstance(write, Declare):
            self._declare(txn, write)
        elif isinstance(write, Remember):
            self._remember(txn, write)
        elif isinstance(write, Forget):
            self._forget(txn, write)
        elif isinstance(write, Retire):
            self._retire(txn, write)
        elif isinstance(write, Sweep):
            self._sweep(txn, write)
        elif isinstance(write, KeepPeer):
            key = records.peer_key(write.peer)
            txn.put(key, records.encode_peer(key, write), db=self._tables[PEERS])
        elif isinstance(write, Bind | Unbind):
            self._bind(txn, write)
        elif isinstance(write, KeepSettings):
            key = records.settings_key(write.queue)
            is_there = self._has_queue(txn, write.queue)
            assert is_there, f"queue or log number {write.queue} has settings, but is not there"
            txn.put(key, records.encode_text(key, write.text), db=self._tables[SETTINGS])
        elif isinstance(write, KeepDeclared):
            key = records.declared_key(write.kind, write.name)
            txn.put(key, records.encode_text(key, write.text), db=self._tables[DECLARED])
        elif isinstance(write, DropDeclared):
            was_there = txn.delete(records.declared_key(write.kind, write.name), db=self._tables[DECLARED])
            assert was_there, f"no {write.kind} {write.name!r} was declared at run time"
        elif isinstance(write, KeepTime):
            self._set_number(txn, TIME, write.ms)
        elif isinstance(write, StoppedClean):
            self._set_number(txn, CLEAN, 1)
            self._ended = True
        elif isinstance(write, logs.LogWrite):
            if isinstance(write, DeclareLog):
                self._give_number(txn, write.log)
                self._logs.add(write.log)
            elif isinstance(write, DropLog):
                self._logs.discard(write.log)
            elif isinstance(write, DropSegment):
                self._last_record = None
            logs.carry_out(txn, self._tables, write)
        elif isinstance(write, prepared.StageWrite):
            prepared.carry_out(txn, self._tables, write)
        else:
            assert isinstance(write, Doubt | Settle), f"{write} is no write"  # _keep_doubts has what comes of them

    def _declare(self, txn: "lmdb.Transaction[bytes]", write: Declare) -> None:
        self._give_number(txn, write.queue)
        self._queues.add(write.queue)
        key = records.queue_key(write.queue)
        txn.put(key, records.encode_text(key, write.name), db=self._tables[QUEUES])
        # the same batch may have written its books already
        txn.put(key, records.encode_ledger(key, Ledger()), overwrite=False, db=self._tables[LEDGERS])

    def _give_number(self, txn: "lmdb.Transaction[bytes]", number: int) -> None:
        """Queues and logs share them."""
        value = txn.get(NEXT_QUEUE, db=self._tables[META])
        assert value is not None, "every store has a next queue number"
        assert number >= records.decode_number(NEXT_QUEUE, value), f"queue number {number} was used before"
        self._set_number(txn, NEXT_QUEUE, number + 1)

    def _has_queue(self, txn: "lmdb.Transaction[bytes]", number: int) -> bool:
        """Whether there is a queue of that number, or a log."""
        is_queue = txn.get(records.queue_key(number), db=self._tables[QUEUES]) is not None
        return is_queue or logs.has_log(txn, self._tables, number)

    def _bind(self, txn: "lmdb.Transaction[bytes]", write: Bind | Unbind) -> None:
        key = records.binding_key(write.queue, write.exchange, write.key)
        if isinstance(write, Unbind):
            assert txn.delete(key, db=self._tables[BINDINGS]), f"{write} of what is not bound"
            return
        assert self._has_queue(txn, write.queue), f"{write} to a queue that is not there"
        value = records.encode_binding(key, write.exchange, write.key)
        assert txn.put(key, value, overwrite=False, db=self._tables[BINDINGS]), f"{write} of what is bound already"

    def _assert_unbound(self, txn: "lmdb.Transaction[bytes]", writes: Sequence[Write]) -> None:
        """No binding leads to a queue that these retire, or a log that they drop."""
        for write in writes:
            if isinstance(write, Retire | DropLog):
                number = write.queue if isinstance(write, Retire) else write.log
                bindings = txn.cursor(self._tables[BINDINGS])
                key = records.queue_key(number)
                is_bound = bindings.set_range(key) and bindings.key().startswith(key)
                assert not is_bound, f"queue number {number} is retired while it is bound"

    def _remember(self, txn: "lmdb.Transaction[bytes]", write: Remember) -> None:
        key = records.dedup_key(write.queue, write.dedup_id)
        earlier = txn.get(key, db=self._tables[DEDUP])
        if earlier is not None:
            # past its time, not forgotten yet; where it is damaged its time is unknown, and is forgotten when it comes
            with suppress(DamagedRecord):
                until_ms = records.decode_number(key, earlier)
                txn.delete(records.dedup_time_key(until_ms, key), db=self._tables[DEDUP_BY_TIME])
        txn.put(key, records.encode_number(key, write.until_ms), db=self._tables[DEDUP])
        by_time = records.dedup_time_key(write.until_ms, key)
        txn.put(by_time, records.encode_number(by_time, write.until_ms), db=self._tables[DEDUP_BY_TIME])

    def _forget(self, txn: "lmdb.Transaction[bytes]", write: Forget) -> None:
        by_time = txn.cursor(self._tables[DEDUP_BY_TIME])
        for _ in range(write.limit):
            if not by_time.first():
                return
            until_ms, key = records.split_dedup_time_key(by_time.key())
            if until_ms >= write.before_ms:
                return
            by_time.delete()
            txn.delete(key, db=self._tables[DEDUP])

    def _retire(self, txn: "lmdb.Transaction[bytes]", write: Retire) -> None:
        key = records.queue_key(write.queue)
        ledger = txn.pop(key, db=self._tables[LEDGERS])
        name = txn.pop(key, db=self._tables[QUEUES])
        assert ledger is not None and name is not None, f"queue number {write.queue} is retired but was never declared"
        self._queues.discard(write.queue)
        txn.delete(records.settings_key(write.queue), db=self._tables[SETTINGS])
        stored = records.decode_ledger(key, ledger).stored
        if stored:
            txn.put(key, records.encode_number(key, stored), db=self._tables[RETIRED])

    def _sweep(self, txn: "lmdb.Transaction[bytes]", write: Sweep) -> None:
        key = records.queue_key(write.queue)
        value = txn.get(key, db=self._tables[RETIRED])
        if value is None:
            return  # nothing was stored in it, or it is swept already
        left = records.decode_number(key, value)
        keys = self._first_keys(txn, MESSAGES, key, write.limit)
        delayed = self._first_keys(txn, DELAYED, key, write.limit - len(keys))
        swept = len(keys) + len(delayed)
        if swept != min(left, write.limit):
            raise self._contradiction(f"the deleted queue {write.queue} has less than {left} messages")
        self._remove(txn, keys)
        self._wake(txn, delayed)
        if left > swept:
            txn.put(key, records.encode_number(key, left - swept), db=self._tables[RETIRED])
        else:
            txn.delete(key, db=self._tables[RETIRED])

    def _first_keys(self, txn: "lmdb.Transaction[bytes]", table: bytes, prefix: bytes, most: int) -> list[bytes]:
        cursor = txn.cursor(self._tables[table])
        if not cursor.set_range(prefix):
            return []
        keys = takewhile(lambda key: key.startswith(prefix), cursor.iternext(values=False))
        return list(islice(keys, most))

    def _keep_doubts(self, txn: "lmdb.Transaction[bytes]", in_doubt: dict[bytes, bytes]) -> None:
        """The rows as they are after the batch: of one that it settles again it may remove the message too."""
        messages = txn.cursor(self._tables[MESSAGES])
        for key in self._in_doubt.keys() - in_doubt.keys():
            txn.delete(key, db=self._tables[DOUBTS])
        for key, message in in_doubt.items():
            if self._in_doubt.get(key) != message:
                # a cursor, since `get` would copy the message
                assert messages.set_key(message), f"what is in doubt under {key.hex()} is not stored"
                queue, position = records.queue_of(message), records.position_in(message)
                txn.put(key, records.encode_doubt(key, queue, position), db=self._tables[DOUBTS])

    def _set_number(self, txn: "lmdb.Transaction[bytes]", key: bytes, number: int) -> None:
        txn.put(key, records.encode_number(key, number), db=self._tables[META])

    def reader_check(self) -> None:
        """Frees the places of readers that died: each pins the pages of its snapshot. The committer calls it."""
        self._env.reader_check()

    # ---- reads: the loader's thread. A read transaction never outlives its call

    def load(self, load: ReadQueue) -> Loaded:
        """See the contract. Raises StoreError where LMDB itself cannot read on."""
        if load.positions:
            return self._load_at(load)
        first = records.message_key(load.queue, load.after) + b"\0"
        prefix = records.queue_key(load.queue)
        loaded = Loaded(load.request)
        found, bytes_left = loaded.messages, load.bytes_max
        try:
            with self._env.begin() as txn:
                messages = txn.cursor(self._tables[MESSAGES])
                if not messages.set_range(first):
                    return loaded
                redelivery = _RedeliveryCounts(txn, self._tables[COUNTS])
                for key, value in messages.iternext():
                    if not key.startswith(prefix):
                        break
                    if len(found) == load.messages_max or (found and bytes_left < len(value)):
                        loaded.has_more = True
                        break
                    found.append(self._stored_message(key, value, redelivery))
                    bytes_left -= len(value)
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error
        return loaded

    def _load_at(self, load: ReadQueue) -> Loaded:
        """Those of the given positions that are there."""
        loaded = Loaded(load.request)
        try:
            with self._env.begin() as txn:
                redelivery = _RedeliveryCounts(txn, self._tables[COUNTS])
                for position in load.positions:
                    key = records.message_key(load.queue, position)
                    value = txn.get(key, db=self._tables[MESSAGES])
                    if value is not None:
                        loaded.messages.append(self._stored_message(key, value, redelivery))
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error
        return loaded

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        """See the contract. Raises StoreError where LMDB itself cannot read on."""
        loaded = LoadedDelayed(load.request)
        prefix = records.queue_key(load.queue)
        sound, bytes_left = 0, load.bytes_max
        try:
            with self._env.begin() as txn:
                delayed = txn.cursor(self._tables[DELAYED])
                if not delayed.set_range(records.delayed_key(load.queue, load.after_ms, load.after) + b"\0"):
                    return loaded
                for key, value in delayed.iternext():
                    if not key.startswith(prefix):
                        break
                    due_ms, position = records.split_delayed_key(key)
                    is_due = due_ms < load.before_ms
                    if is_due and (sound == load.messages_max or (sound and bytes_left < len(value))):
                        loaded.next_due_ms = due_ms
                        break
                    found = self._stored_delayed(key, value, position)
                    # the time of a damaged one means nothing, and must not keep back those behind it
                    if not is_due and found.message is not None:
                        loaded.next_due_ms = due_ms
                        break
                    loaded.messages.append(StoredDelayed(due_ms, found))
                    if found.message is not None:
                        sound += 1
                        bytes_left -= len(value)
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error
        return loaded

    def _stored_delayed(self, key: bytes, value: bytes, position: int) -> StoredMessage:
        try:
            message, redeliveries, redelivered = records.decode_delayed(key, value)
        except DamagedRecord:
            return StoredMessage(position, None, 0, True)
        return StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position))

    def _is_suspect(self, position: int) -> bool:
        """Whether it was stored before an unclean stop."""
        return position >> SEQUENCE_BITS < self._redelivered_below

    def _stored_message(self, key: bytes, value: bytes, redelivery: "_RedeliveryCounts") -> StoredMessage:
        position = records.position_in(key)
        redeliveries, redelivered = redelivery.of(key)
        try:
            message = records.decode_message(key, value)
        except DamagedRecord:
            message = None
        return StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position))

    def load_log(self, load: ReadLog) -> LoadedLog:
        """See the contract. Raises StoreError where LMDB itself cannot read on."""
        try:
            with self._env.begin() as txn:
                return logs.load_log(txn, self._tables, load, self.recovery.store_id)
        except StoreError as error:
            raise self._contradiction(error) from None
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error

    def load_stage(self, load: ReadPrepared) -> LoadedPrepared:
        """See the contract. Raises StoreError where LMDB itself cannot read on."""
        try:
            with self._env.begin() as txn:
                return prepared.load_stage(txn, self._tables, load)
        except StoreError as error:
            raise self._contradiction(error) from None
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error

    def look_up(self, look_up: DedupLookup) -> bool:
        """See the contract. A damaged row is not remembered: a message twice rather than not at all."""
        key = records.dedup_key(look_up.queue, look_up.dedup_id)
        try:
            with self._env.begin() as txn:
                value = txn.get(key, db=self._tables[DEDUP])
            return value is not None and records.decode_number(key, value) >= look_up.now_ms
        except DamagedRecord:
            return False
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error

    # ---- its structure: the loader's thread, too

    def go_on_checking(self) -> bool:
        """Looks at some more pages of a file that the start has not read through. False: that is done, or was not
        needed. Raises StoreError, or DiskFailed.
        """
        if self._structure is None or self._structure.is_done:
            return False
        self._structure.go_on()
        return not self._structure.is_done

    @property
    def checked_percent(self) -> int:
        """How much of its structure has been looked at since the start."""
        return 100 if self._structure is None else self._structure.percent

    def used_bytes(self) -> int:
        """Bytes of the file that a commit cannot use again: pages of the tables, and of LMDB's list of free pages.

        While a reader (a backup, a check) holds an older snapshot, free pages may be its: then the whole file counts.
        """
        try:
            with self._env.begin() as txn:
                stats = [txn.stat(table) for table in self._tables.values()]
            stats.append(self._env.stat())
            info = self._env.info()
            snapshots = _snapshots(self._env.readers())
        except lmdb.Error as error:
            raise StoreError(f"{self._file} cannot be read: {error}. {_CHECK_HINT}.") from error
        pages = info["last_pgno"] + 1
        if not snapshots or min(snapshots) >= info["last_txnid"] - 1:
            used = 2 + sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
            pages = min(pages, used + max(0, pages - used) // _FREE_PAGES_PER_LIST_PAGE + 1)
        return pages * stats[0]["psize"]

    def spare_bytes(self) -> int:
        """Bytes of the disk that the file occupies already and uses no more: commits take them before it grows."""
        return max(0, self._file.stat().st_blocks * 512 - self.used_bytes())

    def close(self) -> None:
        """See the contract. No other call may be under way."""
        self._ended = True
        if self._structure is not None:
            self._structure.close()
        self._env.close()
        self._lock.release()


def _assert_doubts_stay(in_doubt: dict[bytes, bytes], removes: list[bytes], others: list[Write]) -> None:
    """No message is in doubt twice, and none goes, or its queue, while it is."""
    if in_doubt:
        messages = set(in_doubt.values())
        assert len(messages) == len(in_doubt), "a message is in doubt twice"
        assert messages.isdisjoint(removes), "a message in doubt is removed"
        retired = {write.queue for write in others if isinstance(write, Retire)}
        assert retired.isdisjoint(map(records.queue_of, messages)), f"of {retired} a queue has messages in doubt"


def _meta_rows(env: lmdb.Environment, txn: "lmdb.Transaction[bytes]") -> dict[bytes, bytes]:
    """The rows of meta; none where the file has no such table."""
    try:
        return dict(txn.cursor(env.open_db(META, txn=txn, create=False)))
    except lmdb.NotFoundError:
        return {}


def _snapshots(readers: str) -> list[int]:
    """The transaction numbers that LMDB's table of readers (process, thread, transaction) shows in use."""
    last_words = [line.split()[-1] for line in readers.splitlines() if line.strip()]
    return [int(word) for word in last_words if word.isdigit()]


def _redeliveries(key: bytes, value: memoryview | None) -> int:
    """Of one message, from its count; 0 where that is not there, or damaged."""
    try:
        return records.decode_count(key, bytes(value))[0] if value is not None else 0
    except DamagedRecord:
        return 0


class _RedeliveryCounts:
    """Counts of messages asked for in ascending order; asks LMDB only where one may be."""

    def __init__(self, txn: "lmdb.Transaction[bytes]", table: "lmdb._Database") -> None:
        self._cursor = txn.cursor(table)
        self._nearest: bytes | None = b""  # the smallest key that is not before those asked for; None: there is none

    def of(self, key: bytes) -> tuple[int, bool]:
        """Redeliveries, and whether it is marked redelivered. A damaged count says only that it came back."""
        if self._nearest is not None and self._nearest < key:
            self._nearest = self._cursor.key() if self._cursor.set_range(key) else None
        if self._nearest != key:
            return 0, False
        try:
            return records.decode_count(key, self._cursor.value())
        except DamagedRecord:
            return 0, True
