"""Requests about the broker itself: its configuration, its bounds, its disk, and the last lines of its log."""

from typing import Protocol

from radiator.core.bounds import BoundsPort, bounds
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.server_view import ServerView
from radiator.model.bounds import BoundsInForce, ReadBounds
from radiator.model.configuration import Configuration, ReadConfiguration, settings_in_force
from radiator.model.disk import DiskStands, ReadDisk
from radiator.model.log_lines import LogLines, ReadLogLines
from radiator.model.numbers import Rows
from radiator.model.settings import AUDIT, JOURNAL


class ItselfPort(AnsweringPort, Protocol):
    """The parts that ask the server around the broker."""

    @property
    def view(self) -> ServerView: ...


def configuration(request: Request[ItselfPort], command: ReadConfiguration) -> None:
    """Answers with all settings in force, except those of declared destinations."""

    def made() -> Configuration:
        config, path = request.parts.view.configuration()
        return Configuration(Rows(settings_in_force(config, path)), None if path is None else str(path))

    request.answer_in_slices(made)


def all_bounds(request: Request[BoundsPort], command: ReadBounds) -> None:
    """Answers with the bounds of the whole broker."""
    request.answer_in_slices(lambda: BoundsInForce(Rows(bounds(request.parts))))


def log_lines(request: Request[ItselfPort], command: ReadLogLines) -> None:
    """Answers with some of the last lines of the log."""

    def made() -> LogLines:
        found = request.parts.view.lines(command)
        return LogLines(Rows(iter(found.lines)), found.first, found.next)

    request.answer_in_slices(made)


def disk(request: Request[BoundsPort], command: ReadDisk) -> None:
    """Answers with what the disk has and holds."""
    parts = request.parts
    found, wal, logs = parts.disk.numbers(), parts.disk.wal, parts.destinations.logs.all
    journal, audit = (logs[name].size if name in logs else None for name in (JOURNAL, AUDIT))
    request.answer(
        DiskStands(
            data_dir=str(parts.view.configuration()[0].data_dir),
            disk_total_bytes=parts.disk.total_bytes,
            disk_free_bytes=found["disk_free_bytes"],
            disk_for_messages_bytes=found["disk_room_bytes"],
            disk_free_min=found["disk_free_min"],
            map_size=found["map_size"],
            high_water_bytes=found["high_water_bytes"],
            used_bytes=found["used_bytes"],
            reusable_bytes=found["reusable_bytes"],
            checked_percent=found["checked_percent"],
            wal_bytes=found["wal_bytes"],
            wal_kept_bytes=found["wal_kept_bytes"],
            wal_segments=wal.segments,
            wal_spare_segments=wal.spare,
            wal_unapplied_entries=wal.unapplied_entries,
            wal_unapplied_bytes=wal.unapplied_bytes,
            journal_bytes=journal,
            audit_bytes=audit,
        )
    )
