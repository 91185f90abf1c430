"""`radiator bind` and `unbind`: which queues get what is sent to an exchange."""

import argparse
from typing import Any

from radiator.model.addresses import EXCHANGE
from radiator.model.header_bindings import readable
from radiator.model.validation import has_arguments
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import TAKERS, ArgumentWord, add_words


def _add(parser: argparse.ArgumentParser, is_made: bool) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser,
        ArgumentWord("exchange", "EXCHANGE", kinds=(EXCHANGE,)),
        ArgumentWord("key", "KEY", '"" where it does not matter (type fanout)'),
        ArgumentWord("queue", "QUEUE", kinds=(*TAKERS, EXCHANGE), is_made=is_made),
    )


def _ask(arguments: argparse.Namespace, do: str) -> dict[str, Any]:
    exchange, queue = arguments.exchange.address, arguments.queue.address
    return ask(arguments, {"do": do, "exchange": exchange, "key": arguments.key, "queue": queue})


def _sentence(arguments: argparse.Namespace, bound: str) -> str:
    kind, name = arguments.queue
    exchange, key = printable(arguments.exchange.name), printable(arguments.key)
    by = f"the arguments {readable(arguments.key)}" if has_arguments(arguments.key) else f"the key {key!r}"
    return f"{kind.capitalize()} {printable(name)} {bound} exchange {exchange} with {printable(by)}."


def _run_bind(arguments: argparse.Namespace) -> int:
    answer = _ask(arguments, "bind")
    print_answer(
        arguments, answer, _sentence(arguments, "is bound to" if field(answer, "created") else "was bound already to")
    )
    return 0


def _run_unbind(arguments: argparse.Namespace) -> int:
    answer = _ask(arguments, "unbind")
    print_answer(
        arguments,
        answer,
        _sentence(arguments, "is no longer bound to" if field(answer, "deleted") else "was not bound to"),
    )
    return 0


BIND = Command(
    name="bind",
    summary="let a queue get what is sent to an exchange",
    description=(
        "From now on, what is sent to /exchange/EXCHANGE/K goes into the queue too if KEY matches K: exactly the "
        "same key (direct), words between dots with * for one and # for any number (topic), any key (fanout). For "
        "type headers, KEY is the arguments as JSON, with x-match all or any. With /exchange/NAME as QUEUE, "
        "messages go to that exchange with the same key. The binding survives a restart if the exchange and the "
        "queue do. Binding twice is not a mistake. The queue must exist, or --create makes it."
    ),
    example="radiator bind events 'orders.#' audit\nradiator bind amq.fanout '' /log/mail\n"
    "radiator bind amq.headers '{\"format\":\"pdf\"}' prints\nradiator bind events 'orders.#' /exchange/orders",
    add_arguments=lambda parser: _add(parser, is_made=True),
    run=_run_bind,
)

UNBIND = Command(
    name="unbind",
    summary="remove such a binding",
    description=(
        "Removes one binding: the same exchange, key and queue as with `bind`. What is in the queue stays there. "
        "Refused for a binding of config.toml."
    ),
    example="radiator unbind events 'orders.#' audit",
    add_arguments=lambda parser: _add(parser, is_made=False),
    run=_run_unbind,
)
