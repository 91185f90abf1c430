"""A record as one of its readers has it."""

from types import SimpleNamespace
from typing import Any

from radiator.core.logs.record import Record
from radiator.core.states import State
from radiator.model.replies import RecordPlace
from tests.core.bare import message


def test_a_record_knows_where_it_lies_and_what_its_group_has_missed() -> None:
    cursor: Any = SimpleNamespace(index=3)
    given = message(b"12345")
    one = Record(cursor, 70, given, redelivered=True, skipped=2)
    assert one.place == RecordPlace(3, 70, 2)
    assert (one.message, one.size, one.redelivered, one.redeliveries) == (given, 5, True, 0)
    assert one.state is State.READY and one.position == 0, "it has none before it is delivered"
