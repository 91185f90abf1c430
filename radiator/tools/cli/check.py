"""`radiator check`: verifies a data directory."""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, StoreError, count_text
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import DATA_DIR, add_data, data_of
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import add_words

if TYPE_CHECKING:
    from radiator.storage.check import Report


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, DATA_DIR)
    add_data(parser)
    add_json(parser, "what was found and what is held, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.storage.check import check
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    if data_dir.is_file():
        raise StoreError(
            f"{data_dir} is a file, and this checks a data directory. "
            "`radiator restore` makes one from a backup, and checks it."
        )
    last_words(data_dir)
    with Progress("check") as progress:
        report = check(data_dir, progress)
    return print_report(arguments, report, data_dir, progress.took)


def print_report(arguments: argparse.Namespace, report: "Report", data_dir: Path, took: str) -> int:
    """Prints the findings, one a line, or the whole report as JSON. Returns the exit status. took: how long,
    in words.
    """
    where = printable(str(data_dir))
    wrong = len(report.findings) + report.findings_left_out
    if arguments.json:
        found = {one.name: getattr(report, one.name) for one in fields(report) if one.name != "progress"}
        if report.forward is None:
            del found["forward"]
        print(json.dumps({"data_dir": str(data_dir), **found}))
    else:
        for finding in report.findings:
            print(printable(finding))
    if wrong:
        sys.stdout.flush()
        print(f"radiator: {count_text(wrong, 'thing')} wrong in {where} ({took}).", file=sys.stderr)
        return EXIT_REFUSED
    if arguments.json:
        return 0
    held = f"{count_text(report.queues, 'queue')} with {count_text(report.messages, 'message')}"
    held += f" ({report.delayed} delayed)" if report.delayed else ""
    held += f", {count_text(report.logs, 'log')} with {count_text(report.records, 'record')}" if report.logs else ""
    print(f"{where}: {held}, {bytes_text(report.message_bytes)}: every record and every ledger is right ({took}).")
    if report.exchanges_elsewhere:
        names = printable(", ".join(report.exchanges_elsewhere[:10]))
        print(f"Bound exchanges that only config.toml can declare, else their bindings go at the next start: {names}.")
    if not report.structure_checked:
        print("LMDB's own structure was not checked, because a broker was writing: stop it to have this checked too.")
    return 0


CHECK = Command(
    name="check",
    summary="verify every record and ledger of a data directory",
    description=(
        "Reads every record of a stopped or running broker's data and verifies its checksum, recounts every queue, "
        "and compares that with the ledgers. Changes nothing. What is wrong is listed, one finding a line, and the "
        "exit status is 1; it is 2 if there is no data directory to read, and 74 if the disk cannot be read."
    ),
    example="radiator check /var/lib/radiator",
    add_arguments=_arguments,
    run=_run,
    failed=EXIT_USAGE,
)
