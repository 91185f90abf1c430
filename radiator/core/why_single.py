"""The verdict on a queue with a single active consumer: who that is, and what the next one waits for."""

from radiator.core.queues.queue import Queue
from radiator.core.queues.single_consumer import SingleConsumer
from radiator.model.consumers import ActiveConsumer
from radiator.model.errors import count_text


def active_consumer(asked: Queue) -> ActiveConsumer | None:
    """Returns the active consumer of a queue that has a single one; None: nobody is active."""
    order = asked.order
    if not isinstance(order, SingleConsumer) or order.active is None:
        return None
    return ActiveConsumer(order.active.connection.number, order.active.name.decode("utf-8", "replace"))


def of_single(asked: Queue) -> str:
    """Returns a sentence: who is the active one, and how many stand by; "" if nobody is active."""
    order = asked.order
    if not isinstance(order, SingleConsumer) or order.active is None:
        return ""
    others = len(asked.subscriptions) - 1
    beside = f", and {count_text(others, 'other stands', 'others stand')} by" if others else ""
    address = order.active.connection.address
    return f" {address[0].upper()}{address[1:]} has its single active consumer{beside}."


def of_successor(asked: Queue, ready: str) -> tuple[str, str] | None:
    """Returns the verdict and its sentence if nobody is active because one that was has left something unacked."""
    order = asked.order
    if not isinstance(order, SingleConsumer) or order.active is not None or not order.leaving:
        return None
    unacked = sum(one.in_flight for one in order.leaving)
    holders = ", ".join(sorted({one.connection.address for one in [*order.leaving][:3]}))
    return "taking-over", (
        f"{ready}, but the consumers that stand by wait for the one that was active: it has left, and "
        f"{count_text(unacked, 'message is', 'messages are')} unacked with {holders}."
    )
