"""`radiator password`: what a configuration keeps in place of a password."""

import argparse
import os
import sys

from radiator.auth.scrypt import SALT_BYTES, made
from radiator.model.errors import ConfigError
from radiator.tools.cli.command import Command
from radiator.tools.cli.secret_input import asked, from_stdin, no_token
from radiator.tools.cli.shown import add_json, print_answer


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "`password`, the PHC text, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    password = no_token(_asked_twice() if sys.stdin.isatty() else from_stdin())
    text = str(made(password.encode(), os.urandom(SALT_BYTES)))
    print_answer(arguments, {"password": text}, f'password = "{text}"')
    return 0


def _asked_twice() -> str:
    password = asked("Password: ")
    if asked("The password again: ") != password:
        raise ConfigError(["The two passwords differ: nothing was printed. Run it again."])
    return password


PASSWORD = Command(
    name="password",
    summary="turn a password into the line that a configuration keeps",
    description=(
        "Asks for a password, twice at a terminal, or reads the first line of standard input. Prints one line for "
        "[user.NAME] in config.toml or in the users_file, with its scrypt hash as a PHC text. The password itself "
        "is not kept."
    ),
    example="radiator password",
    add_arguments=_arguments,
    run=_run,
)
