"""What memory knows of one key: whether anything of it is left."""

import pytest

from radiator.core.queues.queue_partition import QueuePartition


def test_a_new_one_is_empty() -> None:
    assert QueuePartition(b"a", b"hash").is_empty and QueuePartition(None, b"").is_empty


@pytest.mark.parametrize(
    "left", [{"line": [1]}, {"out": 1}, {"held": [1]}, {"coming": 1}, {"behind": 1}], ids=lambda left: [*left][0]
)
def test_whatever_is_left_of_it_keeps_it(left: dict[str, object]) -> None:
    assert not QueuePartition(b"a", b"hash", **left).is_empty  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [{"after": 7}, {"behind_from": 7, "behind_in": 8}, {"free_at": 7}])
def test_what_is_known_of_the_past_does_not_keep_it(known: dict[str, int]) -> None:
    assert QueuePartition(b"a", b"hash", **known).is_empty  # type: ignore[arg-type]


def test_two_of_them_are_never_equal() -> None:
    one, other = QueuePartition(None, b""), QueuePartition(None, b"")
    assert one != other and len({one, other}) == 2
