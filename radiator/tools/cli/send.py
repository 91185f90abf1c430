"""`radiator send`: one message, sent and confirmed."""

import argparse
import os
import sys
from pathlib import Path

from radiator.client import Client
from radiator.model.addresses import QUEUE
from radiator.model.errors import ConfigError
from radiator.tools.cli.broker import add_broker, existing, make
from radiator.tools.cli.command import Command
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import DESTINATIONS, ArgumentWord, add_words

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
        ArgumentWord("destination", "DESTINATION", kinds=DESTINATIONS, is_made=True),
        ArgumentWord("body", "BODY", "as it is here; - or nothing: standard input", is_needed=False),
    )
    parser.add_argument("--file", metavar="FILE", type=Path, help="the body is the content of this file")
    parser.add_argument(
        "--header", metavar="NAME:VALUE", type=_header, action="append", default=[], help="a header; may be repeated"
    )


def _run(arguments: argparse.Namespace) -> int:
    body = _body(arguments.body, arguments.file)
    must_be_there = [("mandatory", "true")] if arguments.destination.kind == QUEUE else []
    with Client(arguments.broker) as client:
        make(client, arguments)
        client.send(existing(arguments.destination), body, [*must_be_there, *arguments.header])
    return 0


def _body(text: str | None, file: Path | None) -> bytes:
    if file is not None:
        if text is not None:
            raise ConfigError([f"The body is {printable(text)!r}, or the content of --file: not both."])
        return file.read_bytes()
    if text is None or text == "-":
        if sys.stdin.isatty():
            print("The body is what you type now; Ctrl-D at the beginning of a line ends it.", file=sys.stderr)
        return sys.stdin.buffer.read()
    if os.path.isfile(text):
        print(f"The text {printable(text)!r} is sent, not the file of that name: --file sends it.", file=sys.stderr)
    return os.fsencode(text)


SEND = Command(
    name="send",
    summary="send one message and wait until it is confirmed",
    description=(
        "Sends a text, the content of a file, or standard input as one message. It returns once the broker has "
        "confirmed the message: for a persistent queue, this means that it is synced to the disk."
    ),
    example=(
        "radiator send /queue/orders hello\n"
        "radiator send /queue/orders --file order.json --header content-type:application/json --header expiration:60000"
    ),
    add_arguments=_arguments,
    run=_run,
)
