"""Consumers with priorities: one gets messages only when no consumer of a higher priority has room.

Consumers of equal priority take turns. Used only by a queue that has had a consumer with a priority other than 0.
"""

from bisect import insort
from collections import OrderedDict
from operator import neg

from radiator.core.connections import Subscription
from radiator.core.queues.consumer_order import ConsumerOrder, OrderedQueue


class ConsumerRanks(ConsumerOrder):
    """_priorities: those of consumers in the ring, the highest first. _tiers: these consumers by priority, the next one
    first. Some may have left the ring since, which is noticed when their turn comes.
    """

    __slots__ = ("_priorities", "_tiers")

    def __init__(self, queue: OrderedQueue) -> None:
        super().__init__(queue)
        self._priorities: list[int] = []
        self._tiers: dict[int, OrderedDict[Subscription, None]] = {}
        for subscription in queue.ring:
            self._add(subscription)

    def enlist(self, subscription: Subscription) -> None:
        super().enlist(subscription)
        self._add(subscription)
        # a connection lists its subscriptions one by one: those of higher priority must not miss their turn for that
        for other in subscription.connection.unlisted_private:
            if other.queue is subscription.queue and other.priority > subscription.priority and not other.is_listed:
                super().enlist(other)
                self._add(other)

    def _add(self, subscription: Subscription) -> None:
        priority = subscription.priority
        tier = self._tiers.get(priority)
        if tier is None:
            tier = self._tiers[priority] = OrderedDict()
            insort(self._priorities, priority, key=neg)
        tier[subscription] = None

    def left(self, subscription: Subscription) -> None:
        tier = self._tiers.get(subscription.priority)
        if tier is not None:
            tier.pop(subscription, None)

    def first(self) -> Subscription:
        while True:
            priority = self._priorities[0]
            tier = self._tiers[priority]
            while tier:
                subscription = next(iter(tier))
                if subscription.is_listed:
                    return subscription
                del tier[subscription]
            del self._priorities[0], self._tiers[priority]

    def served(self, subscription: Subscription) -> None:
        self._tiers[subscription.priority].move_to_end(subscription)
