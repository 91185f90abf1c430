"""Bounds that come of other bounds."""

import pytest

from radiator.model.limits import (
    BATCH_BYTES,
    GIB,
    MIB,
    OUTBOX_FILLED_BYTES,
    Limits,
    high_water_bytes,
    largest_batch_bytes,
    largest_message_bytes,
    outbox_default_bytes,
)


@pytest.mark.parametrize(
    ("max_frame_bytes", "wanted"),
    [(1, OUTBOX_FILLED_BYTES), (OUTBOX_FILLED_BYTES // 2, OUTBOX_FILLED_BYTES), (16 * MIB, 32 * MIB)],
)
def test_two_largest_frames_close_no_subscriber(max_frame_bytes: int, wanted: int) -> None:
    assert outbox_default_bytes(max_frame_bytes) == wanted


def test_the_default_of_the_outbox_is_that_of_the_frame() -> None:
    assert Limits().has_default_outbox
    assert not Limits(max_frame_bytes=MIB).has_default_outbox
    assert Limits(outbox_max_bytes=5).outbox_filled_bytes == 5
    assert Limits().outbox_filled_bytes == OUTBOX_FILLED_BYTES


def test_a_commit_adds_at_most_a_batch_a_transaction_or_a_frame() -> None:
    assert largest_batch_bytes(Limits(max_batch_bytes=1, max_frame_bytes=1)) == BATCH_BYTES
    assert largest_batch_bytes(Limits(max_batch_bytes=GIB, max_frame_bytes=1)) == GIB
    assert largest_batch_bytes(Limits(max_batch_bytes=1, max_frame_bytes=GIB)) == GIB


def test_a_message_on_a_link_is_larger_than_any_that_a_client_sends() -> None:
    limits = Limits()
    assert largest_message_bytes(limits) > limits.max_frame_bytes + 2 * limits.max_header_bytes


@pytest.mark.parametrize("map_size", [GIB, 10 * GIB])
def test_above_the_high_water_mark_there_is_room_for_two_batches_and_a_tenth(map_size: int) -> None:
    left = map_size - high_water_bytes(map_size, Limits())
    assert left >= 2 * largest_batch_bytes(Limits()) and left >= map_size // 10
