"""`radiator position`: where a group goes on in a log; with --to from somewhere else, with --forget as a new one."""

import argparse
import shlex
from typing import Any

from radiator.client import Client
from radiator.model.addresses import LOG
from radiator.model.errors import Refusal, count_text
from radiator.tools.cli.broker import add_broker, broker_options, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import printable, table
from radiator.tools.cli.things import ArgumentWord, add_words

EARLIEST, LATEST, TIME, OFFSET = "earliest", "latest", "time", "offset"
DIGITS_MAX = 20  # of an offset, and of a time
Place = tuple[str, list[int]]


def _place(text: str) -> Place:
    kind, colon, value = text.partition(":")
    if text in (EARLIEST, LATEST):
        return text, []
    numbers = value.split(",")
    is_right = kind == OFFSET or (kind == TIME and len(numbers) == 1)
    if is_right and all(one.isascii() and one.isdigit() and len(one) <= DIGITS_MAX for one in numbers):
        return kind, [int(one) for one in numbers]
    raise argparse.ArgumentTypeError(
        f"{text!r} must be one of earliest, latest, time:MS and offset:N, with N,N for two partitions, and so on"
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_words(parser, ArgumentWord("log", "LOG", kinds=(LOG,)), ArgumentWord("group", "GROUP", "name of the group"))
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--to",
        metavar="PLACE",
        type=_place,
        help="earliest, latest, time:MS (the first record accepted then or later), or offset:N for each partition, "
        "with commas between",
    )
    change.add_argument("--forget", action="store_true", help="the group has no position from now on")
    add_watch(change)
    add_json(parser, "`was`, `offsets`, `first` and `next`, each a list by partition, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    show(arguments, lambda: _look(arguments), lambda seen: _formed(arguments, seen))
    return 0


def _look(arguments: argparse.Namespace) -> dict[str, Any]:
    log, group = arguments.log, arguments.group
    asked = {"do": "position", "log": log.address, "group": group}
    with Client(arguments.broker) as client:
        described = client.admin({"do": "describe", "log": log.address})
        was = at = field(client.admin(asked), "offsets")
        if was is None and arguments.to is None:
            raise Refusal("no-such-group", _no_position(arguments, described))
        if arguments.forget:
            at = field(client.admin({**asked, "forget": True}), "offsets")
        elif arguments.to is not None:
            offsets = _offsets(client, arguments, described)
            at = field(client.admin({**asked, "offsets": offsets}), "offsets")
    partitions = field(described, "partitions")
    return {"was": was, "offsets": at, "first": partitions["first"], "next": partitions["next"]}


def _formed(arguments: argparse.Namespace, seen: dict[str, Any]) -> str:
    was, at, lines = seen["was"], seen["offsets"], []
    if at is not None:
        lines.append(table(("partition", "first", "position", "next", "behind"), _rows(seen, at)))
    if arguments.forget or arguments.to is not None:
        lines.append(_changed(arguments, was, at))
    return "\n".join(lines)


def _offsets(client: Client, arguments: argparse.Namespace, described: dict[str, Any]) -> list[int]:
    """Returns an offset for each partition."""
    kind, numbers = arguments.to
    partitions = field(described, "partitions")
    if kind == TIME:
        found: list[int] = field(
            client.admin({"do": "offsets", "log": arguments.log.address, "time_ms": numbers[0]}), "offsets"
        )
        return found
    if kind == OFFSET:
        count = len(partitions["next"])
        if len(numbers) != count:
            raise Refusal(
                "bad-request",
                f"{arguments.log.address} has {count_text(count, 'partition')}, and --to offset:... names "
                f"{count_text(len(numbers), 'offset')}: it takes one for each, in their order.",
            )
        return list(numbers)
    return list(partitions["first" if kind == EARLIEST else "next"])


def _no_position(arguments: argparse.Namespace, described: dict[str, Any]) -> str:
    groups = ", ".join(repr(str(one)) for one in field(described, "groups")) or "none"
    return f"The group {arguments.group!r} has no position in {arguments.log.address}; groups that have one: {groups}."


def _rows(partitions: dict[str, Any], at: list[int]) -> list[list[str | int]]:
    # what retention has taken is not read any more; what is acked since may be beyond what was described
    return [
        [number, first, position, following, max(0, following - max(first, position))]
        for number, (first, position, following) in enumerate(
            zip(partitions["first"], at, partitions["next"], strict=True)
        )
    ]


def _changed(arguments: argparse.Namespace, was: list[int] | None, at: list[int] | None) -> str:
    """Returns what it was before, and how it is taken back."""
    text = f"Group {printable(arguments.group)} of {printable(arguments.log.name)}"
    text += " is forgotten" if at is None else f" goes on at {_listed(at)}"
    back = ["--forget"] if was is None else ["--to", f"offset:{_listed(was)}"]
    line = shlex.join(["radiator", "position", arguments.log.name, arguments.group, *back, *broker_options(arguments)])
    before = "it had no position before" if was is None else f"it was at {_listed(was)}"
    return f"{text}; {before}. Taken back with: {printable(line)}"


def _listed(offsets: list[int]) -> str:
    return ",".join(map(str, offsets))


POSITION = Command(
    name="position",
    summary="show where a group goes on in a log, or set it",
    description=(
        "Shows for each partition of a log the first offset that the group has not acked, and how many records it "
        "is behind. With --to the group goes on there: from the beginning again, from now on, from a time "
        "(milliseconds since 1970), or from given offsets; a group that does not exist is created. --forget removes "
        "the group: its next SUBSCRIBE says where it begins. Both say what the position was before, and how to undo "
        "the change; both are refused while the group has subscriptions."
    ),
    example=(
        "radiator position clicks billing\n"
        "radiator position clicks billing --to earliest\n"
        "radiator position clicks billing --to time:1794916800000\n"
        "radiator position clicks billing --to offset:120,0,77\n"
        "radiator position clicks billing --forget"
    ),
    add_arguments=_arguments,
    run=_run,
)
