"""`radiator top`: what moves in a running broker, again and again."""

import argparse
import os
import select
import shutil
import signal
import sys
import termios
import textwrap
import time
import tty
from dataclasses import dataclass
from typing import Any

from radiator.client import Client
from radiator.model.errors import count_text
from radiator.tools.cli.broker import ASK_TIMEOUT_S, add_broker, field, seconds, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import CLEAR_SCREEN, add_json, print_answer
from radiator.tools.cli.text import bytes_text, duration_text, table

INTERVAL_S = 2.0
INTERVAL_MIN_S = 0.1
ROWS = 20  # where there is no terminal that says how many fit
_KEYS_AT_ONCE = 64
_LOG_HEADS = ("log", "appended/s", "records", "readers", "most behind")
_HEADS = ("queue", "accepted/s", "acked/s", "ready", "unacked", "delayed", "consumers", "oldest")
_LEAST = ("delayed", "consumers", "accepted/s")  # which a narrow terminal does not show
_LOG_LEAST = ("readers", "records")


_SHOWN = ("ready", "unacked", "delayed", "consumers", "oldest_ms")


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
    add_json(parser, "each look as JSON, on a line")
    parser.add_argument("--count", metavar="N", type=whole_number, help="end after this many looks (default: never)")


def _run(arguments: argparse.Namespace) -> int:
    is_terminal = sys.stdout.isatty() and not arguments.json
    looks = 0
    try:
        with Keys() as keys, Client(arguments.broker) as client:
            before, at_s = client.admin({"do": "stats"}, ASK_TIMEOUT_S), time.monotonic()
            while arguments.count is None or looks < arguments.count:
                if keys.has_ended(arguments.interval):
                    break
                now, now_s = client.admin({"do": "stats"}, ASK_TIMEOUT_S), time.monotonic()
                size = shutil.get_terminal_size() if is_terminal else None
                look = "\n".join(_look(before, now, now_s - at_s, size, keys.are_read))
                seen = _as_json(before, now, now_s - at_s)
                print_answer(arguments, seen, CLEAR_SCREEN + look if is_terminal else f"{look}\n")
                before, at_s = now, now_s
                looks += 1
    except KeyboardInterrupt:
        pass  # a way to end it
    return 0


def _as_json(before: dict[str, Any], now: dict[str, Any], passed_s: float) -> dict[str, Any]:
    """Returns a look with all queues and logs. The rates are in a second."""
    rows, logs, earlier = rows_between(before, now, passed_s), now.get("logs", {}), before.get("logs", {})
    queues = {
        row.name: {
            "accepted_per_s": row.accepted,
            "acked_per_s": row.acked,
            **{name: row.numbers.get(name) for name in _SHOWN},
        }
        for row in rows
    }
    appended = {name: _rate(earlier.get(name, {}), one, "accepted", passed_s) for name, one in logs.items()}
    return {
        **{name: now.get(name) for name in ("uptime_s", "connections", "memory_bytes", "parked")},
        "queues": queues,
        "logs": {
            name: {"appended_per_s": appended[name], **{key: one.get(key) for key in ("records", "readers", "unread")}}
            for name, one in logs.items()
        },
    }


class Keys:
    """The keys of a terminal, one by one and unseen, in a `with` that leaves the terminal as it was; SIGTERM is a
    KeyboardInterrupt meanwhile. If stdin or stdout is not a terminal, there are none.
    """

    def __init__(self) -> None:
        self.are_read = sys.stdin.isatty() and sys.stdout.isatty()
        self._modes: Any = None
        self._handler: Any = None

    def __enter__(self) -> "Keys":
        self._handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        if self.are_read:
            self._modes = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._modes is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)
        signal.signal(signal.SIGTERM, self._handler)

    def has_ended(self, within_s: float) -> bool:
        """Whether `q` was pressed within that many seconds."""
        end_s = time.monotonic() + within_s
        while (left_s := end_s - time.monotonic()) > 0:
            if not self.are_read:
                time.sleep(left_s)
            elif select.select([sys.stdin], [], [], left_s)[0]:
                pressed = os.read(sys.stdin.fileno(), _KEYS_AT_ONCE)
                if b"q" in pressed.lower():
                    return True
                self.are_read = bool(pressed)  # else nobody is at the terminal any more
        return False


def _look(
    before: dict[str, Any], now: dict[str, Any], passed_s: float, size: os.terminal_size | None, has_keys: bool
) -> list[str]:
    """Returns the lines of one look. size: of the terminal, which they fit; None: there is none."""
    rows = rows_between(before, now, passed_s)
    summary = [_summary(before, now, passed_s, rows)]
    logs = _logs(before, now, passed_s)
    most = ROWS
    if size is not None:
        summary = textwrap.wrap(summary[0], size.columns)
        # what is around the rows: their heads, how many more there are, how to end it
        most = max(1, size.lines - len(summary) - 3 - has_keys - (1 if logs else 0))
        logs = logs[: max(1, most // 3)]
        most = max(1, most - len(logs))
    shown: list[list[str | int]] = [
        [row.name, f"{row.accepted:.1f}", f"{row.acked:.1f}", *_counts(row), _oldest(row)] for row in rows[:most]
    ]
    columns = None if size is None else size.columns
    lines = [*summary, table(_HEADS, shown, columns, _LEAST) if shown else "no queues"]
    if logs:
        lines.append(table(_LOG_HEADS, logs[:ROWS], columns, _LOG_LEAST))
    if len(rows) > most:
        lines.append(f"and {count_text(len(rows) - most, 'queue')} more, which move less")
    return [*lines, "q: end"] if has_keys else lines


def _logs(before: dict[str, Any], now: dict[str, Any], passed_s: float) -> list[list[str | int]]:
    """Returns a line for each log that was appended to since the last look, or has somebody behind: the busiest
    first.
    """
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
    """Returns every queue of the second look: first what moves most, then what is fullest."""
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
    """Returns the rate in a second. A count that went back is of a broker, or a queue, that was made anew."""
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


def _oldest(row: _Row) -> str:
    """Returns the age of the oldest message that is ready, in its largest unit."""
    oldest_ms = row.numbers.get("oldest_ms")
    return "" if oldest_ms is None else " ".join(duration_text(oldest_ms / 1000).split()[:2])


TOP = Command(
    name="top",
    summary="watch what moves in a running broker",
    description=(
        "Shows live, until `q` is pressed or it is interrupted, for each queue: messages accepted and "
        "acked in a second since the last look, how many are ready, unacked and delayed, its consumers, "
        "and the age of the oldest message that is ready. The busiest come first, then the fullest; as many "
        f"as fit the terminal, or {ROWS} where the output goes elsewhere. Then the logs that are appended to, or that "
        "a group lags behind. A narrow terminal shows fewer columns."
    ),
    example="radiator top --interval 1\nradiator top --count 3 > looks.txt",
    add_arguments=_arguments,
    run=_run,
)
