"""Decides what is copied when. Nothing is held between two files but the manifest, so that a kill at any moment loses
nothing: a file has everything from where the manifest ends to where the log ended when the file was begun, or to
`seal_rows` rows, or to a day's end.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from radiator.model.errors import count_text
from radiator.model.journal import JournalEvent
from radiator.model.message import Message
from radiator.model.settings import JOURNAL
from radiator.storage.report import Progress, unheard
from radiator.tools.archive import rows
from radiator.tools.archive.manifest import DAMAGED, RETENTION, ArchiveError, Gap, Manifest, Sealed, sync_directory
from radiator.tools.archive.sealing import SNAPSHOTS, Sealing, adopt, clear, date_of, folder_of, misfit_of, now_text
from radiator.tools.archive.source import ArchivedLog, ArchivedPartition, Moment, Source, Stretch

SEAL_ROWS = 1_000_000  # of a file; about 200 MB of messages of 200 B before compression
SEAL_S = 300.0  # while it follows: how old what is not archived may become
SNAPSHOT_S = 3600.0  # while it follows: how often it writes down what is stored
SNAPSHOTS_KEPT = 2
DAMAGED_SHOWN = 20  # damaged files that are reported; --verify lists all
LOOK_EVERY_S = 1.0  # while it follows: how often the store is looked at
_SNAPSHOT_BATCH = 65_536
_LOCK = "_lock"

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class ArchivePlan:
    """The task of an archiver. names: None: all logs but those of checkouts. node: whose journal it is, or ""."""

    directory: Path
    names: list[str] | None = None
    seal_rows: int = SEAL_ROWS
    seal_s: float = SEAL_S
    snapshot_s: float = SNAPSHOT_S
    node: str = ""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Raises ArchiveError where another process writes this archive."""
    directory.mkdir(parents=True, exist_ok=True)
    opened = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveError(f"Another process is writing the archive {directory}.") from None
        yield
    finally:
        os.close(opened)


