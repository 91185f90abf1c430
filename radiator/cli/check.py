"""`radiator check`: verifies a data directory."""

import argparse
import sys
from pathlib import Path

from radiator.cli.command import Command
from radiator.cli.text import count_text, printable
from radiator.errors import EXIT_REFUSED


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data_dir", metavar="DATA_DIR", type=Path, help="the broker's data directory")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.store.check import check

    report = check(arguments.data_dir)
    for finding in report.findings:
        print(printable(finding))
    where = printable(str(arguments.data_dir))
    if report.findings:
        print(f"radiator: {count_text(len(report.findings), 'thing')} wrong in {where}.", file=sys.stderr)
        return EXIT_REFUSED
    print(f"{where}: every record and every ledger is right.")
    return 0


CHECK = Command(
    name="check",
    summary="verify every record and ledger of a data directory",
    description=(
        "Reads every record of a stopped or running broker's data and verifies its checksum, recounts every queue, and\n"
        "compares that with the ledgers. Changes nothing. What is wrong is listed, one a line; then the exit status is 1."
    ),
    example="radiator check /var/lib/radiator",
    add_arguments=_arguments,
    run=_run,
)
