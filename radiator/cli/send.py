"""`radiator send`: one message, sent and confirmed."""

import argparse
import sys
from pathlib import Path

from radiator.addresses import QUEUE
from radiator.cli.broker import add_broker, existing, make
from radiator.cli.command import Command
from radiator.cli.things import DESTINATIONS, Word, add_words
from radiator.client import Client

_OWN_HEADERS = frozenset({"destination", "content-length", "receipt", "transaction"})


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:VALUE")
    if name in _OWN_HEADERS:
        raise argparse.ArgumentTypeError(f"{name!r} is not yours to give: this command writes it itself, or cannot")
    return name, value


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_words(
        parser,
        Word("destination", "DESTINATION", kinds=DESTINATIONS, is_made=True),
        Word("file", "FILE", "the body; - or nothing: standard input", is_needed=False),
    )
    parser.add_argument(
        "--header", metavar="NAME:VALUE", type=_header, action="append", default=[], help="a header; may be repeated"
    )


def _run(arguments: argparse.Namespace) -> int:
    body = sys.stdin.buffer.read() if arguments.file in (None, "-") else Path(arguments.file).read_bytes()
    must_be_there = [("mandatory", "true")] if arguments.destination.kind == QUEUE else []
    with Client(arguments.broker) as client:
        make(client, arguments)
        client.send(existing(arguments.destination), body, [*must_be_there, *arguments.header])
    return 0


SEND = Command(
    name="send",
    summary="send one message and wait until it is confirmed",
    description=(
        "Sends the content of a file, or of standard input, as one message. Returns once the broker has "
        "confirmed it: for a persistent queue that means that it is synced to the disk."
    ),
    example="echo hello | radiator send /queue/orders --header content-type:text/plain --header expiration:60000",
    add_arguments=_arguments,
    run=_run,
)
