"""`radiator declare`: a queue, an exchange, a fanout or a log, at run time."""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radiator.client import Client
from radiator.model.addresses import EXCHANGE, FANOUT, KINDS, LOG, QUEUE, declared_kinds, name_in
from radiator.model.checks import Check
from radiator.model.settings import EXCHANGE_TYPES, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.validation import EXCHANGE as EXCHANGE_CHECKS
from radiator.model.validation import EXCHANGE_MAY_BE_NONE, LOG_MAY_BE_NONE, MAY_BE_NONE, target_name
from radiator.model.validation import LOG as LOG_CHECKS
from radiator.model.validation import QUEUE as QUEUE_CHECKS
from radiator.tools.cli.broker import add_broker, ask
from radiator.tools.cli.broker import field as field_of
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import TAKERS, ArgumentWord, ByKind, Formatter, Thing, add_words, thing
from radiator.tools.config.avro_schema import schema_in

_SCHEMA = "Avro schema of every body: the path of its file, or its JSON"
_OF_QUEUES = {
    "schema": _SCHEMA,
    "partition_key": "where the key of a message is, by which its order is kept: header:NAME, a JSON pointer such "
    'as /customer/id, or a list such as ["header:a", "/b"]',
    "partition_window": "how many messages of one key may be unacked at once",
    "single_active_consumer": "whether one consumer gets all messages, and others stand by until it has gone",
    "drop_after_redeliveries": "without dead_letter: how often a message comes back before it is dropped",
    "bounds_count": "what max_messages and max_bytes count: stored: all messages; ready: those that are not unacked",
    "max_priority": "the highest priority that a message may have, 1 to 10: the highest is delivered first",
}
_OF_EXCHANGES = {
    "type": f"one of {', '.join(EXCHANGE_TYPES)}",
    "durable": "whether it survives a restart, as do its bindings to persistent queues",
    "auto_delete": "whether it is deleted with its last binding",
    "alternate": "exchange that gets what this one routes nowhere; none: nothing does",
    "internal": "whether it gets messages only from other exchanges, and dead letters",
}
_OF_LOGS = {
    "partitions": "the number of partitions, which never changes",
    "partition_key": "JSON pointer to the key in the body, such as /customer/id; without it the header partition-key",
    "retention_ms": "records that are older are deleted",
    "retention_bytes": "what is beyond this many bytes is deleted, the oldest first; none: nothing is",
    "schema": _SCHEMA,
}


@dataclass(frozen=True, slots=True)
class _Form:
    """The way in which one kind is declared. checks, defaults: those of its settings; help_of: what some of them are,
    in words.
    """

    summary: str
    description: str
    checks: Mapping[str, Check] = field(default_factory=dict)
    defaults: Any = None
    help_of: Mapping[str, str] = field(default_factory=dict)


_FORMS = {
    QUEUE: _Form(
        "a queue, with settings",
        "A queue. Settings that are not given are those that config.toml has for its name, or else the defaults.",
        QUEUE_CHECKS,
        QueueSettings(),
        _OF_QUEUES,
    ),
    EXCHANGE: _Form(
        "an exchange, with its type",
        "An exchange: direct, topic, fanout or headers. `radiator bind` binds queues to it.",
        EXCHANGE_CHECKS,
        ExchangeSettings(),
        _OF_EXCHANGES,
    ),
    FANOUT: _Form(
        "a fanout, with its children",
        "A fanout: what is sent to /fanout/NAME is a copy in each of the queues (or logs, written /log/NAME).",
    ),
    LOG: _Form(
        "a log, with its partitions and retention",
        "A log: appended to by a SEND to /log/NAME, and read as often as wanted until retention takes it away.",
        LOG_CHECKS,
        LogSettings(),
        _OF_LOGS,
    ),
}
_EXAMPLES = (
    "radiator declare queue orders --max-redeliveries 5 --dead-letter orders.dead --create",
    "radiator declare queue cache --persistent false --max-bytes 64MiB --overflow drop-oldest",
    "radiator declare exchange events --type topic",
    "radiator declare fanout news audit mail log clicks --create",
    "radiator declare log clicks --partitions 4 --retention-bytes 10GiB",
)


