"""The consumers of one queue that have names: which subscription has each name now, and what they have registered.

Of two subscriptions with one name the newer one has it: a process that has started again, before its old connection was
found dead. A registration says more of a name: whether it is ready, and for how long it is waited for when it is away.
While its subscription is there, its lease does not run: the connection says that it lives.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from radiator.core.connections import Subscription
from radiator.core.turn import TurnContext


class NamedQueue(Protocol):
    """What is told of its consumers that have names."""

    name: str
    context: TurnContext
    ring: OrderedDict[Subscription, None]

    def join(self, subscription: Subscription) -> None:
        """It has room: it takes its place at the end of the ring, and what is ready goes out."""

    def hold_consumer(self, subscription: Subscription) -> None:
        """A consumer gets nothing any more, until it is released."""

    def release_consumer(self, subscription: Subscription) -> None:
        """It may be given something again."""

    def forget_consumer(self, name: str) -> None:
        """One that is held, or has left, is not waited for any more."""


class RegistrationLeases(Protocol):
    """Who keeps the leases of registrations."""

    def away(self, registration: "Registration") -> None:
        """It has no subscription now: its lease runs."""

    def back(self, registration: "Registration") -> None:
        """It has one: its lease does not run."""

    def ended(self, registration: "Registration") -> None:
        """It is forgotten."""


@dataclass(slots=True, eq=False)
class Registration:
    """What a consumer has said of itself. is_ready: false: it gets nothing yet. lease_ms: how long it is waited for.
    due_s: when that is over; 0: it is not away. is_draining: it gets nothing more, and is forgotten when its
    subscription has gone. subscription: None: it is away.
    """

    consumers: "NamedConsumers"
    name: str
    leases: RegistrationLeases
    is_ready: bool
    lease_ms: int
    due_s: float = 0.0
    is_draining: bool = False
    subscription: Subscription | None = None


class NamedConsumers:
    """subscribed: the subscription that has each name. registered: the registrations, by name; awaited: those of them
    that are ready and away. held: subscriptions that get nothing for now.
    """

    __slots__ = ("awaited", "held", "queue", "registered", "subscribed")

    def __init__(self, queue: NamedQueue) -> None:
        self.queue = queue
        self.subscribed: dict[str, Subscription] = {}
        self.registered: dict[str, Registration] = {}
        self.awaited: set[Registration] = set()
        self.held: set[Subscription] = set()

    def names(self) -> list[str]:
        """Of all that are subscribed or registered."""
        return [*{**self.subscribed, **self.registered}]

    def keeps(self, name: str) -> bool:
        """Whether a consumer of that name is waited for when it is away."""
        registration = self.registered.get(name)
        return registration is not None and not registration.is_draining

    def sharing(self, name: str, count: int) -> int:
        """Among how many consumers the work is shared, if the one of that name is ready: of `count` subscriptions those
        that may be given something, and those that are waited for.
        """
        own = self.subscribed.get(name)
        others = count - len(self.held) - (own is not None and not own.is_held)
        return 1 + others + len(self.awaited) - (self.registered.get(name) in self.awaited)

    # ---- subscriptions ----------------------------------------------------------------------------------------------

    def joined(self, subscription: Subscription) -> None:
        """A subscription with a name comes: it has that from now on."""
        name = subscription.consumer_name
        before, self.subscribed[name] = self.subscribed.get(name), subscription
        registration = self.registered.get(name)
        if registration is not None and registration.is_draining:
            self.forget(registration)  # what was drained is the other process
            registration = None
        if before is not None:
            self.hold(before)
            self.queue.context.note(
                "info",
                "consumer_replaced",
                queue=self.queue.name,
                name=name,
                connection=before.connection.number,
                by=subscription.connection.number,
            )
        if registration is not None:
            registration.subscription = subscription
            registration.leases.back(registration)
            self.awaited.discard(registration)
            if not registration.is_ready:
                subscription.is_held = True
                self.held.add(subscription)

    def left(self, subscription: Subscription) -> None:
        """It has gone. Where another one has its name by now, nothing changes."""
        name = subscription.consumer_name
        self.held.discard(subscription)
        if self.subscribed.get(name) is not subscription:
            return
        del self.subscribed[name]
        registration = self.registered.get(name)
        if registration is None:
            return
        registration.subscription = None
        if registration.is_draining:
            self.forget(registration)
        else:
            self._is_away(registration)

    # ---- registrations ----------------------------------------------------------------------------------------------

    def add(self, registration: Registration) -> None:
        """It is registered from now on."""
        self.registered[registration.name] = registration
        registration.subscription = self.subscribed.get(registration.name)
        if registration.subscription is None:
            self._is_away(registration)
        elif not registration.is_ready:
            self.hold(registration.subscription)

    def heard(self, registration: Registration, is_ready: bool, lease_ms: int) -> None:
        """It registers again: that is its heart-beat. One that is being drained stays so."""
        registration.is_ready, registration.lease_ms = is_ready, lease_ms
        subscription = registration.subscription
        if subscription is None:
            self._is_away(registration)
        elif not is_ready:
            self.hold(subscription)
        elif subscription.is_held and not registration.is_draining:
            self.release(subscription)

    def drain(self, registration: Registration) -> None:
        """It gets nothing more, and its keys are for others for good. Without a subscription it is forgotten now."""
        if registration.subscription is None:
            self.forget(registration)
        elif not registration.is_draining:
            registration.is_draining = True
            self.hold(registration.subscription)
            self.queue.forget_consumer(registration.name)

    def forget(self, registration: Registration) -> None:
        """Nobody waits for it any more."""
        del self.registered[registration.name]
        self.awaited.discard(registration)
        registration.leases.ended(registration)
        self.queue.forget_consumer(registration.name)

    def _is_away(self, registration: Registration) -> None:
        """Its lease runs from now on; it is forgotten where too many are away."""
        if registration.is_ready:
            self.awaited.add(registration)
        else:
            self.awaited.discard(registration)
        registration.leases.away(registration)

    # ---- who gets something -----------------------------------------------------------------------------------------

    def hold(self, subscription: Subscription) -> None:
        """It gets nothing from now on; what it has stays with it."""
        if subscription.is_held or subscription.is_over:
            return
        subscription.is_held = True
        self.held.add(subscription)
        subscription.connection.forget(subscription)
        if subscription.is_listed:
            del self.queue.ring[subscription]
            subscription.is_listed = False
        self.queue.hold_consumer(subscription)

    def release(self, subscription: Subscription) -> None:
        """It may be given something again."""
        subscription.is_held = False
        self.held.discard(subscription)
        self.queue.release_consumer(subscription)
        self.queue.join(subscription)
