"""Delivery tags: which messages an ack of one settles."""

import pytest

from radiator.protocols.amqp.delivery_tags import DeliveryTags


def delivered(*with_ack: bool) -> DeliveryTags:
    unacked = DeliveryTags()
    for is_due in with_ack:
        tag = unacked.next()
        if is_due:
            unacked.add(tag, b"m%d" % tag)
    return unacked


def settle(unacked: DeliveryTags, tag: int, multiple: bool = False, in_transaction: bool = False) -> list[int] | None:
    named = unacked.named_by(tag, multiple)
    if named is not None:
        unacked.settled(named, in_transaction)
    return None if named is None else [one for one, _ in named]


@pytest.mark.parametrize(("tag", "multiple", "settled"), [
    (1, False, [1]),
    (3, False, [3]),
    (2, False, None),  # it was not to be acked
    (0, False, None),
    (4, False, None),
    (2**64 - 1, False, None),
    (0, True, [1, 3]),
    (1, True, [1]),
    (2, True, [1]),
    (3, True, [1, 3]),
    (4, True, None),
    (2**64 - 1, True, None),
])  # fmt: skip
def test_a_tag_names_its_message_and_with_multiple_those_before(
    tag: int, multiple: bool, settled: list[int] | None
) -> None:
    assert settle(delivered(True, False, True), tag, multiple) == settled


@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_is_settled_once(multiple: bool) -> None:
    unacked = delivered(True, True)
    assert settle(unacked, 1, multiple) == [1]
    assert settle(unacked, 1, multiple) is None
    assert settle(unacked, 2, multiple) == [2]


def test_all_of_nothing_is_nothing() -> None:
    assert settle(DeliveryTags(), 0, True) == []
    assert settle(DeliveryTags(), 0, False) is None


def test_a_rollback_leaves_unacked_what_was_acked_under_the_tags_that_it_had() -> None:
    unacked = delivered(True, True, True, True)
    assert settle(unacked, 2, False, True) == [2]
    assert settle(unacked, 2, False, True) is None, "twice in one transaction"
    assert settle(unacked, 4, False, True) == [4]
    unacked.rolled_back()
    assert settle(unacked, 3, True) == [1, 2, 3], "in order"
    assert settle(unacked, 4) == [4]


def test_what_is_committed_stays_so() -> None:
    unacked = delivered(True, True)
    settle(unacked, 1, False, True)
    unacked.committed()
    unacked.rolled_back()
    assert settle(unacked, 0, True) == [2]


def test_all_that_is_taken_back_is_that_which_waits_in_no_transaction() -> None:
    unacked = delivered(True, True, True)
    settle(unacked, 2, False, True)
    assert unacked.take_all() == [b"m1", b"m3"] and unacked.take_all() == []
    unacked.rolled_back()
    assert settle(unacked, 0, True) == [2]
    assert unacked.next() == 4


def test_one_alone_is_settled_once() -> None:
    unacked = delivered(True, False)
    assert [unacked.settle(tag) for tag in (0, 2, 3, 1, 1)] == [None, None, None, b"m1", None]
    assert settle(unacked, 1) is None
