"""`radiator token`: a secret for a machine, and what a configuration keeps of it."""

import argparse
import os
from datetime import UTC, date, datetime

from radiator.auth.tokens import TOKEN_BYTES, sha256_of, text_of
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until",
        metavar="DATE",
        type=_day,
        help="the day, such as 2027-01-31, at whose beginning (midnight UTC) the token ends; without it: never",
    )
    add_json(parser, "`token`, `sha256` and `until`, as JSON on one line")


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; write it as 2027-01-31") from None
    if day <= datetime.now(UTC).date():
        raise argparse.ArgumentTypeError(f"{text!r} has begun already; the token would let nobody in")
    return day


def _run(arguments: argparse.Namespace) -> int:
    token = text_of(os.urandom(TOKEN_BYTES))
    sha256, until = sha256_of(token.encode()), arguments.until
    ends = f", until = {until}" if until else ""
    answer = {"token": token, "sha256": sha256, "until": until and str(until)}
    print_answer(arguments, answer, f'{token}\ntokens = [{{ sha256 = "{sha256}"{ends} }}]')
    return 0


TOKEN = Command(
    name="token",
    summary="make a token for a machine, and what a configuration keeps of it",
    description=(
        "Prints a new token, once: 256 random bits, which a machine gives as its password. Below it is the line for "
        "[user.NAME] in config.toml or in the users_file, which has its SHA-256 alone."
    ),
    example="radiator token --until 2099-01-31",
    add_arguments=_arguments,
    run=_run,
)
