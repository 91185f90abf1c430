"""`radiator describe`: one queue, exchange, fanout or log of a running broker."""

import argparse
from collections.abc import Callable
from typing import Any

from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE, declared_kinds
from radiator.model.errors import count_text
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table, time_text
from radiator.tools.cli.things import ArgumentWord, add_words
from radiator.tools.config import render_table


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("what", "WHAT", kinds=declared_kinds()))


def _run(arguments: argparse.Namespace) -> int:
    kind, name = what = arguments.what
    show(
        arguments,
        lambda: ask(arguments, {"do": "describe", kind: what.address}),
        lambda answer: formed(kind, name, answer),
    )
    return 0


def _queue(name: str, answer: dict[str, Any]) -> str:
    oldest_ms = answer.get("oldest_ms")
    rows: list[list[str]] = [
        ["messages", f"{field(answer, 'messages')} ({bytes_text(int(field(answer, 'bytes')))})"],
        *[[word, str(field(answer, word))] for word in ("ready", "unacked", "delayed", "consumers")],
        *([["checked out", str(answer["checked_out"])]] if answer.get("checked_out") else []),
        *([["exclusive to", f"connection {answer['exclusive_to']}"]] if answer.get("exclusive_to") else []),
        *([["active consumer", _active(answer["active_consumer"])]] if answer.get("active_consumer") else []),
        ["oldest", "none is ready" if oldest_ms is None else f"ready since {duration_text(oldest_ms / 1000)}"],
    ]
    settings = render_table("queue", name, field(answer, "settings")).rstrip("\n")
    return "\n\n".join(filter(None, [table(["queue", name], rows), _bindings(answer, "exchange"), _shown(settings)]))


def _active(consumer: dict[str, Any]) -> str:
    return f"{field(consumer, 'subscription')!r:.80} of connection {field(consumer, 'connection')}"


def _exchange(name: str, answer: dict[str, Any]) -> str:
    traits = [word for word in ("durable", "auto_delete", "internal") if answer.get(word)]
    rows: list[list[str]] = [
        ["type", ", ".join([str(field(answer, "type")), *traits])],
        *([["alternate", str(answer["alternate"])]] if answer.get("alternate") else []),
        ["accepted", str(field(answer, "accepted"))],
        ["unrouted", str(field(answer, "unrouted"))],
    ]
    return "\n\n".join(filter(None, [table(["exchange", name], rows), _bindings(answer, "queue")]))


def _fanout(name: str, answer: dict[str, Any]) -> str:
    rows: list[list[str]] = [
        ["accepted", str(field(answer, "accepted"))],
        ["children", ", ".join(map(str, field(answer, "children")))],
    ]
    return table(["fanout", name], rows)


def _log(name: str, answer: dict[str, Any]) -> str:
    there = field(answer, "partitions")
    columns = ("first", "next", "bytes", "first_ms", "last_ms")
    rows: list[list[str | int]] = [
        [index, first, following, following - first, bytes_text(size), time_text(first_ms), time_text(last_ms)]
        for index, (first, following, size, first_ms, last_ms) in enumerate(
            zip(*(field(there, column) for column in columns), strict=True)
        )
    ]
    groups = [str(group) for group in field(answer, "groups")]
    facts = [
        ["readers", str(field(answer, "readers"))],
        ["groups", ", ".join(groups) or "none"],
        ["incarnation", str(field(answer, "incarnation"))],
    ]
    settings = {key: value for key, value in field(answer, "settings").items() if value is not None}
    return "\n\n".join(
        [
            table(["log", name], facts),
            table(["partition", "first", "next", "records", "size", "oldest", "newest"], rows),
            _shown(render_table("log", name, settings).rstrip("\n")),
        ]
    )


def _bindings(answer: dict[str, Any], other: str) -> str:
    """other: what the bindings are listed with."""
    bindings = field(answer, "bindings")
    if not bindings:
        return "no bindings"
    # a durable subscription to topics is bound to no exchange
    rows = [[str(one["key"]), str(one[other]) or "(topics)"] for one in bindings]
    more = int(answer.get("bindings_count", len(bindings))) - len(bindings)
    return table(["key", other], rows) + (f"\nand {count_text(more, 'binding')} more" if more else "")


def _shown(lines: str) -> str:
    return "\n".join(printable(line) for line in lines.split("\n"))


def formed(kind: str, name: str, answer: dict[str, Any]) -> str:
    """Returns what is shown of it: by its kind, or each number in a line."""
    form = _FORMED.get(kind)
    if form is not None:
        return form(name, answer)
    return table([kind, name], [[word.replace("_", " "), str(value)] for word, value in answer.items() if word != "ok"])


_FORMED: dict[str, Callable[[str, dict[str, Any]], str]] = {
    QUEUE: _queue,
    EXCHANGE: _exchange,
    FANOUT: _fanout,
    LOG: _log,
}


DESCRIBE = Command(
    name="describe",
    summary="show what a queue, an exchange, a fanout or a log is, and its numbers",
    description=(
        "Shows one queue with its numbers, the age of the oldest message that is ready, its bindings, and the settings "
        "that are in force, as a table of config.toml; one exchange with its type, its bindings, and how many messages "
        "it accepted and had no queue for (unrouted); or one fanout with its children. Of bindings the first 1000. "
        "Of a log its partitions, with the first offset that is kept and the next, its readers and groups."
    ),
    example="radiator describe queue orders\nradiator describe exchange amq.topic\nradiator describe /log/clicks",
    add_arguments=_arguments,
    run=_run,
)
