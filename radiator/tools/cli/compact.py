"""`radiator compact`: gives the free pages of a stopped broker's data file back to the disk."""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import DATA_DIR, add_data, data_of
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, DATA_DIR)
    add_data(parser)
    parser.add_argument(
        "--stop-service",
        metavar="UNIT",
        help="as root: stop this unit of systemd meanwhile, and start it again, even if compacting fails",
    )
    add_json(parser, "sizes before and after, rows and seconds, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.storage.compact import compact
    from radiator.storage.lmdb.unreadable import last_words

    data_dir = data_of(arguments).directory
    last_words(data_dir)
    if arguments.stop_service is not None:
        return _while_stopped(data_dir, arguments.stop_service, ["--json"] if arguments.json else [])
    began_s = time.monotonic()
    with Progress("compact") as progress:
        done = compact(data_dir, progress)
    took_s = round(time.monotonic() - began_s, 1)
    text = (
        f"{printable(str(data_dir))}: {bytes_text(done.before_bytes)} became {bytes_text(done.after_bytes)} "
        f"in {took_s} s; all {done.rows} rows are the same."
    )
    if done.removed_bytes is not None:
        text += f"\nBefore that, what a killed compact had left was removed: {bytes_text(done.removed_bytes)}."
    print_answer(arguments, {"data_dir": str(data_dir), **asdict(done), "seconds": took_s}, text)
    return 0


def _while_stopped(data_dir: Path, unit: str, options: list[str]) -> int:
    """Runs the same command without that option, as the user that the data belong to. Returns its exit status."""
    from radiator.storage.compact import needed_bytes

    needed_bytes(data_dir)  # refused before the unit is stopped
    owner = data_dir.stat()
    as_owner = {} if owner.st_uid == os.geteuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
    if subprocess.run(["systemctl", "is-active", "--quiet", unit], check=False).returncode != 0:
        raise RadiatorError(f"{unit} does not run: say it without --stop-service.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the unit is started again then, too
    try:
        _systemctl("stop", unit)
        command = [sys.executable, "-m", "radiator", "compact", *options, str(data_dir.absolute())]
        with subprocess.Popen(command, cwd="/", **as_owner) as child:  # type: ignore[call-overload]
            status: int = child.wait()
        return status
    finally:
        _systemctl("start", unit)


def _systemctl(verb: str, unit: str) -> None:
    if subprocess.run(["systemctl", verb, unit], check=False).returncode != 0:
        raise RadiatorError(f"`systemctl {verb} {unit}` failed.")


COMPACT = Command(
    name="compact",
    summary="make the data file of a stopped broker as small as it can be",
    description=(
        "Rewrites the data file without its free pages, compares every row, and replaces the old one. No broker may "
        "run on it meanwhile: --stop-service stops it. The new file must fit next to the old one. If killed at any "
        "moment, it leaves the old file or the new one, complete."
    ),
    example="radiator compact --stop-service radiator /var/lib/radiator",
    add_arguments=_arguments,
    run=_run,
)
