"""How damage is told: the file, and what to do."""

from pathlib import Path

import lmdb
import pytest

from radiator.model.errors import Contradiction, StoreError
from radiator.storage.lmdb.damage import CHECK_HINT, contradiction, reading_tables

FILE = Path("/data/data.mdb")


def test_a_contradiction_names_the_file_and_what_to_run() -> None:
    error = contradiction(FILE, "queue 1 is there twice")
    assert isinstance(error, Contradiction)
    assert str(error) == f"In {FILE} queue 1 is there twice. That is damage, or a bug in Radiator. {CHECK_HINT}."


def test_what_lmdb_cannot_read_is_damage() -> None:
    with pytest.raises(StoreError, match=f"{FILE} cannot be read: .*`radiator check`"), reading_tables(FILE):
        raise lmdb.CorruptedError("page 5")


def test_what_is_no_error_of_lmdb_goes_through() -> None:
    with pytest.raises(ValueError, match="mine"), reading_tables(FILE):
        raise ValueError("mine")
    with reading_tables(FILE):
        pass
