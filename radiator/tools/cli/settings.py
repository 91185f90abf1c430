"""`radiator settings`: what is in force in the running broker."""

import argparse
import json
from typing import Any

from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable, table

_HEADS = ("setting", "default", "value")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument("--changed", action="store_true", help="only those that are not as they are by default")
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    answer = ask(arguments, {"do": "configuration"})
    if arguments.changed:
        answer["configuration"] = [row for row in field(answer, "configuration") if not row["is_default"]]
    print_answer(arguments, answer, _formed(answer))
    return 0


def _formed(answer: dict[str, Any]) -> str:
    path, rows = answer.get("path"), field(answer, "configuration")
    source = "The broker was started without a file." if path is None else f"The file is {printable(str(path))}."
    shown = table(_HEADS, [_row(row) for row in rows]) if rows else "All is as it is by default."
    return f"{source}\n{shown}"


def _row(row: dict[str, Any]) -> list[str]:
    table_name = row["section"] if row.get("of") is None else f"{row['section']}.{json.dumps(row['of'])}"
    default = "" if row["is_default"] else _text(row["default"])
    return [f"{table_name}.{row['name']}", default, _text(row["value"])]


def _text(value: Any) -> str:
    """Returns a value about as a file has it; "-" if there is none."""
    return "-" if value is None else json.dumps(value, ensure_ascii=False)


SETTINGS = Command(
    name="settings",
    summary="show the settings that are in force in the running broker",
    description=(
        "One line for each setting of the broker itself and of its users: the default, if that differs, and what is "
        "in force. Secrets are hidden. `radiator reload --dry-run` shows what waits for a restart; `radiator "
        "describe` shows queues, logs and everything else declared. It needs the right admin. `radiator config "
        "FILE` says what a file would put into force, without a broker."
    ),
    example="radiator settings --changed",
    add_arguments=_arguments,
    run=_run,
)
