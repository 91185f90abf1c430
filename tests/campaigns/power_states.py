"""T2: every state in which a power cut may leave the disk, a sample of them made, opened and judged.

A real broker does the deeds of scenario.py on a new store, under an strace that keeps each byte. What is not synced may
be on the disk or not: for each page (or sector of 512 bytes) any of its contents since the last sync, any length that
the file has had, and of the names those up to any one of them. Each state is opened by the store's own start, read out,
judged by the receipts and messages that had left by then, and put to `radiator check`; some are written to again.

A disk that lies about its syncs is tried too, and must be noticed: else the judge is blind. What is written through a
map no trace shows; so the bytes traced must be the whole file, or that is a violation. It knows nothing of the order in
which a real file system writes, which allows less than this; nor of bytes that go bad.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.message import message_id
from radiator.model.reads import ReadDelayed, ReadLog, ReadPrepared, ReadQueue
from radiator.model.settings import JOURNAL
from radiator.storage.check import check
from radiator.storage.lmdb.directory import DATA_FILE, NEW_FILE, WAL_DIRECTORY
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.campaigns import scenario, trace
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.children import run_cases
from tests.campaigns.scenario import Client, History, Queues, Stored
from tests.storage.scribe import MAP_BYTES, Scribe

PAGE_BYTES, SECTOR_BYTES = 4096, 512
STATES_OF_A_RECORD = 10_000
STATES_AT_ONCE = 100  # for one process of a judge
CREATION_WEIGHT = 8  # a state while there is no receipt yet, against one under load
WRITTEN_AGAIN = 1 / 10
HELD_AGAINST_THE_JOURNAL = 1 / 4
LYING_STATES = 60
STATE_MAX_S = 30
ANSWERED = re.compile(rb"(?:receipt|correlation)-id:deed-(\d+)\n|\n\nload\.(\d+)(?:-\d+)?\n")
ANSWERED_BYTES_MAX = 40

Image = dict[str, bytes] | None  # name -> contents (b"" of a directory); None: not even the data directory
Naming = trace.Made | trace.Renamed | trace.Removed


# ---- what may be on the disk --------------------------------------------------------------------------------------


@dataclass
class File:
    """synced: what is there for sure. writes: since then, in their order; those that synced themselves are marked."""

    synced: bytearray = field(default_factory=bytearray)
    size: int = 0
    writes: list[tuple[int, bytes, bool]] = field(default_factory=list)

    def write(self, offset: int, data: bytes, is_synced: bool) -> None:
        self.writes.append((offset, data, is_synced))
        self.size = max(self.size, offset + len(data))

    def sync(self) -> None:
        """All is there: the file has its length and every byte."""
        self.synced = bytearray(self.image(PAGE_BYTES, None, self.size))
        self.writes.clear()

    def versions(self, unit_bytes: int) -> dict[int, tuple[int, int]]:
        """For each page or sector that has been written to since: the fewest and the most of its writes that count."""
        found: dict[int, tuple[int, int]] = {}
        for offset, data, is_synced in self.writes:
            for unit in range(offset // unit_bytes, (offset + len(data) - 1) // unit_bytes + 1):
                fewest, most = found.get(unit, (0, 0))
                found[unit] = (most + 1 if is_synced else fewest, most + 1)
        return found

    def image(self, unit_bytes: int, chosen: dict[int, int] | None, size: int) -> bytes:
        """With so many of each unit's writes (None: all of them), and at least so long."""
        image = bytearray(self.synced)
        seen: dict[int, int] = {}
        for offset, data, _ in self.writes:
            at = offset
            while at < offset + len(data):
                unit = at // unit_bytes
                end = min((unit + 1) * unit_bytes, offset + len(data))
                seen[unit] = seen.get(unit, 0) + 1
                if chosen is None or seen[unit] <= chosen[unit]:
                    image.extend(bytes(max(0, end - len(image))))
                    image[at:end] = data[at - offset : end - offset]
                at = end
        image.extend(bytes(max(0, size - len(image))))
        return bytes(image)


