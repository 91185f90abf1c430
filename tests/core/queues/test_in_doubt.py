"""Messages in doubt: offered to another node, given to nobody else, and back or gone by that node's word alone."""

import pytest

from radiator.core.queues.entry import Entry
from radiator.core.states import IllegalMove, State
from radiator.model.reads import StoredMessage
from radiator.model.writes import Remove
from tests.core import bare
from tests.core.bare import context, durable, message


def offered(count: int = 1) -> tuple[object, list[Entry]]:
    queue = durable()
    bare.stored(queue, *(b"%d" % number for number in range(count)))
    entries = [queue.take_head() for _ in range(count)]
    for one in entries:
        assert one is not None
        queue.in_doubt.offer(one)
    return queue, entries  # type: ignore[return-value]


def recovered(position: int = 5) -> object:
    """A queue that a start finds with one in doubt, not read back."""
    queue = durable(stored=1)
    queue.in_doubt.recover(position, 1)
    return queue


def test_what_is_offered_is_given_to_nobody() -> None:
    queue, (one,) = offered()
    bare.consumer(queue)
    assert one.state is State.IN_DOUBT and not bare.out(queue)
    assert queue.in_doubt.size == 1 and not queue.is_idle and queue.ready_count == 0


def test_only_what_is_ready_can_be_offered() -> None:
    queue, (one,) = offered()
    with pytest.raises(IllegalMove):
        queue.in_doubt.offer(one)


@pytest.mark.parametrize("redelivered", [False, True])
def test_what_was_not_taken_is_at_its_own_place_again(redelivered: bool) -> None:
    queue, (first, second) = offered(2)
    for one in (second, first):
        queue.in_doubt.give_back(one.position, one.size, redelivered)
    bare.consumer(queue)
    assert [delivery.entry for delivery in bare.out(queue)] == [first, second]
    assert first.redelivered is redelivered and queue.in_doubt.size == 0 and queue.windows.size == 0


def test_what_was_taken_leaves_as_acked_and_its_removal_is_in_the_open_batch() -> None:
    queue, (one,) = offered()
    queue.in_doubt.taken(one.position, one.size, False)
    assert queue.context.open.writes == [Remove(1, one.position)] and one.state is State.REMOVING
    bare.commit(queue.context)
    assert (queue.ledger.acked, queue.ledger.stored, queue.in_doubt.size) == (1, 0, 0) and queue.ledger.adds_up()


def test_what_was_taken_and_never_read_back_leaves_too() -> None:
    queue = recovered()
    queue.in_doubt.taken(5, 1, False)
    assert (queue.in_doubt.unread, queue.window.beyond, queue.ledger.acked) == (0, 0, 1) and queue.ledger.adds_up()
    assert queue.in_doubt.passes_over(StoredMessage(5, message(), 0, False)), "a read under way may bring it"
    assert not queue.in_doubt.passes_over(StoredMessage(5, message(), 0, False)), "once"


def test_what_a_read_brings_is_in_doubt_as_before_the_start() -> None:
    queue = recovered()
    assert queue.in_doubt.takes(StoredMessage(5, message(), 3, True), message())
    (one,) = queue.in_doubt.entries.values()
    assert one is not None and (one.state, one.redeliveries, one.redelivered) == (State.IN_DOUBT, 3, True)
    assert queue.in_doubt.unread == 0 and queue.windows.out == one.size
    assert not queue.in_doubt.takes(StoredMessage(6, message(), 0, False), message())


def test_what_is_given_back_before_it_was_read_is_ready_when_it_comes() -> None:
    queue = recovered()
    queue.in_doubt.give_back(5, 1, redelivered=True)
    assert queue.window.beyond == 1 and queue.in_doubt.unread == 0
    assert queue.in_doubt.is_marked(StoredMessage(5, message(), 0, False)), "the read does not see the mark"
    assert not queue.in_doubt.is_marked(StoredMessage(5, message(), 0, False))
    assert queue.in_doubt.is_marked(StoredMessage(6, message(), 0, True))


def test_what_is_given_back_behind_the_read_is_damaged() -> None:
    queue = recovered()
    queue.window.end = 5
    queue.in_doubt.give_back(5, 1)
    assert (queue.window.beyond, queue.damaged) == (0, 1)


def test_a_damaged_one_in_doubt_counts_until_the_link_settles_it() -> None:
    queue = recovered()
    assert queue.in_doubt.passes_over(StoredMessage(5, None, 0, False))
    assert queue.in_doubt.count_passed_over([], behind=5) == -1
    assert queue.in_doubt.count_passed_over([], behind=4) == 0


def test_what_the_other_node_has_is_not_looked_for_behind_the_read() -> None:
    queue = durable(context(), stored=2)
    for position in (5, 9):
        queue.in_doubt.recover(position, 1)
        queue.in_doubt.taken(position, 1, False)
    assert queue.in_doubt.count_passed_over([StoredMessage(5, message(), 0, False)], behind=0) == 1
    queue.in_doubt.read_up_to(5)
    assert queue.in_doubt.taken_unread == {9}


def test_what_no_link_can_carry_is_new_once() -> None:
    queue = durable()
    assert queue.in_doubt.set_aside(5) and not queue.in_doubt.set_aside(5) and queue.in_doubt.set_aside(6)
