"""Reports damage of a store, wherever it is found: a sentence with the file, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from radiator.model.errors import Contradiction, StoreError

CHECK_HINT = (
    "Run `radiator check` on it; `radiator backup` and `radiator restore` make a store of what is sound, unless the "
    "file itself is damaged"
)


def contradiction(file: Path, clause: object) -> Contradiction:
    """Stored rows contradict each other, or a write contradicts them."""
    return Contradiction(f"In {file} {clause}. That is damage, or a bug in Radiator. {CHECK_HINT}.")


# a Cursor raises SystemError for some damaged pages
UNREADABLE = (lmdb.Error, SystemError)


def unreadable(file: Path, error: Exception) -> StoreError:
    """LMDB itself cannot read on: `error` is one of UNREADABLE."""
    return StoreError(f"{file} cannot be read: {error}. {CHECK_HINT}.")


@contextmanager
def reading_tables(file: Path) -> Iterator[None]:
    """Raises StoreError where LMDB itself cannot read on."""
    try:
        yield
    except UNREADABLE as error:
        raise unreadable(file, error) from error
