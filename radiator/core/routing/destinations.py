"""Names -> destinations: what exists, what first use creates, what is declared at run time, and what is refused.

Queues, fanouts, topics, exchanges and logs have separate names. Temp queues belong to one connection and are found by
others under the id of their reply address only.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from radiator.core.journal_writer import JournalWriter
from radiator.core.logs.log import LOG_PREFIX, Log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.logs import Logs, is_reserved_log
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import DeadLetter, Queue, QueuePorts
from radiator.core.queues.target import Target
from radiator.core.queues.windows import Windows
from radiator.core.routing.exchanges import KIND as EXCHANGE_KIND
from radiator.core.routing.exchanges import TOPICS, Exchanges
from radiator.core.routing.fanouts import Fanouts
from radiator.core.routing.queue_settings import DURABLE_PREFIX, OUTBOX_PREFIX, in_force, unfit
from radiator.core.routing.temp_queues import TempQueues
from radiator.core.routing.topic import Topics
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.addresses import FANOUT
from radiator.model.errors import Refusal, StoreError
from radiator.model.limits import Limits
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.recovery import Recovery
from radiator.model.settings import (
    STANDARD_EXCHANGES,
    Binding,
    Declarations,
    ExchangeSettings,
    QueueSettings,
)
from radiator.model.validation import (
    check_dead_letter,
    exchange_settings,
    fanout_children,
    queue_name,
)
from radiator.model.writes import (
    Declare,
    KeepSettings,
    Ledger,
    Retire,
)

if TYPE_CHECKING:
    from radiator.core.cluster.gossip import Gossip
    from radiator.core.cluster.standing import Standing


def by_queue(bindings: Iterable[Binding]) -> dict[str, list[tuple[str, str]]]:
    """Exchange and key of the bindings of each queue."""
    found: dict[str, list[tuple[str, str]]] = {}
    for binding in bindings:
        found.setdefault(binding.queue, []).append((binding.exchange, binding.key))
    return found


class Destinations:
    """Everything that can be sent to."""

    __slots__ = (
        "all_fanouts", "all_logs", "context", "copies_dropped", "copies_to", "declarations", "declared_bindings",
        "durables", "dying_into", "exchanges", "fanouts", "is_clustered", "journal", "limits", "logs", "next_number",
        "on_new", "outboxes", "ports", "queues", "readers", "replies", "retention", "retired", "temp_queues", "topics",
        "windows",
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
        is_clustered: bool,
        journal: JournalWriter | None = None,
    ) -> None:
        self.declarations = declarations
        self.context = context
        self.limits = limits
        self.ports = QueuePorts(context, dead_letter, unblocked)
        self.journal = journal
        self.windows = Windows(limits.max_memory_bytes)
        self.topics = Topics(context)
        self.exchanges = Exchanges(self.topics, declarations.exchanges, self.ports)
        self.declared_bindings = by_queue(declarations.bindings)
        self.queues: dict[str, Queue] = {}
        self.dying_into: dict[str, dict[DurableQueue, None]] = {}  # those whose dead letters go to that queue
        self.readers = LogConsumers(self.ports, self.windows.out_max)
        self.all_logs = Logs(declarations, self, context=context, windows=self.windows, readers=self.readers)
        self.logs = self.all_logs.all
        self.retention = self.all_logs.retention
        self.temp_queues = TempQueues(limits, entropy, self.ports)
        self.replies = self.temp_queues.by_id
        # one node among others: copies wait in queues that clients cannot reach, those of copies_to get
        # more, those of copies_dropped count them alone; on_new hears of every queue that is made
        self.is_clustered = is_clustered
        self.copies_to: list[DurableQueue] = []
        self.copies_dropped: list[DurableQueue] = []
        self.outboxes: dict[str, DurableQueue] = {}
        self.durables: dict[str, DurableQueue] = {}
        self.on_new: Callable[[Queue], None] = lambda queue: None
        self.all_fanouts = Fanouts(declarations, context)
        self.fanouts = self.all_fanouts.all
        self.next_number = recovery.next_queue
        self.retired = dict(recovery.retired)
        self._recover(recovery)
        for name, declared in declarations.logs.items():
            if name not in self.logs:
                self.all_logs.create(name, declared)
            self.logs[name].is_declared = True
        for name in declarations.queues:
            if name not in self.queues:
                self._create(name)
            self.queues[name].is_declared = True
        for name in self.declared_bindings:
            self._bind_declared(self.target(name))
        for stored in recovery.queues:
            self._check_kept(stored.name, stored.settings)

    def _recover(self, recovery: Recovery) -> None:
        """What the store has, as far as config.toml says nothing else."""
        for row in recovery.declared:
            if row.kind == EXCHANGE_KIND:
                self.exchanges.recover_exchange(row.name, exchange_settings(json.loads(row.text)))
            elif row.kind == FANOUT:
                self.all_fanouts.recover(row.name, fanout_children(json.loads(row.text)))
        numbered: dict[int, Target] = {}
        gone = []
        for stored in recovery.queues:
            settings = self._settings(stored.name, stored.settings)
            if settings.persistent:
                queue = self._open(stored.number, stored.name, settings, stored.ledger)
                queue.next_due_ms = stored.next_due_ms
                queue.given = stored.settings
                numbered[stored.number] = queue
            elif stored.ledger.stored:
                raise StoreError(
                    f"/queue/{stored.name} is declared with persistent = false, but {stored.ledger.stored} messages of "
                    "it are stored: "
                    "declare it persistent and consume or purge them first."
                )
            else:
                gone.append(Retire(stored.number, stored.name, 0))
        for found in recovery.logs:
            if found.name:
                numbered[found.number] = self.all_logs.recover(found)
            else:
                self.retention.drop(found.segments)
        self.exchanges.recover(recovery, numbered)
        for retire in gone:
            self.context.write(retire)

    def _settings(self, name: str, text: str = "", by: Declarations | None = None) -> QueueSettings:
        """See queue_settings.in_force. by: by these declarations instead of those in force."""
        return in_force(name, text, by or self.declarations, self.fanouts)

    def _check_kept(self, name: str, text: str) -> None:
        """Raises StoreError where config.toml now says of other queues what does not go with the dead letters of this,
        declared at run time.
        """
        if text and name in self.queues and name not in self.declarations.queues:
            try:
                check_dead_letter(name, self.queues[name].settings, self.settings_for)
            except Refusal as refusal:
                raise unfit(name, text, refusal) from refusal

    def _bind_declared(self, queue: Target) -> None:
        """The bindings that config.toml has for it."""
        for exchange, key in self.declared_bindings.get(queue.name, ()):
            self.exchanges.bind(exchange, key, queue, is_declared=True)

    def _open(self, number: int, name: str, settings: QueueSettings, ledger: Ledger) -> DurableQueue:
        queue = DurableQueue(number, name, settings, ledger, self.ports, self.windows)
        if settings.dead_letter is not None:
            self.dying_into.setdefault(settings.dead_letter, {})[queue] = None
        if name.startswith(OUTBOX_PREFIX):
            self.outboxes[name.removeprefix(OUTBOX_PREFIX)] = queue
            return queue
        queue.journal = self.journal
        if name.startswith(DURABLE_PREFIX):
            self.durables[name] = queue
        else:
            self.queues[name] = queue
            self.on_new(queue)
        return queue

    def _create(self, name: str, settings: QueueSettings | None = None) -> Queue:
        if ">" in name:
            sentence = "`>` is no wildcard here, but a character of the name."
            self.context.note("warning", "no_wildcard", queue=name, sentence=sentence)
        settings = settings or self._settings(name)
        queue: Queue
        if settings.persistent:
            number = self.take_number()
            self.context.write(Declare(number, name))
            queue = stored = self._open(number, name, settings, Ledger())
            self.context.part(stored)
        else:
            queue = self.queues[name] = MemoryQueue(name, settings, self.ports)
        queue.is_declared = name in self.declarations.queues
        self.made(queue)
        return queue

    def queue(self, name: str) -> Queue:
        """The queue of that name; created if it is declared or first use may create it. Raises Refusal otherwise."""
        found = self.queues.get(name)
        if found is not None:
            return found
        if is_pattern(name):
            raise Refusal("wildcard", f"/queue/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`.")
        if name.startswith(OUTBOX_PREFIX):
            raise Refusal("reserved", f"/queue/{name} is kept for messages that wait for another node.")
        if name.startswith(DURABLE_PREFIX):
            raise Refusal("reserved", f"/queue/{name} is kept for a durable subscription.")
        if name not in self.declarations.queues:
            if not self.declarations.may_create_queue(name):
                raise Refusal(
                    "no-such-destination",
                    f"/queue/{name} is not declared, and [create] does not allow queues to be created by first use.",
                )
            self.check_count()
        return self._create(name)

    def target(self, name: str) -> Target:
        """The queue of that name, made where it is not there, whatever [create] says: what is declared leads to it. Of
        `/log/NAME` the log; Refusal where that is not there.
        """
        if name.startswith(LOG_PREFIX):
            return self.all_logs.get(name.removeprefix(LOG_PREFIX))
        found = self.queues.get(name)
        return self._create(name) if found is None else found

    def durable(self, name: str) -> DurableQueue:
        """The queue of a durable subscription, by its whole name; made where it is not there. Raises Refusal."""
        found = self.durables.get(name)
        if found is None:
            self.check_count()
            self._create(name)
            found = self.durables[name]
        return found

    def outbox(self, node: str) -> DurableQueue:
        """Where copies wait for that node; made where it is not there."""
        found = self.outboxes.get(node)
        if found is None:
            self._create(OUTBOX_PREFIX + node)
            found = self.outboxes[node]
        return found

    def everything(self) -> list[Queue]:
        """Every queue that has a name of its own, outboxes and those of durable subscriptions included."""
        return [*self.queues.values(), *self.durables.values(), *self.outboxes.values()]

    def own_queues(self) -> list[Queue]:
        """Those of one connection, which have no name of their own."""
        own = (queue for queue in self.exchanges.own if isinstance(queue, Queue))
        return [*self.replies.values(), *own, *self.readers.all]

    def find(self, name: str) -> Queue | None:
        """The queue of that name, outboxes and those of durable subscriptions included, if it is there."""
        found = self.queues.get(name)
        if found is None and name.startswith(OUTBOX_PREFIX):
            return self.outboxes.get(name.removeprefix(OUTBOX_PREFIX))
        return found or self.durables.get(name)

    def stored_queues(self) -> list[DurableQueue]:
        """Every queue that is on the disk."""
        return [queue for queue in self.everything() if isinstance(queue, DurableQueue)]

    @property
    def partitions(self) -> int:
        """Of all logs."""
        return sum(len(log.partitions) for log in self.logs.values())

    @property
    def count(self) -> int:
        """How many there are, as max_destinations counts them."""
        named = len(self.queues) + len(self.durables) + len(self.fanouts) + len(self.topics.exact) + self.partitions
        return named + len(self.exchanges.all) - len(STANDARD_EXCHANGES)

    def check_count(self, more: int = 1) -> None:
        """Raises Refusal where one more destination, or so many, would be too many."""
        count = self.count
        if count + more > self.limits.max_destinations:
            raise Refusal(
                "too-many-destinations",
                f"There are {count} destinations already, and max_destinations is {self.limits.max_destinations}.",
            )

    def take_number(self) -> int:
        """A name on the disk that no queue or log has had."""
        number = self.next_number
        self.next_number += 1
        return number

    def made(self, target: Target) -> None:
        """It is new: the bindings that config.toml has for it."""
        if target.name in self.declared_bindings:
            self._bind_declared(target)

    def check_no_child(self, log: Log) -> None:
        """Raises Refusal where a fanout leads to it."""
        for fanout in self.fanouts.values():
            if log.name in fanout.children:
                raise Refusal("in-use", f"{log.name} is a child of /fanout/{fanout.name}: delete that first.")

    def release(self, log: Log) -> None:
        """It is about to go: its bindings go first."""
        self.exchanges.release(log)

    # ---- another configuration ------------------------------------------------------------------------------------

    def settings_by(self, queue: Queue, declarations: Declarations) -> QueueSettings:
        """What would be in force for a queue that is there. Raises StoreError as a start with these does."""
        return self._settings(queue.name, queue.given, declarations)

    def use(self, queue: Queue, settings: QueueSettings) -> None:
        """These are in force for it: for what comes from now on. What it holds above a lower bound stays."""
        if isinstance(queue, DurableQueue):
            self._forget_dying(queue)
            if settings.dead_letter is not None:
                self.dying_into.setdefault(settings.dead_letter, {})[queue] = None
        if settings.expires_ms != queue.settings.expires_ms:
            queue.used()
        queue.settings = settings
        queue.tell_unblocked()

    def make_declared(self, name: str) -> None:
        """A queue, or `/log/NAME`, that config.toml declares is there."""
        if not name.startswith(LOG_PREFIX):
            self.target(name)
        elif name.removeprefix(LOG_PREFIX) not in self.logs:
            bare = name.removeprefix(LOG_PREFIX)
            self.all_logs.create(bare, self.declarations.logs[bare]).is_declared = True

    def _forget_dying(self, queue: DurableQueue) -> None:
        target = queue.settings.dead_letter
        if target is not None:
            others = self.dying_into[target]
            del others[queue]
            if not others:
                del self.dying_into[target]

    # ---- declared at run time ---------------------------------------------------------------------------------------

    def settings_for(self, name: str) -> QueueSettings:
        """Of the queue of that name, or what it would get by config.toml if it was made now."""
        found = self.find(name)
        return self._settings(name) if found is None else found.settings

    def declare_queue(self, name: str, settings: QueueSettings, text: str) -> bool:
        """Whether it was made. text: what was given of the settings, as JSON. Raises Refusal `declared-otherwise`
        where it is there with other settings, or config.toml has others for it.
        """
        found = self.queues.get(name)
        there = self.declarations.queues.get(name) if found is None else found.settings
        if there is not None and there != settings:
            here, wanted = asdict(there), asdict(settings)
            key = next(key for key in here if here[key] != wanted[key])
            where = "declared in the configuration" if found is None else "there already"
            raise Refusal(
                "declared-otherwise", f"/queue/{name} is {where}: its {key} is {here[key]}, not {wanted[key]}."
            )
        if found is not None:
            found.used()
            return False
        self._check_queue_name(name)
        target = settings.dead_letter
        self.check_count(1 + (target is not None and target not in self.queues))
        queue = self._create(name, settings)
        if target is not None:
            self.target(target)
        queue.given = "" if text == "{}" else text
        if isinstance(queue, DurableQueue) and queue.given:
            self.context.write(KeepSettings(queue.number, text), WRITE_COST_BYTES + len(text))
        return True

    def _check_queue_name(self, name: str) -> None:
        if name.startswith((OUTBOX_PREFIX, DURABLE_PREFIX)):
            raise Refusal("reserved", f"/queue/{name} is a name that the broker keeps for itself.")
        try:
            queue_name(name)
        except ValueError as error:
            raise Refusal("wildcard" if is_pattern(name) else "bad-request", f"A queue {error}.") from None

    def declare_exchange(self, name: str, settings: ExchangeSettings) -> bool:
        """Whether it was made. Raises Refusal `declared-otherwise` where it is there with other settings."""
        found = self.exchanges.all.get(name)
        if found is not None:
            if found.settings != settings:
                there = f'type "{found.type}", durable {found.durable}, auto_delete {found.auto_delete}'
                raise Refusal("declared-otherwise", f"/exchange/{name} is there already, with {there}.")
            return False
        self.exchanges.check_name(name)
        self.check_count()
        self.exchanges.add(name, settings)
        return True

    def bind(self, exchange: str, key: str, queue: str) -> bool:
        """Whether it was not bound so. Raises Refusal; the queue must be there."""
        return self.exchanges.bind(self.exchanges.get(exchange).name, key, self._bindable(queue))

    def unbind(self, exchange: str, key: str, queue: str) -> bool:
        """Whether it was bound so. Raises Refusal."""
        return self.exchanges.unbind(self.exchanges.get(exchange).name, key, self._bindable(queue))

    def _bindable(self, name: str) -> Target:
        if name.startswith(LOG_PREFIX):
            log = self.all_logs.get(name.removeprefix(LOG_PREFIX))
            if is_reserved_log(log.bare_name):
                raise Refusal("reserved", f"{log.name} is a log that the broker keeps for itself.")
            return log
        found = self.queues.get(name)
        if found is not None:
            return found
        if name.startswith((OUTBOX_PREFIX, DURABLE_PREFIX)):
            raise Refusal("reserved", f"/queue/{name} is a queue that the broker keeps for itself.")
        raise Refusal("no-such-destination", f"There is no /queue/{name:.255}: declare it first.")

    def bindings_of(self, queue: Target) -> Collection[tuple[str, str]]:
        """Exchange and key of each of its bindings; exchange "": a durable subscription to topics."""
        return self.exchanges.bound.get(queue, ())

    def declare_fanout(self, name: str, children: tuple[str, ...]) -> bool:
        """Whether it was made; its children are made where they are not there. Raises Refusal `declared-otherwise`
        where it is there with others.
        """
        found = self.fanouts.get(name)
        if found is not None:
            if set(found.children) != set(children):
                there = ", ".join(found.children)
                raise Refusal("declared-otherwise", f"/fanout/{name} is there already, with the children {there}.")
            return False
        wrong = "has a wildcard" if is_pattern(name) else name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"{name!r:.80} is no name of a fanout: it {wrong}.")
        for child in children:
            if child.startswith(LOG_PREFIX):
                self._bindable(child)
            else:
                self._check_queue_name(child)
        queues = [child for child in children if not child.startswith(LOG_PREFIX)]
        self.check_count(1 + sum(child not in self.queues for child in queues))
        for child in children:
            self.target(child)
        self.all_fanouts.add(name, children)
        return True

    # ---- fanouts and topics -----------------------------------------------------------------------------------------

    def spread(self, gossip: "Gossip", standing: "Standing | None") -> None:
        """This node is one among others, who are told what is wanted here."""
        self.topics.gossip = gossip
        self.topics.standing = standing
        for bindings in self.exchanges.bound.values():
            for exchange, pattern in bindings:
                if exchange == TOPICS:
                    gossip.subscribed(pattern)
                    if standing is not None:
                        standing.subscribed(pattern)

    # ---- delete -----------------------------------------------------------------------------------------------------

    def delete(self, queue: Queue) -> None:
        """Its name is free at once, and its bindings go; what it stored is swept later, in slices. Who is subscribed
        to it gets nothing more, and what becomes of a message that is out no longer matters.
        """
        self.exchanges.release(queue)
        if isinstance(queue, DurableQueue):
            self.windows.size -= queue.window.size
            self.windows.out -= queue.bytes_out()
        queue.end()
        if queue.name.startswith(OUTBOX_PREFIX):
            del self.outboxes[queue.name.removeprefix(OUTBOX_PREFIX)]
        elif queue.name.startswith(DURABLE_PREFIX):
            del self.durables[queue.name]
        else:
            del self.queues[queue.name]
        if isinstance(queue, DurableQueue):
            context = self.context
            self._forget_dying(queue)
            saved = queue.books()
            context.write(saved)
            context.write(Retire(queue.number, queue.name, saved.ledger.stored))
            if queue.journal is not None:
                queue.journal.deleted(queue)
            for batch in (context.open, context.being_committed):
                if batch is not None:
                    batch.parts.pop(queue, None)
