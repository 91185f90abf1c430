"""Decides which of a queue's consumers gets the next message, if they do not all take turns.

Most queues have no such order: each consumer with room is in the queue's ring, and the first one in the ring is next.
"""

from collections import OrderedDict
from typing import Protocol

from radiator.core.connections import Subscription
from radiator.core.queues.entry import Entry


class OrderedQueue(Protocol):
    """What ConsumerOrder needs of its queue."""

    name: str
    ring: OrderedDict[Subscription, None]
    subscriptions: dict[Subscription, None]

    def peek_head(self) -> Entry | None:
        """Returns the next entry; None: there is none, or it must be read back first."""

    def refill(self, is_needed: bool = False) -> None:
        """Asks for the next entry to be read back."""

    def take_head(self) -> Entry | None:
        """Takes that entry; None: it has expired."""

    def deliver(self, entry: Entry, subscription: Subscription) -> None:
        """Delivers the entry to that consumer."""

    def pump(self) -> None:
        """Delivers what is ready."""


class ConsumerOrder:
    """A subclass decides which consumer is next (`first`)."""

    __slots__ = ("queue",)

    def __init__(self, queue: OrderedQueue) -> None:
        self.queue = queue

    def check(self, subscription: Subscription) -> None:
        """Raises Refusal `exclusive` if it cannot consume now."""

    def joined(self, subscription: Subscription) -> None:
        """Called when a consumer has subscribed; it is not in the ring yet."""

    def left(self, subscription: Subscription) -> None:
        """Called when a consumer has unsubscribed. It may still have messages unacked."""

    def enlist(self, subscription: Subscription) -> None:
        """Called when a consumer that is not in the ring has room: it joins the ring, if it may have messages."""
        subscription.is_listed = True
        self.queue.ring[subscription] = None

    def first(self) -> Subscription:
        """Returns the consumer in the ring, which is not empty, that gets the next message if it has room."""
        return next(iter(self.queue.ring))

    def served(self, subscription: Subscription) -> None:
        """Called when a consumer gets a message: others of its kind are next."""

    def pump(self) -> None:
        """Delivers what is ready to the consumers that have room, in this order."""
        queue, ring = self.queue, self.queue.ring
        while ring:
            if queue.peek_head() is None:
                queue.refill()
                if queue.peek_head() is None:
                    return
            subscription = self.first()
            if subscription.can_take():
                entry = queue.take_head()
                if entry is not None:
                    ring.move_to_end(subscription)
                    self.served(subscription)
                    queue.deliver(entry, subscription)
            else:
                del ring[subscription]
                subscription.is_listed = False
                subscription.connection.unlist(subscription)
