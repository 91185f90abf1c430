"""`radiator ready`: whether clients should be sent to a running broker."""

import argparse
from typing import Any

from radiator.model.administration import REASONS
from radiator.model.errors import EXIT_REFUSED
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument(
        "--exclude",
        metavar="REASON",
        choices=REASONS,
        action="append",
        default=[],
        help="leave out a reason: disk, memory, store, certificate, draining or links; may be given several times",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    answer = ask(arguments, {"do": "ready", "exclude": arguments.exclude})
    is_ready = bool(field(answer, "ready"))
    print_answer(arguments, answer, "ready" if is_ready else _why_not(field(answer, "reasons")))
    return 0 if is_ready else EXIT_REFUSED


def _why_not(reasons: list[dict[str, Any]]) -> str:
    lines = [f"not ready ({one['reason']}): {one['sentence']}" for one in reasons]
    return printable("\n".join(lines) or "not ready; its reasons need the right `see` on /#", "\n")


READY = Command(
    name="ready",
    summary="say whether clients should be sent to a running broker, and if not, why",
    description=(
        "Prints `ready` and ends with 0, or a line for each reason against it and ends with 1: the disk has no "
        "room, memory is short, the tables are far behind the write-ahead log, a certificate expires within a day, "
        "the node is being drained, or a node in its list is not linked. For scripts that start, stop and watch "
        "brokers."
    ),
    example="radiator ready --exclude links",
    add_arguments=_arguments,
    run=_run,
)
