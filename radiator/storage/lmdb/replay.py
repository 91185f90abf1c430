"""Brings the tables up to date with the log: for a start, and for a command that writes to the tables itself."""

from collections.abc import Mapping
from pathlib import Path

from radiator.model.errors import StoreError
from radiator.storage.codec import records
from radiator.storage.codec.operations import Upsert, pieces
from radiator.storage.codec.tables import APPLIED, BACKUP, CLEAN, META, STORE_ID
from radiator.storage.lmdb import unreadable
from radiator.storage.lmdb.directory import DATA_FILE, WAL_DIRECTORY, has_wal
from radiator.storage.lmdb.writer import TreeWriter
from radiator.storage.wal import Damaged, Place, WalReading, refuse_entries
from radiator.storage.wal_damage import explained


def mark(place: Place) -> Upsert:
    """Returns the row that says which entry is the last that the tables have: in the transaction that brings it
    there.
    """
    return Upsert(META, [(APPLIED, records.encode_place(APPLIED, *place))])


def applied(meta: Mapping[bytes, bytes]) -> Place | None:
    """Returns the last entry that the tables have; None: a store without a log. Raises DamagedRecord."""
    if APPLIED not in meta or BACKUP in meta:
        return None
    return Place(*records.decode_place(APPLIED, meta[APPLIED]))


def reading_behind(data_dir: Path, meta: Mapping[bytes, bytes]) -> WalReading | None:
    """Returns the entries that the tables do not have; None where there is no log, and none is missing. Raises
    StoreError where it is missing, or it is not known what the tables have of it, and DamagedRecord for rows of meta.
    """
    if STORE_ID not in meta:
        raise StoreError(f"{data_dir / DATA_FILE} is damaged: its table meta has no row 'store_id'. Restore a backup.")
    place, store_id = applied(meta), records.decode_text(STORE_ID, meta[STORE_ID])
    if place is None:
        if BACKUP not in meta and has_wal(data_dir):
            refuse_entries(data_dir / WAL_DIRECTORY, store_id)
        return None
    if has_wal(data_dir):
        return WalReading(data_dir / WAL_DIRECTORY, store_id, place)
    if CLEAN not in meta or records.decode_number(CLEAN, meta[CLEAN]) != 1:
        raise StoreError(
            f"{data_dir / WAL_DIRECTORY} is missing, and the broker was not stopped cleanly: what was receipted after"
            f" entry {place.index} is in there. Put it back next to data.mdb, or restore a backup."
        )
    return None


def replay(writer: TreeWriter, data_dir: Path, meta: Mapping[bytes, bytes]) -> WalReading | None:
    """Carries out what the log has and the tables have not; returns how far it was read, or None where there is no log.
    Raises StoreError and DiskFailed.
    """
    try:
        with unreadable.reading(data_dir / WAL_DIRECTORY):
            reading = reading_behind(data_dir, meta)
            if reading is None:
                return None
            entries = list(reading.entries())  # all of them are sound before the first is carried out
    except Damaged as damaged:
        raise explained(damaged, data_dir, meta) from damaged
    reading.sync()
    for operations, last in pieces(entries):
        # D34: the tables and the index of what they have in one transaction
        writer.apply([*operations, mark(last.place)])
    return reading
