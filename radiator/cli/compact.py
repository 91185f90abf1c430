"""`radiator compact`: gives the free pages of a stopped broker's data file back to the disk."""

import argparse
import time
from dataclasses import asdict

from radiator.cli.command import Command
from radiator.cli.data import DATA_DIR, add_data, data_of
from radiator.cli.progress import Progress
from radiator.cli.shown import add_json, tell
from radiator.cli.text import bytes_text, printable
from radiator.cli.things import add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, DATA_DIR)
    add_data(parser)
    add_json(parser, "sizes before and after, rows and seconds, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.store.compact import compact
    from radiator.store.unreadable import last_words

    data_dir = data_of(arguments).directory
    last_words(data_dir)
    began_s = time.monotonic()
    with Progress("compact") as progress:
        done = compact(data_dir, progress)
    took_s = round(time.monotonic() - began_s, 1)
    said = (
        f"{printable(str(data_dir))}: {bytes_text(done.before_bytes)} became {bytes_text(done.after_bytes)} "
        f"in {took_s} s; all {done.rows} rows are the same."
    )
    if done.removed_bytes is not None:
        said += f"\nBefore that, what a killed compact had left was removed: {bytes_text(done.removed_bytes)}."
    tell(arguments, {"data_dir": str(data_dir), **asdict(done), "seconds": took_s}, said)
    return 0


COMPACT = Command(
    name="compact",
    summary="make the data file of a stopped broker as small as it can be",
    description=(
        "Writes the data file anew without its free pages, compares every row, and puts it in the place of the old "
        "one. No broker may run on it, and the new file must fit beside the old one. Killed at any moment, it leaves "
        "the old file or the new one, whole."
    ),
    example="radiator compact /var/lib/radiator",
    add_arguments=_arguments,
    run=_run,
)
