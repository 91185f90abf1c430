"""`radiator declare`: a queue, an exchange, a fanout or a log, at run time."""

import argparse
import json
import sys
from typing import Any

from radiator.client import Client
from radiator.model.addresses import name_in
from radiator.model.settings import EXCHANGE_TYPES, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.validation import EXCHANGE, LOG, LOG_MAY_BE_NONE, MAY_BE_NONE, QUEUE, Check, target_name
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, tell
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import TAKERS, ByKind, Formatter, Thing, Word, add_words, thing

_KINDS = {
    "queue": (
        "a queue, with settings",
        "A queue. Settings that are not given are those that config.toml has for its name, or else the defaults.",
    ),
    "exchange": (
        "an exchange, with its type",
        "An exchange: direct, topic or fanout. `radiator bind` binds queues to it.",
    ),
    "fanout": (
        "a fanout, with its children",
        "A fanout: what is sent to /fanout/NAME is a copy in each of the queues (or logs, written /log/NAME).",
    ),
    "log": (
        "a log, with its partitions and retention",
        "A log: appended to by a SEND to /log/NAME, and read as often as wanted until retention takes it away.",
    ),
}
_OF_EXCHANGES = {
    "type": f"one of {', '.join(EXCHANGE_TYPES)}",
    "durable": "whether it outlives a restart, and its bindings to persistent queues with it",
    "auto_delete": "whether it goes with its last binding",
}
_OF_LOGS = {
    "partitions": "how many partitions; it never changes",
    "partition_key": "JSON pointer to the key in the body, such as /customer/id; without it the header partition-key",
    "retention_ms": "what is older goes",
    "retention_bytes": "what is beyond so many bytes goes, the oldest first; none: nothing does",
}
_EXAMPLES = (
    "radiator declare queue orders --max-redeliveries 5 --dead-letter orders.dead --create",
    "radiator declare queue cache --persistent false --max-bytes 64MiB --overflow drop-oldest",
    "radiator declare exchange events --type topic",
    "radiator declare fanout news audit mail log clicks --create",
    "radiator declare log clicks --partitions 4 --retention-bytes 10GiB",
)


def _value(key: str, check: Check) -> Any:
    """The type of an option: what the setting takes, as JSON or else as text."""

    def value(text: str) -> Any:
        if text == "none" and key in MAY_BE_NONE | LOG_MAY_BE_NONE:
            return None
        try:
            written = json.loads(text)
            check(written)
            return written
        except (ValueError, RecursionError):
            pass
        try:
            check(thing(text, ("queue",)).name if key == "dead_letter" else text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None
        return text

    return value


def _add_settings(
    parser: argparse.ArgumentParser, checks: dict[str, Check], defaults: Any, said_of: dict[str, str]
) -> None:
    for key, check in checks.items():
        default = getattr(defaults, key)
        said = "none" if default is None else json.dumps(default).strip('"')
        parser.add_argument(
            f"--{key.replace('_', '-')}",
            dest=f"set_{key}",
            metavar="VALUE",
            type=_value(key, check),
            default=argparse.SUPPRESS,
            help=f"{said_of.get(key) or f'as {key} in config.toml'}; default {said}",
        )


def _arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="KIND", dest="kind", required=True, action=ByKind)
    for kind, (summary, description) in _KINDS.items():
        examples = [line for line in _EXAMPLES if line.startswith(f"radiator declare {kind} ")]
        one = kinds.add_parser(
            kind,
            help=summary,
            description=description,
            epilog="\n  ".join(["example:", *examples]),
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        add_broker(one)
        add_json(one)
        one.add_argument("--passive", action="store_true", help="only ask whether it is there, and just so")
        name = Word("what", "NAME", kinds=(kind,))
        children = Word(
            "children", "QUEUE", "each gets a copy", TAKERS, check=target_name, is_needed=False, is_many=True
        )
        add_words(one, name, *([children] if kind == "fanout" else ()))
        if kind in ("queue", "fanout"):
            one.add_argument("--create", action="store_true", help="make the queues too that it leads to")
        if kind == "queue":
            _add_settings(one, QUEUE, QueueSettings(), {})
        elif kind == "exchange":
            _add_settings(one, EXCHANGE, ExchangeSettings(), _OF_EXCHANGES)
        elif kind == "log":
            _add_settings(one, LOG, LogSettings(), _OF_LOGS)


def _run(arguments: argparse.Namespace) -> int:
    kind, name = what = arguments.what
    settings = {key[4:]: value for key, value in vars(arguments).items() if key.startswith("set_")}
    leads_to: list[Thing] = []
    if kind == "fanout":
        leads_to = arguments.children
        if leads_to or not arguments.passive:
            settings["children"] = [one.address for one in leads_to]
    elif settings.get("dead_letter") is not None:
        leads_to = [Thing("queue", name_in("queue", settings["dead_letter"]))]
    if leads_to and not arguments.passive:
        arguments.things = arguments.made = leads_to
        if kind == "queue":
            arguments.fits = _ends_there
    request = {"do": "declare", kind: what.address, **settings}
    if leads_to:
        request["create"] = False
    if arguments.passive:
        request["passive"] = True
    answer = ask(arguments, request)
    done = "declared" if field(answer, "created") else "was there already, just so"
    tell(arguments, answer, f"{kind.capitalize()} {printable(name)} {done}.")
    for sentence in answer.get("warnings", ()):
        print(f"warning: {printable(str(sentence))}", file=sys.stderr)
    return 0


def _ends_there(client: Client, name: str) -> bool:
    """Whether the queue may be named as `dead_letter`, whatever leads there: there is no cycle behind it."""
    settings = field(client.admin({"do": "describe", "queue": name}), "settings")
    return settings["persistent"] and settings["dead_letter"] is None


DECLARE = Command(
    name="declare",
    summary="declare a queue, an exchange, a fanout or a log at run time",
    description=(
        "Makes a queue, an exchange, a fanout or a log on a running broker, as config.toml could declare it; it "
        "outlives a restart where it is persistent or durable. Queues that it leads to must be there, or --create "
        "makes them. Declaring the same again is no mistake; otherwise it is refused. `radiator declare KIND --help` "
        "lists the settings. `radiator delete` takes it back."
    ),
    example="\n".join(_EXAMPLES),
    add_arguments=_arguments,
    run=_run,
)
