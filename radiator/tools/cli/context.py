"""`radiator context`: which contexts there are, what one of them is, and which is the default."""

import argparse

from radiator.tools.cli.command import Command
from radiator.tools.cli.contexts import EXAMPLE, Contexts, read_contexts, with_current, write
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable, table
from radiator.tools.cli.things import ArgumentWord, Formatter, add_words

_SUMMARIES = {
    "list": "all contexts, the current one with a *",
    "show": "one context: NAME, or the current one",
    "use": "NAME is the current one from now on; nothing else in the file changes",
    "unset": "no context is the current one from now on",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    does = parser.add_subparsers(metavar="WHAT", dest="does", required=True)
    for word, summary in _SUMMARIES.items():
        one = does.add_parser(
            word,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=f"example:\n  radiator context {word}{' prod' * (word in ('show', 'use'))}",
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        add_json(one, "the same as JSON on one line")
        if word in ("show", "use"):
            add_words(one, ArgumentWord("name", "NAME", "of a context", is_needed=word == "use"))


def _run(arguments: argparse.Namespace) -> int:
    found = read_contexts()
    {"list": _list, "show": _show, "use": _use, "unset": _use}[arguments.does](arguments, found)
    return 0


def _list(arguments: argparse.Namespace, found: Contexts) -> None:
    tables = {name: one.table() for name, one in found.named.items()}
    rows = [
        ["*" if name == found.current else "", printable(name), one["broker"], one.get("user", "-")]
        for name, one in tables.items()
    ]
    text = table(["", "context", "broker", "user"], rows) if rows else f"{found.path} has none: write {EXAMPLE}."
    print_answer(arguments, {"file": str(found.path), "current": found.current, "contexts": tables}, text)


def _show(arguments: argparse.Namespace, found: Contexts) -> None:
    name = arguments.name or found.current
    if not name:
        print_answer(arguments, {"name": ""}, "No context is the current one.")
        return
    one = {"name": name, **found.get(name).table()}
    print_answer(arguments, one, "\n".join(f"{key}: {printable(value)}" for key, value in one.items()))


def _use(arguments: argparse.Namespace, found: Contexts) -> None:
    name, was = getattr(arguments, "name", ""), found.current
    if name:
        found.get(name)
    if name != was:
        write(found.path, with_current(found, name))
    back = f"`radiator context {f'use {was}' if was else 'unset'}` takes it back." if name != was else "It was before."
    now = f"The current context is {name}." if name else "No context is the current one."
    print_answer(arguments, {"current": name, "was": was}, f"{now} {back}")


CONTEXT = Command(
    name="context",
    summary="name brokers, and choose the one that commands use",
    description=(
        "A context is a broker with its user, password file and TLS files, under a name of your own, in "
        "~/.config/radiator.toml (or in $XDG_CONFIG_HOME): [context.NAME] with broker, user, password_file, ca, "
        "certificate and key. Commands use the one that --context names, else $RADIATOR_CONTEXT, else the current "
        "one. --broker, --config and $RADIATOR_BROKER take precedence."
    ),
    example="radiator context list\nradiator context use prod",
    add_arguments=_arguments,
    run=_run,
)
