"""`radiator queues`, `purge` and `move`: what an operator does to queues of a running broker."""

import argparse
from typing import Any

from radiator.model.addresses import QUEUE
from radiator.model.errors import ConfigError, count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.queue_table import add_table, asked_for
from radiator.tools.cli.queue_table import formed as formed_page
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, printable, table
from radiator.tools.cli.things import ArgumentWord, add_words

_HEADS = (
    "queue",
    "kind",
    "messages",
    "size",
    "ready",
    "unacked",
    "delayed",
    "storing",
    "consumers",
    "redelivered",
    "",
)
_LEAST = ("storing", "redelivered", "kind", "delayed")  # which a narrow terminal does not show
_NUMBERS = ("messages", "ready", "unacked", "delayed", "storing", "consumers", "redelivered")


def _queues_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--match", metavar="PATTERN", help="only queues whose names match: * is one word, # any number")
    add_table(parser)
    add_broker(parser)
    add_json(parser)
    add_watch(parser)


def _run_queues(arguments: argparse.Namespace) -> int:
    page = asked_for(arguments)
    request = page or {"do": "queues"}
    if arguments.match is not None:
        request["match"] = arguments.match
    show(arguments, lambda: ask(arguments, request), _formed if page is None else formed_page)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    rows = [_row(queue) for queue in sorted(field(answer, "queues"), key=lambda one: str(one["name"]))]
    return table(_HEADS, rows, least=_LEAST)


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
    answer = ask(arguments, {"do": "purge", "queue": arguments.queue.address}, CHANGE_TIMEOUT_S)
    purged = count_text(field(answer, "purged"), "message")
    print_answer(arguments, answer, f"{purged} purged from {printable(arguments.queue.name)}.")
    return 0


def _move_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser,
        ArgumentWord("source", "FROM", kinds=(QUEUE,)),
        ArgumentWord("target", "TO", kinds=(QUEUE,), is_made=True),
    )
    parser.add_argument("--count", metavar="N", type=whole_number, help="how many at most (default: all ready now)")


def _run_move(arguments: argparse.Namespace) -> int:
    source, target = arguments.source, arguments.target
    if source == target:
        raise ConfigError([f"{printable(source.address)} cannot be moved into itself."])
    request: dict[str, Any] = {"do": "move", "from": source.address, "to": target.address, "create": False}
    if arguments.count is not None:
        request["count"] = arguments.count
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
    moved = count_text(field(answer, "moved"), "message")
    print_answer(arguments, answer, f"{moved} moved from {printable(source.name)} to {printable(target.name)}.")
    return 0


def _queue_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)))


QUEUES = Command(
    name="queues",
    summary="list the queues of a running broker",
    description=(
        "One line for each queue: how many messages it holds, how many of them are ready, unacked "
        "(delivered, and not acked yet), delayed (kept back until their time) or still being stored, its consumers, "
        "and how often messages of it were redelivered. With --sort, --top, --text or --needs only the first in an "
        "order, with their rates in the last seconds, and why each is in its state."
    ),
    example="radiator queues --broker stomp://127.0.0.1:61613\nradiator queues --sort=-in --top 10",
    add_arguments=_queues_arguments,
    run=_run_queues,
)

PURGE = Command(
    name="purge",
    summary="delete all messages of a queue except those that are unacked",
    description="Deletes the messages of a queue for good, except unacked ones (delivered, and not acked yet).",
    example="radiator purge orders.dead",
    add_arguments=_queue_arguments,
    run=_run_purge,
)

MOVE = Command(
    name="move",
    summary="move messages from one queue to another",
    description=(
        "Moves messages that are ready, oldest first: for example, out of a dead-letter queue back to where they "
        "came from. The queue that they move to must exist, or --create makes it. Each message is always in exactly "
        "one of the two queues, whatever happens meanwhile."
    ),
    example="radiator move orders.dead orders --count 10",
    add_arguments=_move_arguments,
    run=_run_move,
)
