"""Exchanges: an exchange holds only bindings of a key to a queue, or to another exchange. A message that is sent to it
with a key goes into every queue that a binding matches, and on into every exchange (routing/ways.py).

Every binding of the broker is made and removed here, those of durable subscriptions to topics too: their exchange is
"". A binding is on the disk if its exchange is durable, and its queue is persistent, or its other exchange durable too.
The private queues are those of subscriptions to an exchange: each is in memory, for one subscription, whose connection
is closed when it grows too long.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from radiator.core.connections import ConsumedQueue, Subscription
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.target import Target
from radiator.core.routing.exchange import KIND, Exchange, Tie, ties_of
from radiator.core.routing.matcher import NO_HEADERS, Headers
from radiator.core.routing.topic import Topics
from radiator.core.routing.ways import Ways, find_ways
from radiator.core.turn import WRITE_COST_BYTES
from radiator.core.usage import Usages, with_maker
from radiator.model.errors import Refusal
from radiator.model.exchange_bindings import KIND as BINDING_KIND
from radiator.model.exchange_bindings import binding_name, binding_of, binding_text
from radiator.model.grounds import NoSuchExchange
from radiator.model.header_bindings import HEADERS_BINDINGS_MAX
from radiator.model.limits import BINDINGS_MAX
from radiator.model.message import Message
from radiator.model.recovery import Recovery
from radiator.model.settings import (
    HEADERS,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    STANDARD_EXCHANGES,
    ExchangeSettings,
    QueueSettings,
)
from radiator.model.validation import exchange_name_mistake
from radiator.model.writes import Bind, DropDeclared, KeepDeclared, Unbind

SOURCES_MAX = 1000  # refuse: bindings of exchanges that lead to one, which all go when it is deleted
STANDARD_PREFIX = "amq."
TOPICS = ""  # the exchange of durable subscriptions to topics
PRIVATE_SETTINGS = QueueSettings(persistent=False)


class PrivateQueue(NamedTuple):
    """The queue of one subscription to an exchange."""

    queue: Queue
    subscription: Subscription


class Exchanges:
    """All exchanges of the broker. bound: the bindings of each queue by exchange and key, and whether they are on the
    disk. private: the private queues (see above). unbinding: queues that are about to be deleted, so that nothing is
    routed to them, each with the bindings that it had; binding such a queue keeps it. shadowed: exchanges that were
    declared at run time under names that config.toml has too. undeclared: exchanges that a reload no longer found in
    config.toml; they are deleted, with their bindings, in slices. abandoned: auto_delete exchanges whose last binding
    has gone, and which go when there is time.
    """

    __slots__ = (
        "abandoned", "all", "bound", "context", "count", "is_dropping", "ports", "private", "shadowed", "topics",
        "unbinding", "undeclared", "usages",
    )  # fmt: skip

    def __init__(
        self,
        topics: Topics,
        declared: Mapping[str, ExchangeSettings],
        ports: QueuePorts,
        usages: Usages,
    ) -> None:
        self.context = ports.context
        self.usages = usages
        self.topics = topics
        self.ports = ports
        self.all: dict[str, Exchange] = {
            name: Exchange(name, ExchangeSettings(type=type_), is_declared=True)
            for name, type_ in STANDARD_EXCHANGES.items()
        }
        for name, settings in declared.items():
            self.all[name] = Exchange(name, settings, is_declared=True)
        self.shadowed: dict[str, ExchangeSettings] = {}
        self.undeclared: list[Exchange] = []
        self.abandoned: list[Exchange] = []
        self.is_dropping = False  # the loop that runs also takes what is abandoned meanwhile
        self.count = 0  # of bindings
        self.bound: dict[Target, dict[tuple[str, str], bool]] = {}
        self.private: dict[object, PrivateQueue] = {}
        self.unbinding: dict[Target, dict[tuple[str, str], None]] = {}

    # ---- exchanges --------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Exchange:
        """Returns the exchange of that name. Raises Refusal where there is none."""
        found = self.all.get(name)
        if found is None:
            raise Refusal.on(NoSuchExchange(name))
        return found

    def routed(self, exchange: Exchange, key: str) -> list[Target]:
        """Returns the queues that get a message sent to a plain exchange with this key, each once."""
        matching = list(exchange.matching(key, NO_HEADERS))
        return [queue for queue in matching if queue not in self.unbinding] if self.unbinding else matching

    def ways(self, exchange: Exchange, keys: Sequence[str], headers: Headers, is_dead_letter: bool = False) -> Ways:
        """Returns the same where the exchange may lead on, or there are several keys. Raises Refusal."""
        return find_ways(self.all, exchange, keys, headers, self.unbinding, is_dead_letter)

    def check_name(self, name: str) -> None:
        """Raises Refusal where no exchange can be declared under that name."""
        wrong = exchange_name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"{name!r:.80} is not a valid name for an exchange: it {wrong}.")
        if name.startswith(STANDARD_PREFIX):
            raise Refusal("reserved", f"/exchange/{name} cannot be declared: what begins with amq. is the broker's.")

    def add(self, name: str, settings: ExchangeSettings) -> None:
        """Adds an exchange declared at run time, of a name that none has."""
        self.all[name] = Exchange(name, settings, is_declared=False)
        usage = self.usages.make(_address(name))
        if settings.durable:
            text = json.dumps(with_maker(_as_kept(settings), usage))
            self.context.write(KeepDeclared(KIND, name, text), WRITE_COST_BYTES + len(text))

    def recover_exchange(self, name: str, settings: ExchangeSettings, made_by: str = "") -> None:
        """Restores an exchange that an earlier run declared."""
        self.usages.recover(made_by, _address(name))
        if name in self.all:
            self.shadowed[name] = settings
        else:
            self.all[name] = Exchange(name, settings, is_declared=False)

    def adopt(self, name: str, settings: ExchangeSettings) -> None:
        """Called when config.toml declares the exchange; one that exists must have the same settings."""
        found = self.all.get(name)
        if found is None:
            self.all[name] = Exchange(name, settings, is_declared=True)
        elif not found.is_declared:
            self.shadowed[name] = found.settings
            found.is_declared = True

    def undeclare(self, name: str) -> None:
        """Called when config.toml no longer has the exchange: it becomes what was declared at run time, or is deleted
        with its bindings, in slices.
        """
        exchange, settings = self.all[name], self.shadowed.pop(name, None)
        if settings is None:
            self.undeclared.append(exchange)
        else:
            exchange.use(settings)
            exchange.is_declared = False

    def undeclare_binding(self, name: str, key: str, queue: Target) -> None:
        """Called when config.toml no longer has the binding: it stays if it was also made at run time."""
        is_stored = self.bound.get(queue, {}).get((name, key))
        if is_stored:
            self.all[name].bindings[key, queue] = False
        elif is_stored is not None:
            self.take_off(self.all[name], key, queue)

    def delete(self, name: str) -> None:
        """Deletes the exchange with its bindings. Raises Refusal where there is none, or it may not be deleted."""
        exchange = self.get(name)
        if name in STANDARD_EXCHANGES:
            raise Refusal("reserved", f"/exchange/{name} always exists.")
        if exchange.is_declared:
            raise Refusal("declared", f"/exchange/{name} is declared in the configuration: remove it there.")
        for tie in list(ties_of(exchange)):
            self.untie(tie)
        if self.all.get(name) is exchange:  # an auto_delete one has gone with its last binding
            self.drop(exchange)

    def drop(self, exchange: Exchange) -> None:
        """Removes an exchange that has no bindings of its own, and what leads to it."""
        for source, key in list(exchange.sources):
            self.lead_no_more(source, key, exchange)
        del self.all[exchange.name]
        self.usages.gone(exchange.address)
        if exchange.durable:
            self.context.write(DropDeclared(KIND, exchange.name))

    def drop_abandoned(self) -> None:
        """Removes some of the exchanges whose last binding has gone; called again for what is left."""
        self.is_dropping = True
        left = SOURCES_MAX
        while self.abandoned and left > 0:
            exchange = self.abandoned.pop()
            if exchange.is_abandoned and self.all.get(exchange.name) is exchange:
                left -= 1 + len(exchange.sources)
                self.drop(exchange)
        self.is_dropping = False

    # ---- bindings ---------------------------------------------------------------------------------------------------

    def bind(self, name: str, key: str, queue: Target, is_declared: bool = False) -> bool:
        """Binds the queue; returns whether the binding is new. Raises Refusal. name "": topics."""
        exchange = self.get(name) if name != TOPICS else None
        key = key if exchange is None else exchange.bound_key(key)
        if queue in self.unbinding:
            self.unbinding.pop(queue).pop((name, key), None)
        if (name, key) in self.bound.get(queue, ()):
            if exchange is not None and is_declared:
                exchange.bindings[key, queue] = True
            return False
        if not is_declared:
            self.check_binding(name, key)
        is_stored = queue.number > 0 and (exchange is None or exchange.durable) and not is_declared
        self.put_on(name, key, queue, is_stored, is_declared)
        if is_stored:
            # D24: in the batch of the RECEIPT, or answer, that says so
            self.context.write(Bind(name, key, queue.number), WRITE_COST_BYTES + len(name) + len(key))
        return True

    def check_binding(self, name: str, key: str) -> None:
        """Raises Refusal where no further binding, or none with that key, can be made."""
        if self.count >= BINDINGS_MAX:
            raise Refusal("too-many-bindings", f"There are {self.count} bindings already: at most {BINDINGS_MAX}.")
        exchange = self.get(name) if name != TOPICS else None
        if exchange is not None and exchange.type == HEADERS and exchange.bindings_count >= HEADERS_BINDINGS_MAX:
            raise Refusal(
                "too-many-bindings",
                f"{exchange.address} is of type headers, and has {exchange.bindings_count} bindings already: each is "
                f"looked at for every message, so it may have at most {HEADERS_BINDINGS_MAX}.",
            )
        if self.topics.durable.is_crowded(key) if exchange is None else exchange.crowded_by(key):
            raise Refusal(
                "too-many-wildcards",
                f"{key!r:.80} and what is bound already match in too many ways: use fewer wildcards in the same "
                "places, or more different words.",
            )

    def put_on(self, name: str, key: str, queue: Target, is_stored: bool, is_declared: bool = False) -> None:
        self.count += 1
        self.bound.setdefault(queue, {})[name, key] = is_stored
        if name == TOPICS:
            self.topics.bind(key, queue)
            return
        self.all[name].add(key, queue, is_declared)

    def unbind(self, name: str, key: str, queue: Target) -> bool:
        """Removes a binding; returns whether there was one. An auto_delete exchange goes with its last one. Raises
        Refusal.
        """
        exchange = self.get(name) if name != TOPICS else None
        key = key if exchange is None else exchange.bound_key(key)
        if (name, key) not in self.bound.get(queue, ()):
            return False
        if exchange is not None and exchange.bindings[key, queue]:
            raise _declared(queue.address, name, key)
        self.undo(name, key, queue)
        return True

    def undo(self, name: str, key: str, queue: Target) -> None:
        if name == TOPICS:
            self.take_off(None, key, queue)
            return
        exchange = self.all[name]
        self.take_off(exchange, key, queue)
        self.go_if_abandoned(exchange)

    def go_if_abandoned(self, exchange: Exchange) -> None:
        """Deletes an auto_delete exchange that has lost its last binding, and with it others that only led to it."""
        if exchange.is_abandoned:
            self.abandoned.append(exchange)
            if not self.is_dropping:
                self.drop_abandoned()

    def take_off(self, exchange: Exchange | None, key: str, queue: Target) -> None:
        """Removes a binding at once, and from the disk with the open batch."""
        name = exchange.name if exchange is not None else TOPICS
        self.count -= 1
        there = self.bound[queue]
        is_stored = there.pop((name, key))
        if not there:
            del self.bound[queue]
        if exchange is None:
            self.topics.unbind(key, queue)
        else:
            exchange.remove(key, queue)
        if is_stored:
            # D24
            self.context.write(Unbind(name, key, queue.number))

    def release(self, queue: Target) -> None:
        """Called before a queue is deleted: removes all its bindings."""
        for name, key in list(self.bound.get(queue, ())):
            self.undo(name, key, queue)

    def recover(self, recovery: Recovery, queues: Mapping[int, Target]) -> None:
        """Restores the bindings that the store has, of queues by their number; drops those that config.toml has left
        without an end.
        """
        for row in recovery.bindings:
            queue = queues.get(row.queue)
            exchange = self.all.get(row.exchange)
            is_whole = row.exchange == TOPICS or (
                exchange is not None and exchange.durable and is_bound_key(exchange, row.key)
            )
            if queue is not None and is_whole:
                self.put_on(row.exchange, row.key, queue, is_stored=True)
            else:
                self.context.write(Unbind(row.exchange, row.key, row.queue))

    # ---- bindings of exchanges to exchanges -------------------------------------------------------------------------

    def lead_on(self, name: str, key: str, to: str, is_declared: bool = False) -> bool:
        """Binds the exchange `to`, so that what the other routes by that key goes on into it; returns whether the
        binding is new. Raises Refusal.
        """
        source, destination = self.get(name), self.get(to)
        key = source.bound_key(key)
        if source.leads(key, destination):
            if is_declared and source.onward is not None:
                source.onward.bindings[key, destination] = True
            return False
        if not is_declared:
            self.check_binding(name, key)
            if len(destination.sources) >= SOURCES_MAX:
                raise Refusal(
                    "too-many-bindings",
                    f"{len(destination.sources)} bindings lead to {destination.address} already: at most "
                    f"{SOURCES_MAX}.",
                )
        is_stored = source.durable and destination.durable and not is_declared
        source.lead_to(key, destination, is_declared, is_stored)
        self.count += 1
        if is_stored:
            # D24: as a binding to a queue
            text = binding_text(name, key, to)
            write = KeepDeclared(BINDING_KIND, binding_name(name, key, to), text)
            self.context.write(write, WRITE_COST_BYTES + len(text))
        return True

    def end_lead(self, name: str, key: str, to: str) -> bool:
        """Removes such a binding; returns whether there was one. Raises Refusal."""
        source, destination = self.get(name), self.get(to)
        key = source.bound_key(key)
        if source.onward is None or not source.leads(key, destination):
            return False
        if source.onward.bindings[key, destination]:
            raise _declared(destination.address, name, key)
        self.lead_no_more(source, key, destination)
        return True

    def lead_no_more(self, source: Exchange, key: str, destination: Exchange) -> None:
        """Removes it at once, and from the disk with the open batch."""
        self.count -= 1
        if source.lead_no_more(key, destination):
            # D24
            self.context.write(DropDeclared(BINDING_KIND, binding_name(source.name, key, destination.name)))
        self.go_if_abandoned(source)

    def undeclare_lead(self, name: str, key: str, to: str) -> None:
        """Does what undeclare_binding does, for a binding to an exchange."""
        source, destination = self.all.get(name), self.all.get(to)
        if source is None or destination is None or source.onward is None or not source.leads(key, destination):
            return
        if destination.sources[source, key]:
            source.onward.bindings[key, destination] = False
        else:
            self.lead_no_more(source, key, destination)

    def untie(self, tie: Tie) -> None:
        """Removes one of ties_of; nothing is done where it has gone meanwhile."""
        exchange, key, to = tie
        if not isinstance(to, Exchange):
            if (key, to) in exchange.bindings:
                self.take_off(exchange, key, to)
        elif exchange.leads(key, to):
            self.lead_no_more(exchange, key, to)

    def recover_leads(self, recovery: Recovery) -> None:
        """Does what `recover` does, for the bindings to exchanges."""
        for row in recovery.declared:
            if row.kind != BINDING_KIND:
                continue
            name, key, to = binding_of(row.text)
            source, destination = self.all.get(name), self.all.get(to)
            is_whole = source is not None and destination is not None and source.durable and destination.durable
            if source is None or destination is None or not is_whole or not is_bound_key(source, key):
                self.context.write(DropDeclared(row.kind, row.name))
            elif not source.leads(key, destination):
                source.lead_to(key, destination, is_declared=False, is_stored=True)
                self.count += 1

    # ---- private queues ---------------------------------------------------------------------------------------------

    def make_private(self, name: str, pattern: str) -> Queue:
        """Makes a queue in memory for one subscription, and binds it; the caller puts it into `private`. Raises
        Refusal.
        """
        queue = MemoryQueue(f"$own/exchange/{name}/{pattern}", PRIVATE_SETTINGS, self.ports)
        self.bind(name, pattern, queue)
        return queue

    def drop_private(self, queue: ConsumedQueue) -> None:
        """Removes the queue of a subscription that has ended; nothing is done for any other queue."""
        own = self.private.pop(queue, None)
        if own is not None:
            own.queue.end()
            self.release(own.queue)

    def deliver(self, queue: Target, message: Message, due_ms: int) -> bool:
        """Hands a copy to a subscription of an exchange. False: it is gone, or is closed now because too much waits."""
        own = self.private.get(queue)
        if own is None:
            return False
        if queue.ledger.stored < MEMORY_MESSAGES_MAX and queue.ledger.stored_bytes < MEMORY_BYTES_MAX:
            queue.take_in(message, due_ms)
            return True
        connection = own.subscription.connection
        for other in connection.queue_subscriptions.values():
            self.drop_private(other.queue)
        if not connection.is_closing:
            connection.is_closing = True
            context, ledger = self.context, queue.ledger
            context.count("slow_exchange_subscribers")
            context.note("warning", "slow_subscriber", connection=connection.number, topic=message.destination)
            sentence = (
                f"This connection consumes too slowly what comes by {message.destination}: {ledger.stored} messages of "
                f"{ledger.stored_bytes} bytes wait for it."
            )
            connection.refuse(context, "slow-subscriber", sentence)
        return False


def is_bound_key(exchange: Exchange, key: str) -> bool:
    """Whether an exchange, which may have another type than when it was bound, can have such a binding."""
    try:
        return exchange.bound_key(key) == key
    except Refusal:
        return False


def _address(name: str) -> str:
    return f"/{KIND}/{name}"


def _as_kept(settings: ExchangeSettings) -> dict[str, Any]:
    """Returns the settings as the store has them: of newer ones, those that have their default are left out."""
    kept = asdict(settings)
    return {key: value for key, value in kept.items() if value or key not in ("alternate", "internal")}


def _declared(address: str, name: str, key: str) -> Refusal:
    return Refusal(
        "declared",
        f"The binding of {address} to /exchange/{name} with the key {key!r:.80} is declared in the configuration: "
        "remove it there.",
    )
