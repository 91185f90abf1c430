"""`radiator bind` and `unbind`: which queues get what is sent to an exchange."""

import argparse
from typing import Any

from radiator.cli.broker import add_broker, ask, field, name_of, target
from radiator.cli.command import Command
from radiator.cli.text import printable


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument("exchange", metavar="EXCHANGE", type=name_of("exchange"), help="name of the exchange")
    parser.add_argument("key", metavar="KEY", help='the key; "" where it does not matter (type fanout)')
    parser.add_argument("queue", metavar="QUEUE", type=target, help="name of the queue, or /log/NAME")


def _request(arguments: argparse.Namespace, do: str) -> dict[str, Any]:
    return {"do": do, "exchange": arguments.exchange, "key": arguments.key, "queue": arguments.queue}


def _said(arguments: argparse.Namespace, bound: str) -> str:
    queue, exchange, key = (printable(text) for text in (arguments.queue, arguments.exchange, arguments.key))
    kind = "Log" if queue.startswith("/log/") else "Queue"
    return f"{kind} {queue} {bound} exchange {exchange} with the key {key!r}."


def _run_bind(arguments: argparse.Namespace) -> int:
    created = field(ask(arguments, _request(arguments, "bind")), "created")
    print(_said(arguments, "is bound to" if created else "was bound already to"))
    return 0


def _run_unbind(arguments: argparse.Namespace) -> int:
    deleted = field(ask(arguments, _request(arguments, "unbind")), "deleted")
    print(_said(arguments, "is bound no more to" if deleted else "was not bound to"))
    return 0


BIND = Command(
    name="bind",
    summary="have a queue get what is sent to an exchange",
    description=(
        "What is sent to /exchange/EXCHANGE/K goes into the queue too, from now on, where KEY matches K: the very same "
        "key (direct), words between dots with * for one and # for any number (topic), any key (fanout). The binding "
        "outlives a restart where exchange and queue do. Binding twice is no mistake."
    ),
    example="radiator bind events 'orders.#' audit\nradiator bind amq.fanout '' mail",
    add_arguments=_arguments,
    run=_run_bind,
)

UNBIND = Command(
    name="unbind",
    summary="take such a binding back",
    description=(
        "Takes back one binding: the same exchange, key and queue as with `bind`. What is in the queue stays there. "
        "Refused for a binding of config.toml."
    ),
    example="radiator unbind events 'orders.#' audit",
    add_arguments=_arguments,
    run=_run_unbind,
)
