"""`radiator send`: one message, sent and confirmed."""

import argparse
import sys
from pathlib import Path

from radiator.cli.broker import add_broker
from radiator.cli.command import Command
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
    parser.add_argument("destination", metavar="DESTINATION", help="such as /queue/orders, /topic/news, or orders")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the body; - or nothing: standard input")
    parser.add_argument(
        "--header", metavar="NAME:VALUE", type=_header, action="append", default=[], help="a header; may be repeated"
    )


def _run(arguments: argparse.Namespace) -> int:
    body = sys.stdin.buffer.read() if arguments.file == "-" else Path(arguments.file).read_bytes()
    with Client(arguments.broker) as client:
        client.send(arguments.destination, body, arguments.header)
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
