"""The priority of a message."""

import pytest

from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.keys import hash_of
from radiator.model.message import Message
from radiator.model.priorities import hash_of_priority, max_priority_of, priority_of, stored_by


def message(headers: bytes, escaping: int = ESCAPING_ALL) -> Message:
    return Message("/queue/q", headers, escaping, b"", 0)


@pytest.mark.parametrize(
    ("value", "priority"),
    [
        (b"0", 0),
        (b"1", 1),
        (b"9", 9),
        (b"10", 9),
        (b"255", 9),
        (b"256", 9),
        (b"007", 7),
        (b"9" * 5000, 9),
        (b"", 0),
        (b"-1", 0),
        (b"1.5", 0),
        (b" 5", 0),
        (b"high", 0),
        ("\u0663".encode(), 0),
    ],
)
def test_it_is_a_whole_number_and_at_most_the_highest(value: bytes, priority: int) -> None:
    assert priority_of(message(b"a:b\npriority:%b\n" % value), 9) == priority


def test_it_is_0_where_none_is_given_and_the_first_of_several() -> None:
    assert priority_of(message(b""), 9) == priority_of(message(b"x-priority:5\n"), 9) == 0
    assert priority_of(message(b"priority:3\npriority:5\n"), 9) == 3
    assert priority_of(message(b"priority: 5 \n", ESCAPING_NONE), 9) == 5


def test_each_has_something_of_its_own_in_the_store() -> None:
    hashes = [hash_of_priority(one) for one in range(11)]
    assert hashes == sorted({*hashes}) and {*map(len, hashes)} == {len(hash_of(b""))}


def test_what_messages_are_found_by() -> None:
    assert stored_by((), None) == () and stored_by(("header:a", "/b"), None) == ("header:a", "/b")
    assert max_priority_of(stored_by((), 10)) == 10
    for other in ((), ("header:priority",), ("priority:",), ("priority:x",), ("priority:1", "/b")):
        assert max_priority_of(other) is None
