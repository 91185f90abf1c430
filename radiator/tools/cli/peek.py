"""`radiator peek`: shows messages of a queue and changes nothing."""

import argparse
import base64
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from radiator.client import Client
from radiator.model.addresses import QUEUE
from radiator.model.errors import ConfigError, count_text
from radiator.model.limits import PEEK_MESSAGES_MAX
from radiator.model.story import message_id_in
from radiator.tools.cli.broker import ASK_TIMEOUT_S, add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)))
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--count", metavar="N", type=whole_number, default=10, help=f"default 10, at most {PEEK_MESSAGES_MAX}"
    )
    which.add_argument("--message", metavar="ID", type=_message_id, help="only this one, with its whole body")
    parser.add_argument(
        "--output", metavar="FILE", help="write the bytes of its body there, and nothing else; -: standard output"
    )


def _message_id(text: str) -> str:
    try:
        return message_id_in(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _run(arguments: argparse.Namespace) -> int:
    queue, one = arguments.queue, arguments.message
    if arguments.output is not None:
        if one is None:
            raise ConfigError(["--output is for one body: say which by --message ID."])
        if arguments.json or arguments.watch:
            raise ConfigError(["--output writes the bytes of the body alone, once: leave --json and --watch out."])
        _write(arguments, _whole(arguments)[1])
        return 0

    def look() -> dict[str, Any]:
        if one is not None:
            return _whole(arguments)[0]
        return ask(arguments, {"do": "peek", "queue": queue.address, "count": arguments.count})

    def formed(answer: dict[str, Any]) -> str:
        messages = field(answer, "messages")
        return "\n\n".join(_shown(message) for message in messages) or f"{printable(queue.name)} holds no message."

    show(arguments, look, formed)
    return 0


def _whole(arguments: argparse.Namespace) -> tuple[dict[str, Any], bytes]:
    """Returns the answer about one message as if it had come in one part, and its body. Raises Refusal, also where the
    message leaves before its last part has come.
    """
    request = {"do": "peek", "queue": arguments.queue.address, "message": arguments.message}
    body = bytearray()
    with Client(arguments.broker) as client:
        answer = client.admin(request, ASK_TIMEOUT_S)
        (message,) = field(answer, "messages")
        part = _bytes_of(message)
        while part:
            body += part
            if len(body) >= int(message["body_bytes"]):
                break
            more = client.admin({**request, "from": len(body)}, ASK_TIMEOUT_S)
            part = _bytes_of(field(more, "messages")[0])
    whole = bytes(body)
    message.pop("body_base64", None)
    try:
        message["body"] = whole.decode()
    except UnicodeDecodeError:
        message |= {"body": None, "body_base64": base64.b64encode(whole).decode()}
    return answer, whole


def _write(arguments: argparse.Namespace, body: bytes) -> None:
    if arguments.output == "-":
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    Path(arguments.output).write_bytes(body)
    size = count_text(len(body), "byte")
    print(f"The body of {printable(arguments.message)}, {size}, is in {printable(arguments.output)}.")


def _shown(message: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(int(message["timestamp"]) / 1000).astimezone().isoformat(" ", "milliseconds")
    facts = [str(message["message_id"]), at, bytes_text(int(message["size"])), str(message["state"])]
    if message.get("redelivered"):
        count = int(message.get("redelivery_count", 0))
        # not counted: unacked when the broker stopped, or perhaps when it was killed
        facts.append(f"redelivered {count_text(count, 'time')}" if count else "may have been delivered before")
    lines = [", ".join(printable(fact) for fact in facts), f"  destination:{printable(str(message['destination']))}"]
    lines += [f"  {printable(str(name))}:{printable(str(value))}" for name, value in message.get("headers", [])]
    return "\n".join([*lines, "", *("  " + line for line in _body_lines(message))])


def _body_lines(message: dict[str, Any]) -> list[str]:
    """Text line by line; anything else as a dump of its bytes. A long body comes cut from the broker."""
    text, body = message.get("body"), _bytes_of(message)
    shown_bytes = len(body)
    if isinstance(text, str):
        lines = [printable(line, keep="\t") for line in text.split("\n")]
    else:
        lines = [body[at : at + 32].hex(" ", 4) for at in range(0, len(body), 32)]
    body_bytes = int(message.get("body_bytes", shown_bytes))
    return lines if shown_bytes == body_bytes else [*lines, f"(the first {shown_bytes} of {body_bytes} bytes)"]


def _bytes_of(message: dict[str, Any]) -> bytes:
    """Returns the bytes of its body that have come."""
    text = message.get("body")
    return text.encode() if isinstance(text, str) else base64.b64decode(str(message.get("body_base64", "")))


PEEK = Command(
    name="peek",
    summary="show messages of a queue without taking them",
    description=(
        "Shows the oldest messages of a queue with their headers and bodies. Nothing changes: they are not "
        "delivered, not marked, and stay where they are. Control characters are shown as escapes, bodies that "
        "are no text in hexadecimal. Of a long body the beginning is shown; --message ID shows one message with all of "
        "its body, wherever it is in the queue, and --output FILE writes that to a file."
    ),
    example="radiator peek orders.dead --message 4f0c2a91b7d3e865-3-17 --output body.bin",
    add_arguments=_arguments,
    run=_run,
)