class Disk:
    """A data directory, its parent, the log in it, and what of them is synced. is_lying: it says that it syncs."""

    def __init__(self, data_dir: Path, is_lying: bool = False) -> None:
        self._data_dir = str(data_dir)
        self._log = f"{data_dir}/{WAL_DIRECTORY}"
        self._is_lying = is_lying
        self._files: dict[int, File] = {}
        self._is_made = self._is_made_for_sure = False
        self._names: dict[str, int] = {}  # for sure; 0: a directory
        # since then, in each directory; one may have more of them on the disk than the other
        self._renames: dict[str, list[Naming]] = {self._data_dir: [], self._log: []}

    def note(self, event: trace.Event) -> bool:
        """It has happened: whether a power cut may leave something else now."""
        match event:
            case trace.Made(self._data_dir):
                self._is_made = True
            case trace.Made(path, file):
                if not self._is_ours(path):
                    return False
                if file:
                    self._files[file] = File()
                self._renames[str(Path(path).parent)].append(event)
            case trace.Renamed(path) | trace.Removed(path):
                if not self._is_ours(path):
                    return False
                self._renames[str(Path(path).parent)].append(event)
            case trace.Written(file, offset, data, is_synced) if file in self._files:
                self._files[file].write(offset, data, is_synced and not self._is_lying)
            case trace.Resized(file, size) if file in self._files:
                assert size >= self._files[file].size, "no store is made shorter"
                self._files[file].size = size
            case trace.Synced(file) if file in self._files and not self._is_lying:
                self._files[file].sync()
            case trace.DirectorySynced(path) if not self._is_lying:
                self._sync_names(path)
            case _:
                return False
        return True

    def _is_ours(self, path: str) -> bool:
        """The locks mean nothing when nobody runs."""
        files = (f"{self._data_dir}/{DATA_FILE}", f"{self._data_dir}/{NEW_FILE}", self._log)
        return path in files or path.startswith(f"{self._log}/")

    def _sync_names(self, path: str) -> None:
        if path in self._renames:
            _carry_out(self._renames[path], self._names)
            self._renames[path].clear()
        elif path == str(Path(self._data_dir).parent):
            self._is_made_for_sure = self._is_made

    def _names_after(self, counts: dict[str, int]) -> dict[str, int]:
        """With so many of what has happened in each directory."""
        names = dict(self._names)
        for directory, events in self._renames.items():
            _carry_out(events[: counts[directory]], names)
        is_log_there = self._log in names
        return {path: file for path, file in names.items() if is_log_there or not path.startswith(self._log)}

    def _image(self, names: dict[str, int], contents: Callable[[File], bytes]) -> dict[str, bytes]:
        below = len(self._data_dir) + 1
        return {path[below:]: contents(self._files[file]) if file else b"" for path, file in names.items()}

    def whole(self) -> dict[str, bytes]:
        """What is there without any power cut."""
        return self._image(self._names_now(), lambda file: file.image(PAGE_BYTES, None, file.size))

    def name_of(self, number: int) -> str:
        """Of a file, as in an image; "" of one that is not ours."""
        return next((path[len(self._data_dir) + 1 :] for path, file in self._names_now().items() if file == number), "")

    def _names_now(self) -> dict[str, int]:
        return self._names_after({directory: len(events) for directory, events in self._renames.items()})

    def images(self, count: int, chance: Random) -> Iterator[Image]:
        """So many states at most; fewer only where these are all."""
        for number in range(count):
            if not self._is_made_for_sure and (not self._is_made or chance.random() < 0.2):
                yield None
                continue
            counts = {directory: chance.randint(0, len(events)) for directory, events in self._renames.items()}
            unit_bytes = chance.choice((PAGE_BYTES, SECTOR_BYTES))
            drawn = partial(self._contents, unit_bytes=unit_bytes, number=number, chance=chance)
            yield self._image(self._names_after(counts), drawn)

    def _contents(self, file: File, unit_bytes: int, number: int, chance: Random) -> bytes:
        versions = file.versions(unit_bytes)
        if number == 0:
            chosen = {unit: fewest for unit, (fewest, _) in versions.items()}
        elif number == 1:
            chosen = {unit: most for unit, (_, most) in versions.items()}
        else:
            bias = chance.choice((0.1, 0.5, 0.9))
            chosen = {
                unit: most if chance.random() < bias else chance.randint(fewest, most - 1) if fewest < most else most
                for unit, (fewest, most) in versions.items()
            }
        return file.image(unit_bytes, chosen, chance.choice((0, file.size)))


