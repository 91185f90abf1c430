"""`radiator why`: why nothing moves."""

import argparse
import json
from typing import Any

from radiator.cli.broker import add_broker, ask, field, name_of
from radiator.cli.command import Command
from radiator.cli.text import bytes_text, printable, table

_NUMBERS = (
    "messages", "ready", "in_flight", "storing", "delayed", "in_doubt", "checked_out", "damaged", "consumers",
    "blocked", "records", "readers", "groups", "blocked_by_disk", "blocked_by_memory",
)  # fmt: skip


def _what(text: str) -> tuple[str, str]:
    kind = "log" if text.startswith("/log/") else "queue"
    return kind, name_of(kind)(text)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument("what", metavar="QUEUE", type=_what, help="name of the queue, or /log/NAME")
    parser.add_argument("--json", action="store_true", help="the broker's whole answer, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    kind, name = arguments.what
    answer = ask(arguments, {"do": "why", kind: name})
    print(json.dumps(answer) if arguments.json else _formed(answer))
    return 0


def _formed(answer: dict[str, Any]) -> str:
    numbers = [f"{answer[name]} {name.replace('_', ' ')}" for name in _NUMBERS if answer.get(name)]
    lines = [f"{field(answer, 'verdict')}: {printable(str(field(answer, 'sentence')))}", ", ".join(numbers)]
    unread = answer.get("unread", {})
    if unread:
        lines.append("behind: " + ", ".join(f"{printable(name)} {count}" for name, count in sorted(unread.items())))
    consumers = answer.get("consumer_list", [])
    if consumers:
        lines += ["", table(("connection", "subscription", "stands", "unacked", "window", "outbox"), _rows(consumers))]
    return "\n".join(lines).rstrip("\n")


def _rows(consumers: list[dict[str, Any]]) -> list[list[str | int]]:
    return [
        [
            int(one["connection"]),
            str(one["subscription"]),
            str(one["stands"]),
            int(one["unacked"]),
            "none" if one["window"] is None else str(one["window"]),
            bytes_text(int(one["outbox_bytes"])),
        ]
        for one in consumers
    ]


WHY = Command(
    name="why",
    summary="say why nothing moves in a queue or a log",
    description=(
        "Says in one word and one sentence why messages of a queue are not delivered: nobody is subscribed, all "
        "consumers are at their window (who), they do not read, messages are delayed, in doubt with another node, "
        "checked out, being loaded; or that the queue is empty, or that the disk is nearly full. Then the numbers, and "
        "where each of the first 20 consumers stands. Of a log: its readers, and how far its groups are behind."
    ),
    example="radiator why orders\nradiator why /log/clicks",
    add_arguments=_arguments,
    run=_run,
)
