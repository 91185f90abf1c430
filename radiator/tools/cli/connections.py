"""`radiator connections` and `radiator disconnect`: who is connected, what each has, and the end of one."""

import argparse
from typing import Any

from radiator.model.limits import CONNECTION_SUBSCRIPTIONS
from radiator.tools.cli.broker import add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table
from radiator.tools.cli.things import ArgumentWord, add_words

_HEADS = ("number", "address", "user", "protocol", "client", "age", "subs", "unacked", "outbox", "memory", "waits for")
_LEAST = ("client", "memory", "outbox", "protocol")
_FACTS = ("address", "user", "recognised_by", "protocol", "tls", "client", "subscriptions", "unacked", "transactions")
_SUBSCRIPTION_HEADS = ("id", "destination", "ack", "consumer", "window", "unacked", "stands")


def number(text: str) -> int:
    """Reads the number of a connection. Raises ValueError."""
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError as wrong:
        raise ValueError(f"{wrong}: `radiator connections` has the numbers") from None


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(
        parser,
        ArgumentWord("number", "NUMBER", help="only this one, with its subscriptions", read=number, is_needed=False),
    )
    parser.add_argument("--of", metavar="USER", help="only those of this user")
    parser.add_argument("--after", metavar="NUMBER", type=whole_number, help="only those with a number above this one")
    parser.add_argument("--limit", metavar="N", type=whole_number, help="at most this many")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.number is not None:
        show(arguments, lambda: ask(arguments, {"do": "connection", "number": arguments.number}), _one)
        return 0
    given = {"user": arguments.of, "after": arguments.after, "limit": arguments.limit}
    request = {"do": "connections", **{key: value for key, value in given.items() if value is not None}}
    show(arguments, lambda: ask(arguments, request), _all)
    return 0


def _all(answer: dict[str, Any]) -> str:
    found = field(answer, "connections")
    shown = table(_HEADS, [_row(one) for one in found], least=_LEAST) if found else "No connection is there."
    count = int(field(answer, "count"))
    if len(found) == count:
        return shown
    return f"{shown}\n{len(found)} of {count}" + (f"; --after {found[-1]['number']} has those behind" if found else "")


def _row(one: dict[str, Any]) -> list[str | int]:
    return [
        int(field(one, "number")),
        str(one["address"]),
        str(one["user"]),
        _spoken(one),
        str(one["client"] or ""),
        duration_text(int(one["age_ms"]) / 1000),
        int(one["subscriptions"]),
        int(one["unacked"]),
        bytes_text(int(one["outbox_bytes"])),
        bytes_text(int(one["memory_bytes"])),
        str(one["blocked"] or ""),
    ]


def _spoken(one: dict[str, Any]) -> str:
    channel_of = one.get("channel_of")
    of = "" if channel_of is None else f" of {channel_of}"
    return str(one["protocol"]) + of + (f", {one['tls']}" if one["tls"] else "")


def _one(answer: dict[str, Any]) -> str:
    lines = [f"connection {field(answer, 'number')}"]
    lines += [f"  {name}: {printable(str(answer[name]))}" for name in _FACTS if answer[name] is not None]
    if answer.get("channel_of") is not None:
        lines.append(f"  channel of: connection {answer['channel_of']}")
    if answer.get("channel_list"):
        lines.append(f"  channels: {', '.join(str(one) for one in answer['channel_list'])}")
    lines.append(f"  age: {duration_text(int(answer['age_ms']) / 1000)}")
    lines += [f"  {name}: {bytes_text(int(answer[name + '_bytes']))}" for name in ("outbox", "memory")]
    if answer["blocked"]:
        lines.append(f"  {printable(str(answer['blocked']))}")
    found = field(answer, "subscription_list")
    if found:
        rows = [["" if one[head] is None else one[head] for head in _SUBSCRIPTION_HEADS] for one in found]
        lines += ["", table(_SUBSCRIPTION_HEADS, rows)]
    more = int(answer["subscriptions"]) - len(found)
    if more > 0 and len(found) == CONNECTION_SUBSCRIPTIONS:
        lines.append(f"and {more} more")
    return "\n".join(lines)


CONNECTIONS = Command(
    name="connections",
    summary="list who is connected, or show one connection",
    description=(
        "One line for each connection, of a client or of a linked node: its address, user, protocol and what it "
        "calls itself; how many subscriptions and unacked messages it has; what it was sent but has not read; and "
        "what its next command waits for. With NUMBER, the same of that one, with its subscriptions: `window` is "
        "how many messages each may have unacked, and `stands` what keeps it from the next one. A channel of AMQP "
        "is a connection, too: `AMQP 0-9-1 channel 1 of 17` is one of connection 17."
    ),
    example="radiator connections --of shop\nradiator connections 17",
    add_arguments=_arguments,
    run=_run,
)


def _disconnect_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser, ArgumentWord("number", "NUMBER", help="of the connection, from `radiator connections`", read=number)
    )


def _disconnect(arguments: argparse.Namespace) -> int:
    answer = ask(arguments, {"do": "disconnect", "number": arguments.number})
    of = printable(f"{field(answer, 'user')} at {field(answer, 'address')}")
    print_answer(arguments, answer, f"Connection {field(answer, 'number')} of {of} is told to end, and closed.")
    return 0


DISCONNECT = Command(
    name="disconnect",
    summary="close a connection",
    description=(
        "Closes one connection with an ERROR that says who asked for it, and its channels with it; a channel of "
        "AMQP is closed alone. Its unacked messages are redelivered, as when a connection is lost. Its client may "
        "connect again at once: to keep it out, change its user's table in config.toml, and reload. Links with "
        "other nodes are refused."
    ),
    example="radiator disconnect 17",
    add_arguments=_disconnect_arguments,
    run=_disconnect,
)
