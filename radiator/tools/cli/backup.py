"""`radiator backup` and `radiator restore`: one file that holds a whole store, and a store made of it."""

import argparse
import os
from pathlib import Path

from radiator.tools.cli.check import print_report
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import DATA_DIR, add_data, data_of
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _backup_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(
        parser, DATA_DIR, ArgumentWord("file", "FILE", "the backup; replaces an older one once it is whole", read=Path)
    )
    add_data(parser)
    add_json(parser, "`file` and `bytes`, as JSON on one line")
    parser.add_argument("--compact", action="store_true", help="leave free pages out: smaller, slower")


def _run_backup(arguments: argparse.Namespace) -> int:
    from radiator.storage.backup import backup
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    os.stat(arguments.file.parent)  # raises what names it: a sentence about the file beside it would puzzle
    last_words(data_dir)
    with Progress("backup") as progress:
        backup(data_dir, arguments.file, arguments.compact, progress)
    size, name = arguments.file.stat().st_size, str(arguments.file)
    text = f"{printable(name)}: {bytes_text(size)}, synced ({progress.took})."
    print_answer(arguments, {"file": name, "bytes": size}, text)
    return 0


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, ArgumentWord("file", "FILE", "a backup made by `radiator backup`", read=Path), DATA_DIR)
    add_data(parser)
    add_json(parser, "as of `radiator check`")


def _run_restore(arguments: argparse.Namespace) -> int:
    from radiator.storage.backup import restore
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    os.stat(arguments.file)  # raises: what is not there is no damaged backup
    last_words(arguments.file)
    with Progress("restore") as progress:
        report = restore(arguments.file, data_dir, progress)
    return print_report(arguments, report, data_dir, progress.took)


BACKUP = Command(
    name="backup",
    summary="copy the data of a broker, running or not, into one file",
    description=(
        "Writes a consistent copy while the broker runs: synced, then renamed into place, so FILE is whole or "
        "not there. It is used through `radiator restore`, which gives it a new store id."
    ),
    example="radiator backup --compact /var/lib/radiator /backup/radiator.mdb",
    add_arguments=_backup_arguments,
    run=_run_backup,
)

RESTORE = Command(
    name="restore",
    summary="make a data directory from a backup",
    description=(
        "Makes a data directory, which must not exist yet, from a backup, with a new store id so that no message id is "
        "ever given twice. "
        "`radiator serve` refuses a bare backup: this is the way to use one. What is damaged in "
        "it is listed as `radiator check` does; then the exit status is 1, and the rest is restored."
    ),
    example="radiator restore /backup/radiator.mdb /var/lib/radiator",
    add_arguments=_restore_arguments,
    run=_run_restore,
)
