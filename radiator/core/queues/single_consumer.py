"""The one consumer of a queue with single_active_consumer that gets messages, while the others stand by.

It stays the one until it has gone: it has unsubscribed, and nothing that it was given is unacked. Then what came back
of that is in its place again, and the next one gets it first. The next one is that of the highest priority, and of
equal ones who subscribed first; whoever is held (registered.py) is passed over, and stands by once it has nothing.
"""

from radiator.core.connections import Subscription
from radiator.core.queues.consumer_order import ConsumerOrder, OrderedQueue
from radiator.model.errors import Refusal


class SingleConsumer(ConsumerOrder):
    """active: who gets messages; None: nobody does for now. leaving: those who did, and still have some unacked."""

    __slots__ = ("active", "leaving")

    def __init__(self, queue: OrderedQueue) -> None:
        super().__init__(queue)
        self.active: Subscription | None = None
        self.leaving: dict[Subscription, None] = {}

    def check(self, subscription: Subscription) -> None:
        """A Get does not stand by: it takes one now, or is refused. Nobody can be alone here: others may stand by."""
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
                f"/queue/{self.queue.name} has single_active_consumer, and another consumer that is the active one: "
                "no single message is taken beside it.",
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
        """The next one, once it may have messages."""
        self._forget_gone()
        chosen = self._candidate()
        if chosen is None or not self._may_follow(chosen):
            return
        self.active = chosen
        chosen.stands_by = False
        super().enlist(chosen)

    def _candidate(self) -> Subscription | None:
        """The first of those that have the highest priority."""
        ready = (one for one in self.queue.subscriptions if not one.is_held)
        return max(ready, key=_priority, default=None)

    def _may_follow(self, subscription: Subscription) -> bool:
        """Whether all that is still unacked is with its own connection."""
        return all(one.connection is subscription.connection for one in self.leaving)

    def _forget_gone(self) -> None:
        for one in [one for one in self.leaving if not one.in_flight]:
            del self.leaving[one]


def _priority(subscription: Subscription) -> int:
    return subscription.priority
