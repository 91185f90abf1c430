"""Reads what a start finds in a store, and names what it writes there first. Its cost depends on the number of queues,
never on the number of messages. Contradictions are refused before anything is served.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb

from radiator.model.errors import Contradiction, DamagedRecord, StoreError, count_text
from radiator.model.recovery import Recovery, StoredDoubt, StoredQueue
from radiator.model.writes import BeginBoot, Bind, KeepDeclared, KeepNode, KeepPeer, Upgrade, Write
from radiator.storage.codec import records
from radiator.storage.codec.tables import (
    APPS,
    BINDINGS,
    BOOT,
    CLEAN,
    COUNTS,
    DECLARED,
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
    PREPARED_SENDS,
    QUEUES,
    REDELIVERED_BELOW,
    RETIRED,
    SETTINGS,
    STORE_ID,
    TIME,
    TRANSACTIONS,
    tables_of,
)
from radiator.storage.lmdb import logs, prepared
from radiator.storage.lmdb.damage import CHECK_HINT, contradiction
from radiator.storage.lmdb.datafile import refuse_bare_backups, refuse_other_formats


class Start:
    """The state that a start has read. tables: those that are there. recovery: with the boot that `writes` begins.

    redelivered_below: messages of earlier boots were stored before an unclean stop. upgrade: converts a store of an
    earlier format to the present one. writes: must be on the disk before the boot is used anywhere.
    """

    def __init__(self, env: lmdb.Environment, file: Path, tables: "dict[bytes, lmdb._Database]", node: str) -> None:
        """Begins a start: the tables have all that the log has. node: must own the store, and owns it from now on if no
        node did; "": any. Raises StoreError.
        """
        self._env = env
        self.tables = tables
        self._file = file
        with env.begin() as txn:
            meta = meta_rows(env, txn)
        refuse_other_formats(file, meta)
        refuse_bare_backups(file, meta)
        kept_node = records.decode_text(NODE, meta[NODE]) if NODE in meta else ""
        self._refuse_other_nodes(kept_node, node)
        found_format = records.decode_number(FORMAT, meta[FORMAT])
        numbers = {key: records.decode_number(key, meta[key]) for key in NUMBERS}
        was_clean = numbers[CLEAN] == 1
        boot = numbers[BOOT] + 1
        self.redelivered_below = numbers[REDELIVERED_BELOW] if was_clean else boot
        self.recovery = Recovery(
            store_id=records.decode_text(STORE_ID, meta[STORE_ID]),
            boot=boot,
            next_queue=numbers[NEXT_QUEUE],
            was_clean=was_clean,
            time_ms=records.decode_number(TIME, meta[TIME]) if TIME in meta else 0,
        )
        self._read()
        self.writes: list[Write] = [BeginBoot(boot, self.redelivered_below)]
        if node and not kept_node:
            self.writes.insert(0, KeepNode(node))
        self.upgrade: list[Write] = [Upgrade(found_format)] if found_format != records.FORMAT else []

    # ---- meta -------------------------------------------------------------------------------------------------------

    def _refuse_other_nodes(self, kept: str, node: str) -> None:
        if node and kept not in ("", node):
            data_dir = self._file.parent
            raise StoreError(
                f"{data_dir} is the data directory of the node {kept!r}, and [node] calls this one {node!r}: "
                f"give it its own, or, if this one is to be {node} from now on, say "
                f"`radiator rename {data_dir} {node}`."
            )

    # ---- everything but messages ------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Raises DamagedRecord, and Contradiction where rows contradict each other."""
        recovery = self.recovery
        with self._env.begin() as txn:
            recovery.queues, recovery.retired = self._read_queues(txn)
            self._assert_ledgers_agree(txn)
            self._read_logs(txn)
            recovery.declared, recovery.bindings = self._read_declarations(txn)
        if PEERS in self.tables:
            with self._env.begin(buffers=True) as views:
                recovery.peers, recovery.doubts = self._read_links(views)

    def _rows(self, txn: "lmdb.Transaction[Any]", table: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields all rows of a table that a start reads whole. Raises Contradiction unless they ascend and are all
        there.
        """
        last, count = b"", 0
        for key, value in txn.cursor(self.tables[table]):
            # D32: no checksum of a row shows that LMDB's pages have lost rows, or have them twice
            if bytes(key) <= last:
                raise self._contradiction(f"the table {table.decode()} has key {last.hex()} before {bytes(key).hex()}")
            last, count = bytes(key), count + 1
            yield last, bytes(value)
        counted = txn.stat(self.tables[table])["entries"]
        if count != counted:
            raise self._contradiction(f"the table {table.decode()} has {count} rows, LMDB counts {counted}")

    def _contradiction(self, clause: object) -> Contradiction:
        return contradiction(self._file, clause)

    def _read_queues(self, txn: "lmdb.Transaction[bytes]") -> tuple[list[StoredQueue], dict[int, int]]:
        names = dict(self._rows(txn, QUEUES))
        ledgers = dict(self._rows(txn, LEDGERS))
        if names.keys() != ledgers.keys():
            raise self._contradiction("there are queues without a ledger, or ledgers without a queue")
        queues = [
            StoredQueue(records.queue_of(key), records.decode_text(key, name), records.decode_ledger(key, ledgers[key]))
            for key, name in names.items()
        ]
        if DELAYED in self.tables:
            self._read_settings_and_delays(txn, queues)
        retired = {records.queue_of(key): records.decode_number(key, value) for key, value in self._rows(txn, RETIRED)}
        return queues, retired

    def _read_settings_and_delays(self, txn: "lmdb.Transaction[bytes]", queues: list[StoredQueue]) -> None:
        """Sets each queue's settings, and when its first delayed message is due. Raises Contradiction where none is."""
        settings = dict(self._rows(txn, SETTINGS))
        delayed = txn.cursor(self.tables[DELAYED])
        for queue in queues:
            key = records.settings_key(queue.number)
            if key in settings:
                queue.settings = records.decode_text(key, settings[key])
            prefix = records.queue_key(queue.number)
            if delayed.set_range(prefix) and delayed.key().startswith(prefix):
                try:
                    records.decode_delayed(delayed.key(), delayed.value())
                    queue.next_due_ms = records.split_delayed_key(delayed.key())[0]
                except DamagedRecord:
                    queue.next_due_ms = 1  # unknown: so it is read, and reported
            elif queue.ledger.stored_delayed:
                raise self._contradiction(f"the delayed messages of queue {queue.name!r} are missing")

    def _assert_ledgers_agree(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Raises Contradiction unless every ledger balances, and all together agree with LMDB's counts of messages."""
        for queue in self.recovery.queues:
            if not queue.ledger.adds_up():
                raise self._contradiction(f"the ledger of queue {queue.name!r} does not add up: {queue.ledger}")
        ledgers = [queue.ledger for queue in self.recovery.queues]
        retired = sum(self.recovery.retired.values())
        rows = txn.stat(self.tables[DELAYED])["entries"] if DELAYED in self.tables else 0
        counted = txn.stat(self.tables[MESSAGES])["entries"] + rows
        self._assert_counted("stored", sum(ledger.stored for ledger in ledgers) + retired, counted)
        if not retired:  # the row of a deleted queue does not say how many of its messages are delayed
            self._assert_counted("delayed", sum(ledger.stored_delayed for ledger in ledgers), rows)

    def _assert_counted(self, what: str, in_ledgers: int, counted: int) -> None:
        if in_ledgers != counted:
            in_text = count_text(in_ledgers, f"{what} message")
            raise self._contradiction(f"the ledgers say {in_text}, LMDB counts {counted}")

    def _read_logs(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Logs, prepared transactions and versions."""
        if LOGS not in self.tables:
            return
        try:
            self.recovery.logs = logs.read_logs(lambda table: self._rows(txn, table))
            self.recovery.transactions = prepared.read_transactions(
                self._rows(txn, TRANSACTIONS), txn.stat(self.tables[PREPARED_SENDS])["entries"]
            )
            self.recovery.apps = prepared.read_apps(self._rows(txn, APPS))
        except Contradiction:
            raise
        except StoreError as error:
            raise self._contradiction(error) from None

    def _read_declarations(self, txn: "lmdb.Transaction[bytes]") -> tuple[list[KeepDeclared], list[Bind]]:
        """Returns what was declared at run time, and all bindings. Raises Contradiction where a binding's queue is
        missing.
        """
        if DECLARED not in self.tables:
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
        """Returns the linked nodes, and what is in doubt with them: reads only these rows, whatever else is stored.

        Raises Contradiction where a message in doubt is not there, since its doubt goes with it, or its node is not.
        """
        peers = [records.decode_peer(key, value) for key, value in self._rows(txn, PEERS)]
        kept = {peer.peer for peer in peers}
        queues = {queue.number for queue in self.recovery.queues}
        doubts = []
        for key, value in self._rows(txn, DOUBTS):
            peer, sequence = records.split_doubt_key(key)
            queue, position = records.decode_doubt(key, value)
            message_key = records.message_key(queue, position)
            message = txn.get(message_key, db=self.tables[MESSAGES])
            if message is None or queue not in queues or peer not in kept:
                missing = f"the message is not in queue {queue}" if peer in kept else "nothing is kept of the node"
                raise self._contradiction(f"message {sequence} is in doubt with node {peer!r}, but {missing}")
            size, expires = records.message_bytes(message)
            redeliveries = _redeliveries(message_key, txn.get(message_key, db=self.tables[COUNTS]))
            doubts.append(StoredDoubt(peer, sequence, queue, position, size, expires, redeliveries))
        return peers, doubts


def refuse_missing_rows(file: Path, meta: dict[bytes, bytes]) -> None:
    """Raises StoreError where meta lacks a row that each store has."""
    missing = [key.decode() for key in (*NUMBERS, STORE_ID) if key not in meta]
    if missing:
        raise StoreError(f"{file} is damaged: its table meta has no row {missing[0]!r}. {CHECK_HINT}.")


def open_tables(env: lmdb.Environment, file: Path, number: int) -> "dict[bytes, lmdb._Database]":
    """Returns the tables of a store of that format. Raises StoreError where one has flags."""
    tables = {name: env.open_db(name, create=False) for name in tables_of(number)}
    flagged = [name.decode() for name, table in tables.items() if any(table.flags().values())]
    if flagged:
        raise StoreError(f"{file} is damaged: its table {flagged[0]} has flags. Restore a backup.")
    return tables


def meta_rows(env: lmdb.Environment, txn: "lmdb.Transaction[bytes]") -> dict[bytes, bytes]:
    """Returns the rows of meta; none where the file has no such table."""
    try:
        return dict(txn.cursor(env.open_db(META, txn=txn, create=False)))
    except lmdb.NotFoundError:
        return {}


def _redeliveries(key: bytes, value: memoryview | None) -> int:
    """Returns the redeliveries of a message, from its count; 0 where that is not there, or damaged."""
    try:
        return records.decode_count(key, bytes(value))[0] if value is not None else 0
    except DamagedRecord:
        return 0
