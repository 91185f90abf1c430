"""T16: stores are damaged in every way that a file can be, and opened, checked, read and written on.

Flipped bits, zeros, rubbish, swapped, misplaced and older pages, cut files, in the tables and in the log in front of
them, after a clean stop or as a kill leaves them; most of them in a child process through the store's own code, some
through a whole broker. What is given out is what was put in, or nothing; what `radiator check` finds nothing wrong with
is exactly what was written; nothing crashes or hangs, and every refusal is a sentence.

Of the log, damage in an entry that the tables do not have refuses the start if anything sound follows that entry, and
so does a segment that was made shorter. Where nothing does, the damage cannot be told from what a crash may leave
(docs/DURABILITY.md, "Known issues"): then the state before the first damaged entry is right too, and nothing else is.
Nor can it be seen where both heads of LMDB are hit, and so made a former state of the whole file.
"""

import contextlib
import io
import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from radiator.model.commands import Send
from radiator.model.errors import EXIT_DISK_FAILED, EXIT_REFUSED, DiskFailed, StoreError
from radiator.model.journal import JournalEvent
from radiator.model.limits import KIB
from radiator.model.message import Message, position_of
from radiator.model.reads import DedupLookup, ReadDelayed, ReadLog, ReadPrepared, ReadQueue
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Count,
    Delay,
    Doubt,
    DropDeclared,
    KeepDeclared,
    KeepPeer,
    KeepSettings,
    Ledger,
    MakeDue,
    Put,
    Remember,
    Remove,
    SaveLedger,
    Settle,
    StoppedClean,
    StorePrepared,
    Unbind,
    Write,
)
from radiator.storage import wal
from radiator.storage.lmdb import store as store_module
from radiator.storage.lmdb.directory import DATA_FILE, WAL_DIRECTORY
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import LmdbStore, open_store
from radiator.storage.wal import segments_in
from radiator.tools.cli import main
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.children import Report as ReportScore
from tests.campaigns.children import run_cases
from tests.crash.books import body_of
from tests.sim.disk import Platter, SimDisk, as_read
from tests.storage.log_batches import LogBatches
from tests.storage.scribe import MAP_BYTES, Scribe, message_of

PAGE_BYTES, SECTOR_BYTES = 4096, 512
HEADS_BYTES = 2 * PAGE_BYTES
COMMITS = 50
RECORDS_OF_A_BATCH = (2, 30, 150)
STATES_KEPT = 10
CASES_OF_A_STORE = 146
BROKERS_OF_A_STORE = 4  # these go through a whole broker
CASE_MAX_S = 20
NAMES = ("orders", "mail", "ä/€", "jobs.x", "gone")
PEERS = ("b", "node.c")
DRAIN_QUIET_S = 0.6
DUE_MS = 4_000_000_000_000
BEHIND = (0, STATES_KEPT - 1, 4, 1)  # entries that the tables do not have, of one store and the next
WAL_SHARE = 0.4  # of the cases
SEGMENT_BYTES = 64 * KIB
# docs/FORMAT.md, "The log"
SEGMENT_OPENING_BYTES, ENTRY_UNIT_BYTES = 128, 8
ENTRY_HEAD_BYTES, ENTRY_HEAD_COVERED = 56, 52

Place = tuple[int, int]
Binding = tuple[str, str, int]
Record = tuple[int, int, int]  # log, partition, offset


@dataclass(slots=True)
class Declared:
    """What was declared at run time: settings by queue, the text of each exchange, bindings."""

    settings: dict[int, str] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    bindings: set[Binding] = field(default_factory=set)

    def copy(self) -> "Declared":
        return Declared(dict(self.settings), dict(self.exchanges), set(self.bindings))


# ---- what is damaged ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class State:
    """What the store holds after one commit."""

    messages: dict[Place, Message]
    counts: dict[Place, int]
    ledgers: dict[int, Ledger]
    retired: dict[int, int]
    remembered: set[tuple[int, bytes]]
    peers: dict[str, KeepPeer]
    doubts: dict[tuple[str, int], Place]
    delayed: dict[Place, Delay]
    declared: Declared
    logs: Platter


Files = dict[str, bytes]
"""Of a data directory: data.mdb, and the segments of the log."""


@dataclass(slots=True)
class Behind:
    """An entry of the log that the tables do not have: of which segment it is, and which bytes its checksums cover."""

    name: str
    head: range
    content: range

    def is_hit(self, before: Files, after: Mapping[str, bytes | bytearray]) -> bool:
        """Whether any of its bytes is another one now."""
        now = after.get(self.name, b"")
        return any(now[at.start : at.stop] != before[self.name][at.start : at.stop] for at in (self.head, self.content))


@dataclass(slots=True)
class Original:
    """A store that was written by the rules, its last states, and all that was ever in it.

    files: as they are in the end. earlier: as they were some commits before, the oldest first. behind: the entries of
    the log that the tables do not have, of which the last one is that of the last state.
    """

    files: Files = field(default_factory=dict)
    earlier: list[Files] = field(default_factory=list)
    behind: list[Behind] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    ever: dict[Place, Message] = field(default_factory=dict)
    counted: dict[Place, int] = field(default_factory=dict)
    doubted: set[tuple[str, int, Place]] = field(default_factory=set)
    delays: dict[Place, list[Delay]] = field(default_factory=dict)
    records: dict[Record, Message | JournalEvent] = field(default_factory=dict)
    prepared: dict[int, list[Send]] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    @property
    def now(self) -> State:
        return self.states[-1]


