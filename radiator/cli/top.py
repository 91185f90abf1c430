"""`radiator top`: what moves in a running broker, again and again."""

import argparse
import shutil
import sys
import time
from dataclasses import dataclass
from typing import Any

from radiator.cli.broker import ASK_TIMEOUT_S, add_broker, field, seconds, whole_number
from radiator.cli.command import Command
from radiator.cli.text import bytes_text, duration_text, table
from radiator.client import Client
from radiator.errors import Refusal, count_text

INTERVAL_S = 2.0
INTERVAL_MIN_S = 0.1
ROWS = 20  # where there is no terminal that says how many fit
LINES_AROUND = 5  # beside the rows: what stands above and below them, and where the cursor is
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
_LOG_HEADS = ("log", "appended/s", "records", "readers", "most behind")
_HEADS = ("queue", "accepted/s", "acked/s", "ready", "unacked", "delayed", "consumers", "oldest")


@dataclass(slots=True)
class _Row:
    """One queue between two looks at it. The rates are messages in a second."""

    name: str
    numbers: dict[str, Any]
    accepted: float
    acked: float


def _interval(text: str) -> float:
    value = seconds(text)
    if value < INTERVAL_MIN_S:
        raise argparse.ArgumentTypeError(f"{text!r} is less than {INTERVAL_MIN_S} s")
    return value


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument(
        "--interval", metavar="S", type=_interval, default=INTERVAL_S, help=f"how often (default: {INTERVAL_S:g} s)"
    )
    parser.add_argument("--count", metavar="N", type=whole_number, help="end after so many looks (default: never)")


def _run(arguments: argparse.Namespace) -> int:
    is_terminal = sys.stdout.isatty()
    looks = 0
    try:
        with Client(arguments.broker) as client:
            before, at_s = client.admin({"do": "stats"}, ASK_TIMEOUT_S), time.monotonic()
            while arguments.count is None or looks < arguments.count:
                time.sleep(arguments.interval)
                now, now_s = client.admin({"do": "stats"}, ASK_TIMEOUT_S), time.monotonic()
                columns, lines = shutil.get_terminal_size()
                most = max(1, lines - LINES_AROUND) if is_terminal else ROWS
                look = _look(client, before, now, now_s - at_s, most)
                if is_terminal:
                    look = _CLEAR_SCREEN + "\n".join(line[:columns] for line in look.split("\n"))
                print(look if is_terminal else f"{look}\n", flush=True)
                before, at_s = now, now_s
                looks += 1
    except KeyboardInterrupt:
        pass  # the way to end it
    return 0


def _look(client: Client, before: dict[str, Any], now: dict[str, Any], passed_s: float, most: int) -> str:
    rows = rows_between(before, now, passed_s)
    shown: list[list[str | int]] = [
        [row.name, f"{row.accepted:.1f}", f"{row.acked:.1f}", *_counts(row), _oldest(client, row.name)]
        for row in rows[:most]
    ]
    parts = [_summary(before, now, passed_s, rows), table(_HEADS, shown) if shown else "no queues"]
    logs = _logs(before, now, passed_s)[:most]
    if logs:
        parts.append(table(_LOG_HEADS, logs))
    if len(rows) > most:
        parts.append(f"and {count_text(len(rows) - most, 'queue')} more, which move less")
    return "\n".join(parts)


def _logs(before: dict[str, Any], now: dict[str, Any], passed_s: float) -> list[list[str | int]]:
    """A line for each log that was appended to since the last look, or has somebody behind: the busiest first."""
    earlier = before.get("logs", {})
    rows: list[tuple[float, list[str | int]]] = []
    for name, one in sorted(now.get("logs", {}).items()):
        rate = _rate(earlier.get(name, {}), one, "accepted", passed_s)
        behind = max((int(count) for count in one.get("unread", {}).values()), default=0)
        if rate or behind:
            records, readers = int(one.get("records", 0)), int(one.get("readers", 0))
            rows.append((rate, [name, f"{rate:.1f}", records, readers, behind]))
    return [row for _, row in sorted(rows, key=lambda one: -one[0])]


def _counts(row: _Row) -> list[int]:
    return [int(row.numbers.get(name, 0)) for name in ("ready", "unacked", "delayed", "consumers")]


def rows_between(before: dict[str, Any], now: dict[str, Any], passed_s: float) -> list[_Row]:
    """Every queue of the second look: first what moves most, then what is fullest."""
    earlier = before.get("queues", {})
    rows = [
        _Row(
            name,
            numbers,
            _rate(earlier.get(name, {}), numbers, "accepted", passed_s),
            _rate(earlier.get(name, {}), numbers, "acked", passed_s),
        )
        for name, numbers in field(now, "queues").items()
    ]
    return sorted(rows, key=lambda row: (-row.accepted - row.acked, -int(row.numbers.get("messages", 0)), row.name))


def _rate(before: dict[str, Any], now: dict[str, Any], name: str, passed_s: float) -> float:
    """In a second. A count that went back is of a broker, or a queue, that was made anew."""
    return float(max(0, int(now.get(name, 0)) - int(before.get(name, 0))) / max(passed_s, 1e-9))


def _summary(before: dict[str, Any], now: dict[str, Any], passed_s: float, rows: list[_Row]) -> str:
    def unrouted(answer: dict[str, Any]) -> dict[str, Any]:
        return {"unrouted": sum(int(one.get("unrouted", 0)) for one in answer.get("exchanges", {}).values())}

    rates = [("accepted", sum(row.accepted for row in rows)), ("acked", sum(row.acked for row in rows))]
    rates.append(("unrouted", _rate(unrouted(before), unrouted(now), "unrouted", passed_s)))
    return (
        f"up {duration_text(now.get('uptime_s', 0))}, {count_text(int(now.get('connections', 0)), 'connection')}, "
        f"{bytes_text(int(now.get('memory_bytes', 0)))} held in memory, {now.get('parked', 0)} waiting for room; "
        + ", ".join(f"{rate:.1f} {name}/s" for name, rate in rates)
    )


def _oldest(client: Client, name: str) -> str:
    """Since when the oldest message of a queue is there that is ready."""
    try:
        oldest_ms = client.admin({"do": "describe", "queue": name}, ASK_TIMEOUT_S).get("oldest_ms")
    except Refusal:
        return ""  # the queue has gone meanwhile
    return "" if oldest_ms is None else duration_text(oldest_ms / 1000)


TOP = Command(
    name="top",
    summary="watch what moves in a running broker",
    description=(
        "Shows again and again, until interrupted, for each queue: messages accepted and acked in a second since the "
        "last look, how many are ready, unacked and delayed, its consumers, and the age of the oldest "
        "message that is ready. What moves most stands above, then what is fullest; as many as fit the terminal, or "
        f"{ROWS} where the output goes elsewhere. Then the logs that are appended to, or that a group is behind of."
    ),
    example="radiator top --interval 1\nradiator top --count 3 > looks.txt",
    add_arguments=_arguments,
    run=_run,
)
