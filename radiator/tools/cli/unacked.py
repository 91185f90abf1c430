"""`radiator unacked` and `radiator extend`: which messages are unacked with whom, and more time for one of them."""

import argparse
from typing import Any

from radiator.model.addresses import QUEUE
from radiator.model.limits import UNACKED_PAGE, UNACKED_PAGE_MAX
from radiator.model.story import message_id_in
from radiator.tools.cli.broker import add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table, time_text
from radiator.tools.cli.things import ArgumentWord, add_words

_HEADS = ("message", "with", "user", "address", "consumer", "out for", "until", "redelivered", "size")
_LEAST = ("address", "size", "redelivered")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)))
    parser.add_argument("--after", metavar="PLACE", help="only those after this place (printed by the previous page)")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number,
        default=UNACKED_PAGE,
        help=f"default {UNACKED_PAGE}, at most {UNACKED_PAGE_MAX}",
    )


def _run(arguments: argparse.Namespace) -> int:
    queue = arguments.queue
    request = {"do": "unacked", "queue": queue.address, "limit": arguments.limit}
    if arguments.after is not None:
        request["after"] = arguments.after

    def formed(answer: dict[str, Any]) -> str:
        found = field(answer, "unacked")
        if not found:
            return f"No message of {printable(queue.name)} is out{' after that place' * bool(arguments.after)}."
        more = f"\n{len(found)} of {field(answer, 'count')}; --after {answer['next']} has those behind"
        return table(_HEADS, [_row(one) for one in found], least=_LEAST) + more * bool(answer["next"])

    show(arguments, lambda: ask(arguments, request), formed)
    return 0


def _row(one: dict[str, Any]) -> list[str | int]:
    holder = "a lease" if field(one, "is_leased") else f"connection {one['connection']}, {one['subscription']}"
    return [
        str(one["message_id"]),
        holder,
        str(one["user"]),
        str(one["address"] or ""),
        str(one["consumer"] or ""),
        duration_text(int(one["age_ms"]) / 1000),
        time_text(one["due_ms"]),
        int(one["redelivery_count"]),
        bytes_text(int(one["size"])),
    ]


UNACKED = Command(
    name="unacked",
    summary="list the unacked messages of a queue, and who has them",
    description=(
        "One line for each message that was delivered and is not settled, the longest first: its connection and "
        "subscription, or that it is leased; how long it has been unacked, and until when it may be so: its ack "
        "timeout, or its lease. `radiator connections NUMBER` shows the connection."
    ),
    example="radiator unacked orders --limit 10",
    add_arguments=_arguments,
    run=_run,
)


def _extend_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser,
        ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)),
        ArgumentWord("message_id", "MESSAGE_ID", help="from `radiator unacked`", read=message_id_in),
        ArgumentWord("seconds", "SECONDS", help="from now on", read=_seconds),
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds") from None


def _extend(arguments: argparse.Namespace) -> int:
    given = {"queue": arguments.queue.address, "message_id": arguments.message_id, "seconds": arguments.seconds}
    answer = ask(arguments, {"do": "extend-unacked", **given})
    until = time_text(int(field(answer, "due_ms")))
    print_answer(arguments, answer, f"{printable(arguments.message_id)} may stay out until {until}.")
    return 0


EXTEND = Command(
    name="extend",
    summary="give a message's consumer more time",
    description=(
        "Makes the ack timeout, or the lease, of an unacked message end this many seconds from now, which may be "
        "sooner than before. A message without an ack timeout needs no extension: it stays until its consumer "
        "settles it or is gone."
    ),
    example="radiator extend orders 4f0c2a91b7d3e865-3-17 600",
    add_arguments=_extend_arguments,
    run=_extend,
)
