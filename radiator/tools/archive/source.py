"""Reads for the archive what a store has: beside a running broker, in read transactions of some milliseconds, since a
long one pins pages that the broker would use again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.journal import JournalEvent
from radiator.model.limits import MIB
from radiator.model.message import Message
from radiator.storage.codec import records
from radiator.storage.codec.blocks import records_in
from radiator.storage.codec.tables import BOOT, META
from radiator.storage.lmdb.datafile import refuse_other_formats
from radiator.storage.lmdb.reader import Reader, Snapshot

SLICE_BYTES = 8 * MIB  # of blocks that one read transaction copies out
SLICE_BLOCKS = 2048  # the same in blocks


@dataclass(slots=True)
class ArchivedPartition:
    """The part of a partition that the store has: offsets from `first` on, below `next`."""

    first: int
    next: int


@dataclass(slots=True)
class ArchivedLog:
    """A log as it is in one state of the store. incarnation: another log of this name has another."""

    number: int
    name: str
    incarnation: str
    partitions: dict[int, ArchivedPartition] = field(default_factory=dict)


@dataclass(slots=True)
class Stretch:
    """Consecutive records or events; None: that many are damaged or missing."""

    first: int
    next: int
    records: list[Message] | list[JournalEvent] | None


@dataclass(slots=True)
class Moment:
    """One state of the store, while it is being read."""

    boot: int
    logs: dict[str, ArchivedLog]
    snapshot: Snapshot

    def stored(self) -> Iterator[tuple[str, int]]:
        """Queue and position of every message that a persistent queue of clients holds; deleted queues hold none."""
        names = {number: name for number, name in self.snapshot.queues().items() if not name.startswith("$outbox/")}
        return ((names[number], position) for number, position in self.snapshot.stored() if number in names)


class Source:
    """A store, opened for reading alone."""

    def __init__(self, data_dir: Path) -> None:
        """Raises StoreError."""
        self._data_dir = data_dir
        self._reader = Reader(data_dir)
        with self._snapshot() as snapshot:
            self.store_id = snapshot.store_id()

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def reopen(self) -> None:
        """Opens the store again: a broker may have started since, also with a larger map_size. Raises StoreError, also
        for another store.
        """
        self._reader.__exit__()
        self._reader = Reader(self._data_dir)
        with self._snapshot() as snapshot:
            store_id = snapshot.store_id()
        if store_id != self.store_id:
            raise StoreError(f"{self._data_dir} had store {self.store_id}, and has store {store_id} now.")

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        """Yields a snapshot, of a format that is read here: what is not understood of another would be reported as
        missing. Raises StoreError.
        """
        with self._reader.snapshot() as snapshot:
            refuse_other_formats(self._reader.file, snapshot.meta())
            yield snapshot

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        """Yields one state of the store: keep it short."""
        with self._snapshot() as snapshot:
            logs: dict[str, ArchivedLog] = {}
            for found in snapshot.logs():
                if not found.name:
                    continue  # deleted, and not swept yet
                log = ArchivedLog(found.number, found.name, f"{self.store_id}-{found.number}")
                logs[found.name] = log
                for segment in found.segments:
                    part = log.partitions.setdefault(segment.partition, ArchivedPartition(segment.begin, segment.begin))
                    part.next = segment.first + segment.count
            yield Moment(records.decode_number(BOOT, snapshot.get(META, BOOT) or b""), logs, snapshot)

    def logs(self) -> dict[str, ArchivedLog]:
        """Returns the logs that exist now."""
        with self.moment() as moment:
            return moment.logs

    def stretches(self, log: ArchivedLog, partition: int, first: int, end: int) -> Iterator[Stretch]:
        """Everything from `first` on and below `end`, in order; where records are missing, a Stretch without any."""
        at, last = first, -1
        while at < end:
            found_blocks = self._blocks(log.number, partition, max(at, last + 1))
            blocks = [one for one in found_blocks if last < one[0] < end]
            for begin, key, value in blocks:
                try:
                    found = records_in(key, value)
                except DamagedRecord:
                    continue  # the next that is sound tells how many are missing
                if begin + len(found) <= at:
                    continue
                if begin > at:
                    yield Stretch(at, begin, None)
                    at = begin
                stop = min(begin + len(found), end)
                yield Stretch(at, stop, found[at - begin : stop - begin])
                at = stop
            if not blocks:
                yield Stretch(at, end, None)
                return
            last = blocks[-1][0]

    def raw(self, log: ArchivedLog, partition: int, first: int) -> Iterator[tuple[int, bytes, bytes]]:
        """First offset, key and value of each block from that of `first` on, undecoded and unchecked."""
        last = -1
        while blocks := [one for one in self._blocks(log.number, partition, max(first, last + 1)) if one[0] > last]:
            yield from blocks
            last = blocks[-1][0]

    def _blocks(self, number: int, partition: int, at: int) -> list[tuple[int, bytes, bytes]]:
        """Returns as many blocks as one read transaction may copy out."""
        found: list[tuple[int, bytes, bytes]] = []
        size = 0
        with self._reader.snapshot() as snapshot:
            for block in snapshot.blocks(number, partition, at):
                found.append(block)
                size += len(block[2])
                if size >= SLICE_BYTES or len(found) >= SLICE_BLOCKS:
                    break
        return found
