"""`radiator backup` and `radiator restore`: one file that holds a whole store, and a store made of it; and copies of
the write-ahead log, which bring such a store to any moment since.
"""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radiator.model.errors import EXIT_REFUSED, ConfigError, count_text
from radiator.tools.cli.check import print_report
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import DATA_DIR, add_data, data_of
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import bytes_text, printable, time_text
from radiator.tools.cli.things import ArgumentWord, add_words

if TYPE_CHECKING:
    from radiator.storage.forward import Until
    from radiator.storage.wal_copy import Copied

FOLLOW_S = 1.0


def _backup_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(
        parser, DATA_DIR, ArgumentWord("file", "FILE", "the backup; replaces an older one once it is whole", read=Path)
    )
    add_data(parser)
    add_json(parser, "`file` and `bytes`, as JSON on one line")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--compact", action="store_true", help="leave free pages out: smaller, slower")
    kind.add_argument(
        "--log",
        action="store_true",
        help="copy the segments of the write-ahead log instead; FILE is a directory for them",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help=("with --log: go on, with a look each second, until interrupted or terminated"),
    )
    parser.add_argument(
        "--despite-damage",
        action="store_true",
        help=(
            "if the log is damaged: back up what can be read in order, and list what is lost; then the exit status is 1"
        ),
    )


def _run_backup(arguments: argparse.Namespace) -> int:
    if arguments.log and arguments.despite_damage:
        raise ConfigError(["--despite-damage is of a backup, and --log copies no backup: give one of them."])
    if arguments.log:
        return _run_log(arguments)
    if arguments.follow:
        raise ConfigError(["--follow goes with --log: a backup is of one moment."])
    from radiator.storage.backup import backup
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    os.stat(arguments.file.parent)  # raises what names it: a sentence about the file beside it would puzzle
    last_words(data_dir)
    with Progress("backup") as progress:
        report = backup(data_dir, arguments.file, arguments.compact, progress, arguments.despite_damage)
    size, name, findings = arguments.file.stat().st_size, str(arguments.file), report.findings
    text = "\n".join([*map(printable, findings), f"{printable(name)}: {bytes_text(size)}, synced ({progress.took})."])
    print_answer(arguments, {"file": name, "bytes": size, "findings": findings}, text)
    if not findings:
        return 0
    where = printable(str(data_dir))
    print(
        f"radiator: the log in {where} is damaged: the backup lacks what could not be read in order.", file=sys.stderr
    )
    return EXIT_REFUSED


def _run_log(arguments: argparse.Namespace) -> int:
    from radiator.storage.lmdb.unreadable import last_words
    from radiator.storage.wal_copy import LogCopier

    data_dir = data_of(arguments).directory
    last_words(data_dir)
    is_over = threading.Event()
    if arguments.follow:
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda *_: is_over.set())
    with LogCopier(data_dir, arguments.file) as copier:
        seen: Copied | None = None
        gaps: set[str] = set()
        while True:
            with Progress("backup") as progress:
                found = copier.copy(progress)
            if seen is None or (found.segments, found.gaps) != (seen.segments, seen.gaps):
                answer = {"directory": str(arguments.file), **found._asdict()}
                print_answer(arguments, answer, _copied_text(printable(str(arguments.file)), found))
                for gap in found.gaps:
                    if gap not in gaps and not arguments.json:
                        print(printable(gap), flush=True)
                gaps |= set(found.gaps)
                seen = found
            if not arguments.follow or is_over.wait(FOLLOW_S):
                return EXIT_REFUSED if gaps else 0


def _copied_text(name: str, found: "Copied") -> str:
    if not found.segments:
        return f"{name}: no entries yet."
    until = f" ({_exact(found.last_ms)})" if found.last_ms else ""
    return (
        f"{name}: {count_text(found.segments, 'segment')}, {bytes_text(found.size)}, entries {found.first} to"
        f" {found.last}{until}; {bytes_text(found.copied_bytes)} copied."
    )


_UNTIL_END_MS = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)  # later ones have no text in every zone


def _exact(ms: int) -> str:
    """Returns a time in the form that `--until` takes."""
    return time_text(ms, "milliseconds")


