"""Names -> destinations: what exists, what first use creates, what is declared at run time, and what is refused.

Queues, fanouts, topics, exchanges and logs have separate names. Temp queues belong to one connection and are found by
others under the id of their reply address only.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from radiator.core.connections import Connection
from radiator.core.journal_writer import JournalWriter
from radiator.core.logs.log import LOG_PREFIX, Log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.retention import Retention
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import DeadLetter, Queue, QueuePorts
from radiator.core.queues.target import Target
from radiator.core.queues.windows import Windows
from radiator.core.routing.exchanges import KIND as EXCHANGE_KIND
from radiator.core.routing.exchanges import TOPICS, Exchange, Exchanges
from radiator.core.routing.topic import Topics
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.addresses import FANOUT
from radiator.model.errors import Refusal, StoreError
from radiator.model.limits import PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX, Limits
from radiator.model.patterns import is_node_name, is_pattern, matches, name_mistake, overlaps
from radiator.model.recovery import Recovery, StoredLog
from radiator.model.settings import (
    JOURNAL,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    NODE,
    STANDARD_EXCHANGES,
    Binding,
    Declarations,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)
from radiator.model.validation import (
    RESERVED_LOGS,
    check_dead_letter,
    exchange_settings,
    fanout_children,
    log_name_mistake,
    log_settings,
    queue_name,
    queue_settings,
)
from radiator.model.writes import (
    Declare,
    DeclareLog,
    DropDeclared,
    DropLog,
    KeepDeclared,
    KeepSettings,
    Ledger,
    Retire,
)

if TYPE_CHECKING:
    from radiator.core.cluster.gossip import Gossip
    from radiator.core.cluster.standing import Standing

PEERS_TOPIC = "system.peers"  # what happens to nodes and links
OUTBOX_PREFIX = "$outbox/"  # queues of copies that wait for another node, by its name
DURABLE_PREFIX = "$durable/"  # queues of durable subscriptions, by destination and id
REPLY_ID_BYTES = 16  # so that nobody can guess one
TEMP_SETTINGS = QueueSettings(
    persistent=False, max_messages=MEMORY_MESSAGES_MAX, max_bytes=MEMORY_BYTES_MAX, overflow="reject"
)


@dataclass(slots=True)
class Fanout:
    """A SEND to it is a copy in each of its child queues."""

    name: str
    children: tuple[str, ...]
    accepted: int = 0


def address_of(target: str) -> str:
    """Of a fanout's child, or where a binding leads."""
    return target if target.startswith(LOG_PREFIX) else f"/queue/{target}"


def is_reserved_log(name: str) -> bool:
    """Whether the broker alone appends to it."""
    return name == JOURNAL or name.startswith(RESERVED_LOGS)


def check_words(topic: str) -> None:
    """Raises Refusal for a topic, or pattern of topics, that would be dear to match."""
    words = topic.split(".")
    wildcards = words.count("*") + words.count("#")
    for what, count, most in (("words", len(words), TOPIC_WORDS_MAX), ("wildcards", wildcards, PATTERN_WILDCARDS_MAX)):
        if count > most:
            raise Refusal("too-many-words", f"/topic/{topic} has {count} {what}: at most {most} are allowed.")


def partitions_mistake(name: str, declared: LogSettings, kept: LogSettings) -> str:
    """The sentence about a log that is there with other partitions than it is declared with."""
    return (
        f"{LOG_PREFIX}{name} is declared with partitions = {declared.partitions}, but it has {kept.partitions}, and "
        "their number is fixed: declare so many, or take another name."
    )


def by_queue(bindings: Iterable[Binding]) -> dict[str, list[tuple[str, str]]]:
    """Exchange and key of the bindings of each queue."""
    found: dict[str, list[tuple[str, str]]] = {}
    for binding in bindings:
        found.setdefault(binding.queue, []).append((binding.exchange, binding.key))
    return found


def _unfit(name: str, text: str, refusal: Refusal) -> StoreError:
    return StoreError(
        f"/queue/{name} was declared at run time with {text}, which does not go with config.toml: {refusal} "
        "Change the pattern that it comes from there, or give the queue a table of its own."
    )


