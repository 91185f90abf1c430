"""`radiator explain`: one message's whole story, or that of all messages of a trace or of a correlation-id."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from radiator.model.correlations import correlation_id_in
from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, ConfigError, count_text
from radiator.model.story import (
    TRACED_MAX,
    Happened,
    message_id_in,
    nothing_of_correlation,
    nothing_of_message,
    nothing_of_trace,
)
from radiator.model.traces import trace_id_in
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import add_data, store_of, without_pyarrow
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json
from radiator.tools.cli.text import bytes_text, printable

if TYPE_CHECKING:
    from radiator.tools.audit.story import Teller

_LINES = 40  # shown of a longer story: its beginning and its end


def _read_by(read: Callable[[str], str]) -> Callable[[str], str]:
    """Returns a type of argument that reads a text by `read`, which raises ValueError with a sentence."""

    def value_of(text: str) -> str:
        try:
            return read(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return value_of


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser, archive=True)
    parser.add_argument(
        "message_id", metavar="MESSAGE-ID", nargs="?", type=_read_by(message_id_in), help="as MESSAGE has it, or `peek`"
    )
    parser.add_argument(
        "--trace",
        metavar="TRACE-ID",
        type=_read_by(trace_id_in),
        help="instead: the messages of this trace; or a whole traceparent",
    )
    parser.add_argument(
        "--correlation-id",
        metavar="ID",
        type=_read_by(correlation_id_in),
        help="instead: the messages with this header `correlation-id`, as Celery's task id is one",
    )
    add_json(parser, "its events as JSON, one a line")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.tools.audit.story import StoredTeller

    given = (arguments.message_id, arguments.trace, arguments.correlation_id)
    if sum(one is not None for one in given) != 1:
        raise ConfigError(["Explain what? Say MESSAGE-ID, --trace TRACE-ID or --correlation-id ID: one of them."])
    if arguments.archive is None:
        with store_of(arguments) as (source, node), Progress("explain") as progress:
            happened = _found(arguments, StoredTeller(source, node, progress))
            store_id = source.store_id
    else:
        try:
            from radiator.tools.audit.archived import ArchivedTeller
        except ModuleNotFoundError as missing:
            raise without_pyarrow(missing) from None
        with Progress("explain") as progress:
            teller = ArchivedTeller(arguments.archive, progress)
            happened, store_id = _found(arguments, teller), teller.store_id
    return _print(arguments, happened, store_id)


def _found(arguments: argparse.Namespace, teller: "Teller") -> list[Happened]:
    """Returns all events of what was asked for."""
    from radiator.tools.audit.story import messages_of, story

    if arguments.message_id is not None:
        return story(teller, {arguments.message_id})
    if arguments.trace is not None:
        found, what = teller.traced(arguments.trace), f"Trace {arguments.trace}"
    else:
        found = teller.correlated(arguments.correlation_id)
        what = f"The correlation-id {printable(arguments.correlation_id)}"
    ids, are_more = messages_of(found)
    if are_more:
        print(f"radiator: {what} has more than {TRACED_MAX} messages: these are the first.", file=sys.stderr)
    return story(teller, ids)


def _print(arguments: argparse.Namespace, happened: list[Happened], store_id: str) -> int:
    if arguments.json:
        for one in happened:
            print(json.dumps(asdict(one)))
    elif happened:
        print("\n".join(_lines(happened)))
    elif arguments.message_id is not None:
        print(nothing_of_message(arguments.message_id, store_id))
    elif arguments.trace is not None:
        print(nothing_of_trace(arguments.trace))
    else:
        print(nothing_of_correlation(arguments.correlation_id))
    return 0 if happened else EXIT_REFUSED


def _lines(happened: list[Happened]) -> list[str]:
    by_message: dict[str, list[Happened]] = {}
    for one in happened:
        by_message.setdefault(one.message_id, []).append(one)
    lines: list[str] = []
    for message_id, events in by_message.items():
        lines.append(f"{message_id}:")
        for one in events:
            at = datetime.fromtimestamp(one.ms / 1000).astimezone().isoformat(" ", "milliseconds")
            where = f" on {printable(one.node)}" if one.node else ""
            lines.append(f"  {at}  {printable(_sentence(one))}{where}")
    if len(lines) > _LINES:
        half = _LINES // 2
        lines[half:-half] = [f"  ... {len(lines) - 2 * half} more (--json has all)"]
    return lines


def _sentence(one: Happened) -> str:
    """Returns an event as a sentence."""
    saying = _SAYINGS.get(one.event)
    if saying is None:
        return " ".join(filter(None, [one.event, one.queue, one.client, one.reason]))
    return saying(one)


def _accepted(one: Happened) -> str:
    text = f"accepted in {one.queue} ({bytes_text(one.bytes)})"
    text += f", sent to {one.address}" if one.address else ""
    if one.reason == "handed-over":
        text += f", handed over by {one.client}"
    elif one.other_id:
        text += f", as {one.reason} of {one.other_id} in {one.other_queue}"
    text += f", traceparent {one.traceparent}" if one.traceparent else ""
    return f"{text}, correlation-id {one.correlation_id}" if one.correlation_id else text


def _acked(one: Happened) -> str:
    if one.reason == "handed-over":
        return f"handed over to {one.client}, which has it on its disk"
    if one.reason == "written":
        return f"written to {one.client}, which counts as acked (ack:auto)"
    return f"acked by {one.client}"


def _delivered(one: Happened) -> str:
    again = f", redelivery {one.attempt}" if one.attempt else ""
    return f"delivered to {one.client}{again}"


def _because(one: Happened) -> str:
    return f" ({one.reason})" if one.reason else ""


def _delayed(one: Happened) -> str:
    due = datetime.fromtimestamp(one.number / 1000).astimezone().isoformat(" ", "milliseconds")
    return f"kept back until {due}"


_SAYINGS: dict[str, Callable[[Happened], str]] = {
    "accepted": _accepted,
    "fanout-copy": lambda one: (
        f"one of {count_text(one.number, 'copy', 'copies')} of {one.other_id}, sent to {one.address}"
    ),
    "delivered": _delivered,
    "acked": _acked,
    "nacked": lambda one: f"given back by {one.client}{_because(one)}",
    "returned": lambda one: f"returned by {one.client}{_because(one)}",
    "delayed": _delayed,
    "set-aside": lambda one: f"set aside in {one.queue}: no link can carry it to another node",
    "due": lambda one: "its time has come",
    "expired": lambda one: "expired, and was removed",
    "dead-lettered": lambda one: (
        f"dead-lettered{_because(one)} to {one.other_queue}"
        + (f" by {one.address}" if one.address else "")
        + (f", as {one.other_id}" if one.other_id else "")
    ),
    "dropped": lambda one: f"dropped{_because(one)}, and is not a dead letter",
    "purged": lambda one: f"purged from {one.queue} by an operator",
    "moved": lambda one: f"moved to {one.other_queue}" + (f", as {one.other_id}" if one.other_id else ""),
    "checked-out": lambda one: f"checked out by group {one.client}, into {one.other_queue}",
}

EXPLAIN = Command(
    name="explain",
    summary="say what became of one message, or of a trace, or of a task",
    description=(
        "Says from the journal, of a store or of an archive, what became of one message: when it was accepted, to "
        "whom it was delivered, whether it was redelivered, and how it ended; for a dead letter or a moved message "
        "also what it was before, and what became of it afterwards. With --trace it does the same for the first "
        "1000 messages whose header `traceparent` has that trace id, and with --correlation-id for those with that "
        "header `correlation-id`, which for a Celery task is its task id."
    ),
    example=(
        "radiator explain --config config.toml 4f0c2a91b7d3e865-3-17\n"
        "radiator explain --archive /archive 4f0c2a91b7d3e865-3-17\n"
        "radiator explain --config config.toml --trace 4bf92f3577b34da6a3ce929d0e0e4736\n"
        "radiator explain --config config.toml --correlation-id 6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11"
    ),
    add_arguments=_arguments,
    run=_run,
    failed=EXIT_USAGE,
)
