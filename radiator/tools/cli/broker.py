"""The broker that a command speaks to: `--broker` or `--config`, and what is asked of it over `/admin`."""

import argparse
import os
import shlex
import socket
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from radiator.client import DEFAULT_ADDRESS, Address, AddressError, Client
from radiator.model.addresses import EXCHANGE, EXISTING_PREFIX, LOG, QUEUE, declared_kinds
from radiator.model.errors import ConfigError, RadiatorError, Refusal
from radiator.model.settings import Address as ListenAt
from radiator.model.settings import Config, UnixAddress
from radiator.model.validation import queue_name
from radiator.protocols.schemes import SCHEMES
from radiator.tools.cli import contexts
from radiator.tools.cli.contexts import Context, chosen
from radiator.tools.cli.login import add_login
from radiator.tools.cli.things import Thing, config_for

ENVIRONMENT = "RADIATOR_BROKER"
ASK_TIMEOUT_S = 30.0
CHANGE_TIMEOUT_S = 3600.0  # purging millions takes a while; a dead broker is found by its heart-beats
NOT_THERE = frozenset({"no-such-destination", "no-subscriber"})


def add_broker(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where a command's broker is, and the login for it."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--broker",
        metavar="ADDRESS",
        type=_address,
        default=_usual,
        help="the running broker, as stomp://HOST:PORT, stomps://HOST:PORT or stomp+unix:PATH (default: "
        f"${ENVIRONMENT} if set, or else that of the context, or else {DEFAULT_ADDRESS})",
    )
    where.add_argument(
        "--context",
        metavar="NAME",
        dest="broker",
        type=lambda name: lambda: chosen(name),
        help=f"the broker that NAME means in ~/.config/radiator.toml, with its user (default: "
        f"${contexts.ENVIRONMENT} if set, or else the one that `radiator context use` has chosen)",
    )
    where.add_argument(
        "--config",
        metavar="FILE",
        dest="broker",
        type=config_for(_listening),
        help="its config.toml: a unix socket of it, if you may use one, or else where it listens first",
    )
    files = {
        "--ca": ("tls_ca_file", "the CAs in PEM that its certificate must come from; without it those of the system"),
        "--certificate": ("tls_certificate", "your own certificate in PEM, where the broker wants one"),
        "--key": ("tls_key", "its private key in PEM, if not in the same file"),
    }
    for option, (dest, text) in files.items():
        parser.add_argument(option, metavar="FILE", dest=dest, help=f"with stomps://: {text}")
    add_login(parser)


def _usual() -> Address | Context:
    """Returns the broker where none is given. Raises ConfigError."""
    if given := os.environ.get(ENVIRONMENT):
        return _address(given)
    return chosen() or Address.parse(DEFAULT_ADDRESS)


def _address(text: str) -> Address:
    is_argument = text != os.environ.get(ENVIRONMENT)
    try:
        address = Address.parse(text)
        if address.passcode and is_argument:
            ways = f"say --user NAME, and --password-file FILE or RADIATOR_PASSWORD; or set {ENVIRONMENT}"
            raise AddressError(f"{address} has a password in it, which others see among the processes: {ways}.")
        return address
    except AddressError as wrong:
        if not is_argument:
            raise ConfigError([f"${ENVIRONMENT}: {wrong}"]) from None
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _listening(config: Config) -> Address:
    """Returns where the broker is reached on this machine: the environment takes precedence over the configuration.

    Raises ConfigError, AddressError.
    """
    if given := os.environ.get(ENVIRONMENT):
        print(f"radiator: ${ENVIRONMENT} is {given}: --config does not say where the broker is.", file=sys.stderr)
        return _address(given)
    sockets = [one for one in config.listen if isinstance(one, UnixAddress)]
    # the operators' one even if the configuration has none: the broker that runs may be of an earlier one
    for one in (config.operators_socket, *sockets):
        if _can_connect(one.path):
            return Address.unix(str(one.path))
    by_tcp = [one for one in config.listen if isinstance(one, ListenAt)]
    first = min(by_tcp, key=lambda one: SCHEMES[one.scheme].is_encrypted, default=None)
    if first is None:
        raise ConfigError([f"None of the sockets at which the configuration listens can be used: {sockets[0]}."])
    if first.port == 0:
        raise ConfigError(
            [f"The configuration says {first}, which is any free port: say --broker {first.scheme}://..."]
        )
    loopback = "::1" if ":" in first.host else "127.0.0.1"
    host = loopback if first.is_wildcard else first.host
    return Address(host, first.port, is_tls=SCHEMES[first.scheme].is_encrypted)


