"""The events of a journal for an audit, column by column, and what was stored then: of a store, or of an archive."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from radiator.model.errors import Refusal
from radiator.model.journal import NO_JOURNAL
from radiator.model.message import SEQUENCE_BITS, message_id
from radiator.model.settings import JOURNAL
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.source import ArchivedPartition, Source
from radiator.tools.audit.verdicts import Auditor, AuditReport, Columns, Id, Recount

_LOW = (1 << SEQUENCE_BITS) - 1


class Journal(Protocol):
    """end: the offset up to which events count. boot: of the snapshot; None: there is none."""

    first: int
    end: int
    boot: int | None

    def columns(self) -> Iterator[Columns]:
        """Returns all events below `end`, each time from the beginning."""

    def stored(self) -> Iterable[Id]:
        """Returns the snapshot."""

    def place_of(self, one: Id) -> int:
        """Returns the place that an id says."""

    def text_of(self, one: Id) -> str:
        """Returns the message-id."""


class StoredJournal:
    """The journal of a store, with what it holds in the same state. Ids are positions."""

    def __init__(self, source: Source) -> None:
        """Raises Refusal where the store has no journal."""
        self._source = source
        with source.moment() as moment:
            log = moment.logs.get(JOURNAL)
            if log is None:
                raise Refusal("no-journal", NO_JOURNAL)
            self._log = log
            part = log.partitions.get(0, ArchivedPartition(0, 0))
            self.first, self.end = part.first, part.next
            self.boot: int | None = moment.boot
            # 16 bytes each instead of 60: there may be millions
            self._boots, self._numbers = array("Q"), array("Q")
            for _, position in moment.stored():
                self._boots.append(position >> SEQUENCE_BITS)
                self._numbers.append(position & _LOW)

    def columns(self) -> Iterator[Columns]:
        for stretch in self._source.stretches(self._log, 0, self.first, self.end):
            if stretch.records:
                event, _, queue, position, _, _, _, other, other_queue, _, _, number, *_ = zip(
                    *stretch.records, strict=True
                )
                yield range(stretch.first, stretch.next), event, queue, position, other, other_queue, number

    def stored(self) -> Iterator[int]:
        return (boot << SEQUENCE_BITS | number for boot, number in zip(self._boots, self._numbers, strict=True))

    @staticmethod
    def place_of(one: Id) -> int:
        assert isinstance(one, int)
        return one

    def text_of(self, one: Id) -> str:
        return message_id(self._source.store_id, self.place_of(one)).decode()


class ArchivedJournal:
    """The journal of an archive, with its last snapshot. Ids are texts."""

    def __init__(self, directory: Path) -> None:
        """Raises ArchiveError where there is no archive, or no journal in it."""
        from radiator.tools.archive.history import History

        self._history = History(directory)
        snapshot = self._history.stored()
        self.first = self._history.files[0].first
        self.end = self._history.files[-1].next if snapshot is None else snapshot.offset
        self.boot = None if snapshot is None else snapshot.boot

    def columns(self) -> Iterator[Columns]:
        for found in self._history.columns():
            seq = found[0]
            if seq[-1] >= self.end:
                most = next((index for index, one in enumerate(seq) if one >= self.end), len(seq))
                found = [column[:most] for column in found]
            yield found[0], found[1], found[2], found[3], found[4], found[5], found[6]

    def stored(self) -> Iterable[str]:
        snapshot = self._history.stored()
        return () if snapshot is None else snapshot.ids

    @staticmethod
    def place_of(one: Id) -> int:
        return place_of(str(one))

    @staticmethod
    def text_of(one: Id) -> str:
        return str(one)


def _with_progress(journal: Journal, what: str, progress: Progress) -> Iterator[Columns]:
    for columns in journal.columns():
        yield columns
        if columns[0]:
            progress(what, "events", columns[0][-1] + 1 - journal.first, journal.end - journal.first)


def place_of(text: str) -> int:
    """Returns the place in a message-id: boot and number."""
    _, boot, number = text.rsplit("-", 2)
    return int(boot) << SEQUENCE_BITS | int(number)


def audit(journal: Journal, progress: Progress = unheard) -> AuditReport:
    """Judges every message. progress: called with how many events are read. Raises StoreError, ArchiveError."""
    auditor = Auditor(journal.place_of)
    for columns in _with_progress(journal, "reading the journal", progress):
        auditor.feed(columns)
    auditor.close(journal.end, journal.boot, journal.stored())
    if auditor.has_suspects:
        recount = Recount(auditor)
        for columns in _with_progress(journal, "reading it again for what is suspect", progress):
            recount.feed(columns)
        recount.close(journal.boot)
    return auditor.report
