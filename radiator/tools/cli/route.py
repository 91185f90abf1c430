"""`radiator route`: where a message would go that is sent to an exchange."""

import argparse
from typing import Any

from radiator.model.addresses import EXCHANGE
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import printable, table
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(
        parser,
        ArgumentWord("exchange", "EXCHANGE", kinds=(EXCHANGE,)),
        ArgumentWord("key", "KEY", help="that of the message; without it the empty one", is_needed=False),
    )


def _run(arguments: argparse.Namespace) -> int:
    request = {"do": "route", "exchange": arguments.exchange.address, "key": arguments.key or ""}
    show(arguments, lambda: ask(arguments, request), _formed)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    sentence, targets = printable(str(field(answer, "sentence"))), field(answer, "targets")
    if not targets:
        return sentence
    more = int(field(answer, "count")) - len(targets)
    rows = [[str(one["destination"]), str(one["key"]), " ".join(one.get("through", ()))] for one in targets]
    columns = ["destination", "by the key", "through"]
    if not any(through for _, _, through in rows):
        columns, rows = columns[:2], [row[:2] for row in rows]
    return f"{sentence}\n\n{table(columns, rows)}" + (f"\nand {more} more" if more > 0 else "")


ROUTE = Command(
    name="route",
    summary="say where a message that is sent to an exchange with a key goes",
    description=(
        "Lists the queues and logs that a message sent to the exchange with that key goes into, by its bindings as "
        "they are now: the first 1000 of them, each with the key of a binding that matches and the other exchanges "
        "that it goes through. Or it says what becomes of a message that no binding matches. Nothing is sent."
    ),
    example="radiator route events orders.new\nradiator route /exchange/amq.fanout",
    add_arguments=_arguments,
    run=_run,
)