def _until(text: str) -> "Until":
    """Reads what `--until` names. Raises ArgumentTypeError."""
    from radiator.storage.forward import Until

    if re.fullmatch("[0-9]{1,19}", text):
        return Until(index=int(text))
    if re.fullmatch("[0-9a-f]{16}-[0-9]{1,10}-[0-9]{1,10}", text):
        return Until(message_id=text.encode())
    try:
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?", text):
            today = datetime.now().astimezone().date()
            moment = datetime.combine(today, time.fromisoformat(f"0{text}" if text[1] == ":" else text))
        else:
            moment = datetime.fromisoformat(text)
        ms = int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):  # of the year 1 in this zone
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time (2026-11-24T14:03:00, with +02:00 or Z after it for another zone than this one;"
            " or 14:03 of today), no message-id, and no index of an entry"
        ) from None
    if not 0 <= ms < _UNTIL_END_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1970 to 9998, and no log has entries of it")
    return Until(ms=ms)


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, ArgumentWord("file", "FILE", "a backup made by `radiator backup`", read=Path), DATA_DIR)
    add_data(parser)
    parser.add_argument(
        "--log",
        metavar="DIRECTORY",
        type=Path,
        help="bring the backup forward by the log there: what `radiator backup --log` has written, or a data directory",
    )
    parser.add_argument(
        "--until",
        metavar="MOMENT",
        type=_until,
        help="with --log: the last that comes back, as a time, a message-id, or the index of an entry",
    )
    add_json(parser, "as of `radiator check`, and with --log how far it went as `forward`")


def _run_restore(arguments: argparse.Namespace) -> int:
    from radiator.storage.backup import restore
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    os.stat(arguments.file)  # raises: a missing file is not a damaged backup
    last_words(arguments.file)
    if arguments.until is not None and arguments.log is None:
        raise ConfigError(["--until goes with --log: a backup alone is of one moment."])
    with Progress("restore") as progress:
        report = restore(arguments.file, data_dir, progress, arguments.log, arguments.until)
    if not arguments.json:
        for sentence in _forward_sentences(report.forward, arguments.until):
            print(printable(sentence), flush=True)
    return print_report(arguments, report, data_dir, progress.took)


def _forward_sentences(found: dict[str, Any] | None, until: "Until | None") -> Iterator[str]:
    """Yields what of the log was carried out, and what was left out."""
    if found is None:
        return
    if found["entries"]:
        yield (
            f"Brought forward by {count_text(found['entries'], 'entry', 'entries')} of the log, {found['first']} to"
            f" {found['last']}, written from {_exact(found['first_ms'])} to {_exact(found['last_ms'])}."
        )
    else:
        yield f"The log adds nothing: the backup has entry {found['last']}."
    if found["left_out"]:
        yield (
            f"Left out: {count_text(found['left_out'], 'entry', 'entries')} after that, up to"
            f" {_exact(found['left_out_ms'])}, which put {count_text(found['left_out_messages'], 'message')} into"
            " queues."
        )
    elif until is not None and until.ms is not None:
        yield f"The log ends there: it has nothing from then to {_exact(until.ms)}."
    if found["unread"]:
        yield f"What follows was not read: {found['unread']}."


BACKUP = Command(
    name="backup",
    summary="copy the data of a broker, running or not, into one file",
    description=(
        "Writes a consistent copy while the broker runs: synced, then renamed into place, so FILE is whole or "
        "absent. Use it through `radiator restore`, which gives it a new store id. A store whose log is damaged is "
        "refused: with --despite-damage the backup has what can be read in order, and what is lost is listed as "
        "`radiator check` does; then the exit status is 1. With --log, FILE is a directory, and each run adds to it "
        "what the write-ahead log has beyond it: `radiator restore --log` brings an earlier backup to any moment "
        "since. The exit status is 1 if the broker has used segments again before they were copied (log_keep in "
        "config.toml)."
    ),
    example="radiator backup --compact /var/lib/radiator /backup/radiator.mdb",
    add_arguments=_backup_arguments,
    run=_run_backup,
)

RESTORE = Command(
    name="restore",
    summary="make a data directory from a backup",
    description=(
        "Makes a data directory, which must not exist yet, from a backup, with a new store id so that no message id "
        "is ever given twice. `radiator serve` refuses a bare backup: this is the way to use one. What is damaged "
        "in it is listed as `radiator check` does; then the exit status is 1, but the rest is restored. With --log "
        "it goes on from the backup with the log in DIRECTORY, to its end, or with --until to a moment: what was "
        "written at that time or before it, or up to and including the entry that stored that message, or that "
        "entry."
    ),
    example="radiator restore --log /backup/log --until 14:02 /backup/radiator.mdb /var/lib/radiator-new",
    add_arguments=_restore_arguments,
    run=_run_restore,
)
