"""`radiator rename`: makes a data directory that of another node."""

import argparse

from radiator.tools.cli.command import Command
from radiator.tools.cli.data import DATA_DIR, add_data, data_of
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, DATA_DIR, ArgumentWord("name", "NAME", "of the node, as `name` in [node] has it"))
    add_data(parser)
    add_json(parser, "`data_dir`, `name` and `was`, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.storage.lmdb.unreadable import last_words
    from radiator.storage.rename import rename

    data_dir = data_of(arguments).directory
    last_words(data_dir)
    before = rename(data_dir, arguments.name)
    was = f"that of the node {before}" if before else "nobody's"
    where = printable(str(data_dir))
    answer = {"data_dir": str(data_dir), "name": arguments.name, "was": before or None}
    text = f"{where} is the data directory of the node {printable(arguments.name)} now; it was {printable(was)}."
    print_answer(arguments, answer, text)
    return 0


RENAME = Command(
    name="rename",
    summary="give a data directory to another node",
    description=(
        "A store keeps the name of its node, and `radiator serve` refuses to serve it as another node, because a "
        "node with the store of another would break all links. This command gives the store, with all that is in "
        "it, to the node NAME. Do so only for good: the other nodes then see NAME with another store. No broker may "
        "run on it."
    ),
    example="radiator rename /var/lib/radiator c",
    add_arguments=_arguments,
    run=_run,
)
