"""`radiator queues`, `purge` and `move`: what an operator does to queues of a running broker."""

import argparse
from typing import Any

from radiator.cli.broker import CHANGE_TIMEOUT_S, add_broker, add_queue, ask, field, whole_number
from radiator.cli.command import Command
from radiator.cli.text import bytes_text, printable, table
from radiator.errors import count_text

_HEADS = (
    "queue",
    "kind",
    "messages",
    "size",
    "ready",
    "in flight",
    "delayed",
    "storing",
    "consumers",
    "redelivered",
    "",
)
_NUMBERS = ("messages", "ready", "in_flight", "delayed", "storing", "consumers", "redelivered")


def _run_queues(arguments: argparse.Namespace) -> int:
    queues = field(ask(arguments, {"do": "queues"}), "queues")
    print(table(_HEADS, [_row(queue) for queue in sorted(queues, key=lambda queue: str(queue["name"]))]))
    return 0


def _row(queue: dict[str, Any]) -> list[str | int]:
    remarks = []
    if queue.get("blocked"):
        remarks.append("producers wait")
    if queue.get("in_doubt"):
        remarks.append(f"{queue['in_doubt']} in doubt with another node")
    if queue.get("checked_out"):
        remarks.append(f"{queue['checked_out']} checked out")
    if queue.get("damaged"):
        remarks.append(f"{count_text(queue['damaged'], 'damaged record')}: see `radiator check`")
    if queue.get("adds_up") is False:
        remarks.append("DOES NOT ADD UP: THIS IS A BUG")
    kind = "persistent" if queue.get("persistent") else "memory"
    messages, *others = (int(queue.get(name, 0)) for name in _NUMBERS)
    size = bytes_text(int(queue.get("bytes", 0)))
    return [str(queue["name"]), kind, messages, size, *others, "; ".join(remarks)]


def _run_purge(arguments: argparse.Namespace) -> int:
    purged = field(ask(arguments, {"do": "purge", "queue": arguments.queue}, CHANGE_TIMEOUT_S), "purged")
    print(f"{count_text(purged, 'message')} purged from {printable(arguments.queue)}.")
    return 0


def _move_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_queue(parser, "source", "FROM")
    add_queue(parser, "target", "TO")
    parser.add_argument("--count", metavar="N", type=whole_number, help="how many at most (default: all ready now)")


def _run_move(arguments: argparse.Namespace) -> int:
    request: dict[str, Any] = {"do": "move", "from": arguments.source, "to": arguments.target}
    if arguments.count is not None:
        request["count"] = arguments.count
    moved = field(ask(arguments, request, CHANGE_TIMEOUT_S), "moved")
    print(f"{count_text(moved, 'message')} moved from {printable(arguments.source)} to {printable(arguments.target)}.")
    return 0


def _queue_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_queue(parser)


QUEUES = Command(
    name="queues",
    summary="list the queues of a running broker",
    description=(
        "One line for each queue: how many messages it holds, how many of them are ready, in flight "
        "(delivered, not yet acked), delayed (kept back until their time) or still being stored, its consumers, and "
        "how often messages of it were redelivered."
    ),
    example="radiator queues --broker stomp://127.0.0.1:61613",
    add_arguments=add_broker,
    run=_run_queues,
)

PURGE = Command(
    name="purge",
    summary="remove all messages of a queue that are not in flight",
    description="Removes the messages of a queue for good. What is in flight (delivered, not yet acked) is spared.",
    example="radiator purge orders.dead",
    add_arguments=_queue_arguments,
    run=_run_purge,
)

MOVE = Command(
    name="move",
    summary="move messages from one queue to another",
    description=(
        "Moves messages that are ready, oldest first: out of a dead-letter queue back to where they came "
        "from, for example. Each is always in exactly one of the two queues, whatever happens meanwhile."
    ),
    example="radiator move orders.dead orders --count 10",
    add_arguments=_move_arguments,
    run=_run_move,
)
