"""The writes that may be asked of the disk: plain data."""

from dataclasses import fields, is_dataclass

from radiator.model import writes
from radiator.model.writes import Declare, Remove, Retire

WRITES = [one for one in vars(writes).values() if isinstance(one, type) and one.__module__ == writes.__name__]


def test_each_is_plain_data_without_room_for_more() -> None:
    assert len(WRITES) > 30
    for one in WRITES:
        assert is_dataclass(one) and one.__doc__ and set(one.__slots__) == {field.name for field in fields(one)}


def test_they_are_compared_by_what_they_say() -> None:
    assert Remove(1, 2) == Remove(1, 2) != Remove(1, 3)
    assert Declare(1, "q") != Retire(1, "q", 0)