class Destinations:
    """Everything that can be sent to."""

    __slots__ = (
        "at_node", "context", "copies_dropped", "copies_to", "declarations", "declared_bindings", "durables",
        "dying_into", "entropy", "exchanges", "fanouts", "is_clustered", "journal", "limits", "logs", "next_number",
        "on_new", "outboxes", "ports", "queues", "readers", "replies", "retention", "retired", "shadowed", "topics",
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
        self.entropy = entropy
        self.ports = QueuePorts(context, dead_letter, unblocked)
        self.journal = journal
        self.windows = Windows(limits.max_memory_bytes)
        self.topics = Topics(context)
        self.exchanges = Exchanges(self.topics, declarations.exchanges, self.ports)
        self.declared_bindings = by_queue(declarations.bindings)
        self.queues: dict[str, Queue] = {}
        self.dying_into: dict[str, dict[DurableQueue, None]] = {}  # those whose dead letters go to that queue
        self.logs: dict[str, Log] = {}
        self.readers = LogConsumers(self.ports, self.windows.out_max)
        self.retention = Retention(context, self.logs)
        self.replies: dict[str, Queue] = {}
        # one node among others: copies wait in queues that clients cannot reach, those of copies_to get
        # more, those of copies_dropped count them alone; on_new hears of every queue that is made
        self.is_clustered = is_clustered
        self.at_node = ""  # what ids of those who ask end with, so that other nodes know where to send the reply
        self.copies_to: list[DurableQueue] = []
        self.copies_dropped: list[DurableQueue] = []
        self.outboxes: dict[str, DurableQueue] = {}
        self.durables: dict[str, DurableQueue] = {}
        self.on_new: Callable[[Queue], None] = lambda queue: None
        self.fanouts = {name: Fanout(name, children) for name, children in declarations.fanouts.items()}
        self.shadowed: dict[str, tuple[str, ...]] = {}  # fanouts declared at run time that config.toml has too
        self.next_number = recovery.next_queue
        self.retired = dict(recovery.retired)
        self._recover(recovery)
        for name, declared in declarations.logs.items():
            if name not in self.logs:
                self._create_log(name, declared)
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
                children = fanout_children(json.loads(row.text))
                if row.name in self.fanouts:
                    self.shadowed[row.name] = children
                else:
                    self.fanouts[row.name] = Fanout(row.name, children)
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
                numbered[found.number] = self._recover_log(found)
            else:
                self.retention.drop(found.segments)
        self.exchanges.recover(recovery, numbered)
        for retire in gone:
            self.context.write(retire)

    def _recover_log(self, stored: StoredLog) -> Log:
        """As config.toml has it, or else as it was declared."""
        kept = log_settings(json.loads(stored.settings or "{}"))
        declared = self.declarations.logs.get(stored.name, kept)
        if declared.partitions != kept.partitions:
            raise StoreError(partitions_mistake(stored.name, declared, kept))
        if declared != kept:
            self._keep_log_settings(stored.number, declared)
        return self._open_log(stored, declared)

    def _open_log(self, stored: StoredLog, settings: LogSettings) -> Log:
        log = Log(stored, settings, context=self.context, windows=self.windows, readers=self.readers)
        self.logs[stored.name] = log
        return log

    def _keep_log_settings(self, number: int, settings: LogSettings) -> None:
        text = json.dumps(asdict(settings))
        self.context.write(KeepSettings(number, text), WRITE_COST_BYTES + len(text))

    def _create_log(self, name: str, settings: LogSettings) -> Log:
        number = self.next_number
        self.next_number += 1
        self.context.write(DeclareLog(number, name))
        self._keep_log_settings(number, settings)
        log = self._open_log(StoredLog(number, name), settings)
        if log.name in self.declared_bindings:
            self._bind_declared(log)
        return log

    def _settings(self, name: str, text: str = "", by: Declarations | None = None) -> QueueSettings:
        """What is in force for a queue of that name. text: what it was declared with at run time, which counts where
        config.toml has no table for this very name. by: by these declarations instead of those in force.
        """
        declarations = by or self.declarations
        if name.startswith(OUTBOX_PREFIX):
            # an outbox remembers dedup-ids as long as any child of a fanout may
            fanouts = declarations.cluster_fanouts
            children = {child for fanout in fanouts for child in self.fanouts[fanout].children}
            windows_s = [declarations.queue_settings(child).dedup_window_s for child in children]
            return QueueSettings(dedup_window_s=max(windows_s, default=0))
        if name.startswith(DURABLE_PREFIX):
            # patterns have words between dots: so `$durable.topic.#` is for all of topics
            settings = declarations.queue_settings(name.replace("/", "."))
            settings = settings if settings.persistent else QueueSettings()
            return replace(settings, auto_delete=False, exclusive=False, scope=NODE)
        settings = declarations.queue_settings(name)
        if not text or name in declarations.queues:
            return settings
        try:
            return queue_settings(json.loads(text), settings)
        except Refusal as refusal:
            raise _unfit(name, text, refusal) from refusal

    def _check_kept(self, name: str, text: str) -> None:
        """Raises StoreError where config.toml now says of other queues what does not go with the dead letters of this,
        declared at run time.
        """
        if text and name in self.queues and name not in self.declarations.queues:
            try:
                check_dead_letter(name, self.queues[name].settings, self.settings_for)
            except Refusal as refusal:
                raise _unfit(name, text, refusal) from refusal

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
            number = self.next_number
            self.next_number += 1
            self.context.write(Declare(number, name))
            queue = stored = self._open(number, name, settings, Ledger())
            self.context.part(stored)
        else:
            queue = self.queues[name] = MemoryQueue(name, settings, self.ports)
        queue.is_declared = name in self.declarations.queues
        if name in self.declared_bindings:
            self._bind_declared(queue)
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
            return self.log(name.removeprefix(LOG_PREFIX))
        found = self.queues.get(name)
        return self._create(name) if found is None else found

    def log(self, name: str) -> Log:
        """The log of that name; Refusal where none is declared."""
        found = self.logs.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"{LOG_PREFIX}{name:.255} is not declared: config.toml or a request to /admin declares a log.",
            )
        return found

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
        return [
            *self.replies.values(),
            *(queue for queue in self.exchanges.own if isinstance(queue, Queue)),
            *self.readers.all,
        ]

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

    def use_log(self, log: Log, settings: LogSettings) -> None:
        """The same of a log."""
        if log.log_settings != settings:
            log.use(settings)
            self._keep_log_settings(log.number, settings)

    def use_fanouts(self, old: Collection[str], declared: Mapping[str, tuple[str, ...]]) -> None:
        """config.toml declares these, and not those any more that it declared before (old)."""
        for name in old:
            if name not in declared:
                children = self.shadowed.pop(name, None)
                if children is None:
                    del self.fanouts[name]
                else:
                    self.fanouts[name].children = children
        for name, children in declared.items():
            found = self.fanouts.get(name)
            if found is None:
                self.fanouts[name] = Fanout(name, children)
                continue
            if name not in old:
                self.shadowed[name] = found.children
            found.children = children

    def make_declared(self, name: str) -> None:
        """A queue, or `/log/NAME`, that config.toml declares is there."""
        if not name.startswith(LOG_PREFIX):
            self.target(name)
        elif name.removeprefix(LOG_PREFIX) not in self.logs:
            bare = name.removeprefix(LOG_PREFIX)
            self._create_log(bare, self.declarations.logs[bare]).is_declared = True

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

    def declare_log(self, name: str, settings: LogSettings, may_be_reserved: bool = False) -> bool:
        """Whether it was made. Raises Refusal `declared-otherwise` where it is there with other settings."""
        found = self.logs.get(name)
        if found is not None:
            here, wanted = asdict(found.log_settings), asdict(settings)
            for key in here:
                if here[key] != wanted[key]:
                    sentence = f"{found.name} is there already: its {key} is {here[key]}, not {wanted[key]}."
                    raise Refusal("declared-otherwise", sentence)
            return False
        wrong = name_mistake(name) if may_be_reserved else log_name_mistake(name)
        if wrong:
            code = "reserved" if is_reserved_log(name) else "wildcard" if is_pattern(name) else "bad-request"
            raise Refusal(code, f"{name!r:.80} is no name of a log: it {wrong}.")
        self.check_count(settings.partitions)
        self._create_log(name, settings)
        return True

    def check_unused(self, log: Log, may_be_reserved: bool = False) -> None:
        """Raises Refusal where the log cannot be deleted."""
        if log.is_declared:
            raise Refusal("declared", f"{log.name} is declared in the configuration: take it out there.")
        if is_reserved_log(log.bare_name) and not may_be_reserved:
            raise Refusal("reserved", f"{log.name} is a log that the broker keeps for itself.")
        if log.has_readers:
            raise Refusal("in-use", f"{log.name} is read by somebody: end the subscriptions first.")
        for fanout in self.fanouts.values():
            if log.name in fanout.children:
                raise Refusal("in-use", f"{log.name} is a child of /fanout/{fanout.name}: delete that first.")

    def delete_log(self, log: Log, may_be_reserved: bool = False) -> int:
        """It goes, with its records, its bindings and the positions of its groups. How many records. Raises Refusal."""
        self.check_unused(log, may_be_reserved)
        count, context = log.records, self.context
        self.exchanges.release(log)
        context.write(log.books())
        context.write(DropLog(log.number))
        for batch in (context.open, context.being_committed):
            if batch is not None:
                batch.parts.pop(log, None)
                for group in log.groups.values():
                    batch.parts.pop(group, None)
        del self.logs[log.bare_name]
        for partition in log.partitions:
            self.retention.drop(partition.segments)
        log.end()
        return count

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

    def delete_exchange(self, name: str) -> None:
        """See Exchanges.delete."""
        self.exchanges.delete(name)

    def exchange(self, name: str) -> Exchange:
        """The exchange of that name; Refusal where there is none."""
        return self.exchanges.get(name)

    def bind(self, exchange: str, key: str, queue: str) -> bool:
        """Whether it was not bound so. Raises Refusal; the queue must be there."""
        return self.exchanges.bind(self.exchange(exchange).name, key, self._bindable(queue))

    def unbind(self, exchange: str, key: str, queue: str) -> bool:
        """Whether it was bound so. Raises Refusal."""
        return self.exchanges.unbind(self.exchange(exchange).name, key, self._bindable(queue))

    def _bindable(self, name: str) -> Target:
        if name.startswith(LOG_PREFIX):
            log = self.log(name.removeprefix(LOG_PREFIX))
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
        self.fanouts[name] = Fanout(name, children)
        for child in children:
            self.target(child)
        text = json.dumps({"children": children})
        self.context.write(KeepDeclared(FANOUT, name, text), WRITE_COST_BYTES + len(text))
        return True

    def delete_fanout(self, name: str) -> None:
        """Its children stay. Raises Refusal."""
        self.fanout(name)
        if name in self.declarations.fanouts:
            raise Refusal("declared", f"/fanout/{name} is declared in the configuration: take it out there.")
        del self.fanouts[name]
        self.context.write(DropDeclared(FANOUT, name))

    # ---- fanouts and topics -----------------------------------------------------------------------------------------

    def fanout(self, name: str) -> Fanout:
        """The fanout of that name; Refusal where none is declared."""
        found = self.fanouts.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"/fanout/{name} is not declared: config.toml or a request to /admin declares it, with its children.",
            )
        return found

    def check_topic(self, name: str, for_send: bool, is_new: bool = True) -> None:
        """Raises Refusal where this topic, or pattern of topics, may not be used. is_new: it will be one more to count,
        unless somebody is subscribed to it.
        """
        pattern = is_pattern(name)
        if pattern and for_send:
            raise Refusal("wildcard", f"/topic/{name} has a wildcard: only a SUBSCRIBE may use `*` and `#`.")
        if name == PEERS_TOPIC and self.is_clustered:
            if for_send:
                raise Refusal("reserved", f"/topic/{name} is what this node says of others: it can only be subscribed.")
            return
        check_words(name)
        declarations = self.declarations
        if not declarations.create_topics and not any(
            overlaps(declared, name) if pattern else matches(declared, name) for declared in declarations.topics
        ):
            raise Refusal(
                "no-such-destination",
                f"/topic/{name} is not declared, and [create] does not allow topics to be created by first use.",
            )
        if is_new and not for_send and not pattern and name not in self.topics.exact:
            self.check_count()

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

    # ---- temp queues ------------------------------------------------------------------------------------------------

    def temp_queue(self, connection: Connection, name: str) -> Queue:
        """That connection's temp queue of that name, made if it is not there. Its reply id cannot be guessed."""
        known = connection.temp_queues.get(name)
        if known is not None:
            return self.replies[known.reply_id]
        if is_pattern(name):
            raise Refusal("wildcard", f"/temp-queue/{name} has a wildcard: only a topic's SUBSCRIBE may use them.")
        count = len(connection.temp_queues)
        if count >= self.limits.max_subscriptions:
            raise Refusal(
                "too-many-destinations",
                f"This connection has {count} temp queues: max_subscriptions bounds them too.",
            )
        queue = MemoryQueue(name, TEMP_SETTINGS, self.ports)
        queue.reply_id = self.entropy(REPLY_ID_BYTES).hex() + self.at_node
        connection.temp_queues[name] = queue
        self.replies[queue.reply_id] = queue
        return queue

    def node_of_asker(self, reply_id: str) -> str:
        """The other node that the id of a reply queue names; "" where it is of this one, or of nobody."""
        _, at, node = reply_id.rpartition("@")
        return node if at and self.at_node not in ("", at + node) and is_node_name(node) else ""

    def drop_temp_queues(self, connection: Connection) -> None:
        """They die with their connection."""
        for queue in connection.temp_queues.values():
            queue.end()
            del self.replies[queue.reply_id]
        connection.temp_queues.clear()

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
