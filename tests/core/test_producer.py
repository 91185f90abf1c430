"""Who brings messages in: at first it waits for nothing, and nothing waits for it."""

from radiator.core.connections import Connection
from radiator.core.producer import Producer


def test_a_new_one_holds_and_waits_for_nothing() -> None:
    one = Producer()
    assert (one.found, one.held_batch, one.rest_batch, one.rest_bytes) == ({}, 0, 0, 0)
    assert isinstance(Connection(1, 100), Producer)
