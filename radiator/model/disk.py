"""What is asked and answered about the disk that the store is on; see administration.py."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReadDisk:
    """Where the store is, and what it and the disk hold: DiskStands."""


@dataclass(slots=True, frozen=True)
class WalNumbers:
    """How the write-ahead log stands. segments: its files, kept ones included, of which spare are prepared and not
    begun. unapplied_entries: that the tables do not have and that are not being put there; unapplied_bytes: of all that
    they do not have, of unapplied_max_bytes at most.
    """

    segments: int = 0
    spare: int = 0
    unapplied_entries: int = 0
    unapplied_bytes: int = 0
    unapplied_max_bytes: int = 0


NO_WAL = WalNumbers()
"""Before anything was measured."""


@dataclass(slots=True)
class DiskStands:
    """data_dir: the data directory's path. disk_...: of the file system that it is on; disk_for_messages_bytes: what
    that has for messages. used_bytes, reusable_bytes: of the tables' file: pages in use, and free ones.
    high_water_bytes: SENDs wait above it. wal_...: of the write-ahead log; see WalNumbers. journal_bytes, audit_bytes:
    of the records of these logs; None: there is no journal. All as of the last Tick.
    """

    data_dir: str
    disk_total_bytes: int
    disk_free_bytes: int
    disk_for_messages_bytes: int
    disk_free_min: int
    map_size: int
    high_water_bytes: int
    used_bytes: int
    reusable_bytes: int
    checked_percent: int
    wal_bytes: int
    wal_kept_bytes: int
    wal_segments: int
    wal_spare_segments: int
    wal_unapplied_entries: int
    wal_unapplied_bytes: int
    journal_bytes: int | None
    audit_bytes: int | None
