"""`radiator config`: checks a configuration file and prints what is in force."""

import argparse
import sys
from pathlib import Path

from radiator import config
from radiator.cli.command import Command


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="config.toml; without it: the defaults")


def _run(arguments: argparse.Namespace) -> int:
    found = config.load(arguments.file)
    print(config.render(found), end="")
    for sentence in found.useless:
        print(f"warning: {sentence}", file=sys.stderr)
    return 0


CONFIG = Command(
    name="config",
    summary="check a configuration file and print what is in force",
    description=(
        "Checks the file and prints everything that is in force, defaults included, as TOML that can be used "
        "as a file. If something is wrong, every mistake is listed on stderr, and the exit status is 2. What has no "
        "effect beside other settings is listed there too, as a warning."
    ),
    example="radiator config /etc/radiator/config.toml",
    add_arguments=_arguments,
    run=_run,
)
