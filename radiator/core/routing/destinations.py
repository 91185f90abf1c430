"""Finds destinations by name: everything that can be sent to, the bounds on their number, and what routes to what.

Queues, fanouts, topics, exchanges and logs have separate name spaces. A temp queue belongs to one connection; others
find it only under the id of its reply address.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from radiator.core.connections import Connection
from radiator.core.journal_writer import JournalWriter
from radiator.core.logs.log import LOG_PREFIX, Log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.logs import Logs
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.queue import DeadLetter, Queue, QueuePorts
from radiator.core.queues.target import Target
from radiator.core.queues.windows import Windows
from radiator.core.routing.exchanges import TOPICS, Exchanges
from radiator.core.routing.fanouts import Fanouts
from radiator.core.routing.matcher import NO_HEADERS, Headers
from radiator.core.routing.queue_settings import DURABLE_PREFIX, OUTBOX_PREFIX
from radiator.core.routing.queues import Queues
from radiator.core.routing.temp_queues import TempQueues
from radiator.core.routing.topic import Topics
from radiator.core.turn import TurnContext
from radiator.core.usage import Usages
from radiator.model.errors import Refusal
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.grounds import DECLARE_FIRST, NoSuchQueue
from radiator.model.limits import STEPS_PER_COPY, Limits
from radiator.model.recovery import Recovery
from radiator.model.settings import Binding, Declarations

if TYPE_CHECKING:
    from radiator.core.cluster.gossip import Gossip
    from radiator.core.cluster.standing import StandingPatterns


def by_queue(bindings: Iterable[Binding]) -> dict[str, list[tuple[str, str]]]:
    """Returns the exchange and key of each binding, by queue."""
    found: dict[str, list[tuple[str, str]]] = {}
    for binding in bindings:
        found.setdefault(binding.queue, []).append((binding.exchange, binding.key))
    return found


class Counted(Protocol):
    """A kind of destinations."""

    @property
    def count(self) -> int:
        """How many of max_destinations it takes."""


class Destinations:
    """The destinations of each kind, once the kinds (core/kinds/) have recovered them. counted: these kinds. copies_to:
    outboxes of other nodes that get a copy of what is sent; copies_dropped: outboxes that only count what they would
    have got. declared_bindings: the bindings in config.toml, by queue name or `/log/NAME`.
    """

    __slots__ = (
        "context", "copies_dropped", "copies_to", "counted", "declarations", "declared_bindings", "exchanges",
        "fanouts", "is_clustered", "journal", "limits", "logs", "next_number", "queues", "readers", "temp_queues",
        "topics", "usages", "windows",
    )  # fmt: skip

    def __init__(
        self,
        declarations: Declarations,
        recovery: Recovery,
        context: TurnContext,
        limits: Limits,
        entropy: Callable[[int], bytes],
        dead_letter: DeadLetter,
        unblocked: Callable[[Queue], None],
        usages: Usages,
        is_clustered: bool,
        journal: JournalWriter | None = None,
    ) -> None:
        self.declarations = declarations
        self.context = context
        self.limits = limits
        self.journal = journal
        self.usages = usages
        self.is_clustered = is_clustered
        self.copies_to: list[DurableQueue] = []
        self.copies_dropped: list[DurableQueue] = []
        self.next_number = recovery.next_queue
        self.declared_bindings = by_queue(declarations.bindings)
        self.windows = windows = Windows(limits.max_memory_bytes)
        ports = QueuePorts(context, dead_letter, unblocked)
        self.topics = Topics(context)
        self.exchanges = Exchanges(self.topics, declarations.exchanges, ports, usages)
        self.fanouts = Fanouts(declarations, context, usages)
        self.queues = Queues(declarations, self, ports=ports, windows=windows, fanouts=self.fanouts, journal=journal)
        self.readers = LogConsumers(context, windows.out_max)
        self.logs = Logs(declarations, self, context=context, windows=windows, readers=self.readers)
        self.temp_queues = TempQueues(limits, entropy, ports)
        self.counted: Sequence[Counted] = ()

    def recover_bindings(self, recovery: Recovery) -> None:
        """Restores the bindings that the store has, of queues and logs that have been restored."""
        numbered: dict[int, Target] = {**self.queues.stored}
        numbered.update((log.number, log) for log in self.logs.all.values())
        self.exchanges.recover(recovery, numbered)
        self.exchanges.recover_leads(recovery)

    def bind_declared(self) -> None:
        """Makes the bindings that config.toml declares, and the queues that they lead to."""
        for name in self.declared_bindings:
            if name.startswith(EXCHANGE_PREFIX):
                for exchange, key in self.declared_bindings[name]:
                    self.bind_as_declared(Binding(exchange, key, name))
            else:
                self._bind_declared(self.target(name))

    # ---- how many ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many there are, as max_destinations counts them."""
        return sum(one.count for one in self.counted)

    def check_count(self, more: int = 1) -> None:
        """Raises Refusal where that many more destinations are too many, in all or for the user who makes them."""
        self.check_total(more)
        if self.usages.acting is not None:
            self.usages.acting.check_destinations(more)

    def check_total(self, more: int = 1) -> None:
        """Raises Refusal if there would be too many destinations in all. A topic exists while it has subscribers, and
        counts for no user.
        """
        count = self.count
        if count + more > self.limits.max_destinations:
            raise Refusal(
                "too-many-destinations",
                f"There are {count} destinations already, and max_destinations is {self.limits.max_destinations}.",
            )

    def take_number(self) -> int:
        """Returns a number for a new name on the disk, one that no queue or log has had."""
        number = self.next_number
        self.next_number += 1
        return number

    def existing_queue(self, name: str, user: Connection | None = None) -> Queue:
        """Returns the queue of that name. user: who would use it. Raises Refusal where there is none, or it may not."""
        found = self.queues.find(name)
        if found is None:
            raise Refusal.on(NoSuchQueue(name, is_log=name in self.logs.all))
        if user is not None:
            self.queues.owned.check(found, user)
        return found

    def check_owner(self, name: str, user: Connection) -> None:
        """Raises Refusal where the queue of that name is one that only another connection may use."""
        found = self.queues.find(name)
        if found is not None:
            self.queues.owned.check(found, user)

    # ---- what leads to one ------------------------------------------------------------------------------------------

    def made(self, target: Target) -> None:
        """Called for a new queue: makes the bindings that config.toml declares for it."""
        if target.name in self.declared_bindings:
            self._bind_declared(target)

    def check_no_child(self, log: Log) -> None:
        """Raises Refusal where a fanout leads to it."""
        for fanout in self.fanouts.all.values():
            if log.name in fanout.children:
                raise Refusal("in-use", f"{log.name} is a child of /fanout/{fanout.name}: delete that first.")

    def release(self, target: Target) -> None:
        """Called before a queue is deleted: removes its bindings, and it counts for no user any more."""
        self.exchanges.release(target)
        self.usages.gone(target.address)

    def _bind_declared(self, queue: Target) -> None:
        """Makes the bindings that config.toml declares for it."""
        for exchange, key in self.declared_bindings.get(queue.name, ()):
            self.exchanges.bind(exchange, key, queue, is_declared=True)

    def target(self, name: str) -> Target:
        """Returns the queue of that name, made if there is none, whatever [create] says: what is declared leads to it.
        For `/log/NAME` returns the log; raises Refusal if there is none.
        """
        if name.startswith(LOG_PREFIX):
            return self.logs.get(name.removeprefix(LOG_PREFIX))
        return self.queues.make(name)

    def dead_letter_targets(self, exchange: str, key: str, headers: Headers = NO_HEADERS) -> tuple[list[Target], int]:
        """Returns the targets of a dead letter that is sent to the exchange with this key, each once, and what finding
        them has cost, in copies; exchange "": the queue of that name, if there is one.
        """
        if not exchange:
            queue = self.queues.all.get(key)
            return ([] if queue is None or queue in self.exchanges.unbinding else [queue]), 0
        found = self.exchanges.all.get(exchange)
        if found is None:
            return [], 0
        try:
            found.check_key(key, for_send=True)
            if found.is_plain:
                return self.exchanges.routed(found, key), 0
            ways = self.exchanges.ways(found, (key,), headers, is_dead_letter=True)
        except Refusal:  # a dead letter cannot be refused: it goes nowhere
            return [], 0
        return [*ways.targets], ways.steps // STEPS_PER_COPY + len(ways.visited)

    def make_declared(self, name: str) -> None:
        """Makes a queue, or `/log/NAME`, that config.toml declares, where it does not exist. Exchanges exist
        already.
        """
        if name.startswith(EXCHANGE_PREFIX):
            return
        if not name.startswith(LOG_PREFIX):
            self.target(name)
        elif name.removeprefix(LOG_PREFIX) not in self.logs.all:
            bare = name.removeprefix(LOG_PREFIX)
            self.logs.create(bare, self.declarations.logs[bare]).is_declared = True

    def bind_as_declared(self, binding: Binding) -> None:
        """Makes a binding that config.toml declares, and the queue that it leads to."""
        if binding.queue.startswith(EXCHANGE_PREFIX):
            to = binding.queue.removeprefix(EXCHANGE_PREFIX)
            self.exchanges.lead_on(binding.exchange, binding.key, to, is_declared=True)
        else:
            self.exchanges.bind(binding.exchange, binding.key, self.target(binding.queue), is_declared=True)

    def bind(self, exchange: str, key: str, queue: str, user: Connection | None = None) -> bool:
        """Binds the queue, or what `/log/NAME` or `/exchange/NAME` stands for, which must exist; returns whether the
        binding is new. Raises Refusal.
        """
        if queue.startswith(EXCHANGE_PREFIX):
            return self.exchanges.lead_on(exchange, key, queue.removeprefix(EXCHANGE_PREFIX))
        return self.exchanges.bind(self.exchanges.get(exchange).name, key, self.bindable(queue, user))

    def unbind(self, exchange: str, key: str, queue: str, user: Connection | None = None) -> bool:
        """Removes a binding; returns whether there was one. Raises Refusal."""
        if queue.startswith(EXCHANGE_PREFIX):
            return self.exchanges.end_lead(exchange, key, queue.removeprefix(EXCHANGE_PREFIX))
        return self.exchanges.unbind(self.exchanges.get(exchange).name, key, self.bindable(queue, user))

    def bindable(self, name: str, user: Connection | None = None) -> Target:
        """Returns the queue of that name, or `/log/NAME`, if a fanout or a binding may lead there. user: who would bind
        it. Raises Refusal.
        """
        if name.startswith(LOG_PREFIX):
            log = self.logs.get(name.removeprefix(LOG_PREFIX))
            if log.is_reserved:
                raise Refusal("reserved", f"{log.name} is a log that the broker keeps for itself.")
            return log
        found = self.queues.all.get(name)
        if found is not None:
            if user is not None:
                self.queues.owned.check(found, user)
            return found
        if name.startswith((OUTBOX_PREFIX, DURABLE_PREFIX)):
            raise Refusal("reserved", f"/queue/{name} is a queue that the broker keeps for itself.")
        raise Refusal.on(NoSuchQueue(name, DECLARE_FIRST))

    def bindings_of(self, queue: Target) -> Collection[tuple[str, str]]:
        """Exchange and key of each of its bindings; exchange "": a durable subscription to topics."""
        return self.exchanges.bound.get(queue, ())

    # ---- other nodes ------------------------------------------------------------------------------------------------

    def spread(self, gossip: "Gossip", standing: "StandingPatterns | None") -> None:
        """Called once this node has peers: from then on they are sent what is wanted here."""
        self.topics.gossip = gossip
        self.topics.standing = standing
        for bindings in self.exchanges.bound.values():
            for exchange, pattern in bindings:
                if exchange == TOPICS:
                    gossip.subscribed(pattern)
                    if standing is not None:
                        standing.subscribed(pattern)
