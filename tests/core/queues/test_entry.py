"""What the broker keeps in memory of a message: its place, its counts, and its bytes or a stub."""

import pytest

from radiator.core.queues.entry import DelayedEntry, PassingEntry, Stub
from radiator.core.states import State
from tests.core.bare import NOW_MS, entry, message


def test_a_stub_has_the_times_of_its_message_and_nothing_else() -> None:
    stub = Stub(message(b"long", expires_ms=5))
    assert (stub.accepted_ms, stub.expires_ms) == (NOW_MS, 5)
    for field in ("destination", "headers", "escaping", "body"):
        with pytest.raises(AttributeError):
            getattr(stub, field)


def test_an_entry_keeps_its_size_when_its_bytes_go() -> None:
    one = entry(7, size=100)
    assert not one.is_stub
    one.message = Stub(one.message)
    assert one.is_stub and (one.size, one.since_ms) == (100, NOW_MS)


def test_entries_are_told_apart_though_they_are_alike() -> None:
    assert entry(7) != entry(7)


def test_a_delayed_one_may_be_delivered_from_its_time_on() -> None:
    one = DelayedEntry(1, message(), State.DELAYED, 1, due_ms=NOW_MS + 5)
    assert one.since_ms == NOW_MS + 5 and not one.was_out


def test_one_that_may_not_wait_is_over_when_its_turn_is() -> None:
    assert entry(7).is_over, "for the others the time to live alone counts"
    one = PassingEntry(1, message(), State.READY, 1)
    assert not one.is_over
    one.is_fresh = False
    assert one.is_over
