"""Which free key is the oldest: of all, of a consumer's, of nobody's; and what heaps forget."""

from radiator.core.queues.assignments import Assignee
from radiator.core.queues.free_partitions import STALE_PLACES, FreePartitions
from radiator.core.queues.queue_partition import QueuePartition
from tests.core import bare


def consumer(number: int) -> Assignee:
    return Assignee(number, f"{number}", bare.consumer(bare.in_memory(), bare.connection(number)))


def partition(assignee: Assignee | None = None) -> QueuePartition:
    return QueuePartition(b"key", bytes(8), assignee=assignee)


def test_the_oldest_of_all_of_one_consumer_and_of_nobody() -> None:
    one, other, ones, free = consumer(1), consumer(2), {}, FreePartitions()
    assert free.oldest() is free.oldest_of(one) is None
    for place, assignee in ((7, one), (5, None), (3, other), (4, one)):
        ones[place] = partition(assignee)
        assert free.add(ones[place], place) is assignee
    assert (free.oldest(), free.oldest_of(one), free.oldest_of(other)) == (3, 4, 3)
    free.discard(ones[4])
    assert (free.oldest(), free.oldest_of(one), free.oldest_of(other)) == (3, 5, 3)
    free.discard(ones[5])
    free.discard(ones[5])  # once more does nothing
    assert (free.oldest_of(one), free.has_any_of(one)) == (7, True)
    free.discard(ones[7])
    assert (free.oldest_of(one), free.has_any_of(one), free.oldest()) == (None, False, 3)


def test_what_is_assigned_to_another_meanwhile_is_not_ones_own() -> None:
    one, other, free = consumer(1), consumer(2), FreePartitions()
    moved = partition(one)
    free.add(moved, 1)
    free.discard(moved)
    moved.assignee = other
    free.add(moved, 1)
    assert free.oldest_of(one) is None and free.oldest_of(other) == 1


def test_who_goes_leaves_what_is_free_to_others_and_finds_it_again() -> None:
    one, other, free = consumer(1), consumer(2), FreePartitions()
    before = partition(one)
    free.add(before, 1)
    one.is_there = False
    free.go_away(one)
    assert free.oldest_of(other) == 1
    assert free.add(partition(one), 2) is None  # to nobody who is there
    one.is_there = True
    assert (free.oldest_of(one), free.oldest_of(other)) == (1, None)
    free.discard(before)
    assert (free.oldest_of(one), free.oldest_of(other)) == (2, None)


def test_heaps_do_not_grow_with_what_comes_and_goes() -> None:
    one, free = consumer(1), FreePartitions()
    free.add(partition(one), 1)
    free.add(partition(), 2)
    for place in range(3, 2000):
        for assignee in (one, None):
            passing = partition(assignee)
            free.add(passing, 2 * place + (assignee is None))
            free.discard(passing)
        for heap in (free.heads, free.unassigned, one.heads):
            assert len(heap) <= 2 * (3 + STALE_PLACES)
    assert free.oldest_of(one) == 1 and free.oldest() == 1


def test_none_is_free_once_all_are_taken() -> None:
    free, one = FreePartitions(), partition()
    free.add(one, 1)
    free.clear()
    assert not free.by_place and free.oldest() is None and one.free_at == 0
