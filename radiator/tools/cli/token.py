"""`radiator token`: a secret for a machine, and what a configuration keeps in its place."""

import argparse
import os
import sys
from datetime import UTC, date, datetime, time
from pathlib import Path

from radiator.auth.tokens import TOKEN_BYTES, sha256_of, text_of
from radiator.model.errors import RadiatorError
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until",
        metavar="WHEN",
        type=_until,
        help="when the token ends: a day, such as 2027-01-31, at whose beginning (midnight UTC) it ends, or a time "
        "with its zone, such as 2027-01-31T12:00:00Z; without it: never",
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=Path,
        help="write the token there, for its owner alone, and nowhere else; nothing may have that name yet",
    )
    add_json(parser, "`token` (or `file`), `sha256` and `until`, as JSON on one line")


def _until(text: str) -> str:
    """Returns the time in the form of TOML."""
    try:
        day: date | None = date.fromisoformat(text)
        moment = datetime.combine(date.fromisoformat(text), time(tzinfo=UTC))
    except ValueError:
        day, moment = None, _moment(text)
    if moment <= datetime.now(UTC):
        past = "has begun already" if day else "has ended already"
        raise argparse.ArgumentTypeError(f"{text!r} {past}; the token would let nobody in")
    return str(day or moment.isoformat())


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment
    except ValueError:
        pass
    right = "write a day as 2027-01-31, or a time with its zone as 2027-01-31T12:00:00Z"
    raise argparse.ArgumentTypeError(f"{text!r} is neither a day nor a time with its zone; {right}")


def _run(arguments: argparse.Namespace) -> int:
    token = text_of(os.urandom(TOKEN_BYTES))
    sha256, until = sha256_of(token.encode()), arguments.until
    ends = f", until = {until}" if until else ""
    answer = {"sha256": sha256, "until": until}
    if arguments.file is not None:
        _write(arguments.file, token)
        answer["file"] = str(arguments.file)
    elif arguments.json:
        answer["token"] = token
    else:
        print(f"The token, shown this once: {token}", file=sys.stderr, flush=True)
    print_answer(arguments, answer, f'tokens = [{{ sha256 = "{sha256}"{ends} }}]')
    return 0


def _write(path: Path, token: str) -> None:
    """Writes the token into a new file. RadiatorError: something has that name."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise RadiatorError(f"{path} is there, and stays: name another file, or remove it.") from None
    with os.fdopen(number, "w", encoding="ascii") as file:
        print(token, file=file)


TOKEN = Command(
    name="token",
    summary="make a token for a machine, and the line that a configuration keeps",
    description=(
        "Makes a token: 256 random bits, which a machine gives as its password. It is written into --file, or shown "
        "once on standard error; standard output has one line for [user.NAME] in config.toml or in the users_file, "
        "with only its SHA-256."
    ),
    example="radiator token --until 2099-01-31 --file shop.token",
    add_arguments=_arguments,
    run=_run,
)
