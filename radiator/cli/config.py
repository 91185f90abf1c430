"""`radiator config`: checks a configuration file and prints what is in force."""

import argparse
from pathlib import Path

from radiator import config
from radiator.cli.command import Command


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="config.toml; without it: the defaults")


def _run(arguments: argparse.Namespace) -> int:
    print(config.render(config.load(arguments.file)), end="")
    return 0


CONFIG = Command(
    name="config",
    summary="check a configuration file and print what is in force",
    description=(
        "Checks the file and prints everything that is in force, defaults included, as TOML that can be used "
        "as a file. If something is wrong, every mistake is listed on stderr, and the exit status is 2."
    ),
    example="radiator config /etc/radiator/config.toml",
    add_arguments=_arguments,
    run=_run,
)
