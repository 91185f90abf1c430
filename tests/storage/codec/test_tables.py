"""Which tables a store of each format has."""

import pytest

from radiator.storage.codec import records
from radiator.storage.codec.tables import ADDED, TABLES, tables_of


def test_the_present_format_has_all() -> None:
    assert tables_of(records.FORMAT) == TABLES
    assert len(set(TABLES)) == len(TABLES)


@pytest.mark.parametrize("number", [*ADDED])
def test_each_format_adds_its_own(number: int) -> None:
    assert set(tables_of(number)) - set(tables_of(number - 1)) == set(ADDED[number])
    assert set(tables_of(number - 1)) < set(tables_of(number))


def test_the_first_format_has_what_none_has_added() -> None:
    assert not set(tables_of(1)) & {name for names in ADDED.values() for name in names}
