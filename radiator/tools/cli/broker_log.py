"""`radiator broker-log`: the last lines of the running broker's log."""

import argparse
import json
import sys
import time
from typing import Any

from radiator.model.errors import count_text
from radiator.model.limits import LOG_KEPT_LINES
from radiator.model.settings import LOG_LEVELS
from radiator.tools.cli.broker import add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import WATCH_S, add_json, print_answer
from radiator.tools.cli.text import printable, time_text

LINES = 100  # if it is not given how many


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument(
        "--lines",
        metavar="N",
        type=whole_number,
        default=LINES,
        help=f"how many at most (default: {LINES}; the broker keeps {LOG_KEPT_LINES})",
    )
    parser.add_argument("--level", choices=LOG_LEVELS, default=LOG_LEVELS[0], help="none of a lower one")
    parser.add_argument(
        "--follow",
        dest="watch",
        action="store_true",
        help=f"then go on: what is new every {WATCH_S:.0f} seconds, until interrupted",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"do": "log", "limit": arguments.lines, "level": arguments.level}
    while True:
        answer = ask(arguments, asked)
        lines = field(answer, "lines")
        if missed := _missed(answer, asked.get("after")):
            print(missed, file=sys.stderr)
        if lines or not arguments.watch:
            print_answer(arguments, answer, "\n".join(map(_line, lines)) or "Nothing has been logged.")
        if not arguments.watch:
            return 0
        asked |= {"after": field(answer, "next"), "limit": LOG_KEPT_LINES}
        time.sleep(WATCH_S)


def _missed(answer: dict[str, Any], after: int | None) -> str:
    """Returns how many lines there were between the last one that was asked for and the first that is kept; "":
    none.
    """
    count = 0 if after is None else int(field(answer, "first")) - after - 1
    return f"{count_text(count, 'line')} more were logged, and are kept no longer." if count > 0 else ""


def _line(line: dict[str, Any]) -> str:
    """Returns a line about as the log has it, but in this machine's zone."""
    fields = "".join(f" {name}={_value(value)}" for name, value in field(line, "fields").items())
    moment = time_text(int(field(line, "time_ms")), "milliseconds")
    return printable(f"{moment} {field(line, 'level')} {field(line, 'event')}{fields}")


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text, ensure_ascii=False) if not text or {*' ="\\'} & {*text} else text


BROKER_LOG = Command(
    name="broker-log",
    summary="show the last lines of a running broker's own log",
    description=(
        "What the broker has logged last, the newest line below: what its stderr got, and what the journal of systemd "
        "would show. Long values are cut. A log of yours, /log/NAME, is read by `radiator receive` and the clients. It "
        "needs the right admin: lines name users, addresses, and what somebody gave as a user name."
    ),
    example="radiator broker-log --level warning --lines 20\nradiator broker-log --follow",
    add_arguments=_arguments,
    run=_run,
)
