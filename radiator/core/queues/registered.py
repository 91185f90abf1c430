"""The consumers of one queue that have names: which subscription has each name now, and what they have registered.

Of two subscriptions with one name the newer one has it: its process was probably restarted before the old connection
was found dead. A registration adds whether the consumer is ready, and how long it is waited for when it is away. While
its subscription exists, its lease does not run: the connection shows that it is alive.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from radiator.core.connections import Subscription
from radiator.core.turn import TurnContext


class NamedQueue(Protocol):
    """What NamedConsumers needs of its queue."""

    name: str
    context: TurnContext
    ring: OrderedDict[Subscription, None]

    def join(self, subscription: Subscription) -> None:
        """Called when a consumer has room: puts it at the end of the ring and delivers what is ready."""

    def hold_consumer(self, subscription: Subscription) -> None:
        """Called when a consumer is held: it gets nothing until it is released."""

    def release_consumer(self, subscription: Subscription) -> None:
        """Called when a held consumer may be given messages again."""

    def forget_consumer(self, name: str) -> None:
        """Called when a consumer that is held, or has left, is no longer waited for."""


class RegistrationLeases(Protocol):
    """What keeps the leases of registrations."""

    def away(self, registration: "Registration") -> None:
        """Called when it has no subscription: its lease runs from now on."""

    def back(self, registration: "Registration") -> None:
        """Called when it has a subscription: its lease does not run."""

    def ended(self, registration: "Registration") -> None:
        """Called when it is forgotten."""


@dataclass(slots=True, eq=False)
class Registration:
    """What a consumer has registered about itself. is_ready: false: it gets nothing yet. lease_ms: how long it is
    waited for. due_s: when that ends; 0: it is not away. is_draining: it gets nothing more, and is forgotten when its
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
        """Returns the names of all consumers that are subscribed or registered."""
        return [*{**self.subscribed, **self.registered}]

    def keeps(self, name: str) -> bool:
        """Whether a consumer of that name is waited for when it is away."""
        registration = self.registered.get(name)
        return registration is not None and not registration.is_draining

    def sharing(self, name: str, count: int) -> int:
        """Returns how many consumers share the work if the one of that name is ready: those of `count` subscriptions
        that may be given messages, and those that are waited for.
        """
        own = self.subscribed.get(name)
        others = count - len(self.held) - (own is not None and not own.is_held)
        return 1 + others + len(self.awaited) - (self.registered.get(name) in self.awaited)

    # ---- subscriptions ----------------------------------------------------------------------------------------------

    def joined(self, subscription: Subscription) -> None:
        """Called when a subscription with a name comes: the name belongs to it from now on."""
        name = subscription.consumer_name
        before, self.subscribed[name] = self.subscribed.get(name), subscription
        registration = self.registered.get(name)
        if registration is not None and registration.is_draining:
            self.forget(registration)  # the process that was drained was the earlier one
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
        """Called when a subscription has gone. If another one has the name by now, nothing else changes."""
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
        """Adds a registration."""
        self.registered[registration.name] = registration
        registration.subscription = self.subscribed.get(registration.name)
        if registration.subscription is None:
            self._is_away(registration)
        elif not registration.is_ready:
            self.hold(registration.subscription)

    def heard(self, registration: Registration, is_ready: bool, lease_ms: int) -> None:
        """Called when a consumer registers again, which is its heart-beat. A consumer that is being drained stays
        so.
        """
        registration.is_ready, registration.lease_ms = is_ready, lease_ms
        subscription = registration.subscription
        if subscription is None:
            self._is_away(registration)
        elif not is_ready:
            self.hold(subscription)
        elif subscription.is_held and not registration.is_draining:
            self.release(subscription)

    def drain(self, registration: Registration) -> None:
        """Gives the consumer nothing more, and its keys to others for good. If it has no subscription, it is forgotten
        now.
        """
        if registration.subscription is None:
            self.forget(registration)
        elif not registration.is_draining:
            registration.is_draining = True
            self.hold(registration.subscription)
            self.queue.forget_consumer(registration.name)

    def forget(self, registration: Registration) -> None:
        """Drops a registration: its consumer is no longer waited for."""
        del self.registered[registration.name]
        self.awaited.discard(registration)
        registration.leases.ended(registration)
        self.queue.forget_consumer(registration.name)

    def _is_away(self, registration: Registration) -> None:
        """Starts the lease of a consumer that is away; it may be forgotten at once if too many are away."""
        if registration.is_ready:
            self.awaited.add(registration)
        else:
            self.awaited.discard(registration)
        registration.leases.away(registration)

    # ---- who gets something -----------------------------------------------------------------------------------------

    def hold(self, subscription: Subscription) -> None:
        """Gives the subscription nothing from now on; messages that it has stay with it."""
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
        """Lets the subscription be given messages again."""
        subscription.is_held = False
        self.held.discard(subscription)
        self.queue.release_consumer(subscription)
        self.queue.join(subscription)