class Author:
    """Writes a store at random, and keeps beside it what it then holds.

    peers: the nodes with which messages are in doubt. A broker that knows none of them is given a store without; and
    without logs, which are not as its settings say.
    """

    def __init__(self, directory: Path, chance: Random, peers: tuple[str, ...] = PEERS) -> None:
        self.chance = chance
        self.scribe = Scribe(directory)
        self.original = Original()
        self.counts: dict[Place, int] = {}
        self.retired: dict[int, int] = {}
        self.remembered: set[tuple[int, bytes]] = set()
        self.peers = {name: KeepPeer(name, name * 8, 1, 0, 0, 1, 0) for name in peers}
        self.kept: dict[str, KeepPeer] = {}
        self.doubts: dict[tuple[str, int], Place] = {}
        self.declared = Declared()
        self.batches = LogBatches(chance, len(NAMES) + 1, RECORDS_OF_A_BATCH)
        self.twin = SimDisk()  # of logs and prepared transactions
        self.written = 0

    def write(self, behind: int) -> Original:
        """behind: entries of the log that the tables shall not have; 0: it is stopped cleanly."""
        for name in NAMES:
            self.original.names[self.scribe.declare(name)] = name
        steps = [self.put, self.put, self.put, self.remove, self.count, self.remember]
        steps += [self.delay, self.delay, self.wake, self.declare, self.declare, self.bind, self.unbind]
        steps += [self.offer, self.settle, *[self.log] * 6] if self.peers else []
        chosen = [*(self.chance.choice(steps) for _ in range(COMMITS)), self.retire, self.put]
        if not behind:
            chosen.append(lambda: self.scribe.store.commit([StoppedClean()]))
        self.scribe.keeps_up = False
        for left, step in zip(reversed(range(len(chosen))), chosen, strict=True):
            step()
            if left == behind or (left > behind and self.chance.random() < 0.7):
                self.scribe.store.catch_up()
            self.note()
        self.original.files = self.original.earlier.pop()  # not what closing it would make of it
        self.scribe.store.close()
        self.original.behind = entries_behind(self.original.files, self.scribe.path.with_suffix(".copy"))
        return self.original

    def note(self) -> None:
        self.original.earlier = [*self.original.earlier[-STATES_KEPT:], files_of(self.scribe.path)]
        state = State(
            dict(self.scribe.messages),
            dict(self.counts),
            {number: replace(ledger) for number, ledger in self.scribe.ledgers.items()},
            dict(self.retired),
            set(self.remembered),
            dict(self.kept),
            dict(self.doubts),
            dict(self.scribe.delayed),
            self.declared.copy(),
            self.twin.platter.copy(),
        )
        self.original.states = [*self.original.states[-STATES_KEPT + 1 :], state]

    def put(self) -> None:
        scribe = self.scribe
        puts = []
        for _ in range(self.chance.choice((1, 3, 20, 60))):
            self.written += 1
            body = body_of(f"m{self.written}") * self.chance.choice((1, 1, 1, 4))
            expires_ms = 4_000_000_000_000 if self.chance.random() < 0.1 else 0
            puts.append(scribe.put(self.chance.choice(sorted(scribe.ledgers)), body, expires_ms))
        self.original.ever |= {(put.queue, put.position): put.message for put in puts}
        scribe.commit(*puts)

    def remove(self) -> None:
        in_doubt = set(self.doubts.values())
        self.take([place for place in self.some(len(self.scribe.messages) // 4) if place not in in_doubt])

    def take(self, places: list[Place], *others: Write) -> None:
        for place in places:
            self.counts.pop(place, None)
        self.scribe.commit(*[self.scribe.remove(*place) for place in places], *others)

    def delay(self) -> None:
        """Some are new, and some come back for later."""
        scribe = self.scribe
        in_doubt = set(self.doubts.values())
        writes: list[Write] = []
        for place in [place for place in self.some(10) if place not in in_doubt]:
            count = self.counts.pop(place, 0) + 1
            writes += [Remove(*place), scribe.delay_again(*place, self.due_ms(), count)]
            self.original.counted[place] = max(count, self.original.counted.get(place, 0))
        for _ in range(self.chance.choice((1, 20))):
            self.written += 1
            body = body_of(f"m{self.written}") * self.chance.choice((1, 4))
            writes.append(scribe.delay(self.chance.choice(sorted(scribe.ledgers)), self.due_ms(), body))
        for delay in writes:
            if isinstance(delay, Delay):
                self.original.delays.setdefault((delay.queue, delay.position), []).append(delay)
                self.original.ever[delay.queue, delay.position] = delay.message
        scribe.commit(*writes)

    def due_ms(self) -> int:
        """Long ago, so that a broker gives it at once, or far away, so that it never does."""
        return self.chance.choice((1, DUE_MS)) + self.chance.randrange(1_000_000)

    def wake(self) -> None:
        delayed = sorted(self.scribe.delayed)
        places = self.chance.sample(delayed, min(8, len(delayed)))
        self.counts |= {
            place: delay.redeliveries for place in places if (delay := self.scribe.delayed[place]).redelivered
        }
        self.scribe.commit(*[write for place in places for write in self.scribe.wake(*place)])

    def declare(self) -> None:
        """Settings of a queue; or an exchange, which may be there already, or is dropped."""
        declared, writes = self.declared, []
        number = self.chance.choice(sorted(self.original.names))
        declared.settings[number] = f'{{"max_messages": {self.chance.randint(10**6, 10**12)}}}'
        writes.append(KeepSettings(number, declared.settings[number]))
        name = f"x{self.chance.randrange(40)}"
        declared.exchanges[name] = f'{{"type": "{self.chance.choice(("direct", "topic", "fanout"))}"}}'
        writes.append(KeepDeclared("exchange", name, declared.exchanges[name]))
        dropped = self.chance.choice(sorted(declared.exchanges))
        if dropped not in (name, *(binding[0] for binding in declared.bindings)):
            del declared.exchanges[dropped]
            writes.append(DropDeclared("exchange", dropped))
        self.scribe.store.commit(writes)

    def bind(self) -> None:
        """Of every queue but the one that is deleted in the end."""
        exchanges = ["", "amq.topic", *sorted(self.declared.exchanges)]
        bindings = {
            (self.chance.choice(exchanges), f"a.{self.chance.randrange(1000)}.#", self.chance.randrange(1, len(NAMES)))
            for _ in range(self.chance.choice((1, 5, 60)))
        } - self.declared.bindings
        self.declared.bindings |= bindings
        self.scribe.store.commit([Bind(*binding) for binding in sorted(bindings)])

    def log(self) -> None:
        """What is appended and prepared, dropped and applied."""
        batch = self.batches.batch()
        self.scribe.store.commit(batch)
        self.twin.commit(batch)
        for write in batch:
            if isinstance(write, Append):
                self.original.records[write.log, write.partition, write.offset] = write.message
            elif isinstance(write, AppendEvent):
                places = ((write.log, write.partition, write.offset + nth) for nth in range(len(write.events)))
                self.original.records |= zip(places, write.events, strict=True)
            elif isinstance(write, StorePrepared):
                self.original.prepared[write.transaction] = write.sends

    def unbind(self) -> None:
        bindings = sorted(self.declared.bindings)
        gone = self.chance.sample(bindings, len(bindings) // 3)
        self.declared.bindings -= set(gone)
        self.scribe.store.commit([Unbind(*binding) for binding in gone])

    def offer(self) -> None:
        """Of every queue but the one that is deleted in the end."""
        peer = self.peers[self.chance.choice(sorted(self.peers))]
        in_doubt = set(self.doubts.values())
        places = [place for place in self.some(30) if place not in in_doubt and place[0] < len(NAMES)]
        doubts = []
        for place in places:
            peer.out_offered += 1
            doubts.append(Doubt(peer.peer, peer.out_offered, *place))
            self.doubts[peer.peer, peer.out_offered] = place
            self.original.doubted.add((peer.peer, peer.out_offered, place))
        self.scribe.store.commit([self.keep(peer), *doubts])

    def settle(self) -> None:
        """Some of the oldest are taken, or come back: then all that was offered does."""
        peer = self.peers[self.chance.choice(sorted(self.peers))]
        last = self.chance.randint(peer.out_taken, peer.out_offered)
        taken = [self.doubts.pop((peer.peer, sequence)) for sequence in range(peer.out_taken + 1, last + 1)]
        settles = [Settle(peer.peer, sequence) for sequence in range(peer.out_taken + 1, last + 1)]
        peer.out_taken = last
        if self.chance.random() < 0.3:
            back = range(last + 1, peer.out_offered + 1)
            settles += [Settle(peer.peer, sequence) for sequence in back]
            for sequence in back:
                del self.doubts[peer.peer, sequence]
            peer.out_offered = last
        self.take(taken, self.keep(peer), *settles)

    def keep(self, peer: KeepPeer) -> KeepPeer:
        self.kept[peer.peer] = replace(peer)
        return self.kept[peer.peer]

    def count(self) -> None:
        places = self.some(10)
        self.scribe.store.commit([Count(*place, self.counts.get(place, 0) + 1) for place in places])
        self.counts |= {place: self.counts.get(place, 0) + 1 for place in places}
        self.original.counted |= {place: self.counts[place] for place in places}

    def remember(self) -> None:
        ids = {
            (self.chance.choice((1, 2)), b"id-%d" % self.chance.randrange(1000)) for _ in range(20)
        } - self.remembered
        self.scribe.store.commit([Remember(queue, name, 4_000_000_000_000) for queue, name in sorted(ids)])
        self.remembered |= ids

    def retire(self) -> None:
        """The last queue is deleted and not swept: its messages are still there, without a name."""
        number = max(self.scribe.ledgers)
        stored = self.scribe.ledgers[number].stored
        self.scribe.retire(number, NAMES[-1])
        self.declared.settings.pop(number, None)
        if stored:
            self.retired[number] = stored

    def some(self, most: int) -> list[Place]:
        places = sorted(self.scribe.messages)
        return sorted(self.chance.sample(places, min(most, len(places))))


def files_of(data_dir: Path) -> Files:
    files = [data_dir / DATA_FILE, *(path for _, path in segments_in(data_dir / WAL_DIRECTORY))]
    return {str(file.relative_to(data_dir)): file.read_bytes() for file in files}


def write_files(files: Mapping[str, bytes | bytearray], data_dir: Path) -> None:
    """Makes the directory."""
    (data_dir / WAL_DIRECTORY).mkdir(parents=True)
    for name, data in files.items():
        (data_dir / name).write_bytes(data)


def entries_behind(files: Files, copy: Path) -> list[Behind]:
    write_files(files, copy)
    with Reader(copy) as reader, reader.snapshot() as snapshot:
        found = snapshot.entries_behind
    behind = []
    for entry in found:
        length = len(entry.operations)
        begin = entry.place.at - ENTRY_HEAD_BYTES - -(-length // ENTRY_UNIT_BYTES) * ENTRY_UNIT_BYTES
        content = begin + ENTRY_HEAD_BYTES
        name = f"{WAL_DIRECTORY}/{entry.place.number:010}.wal"
        behind.append(Behind(name, range(begin, begin + ENTRY_HEAD_COVERED), range(content, content + length)))
    return behind


# ---- damage ---------------------------------------------------------------------------------------------------------

Damage = Callable[[Random, bytearray, Original], str]
"""Does it to these bytes, and says what it did."""


def flip(chance: Random, data: bytearray, first: int, end: int) -> str:
    at, bit = chance.randrange(first, end), chance.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at % PAGE_BYTES} of page {at // PAGE_BYTES} flipped"


def any_page(chance: Random, data: bytearray) -> int:
    """Mostly behind the two heads: there is more to be seen."""
    pages = len(data) // PAGE_BYTES
    return chance.randrange(pages) if chance.random() < 0.1 else chance.randrange(2, pages)


def flipped_bit(chance: Random, data: bytearray, original: Original) -> str:
    return flip(chance, data, 0, len(data))


def flipped_bit_of_a_page_head(chance: Random, data: bytearray, original: Original) -> str:
    page = any_page(chance, data)
    return flip(chance, data, page * PAGE_BYTES, page * PAGE_BYTES + 64)


def flipped_bit_of_a_head(chance: Random, data: bytearray, original: Original) -> str:
    page = chance.randrange(2)
    return flip(chance, data, page * PAGE_BYTES, page * PAGE_BYTES + 160)


def flipped_bits(chance: Random, data: bytearray, original: Original) -> str:
    return ", ".join(flip(chance, data, HEADS_BYTES, len(data)) for _ in range(chance.randint(2, 20)))


def zeroed(chance: Random, data: bytearray, original: Original) -> str:
    return overwritten(chance, data, "zeros", bytes)


def rubbish(chance: Random, data: bytearray, original: Original) -> str:
    return overwritten(chance, data, "rubbish", chance.randbytes)


def overwritten(chance: Random, data: bytearray, what: str, filling: Callable[[int], bytes]) -> str:
    size = chance.choice((SECTOR_BYTES, PAGE_BYTES))
    at = any_page(chance, data) * PAGE_BYTES + chance.randrange(PAGE_BYTES // size) * size
    data[at : at + size] = filling(size)
    return f"{what} in {size} bytes at byte {at % PAGE_BYTES} of page {at // PAGE_BYTES}"


def swapped_pages(chance: Random, data: bytearray, original: Original) -> str:
    one, other = (
        slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES) for page in (any_page(chance, data), any_page(chance, data))
    )
    data[one], data[other] = data[other], data[one]
    return f"pages {one.start // PAGE_BYTES} and {other.start // PAGE_BYTES} swapped"


def misplaced_page(chance: Random, data: bytearray, original: Original) -> str:
    """A write that went to the wrong place; its number is right again, as if the program had meant it."""
    source, target = any_page(chance, data), any_page(chance, data)
    data[target * PAGE_BYTES + 8 : (target + 1) * PAGE_BYTES] = data[
        source * PAGE_BYTES + 8 : (source + 1) * PAGE_BYTES
    ]
    return f"page {source} in the place of page {target}"


def older(chance: Random, data: bytearray, original: Original) -> str:
    """A write that never reached the disk: the page, or a sector of it, is as it was some commits ago."""
    others = [files[DATA_FILE] for files in original.earlier if files[DATA_FILE] != data]
    if not others:
        return flipped_bit(chance, data, original)
    back = chance.randint(1, len(others))
    earlier = others[-back]
    size = chance.choice((SECTOR_BYTES, PAGE_BYTES, PAGE_BYTES))
    changed = [
        at for at in range(0, min(len(earlier), len(data)), size) if earlier[at : at + size] != data[at : at + size]
    ]
    if not changed:
        return flipped_bit(chance, data, original)
    at = chance.choice(changed)
    data[at : at + size] = earlier[at : at + size]
    return f"{size} bytes at byte {at % PAGE_BYTES} of page {at // PAGE_BYTES} as they were {back} states before"


def cut(chance: Random, data: bytearray, original: Original) -> str:
    length = chance.choice((chance.randrange(len(data)), chance.randrange(len(data) // PAGE_BYTES) * PAGE_BYTES))
    del data[length:]
    return f"cut to {length} bytes"


def cut_and_zeros(chance: Random, data: bytearray, original: Original) -> str:
    """As a file system repairs a file whose last blocks it has lost."""
    length = chance.randrange(HEADS_BYTES, len(data))
    data[length:] = bytes(len(data) - length)
    return f"zeros from byte {length} to the end"


DAMAGES: tuple[Damage, ...] = (
    flipped_bit, flipped_bit, flipped_bit_of_a_page_head, flipped_bit_of_a_page_head, flipped_bit_of_a_head,
    flipped_bits, zeroed, rubbish, swapped_pages, misplaced_page, older, older, cut, cut_and_zeros,
)  # fmt: skip


# ---- damage of the log ----------------------------------------------------------------------------------------------

LogDamage = Callable[[Random, dict[str, bytearray], Original], str]


def byte_of_the_log(chance: Random, original: Original) -> tuple[str, int]:
    """Mostly one of an entry that the tables do not have, and often of its head."""
    if original.behind and chance.random() < 0.8:
        entry = chance.choice(original.behind)
        return entry.name, chance.choice(chance.choice([part for part in (entry.head, entry.content) if part]))
    name = chance.choice(sorted(original.files.keys() - {DATA_FILE}))
    return name, chance.randrange(chance.choice((SEGMENT_OPENING_BYTES, len(original.files[name]))))


def flipped_bit_of_the_log(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    (name, at), bit = byte_of_the_log(chance, original), chance.randrange(8)
    files[name][at] ^= 1 << bit
    return f"bit {bit} of byte {at} of {name} flipped"


def flipped_bits_of_the_log(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    return ", ".join(flipped_bit_of_the_log(chance, files, original) for _ in range(chance.randint(2, 5)))


def overwritten_log(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    """A sector, or all from there on: zeros, rubbish, or what it was some commits before."""
    name, at = byte_of_the_log(chance, original)
    begin = at // SECTOR_BYTES * SECTOR_BYTES
    end = chance.choice((begin + SECTOR_BYTES, begin + SECTOR_BYTES, begin + PAGE_BYTES, len(files[name])))
    earlier = chance.choice(original.earlier).get(name, b"")[begin:end]
    what, filling = chance.choice((("zeros", bytes), ("rubbish", chance.randbytes), ("what was there", None)))
    there = bytes(files[name][begin:end])
    files[name][begin:end] = (earlier + there[len(earlier) :]) if filling is None else filling(len(there))
    return f"{what} from byte {begin} to {end} of {name}"


def cut_log(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    name, at = byte_of_the_log(chance, original)
    del files[name][at:]
    return f"{name} cut to {at} bytes"


def missing_segment(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    name, _ = byte_of_the_log(chance, original)
    del files[name]
    return f"{name} missing"


def swapped_segments(chance: Random, files: dict[str, bytearray], original: Original) -> str:
    one, other = chance.sample(sorted(original.files.keys() - {DATA_FILE}), 2)
    files[one], files[other] = files[other], files[one]
    return f"{one} and {other} swapped"


LOG_DAMAGES: tuple[LogDamage, ...] = (
    flipped_bit_of_the_log, flipped_bit_of_the_log, flipped_bit_of_the_log, flipped_bits_of_the_log, overwritten_log,
    overwritten_log, cut_log, missing_segment, swapped_segments,
)  # fmt: skip


# ---- what it must be then -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Damaged:
    """One damaged store. could_be: the states that it may be taken for where nothing is found wrong with it; none: it
    must be refused.
    """

    original: Original
    files: dict[str, bytearray]
    how: str
    could_be: list[State]


def damaged(original: Original, chance: Random) -> Damaged:
    """Some are damaged twice."""
    files = {name: bytearray(data) for name, data in original.files.items()}
    hows = []
    if chance.random() < WAL_SHARE:
        while files == original.files:
            hows.append(chance.choice(LOG_DAMAGES)(chance, files, original))
        return Damaged(original, files, " and ".join(hows), could_be_of_log(original, files))
    data, before = files[DATA_FILE], original.files[DATA_FILE]
    while data == before or (len(data) >= HEADS_BYTES + PAGE_BYTES and chance.random() < 0.1):
        hows.append(chance.choice(DAMAGES)(chance, data, original))
    heads = [slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES) for page in range(2)]
    heads_hit = sum(data[head] != before[head] for head in heads)
    # with the head before the last one the tables are older, and the log has what they lack
    could_be = original.states[-(1, 1, STATES_KEPT)[heads_hit] :]
    return Damaged(original, files, " and ".join(hows), could_be)


def could_be_of_log(original: Original, files: Mapping[str, bytes | bytearray]) -> list[State]:
    hits = [entry.is_hit(original.files, files) for entry in original.behind]
    if any(len(files.get(entry.name, b"")) < entry.content.stop for entry in original.behind):
        return []  # no crash makes a segment shorter
    if not any(hits):
        return [original.now]
    first = hits.index(True)
    return [original.states[-1 - (len(hits) - first)]] if all(hits[first:]) else []


# ---- through the store's own code -----------------------------------------------------------------------------------


def checked(data_dir: Path) -> tuple[int, str, str]:
    """`radiator check`: its exit status, what it says, and what it complains of."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["check", str(data_dir)])
    return status, out.getvalue(), err.getvalue()


def faults_of_a_damaged_file(it: Damaged, data_dir: Path) -> list[str]:
    shutil.rmtree(data_dir, ignore_errors=True)
    write_files(it.files, data_dir)
    file = data_dir / DATA_FILE
    status, out, err = checked(data_dir)
    faults = []
    if status not in (0, 1) or (status == 1) != bool(out and err) or files_of(data_dir) != it.files:
        faults.append(f"`radiator check` ended with {status}, said {out!r} and {err!r}, or changed the file")
    try:
        store = open_store(data_dir, MAP_BYTES)
    except StoreError as refused:
        return faults + faults_of_a_refusal(it, file, str(refused), is_found=status == 1)
    try:
        if not it.could_be:
            faults.append("the log is damaged before something sound, and the start does not refuse it")
        return faults + faults_of_what_is_given(it, store, is_found=status == 1)
    finally:
        store.close()


def faults_of_a_refusal(it: Damaged, file: Path, sentence: str, is_found: bool) -> list[str]:
    faults = []
    if not is_found:
        faults.append(f"refused by a start ({sentence}), but `radiator check` finds nothing")
    if str(file.parent) not in sentence or not sentence.endswith(".") or "\n" in sentence:
        faults.append(f"refused by what is no sentence: {sentence}")
    is_changed = files_of(file.parent) != it.files
    # the tables may have got what they lacked before that was found
    if is_changed and (not it.original.behind or it.files[DATA_FILE] == it.original.files[DATA_FILE]):
        faults.append("refused, and changed all the same")
    return faults


def faults_of_what_is_given(it: Damaged, store: LmdbStore, is_found: bool) -> list[str]:
    """Right or nothing; and where no damage was found, all of it. Then it must be able to go on."""
    try:
        given, marks = all_messages(store, it.original)
        delayed = all_delayed(store, it.original)
        remembered = remembered_by(store)
        records, prepared = all_records(store, it.original), all_prepared(store, it.original)
    except StoreError:
        return [] if is_found else ["it cannot be read, but `radiator check` finds nothing"]
    faults = [f"message {place} was altered: {message}" for place, message in given.items()
              if message is not None and message != it.original.ever.get(place)]  # fmt: skip
    faults += [f"message {place} came back {marks[place]} times, says its count" for place in given
               if marks[place] > it.original.counted.get(place, 0)]  # fmt: skip
    faults += [f"delayed message {place} was altered: {delay}" for place, delay in delayed.items()
               if delay is not None and delay not in it.original.delays.get(place, [])]  # fmt: skip
    faults += [f"record {place} was altered: {message}" for place, message in records.items()
               if message is not None and message != as_written(store, it.original, place)]  # fmt: skip
    faults += [f"of the prepared transaction {transaction} this was altered: {send}"
               for transaction, sends in prepared.items()
               for send in sends if send not in it.original.prepared[transaction]]  # fmt: skip
    if not remembered <= it.original.now.remembered:
        faults.append(f"dedup-ids are remembered that never were: {remembered - it.original.now.remembered}")
    doubted = {(doubt.peer, doubt.sequence, (doubt.queue, doubt.position)) for doubt in store.recovery.doubts}
    if not doubted <= it.original.doubted:
        faults.append(f"messages are in doubt that never were: {doubted - it.original.doubted}")
    exactly = any(
        is_exactly(store, given, marks, delayed, remembered, state)
        and is_exactly_of_logs(store, records, prepared, state)
        for state in it.could_be
    )
    if not is_found and not exactly:
        faults.append("`radiator check` finds nothing, but it is not what was written")
    return faults + faults_of_going_on(store, given, delayed, is_found)


def all_messages(store: LmdbStore, original: Original) -> tuple[dict[Place, Message | None], dict[Place, int]]:
    given: dict[Place, Message | None] = {}
    marks: dict[Place, int] = {}
    for queue in original.names:
        for stored in store.load(ReadQueue(1, queue, 0, 1_000_000, 1 << 40)).messages:
            given[queue, stored.position] = stored.message
            marks[queue, stored.position] = stored.redeliveries
    return given, marks


def all_delayed(store: LmdbStore, original: Original) -> dict[Place, Delay | None]:
    """Without the marks of an unclean stop."""
    given: dict[Place, Delay | None] = {}
    for queue in original.names:
        for one in store.load_delayed(ReadDelayed(1, queue, 1 << 63, 1_000_000, 1 << 40)).messages:
            stored = one.stored
            given[queue, stored.position] = stored.message and Delay(
                queue, one.due_ms, stored.position, stored.message, stored.redeliveries, stored.redeliveries > 0
            )
    return given


def remembered_by(store: LmdbStore) -> set[tuple[int, bytes]]:
    ids = [(queue, b"id-%d" % number) for queue in (1, 2) for number in range(0, 1000, 7)]
    return {(queue, name) for queue, name in ids if store.look_up(DedupLookup(1, queue, name, 0))}


def all_records(store: LmdbStore, original: Original) -> dict[Record, Message | None]:
    return {
        (log, partition, one.offset): one.message
        for log, partition in {place[:2] for place in original.records}
        for one in store.load_log(ReadLog(1, log, partition, 0, 1_000_000, 1 << 40)).records
    }


def all_prepared(store: LmdbStore, original: Original) -> dict[int, list[Send]]:
    return {
        transaction: store.load_prepared(ReadPrepared(1, transaction, 0, 1_000_000, 1 << 40)).sends
        for transaction in original.prepared
    }


def as_written(store: LmdbStore, original: Original, place: Record) -> Message | None:
    """As a reader gets it."""
    row = original.records.get(place)
    return None if row is None else as_read(store.recovery.store_id, place[-1], row)


def is_exactly_of_logs(
    store: LmdbStore, records: dict[Record, Message | None], prepared: dict[int, list[Send]], state: State
) -> bool:
    expected, recovery = SimDisk(state.logs), store.recovery
    for one in (*expected.recovery.logs, *recovery.logs):
        one.positions.sort(key=lambda position: position.group)
    there = {(*partition, offset) for partition, rows in state.logs.records.items() for offset in rows}
    return (
        recovery.logs == expected.recovery.logs
        and (recovery.transactions, recovery.apps) == (expected.recovery.transactions, expected.recovery.apps)
        and records.keys() == there
        and None not in records.values()
        and all(
            sends == [*state.logs.prepared.get(transaction, {}).values()] for transaction, sends in prepared.items()
        )
    )


def is_exactly(
    store: LmdbStore,
    given: dict[Place, Message | None],
    marks: dict[Place, int],
    delayed: dict[Place, Delay | None],
    remembered: set[tuple[int, bytes]],
    state: State,
) -> bool:
    recovery = store.recovery
    declared = Declared(
        {queue.number: queue.settings for queue in recovery.queues if queue.settings},
        {declared.name: declared.text for declared in recovery.declared},
        {(binding.exchange, binding.key, binding.queue) for binding in recovery.bindings},
    )
    return (
        given == state.messages
        and delayed == state.delayed
        and declared == state.declared
        and all(marks[place] == state.counts.get(place, 0) for place in given)
        and {queue.number: queue.ledger for queue in recovery.queues} == state.ledgers
        and recovery.retired == state.retired
        and {peer.peer: peer for peer in recovery.peers} == state.peers
        and {(doubt.peer, doubt.sequence): (doubt.queue, doubt.position) for doubt in recovery.doubts} == state.doubts
        and remembered == {name for name in state.remembered if int(name[1][3:]) % 7 == 0}
    )


def faults_of_going_on(
    store: LmdbStore, given: dict[Place, Message | None], delayed: dict[Place, Delay | None], is_found: bool
) -> list[str]:
    """The next batch: a message comes, one goes, one wakes. The disk may fail at that, but not lie."""
    if not store.recovery.queues:
        return []
    queue = store.recovery.queues[0]
    here = {place[1]: message for place, message in given.items() if place[0] == queue.number and message is not None}
    put = Put(queue.number, position_of(store.recovery.boot, 1), message_of(b"the next one"))
    gone = min(here, default=None)
    settles = [Settle(doubt.peer, doubt.sequence) for doubt in store.recovery.doubts
               if (doubt.queue, doubt.position) == (queue.number, gone)]  # fmt: skip
    late = next((delay for place, delay in delayed.items() if delay and place[0] == queue.number), None)
    wake: list[Write] = []
    if late is not None:
        wake = [MakeDue(queue.number, late.due_ms, late.position), Put(queue.number, late.position, late.message)]
        queue.ledger.stored_delayed -= 1
        queue.ledger.stored_delayed_bytes -= late.message.size
    try:
        store.commit(
            [
                put,
                *([Remove(queue.number, gone)] if gone else []),
                *settles,
                *wake,
                SaveLedger(queue.number, queue.ledger),
            ]
        )
        after = store.load(ReadQueue(1, queue.number, 0, 1_000_000, 1 << 40)).messages
    except (DiskFailed, StoreError) as failed:
        return [] if is_found else [f"`radiator check` finds nothing, but it cannot go on: {failed}"]
    here.pop(gone, None)
    here[put.position] = put.message
    if late is not None:
        here[late.position] = late.message
    found = {stored.position: stored.message for stored in after if stored.message is not None or not is_found}
    wrong = [position for position, message in found.items() if here.get(position) != message]
    lost = [] if is_found else sorted(here.keys() - found.keys())
    return [f"after the next commit messages are wrong at {wrong}, lost at {lost}"] if wrong or lost else []


# ---- through a whole broker -----------------------------------------------------------------------------------------


def faults_of_a_broker(it: Damaged, directory: Path) -> list[str]:
    broker = BrokerProcess(directory)
    write_files(it.files, broker.data_dir)
    is_found = checked(broker.data_dir)[0] == 1
    try:
        try:
            broker.start()
        except AssertionError:
            return faults_of_an_end(broker, broker.wait(10), is_found)
        if not it.could_be:
            return ["the log is damaged before something sound, and the broker serves what is left"]
        return faults_of_serving(it, broker, is_found)
    finally:
        broker.kill()


def faults_of_an_end(broker: BrokerProcess, status: int, is_found: bool) -> list[str]:
    """A broker that ends over its store says so in a sentence, and never calls it a bug."""
    faults = []
    if status not in (EXIT_REFUSED, EXIT_DISK_FAILED) or "Traceback" in broker.log:
        faults.append(f"the broker ended with {status}: {broker.log[-3000:]}")
    elif not last_words(broker):
        faults.append(f"the broker ended without a sentence that names its store: {broker.log[-3000:]}")
    if not is_found:
        faults.append(f"the broker ended, but `radiator check` finds nothing: {broker.log[-1000:]}")
    return faults


def last_words(broker: BrokerProcess) -> list[str]:
    """The lines in which it says that, and why, it ends; beside them others may still be on their way to the log."""
    lines = [line for line in broker.log.splitlines() if line.startswith("radiator: ") or " error halted " in line]
    return [line for line in lines if str(broker.data_dir) in line]


def faults_of_serving(it: Damaged, broker: BrokerProcess, is_found: bool) -> list[str]:
    ever = {(it.original.names[place[0]], message.body) for place, message in it.original.ever.items()}
    drained: set[tuple[str, bytes]] = set()
    try:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            for name in NAMES[:-1]:
                wire.subscribe(f"/queue/{name}", id=name, headers={"prefetch-count": "1000"})
            with contextlib.suppress(TimeoutError):
                while True:
                    frame = wire.message(DRAIN_QUIET_S)
                    drained.add((frame["subscription"], frame.body))
                    wire.send_frame("ACK", {"id": frame["ack"]})
            wire.send("/queue/new", "the next one")
            wire.fence()
        ended = not broker.is_running
    except (Gone, OSError):
        ended = True
    faults = [f"{name} gave an altered message: {body[:60]!r}" for name, body in sorted(drained - ever)]
    if ended:
        return faults + faults_of_an_end(broker, broker.wait(10), is_found)
    for state in it.could_be:
        stored = {(it.original.names[place[0]], message.body) for place, message in state.messages.items()}
        due = [delay for delay in state.delayed.values() if delay.due_ms < DUE_MS]
        stored |= {(it.original.names[delay.queue], delay.message.body) for delay in due}
        if is_found or drained == {(name, body) for name, body in stored if name != NAMES[-1]}:
            break
    else:
        faults.append("`radiator check` finds nothing, but the broker did not give what was written")
    if broker.stop() != 0 or "Traceback" in broker.log:
        faults.append(f"the broker did not stop clean: {broker.log[-3000:]}")
    return faults


# ---- the campaign ---------------------------------------------------------------------------------------------------


def damage(run: Run) -> None:
    wal.WAL_SEGMENT_FIRST_BYTES = store_module.WAL_SEGMENT_BYTES = SEGMENT_BYTES  # so that there are several
    nth = 0
    while not run.is_over:
        nth += 1
        original = Author(run.directory / f"original-{nth}", run.chance).write(BEHIND[nth % len(BEHIND)])
        seeds = [run.chance.randrange(1 << 60) for _ in range(min(CASES_OF_A_STORE, run.cases - run.done))]

        def work(seed: int, report_score: ReportScore, original: Original = original) -> list[str]:
            it = damaged(original, Random(seed))
            report_score(it.how)
            try:
                return [f"{it.how}: {one}" for one in faults_of_a_damaged_file(it, run.directory / "damaged")]
            except Exception:  # noqa: BLE001 - a traceback is no sentence
                return [f"{it.how}: {traceback.format_exc()}"]

        for seed, faults in run_cases(work, seeds, CASE_MAX_S):
            run.case()
            for fault in faults:
                run.violation(f"a store with {fault} (damage {seed})")
        of_a_broker = Author(run.directory / f"broker-original-{nth}", run.chance, peers=())
        original = of_a_broker.write(BEHIND[(nth + 1) % len(BEHIND)])
        for _ in range(min(BROKERS_OF_A_STORE, run.cases - run.done)):
            seed = run.chance.randrange(1 << 60)
            it = damaged(original, Random(seed))
            directory = run.directory / f"broker-{run.done}"
            directory.mkdir()
            for fault in faults_of_a_broker(it, directory):
                run.violation(f"a broker on a store with {it.how}: {fault} (damage {seed})")
            run.case()


CAMPAIGNS = (
    Campaign(
        number="T16",
        name="damaged-stores",
        title="damages stores in every way a file can be, and opens, checks, reads and writes on",
        unit="damaged stores",
        run=damage,
        cases=(300, 10_000, 50_000),
        mutants=(
            "delayed-not-checked",
            "wal-cut-anywhere",
            "no-crc",
            "wal-content-not-checked",
            "cut-segment-taken-for-torn",
            "block-not-checked",
        ),
        quick_mutants=5,
        mutant_cases=300,
        needs=("linux",),
    ),
)
