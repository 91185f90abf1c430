"""Where `audit` and `explain` find a journal: `--config`, `--data` or `--archive`."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from radiator.config import load
from radiator.errors import Refusal

if TYPE_CHECKING:
    from radiator.archive.source import Source

NO_PYARROW = 'An archive needs pyarrow: `pip install "pyarrow>=18,<27"` into the Python that radiator runs with.'


def add_journal(parser: argparse.ArgumentParser) -> None:
    """Where the journal is: one of three."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", metavar="FILE", type=Path, help="the broker's config.toml: where its data is")
    where.add_argument("--data", metavar="DATA_DIR", type=Path, help="the broker's data directory")
    where.add_argument("--archive", metavar="DIR", type=Path, help="what `radiator archive` has written")


@contextmanager
def store_of(arguments: argparse.Namespace) -> "Iterator[tuple[Source, str]]":
    """The store of `--config` or `--data`, opened for reading, and the name of its node, if the configuration has one.
    Raises StoreError, ConfigError.
    """
    from radiator.archive.source import Source
    from radiator.store.unreadable import last_words

    data_dir, node = arguments.data, ""
    if data_dir is None:
        config = load(arguments.config)
        data_dir = config.data_dir
        node = config.node.name if config.node is not None else ""
    last_words(data_dir)
    with Source(data_dir) as source:
        yield source, node


def without_pyarrow(missing: ModuleNotFoundError) -> Refusal:
    """The sentence for it. Raises the error itself where something else is missing."""
    if missing.name != "pyarrow":
        raise missing
    return Refusal("no-pyarrow", NO_PYARROW)
