"""`radiator archive`: logs and the journal as Parquet files."""

import argparse
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, count_text
from radiator.tools.cli.broker import seconds, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import add_data, data_of, without_pyarrow
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import name_of

if TYPE_CHECKING:
    from radiator.tools.archive.archiver import Archiver
    from radiator.tools.archive.verify import VerifyReport


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_json(parser, "what was archived, or verified, as JSON on one line")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--to", metavar="DIR", type=Path, help="the archive; created if it does not exist")
    what.add_argument("--verify", metavar="DIR", type=Path, help="check this archive instead of writing one")
    parser.add_argument(
        "--log", metavar="NAME", type=name_of("log"), action="append", help="only this log; may be given again"
    )
    parser.add_argument("--follow", action="store_true", help="go on, until interrupted")
    parser.add_argument(
        "--seal-rows", metavar="N", type=whole_number, default=1_000_000, help="rows of a file (default: 1000000)"
    )
    parser.add_argument(
        "--seal-s",
        metavar="S",
        type=seconds,
        default=300.0,
        help="with --follow: the longest time after which records are archived (default: 300)",
    )
    parser.add_argument(
        "--snapshot-s",
        metavar="S",
        type=seconds,
        default=3600.0,
        help=(
            "with --follow: how often a snapshot of what is stored is written too, for `radiator audit` (default: 3600)"
        ),
    )
    parser.add_argument("--group-readable", action="store_true", help="files may be read by the user's group too")


def _run(arguments: argparse.Namespace) -> int:
    try:
        from radiator.storage.lmdb.unreadable import last_words
        from radiator.tools.archive import archiver, source, verify
    except ModuleNotFoundError as missing:
        raise without_pyarrow(missing) from None
    if arguments.verify is not None:
        with Progress("archive --verify") as progress:
            report = verify.verify(arguments.verify, progress)
        return _verify(arguments, report, progress.took)
    data = data_of(arguments)
    last_words(data.directory)
    plan = archiver.ArchivePlan(
        directory=arguments.to,
        names=arguments.log,
        seal_rows=arguments.seal_rows,
        seal_s=arguments.seal_s,
        snapshot_s=arguments.snapshot_s,
        node=data.node,
    )
    mask = os.umask(0o027 if arguments.group_readable else 0o077)
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with archiver.locked(arguments.to), source.Source(data.directory) as opened, Progress("archive") as progress:

            def say(sentence: str) -> None:
                progress.clear()
                _say(sentence)

            return _copy(archiver.Archiver(opened, plan, say, progress), arguments, progress)
    finally:
        os.umask(mask)
        signal.signal(signal.SIGTERM, handler)


def _copy(copying: "Archiver", arguments: argparse.Namespace, progress: Progress) -> int:
    if arguments.follow:
        # a signal is the way to end it, at any moment
        with suppress(KeyboardInterrupt):
            copying.follow()
    else:
        copying.run()
    progress.clear()
    files = f"{count_text(copying.files, 'file')} of {bytes_text(copying.bytes)}"
    to = printable(str(arguments.to))
    answer = {
        "rows": copying.rows, "files": copying.files, "bytes": copying.bytes,
        "gaps": copying.gaps, "passed_over": len(copying.passed_over), "damaged": copying.damaged,
    }  # fmt: skip
    print_answer(arguments, answer, f"{count_text(copying.rows, 'row')} archived in {to}: {files} ({progress.took}).")
    return EXIT_REFUSED if copying.gaps or copying.passed_over or copying.damaged else 0


def _say(sentence: str) -> None:
    print(f"radiator: {printable(sentence)}", file=sys.stderr, flush=True)


def _verify(arguments: argparse.Namespace, report: "VerifyReport", took: str) -> int:
    held = f"{count_text(report.files, 'file')} with {count_text(report.rows, 'row')}, {bytes_text(report.bytes)}"
    lines = [*map(printable, report.findings), *(f"known: {printable(note)}" for note in report.notes)]
    if not report.findings:
        lines.append(f"{held}: every row is what was written ({took}).")
    print_answer(arguments, asdict(report), "\n".join(lines))
    if report.findings:
        sys.stdout.flush()
        _say(f"{count_text(len(report.findings), 'thing')} wrong in an archive of {count_text(report.files, 'file')}.")
        return EXIT_REFUSED
    return 0


ARCHIVE = Command(
    name="archive",
    summary="copy logs and the journal to Parquet files",
    description=(
        "Copies the logs of a store, the journal too, into a directory of Parquet files (zstd, by log and date), "
        "which Spark and others read without the broker. It reads the data directory beside a running broker, or "
        "alone, and may be killed at any moment: the next run goes on where the last one ended. Records that "
        "retention removed before they were archived are reported, and noted in the archive; a file of the archive "
        "that is missing or has another size is reported at each run. In these cases the exit status is 1; it is 2 "
        "if nothing could be archived. --verify reads a whole archive: then 1 means that something is wrong in it, "
        "and 2 that there is no archive."
    ),
    example=(
        "radiator archive --config config.toml --to /archive --follow\n"
        "radiator archive --config config.toml --to /archive --log orders --log journal\n"
        "radiator archive --verify /archive"
    ),
    add_arguments=_arguments,
    run=_run,
    failed=EXIT_USAGE,
)