def _carry_out(events: Sequence[Naming], names: dict[str, int]) -> None:
    for event in events:
        match event:
            case trace.Made(path, file):
                names[path] = file
            case trace.Renamed(old, new):
                names[new] = names.pop(old)
            case trace.Removed(path):
                del names[path]


# ---- what is made of a state --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiskState:
    where: str
    image: Image
    answered: int


def complaint(data_dir: Path, state: DiskState, history: History, is_written_again: bool, has_journal: bool) -> str:
    """What is wrong with that state; "" where nothing is."""
    shutil.rmtree(data_dir, ignore_errors=True)
    if state.image is not None:
        data_dir.mkdir(mode=0o700)
        for name, contents in sorted(state.image.items()):  # `log` before what is in it
            if name == WAL_DIRECTORY:
                (data_dir / name).mkdir()
            else:
                (data_dir / name).write_bytes(contents)
    try:
        store = open_store(data_dir, MAP_BYTES)
    except (StoreError, DiskFailed) as refused:
        return f"the store does not open, and deed {state.answered} was answered: {refused}"
    try:
        found, not_marked = read_out(store)
        is_placed = found.pop(scenario.PLACED, ())
        found |= logs_of(store, is_placed)
        reported = journal_complaint(store) if has_journal else ""
    finally:
        store.close()
    if not_marked:
        return f"not marked redelivered after an unclean stop: {not_marked[:3]}"
    return (
        history.complaint(found, state.answered)
        or reported
        or (write_again(data_dir) if is_written_again else "")
        or "; ".join(check(data_dir).findings[:3])
    )


def read_out(store: LmdbStore) -> tuple[Queues, list[Stored]]:
    """All that it holds, and what of it is not marked as redelivered."""
    recovery = store.recovery
    names = {queue.number: queue.name for queue in recovery.queues}
    bindings = [(one.exchange, one.key, names[one.queue]) for one in recovery.bindings]
    others = [name for name in names.values() if name in (scenario.EXTRA, *scenario.DURABLES)]
    queues = scenario.found_besides(bindings, others + [f"{one.kind} {one.name}" for one in recovery.declared])
    not_marked = []
    for queue in recovery.queues:
        loaded = store.load(ReadQueue(1, queue.number, 0, 1_000_000, 1 << 40)).messages
        late = store.load_delayed(ReadDelayed(1, queue.number, 1 << 62, 1_000_000, 1 << 40)).messages
        messages = []
        for one in sorted([*loaded, *(row.stored for row in late)], key=lambda one: one.position):
            assert one.message is not None, f"a damaged message in {queue.name}"
            block = dict(line.split(b":", 1) for line in one.message.headers.splitlines())
            redeliveries = one.redeliveries or int(block.get(b"redelivery-count", 0))
            messages.append(Stored(one.message.body, redeliveries, block.get(b"dead-letter-reason", b"").decode()))
            if not one.redelivered:
                not_marked.append(messages[-1])
        if messages:
            queues[queue.name] = tuple(messages)
        if queue.name == scenario.EXTRA:
            assert json.loads(queue.settings) == {"max_redeliveries": 7}, f"{queue.settings} of {queue.name}"
    return queues, not_marked


