"""All registrations of consumers (queues/registered.py): their leases, their bound, and who waits for a drain.

They are in memory alone: a restart forgets them, and clients register again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from radiator.core.connections import Subscription
from radiator.core.deadlines import Deadlines
from radiator.core.queues.queue import Queue
from radiator.core.queues.registered import NamedConsumers, Registration
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal
from radiator.model.limits import (
    DRAINS_MAX,
    REGISTERED_ENDS_AT_ONCE,
    REGISTERED_MS,
    REGISTERED_STEP_S,
    REGISTRATIONS_MAX,
)


@dataclass(slots=True, eq=False)
class DrainWait:
    """A request that waits for a consumer to be drained. subscription: the consumer's; what it has still counts after
    its UNSUBSCRIBE. due_s: until when it waits at most. done: answers it, with how many messages the consumer still
    has. is_over: whether nobody waits for the answer.
    """

    subscription: Subscription
    due_s: float
    done: Callable[[int], None]
    is_over: Callable[[], bool]

    @property
    def unacked(self) -> int:
        """How many messages the consumer has; none of them count once their queue is deleted."""
        return 0 if self.subscription.queue.is_gone else self.subscription.in_flight


class Registrations:
    """count: the registrations in all queues; away_count: those that are away; deadlines: when their leases end.
    waiting: who waits for a drain.
    """

    __slots__ = ("away_count", "context", "count", "deadlines", "waiting")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.count = self.away_count = 0
        self.deadlines: Deadlines[Registration] = Deadlines(REGISTERED_STEP_S)
        self.waiting: deque[DrainWait] = deque()

    def register(self, queue: Queue, name: str, is_ready: bool, lease_ms: int) -> bool:
        """Registers a consumer, or renews its registration. Returns whether it is new. Raises Refusal
        `too-many-registrations` for one that is not subscribed: subscriptions have a bound of their own.
        """
        known = None if queue.named is None else queue.named.registered.get(name)
        if known is not None:
            known.consumers.heard(known, is_ready, lease_ms)
            return False
        is_away = queue.named is None or name not in queue.named.subscribed
        if is_away and self.away_count >= REGISTRATIONS_MAX:
            raise Refusal(
                "too-many-registrations",
                f"{self.away_count} registered consumers of all queues are away, which is the limit. Shorter leases, "
                "and a SUBSCRIBE before the registration, make room.",
            )
        self._add(queue, name, is_ready, lease_ms)
        return True

    def drain(
        self, queue: Queue, name: str, wait_ms: int, done: Callable[[int], None], is_over: Callable[[], bool]
    ) -> None:
        """Gives a consumer nothing more, registered or not. `done` is called with how many messages it still has: once
        it has none, or after wait_ms, unless is_over() by then. Where more than DRAINS_MAX wait, the oldest is answered
        early.
        """
        consumers = queue.named
        registration = None if consumers is None else consumers.registered.get(name)
        if registration is None and consumers is not None and name in consumers.subscribed:
            registration = self._add(queue, name, True, REGISTERED_MS)
        if registration is not None:
            registration.consumers.drain(registration)
        subscription = None if registration is None else registration.subscription
        if subscription is None or not subscription.in_flight or not wait_ms:
            done(0 if subscription is None else subscription.in_flight)
            return
        if len(self.waiting) >= DRAINS_MAX:
            oldest = self.waiting.popleft()
            oldest.done(oldest.unacked)
        self.waiting.append(DrainWait(subscription, self.context.now_s + wait_ms / 1000, done, is_over))

    def ticked(self) -> None:
        """Called at each Tick: forgets those whose leases are over, and answers who has waited long enough."""
        now_s = self.context.now_s
        for registration in self.deadlines.take_due(now_s, REGISTERED_ENDS_AT_ONCE):
            registration.consumers.forget(registration)
        for _ in range(len(self.waiting)):
            one = self.waiting.popleft()
            if one.unacked and one.due_s > now_s and not one.is_over():
                self.waiting.append(one)
            else:
                one.done(one.unacked)

    def _add(self, queue: Queue, name: str, is_ready: bool, lease_ms: int) -> Registration:
        if queue.named is None:
            queue.named = NamedConsumers(queue)
        registration = Registration(queue.named, name, self, is_ready, lease_ms)
        self.count += 1
        queue.named.add(registration)
        return registration

    # ---- of each registration ---------------------------------------------------------------------------------------

    def away(self, registration: Registration) -> None:
        """Called when it has no subscription: its lease runs from now on. It is forgotten if too many are away."""
        self.back(registration)
        if self.away_count >= REGISTRATIONS_MAX:
            registration.consumers.forget(registration)
            return
        self.away_count += 1
        registration.due_s = self.context.now_s + registration.lease_ms / 1000
        self.deadlines.add(registration, registration.due_s)

    def back(self, registration: Registration) -> None:
        """Called when it has a subscription: its lease does not run."""
        if registration.due_s:
            self.deadlines.remove(registration, registration.due_s)
            registration.due_s = 0.0
            self.away_count -= 1

    def ended(self, registration: Registration) -> None:
        """Called when it is forgotten."""
        self.back(registration)
        self.count -= 1
