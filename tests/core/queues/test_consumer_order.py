"""What orders of consumers have in common: what is ready goes out as long as the first one has room."""

import pytest

from radiator.core.queues.consumer_order import ConsumerOrder
from tests.core.bare import connection, consumer, durable, in_memory, message, out, stored


def test_an_order_that_says_nothing_is_that_of_the_ring() -> None:
    queue = in_memory()
    first, second = consumer(queue, connection(1), prefetch=2), consumer(queue, connection(2), prefetch=1)
    queue.order = ConsumerOrder(queue)
    for _ in range(4):
        queue.put(message())
    queue.pump()
    assert [one.subscription for one in out(queue)] == [first, second, first]
    assert not queue.ring and not (first.is_listed or second.is_listed), "they have no room"
    assert queue.ready_count == 1


@pytest.mark.parametrize("expires_ms", [0, 1])
def test_what_has_expired_goes_to_nobody(expires_ms: int) -> None:
    queue = in_memory()
    one = consumer(queue)
    queue.order = ConsumerOrder(queue)
    queue.put(message(expires_ms=expires_ms))
    queue.pump()
    assert one.in_flight == (0 if expires_ms else 1)
    assert queue.ready_count == 0


def test_a_queue_on_the_disk_asks_its_order_too() -> None:
    queue = durable()
    one = consumer(queue)
    queue.order = ConsumerOrder(queue)
    stored(queue, b"a", b"b")
    assert one.in_flight == 2


def test_a_queue_that_ends_has_no_order() -> None:
    queue = in_memory()
    queue.order = ConsumerOrder(queue)
    queue.end()
    assert queue.order is None
