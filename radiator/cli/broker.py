"""The broker that a command speaks to: `--broker`, and what is asked of it over `/admin`."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from radiator.addresses import name_in
from radiator.client import DEFAULT_ADDRESS, Address, AddressError, Client
from radiator.errors import Refusal

ENVIRONMENT = "RADIATOR_BROKER"
ASK_TIMEOUT_S = 30.0
CHANGE_TIMEOUT_S = 3600.0  # purging millions takes a while; a dead broker is found by its heart-beats
KINDS = ("queue", "exchange", "fanout", "log")  # what can be declared


def add_broker(parser: argparse.ArgumentParser) -> None:
    """The `--broker` of a command."""
    parser.add_argument(
        "--broker",
        metavar="stomp://HOST:PORT",
        type=_address,
        default=os.environ.get(ENVIRONMENT) or DEFAULT_ADDRESS,
        help=f"the running broker (default: ${ENVIRONMENT} if set, or else {DEFAULT_ADDRESS})",
    )


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except AddressError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def broker_told(arguments: argparse.Namespace) -> list[str]:
    """The `--broker` that a command which is printed for later needs to find the same one; none where it would
    anyway. A passcode is not repeated.
    """
    given = arguments.broker
    try:
        usual = Address.parse(os.environ.get(ENVIRONMENT) or DEFAULT_ADDRESS)
    except AddressError:
        usual = None
    return [] if given == usual else ["--broker", str(given)]


def name_of(kind: str) -> Callable[[str], str]:
    """The type of an argument: the name of one of that kind; `/KIND/NAME` is taken as NAME."""

    def name(text: str) -> str:
        try:
            return name_in(kind, text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(f"{text!r} is no {kind}; write NAME or /{kind}/NAME") from wrong

    return name


def target(text: str) -> str:
    """The type of an argument: what a fanout or a binding may lead to, a queue or `/log/NAME`."""
    return text if text.startswith("/log/") else name_of("queue")(text)


def add_queue(parser: argparse.ArgumentParser, name: str = "queue", metavar: str = "QUEUE") -> None:
    """The name of a queue."""
    parser.add_argument(name, metavar=metavar, type=name_of("queue"), help="name of the queue")


def ask(arguments: argparse.Namespace, request: dict[str, Any], timeout_s: float = ASK_TIMEOUT_S) -> dict[str, Any]:
    """One request on a connection of its own. Raises Refusal where the broker says no."""
    with Client(arguments.broker) as client:
        return client.admin(request, timeout_s)


def field(answer: dict[str, Any], name: str) -> Any:
    """A field that every answer of this kind has; Refusal where the broker is of a version without it."""
    try:
        return answer[name]
    except KeyError:
        raise Refusal("version", f"The broker's answer has no {name!r}: is it of another version than this?") from None


def whole_number(text: str) -> int:
    """An argument that is a whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """An argument that is a duration in seconds, 0 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value
