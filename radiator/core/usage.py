"""Counts what each user has in use, and does what happens at the bounds of that (`max_...` in its table,
docs/OPERATING.md).

Counted as it changes: connections, destinations that the user has made, bytes that are unacked, and the rate of SENDs.
Weighed from each Tick on (rounds.py): what the user's connections hold in memory, and what is stored in the
destinations that it has made; what has come in there since is added. Whoever is not a user of the configuration (a
linked node, or an operator on a unix socket) has no bounds, and is not counted.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappush, heapreplace
from math import inf
from typing import Any, Protocol

from radiator.core.producer import Producer
from radiator.core.routing.waiting import Waitable, WaitList
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import HOLDERS_SHOWN, OFFERS_PER_TURN, REFUSED_LOOKS
from radiator.model.numbers import UserNumbers
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.users import MADE_BY, User, UserBounds


class UserConnection(Protocol):
    """A connection of a user."""

    number: int
    owner: int
    is_closing: bool
    idle_subscriptions: int

    @property
    def subscriptions_count(self) -> int: ...

    @property
    def unacked_bytes(self) -> int: ...

    def offer(self) -> None: ...

    def refuse(self, context: TurnContext, code: str, sentence: str) -> None: ...


class Usage:
    """The use that one user makes of the broker. connections: by number. subscriptions: as last weighed, and those made
    since (subscribed). channels: how many of the connections are channels of others, and do not count as connections.
    has_leases: messages are leased to it, or a Receive of it waits. unacked_bytes: of messages that are out with its
    connections, or leased to it. memory_bytes, stored_bytes: as last weighed; came_bytes: what has asked for room in
    what it has made since. denied: connections that were given nothing because too much is unacked; resuming: this is
    added to it once that has ended. tokens: SENDs that may come at once, as of tokens_s.
    """

    __slots__ = (
        "bounds", "came_before", "came_bytes", "channels", "connections", "denied", "destinations", "has_leases",
        "holders", "idle_subscriptions", "memory_bytes", "name", "rate_wait_list", "resuming", "stored_bytes",
        "stored_wait_list",
        "subscribed", "subscribed_before", "subscriptions", "tokens", "tokens_s", "unacked_bytes", "unacked_max",
        "weighed_memory_bytes", "weighed_stored_bytes", "weighed_subscriptions",
    )  # fmt: skip

    def __init__(self, name: str, bounds: UserBounds, resuming: "dict[Usage, None]") -> None:
        self.name = name
        self.resuming = resuming
        self.connections: dict[int, UserConnection] = {}
        self.channels = 0
        self.subscriptions = self.subscribed = self.weighed_subscriptions = self.destinations = 0
        self.unacked_bytes = self.memory_bytes = self.stored_bytes = self.came_bytes = 0
        self.idle_subscriptions = 0  # of connections that are not weighed, since they hold nothing
        self.denied: dict[UserConnection, None] = {}
        self.has_leases = False
        self.weighed_memory_bytes = self.weighed_stored_bytes = 0
        self.came_before = self.subscribed_before = 0
        self.holders: list[tuple[int, int, UserConnection]] = []
        self.tokens = self.tokens_s = 0.0
        self.rate_wait_list = WaitList("")
        self.stored_wait_list = WaitList("")
        self.use(bounds)

    def use(self, bounds: UserBounds) -> None:
        """Takes these bounds from now on. What is above one stays, and nothing is added."""
        self.bounds = bounds
        self.unacked_max = inf if bounds.max_unacked_bytes is None else bounds.max_unacked_bytes
        self.rate_wait_list.name = f"the rate of the user {self.name} (max_messages_per_s {bounds.max_messages_per_s})"
        self.stored_wait_list.name = (
            f"what the user {self.name} has made (max_stored_bytes {bounds.max_stored_bytes} of that user)"
        )
        if self.denied:
            self.resuming[self] = None

    @property
    def is_used(self) -> bool:
        """Whether it has connections, destinations or leases."""
        return bool(self.connections or self.destinations or self.has_leases)

    def has_full_rate(self, now_s: float) -> bool:
        """Whether it may send as much as a user that is new."""
        most = self.bounds.max_messages_per_s
        return most is None or self.tokens + (now_s - self.tokens_s) * most >= most

    def numbers(self) -> UserNumbers:
        """Returns the numbers that `stats` shows."""
        bounds = self.bounds
        return UserNumbers(
            connections=len(self.connections) - self.channels,
            subscriptions=self.subscriptions,
            destinations=self.destinations,
            unacked_bytes=self.unacked_bytes,
            memory_bytes=self.memory_bytes,
            stored_bytes=self.stored_bytes,
            blocked=len(self.rate_wait_list.waiters) + len(self.stored_wait_list.waiters),
            max_connections=bounds.max_connections,
            max_subscriptions=bounds.max_subscriptions,
            max_destinations=bounds.max_destinations,
            max_unacked_bytes=bounds.max_unacked_bytes,
            max_memory_bytes=bounds.max_memory_bytes,
            max_stored_bytes=bounds.max_stored_bytes,
            max_messages_per_s=bounds.max_messages_per_s,
        )

    # ---- counted ----------------------------------------------------------------------------------------------------

    def check_connections(self) -> None:
        """Raises Refusal where one more connection would be too many."""
        count, most = len(self.connections) - self.channels, self.bounds.max_connections
        if most is not None and count >= most:
            have = count_text(count, "connection")
            raise Refusal(
                "connections", f"The user {self.name} has {have} already: max_connections of that user is {most}."
            )

    def check_subscriptions(self) -> None:
        """Counts one more; raises Refusal where it would be too many. Some may have ended since they were counted, and
        are counted again before one is refused.
        """
        most = self.bounds.max_subscriptions
        if most is not None and self.subscriptions >= most:
            self.subscriptions = sum(one.subscriptions_count for one in self.connections.values())
            if self.subscriptions >= most:
                have = count_text(self.subscriptions, "subscription")
                raise Refusal(
                    "too-many-subscriptions",
                    f"The user {self.name} has {have} already: max_subscriptions of that user is {most}.",
                )
        self.subscriptions += 1
        self.subscribed += 1

    def check_destinations(self, more: int) -> None:
        """Raises Refusal where it may not make so many more."""
        count, most = self.destinations, self.bounds.max_destinations
        if most is not None and count + more > most:
            have = count_text(count, "destination")
            raise Refusal(
                "too-many-destinations",
                f"The user {self.name} has made {have} that exist: max_destinations of that user is {most}.",
            )

    def takes(self, member: UserConnection) -> bool:
        """Whether its connection may be given one more message of a queue or log. If not, it is offered messages again
        once less is unacked.
        """
        if self.unacked_bytes < self.unacked_max:
            return True
        self.denied[member] = None
        return False

    def settled(self, size: int) -> None:
        """Called when that many bytes are no longer unacked."""
        self.unacked_bytes -= size
        if self.denied and self.unacked_bytes < self.unacked_max:
            self.resuming[self] = None

    # ---- the rate ---------------------------------------------------------------------------------------------------

    def rate_wait(self, producer: Producer, now_s: float) -> Waitable | None:
        """Returns what its next SEND must wait for, if anything: at most as many are taken at once as in a second."""
        most = self.bounds.max_messages_per_s
        if most is None:
            return None
        if now_s > self.tokens_s:
            self.tokens = min(most, self.tokens + (now_s - self.tokens_s) * most)
            self.tokens_s = now_s
        waiters = self.rate_wait_list.waiters
        if self.tokens < 1 or (waiters and waiters[0] is not producer):
            return self.rate_wait_list
        return None

    # ---- weighed ----------------------------------------------------------------------------------------------------

    def stored_wait(self, producer: Producer, size: int) -> Waitable | None:
        """Returns what a SEND into something that it has made must wait for, if anything. One that asks twice is
        counted twice, until the next weighing.
        """
        most = self.bounds.max_stored_bytes
        waiters = self.stored_wait_list.waiters
        if most is None:
            return None
        if size > most:
            raise Refusal(
                "too-large",
                f"This has {size} bytes: its creator, user {self.name}, has max_stored_bytes = {most}.",
            )
        if self.stored_bytes + self.came_bytes + size > most or (waiters and waiters[0] is not producer):
            return self.stored_wait_list
        self.came_bytes += size
        return None

    def begin_weighing(self) -> None:
        """Called when a weighing begins, which will find what has come in so far."""
        self.came_before, self.subscribed_before = self.came_bytes, self.subscribed

    def weigh(self, member: UserConnection, size: int) -> None:
        """Adds what a connection of it holds in memory."""
        self.not_idle(member)
        self.weighed_memory_bytes += size
        self.weighed_subscriptions += member.subscriptions_count
        holders, row = self.holders, (size, -member.number, member)
        if len(holders) < HOLDERS_SHOWN:
            heappush(holders, row)
        elif row > holders[0]:
            heapreplace(holders, row)

    def idle(self, member: UserConnection) -> None:
        """Notes that a connection that was weighed just now is not weighed again before it wakes."""
        count = member.subscriptions_count
        self.weighed_subscriptions -= count
        self.idle_subscriptions += count
        member.idle_subscriptions = count

    def not_idle(self, member: UserConnection) -> None:
        """Called when a connection is weighed again, or closed."""
        self.idle_subscriptions -= member.idle_subscriptions
        member.idle_subscriptions = 0

    def weighed(self, context: TurnContext) -> Iterator[int]:
        """Called when all has been weighed: past max_memory_bytes, closes the largest connections, a few at a time.
        Yields what each step costs, as in rounds.py.
        """
        self.memory_bytes, self.weighed_memory_bytes = self.weighed_memory_bytes, 0
        self.stored_bytes, self.weighed_stored_bytes = self.weighed_stored_bytes, 0
        # what came meanwhile may have been missed
        self.came_bytes -= self.came_before
        since = self.subscribed - self.subscribed_before
        self.subscriptions = self.weighed_subscriptions + self.idle_subscriptions + since
        self.subscribed = self.weighed_subscriptions = 0
        holders, self.holders = sorted(self.holders, reverse=True), []
        most, left = self.bounds.max_memory_bytes, self.memory_bytes
        for size, _, member in holders:
            if most is None or left <= most or not size:
                return
            left -= size
            if not member.is_closing:
                member.refuse(
                    context,
                    "memory",
                    f"The connections of the user {self.name} hold {self.memory_bytes} bytes in memory "
                    f"(max_memory_bytes of that user is {most}), and this one holds the most: {size} bytes.",
                )
            yield REFUSED_LOOKS


class Usages:
    """all: by name, of those who have anything in use. acting: the user whose command is being carried out; None: one
    who is not counted. made: by address, who has made it, and how many destinations it counts as. wake: has those who
    wait tried again. resuming: whose connections may be given messages again. waiting: whose SENDs wait for
    their rate; leaving: who has nothing in use, but a rate that has not fully recovered. channels: how many connections
    are channels of others.
    """

    __slots__ = ("acting", "all", "channels", "context", "leaving", "made", "resuming", "users", "waiting", "wake")

    def __init__(self, context: TurnContext, wake: Callable[[Waitable], None]) -> None:
        self.context = context
        self.wake = wake
        self.users: Mapping[str, User] = {}
        self.channels = 0
        self.all: dict[str, Usage] = {}
        self.made: dict[str, tuple[Usage, int]] = {}
        self.acting: Usage | None = None
        self.resuming: dict[Usage, None] = {}
        self.waiting: dict[Usage, None] = {}
        self.leaving: dict[Usage, None] = {}

    def use(self, users: Mapping[str, User]) -> None:
        """Takes these users, with their bounds, from now on."""
        self.users = users
        for usage in self.all.values():
            bounds = self._bounds(usage.name)
            if bounds != usage.bounds:
                usage.use(bounds)
                self._wake(usage.rate_wait_list)
                self._wake(usage.stored_wait_list)

    def _wake(self, waitable: Waitable) -> None:
        if waitable.waiters:
            self.wake(waitable)

    def _bounds(self, name: str) -> UserBounds:
        return self.users[name].bounds if name in self.users else UserBounds()

    def named(self, name: str) -> Usage:
        """Returns the usage of the user, from now on in `all`."""
        found = self.all.get(name)
        if found is None:
            found = self.all[name] = Usage(name, self._bounds(name), self.resuming)
        return found

    def of(self, principal: Principal | None) -> Usage | None:
        """Returns the usage that the principal counts for; None: it is not counted."""
        if principal is None or principal.recognised_by is RecognisedBy.LINK_PROOF:
            return None
        return self.named(principal.name) if principal.name in self.users else None

    # ---- connections ------------------------------------------------------------------------------------------------

    def opened(self, member: UserConnection, principal: Principal) -> Usage | None:
        """Counts a connection. Returns the usage that it counts for. Raises Refusal if that user has enough."""
        usage = self.of(principal)
        if usage is not None:
            if member.owner == member.number:
                usage.check_connections()
            else:
                usage.channels += 1
            usage.connections[member.number] = member
        return usage

    def closed(self, usage: Usage, member: UserConnection) -> None:
        """Called when a connection is closed, with all that was unacked on it."""
        del usage.connections[member.number]
        usage.channels -= member.owner != member.number
        usage.not_idle(member)
        usage.denied.pop(member, None)
        usage.settled(member.unacked_bytes)
        self._forget(usage)

    def leases_end(self, usage: Usage, member: UserConnection) -> None:
        """Called when nothing is leased to the user any more."""
        usage.has_leases = False
        usage.denied.pop(member, None)
        self._forget(usage)

    def offer(self) -> bool:
        """Offers messages to connections that were denied them, as far as there is room. Returns whether more may be
        left.
        """
        left = OFFERS_PER_TURN
        while self.resuming:
            usage = next(iter(self.resuming))
            while usage.denied and usage.unacked_bytes < usage.unacked_max:
                if left <= 0:
                    return True
                left -= 1
                member = next(iter(usage.denied))
                del usage.denied[member]
                member.offer()
            del self.resuming[usage]
        return False

    # ---- destinations -----------------------------------------------------------------------------------------------

    def make(self, address: str, count: int = 1) -> Usage | None:
        """Called when the acting user has made it; it counts as `count` destinations. Returns that user's usage."""
        if self.acting is not None:
            self._made(self.acting, address, count)
        return self.acting

    def recover(self, name: str, address: str, count: int = 1) -> Usage | None:
        """Counts it for the user of that name, who made it in an earlier run; "": no user did. Returns that user's
        usage.
        """
        if not name:
            return None
        usage = self.named(name)
        self._made(usage, address, count)
        return usage

    def _made(self, usage: Usage, address: str, count: int) -> None:
        self.gone(address)
        self.made[address] = usage, count
        usage.destinations += count

    def gone(self, address: str) -> None:
        """Called when it no longer exists."""
        usage, count = self.made.pop(address, (None, 0))
        if usage is not None:
            usage.destinations -= count
            self._wake(usage.stored_wait_list)
            self._forget(usage)

    def maker(self, address: str) -> str:
        """Returns the name of the user that has made it; "": none has."""
        usage, _ = self.made.get(address, (None, 0))
        return "" if usage is None else usage.name

    def _forget(self, usage: Usage) -> None:
        if usage.is_used or usage is self.acting:
            return
        if usage.has_full_rate(self.context.now_s):
            self.all.pop(usage.name, None)
            self.resuming.pop(usage, None)
        else:
            self.leaving[usage] = None  # else whoever connects again would have a full rate each time

    # ---- time -------------------------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """Wakes those who wait for their rate; forgets those in `leaving` whose rate has recovered."""
        leaving, self.leaving = self.leaving, {}
        for usage in leaving:
            self._forget(usage)
        for usage in [*self.waiting]:
            if not usage.rate_wait_list.waiters:
                del self.waiting[usage]
            self._wake(usage.rate_wait_list)

    def rate_wait(self, usage: Usage, producer: Producer) -> Waitable | None:
        """Returns what the next SEND of that user must wait for, if anything."""
        found = usage.rate_wait(producer, self.context.now_s)
        if found is not None:
            self.waiting[usage] = None
        return found

    def begin_weighing(self) -> Iterator[int]:
        """Called when a weighing begins. Yields as `weighed` does."""
        for usage in [*self.all.values()]:
            usage.begin_weighing()
            yield 1

    def weighed(self) -> Iterator[int]:
        """Called when everything has been weighed. Yields what each step costs, as in rounds.py."""
        for usage in [*self.all.values()]:
            yield 1
            yield from usage.weighed(self.context)
            self._wake(usage.stored_wait_list)


def with_maker(kept: dict[str, Any], usage: Usage | None) -> dict[str, Any]:
    """Returns the settings as the store keeps them, with the user who made the destination."""
    return kept if usage is None else kept | {MADE_BY: usage.name}
