"""Exchanges: an exchange holds only bindings of a key to a queue. A message that is sent to it with a key goes into
every queue that a binding matches.

Every binding of the broker is made and removed here, those of durable subscriptions to topics too: their exchange is
"". A binding is on the disk where its exchange is durable and its queue persistent. The private queues are those of
subscriptions to an exchange: each is in memory, for one subscription, and is closed when it grows too long.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple

from radiator.core.connections import ConsumedQueue, Subscription
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.target import Target
from radiator.core.routing.topic import Topics
from radiator.core.routing.trie import Trie
from radiator.core.turn import WRITE_COST_BYTES
from radiator.core.usage import Usages, with_maker
from radiator.model.errors import Refusal
from radiator.model.limits import BINDINGS_MAX
from radiator.model.message import Message
from radiator.model.recovery import Recovery
from radiator.model.settings import (
    DIRECT,
    FANOUT,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    STANDARD_EXCHANGES,
    TOPIC,
    ExchangeSettings,
    QueueSettings,
)
from radiator.model.validation import binding_key, binding_mistake, exchange_name_mistake, words_mistake
from radiator.model.writes import Bind, DropDeclared, KeepDeclared, Unbind

KIND = "exchange"
STANDARD_PREFIX = "amq."
TOPICS = ""  # the exchange of durable subscriptions to topics
PRIVATE_SETTINGS = QueueSettings(persistent=False)


class Exchange:
    """One exchange. bindings: by key and queue, in the order of binding; whether config.toml declares it. every_queue:
    how often each is bound, where keys do not matter. is_declared: config.toml declares the exchange.
    """

    __slots__ = ("accepted", "bindings", "every_queue", "is_declared", "name", "queues", "settings", "unrouted")

    def __init__(self, name: str, settings: ExchangeSettings, is_declared: bool) -> None:
        self.name = name
        self.settings = settings
        self.is_declared = is_declared
        self.accepted = 0
        self.unrouted = 0
        self.bindings: dict[tuple[str, Target], bool] = {}
        self.every_queue: dict[Target, int] = {}
        self.queues: Trie[Target] = Trie(is_literal=settings.type == DIRECT)

    @property
    def type(self) -> str:
        return self.settings.type

    @property
    def durable(self) -> bool:
        return self.settings.durable

    @property
    def auto_delete(self) -> bool:
        return self.settings.auto_delete

    def matching(self, key: str) -> Iterable[Target]:
        """Returns the queues that get a message sent with this key, each once."""
        return self.every_queue if self.type == FANOUT else self.queues.matching(key)

    def would_match(self, bound: str, queue: Target, key: str) -> bool:
        """Whether a message sent with this key would come by a binding of that key alone."""
        alone = Exchange(self.name, self.settings, is_declared=False)
        alone.add(bound, queue, is_declared=False)
        return queue in alone.matching(key)

    def add(self, key: str, queue: Target, is_declared: bool) -> None:
        """One binding more."""
        self.bindings[key, queue] = is_declared
        if self.type == FANOUT:
            self.every_queue[queue] = self.every_queue.get(queue, 0) + 1
        else:
            self.queues.add(key, queue)

    def remove(self, key: str, queue: Target) -> None:
        """Removes one binding."""
        del self.bindings[key, queue]
        if self.type != FANOUT:
            self.queues.remove(key, queue)
        elif self.every_queue[queue] > 1:
            self.every_queue[queue] -= 1
        else:
            del self.every_queue[queue]

    def check_key(self, key: str, for_send: bool) -> None:
        """Raises Refusal for a key that it cannot be sent to, or bound with. In a SEND `*` and `#` are words like any
        other: who sends to a queue by its binding's own key means that queue.
        """
        if self.type != TOPIC:
            return
        wrong = words_mistake(key) if for_send else binding_mistake(TOPIC, key)
        if wrong:
            raise Refusal("too-many-words", f"A key of /exchange/{self.name} {wrong}.")


class PrivateQueue(NamedTuple):
    """The queue of one subscription to an exchange."""

    queue: Queue
    subscription: Subscription


class Exchanges:
    """All exchanges of the broker. bound: the bindings of each queue by exchange and key, and whether they are on the
    disk. private: the private queues (see above). unbinding: queues that are about to be deleted, so that nothing is
    routed to them, each with the bindings that it had; binding such a queue keeps it. shadowed: exchanges that were
    declared at run time under names that config.toml has too. undeclared: exchanges that a reload no longer found in
    config.toml; they are deleted, with their bindings, in slices.
    """

    __slots__ = (
        "all", "bound", "context", "count", "unbinding", "private", "ports", "shadowed", "topics", "undeclared",
        "usages",
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
        self.count = 0  # of bindings
        self.bound: dict[Target, dict[tuple[str, str], bool]] = {}
        self.private: dict[object, PrivateQueue] = {}
        self.unbinding: dict[Target, dict[tuple[str, str], None]] = {}

    # ---- exchanges --------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Exchange:
        """Returns the exchange of that name. Raises Refusal where there is none."""
        found = self.all.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"/exchange/{name} is not declared: config.toml or a request to /admin declares an exchange.",
            )
        return found

    def routed(self, exchange: Exchange, key: str) -> list[Target]:
        """Returns the queues that a message goes into which is sent to the exchange with this key, each once."""
        matching = list(exchange.matching(key))
        return [queue for queue in matching if queue not in self.unbinding] if self.unbinding else matching

    def check_name(self, name: str) -> None:
        """Raises Refusal where no exchange can be declared under that name."""
        wrong = exchange_name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"{name!r:.80} is no name of an exchange: it {wrong}.")
        if name.startswith(STANDARD_PREFIX):
            raise Refusal("reserved", f"/exchange/{name} cannot be declared: what begins with amq. is the broker's.")

    def add(self, name: str, settings: ExchangeSettings) -> None:
        """Declared at run time: there is none of that name."""
        self.all[name] = Exchange(name, settings, is_declared=False)
        usage = self.usages.make(_address(name))
        if settings.durable:
            text = json.dumps(with_maker(asdict(settings), usage))
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
        """config.toml has it no more: it is as it was declared at run time; or goes with its bindings, in slices."""
        exchange, settings = self.all[name], self.shadowed.pop(name, None)
        if settings is None:
            self.undeclared.append(exchange)
        else:
            exchange.settings, exchange.is_declared = settings, False

    def undeclare_binding(self, name: str, key: str, queue: Target) -> None:
        """config.toml has it no more: one that was made at run time too stays."""
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
            raise Refusal("declared", f"/exchange/{name} is declared in the configuration: take it out there.")
        for key, queue in list(exchange.bindings):
            self.take_off(exchange, key, queue)
        self.drop(exchange)

    def drop(self, exchange: Exchange) -> None:
        """Removes an exchange that has no bindings."""
        del self.all[exchange.name]
        self.usages.gone(_address(exchange.name))
        if exchange.durable:
            self.context.write(DropDeclared(KIND, exchange.name))

    # ---- bindings ---------------------------------------------------------------------------------------------------

    def bind(self, name: str, key: str, queue: Target, is_declared: bool = False) -> bool:
        """Binds the queue; returns whether the binding is new. Raises Refusal. name "": topics."""
        exchange = self.get(name) if name != TOPICS else None
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
        if name != TOPICS:
            try:
                binding_key(key)
            except ValueError as error:
                raise Refusal("bad-request", f"The key of a binding {error}.") from None
            self.get(name).check_key(key, for_send=False)
        if self.count >= BINDINGS_MAX:
            raise Refusal("too-many-bindings", f"There are {self.count} bindings already: at most {BINDINGS_MAX}.")
        bound = self.topics.durable if name == TOPICS else self.get(name).queues
        if bound.is_crowded(key):
            raise Refusal(
                "too-many-wildcards",
                f"{key!r:.80} and what is bound already match in too many ways: fewer wildcards in the same places, or "
                "words of more kinds, would do.",
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
        if (name, key) not in self.bound.get(queue, ()):
            return False
        if exchange is not None and exchange.bindings[key, queue]:
            raise Refusal(
                "declared",
                f"The binding of {queue.address} to /exchange/{name} with the key {key!r:.80} is declared in the "
                "configuration: take it out there.",
            )
        self.undo(name, key, queue)
        return True

    def undo(self, name: str, key: str, queue: Target) -> None:
        if name == TOPICS:
            self.take_off(None, key, queue)
            return
        exchange = self.all[name]
        self.take_off(exchange, key, queue)
        if exchange.auto_delete and not exchange.bindings and not exchange.is_declared:
            self.drop(exchange)

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
                exchange is not None and exchange.durable and not binding_mistake(exchange.type, row.key)
            )
            if queue is not None and is_whole:
                self.put_on(row.exchange, row.key, queue, is_stored=True)
            else:
                self.context.write(Unbind(row.exchange, row.key, row.queue))

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


def _address(name: str) -> str:
    return f"/{KIND}/{name}"
