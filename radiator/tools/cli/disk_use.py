"""`radiator disk`: where the running broker has its data, and what the disk has and holds."""

import argparse
from typing import Any

from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, printable


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)


def _run(arguments: argparse.Namespace) -> int:
    show(arguments, lambda: ask(arguments, {"do": "disk"}), _formed)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    def size(name: str) -> str:
        return bytes_text(int(field(answer, name)))

    def count(name: str) -> int:
        return int(field(answer, name))

    lines = [
        printable(str(field(answer, "data_dir"))),
        f"disk: {size('disk_free_bytes')} of {size('disk_total_bytes')} free, which gives "
        f"{size('disk_for_messages_bytes')} for messages; SENDs wait below {size('disk_free_min')}",
        f"tables: {size('used_bytes')} used, {size('reusable_bytes')} in free pages, of {size('map_size')} (map_size); "
        f"SENDs wait above {size('high_water_bytes')}",
        f"write-ahead log: {size('wal_bytes')} in {count('wal_segments')} segments, {count('wal_spare_segments')} of "
        f"them spare; {size('wal_kept_bytes')} kept (log_keep); the tables do not have {size('wal_unapplied_bytes')} "
        f"yet, {count('wal_unapplied_entries')} entries",
    ]
    if field(answer, "journal_bytes") is not None:
        lines.append(f"journal: {size('journal_bytes')}; audit log: {size('audit_bytes')}")
    if count("checked_percent") < 100:
        lines.append(f"{count('checked_percent')} % of the tables' structure has been checked since the start")
    return "\n".join(lines)


DISK = Command(
    name="disk",
    summary="show where a running broker has its data, and the disk's space and what takes it",
    description=(
        "The data directory, what is free on its file system, how large the tables are and may become, how the "
        "write-ahead log stands, and what the journal takes of it all; as it was within the last second. `radiator "
        "bench --disk DIRECTORY` measures how fast a disk is."
    ),
    example="radiator disk",
    add_arguments=_arguments,
    run=_run,
)
