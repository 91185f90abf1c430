"""Ends the consumers of a deleted queue, and takes what is unacked with them off their windows; a slice a turn."""

from collections import deque
from collections.abc import Iterable

from radiator.core.connections import Connection, Delivery, Subscription
from radiator.core.turn import TurnContext
from radiator.model.limits import STEP_MESSAGES
from radiator.model.replies import Ended


class Farewell:
    """subscriptions: those whose clients are told if they asked for it; out: what leaves its window but stays unacked,
    so that an ACK or NACK of it has no effect and is not refused.
    """

    __slots__ = ("context", "out", "subscriptions", "touched")

    def __init__(self, context: TurnContext, subscriptions: Iterable[Subscription], out: Iterable[Delivery]) -> None:
        self.context = context
        self.subscriptions = deque(subscriptions)
        self.out = deque(out)
        self.touched: dict[Connection, None] = {}

    @property
    def is_done(self) -> bool:
        return not (self.subscriptions or self.out)

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        for _ in range(STEP_MESSAGES):
            if self.subscriptions:
                self._report(self.subscriptions.popleft())
            elif self.out:
                delivery = self.out.popleft()
                delivery.leave_behind()
                self.touched[delivery.subscription.connection] = None
            else:
                break
            self.context.handled += 1
        touched, self.touched = self.touched, {}
        for connection in touched:
            connection.offer()

    def _report(self, subscription: Subscription) -> None:
        """Tells its client, if that asked for it and has not ended the subscription meanwhile."""
        if subscription.is_get:
            subscription.ended()
            return
        connection, name = subscription.connection, subscription.name
        if not subscription.reports_end or connection.queue_subscriptions.get(name) is not subscription:
            return
        del connection.queue_subscriptions[name]
        subscription.queue.unsubscribe(subscription)
        connection.say(self.context, Ended(connection.number, name))