def logs_of(store: LmdbStore, placed: Iterable[Stored]) -> Queues:
    """What it holds of logs, checkouts and prepared transactions; what is committed counts as in its queue."""
    state = scenario.State()
    for log in store.recovery.logs:
        segments = log.segments
        end = segments[-1].first + segments[-1].count if segments else 0
        first = next((row.begin for row in segments if row.begin < row.first + row.count), end)
        records = store.load_log(ReadLog(1, log.number, 0, first, 1_000_000, 1 << 40)).records if segments else []
        assert all(one.message is not None for one in records), f"damaged records in {log.name}"
        bodies = [Stored(one.message.body) for one in records if one.message is not None]
        if log.name == scenario.TAPS:
            state = state.with_queue(scenario.LOG, bodies)
            offsets = next((kept.offsets for kept in log.positions if kept.group == scenario.GROUP), [0])
            state = state.with_number(scenario.POSITION, offsets[0])
        elif log.name == f"$checkout/{scenario.TAKEN}/{scenario.ENGINE}":
            state = state.with_queue(scenario.CHECKED_OUT, bodies)
            state = state.with_number(scenario.FIRST, end - len(bodies))
    there = [*placed]
    for transaction in store.recovery.transactions:
        loaded = store.load_prepared(ReadPrepared(1, transaction.transaction, transaction.applied, 1_000_000, 1 << 40))
        assert len(loaded.sends) == transaction.count - transaction.applied, (
            f"{transaction} has {len(loaded.sends)} SENDs"
        )
        if transaction.name:
            state = state.with_one(scenario.PREPARED, scenario.prepared(transaction.name, transaction.count), True)
        else:
            there += [Stored(send.body) for send in loaded.sends]
    for app in store.recovery.apps:
        state = state.with_number(scenario.VERSION, app.version)
    return state.with_queue(scenario.PLACED, sorted(there, key=lambda one: one.body)).queues


def journal_complaint(store: LmdbStore) -> str:
    """Where the journal and what is stored do not agree."""
    recovery = store.recovery
    reported: dict[str, str] = {}
    columns: scenario.Columns = {}
    for log in recovery.logs:
        if log.name == JOURNAL:
            records = store.load_log(ReadLog(1, log.number, 0, 0, 1_000_000, 1 << 40)).records
            bodies = (one.message.body for one in records if one.message is not None)
            reported = scenario.stored_by_journal(bodies, columns)
    stored = {}
    for queue in recovery.queues:
        found = columns.get(queue.name, {})
        for column in ("accepted", *scenario.ENDS.values()):
            booked = getattr(queue.ledger, column)
            if booked != found.get(column, 0):
                return f"{column} of {queue.name} is {booked}, and by the journal {found.get(column, 0)}"
        loaded = store.load(ReadQueue(1, queue.number, 0, 1_000_000, 1 << 40)).messages
        late = store.load_delayed(ReadDelayed(1, queue.number, 1 << 62, 1_000_000, 1 << 40)).messages
        for one in (*loaded, *(row.stored for row in late)):
            stored[message_id(recovery.store_id, one.position).decode()] = queue.name
    return scenario.journal_mistake(reported, stored)


def write_again(data_dir: Path) -> str:
    """The store that came out of it must be as good as any."""
    scribe = Scribe(data_dir)
    number = scribe.declare("after the power cut")
    scribe.fill(number, 3)
    scribe.commit(*[scribe.remove(number, position) for _, position in [*scribe.messages][:1]])
    scribe.store.close()
    again = Scribe(data_dir)
    count = len(again.bodies(number))
    again.store.close()
    return "" if count == 2 else f"of 2 messages that were stored in it afterwards it gives {count}"


def judged(judge: Callable[[], str]) -> list[str]:
    try:
        found = judge()
    except (AssertionError, StoreError, DiskFailed) as mistake:
        found = f"{type(mistake).__name__}: {mistake}"
    return [found] if found else []


