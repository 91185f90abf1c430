"""`radiator bounds`: every bound of the whole broker, and how much of it is in use."""

import argparse
from typing import Any

from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, table

_HEADS = ("bound", "used", "limit", "%", "what happens there")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)


def _run(arguments: argparse.Namespace) -> int:
    show(arguments, lambda: ask(arguments, {"do": "bounds"}), _formed)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    return table(_HEADS, [_row(one) for one in field(answer, "bounds")])


def _row(one: dict[str, Any]) -> list[str | int]:
    name, limit, used, unit = (field(one, key) for key in ("name", "limit", "used", "unit"))
    least = "at least " * bool(one.get("is_least"))
    share = "" if not limit or used is None or least else f"{100 * used / limit:.0f}"
    return [str(name), _count(used, unit), least + _count(limit, unit), share, str(field(one, "reached"))]


def _count(count: int | None, unit: str) -> str:
    """ "-": there is none, or it is not known."""
    if count is None:
        return "-"
    return bytes_text(count) if unit == "bytes" else f"{count} {unit}"


BOUNDS = Command(
    name="bounds",
    summary="show every bound of the broker, and how much of it is in use",
    description=(
        "One line for each bound of the whole broker: what is in use, the bound, how full it is in percent, and what "
        "happens when it is reached. If each user, client or node has the bound (as users have max_leases), it shows "
        "the highest usage. `-`: no bound, or not known."
    ),
    example="radiator bounds",
    add_arguments=_arguments,
    run=_run,
)
