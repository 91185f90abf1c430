"""Writes to a store as the broker does: every batch with the books of the queues that it touches."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from radiator.model.commands import Send
from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import ACCEPTED, ACKED, DELIVERED, JournalEvent
from radiator.model.limits import EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.model.reads import ReadQueue
from radiator.model.settings import KEEP_NOTHING, LogKeep
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Count,
    Declare,
    DeclareLog,
    Delay,
    Doubt,
    KeepApp,
    KeepDeclared,
    KeepPeer,
    KeepPosition,
    KeepSegment,
    KeepSegments,
    KeepSettings,
    KeepTransaction,
    Ledger,
    MakeDue,
    Put,
    Remember,
    Remove,
    RemovePrepared,
    Retire,
    SaveLedger,
    StorePrepared,
    Write,
)
from radiator.storage.lmdb.store import LmdbStore
from tests.storage.opened import opened_store

MAP_BYTES = 64 * 1024 * 1024
DUE_MS = 1_850_000_000_000
DELAYED = 6  # so many are in a store that is `filled`
LOG = 4  # the number of its log; the next one is the journal


def message_of(body: bytes, expires_ms: int = 0, headers: bytes = b"colour:blue\n") -> Message:
    return Message("/queue/orders", headers, ESCAPING_ALL, body, 1_800_000_000_000, expires_ms)


def hash_of(number: int) -> bytes:
    """What stands for the hash of a key."""
    return number.to_bytes(8, "big")


class Scribe:
    """A store, what it should hold, and the ledgers that say so. keeps_up: the tables have each batch at once."""

    def __init__(self, path: Path, map_size: int = MAP_BYTES, log_keep: LogKeep = KEEP_NOTHING) -> None:
        self.path = path
        self.keeps_up = True
        self.store = opened_store(path, map_size, log_keep=log_keep)
        recovery = self.store.recovery
        self.boot = recovery.boot
        self.ledgers = {queue.number: queue.ledger for queue in recovery.queues}
        self.messages: dict[tuple[int, int], Message] = {}
        self.delayed: dict[tuple[int, int], Delay] = {}
        self.keys: dict[tuple[int, int], bytes] = {}  # of messages at their places
        self._next_queue = recovery.next_queue
        self._sequence = 0

    def declare(self, name: str, number: int = 0) -> int:
        """number: 0: the next one."""
        number = number or self._next_queue
        self._next_queue = number + 1
        self.ledgers[number] = Ledger()
        self.store.commit([Declare(number, name)])
        self._follow()
        return number

    def _follow(self) -> None:
        if self.keeps_up:
            self.store.catch_up()

    def put(self, queue: int, body: bytes = b"", expires_ms: int = 0, key: bytes = b"") -> Put:
        """The write; its position is new."""
        put = Put(queue, position_of(self.boot, self._sequence), message_of(body, expires_ms), key)
        self._sequence += 1
        ledger = self.ledgers[queue]
        ledger.accepted += 1
        ledger.accepted_bytes += put.message.size
        ledger.stored += 1
        ledger.stored_bytes += put.message.size
        ledger.stored_expiring += expires_ms != 0
        self.messages[queue, put.position] = put.message
        self.keys[queue, put.position] = key
        return put

    def remove(self, queue: int, position: int) -> Remove:
        message = self.messages.pop((queue, position))
        ledger = self.ledgers[queue]
        ledger.stored -= 1
        ledger.stored_bytes -= message.size
        ledger.stored_expiring -= message.expires_ms != 0
        ledger.acked += 1
        ledger.acked_bytes += message.size
        return Remove(queue, position, self.keys.pop((queue, position), b""))

    def delay(self, queue: int, due_ms: int, body: bytes = b"", expires_ms: int = 0, held: bytes = b"") -> Delay:
        """The write of a new message that waits for its time."""
        put = self.put(queue, body, expires_ms)
        return self.delay_again(queue, put.position, due_ms, 0, held)

    def delay_again(self, queue: int, position: int, due_ms: int, redeliveries: int, held: bytes = b"") -> Delay:
        """The write of one that is at its place; its Remove belongs to it."""
        message = self.messages.pop((queue, position))
        self.keys.pop((queue, position), None)
        delay = Delay(queue, due_ms, position, message, redeliveries, redeliveries > 0, held)
        self.delayed[queue, position] = delay
        self.ledgers[queue].stored_delayed += 1
        self.ledgers[queue].stored_delayed_bytes += message.size
        return delay

    def wake(self, queue: int, position: int) -> list[Write]:
        """The writes; it is at its place then, with the key that it has held."""
        delay = self.delayed.pop((queue, position))
        self.messages[queue, position] = delay.message
        self.keys[queue, position] = delay.held
        self.ledgers[queue].stored_delayed -= 1
        self.ledgers[queue].stored_delayed_bytes -= delay.message.size
        count = [Count(queue, position, delay.redeliveries)] if delay.redelivered else []
        due = MakeDue(queue, delay.due_ms, position, delay.held)
        return [due, Put(queue, position, delay.message, delay.held), *count]

    def retire(self, queue: int, name: str) -> None:
        ledger = self.ledgers.pop(queue)
        self.store.commit([Retire(queue, name, ledger.stored)])
        self._follow()

    def commit(self, *writes: Write) -> None:
        """The writes, with the books of every queue that they touch."""
        touched = {write.queue for write in writes if isinstance(write, Put | Remove | Delay | MakeDue)}
        books = [SaveLedger(queue, replace(self.ledgers[queue])) for queue in sorted(touched, reverse=True)]
        self.store.commit([*writes, *books])
        self._follow()

    def fill(self, queue: int, messages: int, body: bytes = b"x" * 100, keys: int = 0) -> list[Put]:
        """So many messages in one commit. keys: they have so many, in turn; 0: none."""
        puts = [self.put(queue, body, key=hash_of(nth % keys) if keys else b"") for nth in range(messages)]
        self.commit(*puts)
        return puts

    def bodies(self, queue: int) -> list[bytes | None]:
        """All that the store gives for the queue; None for a damaged message."""
        found = self.store.load(ReadQueue(1, queue, 0, 1_000_000, 1 << 40)).messages
        return [stored.message.body if stored.message else None for stored in found]


def record_of(number: int) -> Message:
    return Message("/log/trail", b"n:%d\n" % number, ESCAPING_ALL, b"record %d" % number, DUE_MS + number)


def sentences_of(number: int) -> JournalEvent:
    return JournalEvent(
        (ACCEPTED, DELIVERED, ACKED)[number % 3], DUE_MS + number, "orders", position_of(1, number), "1/a", 0, 9
    )


def send_of(number: int) -> Send:
    return Send(0, "/queue/orders", b"n:%d\n" % number, ESCAPING_ALL, b"send %d" % number)


def segment_of(log: int, first: int, entries: Sequence[Message | JournalEvent], partition: int = 0) -> KeepSegment:
    """The books of a segment that has these."""
    sizes = [entry.size if isinstance(entry, Message) else EVENT_BYTES for entry in entries]
    times = [entry.accepted_ms if isinstance(entry, Message) else entry.ms for entry in entries]
    return KeepSegment(log, partition, first, first, len(entries), sum(sizes), min(times), max(times))


def write_logs(store: LmdbStore, log: int) -> None:
    """The log `trail` of two partitions, with two segments in the second and a group; the log `journal`, with the next
    number; and a prepared transaction, of whose four SENDs the first is out.
    """
    store.commit([DeclareLog(log, "trail"), KeepSettings(log, '{"partitions": 2}')])
    rows = [record_of(number) for number in range(8)]
    store.commit([Append(log, 0, 0, rows[0]), KeepSegments(log, [segment_of(log, 0, rows[:1])])])
    appends = [Append(log, 1, number, rows[number]) for number in range(5)]
    store.commit([*appends, KeepSegments(log, [segment_of(log, 0, rows[:5], 1)]), KeepPosition(log, "g", [1, 2])])
    appends = [Append(log, 1, number, rows[number]) for number in range(5, 8)]
    store.commit([*appends, KeepSegments(log, [segment_of(log, 5, rows[5:], 1)])])
    events = [sentences_of(number) for number in range(9)]
    store.commit([AppendEvent(log + 1, 0, 0, events), DeclareLog(log + 1, "journal")])
    store.commit([KeepSegments(log + 1, [segment_of(log + 1, 0, events)])])
    sends = [send_of(number) for number in range(4)]
    size = sum(send.size for send in sends)
    store.commit(
        [KeepTransaction(1, "batch-1", 4, size, 0, DUE_MS), StorePrepared(1, 0, sends), KeepApp("app", 6, DUE_MS)]
    )
    store.commit([KeepTransaction(1, "", 4, size, 1, DUE_MS), RemovePrepared(1, 0, 1), KeepApp("app", 7, DUE_MS)])


def filled(path: Path) -> tuple[dict[tuple[int, int], Message], list[str]]:
    """A closed store with something in every table: what is at its place in it, and the names of its queues."""
    scribe = Scribe(path)
    names = ["orders", "mail", "gone"]
    orders, mail, gone = (scribe.declare(name) for name in names)
    for size in (0, 10, 900, 5_000):
        scribe.fill(orders, 20, b"o" * size)
        scribe.fill(mail, 10, bytes([size % 256]) * size, keys=3)
    soon = [scribe.put(mail, b"soon", expires_ms=1) for _ in range(3)]
    scribe.commit(*soon)
    counted = sorted(scribe.messages)[::7]
    scribe.store.commit([Count(queue, position, 2) for queue, position in counted])
    scribe.commit(
        *[
            scribe.delay(queue, DUE_MS + nth, b"d" * nth, held=hash_of(nth) if nth < 3 else b"")
            for nth, queue in enumerate([orders, mail, gone] * 2)
        ]
    )
    scribe.store.commit(
        [KeepSettings(orders, '{"max_messages": 9}'), KeepDeclared("exchange", "x", '{"type": "topic"}')]
    )
    scribe.store.commit([Bind("x", "a.#", orders), Bind("x", "a.#", mail), Bind("", "a.*", mail), Bind("y", "", mail)])
    scribe.fill(gone, 5, keys=2)
    scribe.retire(gone, "gone")
    scribe.store.commit([Remember(orders, b"order-%d" % i, 1_800_000_000_000 + i) for i in range(20)])
    doubts = [Doubt("node.b", 4 + nth, mail, put.position) for nth, put in enumerate(soon)]
    scribe.store.commit([KeepPeer("node.b", "0123456789abcdef", 2, 3, 6, 7, 0), *doubts])
    write_logs(scribe.store, LOG)
    scribe.store.close()
    return scribe.messages, names