# ---- the campaign -------------------------------------------------------------------------------------------------


class Record:
    """A broker's life from its first start to a kill, and what its client knows of it."""

    config = scenario.CONFIG

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir()
        file = directory / "strace"
        self.history = History()
        broker = BrokerProcess(directory, self.config, trace.started_under(trace.record_bytes(file)))
        self.data_dir = broker.data_dir
        with broker:
            self.load(broker, seed)
        recording = trace.recorded(file, broker.directory)
        self.events, self._in_flight = recording.events, recording.in_flight
        log = self.data_dir / WAL_DIRECTORY
        self.files: dict[str, bytes] = {DATA_FILE: (self.data_dir / DATA_FILE).read_bytes(), WAL_DIRECTORY: b""}
        self.files |= {f"{WAL_DIRECTORY}/{file.name}": file.read_bytes() for file in log.iterdir()}

    def load(self, broker: BrokerProcess, seed: int) -> None:
        """All deeds of a client, and the kill behind them."""
        with Wire((broker.host, broker.port)) as wire:
            client = Client(wire, self.history, Random(seed), "load")
            client.begin()
            client.do_all(scenario.DEEDS)
            broker.kill()

    def answers(self) -> Generator[int, bytes]:
        """Gets, by `send`, all that has left for clients, piece by piece; yields the last deed answered by each."""
        tail = b""
        now = 0
        while True:
            tail = tail[-ANSWERED_BYTES_MAX:] + (yield now)
            # the message of a deed has in its name how many there were before
            deeds = (int(one[1] or int(one[2]) + 1) for one in ANSWERED.finditer(tail))
            now = max((deed for deed in deeds if self.history.changes(deed)), default=0)

    def is_explained(self) -> bool:
        """Whether the events make the files that there are, with or without each call that the kill ended: no write
        went past the trace.
        """
        return any(
            self._whole([one for one, is_chosen in zip(self._in_flight, chosen, strict=True) if is_chosen])
            for chosen in product((True, False), repeat=len(self._in_flight))
        )

    def _whole(self, in_flight: Sequence[trace.Event]) -> bool:
        """Whether the events and these make the files; of a write so much of its beginning as the file has."""
        disk = Disk(self.data_dir)
        for event in self.events:
            disk.note(event)
        for event in in_flight:
            if isinstance(event, trace.Written):
                found = self.files.get(disk.name_of(event.file), b"")[event.offset :]
                event = replace(event, data=os.path.commonprefix([event.data, found]))
            disk.note(event)
        return disk.whole() == self.files

    def moments(self, is_lying: bool = False) -> Iterator[tuple[str, Disk, int]]:
        """After each event that leaves new states: where that is, the disk, the last deed answered by then."""
        disk = Disk(self.data_dir, is_lying)
        reported = 0
        answers = self.answers()
        next(answers)
        for number, event in enumerate(self.events):
            if isinstance(event, trace.Answered):
                now = answers.send(event.data)
                if now > reported:
                    reported = now
                    yield f"event {number} (deed {reported} answered)", disk, reported
                continue
            # on its way a write that syncs itself may be there in part
            if isinstance(event, trace.Written) and event.is_synced and disk.note(replace(event, is_synced=False)):
                yield f"event {number} (within a synchronous write after the answer to deed {reported})", disk, reported
            if disk.note(event) and not isinstance(event, trace.Synced | trace.DirectorySynced):
                yield f"event {number} ({type(event).__name__} after the answer to deed {reported})", disk, reported


def cut_everywhere(run: Run, made: type[Record] = Record) -> None:
    number = 0
    while not run.is_over:
        number += 1
        record = made(run.directory / f"record-{number}", seed := run.chance.randrange(1 << 30))
        if not record.is_explained():
            run.violation(f"scenario {seed}: the store's file is not what the traced calls have written")
        judge_states(run, record, seed, min(STATES_OF_A_RECORD, run.cases - run.done))
        if not run.violations and not lying_disk_is_noticed(run, record):
            run.violation(f"scenario {seed}: of {LYING_STATES} states of a disk that lies about syncs none was refused")
        shutil.rmtree(run.directory / f"record-{number}")


