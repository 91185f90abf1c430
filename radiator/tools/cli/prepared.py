"""`radiator prepared`: transactions that were prepared under a name, and are not finished; and how to end one
by hand.
"""

import argparse
from collections.abc import Callable
from typing import Any

from radiator.model.errors import EXIT_REFUSED, RadiatorError, count_text
from radiator.model.limits import REFUSE_MAX_S, TIME_MAX_MS
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table

_HEADS = ("name", "state", "messages", "size", "applied", "age", "")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--abort", metavar="NAME", help="abort what is prepared under this name")
    which.add_argument("--abort-all", metavar="PREFIX", help="the same for all whose names begin with this")
    which.add_argument(
        "--commit", metavar="NAME", help="commit what is prepared under this name, with --app, --version"
    )
    add_watch(which)
    parser.add_argument("--app", metavar="APP", help="whose version the commit is")
    parser.add_argument(
        "--version", metavar="N", type=_up_to(TIME_MAX_MS), help="which: above the last that was committed for that app"
    )
    parser.add_argument(
        "--refuse-s", metavar="N", type=_up_to(REFUSE_MAX_S), default=0,
        help=f"with --abort-all: refuse such names for this many seconds, at most {REFUSE_MAX_S}",
    )  # fmt: skip
    add_json(parser)


def _up_to(most: int) -> Callable[[str], int]:
    """Returns the type of an argument that is a whole number up to that one."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r:.80} is not a whole number from 0 to {most}")
        return int(text)

    return number


def _run(arguments: argparse.Namespace) -> int:
    _check_together(arguments)
    if arguments.commit is not None:
        return _commit(arguments)
    if arguments.abort is not None:
        return _abort(arguments)
    if arguments.abort_all is not None:
        return _abort_all(arguments)
    show(arguments, lambda: ask(arguments, {"do": "prepared"}), _formed)
    return 0


def _check_together(arguments: argparse.Namespace) -> None:
    """Raises RadiatorError for an option that has no meaning without another."""
    if arguments.commit is not None and (arguments.app is None or arguments.version is None):
        raise RadiatorError("--commit needs --app and --version: a version of an app is committed once.")
    if arguments.commit is None and (arguments.app is not None or arguments.version is not None):
        raise RadiatorError("--app and --version are of --commit, which is not here.")
    if arguments.refuse_s and arguments.abort_all is None:
        raise RadiatorError("--refuse-s is of --abort-all, which is not here.")


def _commit(arguments: argparse.Namespace) -> int:
    name = printable(arguments.commit)
    request = {"do": "commit", "prepared": [arguments.commit], "app": arguments.app, "version": arguments.version}
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
    is_committed, many = field(answer, "committed"), count_text(int(field(answer, "messages")), "message")
    if not is_committed and not arguments.json:
        version = f"version {arguments.version} of {printable(arguments.app)}, or a higher one"
        raise RadiatorError(f"{version}, had been committed before: what was prepared as {name} is discarded.")
    print_answer(arguments, answer, f"{name} is committed: {many} of it will be in their destinations.")
    return 0 if is_committed else EXIT_REFUSED


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
    request = {"do": "abort", "prefix": arguments.abort_all, "refuse_s": arguments.refuse_s}
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
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
    summary="list prepared transactions, abort some, or commit one",
    description=(
        "One line for each transaction that was prepared and has not ended. `prepared`: it waits for its COMMIT, "
        "for prepared_max_s at most. `committed`: it is on its way into its destinations; the line says how many of "
        "its messages are applied, and if it cannot go on, why. With --abort, what is prepared under a name is "
        "discarded: nothing of it is sent; --abort-all does so for all whose names begin with a text, as those of "
        "one writer may. What is committed cannot be aborted. --commit does what its program would do: it uses up a "
        "version of an app."
    ),
    example=(
        "radiator prepared\nradiator prepared --abort etl-17-3\nradiator prepared --abort-all etl-17-\n"
        "radiator prepared --commit etl-17-3 --app etl --version 17"
    ),
    add_arguments=_arguments,
    run=_run,
)
