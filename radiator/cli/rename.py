"""`radiator rename`: says that a data directory is that of another node."""

import argparse
from pathlib import Path

from radiator.cli.command import Command
from radiator.cli.text import printable


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data_dir", metavar="DATA_DIR", type=Path, help="data directory of a broker that does not run")
    parser.add_argument("name", metavar="NAME", help="of the node, as `name` in [node] has it")


def _run(arguments: argparse.Namespace) -> int:
    from radiator.store.rename import rename
    from radiator.store.unreadable import last_words

    last_words(arguments.data_dir)
    before = rename(arguments.data_dir, arguments.name)
    was = f"that of the node {before}" if before else "nobody's"
    where = printable(str(arguments.data_dir))
    print(f"{where} is the data directory of the node {printable(arguments.name)} now; it was {printable(was)}.")
    return 0


RENAME = Command(
    name="rename",
    summary="say that a data directory is that of another node",
    description=(
        "A store keeps the name of its node, and `radiator serve` refuses it to another one: with somebody else's "
        "disk a node would end all links. This gives the store to the node NAME, with all that is in it. Do it only "
        "for good: to the other nodes it is NAME with another store. No broker may run on it."
    ),
    example="radiator rename /var/lib/radiator c",
    add_arguments=_arguments,
    run=_run,
)
