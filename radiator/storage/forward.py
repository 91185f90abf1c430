"""`radiator restore --log`: brings a backup forward with the write-ahead log that follows it, to its end or any moment.

The log is read twice. First it is decided how far to go, and nothing is made where that cannot be; then the entries are
carried out, in order and many in one transaction, on a file that nothing serves yet.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from radiator.model.errors import StoreError
from radiator.model.message import is_id_of, position_in
from radiator.storage.codec import records
from radiator.storage.codec.operations import Insert, Upsert, decode_operations, pieces
from radiator.storage.codec.tables import APPLIED, DELAYED, MESSAGES, STORE_ID, TABLES, TIME
from radiator.storage.lmdb import directory
from radiator.storage.lmdb.datafile import checked_head, map_bytes_for, open_for_writing
from radiator.storage.lmdb.replay import mark
from radiator.storage.lmdb.writer import TreeWriter
from radiator.storage.report import Progress
from radiator.storage.wal import (
    Damaged,
    Place,
    WalEntry,
    WalReading,
    closed_part,
    opening_in,
    remnants_in,
    segment_name,
    segments_in,
)

_TRIES = 5


class Until(NamedTuple):
    """The last thing to bring back: the entry of an index, what was written at a time or before it (ms since the
    epoch), or the entry that stored a message, by its id. At most one of them is not None.
    """

    index: int | None = None  # type: ignore[assignment]  # a tuple has a method of that name
    ms: int | None = None
    message_id: bytes | None = None


@dataclass(slots=True)
class Forward:
    """The result of bringing a backup forward. first, last: the indexes of the entries carried out, `entries` in all,
    written at first_ms and last_ms. left_out: how many entries follow; left_out_messages: how many messages they put
    into queues; left_out_ms: when the last of them was written. unread: why there may be more; "": there are not.
    """

    first: int = 0
    last: int = 0
    first_ms: int = 0
    last_ms: int = 0
    entries: int = 0
    left_out: int = 0
    left_out_messages: int = 0
    left_out_ms: int = 0
    unread: str = ""


class LogBehind:
    """The log that follows a backup. Raises StoreError where it does not."""

    def __init__(self, backup: Path, meta: Mapping[bytes, bytes], log: Path) -> None:
        """meta: of the backup. log: a directory of copies, or the data directory or its `wal` itself."""
        if APPLIED not in meta:
            raise StoreError(f"{backup} has no place in a log: it was made before there was one.")
        self._after = Place(*records.decode_place(APPLIED, meta[APPLIED]))
        self._store_id = records.decode_text(STORE_ID, meta[STORE_ID])
        self._time_ms = records.decode_number(TIME, meta[TIME]) if TIME in meta else 0
        self._backup = backup
        own = log / directory.WAL_DIRECTORY
        self._directory = own if own.is_dir() else log
        self._is_copy = self._directory.name != directory.WAL_DIRECTORY
        segments = segments_in(self._directory) if self._directory.is_dir() else []
        if not segments:
            raise StoreError(f"{log} has no segments of a log: name what `radiator backup --log` has made.")
        number, path = segments[0]
        closed_part(path, number, self._store_id)  # raises where it is of another store

    def _reading(self) -> WalReading:
        return WalReading(self._directory, self._store_id, self._after, self._is_copy)

    def plan(self, until: Until, progress: Progress) -> Forward:
        """Decides how far to go; writes nothing. Raises StoreError where `until` cannot be reached, and where the log
        is damaged before it.
        """
        self._refuse_earlier(until)
        for _ in range(0 if self._is_copy else _TRIES - 1):
            # what looks wrong in a log that a broker writes to may be temporary: a segment was begun, or used again
            with suppress(StoreError):
                found = self._planned(until, progress)
                if not found.unread:
                    return found
        return self._planned(until, progress)

    def _planned(self, until: Until, progress: Progress) -> Forward:
        found = Forward(last=self._after.index)
        reading = None
        try:
            reading = self._reading()
            for entry in reading.entries():
                progress("reading the log", "entries", found.entries + found.left_out, 0)
                if found.left_out or _is_beyond(entry, until, found.last):
                    found.left_out += 1
                    found.left_out_messages += len(_stored(entry))
                    found.left_out_ms = entry.ms
                    continue
                found.first, found.first_ms = found.first or entry.place.index, found.first_ms or entry.ms
                found.last, found.last_ms = entry.place.index, entry.ms
                found.entries += 1
                if until.message_id is not None and position_in(until.message_id) in _stored(entry):
                    until = Until(index=entry.place.index)
        except (Damaged, OSError) as error:
            if not found.left_out and not _is_reached(until, found.last):
                what = f"`--until {found.last}` restores what comes before"
                if not found.entries:
                    what = f"Nothing can follow entry {self._after.index}, the backup's last: take a later backup"
                raise StoreError(f"{_clause(error)}. {what}.") from error
            found.unread = _clause(error)
        if reading is not None and reading.missing:
            found.unread = f"the log went on in {segment_name(reading.missing)}, which is not in {self._directory}"
        self._refuse_later(until, found)
        return found

    def _refuse_earlier(self, until: Until) -> None:
        has = f"{self._backup} has entry {self._after.index} of the log already"
        if until.index is not None and until.index < self._after.index:
            raise StoreError(f"{has}, and entry {until.index} is earlier: take an earlier backup.")
        written_ms = self._written_ms() if until.ms is not None else 0
        if until.ms is not None and until.ms < written_ms:
            raise StoreError(f"{has}, written {_moment(written_ms)}, which is later: take an earlier backup.")
        if until.message_id is not None and not is_id_of(until.message_id, self._store_id):
            shown = until.message_id.decode("ascii", "replace")
            raise StoreError(f"The message {shown} is not of the store {self._store_id}, of which {self._backup} is.")

    def _written_ms(self) -> int:
        """Returns when the last entry of the backup was written, or a time not long before; 0: not known."""
        for number, path in segments_in(self._directory):
            opening = opening_in(path, self._store_id) if number == self._after.number else None
            if opening is not None:
                for one in remnants_in(path, number, opening[2]):
                    if one.place.index == self._after.index and not one.is_closing:
                        return one.ms
        return self._time_ms

    def _refuse_later(self, until: Until, found: Forward) -> None:
        if until.message_id is not None:
            shown = until.message_id.decode("ascii", "replace")
            raise StoreError(
                f"No entry of {self._directory} after entry {self._after.index} stores the message {shown}: the backup"
                " has it already, or the log ends before it."
            )
        if until.index is not None and found.last < until.index:
            raise StoreError(f"{self._directory} ends with entry {found.last}, before entry {until.index}.")

    def bring(self, file: Path, plan: Forward, progress: Progress) -> None:
        """Carries the entries out in the tables of that file, as planned. Raises StoreError and DiskFailed."""
        log_bytes = sum(path.stat().st_size for _, path in segments_in(self._directory))
        head = checked_head(file)
        with open_for_writing(file, map_bytes_for(head.end_bytes, log_bytes), subdir=False, lock=False) as env:
            # those of later formats too: a log goes on where a start has upgraded a store to the present format
            tables = {name: env.open_db(name) for name in TABLES}
            writer = TreeWriter(env, file, tables, head)
            # D39: no further, what follows may be damaged
            for operations, last in pieces(self._planned_entries(plan, progress)):
                writer.apply([*operations, mark(last.place)])

    def _planned_entries(self, plan: Forward, progress: Progress) -> Iterator[WalEntry]:
        for count, entry in enumerate(islice(self._reading().entries(), plan.entries), 1):
            yield entry
            progress("carrying out the log", "entries", count, plan.entries)


def _clause(error: Exception) -> str:
    return error.clause[0].upper() + error.clause[1:] if isinstance(error, Damaged) else str(error)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).astimezone().isoformat(" ", "milliseconds")


def _is_beyond(entry: WalEntry, until: Until, last: int) -> bool:
    if until.ms is not None:
        return entry.ms > until.ms
    return _is_reached(until, last)


def _is_reached(until: Until, last: int) -> bool:
    return until.index is not None and last >= until.index


def _stored(entry: WalEntry) -> set[int]:
    """Returns the positions of the messages that it puts into queues."""
    stored = set()
    for operation in decode_operations(entry.operations):
        if isinstance(operation, Insert | Upsert):
            if operation.table == MESSAGES:
                stored |= {records.position_in(key) for key, _ in operation.rows}
            elif operation.table == DELAYED:
                stored |= {records.split_delayed_key(key)[1] for key, _ in operation.rows}
    return stored
