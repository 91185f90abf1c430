"""A message's size, position, id and end."""

import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import (
    Message,
    expires_by,
    is_id_of,
    is_topic_id,
    message_id,
    position_in,
    position_of,
    split_position,
)


def test_the_size_counts_header_block_and_body_and_not_the_destination() -> None:
    assert Message("/queue/long", b"a:b\n", ESCAPING_ALL, b"12345", 0).size == 9


@pytest.mark.parametrize(("boot", "sequence"), [(0, 0), (1, 1), (1, 2**64 - 1), (2**32 - 1, 7)])
def test_a_position_and_an_id_give_boot_and_sequence_back(boot: int, sequence: int) -> None:
    position = position_of(boot, sequence)
    assert split_position(position) == (boot, sequence)
    assert message_id("ab", position) == b"ab-%d-%d" % (boot, sequence)
    assert position_in(message_id("a-b", position)) == position


def test_positions_order_by_boot_then_sequence() -> None:
    assert position_of(1, 2**64 - 1) < position_of(2, 0) < position_of(2, 1)


def test_an_id_says_whose_it_is() -> None:
    assert is_id_of(b"ab-1-2", "ab") and not is_id_of(b"abc-1-2", "ab") and not is_id_of(b"ab", "ab")
    assert is_topic_id(b"ab-1-2t") and not is_topic_id(b"ab-1-2") and not is_topic_id(b"a-b-1-2t")


@pytest.mark.parametrize(
    ("expires_ms", "ttl_ms", "wanted_ms"), [(0, 5, 105), (103, 5, 103), (105, 5, 105), (106, 5, 105), (0, 0, 100)]
)
def test_the_earlier_end_counts(expires_ms: int, ttl_ms: int, wanted_ms: int) -> None:
    assert expires_by(expires_ms, ttl_ms, now_ms=100) == wanted_ms
