"""`radiator delete`: a queue, an exchange, a fanout or a log of a running broker."""

import argparse
from typing import Any

from radiator.model.addresses import KINDS, LOG, QUEUE, declared_kinds
from radiator.model.errors import count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(parser, ArgumentWord("what", "WHAT", kinds=declared_kinds()))
    parser.add_argument("--if-empty", action="store_true", help="a queue: only if it holds no message")
    parser.add_argument(
        "--used", action="store_true", help="a queue: even if it has consumers, which then get nothing more"
    )


def _run(arguments: argparse.Namespace) -> int:
    kind, name = what = arguments.what
    request: dict[str, Any] = {"do": "delete", kind: what.address}
    if KINDS[kind].has_contents:
        request |= {"if_empty": arguments.if_empty, "if_unused": not arguments.used}
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
    deleted = field(answer, "deleted")
    inside = {
        QUEUE: f", and {count_text(deleted, 'message')} in it",
        LOG: f", and {count_text(deleted, 'record')} in it",
    }
    print_answer(arguments, answer, f"{kind.capitalize()} {printable(name)} deleted{inside.get(kind, '')}.")
    return 0


DELETE = Command(
    name="delete",
    summary="delete a queue or a log with what is in it, an exchange, or a fanout",
    description=(
        "Deletes a queue and its messages for good, unacked ones included. This is refused while it has consumers "
        "(unless --used), while a group has checked out messages of it, and while messages of it are in doubt with "
        "another node. An exchange is deleted with its bindings; queues that were bound to it stay, as do the "
        "children of a fanout. A log is deleted with its records, unless it has readers. What config.toml declares "
        "is refused."
    ),
    example=(
        "radiator delete orders.old\nradiator delete queue replies --if-empty\n"
        "radiator delete exchange events\nradiator delete /log/clicks"
    ),
    add_arguments=_arguments,
    run=_run,
)
