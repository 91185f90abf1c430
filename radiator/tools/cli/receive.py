"""`radiator receive`: writes bodies to standard output, and acks each after it is written out."""

import argparse
import base64
import json
import sys
from typing import Any

from radiator.client import Client, Message
from radiator.model.addresses import queue_address
from radiator.model.errors import EXIT_REFUSED, count_text
from radiator.tools.cli.broker import add_broker, existing, make, seconds, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import DESTINATIONS, ArgumentWord, add_words

_OF_THE_HOP = frozenset({"subscription", "ack", "content-length"})


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_words(parser, ArgumentWord("destination", "DESTINATION", kinds=DESTINATIONS, is_made=True))
    parser.add_argument("--count", metavar="N", type=whole_number, help="end after this many messages (default: never)")
    parser.add_argument("--timeout", metavar="S", type=seconds, help="end if none comes for this long (default: never)")
    log = parser.add_argument_group("of a log")
    log.add_argument("--from", dest="start", metavar="PLACE", help="earliest, latest (default), offset:N or time:MS")
    log.add_argument("--until", metavar="PLACE", help="stop there: end (as it is now), offset:N or time:MS")
    log.add_argument("--partition", metavar="N", type=int, help="only this one, from 0 (default: all)")
    log.add_argument("--group", metavar="NAME", help="go on where this group has acked, and move its position")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="bodies only, byte by byte, with nothing between them")
    add_json(form, "messages with their headers, as JSON, one a line")


def _run(arguments: argparse.Namespace) -> int:
    received = 0
    places = (("from", arguments.start), ("until", arguments.until), ("group", arguments.group))
    headers = [(name, value) for name, value in places if value is not None]
    if arguments.partition is not None:
        headers.append(("partition", str(arguments.partition)))
    with Client(arguments.broker) as client:
        make(client, arguments)
        subscription = client.subscribe(existing(arguments.destination), ack="client-individual", headers=headers)
        while arguments.count is None or received < arguments.count:
            message = client.receive(arguments.timeout)
            if message is None:
                break
            if arguments.until is not None and message.headers.get("end") == "true" and "ack" not in message.headers:
                client.flush()
                return 0
            _write(_as_json(message) if arguments.json else message.body, arguments.raw)
            if received + 1 == arguments.count:
                # before the ACK, which asks for the next one: that would come back marked as redelivered, and counted
                client.unsubscribe(subscription)
            # only now: whatever ends this process before, the message comes back
            client.ack(message, confirm=False)
            received += 1
        client.flush()
    if arguments.count is not None and received < arguments.count:
        what = f"Only {count_text(received, 'message')} of {arguments.count} came"
        print(f"radiator: {what}, and no more within {arguments.timeout:g} s.", file=sys.stderr)
        return EXIT_REFUSED
    return 0


def _as_json(message: Message) -> bytes:
    """Returns a message as JSON on one line, in the form of `peek`."""
    headers = dict(message.headers)
    answer: dict[str, Any] = {
        "message_id": headers.pop("message-id"),
        "destination": queue_address(headers.pop("destination")),
        "timestamp": int(headers.pop("timestamp", 0)),
        "redelivered": headers.pop("redelivered", "false") == "true",
        "redelivery_count": int(headers.pop("redelivery-count", 0)),
        "headers": [[name, value] for name, value in headers.items() if name not in _OF_THE_HOP],
        "body_bytes": len(message.body),
    }
    try:
        answer["body"] = message.body.decode()
    except UnicodeDecodeError:
        answer |= {"body": None, "body_base64": base64.b64encode(message.body).decode()}
    return json.dumps(answer).encode()


def _write(body: bytes, raw: bool) -> None:
    """Writes the bytes as they are to a file or pipe; a terminal must not obey them."""
    if not raw and sys.stdout.isatty():
        body = printable(body.decode("utf-8", "backslashreplace"), keep="\n\t").encode()
    sys.stdout.buffer.write(body if raw else body + b"\n")
    sys.stdout.buffer.flush()


RECEIVE = Command(
    name="receive",
    summary="receive messages and write their bodies to standard output",
    description=(
        "Subscribes, writes each body to standard output followed by a newline, and acks it once it is written out "
        "and flushed: a message is not lost if the command ends in the middle, but may come again. With --count and "
        "--timeout the exit status is 1 if fewer came. On a terminal control characters are shown as escapes. A log "
        "is read from its end on, unless --from or a group says otherwise; reading removes nothing."
    ),
    example="radiator receive /queue/orders --count 1 --timeout 5 > order.json",
    add_arguments=_arguments,
    run=_run,
)
