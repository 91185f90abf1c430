"""The active consumer of a queue with single_active_consumer: it alone gets messages, while the others stand by.

It stays active until it has unsubscribed and nothing that it was given is unacked. By then whatever came back is in its
place again, and the next consumer gets that first. The next one has the highest priority; of equal ones, it is the one
that subscribed first. A held consumer (registered.py) is passed over, and stands by once it has nothing unacked.
"""

from radiator.core.connections import Subscription
from radiator.core.queues.consumer_order import ConsumerOrder, OrderedQueue
from radiator.model.errors import Refusal


class SingleConsumer(ConsumerOrder):
    """active: the consumer that gets messages; None: none for now. leaving: earlier ones that have some unacked."""

    __slots__ = ("active", "leaving")

    def __init__(self, queue: OrderedQueue) -> None:
        super().__init__(queue)
        self.active: Subscription | None = None
        self.leaving: dict[Subscription, None] = {}

    def check(self, subscription: Subscription) -> None:
        """Raises Refusal for an exclusive consumer, as others may stand by, and for a Get that cannot take one now."""
        if subscription.exclusive:
            raise Refusal(
                "exclusive",
                f"/queue/{self.queue.name} has single_active_consumer: one of its consumers gets all, and none is "
                "exclusive.",
            )
        if not subscription.is_get:
            return
        self._forget_gone()
        if self.active is not None or self._candidate() is not None or not self._may_follow(subscription):
            raise Refusal(
                "exclusive",
                f"/queue/{self.queue.name} has single_active_consumer, and another consumer is active, so single "
                "messages cannot be taken.",
            )

    def joined(self, subscription: Subscription) -> None:
        subscription.stands_by = True

    def enlist(self, subscription: Subscription) -> None:
        if not subscription.stands_by:
            super().enlist(subscription)

    def left(self, subscription: Subscription) -> None:
        if subscription is not self.active:
            return
        self.active = None
        if subscription.in_flight:
            self.leaving[subscription] = None
        self.queue.pump()

    def pump(self) -> None:
        active = self.active
        if active is not None and active.is_held and not active.in_flight:
            active.stands_by = True
            active = self.active = None
        if active is None:
            self._choose()
        super().pump()

    def _choose(self) -> None:
        """Makes the next consumer the active one, once it may have messages."""
        self._forget_gone()
        chosen = self._candidate()
        if chosen is None or not self._may_follow(chosen):
            return
        self.active = chosen
        chosen.stands_by = False
        super().enlist(chosen)

    def _candidate(self) -> Subscription | None:
        """Returns the first consumer of those with the highest priority that are not held."""
        ready = (one for one in self.queue.subscriptions if not one.is_held)
        return max(ready, key=_priority, default=None)

    def _may_follow(self, subscription: Subscription) -> bool:
        """Whether everything that earlier active consumers have unacked is with this consumer's own connection."""
        return all(one.connection is subscription.connection for one in self.leaving)

    def _forget_gone(self) -> None:
        for one in [one for one in self.leaving if not one.in_flight]:
            del self.leaving[one]


def _priority(subscription: Subscription) -> int:
    return subscription.priority
