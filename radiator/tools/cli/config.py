"""`radiator config`: checks a configuration file and prints what is in force."""

import argparse
import sys
import time
import tomllib
from pathlib import Path

from radiator.tools import config
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, ArgumentWord("config", "FILE", "as --config has it", read=Path, is_needed=False))
    parser.add_argument("--config", metavar="FILE", type=Path, help="config.toml; without it: the defaults")
    add_json(parser, "the same as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    found = config.load(arguments.config)
    sentences = found.useless
    if found.tls is not None or found.jwt is not None:
        # as a start does; other commands must not need them
        from radiator.server.credentials import load_credentials, warnings

        sentences = sentences + warnings(load_credentials(found), time.time())
    text = config.render(found)
    print_answer(arguments, tomllib.loads(text), text.rstrip("\n"))
    for sentence in sentences:
        print(f"warning: {printable(sentence)}", file=sys.stderr)
    return 0


CONFIG = Command(
    name="config",
    summary="check a configuration file and print what is in force",
    description=(
        "Checks the file and prints everything that is in force, defaults included, as TOML that can be used "
        "as a file. If something is wrong, every mistake is listed on stderr, and the exit status is 2. Settings "
        "without effect are listed too, as warnings, and a certificate that has expired or ends soon."
    ),
    example="radiator config /etc/radiator/config.toml",
    add_arguments=_arguments,
    run=_run,
)
