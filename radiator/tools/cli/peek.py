"""`radiator peek`: shows messages of a queue and changes nothing."""

import argparse
import base64
from datetime import datetime
from typing import Any

from radiator.model.addresses import QUEUE
from radiator.model.errors import count_text
from radiator.model.limits import PEEK_MESSAGES_MAX
from radiator.tools.cli.broker import add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)))
    parser.add_argument(
        "--count", metavar="N", type=whole_number, default=10, help=f"default 10, at most {PEEK_MESSAGES_MAX}"
    )


def _run(arguments: argparse.Namespace) -> int:
    queue = arguments.queue

    def formed(answer: dict[str, Any]) -> str:
        messages = field(answer, "messages")
        return "\n\n".join(_shown(message) for message in messages) or f"{printable(queue.name)} holds no message."

    show(arguments, lambda: ask(arguments, {"do": "peek", "queue": queue.address, "count": arguments.count}), formed)
    return 0


def _shown(message: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(int(message["timestamp"]) / 1000).astimezone().isoformat(" ", "milliseconds")
    facts = [str(message["message_id"]), at, bytes_text(int(message["size"])), str(message["state"])]
    if message.get("redelivered"):
        count = int(message.get("redelivery_count", 0))
        # not counted: out when the broker stopped, or perhaps out when it was killed
        facts.append(f"redelivered {count_text(count, 'time')}" if count else "may have been delivered before")
    lines = [", ".join(printable(fact) for fact in facts), f"  destination:{printable(str(message['destination']))}"]
    lines += [f"  {printable(str(name))}:{printable(str(value))}" for name, value in message.get("headers", [])]
    return "\n".join([*lines, "", *("  " + line for line in _body_lines(message))])


def _body_lines(message: dict[str, Any]) -> list[str]:
    """Text line by line; anything else as a dump of its bytes. A long body comes cut from the broker."""
    text = message.get("body")
    if isinstance(text, str):
        shown_bytes = len(text.encode())
        lines = [printable(line, keep="\t") for line in text.split("\n")]
    else:
        body = base64.b64decode(str(message.get("body_base64", "")))
        shown_bytes = len(body)
        lines = [body[at : at + 32].hex(" ", 4) for at in range(0, len(body), 32)]
    body_bytes = int(message.get("body_bytes", shown_bytes))
    return lines if shown_bytes == body_bytes else [*lines, f"(the first {shown_bytes} of {body_bytes} bytes)"]


PEEK = Command(
    name="peek",
    summary="show messages of a queue without taking them",
    description=(
        "Shows the oldest messages of a queue with their headers and bodies. Nothing changes: they are not "
        "delivered, not marked, and stay where they are. Control characters are shown as escapes, bodies that "
        "are no text in hexadecimal."
    ),
    example="radiator peek orders.dead --count 3",
    add_arguments=_arguments,
    run=_run,
)
