"""Where a delayed message of a queue without keys goes when it is due: what tests/core/queues/test_delayed.py does not
say of it.
"""

import pytest

from radiator.core.queues.durable_queue import DurableQueue
from radiator.model.reads import StoredMessage
from radiator.model.writes import Count, Delay, MakeDue, Put
from tests.core import bare


def delayed(queue: DurableQueue, body: bytes = b"x", expires_ms: int = 0) -> Delay:
    """One more delayed message, as the disk has it."""
    queue.put_delayed(bare.message(body, expires_ms), bare.NOW_MS + 1000)
    (write,) = [write for write in queue.context.open.writes if isinstance(write, Delay)][-1:]
    return write


def place(queue: DurableQueue, delay: Delay, redeliveries: int = 0) -> bool:
    stored = StoredMessage(delay.position, delay.message, redeliveries, False)
    return queue.due.place(delay.due_ms, delay.message, stored)


def writes(queue: DurableQueue) -> list[type]:
    return [type(write) for write in queue.context.open.writes]


def test_it_goes_to_its_place_in_one_batch() -> None:
    queue = bare.durable()
    late = delayed(queue)
    bare.commit(queue.context)
    assert place(queue, late) and writes(queue) == [MakeDue, Put]
    assert queue.storing_count == 1 and not queue.ready_count
    bare.commit(queue.context)
    assert queue.ready_count == 1 and queue.storing_count == 0


def test_its_count_goes_along() -> None:
    queue = bare.durable()
    late = delayed(queue)
    bare.commit(queue.context)
    assert place(queue, late, redeliveries=3) and writes(queue) == [MakeDue, Put, Count]
    (entry,) = queue.window.due.values()
    assert entry.redeliveries == 3


@pytest.mark.parametrize(("after_ms", "is_expired"), [(1000, False), (1001, True)])
def test_one_whose_time_is_over_by_then_has_expired(after_ms: int, is_expired: bool) -> None:
    queue = bare.durable()
    late = delayed(queue, expires_ms=bare.NOW_MS + 1001)
    late.due_ms = bare.NOW_MS + 1000
    queue.context.now_ms = bare.NOW_MS + after_ms
    assert place(queue, late)
    assert (queue.ledger.expired, queue.storing_count) == ((1, 0) if is_expired else (0, 1))


def test_one_that_finds_no_room_stays_delayed() -> None:
    queue = bare.durable()
    late = delayed(queue, b"x" * 100)
    bare.stored(queue, b"y")
    queue.window.windows.size = queue.windows.size_max
    assert not place(queue, late) and queue.delayed.blocked_bytes == 100 and writes(queue) == []


def test_an_empty_window_takes_one_of_any_size_without_its_bytes() -> None:
    queue = bare.durable()
    late = delayed(queue, b"x" * 100)
    queue.window.end = late.position + 1
    queue.window.windows.size = queue.windows.size_max
    bare.commit(queue.context)
    assert place(queue, late)
    (entry,) = queue.window.due.values()
    assert entry.is_stub and queue.window.stubs == 1


def test_a_place_behind_the_window_needs_no_room_and_is_read_back() -> None:
    queue = bare.durable(stored=5)
    late = delayed(queue)
    bare.commit(queue.context)
    beyond = queue.window.beyond
    assert place(queue, late) and queue.window.beyond == beyond + 1 and not queue.window.due


def test_a_queue_without_keys_stores_by_none() -> None:
    queue = bare.durable()
    late = delayed(queue)
    bare.commit(queue.context)
    assert not late.held and queue.hash_held(bare.entry(1)) == b""  # type: ignore[arg-type]
    place(queue, late, redeliveries=1)
    for write in queue.context.open.writes:
        assert not (isinstance(write, Put) and write.key) and not (isinstance(write, MakeDue) and write.held)
