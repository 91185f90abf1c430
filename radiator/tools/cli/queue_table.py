"""Shows what `radiator queues` prints with `--sort`, `--top`, `--text` or `--needs`: the first queues in an order."""

import argparse
from typing import Any

from radiator.model.errors import count_text
from radiator.model.limits import NAME_MAX_BYTES, QUEUE_TABLE_ROWS_MAX
from radiator.model.overview import NEEDS, SORTS
from radiator.tools.cli.broker import field, whole_number
from radiator.tools.cli.text import bytes_text, duration_text, table

TOP = 20
USUAL = "-ready"

_HEADS = ("queue", "ready", "unacked", "delayed", "in/s", "out/s", "consumers", "oldest", "size", "why")
_LEAST = ("size", "delayed", "consumers", "oldest")  # which a narrow terminal does not show


def add_table(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `radiator queues` that ask for it."""
    keys = ", ".join(SORTS)
    parser.add_argument(
        "--sort",
        metavar="KEY",
        type=_sort,
        help=f"the first queues by one of {keys}; with - before it, as --sort=-in, the largest first (default of "
        f"--top, --text and --needs: {USUAL})",
    )
    parser.add_argument("--top", metavar="N", type=_top, help=f"that many of them, up to {QUEUE_TABLE_ROWS_MAX}")
    parser.add_argument("--text", metavar="TEXT", type=_text, help="only queues that have it in their names")
    parser.add_argument(
        "--needs", action="store_true", help="only queues that need attention, as `radiator attention` lists them"
    )


def _sort(text: str) -> str:
    if text.removeprefix("-") not in SORTS:
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(SORTS)}, with - before it or without")
    return text


def _top(text: str) -> int:
    number = whole_number(text)
    if number > QUEUE_TABLE_ROWS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {QUEUE_TABLE_ROWS_MAX}")
    return number


def _text(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > NAME_MAX_BYTES:
        raise argparse.ArgumentTypeError(f"it is longer than {NAME_MAX_BYTES} bytes, which no name is")
    return text


def asked_for(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Returns the request; None: `queues` is asked for all of them."""
    if not (arguments.sort or arguments.top or arguments.text or arguments.needs):
        return None
    request = {"do": "queue-table", "sort": arguments.sort or USUAL, "count": arguments.top or TOP}
    if arguments.text:
        request["text"] = arguments.text
    if arguments.needs:
        request["filter"] = NEEDS
    return request


def formed(answer: dict[str, Any]) -> str:
    """Returns the lines of a page."""
    rows, count = field(answer, "queues"), int(field(answer, "count"))
    shown = table(_HEADS, [_row(queue) for queue in rows], least=_LEAST) if rows else "no queue"
    left = count - len(rows)
    return f"{shown}\nand {count_text(left, 'queue')} more" if left > 0 else shown


def _row(queue: dict[str, Any]) -> list[str | int]:
    oldest_ms = queue["oldest_ms"]
    return [
        str(queue["name"]),
        *(int(queue[name]) for name in ("ready", "unacked", "delayed")),
        *("" if queue[name] is None else f"{queue[name]:.1f}" for name in ("in_per_s", "out_per_s")),
        int(queue["consumers"]),
        "" if oldest_ms is None else duration_text(oldest_ms / 1000),
        bytes_text(int(queue["bytes"])),
        f"{queue['verdict']}: {queue['sentence']}",
    ]
