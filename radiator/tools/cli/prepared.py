"""`radiator prepared`: transactions that were prepared under a name, and are not over; letting go of one."""

import argparse
from typing import Any

from radiator.model.errors import EXIT_REFUSED, RadiatorError, count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table

_HEADS = ("name", "state", "messages", "size", "applied", "age", "")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--abort", metavar="NAME", help="let go of what is prepared under this name")
    which.add_argument("--abort-all", metavar="PREFIX", help="the same of all whose names begin so")
    add_watch(which)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.abort is not None:
        return _abort(arguments)
    if arguments.abort_all is not None:
        return _abort_all(arguments)
    show(arguments, lambda: ask(arguments, {"do": "prepared"}), _formed)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    prepared = field(answer, "prepared")
    if not prepared:
        return "No transaction is prepared."
    more = int(answer.get("count", 0)) - len(prepared)
    return table(_HEADS, [_row(one) for one in prepared]) + (f"\nand {more} more" if more > 0 else "")


def _abort(arguments: argparse.Namespace) -> int:
    name = printable(arguments.abort)
    answer = ask(arguments, {"do": "abort", "prepared": [arguments.abort]}, CHANGE_TIMEOUT_S)
    if not field(answer, "aborted") and not arguments.json:
        raise RadiatorError(f"No transaction is prepared as {name} (any more).")
    print_answer(arguments, answer, f"{name} is aborted: nothing of it was sent.")
    return 0 if field(answer, "aborted") else EXIT_REFUSED


def _abort_all(arguments: argparse.Namespace) -> int:
    prefix = printable(arguments.abort_all)
    answer = ask(arguments, {"do": "abort", "prefix": arguments.abort_all}, CHANGE_TIMEOUT_S)
    aborted = field(answer, "aborted")
    if not aborted and not arguments.json:
        raise RadiatorError(f"No transaction is prepared under a name that begins with {prefix} (any more).")
    them = "it" if aborted == 1 else "them"
    print_answer(arguments, answer, f"{count_text(aborted, 'transaction')} aborted: nothing of {them} was sent.")
    return 0 if aborted else EXIT_REFUSED


def _row(one: dict[str, Any]) -> list[str | int]:
    is_committed = field(one, "is_committed")
    return [
        str(field(one, "name")) or "(from before a restart)",
        "committed" if is_committed else "prepared",
        int(field(one, "messages")),
        bytes_text(int(field(one, "bytes"))),
        int(field(one, "applied")),
        duration_text(int(field(one, "age_ms")) / 1000),
        str(one.get("waits") or ""),
    ]


PREPARED = Command(
    name="prepared",
    summary="list prepared transactions, or let go of some",
    description=(
        "One line for each transaction that was prepared and is not over. `prepared`: it waits for its COMMIT, until "
        "prepared_max_s are over. `committed`: it is on its way into its destinations; so many of it are applied, and "
        "where it cannot go on, it says why. With --abort, what is prepared under a name is let go of: nothing of it "
        "is sent; --abort-all does so for all whose names begin alike, as those of one writer may. What is committed "
        "cannot be aborted."
    ),
    example="radiator prepared\nradiator prepared --abort etl-17-3\nradiator prepared --abort-all etl-17-",
    add_arguments=_arguments,
    run=_run,
)
