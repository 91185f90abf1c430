"""`radiator delete`: a queue, an exchange, a fanout or a log of a running broker."""

import argparse
from typing import Any

from radiator.cli.broker import CHANGE_TIMEOUT_S, KINDS, add_broker, ask, field, name_of
from radiator.cli.command import Command
from radiator.cli.text import printable
from radiator.errors import count_text


class _What(argparse.Action):
    """One word is the name of a queue; two are a kind and a name."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        kind, name = ("queue", values[0]) if len(values) == 1 else (values[0], values[-1])
        if len(values) > 2 or kind not in KINDS:
            parser.error(f"it is NAME, or one of {', '.join(KINDS)} and NAME; not {' '.join(values)!r}")
        try:
            namespace.kind, namespace.name = kind, name_of(kind)(name)
        except argparse.ArgumentTypeError as wrong:
            parser.error(str(wrong))


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument("name", metavar="[KIND] NAME", nargs="+", action=_What, help=f"KIND: {', '.join(KINDS)}")
    parser.add_argument("--if-empty", action="store_true", help="a queue: only if it holds no message")
    parser.add_argument("--used", action="store_true", help="a queue: also if it has consumers; they get no more")


def _run(arguments: argparse.Namespace) -> int:
    kind, name = arguments.kind, arguments.name
    request: dict[str, Any] = {"do": "delete", kind: name}
    if kind == "queue":
        request |= {"if_empty": arguments.if_empty, "if_unused": not arguments.used}
    deleted = field(ask(arguments, request, CHANGE_TIMEOUT_S), "deleted")
    if kind == "queue":
        print(f"{printable(name)} deleted, and {count_text(deleted, 'message')} in it.")
    elif kind == "log":
        print(f"Log {printable(name)} deleted, and {count_text(deleted, 'record')} in it.")
    else:
        print(f"{kind.capitalize()} {printable(name)} deleted.")
    return 0


DELETE = Command(
    name="delete",
    summary="delete a queue or a log and what is in it, an exchange, or a fanout",
    description=(
        "Deletes a queue and its messages for good. Refused while it has consumers (unless --used) or unacked "
        "messages. An exchange goes with its bindings; queues that were bound to it stay, as do the children of a "
        "fanout. A log goes with its records, unless it has readers. Refused for what is declared in config.toml."
    ),
    example=(
        "radiator delete orders.old\nradiator delete queue replies --if-empty\n"
        "radiator delete exchange events\nradiator delete log clicks"
    ),
    add_arguments=_arguments,
    run=_run,
)
