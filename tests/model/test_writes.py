"""The writes that may be asked of the disk: the ledger of a queue, when its columns balance."""

from dataclasses import fields, replace

import pytest

from radiator.model.writes import Ledger

FULL = Ledger(
    accepted=21, accepted_bytes=210, stored=6, stored_bytes=60, acked=5, acked_bytes=50, expired=4, expired_bytes=40,
    dropped=3, dropped_bytes=30, purged=2, purged_bytes=20, dead_lettered=1, dead_lettered_bytes=10,
    stored_expiring=6, stored_delayed=6, stored_delayed_bytes=60,
)  # fmt: skip
BALANCED = [
    field.name for field in fields(Ledger) if not field.name.startswith("stored_") or field.name == "stored_bytes"
]


def test_what_was_accepted_is_stored_or_has_left_by_one_column() -> None:
    assert Ledger().adds_up() and FULL.adds_up()


@pytest.mark.parametrize("column", BALANCED)
@pytest.mark.parametrize("change", [-1, 1])
def test_one_more_or_less_in_any_column_does_not_balance(column: str, change: int) -> None:
    assert not replace(FULL, **{column: getattr(FULL, column) + change}).adds_up()


@pytest.mark.parametrize("column", ["stored_expiring", "stored_delayed", "stored_delayed_bytes"])
def test_of_what_is_stored_no_more_than_all_expires_or_is_delayed(column: str) -> None:
    most = getattr(FULL, column)
    assert replace(FULL, **{column: 0}).adds_up()
    assert not replace(FULL, **{column: most + 1}).adds_up()
    assert not replace(FULL, **{column: -1}).adds_up()


def test_no_column_is_negative_though_both_sides_are() -> None:
    assert not Ledger(accepted=-1, acked=-1).adds_up()


def test_a_copy_stays_as_it_was() -> None:
    ledger = replace(FULL)
    copy = ledger.copy()
    ledger.accept(5, 0)
    assert copy == FULL and ledger.accepted == copy.accepted + 1
