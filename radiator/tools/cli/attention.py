"""`radiator attention`: what in a running broker needs attention."""

import argparse
from typing import Any

from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, count_text
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import table

_HEADS = ("kind", "name", "verdict", "")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)


def _run(arguments: argparse.Namespace) -> int:
    answer = show(arguments, lambda: ask(arguments, {"do": "attention"}), _formed)
    return EXIT_REFUSED if field(answer, "items") else 0


def _formed(answer: dict[str, Any]) -> str:
    items = field(answer, "items")
    if not items:
        return "nothing needs attention"
    lines = [table(_HEADS, [[str(one[key]) for key in ("kind", "name", "verdict", "sentence")] for one in items])]
    counts = field(answer, "counts")
    if counts and sum(counts.values()) > len(items):
        each = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        lines.append(f"the worst {len(items)} of {count_text(sum(counts.values()), 'thing')}: {each}")
    return "\n".join(lines)


ATTENTION = Command(
    name="attention",
    summary="list what needs attention in a running broker, the worst first",
    description=(
        "A line for each queue, log, node and certificate that needs attention, and for the broker itself: messages "
        "that nobody takes, consumers that stand still, full queues, dead letters, damaged records, nodes that are not "
        "linked, a disk or memory that is nearly full, certificates that end within 30 days. At most 50 lines. Exits "
        "with 0 if there is nothing, with 1 if there is something, and with 2 if it cannot ask."
    ),
    example="radiator attention\nradiator attention --json",
    add_arguments=_arguments,
    run=_run,
    failed=EXIT_USAGE,
)
