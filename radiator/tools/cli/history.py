"""`radiator history`: what a running broker, or one of its queues, did in the last minutes."""

import argparse
from datetime import datetime
from typing import Any

from radiator.model.addresses import QUEUE
from radiator.model.limits import HISTORY_S
from radiator.tools.cli.broker import add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, table
from radiator.tools.cli.things import ArgumentWord, add_words

MINUTES = 10
_MINUTES_MAX = HISTORY_S // 60
_MINUTE_MS = 60_000
_FLOWS = ("in", "out", "delivered", "appended")  # of which a line has the rate
_WORST = ("receipt_p99_ms", "parked")  # and of which the largest
_SHOWN = (*_FLOWS, "ready", "unacked", "delayed", "connections", "parked", "receipt_p99_ms", "memory_bytes")
_HEADS = {"receipt_p99_ms": "receipt p99", "memory_bytes": "memory"} | {name: f"{name}/s" for name in _FLOWS}
_LEAST = ("appended/s", "delayed", "delivered/s", "parked", "connections")  # which a narrow terminal does not show


def _minutes(text: str) -> int:
    number = whole_number(text)
    if number > _MINUTES_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {_MINUTES_MAX}: the broker keeps an hour")
    return number


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", "of a queue alone", kinds=(QUEUE,), is_needed=False))
    parser.add_argument(
        "--minutes", metavar="N", type=_minutes, default=MINUTES, help=f"how many lines (default: {MINUTES})"
    )


def _run(arguments: argparse.Namespace) -> int:
    request = {"do": "history"}
    if arguments.queue is not None:
        request["queue"] = arguments.queue.address
    show(arguments, lambda: ask(arguments, request), lambda answer: _formed(answer, arguments.minutes))
    return 0


def _formed(answer: dict[str, Any], minutes: int) -> str:
    """Returns a line for each minute that has a sample."""
    names, every_ms, first_ms = field(answer, "names"), int(field(answer, "every_ms")), field(answer, "first_ms")
    columns = dict(zip(names, field(answer, "samples"), strict=True))
    shown = [name for name in _SHOWN if name in columns]
    by_minute: dict[int, list[int]] = {}
    for at in range(len(columns[shown[0]])):
        if columns[shown[0]][at] is not None:
            by_minute.setdefault((first_ms + at * every_ms) // _MINUTE_MS, []).append(at)
    if not by_minute:
        return "no sample yet"
    rows = [
        [_clock(minute * _MINUTE_MS), *(_cell(name, [columns[name][at] for at in places], every_ms) for name in shown)]
        for minute, places in [*by_minute.items()][-minutes:]
    ]
    heads = ["minute", *(_HEADS.get(name, name) for name in shown)]
    return table(heads, rows, least=[head for head in _LEAST if head in heads])


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%H:%M")


def _cell(name: str, values: list[float | None], every_ms: int) -> str | int:
    there = [value for value in values if value is not None]
    if not there:
        return ""
    if name in _FLOWS:
        return f"{sum(there) * 1000 / every_ms / len(there):.1f}"
    value = max(there) if name in _WORST else there[-1]
    if name == "receipt_p99_ms":
        return f"{value:g} ms"
    return bytes_text(int(value)) if name == "memory_bytes" else int(value)


HISTORY = Command(
    name="history",
    summary="show what a running broker did in the last minutes",
    description=(
        "A line for each of the last minutes: how many messages a second came into queues, were acked, were delivered "
        "for the first time and were appended to logs; then, at the end of the minute, how many were ready, unacked "
        "and delayed, the connections and the memory, and of its seconds the worst: how many connections waited for "
        "room, and how long a commit took at most (of 99 in 100). Of a queue, if it is one of the 200 that have moved "
        "most: in, out, ready and unacked. The broker keeps an hour, in memory; a minute in which it did not run has "
        "no line."
    ),
    example="radiator history\nradiator history orders --minutes 30",
    add_arguments=_arguments,
    run=_run,
)
