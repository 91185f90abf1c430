"""The user of a command: `--user`, and the password from a terminal, a file or the environment."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from radiator.client.password_file import checked, from_file
from radiator.model.errors import ConfigError
from radiator.tools.cli.secret_input import asked
from radiator.tools.cli.text import printable

PASSWORD_ENVIRONMENT = "RADIATOR_PASSWORD"


def add_login(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command."""
    parser.add_argument("--user", metavar="NAME", help="log in as this user of the broker")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help=f"its first line is the user's password, or token (default: ${PASSWORD_ENVIRONMENT} if set, or else the "
        "terminal is asked)",
    )


def log_in(arguments: argparse.Namespace) -> None:
    """Puts the login into the broker's address. Raises ConfigError."""
    if not hasattr(arguments, "password_file"):
        return
    name = arguments.user if arguments.user is not None else arguments.broker.login
    if not name:
        if arguments.password_file is not None or arguments.user is not None:
            raise ConfigError(["--password-file needs the name of a user: say --user NAME."])
        return
    if arguments.broker.passcode and arguments.user is None and arguments.password_file is None:
        return  # the environment has the whole address
    context = arguments.context
    usual = context.password_file if context is not None and name == context.broker.login else None
    password = _password(name, arguments.password_file, usual)
    arguments.broker = replace(arguments.broker, login=name, passcode=password)


def _password(name: str, file: Path | None, usual: Path | None) -> str:
    """file: of an argument, which comes before the environment; usual: of the context, which comes after it."""
    if file is not None:
        return from_file(file)
    if given := os.environ.get(PASSWORD_ENVIRONMENT):
        return checked(given, f"The password in ${PASSWORD_ENVIRONMENT}")
    if usual is not None:
        return from_file(usual)
    if sys.stdin.isatty():
        return asked(f"Password of {printable(name)}: ")
    ways = f"say --password-file FILE, set {PASSWORD_ENVIRONMENT}, or run the command at a terminal"
    raise ConfigError([f"There is no password for the user {printable(name)}: {ways}."])