def _can_connect(path: Path) -> bool:
    """Whether a process accepts connections there, and this user may connect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(path))
        except BlockingIOError:
            pass  # its backlog is full
        except OSError:
            return False
        return True


def broker_options(arguments: argparse.Namespace) -> list[str]:
    """Returns the `--broker`, or `--context`, that a command printed for later needs to find the same broker; none if
    it finds it without. A passcode is not repeated.
    """
    given, context = arguments.broker, arguments.context
    try:
        usual = _usual()
    except ConfigError:
        usual = None
    if context is not None:
        return [] if isinstance(usual, Context) and usual.name == context.name else ["--context", context.name]
    files = {"--ca": given.ca_file, "--certificate": given.certificate, "--key": given.key}
    options = [word for option, file in files.items() if file for word in (option, file)]
    return [] if given == usual else ["--broker", str(given), *options]


def ask(arguments: argparse.Namespace, request: dict[str, Any], timeout_s: float = ASK_TIMEOUT_S) -> dict[str, Any]:
    """Sends one request on a connection of its own. Raises Refusal where the broker refuses it."""
    with Client(arguments.broker) as client:
        make(client, arguments)
        return client.admin(request, timeout_s)


def make(client: Client, arguments: argparse.Namespace) -> None:
    """Makes the queues that the command needs, with `--create`. Raises Refusal."""
    for one in arguments.made if getattr(arguments, "create", False) else ():
        if one.kind == QUEUE:
            client.admin({"do": "declare", QUEUE: one.address})


def existing(destination: Thing) -> str:
    """Returns the destination's address; that of a queue in the form whose use creates none."""
    return EXISTING_PREFIX + destination.name if destination.kind == QUEUE else destination.address


def hint(arguments: argparse.Namespace, refused: Refusal) -> str:
    """Returns what may have been meant where something does not exist; "": nothing is close."""
    things: list[Thing] = getattr(arguments, "things", [])
    if refused.code not in NOT_THERE or not things:
        return ""
    try:
        with Client(arguments.broker) as client:
            missing = [one for one in dict.fromkeys(things) if one.kind in declared_kinds()]
            hints = [_hint(client, one, arguments, str(refused)) for one in missing]
    except (RadiatorError, OSError):
        return ""
    return " ".join(filter(None, hints))


def _hint(client: Client, missing: Thing, arguments: argparse.Namespace, sentence: str) -> str:
    """Returns the hint for one of the things of a command, beside the refusal's `sentence`. What another of them is
    cannot be meant, nor what the broker keeps for itself, nor what does not fit.
    """
    section = f"{missing.kind}s"
    there = field(client.admin({"do": "stats", "section": section}, ASK_TIMEOUT_S), section)
    name, slash, key = missing.name.partition("/") if missing.kind == EXCHANGE else (missing.name, "", "")
    if name in there:
        return ""
    if missing.kind == QUEUE and name in field(client.admin({"do": "stats", "section": "logs"}, ASK_TIMEOUT_S), "logs"):
        log = f"There is a /{LOG}/{name}."
        return "" if log in sentence else log
    others = {one.name for one in arguments.things}
    near = get_close_matches(name, [one for one in there if one not in others and not one.startswith("$")], n=1)
    fits: Callable[[Client, str], bool] = getattr(arguments, "fits", lambda client, name: True)
    hints = [f"Did you mean /{missing.kind}/{near[0]}{slash}{key}?"] if near and fits(client, near[0]) else []
    if missing.kind == QUEUE and missing in arguments.made:
        try:
            queue_name(name)
            hints.append(f"--create makes {missing.address}.")
        except ValueError:
            pass  # it would be refused
    if missing.kind in (LOG, EXCHANGE) and not hints and hasattr(arguments, "create"):
        hints.append(f"`radiator declare {missing.kind} {shlex.quote(name)}` makes it.")
    return " ".join(hints)


def field(answer: dict[str, Any], name: str) -> Any:
    """Returns a field that every answer of this kind has; Refusal where the broker is of a version without it."""
    try:
        return answer[name]
    except KeyError:
        raise Refusal("version", f"The broker's answer has no {name!r}: is it of another version than this?") from None


def whole_number(text: str) -> int:
    """Reads an argument that is a whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """Reads an argument that is a duration in seconds, 0 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value
