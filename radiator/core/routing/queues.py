"""All queues that have a name: recovered at the start, created by first use, declared, and deleted.

Some names are the broker's own: `$outbox/NODE`, where copies wait for another node, and `$durable/...`, the queues of
durable subscriptions. No client can send or subscribe to these by their names.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from radiator.core.journal_writer import JournalWriter
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.partitioned_queues import PartitionedDurableQueue, PartitionedMemoryQueue
from radiator.core.queues.priority_queues import PriorityDurableQueue, PriorityMemoryQueue
from radiator.core.queues.queue import Queue, QueuePorts
from radiator.core.queues.windows import Windows
from radiator.core.routing.fanouts import Fanouts
from radiator.core.routing.owned import OwnedQueues
from radiator.core.routing.queue_settings import DURABLE_PREFIX, OUTBOX_PREFIX, in_force, keyed_otherwise, unfit
from radiator.core.routing.surroundings import Surroundings
from radiator.core.turn import WRITE_COST_BYTES
from radiator.core.usage import with_maker
from radiator.model.checks import shown
from radiator.model.errors import Refusal, StoreError
from radiator.model.grounds import QueueNotDeclared, QueueOtherwise
from radiator.model.keys import keys_of, with_keys, without_keys
from radiator.model.patterns import is_pattern
from radiator.model.priorities import stored_by
from radiator.model.recovery import StoredQueue
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.users import maker_of, without_maker
from radiator.model.validation import as_json, check_dead_letter, queue_name
from radiator.model.writes import Declare, KeepSettings, Ledger, Retire


class Queues:
    """all: the queues of clients, by name. durables: those of durable subscriptions, by their whole name. outboxes: by
    node. stored: the persistent ones of all these, by number. dying_into: the persistent queues whose dead letters go
    to a queue, by the name of that queue. on_new: is called with each persistent queue of clients that is created.
    """

    __slots__ = (
        "all", "around", "context", "declarations", "durables", "dying_into", "fanouts", "journal", "on_new",
        "outboxes", "owned", "ports", "stored", "windows",
    )  # fmt: skip

    def __init__(
        self,
        declarations: Declarations,
        around: Surroundings,
        *,
        ports: QueuePorts,
        windows: Windows,
        fanouts: Fanouts,
        journal: JournalWriter | None,
    ) -> None:
        self.declarations = declarations
        self.around = around
        self.context = ports.context
        self.ports = ports
        self.windows = windows
        self.fanouts = fanouts
        self.journal = journal
        self.all: dict[str, Queue] = {}
        self.owned = OwnedQueues()
        self.durables: dict[str, DurableQueue] = {}
        self.outboxes: dict[str, DurableQueue] = {}
        self.stored: dict[int, DurableQueue] = {}
        self.dying_into: dict[str, dict[Queue, None]] = {}
        self.on_new: Callable[[Queue], None] = lambda queue: None

    # ---- which there are --------------------------------------------------------------------------------------------

    def everything(self) -> list[Queue]:
        """Returns every queue that has a name of its own, outboxes and those of durable subscriptions included."""
        return [*self.all.values(), *self.durables.values(), *self.outboxes.values()]

    def names(self) -> Iterator[str]:
        """Returns the names of all of these. 40,000 are copied in less than a millisecond."""
        return chain(self.all, self.durables, map(OUTBOX_PREFIX.__add__, self.outboxes))

    def find(self, name: str) -> Queue | None:
        """Returns the queue of that name if there is one, outboxes and queues of durable subscriptions included."""
        names, key = self._place(name)
        return names.get(key)

    def _place(self, name: str) -> tuple[dict[str, Any], str]:
        """Returns the table that a queue of that name is in, and its key there."""
        if name.startswith(OUTBOX_PREFIX):
            return self.outboxes, name.removeprefix(OUTBOX_PREFIX)
        return (self.durables if name.startswith(DURABLE_PREFIX) else self.all), name

    @property
    def count(self) -> int:
        """How many there are, as max_destinations counts them."""
        return len(self.all) + len(self.durables)

    # ---- the start --------------------------------------------------------------------------------------------------

    def recover(self, queues: Iterable[StoredQueue]) -> None:
        """Restores the queues that the store has. Raises StoreError where one has messages and is now declared to be
        in memory, or with another partition_key or max_priority.
        """
        for found in queues:
            kept = json.loads(found.settings) if found.settings else {}
            given = _given(without_keys(without_maker(kept))) if kept else ""
            keyed_by = keys_of(kept) if kept else ()
            settings = self._settings(found.name, given)
            if settings.persistent:
                found_by = stored_by(settings.partition_key, settings.max_priority)
                if found_by != keyed_by and found.ledger.stored:
                    raise keyed_otherwise(found.name, found_by, keyed_by, found.ledger.stored)
                queue = self._open(found.number, found.name, settings, found.ledger)
                queue.next_due_ms = found.next_due_ms
                queue.given = given
                if kept:
                    queue.maker = self.around.usages.recover(maker_of(kept), queue.address)
                if found_by != keyed_by:
                    self._keep(queue, json.loads(given or "{}"))
            elif found.ledger.stored:
                raise StoreError(
                    f"/queue/{found.name} is declared with persistent = false, but {found.ledger.stored} messages of "
                    "it are stored: "
                    "declare it persistent and consume or purge them first."
                )
            else:
                self.context.write(Retire(found.number, found.name, 0))

    def make_declared(self) -> None:
        """Makes the queues that config.toml declares, where they do not exist."""
        for name in self.declarations.queues:
            self.make(name).is_declared = True

    def check_kept(self, name: str, text: str) -> None:
        """Raises StoreError where what config.toml now says of other queues contradicts the dead-letter settings of
        this one, which was declared at run time.
        """
        if name in self.all and name not in self.declarations.queues:
            try:
                check_dead_letter(name, self.all[name].settings, self.settings_for)
            except Refusal as refusal:
                raise unfit(name, text, refusal) from refusal

    # ---- made -------------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Queue:
        """Returns the queue of that name; creates it if it is declared, or first use may create it. Raises Refusal
        otherwise.
        """
        found = self.all.get(name)
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
                raise Refusal.on(QueueNotDeclared(name))
            self.around.check_count()
        return self._create(name)

    def make(self, name: str) -> Queue:
        """Returns the queue of that name; creates it whatever [create] says, because something declared leads to it."""
        found = self.all.get(name)
        return self._create(name) if found is None else found

    def durable(self, name: str) -> DurableQueue:
        """Returns the queue of a durable subscription, by its whole name; creates it where there is none. Raises
        Refusal.
        """
        found = self.durables.get(name)
        if found is None:
            self.around.check_count()
            self._create(name)
            found = self.durables[name]
        return found

    def outbox(self, node: str) -> DurableQueue:
        """Returns the queue in which copies wait for that node; creates it where there is none."""
        found = self.outboxes.get(node)
        if found is None:
            self._create(OUTBOX_PREFIX + node)
            found = self.outboxes[node]
        return found

    def _create(
        self, name: str, settings: QueueSettings | None = None, given: Mapping[str, Any] | None = None
    ) -> Queue:
        """given: the settings that it was declared with at run time."""
        if ">" in name:
            sentence = "`>` is not a wildcard here, but a character of the name."
            self.context.note("warning", "no_wildcard", queue=name, sentence=sentence)
        settings = settings or self._settings(name)
        queue: Queue
        if settings.persistent:
            number = self.around.take_number()
            self.context.write(Declare(number, name))
            queue = stored = self._open(number, name, settings, Ledger())
            stored.made_in = self.context.open.number
            self.context.part(stored)
        else:
            queue = self.all[name] = in_memory(settings)(name, settings, self.ports)
        queue.is_declared = name in self.declarations.queues
        usages = self.around.usages
        if usages.acting is not None and not queue.is_declared and not name.startswith(OUTBOX_PREFIX):
            queue.maker = usages.make(queue.address)
        if given or queue.maker is not None or stored_by(settings.partition_key, settings.max_priority):
            self._keep(queue, given or {})
        self.around.made(queue)
        return queue

    def _keep(self, queue: Queue, given: Mapping[str, Any]) -> None:
        """Stores what it was declared with, who has made it, and what its messages are stored by, for as long as it
        exists.
        """
        queue.given = _given(given)
        if queue.is_persistent:
            settings = queue.settings
            kept = with_keys(given, stored_by(settings.partition_key, settings.max_priority))
            text = json.dumps(with_maker(kept, queue.maker))
            self.context.write(KeepSettings(queue.number, text), WRITE_COST_BYTES + len(text))

    def _open(self, number: int, name: str, settings: QueueSettings, ledger: Ledger) -> DurableQueue:
        queue = on_disk(settings)(number, name, settings, ledger, self.ports, self.windows)
        self._note_dying(queue, settings)
        names, key = self._place(name)
        names[key] = self.stored[number] = queue
        if names is not self.outboxes:
            queue.journal = self.journal
        if names is self.all:
            self.on_new(queue)
        return queue

    # ---- settings ---------------------------------------------------------------------------------------------------

    def _settings(self, name: str, text: str = "", by: Declarations | None = None) -> QueueSettings:
        """See queue_settings.in_force. by: by these declarations instead of those in force."""
        return in_force(name, text, by or self.declarations, self.fanouts.all)

    def settings_for(self, name: str) -> QueueSettings:
        """Returns the settings of the queue of that name, or those that config.toml would give it now."""
        found = self.find(name)
        return self._settings(name) if found is None else found.settings

    def settings_by(self, queue: Queue, declarations: Declarations) -> QueueSettings:
        """Returns what would be in force for an existing queue. Raises StoreError as a start with these does."""
        return self._settings(queue.name, queue.given, declarations)

    def use(self, queue: Queue, settings: QueueSettings) -> None:
        """Puts these settings into force for the queue, for what comes from now on. What it holds above a lower bound
        stays.
        """
        if queue.is_persistent:
            self._forget_dying(queue)
            self._note_dying(queue, settings)
        if settings.expires_ms != queue.settings.expires_ms:
            queue.used()
        queue.use(settings)
        queue.unblock_waiters()

    def _note_dying(self, queue: Queue, settings: QueueSettings) -> None:
        if settings.dead_letter is not None:
            self.dying_into.setdefault(settings.dead_letter, {})[queue] = None

    def _forget_dying(self, queue: Queue) -> None:
        target = queue.settings.dead_letter
        if target is not None:
            others = self.dying_into[target]
            del others[queue]
            if not others:
                del self.dying_into[target]

    # ---- declared at run time, deleted ------------------------------------------------------------------------------

    def declare(self, name: str, settings: QueueSettings, given: Mapping[str, Any]) -> bool:
        """Declares a queue. Returns whether it is new. given: the settings that were given. Raises Refusal
        `declared-otherwise` where it exists with other settings, or config.toml has others for it.
        """
        found = self.all.get(name)
        there = self.declarations.queues.get(name) if found is None else found.settings
        if there is not None and there != settings:
            here, wanted = as_json(there), as_json(settings)
            key = next(key for key in here if here[key] != wanted[key])
            if found is not None:
                raise Refusal.on(QueueOtherwise(name, key, here[key], wanted[key]))
            sentence = f"/queue/{name} is declared in the configuration: its {key} is {shown(here[key])}, not"
            raise Refusal("declared-otherwise", f"{sentence} {shown(wanted[key])}.")
        if found is not None:
            found.used()
            return False
        self.check_name(name)
        target = settings.dead_letter
        self.around.check_count(1 + (target is not None and target not in self.all))
        self._create(name, settings, given)
        if target is not None:
            self.make(target)
        return True

    def check_name(self, name: str) -> None:
        """Raises Refusal where no queue can be declared under that name."""
        if name.startswith((OUTBOX_PREFIX, DURABLE_PREFIX)):
            raise Refusal("reserved", f"/queue/{name} is a name that the broker keeps for itself.")
        try:
            queue_name(name)
        except ValueError as error:
            raise Refusal("wildcard" if is_pattern(name) else "bad-request", f"A queue {error}.") from None

    def delete(self, queue: Queue) -> None:
        """Deletes a queue: its name is free at once, and its bindings are removed; what it stored is swept later, in
        slices. Its subscribers get nothing more, and what becomes of its unacked messages no longer matters.
        """
        self.around.release(queue)
        self.owned.remove(queue)
        names, key = self._place(queue.name)
        del names[key]
        if self.stored.pop(queue.number, None) is not None:
            self._forget_dying(queue)
        queue.delete()


def in_memory(settings: QueueSettings) -> type[MemoryQueue]:
    """Returns the class of a queue in memory with these settings."""
    if settings.max_priority is not None:
        return PriorityMemoryQueue
    return PartitionedMemoryQueue if settings.partition_key else MemoryQueue


def on_disk(settings: QueueSettings) -> type[DurableQueue]:
    """Returns the class of a queue on the disk with these settings."""
    if settings.max_priority is not None:
        return PriorityDurableQueue
    return PartitionedDurableQueue if settings.partition_key else DurableQueue


def _given(settings: Mapping[str, Any]) -> str:
    """Returns what a queue was declared with at run time, as JSON; "": nothing."""
    return json.dumps(settings) if settings else ""
