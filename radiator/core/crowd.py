"""Says where the consumers of a queue or log stand: what keeps each of them from the next message."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from radiator.core.answers import rested
from radiator.core.connections import Subscription
from radiator.core.queues.key_numbers import Hot
from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO
from radiator.model.consumers import Consumer
from radiator.model.limits import WHY_CONSUMERS, WHY_LOOKED_AT
from radiator.model.numbers import PAUSE, PauseRow

# where a consumer stands
CLOSING, OUTBOX, WINDOW, HELD, CAN_TAKE = "closing", "outbox-full", "window", "held", "has-room"
STAND_BY = "stand-by"


class Crowd:
    """The consumers, as they stood when they were looked at. at: how many stand where; worst: the one with most
    unacked, of those whose window is full; holders: the connections, or owners of leases, with unacked messages of the
    queue; hot: the key with most messages.
    """

    __slots__ = ("at", "holders", "hot", "worst")

    def __init__(self) -> None:
        self.at: Counter[str] = Counter()
        self.worst: Subscription | None = None
        self.holders: set[str] = set()
        self.hot = Hot()

    def look(self, consumers: list[Subscription]) -> Iterator[PauseRow]:
        """Looks at all of them, with PAUSEs."""
        for one in rested(consumers):
            if one is PAUSE:
                yield PAUSE
                continue
            stands = stands_of(one)
            self.at[stands] += 1
            if stands == WINDOW and (self.worst is None or unacked_of(one) > unacked_of(self.worst)):
                self.worst = one

    def look_at_holders(self, asked: Queue) -> Iterator[PauseRow]:
        """Looks at who holds what is unacked for longest, with PAUSEs."""
        for delivery in rested([*islice(asked.entries_out.values(), WHY_LOOKED_AT)]):
            if delivery is PAUSE:
                yield PAUSE
            else:
                self.holders.add(delivery.subscription.connection.address)


def stands_of(one: Subscription) -> str:
    """Returns what keeps a consumer from the next message, or CAN_TAKE."""
    connection = one.connection
    if connection.is_closing:
        return CLOSING
    if one.is_held:
        return HELD
    if one.stands_by:
        return STAND_BY
    if connection.outbox_bytes >= connection.outbox_max_bytes:
        return OUTBOX
    return CAN_TAKE if one.has_window() else WINDOW


def unacked_of(one: Subscription) -> int:
    return one.connection.shared_in_flight if _is_bound_by_shared(one) else one.in_flight


def window_of(one: Subscription) -> int | None:
    """Returns the window that limits it; None: it has none (ack:auto), or no bound."""
    if one.ack == AUTO:
        return None
    return one.connection.shared_window or None if _is_bound_by_shared(one) else one.prefetch_count


def _is_bound_by_shared(one: Subscription) -> bool:
    """Whether the connection's window limits it: it is its only one, or has less room than its own."""
    connection = one.connection
    if not one.is_shared or one.prefetch_count is None or not connection.shared_window:
        return one.is_shared and one.prefetch_count is None
    return connection.shared_window - connection.shared_in_flight < one.prefetch_count - one.in_flight


def listed(consumers: Iterable[Subscription]) -> list[Consumer]:
    """Returns the first WHY_CONSUMERS of them."""
    return [
        Consumer(
            connection=one.connection.number,
            subscription=one.name.decode("utf-8", "replace"),
            name=one.consumer_name,
            stands=stands_of(one),
            unacked=unacked_of(one),
            window=window_of(one),
            outbox_bytes=one.connection.outbox_bytes,
            priority=one.priority,
        )
        for one in islice(consumers, WHY_CONSUMERS)
    ]
