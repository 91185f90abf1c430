"""What is asked and answered about the consumers of a queue, and the keys that they work on; see administration.py."""

from collections.abc import Mapping
from dataclasses import dataclass

from radiator.model.numbers import Rows


@dataclass(slots=True)
class ListConsumers:
    """The consumers that have names, or those of them that ReadSection would have: Consumers."""

    queue: str
    after: str | None = None
    limit: int | None = None
    match: str | None = None


@dataclass(slots=True)
class RegisterConsumer:
    """Registers a consumer, or renews its registration: ConsumerRegistered. is_ready: false: it gets nothing yet.
    lease_ms: how long it is waited for when it is away. Refused (`too-many-registrations`) at a bound of all queues.
    """

    queue: str
    name: str
    is_ready: bool
    lease_ms: int


@dataclass(slots=True)
class DrainConsumer:
    """A consumer gets nothing more, and is forgotten when it has gone: ConsumerDrained, after wait_ms at the latest."""

    queue: str
    name: str
    wait_ms: int


@dataclass(slots=True)
class ReadScale:
    """How many consumers the queue has, and how many could be busy: Scale."""

    queue: str


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Consumer:
    """name: that its SUBSCRIBE gave it, or "". stands: what keeps it from the next message: `closing`, `outbox-full`,
    `window`, `held` (it is not ready, drained or replaced), `stand-by` (another is active), or nothing (`has-room`).
    window: how many messages it may have unacked; None: no bound.
    """

    connection: int
    subscription: str
    name: str
    stands: str
    unacked: int
    window: int | None
    outbox_bytes: int
    priority: int


@dataclass(slots=True)
class ConsumerRegistered:
    """subscribe: the headers of the SUBSCRIBE that belongs to it. share: of the queue's work, from 0 to 1, that it has
    when it is ready. consumers: subscriptions of the queue. created: it was not registered before.
    """

    name: str
    ready: bool
    draining: bool
    lease_ms: int
    subscribe: Mapping[str, str]
    share: float
    consumers: int
    created: bool


@dataclass(slots=True)
class NamedConsumer:
    """connection: None: it has no subscription. keys: active keys that are assigned to it; None: the queue is not
    partitioned. lease_left_ms: until it is forgotten; None: it is subscribed, or not registered. stands: as of
    Consumer; None: it has no subscription.
    """

    name: str
    connection: int | None
    registered: bool
    ready: bool
    draining: bool
    unacked: int
    keys: int | None
    lease_left_ms: int | None
    stands: str | None


@dataclass(slots=True)
class Consumers:
    """The consumers that have names, by name."""

    consumers: Rows[NamedConsumer]


@dataclass(slots=True)
class ConsumerDrained:
    """unacked: how many messages it still has."""

    drained: bool
    unacked: int


@dataclass(slots=True)
class Scale:
    """backlog: messages that are ready, with consumers, or on the way to the disk. active_keys: those that memory knows
    of; None: the queue is not partitioned. useful_consumers: how many could be busy at once.
    """

    backlog: int
    oldest_ms: int | None
    active_keys: int | None
    consumers: int
    useful_consumers: int


@dataclass(slots=True)
class ActiveConsumer:
    """The one that gets the messages of a queue while others stand by."""

    connection: int
    subscription: str


@dataclass(slots=True)
class HotKey:
    """The key of a queue with most messages. key: as text, escaped, and cut where it is long."""

    key: str
    messages: int


ConsumerAnswer = ConsumerRegistered | Consumers | ConsumerDrained | Scale