class Archiver:
    """Copies a store's logs into a directory that it has `locked`. say: called with what an operator should know;
    progress: how far `run` is. rows, files, bytes: what was written, snapshots not counted.
    """

    def __init__(self, source: Source, plan: ArchivePlan, say: Say, progress: Progress = unheard) -> None:
        """Repairs what a crash has left. Raises ArchiveError."""
        self.source = source
        self.plan = plan
        self.say = say
        self.progress = progress
        self._wanted = 0  # rows that `run` is to copy
        self.gaps = 0
        self.damaged = 0  # files of the manifest
        self.passed_over: set[str] = set()  # incarnations of logs
        self.rows = self.files = self.bytes = 0
        self.manifest = Manifest(plan.directory, source.store_id)
        clear(plan.directory)
        for sentence in adopt(plan.directory, self.manifest):
            say(sentence)
        self._sealed_at: dict[tuple[str, int], float] = {}
        self._snapshot_at = float("-inf")

    # ---- which ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Copies everything that is there now, and with the journal what is stored. Raises ArchiveError, StoreError."""
        logs = self._logs()
        self.look(logs)
        self._wanted = sum(
            part.next - (self._next_of(log, number) or part.first)
            for log in logs.values()
            for number, part in log.partitions.items()
        )
        if JOURNAL in logs:
            with self._snapshot(logs[JOURNAL]) as part:
                self.copy(logs[JOURNAL], 0, part)
        for log in logs.values():
            if log.name != JOURNAL:
                for partition, part in sorted(log.partitions.items()):
                    self.copy(log, partition, part)

    def follow(self) -> None:
        """Copies without end: a partition when `seal_rows` wait, or when what waits has done so for `seal_s`."""
        self.look(self._logs())
        while True:
            logs = self._logs()
            now_s = time.monotonic()
            if JOURNAL in logs and now_s >= self._snapshot_at + self.plan.snapshot_s:
                self._snapshot_at = now_s
                with self._snapshot(logs[JOURNAL]) as part:
                    self.copy(logs[JOURNAL], 0, part)
            for log in logs.values():
                for partition, part in log.partitions.items():
                    if self._is_due(log, partition, part, now_s):
                        self.copy(log, partition, part)
                        self._sealed_at[log.name, partition] = now_s
            time.sleep(LOOK_EVERY_S)
            self.source.reopen()

    def look(self, logs: dict[str, ArchivedLog]) -> None:
        """Reports which files of these logs are missing, or not as long as they were, without reading any."""
        contents, directory = self.manifest.contents, self.plan.directory
        files = [one for one in contents.files if one.log in logs] + (contents.snapshots if JOURNAL in logs else [])
        misfits = [misfit for misfit in (misfit_of(directory, one) for one in files) if misfit]
        for misfit in misfits[:DAMAGED_SHOWN]:
            self.say(f"DAMAGED: {misfit}")
        self.damaged = len(misfits)
        if misfits:
            self.say(
                f"{count_text(self.damaged, 'file')} of the archive damaged, and not written again: `radiator archive "
                f"--verify {directory}` lists all that is wrong; a new one with --to gets what the logs still have."
            )

    def _is_due(self, log: ArchivedLog, partition: int, part: ArchivedPartition, now_s: float) -> bool:
        waiting = part.next - (self._next_of(log, partition) or part.first)
        # what came since the last look is counted from that look on
        since_s = self._sealed_at.setdefault((log.name, partition), now_s) if waiting else now_s
        if not waiting:
            self._sealed_at[log.name, partition] = now_s
        return waiting >= self.plan.seal_rows or (waiting > 0 and now_s - since_s >= self.plan.seal_s)

    def _logs(self) -> dict[str, ArchivedLog]:
        """Returns the logs to be copied, the journal first. Raises ArchiveError for a name that no log has."""
        there = self.source.logs()
        names = self.plan.names
        if names is None:
            names = sorted(name for name in there if not name.startswith("$checkout/"))
        for name in names:
            if name not in there:
                known = ", ".join(sorted(there)) or "none"
                raise ArchiveError(f"There is no log {name!r} in this store; there is {known}.")
        chosen = [there[name] for name in sorted(names, key=lambda name: (name != JOURNAL, name))]
        return {log.name: log for log in chosen if self._is_the_same(log)}

    def _is_the_same(self, log: ArchivedLog) -> bool:
        """Whether the archive has this log, or none of its name. Another one does not keep the others waiting."""
        if self.manifest.contents.incarnation_of(log.name) in (None, log.incarnation):
            return True
        if log.incarnation not in self.passed_over:
            self.passed_over.add(log.incarnation)
            self.say(
                f"PASSED OVER: {log.name} was deleted and declared again since {self.plan.directory} was begun: "
                "offsets would mean two things there. Give another directory with --to for it."
            )
        return False

    def _next_of(self, log: ArchivedLog, partition: int) -> int | None:
        return self.manifest.contents.next_of(log.name, partition)

    # ---- one partition ----------------------------------------------------------------------------------------------

    def copy(self, log: ArchivedLog, partition: int, part: ArchivedPartition) -> None:
        """Copies all of a partition that the manifest does not have yet, up to where it ended."""
        at = self._next_of(log, partition)
        if at is None:
            at = part.first
            if at:
                self.say(f"{log.name}, partition {partition}: begins at offset {at}; what was before is not there.")
        stretches = self.source.stretches(log, partition, at, part.next)
        waiting = next(stretches, None)
        while waiting is not None:
            if waiting.records is None:
                self._report_gap(log, partition, waiting)
                waiting = next(stretches, None)
            else:
                waiting = self._seal(log, partition, waiting, stretches)

    def _seal(self, log: ArchivedLog, partition: int, stretch: Stretch, others: Iterator[Stretch]) -> Stretch | None:
        """Writes one file that begins with this stretch. Returns what no longer goes into it."""
        schema = rows.JOURNAL if log.name == JOURNAL else rows.LOG
        first = stretch.first
        date = _date(stretch)
        file = f"{folder_of(log.name, date)}/{partition:04d}-{first:020d}.parquet"
        waiting: Stretch | None = stretch
        with Sealing(self.plan.directory, file, schema) as sealing:
            while waiting is not None and waiting.records:
                today, waiting = _split(waiting, date)
                if today is not None:
                    sealing.add(self._batch(log, partition, today))
                    at = today.next
                    if self._wanted:
                        self.progress("copying", "rows", self.rows + sealing.rows, self._wanted)
                if waiting is not None or sealing.rows >= self.plan.seal_rows:
                    break
                waiting = next(others, None)
            sealed = sealing.seal(self.manifest, log.name, log.incarnation, partition, first, at)
            self.rows += sealed.rows
            self.files += 1
            self.bytes += sealed.bytes
        return waiting if waiting is not None else next(others, None)

    def _batch(self, log: ArchivedLog, partition: int, stretch: Stretch) -> pa.RecordBatch:
        if log.name == JOURNAL:
            events: list[JournalEvent] = stretch.records  # type: ignore[assignment]
            return rows.of_events(self.source.store_id, self.plan.node, stretch.first, events)
        messages: list[Message] = stretch.records  # type: ignore[assignment]
        return rows.of_messages(log.name, partition, stretch.first, messages)

    def _report_gap(self, log: ArchivedLog, partition: int, stretch: Stretch) -> None:
        now = self.source.logs().get(log.name)
        part = now.partitions.get(partition) if now is not None else None
        reason = RETENTION if part is None or stretch.first < part.first else DAMAGED
        why = "retention was faster than the archive" if reason == RETENTION else "they are damaged in the store"
        self.manifest.gap(
            Gap(log.name, log.incarnation, partition, stretch.first, stretch.next, reason, now_text())
        )  # fmt: skip
        self.gaps += 1
        self.say(
            f"GAP: {log.name}, partition {partition}: offsets {stretch.first} to {stretch.next - 1} "
            f"({count_text(stretch.next - stretch.first, 'record')}) cannot be archived any more: {why}."
        )

    # ---- what is stored ---------------------------------------------------------------------------------------------

    @contextmanager
    def _snapshot(self, journal: ArchivedLog) -> Iterator[ArchivedPartition]:
        """Reads what is stored, and the journal's end, in one read transaction, and yields what the journal has then.
        Afterwards, with the journal archived up to there, the snapshot gets its file, and the oldest is removed.
        """
        with ExitStack() as stack:
            with self.source.moment() as moment:
                part, boot = moment.logs[JOURNAL].partitions.get(0, ArchivedPartition(0, 0)), moment.boot
                file = f"{SNAPSHOTS}/{part.next:020d}-{boot}.parquet"
                # else nothing has been told since the last
                is_new = all(one.file != file for one in self.manifest.contents.snapshots)
                if is_new:
                    sealing = stack.enter_context(Sealing(self.plan.directory, file, rows.SNAPSHOT))
                    for batch in _batches(self.source.store_id, moment):
                        sealing.add(batch)
            yield part
            if is_new:
                sealing.seal(self.manifest, "", journal.incarnation, 0, part.next, part.next, boot)
        for old in self.manifest.contents.snapshots[:-SNAPSHOTS_KEPT]:
            self._drop(old)

    def _drop(self, old: Sealed) -> None:
        self.manifest.dropped(old)
        path = self.plan.directory / old.file
        path.unlink(missing_ok=True)
        sync_directory(path.parent)


def _batches(store_id: str, moment: Moment) -> Iterator[pa.RecordBatch]:
    stored = moment.stored()
    while some := list(islice(stored, _SNAPSHOT_BATCH)):
        yield rows.of_stored(store_id, some)


def _ms(one: Message | JournalEvent) -> int:
    return one.ms if isinstance(one, JournalEvent) else one.accepted_ms


def _date(stretch: Stretch) -> str:
    assert stretch.records, "a stretch with records has at least one"
    return date_of(_ms(stretch.records[0]))


def _split(stretch: Stretch, date: str) -> tuple[Stretch | None, Stretch | None]:
    """Returns what still belongs to that day, and what is of a later one. A clock that went back opens no file of
    yesterday.
    """
    found = stretch.records
    assert found, "a stretch with records has at least one"
    if date_of(max(_ms(found[0]), _ms(found[-1]))) <= date:
        return stretch, None
    times = [_ms(one) for one in found]
    at = next((index for index, ms in enumerate(times) if date_of(ms) > date), len(found))
    if at == len(found):
        return stretch, None
    today = Stretch(stretch.first, stretch.first + at, found[:at]) if at else None
    return today, Stretch(stretch.first + at, stretch.next, found[at:])