def judge_states(run: Run, record: Record, seed: int, count: int) -> None:
    """About so many states, spread over the whole record; the same one is not judged twice."""
    moments = sum(CREATION_WEIGHT if reported == 0 else 1 for _, _, reported in record.moments())
    share = count / moments
    seen: set[tuple[int, bytes]] = set()
    states: list[DiskState] = []
    for where, disk, reported in record.moments():
        wanted = share * (CREATION_WEIGHT if reported == 0 else 1)
        for image in disk.images(int(wanted) + (run.chance.random() < wanted % 1), run.chance):
            name = reported, digest(image)
            if name not in seen:
                seen.add(name)
                states.append(DiskState(f"scenario {seed}, power cut at {where}", image, reported))
        if len(states) >= STATES_AT_ONCE:
            judge_some(run, record.history, states)
            states.clear()
            if run.is_over:
                return
    judge_some(run, record.history, states)


def judge_some(run: Run, history: History, states: list[DiskState]) -> None:
    run.case(len(states))
    for number, found in judge(run, history, states).items():
        run.violation(f"{states[number].where}: {found}")


def judge(run: Run, history: History, states: list[DiskState]) -> dict[int, str]:
    """What is wrong with which of them."""
    again = [run.chance.random() < WRITTEN_AGAIN for _ in states]
    reported = [run.chance.random() < HELD_AGAINST_THE_JOURNAL for _ in states]
    with memory_directory(run.directory) as directory:
        data_dir = directory / "data"
        # in children: a damaged store may kill whoever opens it
        judging = run_cases(
            lambda number, _: judged(
                lambda: complaint(data_dir, states[number], history, again[number], reported[number])
            ),
            range(len(states)),
            STATE_MAX_S,
        )
        return {number: "; ".join(found) for number, found in judging if found}


@contextmanager
def memory_directory(otherwise: Path) -> Iterator[Path]:
    """Where syncs cost nothing: what is made there is read at once and thrown away."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="radiator-state-", dir=memory if os.access(memory, os.W_OK) else otherwise
    ) as directory:
        yield Path(directory)


def digest(image: Image) -> bytes:
    made = hashlib.blake2b(digest_size=12)
    for name, contents in sorted((image or {}).items()):
        made.update(name.encode() + b"\n%d\n" % len(contents))
        made.update(contents)
    return made.digest() if image is not None else b""


def lying_disk_is_noticed(run: Run, record: Record) -> bool:
    moments = sum(1 for _ in record.moments())
    chosen = set(run.chance.sample(range(moments // 2, moments), LYING_STATES))
    states = [
        DiskState("", [*disk.images(3, run.chance)][2], reported)
        for number, (_, disk, reported) in enumerate(record.moments(is_lying=True))
        if number in chosen
    ]
    return bool(judge(run, record.history, states))


CAMPAIGNS = (
    Campaign(
        number="T2",
        name="power-states",
        title="opens what a power cut may leave of the disk, at every write, in every mixture",
        unit="disk states",
        run=cut_everywhere,
        cases=(1_000, 70_000, 500_000),
        mutants=(
            "receipt-before-the-wal-is-synced",
            "store-created-in-place",
            "sync-off",
            "metasync-off",
            "no-directory-fsync",
            "write-map",
            "nack-delay-in-two-batches",
            "receipt-before-commit",
            "deliverable-before-commit",
            "exchange-send-in-two-batches",
            "told-in-the-next-batch",
            "removed-in-another-batch",
            "position-before-ack-is-synced",
            "app-not-written",
        ),
        mutant_cases=3_000,
        quick_mutants=7,
        needs=("strace",),
        limit_s=(180, 3600, 6 * 3600),
    ),
)
