"""`radiator reload`: the running broker reads its config.toml again."""

import argparse
import json
import sys
from typing import Any

from radiator.model.errors import EXIT_REFUSED, ConfigError, Refusal, count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable, table, terminal_columns, width_of

_HEADS = ("setting", "in force", "in the file", "takes effect")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--yes", action="store_true", help="do not ask, even at a terminal")


def _run(arguments: argparse.Namespace) -> int:
    trial = _asked(arguments, is_trial=True)
    if not arguments.json:
        _show(trial)
    if arguments.dry_run:
        if arguments.json:
            print_answer(arguments, trial, "")
        return 0
    is_asked = sys.stdin.isatty() and not (arguments.yes or arguments.json)
    if is_asked and _now(trial) and input("Apply? [y/N] ").strip().lower() not in ("y", "yes"):
        print("Nothing was changed.")
        return EXIT_REFUSED
    answer = _asked(arguments, is_trial=False)
    if not arguments.json and answer["changes"] != trial["changes"]:
        print("The file has been changed meanwhile. This is what was applied:")
        _show(answer)
    now, waiting = len(_now(answer)), len(answer["changes"]) - len(_now(answer))
    waits = f" {count_text(waiting, 'difference waits', 'differences wait')} for a restart." if waiting else ""
    print_answer(arguments, answer, f"{count_text(now, 'difference')} applied.{waits}")
    return 0


def _asked(arguments: argparse.Namespace, is_trial: bool) -> dict[str, Any]:
    """Raises ConfigError where the file is wrong."""
    try:
        answer = ask(arguments, {"do": "reload", "dry_run": is_trial}, CHANGE_TIMEOUT_S)
    except Refusal as refused:
        if refused.code != "configuration":
            raise
        raise ConfigError([*str(refused).splitlines(), "Nothing was changed."]) from refused
    field(answer, "changes")
    return answer


def _now(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [change for change in answer["changes"] if change["takes_effect"] == "now"]


def _show(answer: dict[str, Any]) -> None:
    rows = [
        [one["setting"], _value(one["old"]), _value(one["new"]), _when(one["takes_effect"])]
        for one in answer["changes"]
    ]
    print(_table(rows) if rows else "The file says what is in force.")
    for sentence in answer.get("warnings", ()):
        print(f"warning: {printable(str(sentence))}", file=sys.stderr)


def _table(rows: list[list[str]]) -> str:
    """Returns the table, in which nothing is cut: if a terminal has no room for the columns, they are one below the
    other.
    """
    text = table(_HEADS, rows, columns=sys.maxsize)
    columns = terminal_columns()
    if columns is None or max(map(width_of, text.splitlines())) <= columns:
        return text
    parts = [
        f"{printable(setting)}\n  {_HEADS[1]}: {printable(old)}\n  {_HEADS[2]}: {printable(new)}\n  {_HEADS[3]}: {when}"
        for setting, old, new, when in rows
    ]
    return "\n".join(parts)


def _value(value: Any) -> str:
    """Returns a value about as the file has it; "-" if there is none."""
    return "-" if value is None else json.dumps(value, ensure_ascii=False)


def _when(takes_effect: str) -> str:
    return "now" if takes_effect == "now" else "with a restart"


RELOAD = Command(
    name="reload",
    summary="make the running broker read its config.toml again",
    description=(
        "The running broker reads the file that it was started with. This command shows how the file differs from what "
        "is in force, and which differences wait for a restart; at a terminal it then asks, and applies the others. No "
        "message is lost, and no client is disconnected. If the file has mistakes, they are listed, nothing changes, "
        "and the exit status is 2. SIGHUP does the same without asking."
    ),
    example="radiator reload --dry-run\nradiator reload --yes",
    add_arguments=_arguments,
    run=_run,
)
