"""The data directory that a command reads: `--data DATA_DIR`, or `--config FILE`, whose data_dir it is."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from radiator.model.errors import ConfigError, Refusal
from radiator.model.settings import Config
from radiator.tools.cli.things import ArgumentWord, config_for

if TYPE_CHECKING:
    from radiator.tools.archive.source import Source

NO_PYARROW = 'An archive needs pyarrow: `pip install "pyarrow>=18,<27"` into the Python that radiator runs with.'


class Data(NamedTuple):
    """node: its name by the configuration; "" where there is none, or it was not asked."""

    directory: Path
    node: str = ""


def _in_directory(text: str) -> Data:
    return Data(Path(text))


def _of_config(config: Config) -> Data:
    return Data(config.data_dir, config.node.name if config.node is not None else "")


DATA_DIR = ArgumentWord("data", "DATA_DIR", "as --data has it", read=_in_directory, is_needed=False)
"""For commands that take it without `--data` too."""


def add_data(parser: argparse.ArgumentParser, archive: bool = False) -> None:
    """Adds the options for where the data are. archive: also for what of them is archived (`--archive`)."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--config",
        metavar="FILE",
        dest="data",
        type=config_for(_of_config),
        help="the broker's config.toml: where its data are",
    )
    where.add_argument("--data", metavar="DATA_DIR", type=_in_directory, help="the broker's data directory")
    if archive:
        where.add_argument("--archive", metavar="DIR", type=Path, help="what `radiator archive` has written")


def data_of(arguments: argparse.Namespace) -> Data:
    """Returns where the data are. Raises ConfigError where nothing says so."""
    data: Data | None = arguments.data
    if data is None:
        also = ", or --archive DIR" if "archive" in arguments else ""
        raise ConfigError([f"Where are the data? Say --data DATA_DIR, or --config FILE{also}."])
    return data


@contextmanager
def store_of(arguments: argparse.Namespace) -> "Iterator[tuple[Source, str]]":
    """Opens the store for reading, and gives it with the name of its node, if the configuration has one. Raises
    StoreError, ConfigError.
    """
    from radiator.storage.lmdb.unreadable import last_words
    from radiator.tools.archive.source import Source

    data = data_of(arguments)
    last_words(data.directory)
    with Source(data.directory) as source:
        yield source, data.node


def without_pyarrow(missing: ModuleNotFoundError) -> Refusal:
    """Returns the sentence for it. Raises the error itself where something else is missing."""
    if missing.name != "pyarrow":
        raise missing
    return Refusal("no-pyarrow", NO_PYARROW)