def _value(key: str, check: Check) -> Any:
    """Returns the type of an option: what the setting takes, as JSON or else as text. For a schema also the path of its
    file.
    """
    if key == "schema":
        check = schema_in(Path())

    def value(text: str) -> Any:
        if text == "none" and key in MAY_BE_NONE | LOG_MAY_BE_NONE | EXCHANGE_MAY_BE_NONE:
            return None
        try:
            written = json.loads(text)
            check(written)
            return written
        except (ValueError, RecursionError):
            pass
        try:
            right = check(thing(text, (QUEUE,)).name if key == "dead_letter" else text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None
        return right if key == "schema" else text

    return value


def _add_settings(parser: argparse.ArgumentParser, form: _Form) -> None:
    for key, check in form.checks.items():
        default = getattr(form.defaults, key)
        shown = "none" if default in (None, ()) else json.dumps(default).strip('"')
        parser.add_argument(
            f"--{key.replace('_', '-')}",
            dest=f"set_{key}",
            metavar="VALUE",
            type=_value(key, check),
            default=argparse.SUPPRESS,
            help=f"{form.help_of.get(key) or f'as {key} in config.toml'}; default {shown}",
        )


def _arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="KIND", dest="kind", required=True, action=ByKind)
    for kind in declared_kinds():
        form = _FORMS.get(kind) or _Form(f"a {kind}", f"A {kind}, which has no settings here.")
        examples = [line for line in _EXAMPLES if line.startswith(f"radiator declare {kind} ")]
        one = kinds.add_parser(
            kind,
            help=form.summary,
            description=form.description,
            epilog="\n  ".join(["example:", *examples]),
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        add_broker(one)
        add_json(one)
        one.add_argument("--passive", action="store_true", help="only check that it exists with these settings")
        name = ArgumentWord("what", "NAME", kinds=(kind,))
        children = ArgumentWord(
            "children", "QUEUE", "each gets a copy", TAKERS, check=target_name, is_needed=False, is_many=True
        )
        add_words(one, name, *([children] if kind == FANOUT else ()))
        if KINDS[kind].leads_by:
            one.add_argument("--create", action="store_true", help="make the queues too that it leads to")
        _add_settings(one, form)


def _run(arguments: argparse.Namespace) -> int:
    kind, name = what = arguments.what
    settings = {key[4:]: value for key, value in vars(arguments).items() if key.startswith("set_")}
    leads_to: list[Thing] = []
    if kind == FANOUT:
        leads_to = arguments.children
        if leads_to or not arguments.passive:
            settings["children"] = [one.address for one in leads_to]
    elif settings.get("dead_letter") is not None:
        leads_to = [Thing(QUEUE, name_in(QUEUE, settings["dead_letter"]))]
    if leads_to and not arguments.passive:
        arguments.things = arguments.made = leads_to
        if kind == QUEUE:
            arguments.fits = _ends_there
    request = {"do": "declare", kind: what.address, **settings}
    if leads_to:
        request["create"] = False
    if arguments.passive:
        request["passive"] = True
    answer = ask(arguments, request)
    done = "declared" if field_of(answer, "created") else "already exists, with these settings"
    print_answer(arguments, answer, f"{kind.capitalize()} {printable(name)} {done}.")
    for sentence in answer.get("warnings", ()):
        print(f"warning: {printable(str(sentence))}", file=sys.stderr)
    return 0


def _ends_there(client: Client, name: str) -> bool:
    """Whether the queue may be named as `dead_letter`, whatever leads there: there is no cycle behind it."""
    settings = field_of(client.admin({"do": "describe", "queue": name}), "settings")
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
