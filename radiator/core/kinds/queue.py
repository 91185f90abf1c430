"""`/queue/NAME`: a queue, which first use may create."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from radiator.core.connections import Connection
from radiator.core.kinds import unbinding
from radiator.core.kinds.kind import AdmissionPort, Asked, Kind, Round, Subscriber
from radiator.core.ports import TopologyPort
from radiator.core.producer import Producer
from radiator.core.queues.key_numbers import Hot, active_keys, key_moves, look_for_hot, useful_consumers
from radiator.core.queues.queue import Queue
from radiator.core.request import warnings
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.core.why_single import active_consumer
from radiator.model.addresses import QUEUE
from radiator.model.administration import DeclareDestination, DeleteDestination, DescribeDestination
from radiator.model.answers import BindingOfQueue, Deleted, QueueDeclared, QueueDescribed
from radiator.model.commands import Send, Subscribe
from radiator.model.consumers import HotKey
from radiator.model.errors import Refusal, count_text
from radiator.model.grounds import TAKING_MAKES_NONE, NoSuchQueue, OwnedOtherwise, QueueGivenOtherwise
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.numbers import PauseRow, QueueNumbers, Rows
from radiator.model.patterns import is_pattern
from radiator.model.recovery import Recovery
from radiator.model.settings import CLUSTER, UNLIMITED, QueueSettings
from radiator.model.validation import check_dead_letter, mistake, queue_settings
from radiator.model.without_effect import without_effect
from radiator.model.writes import Ledger

_COLUMNS = tuple(field.name for field in fields(Ledger))
_columns = attrgetter(*_COLUMNS)
_NO_ARGUMENT = "bounds_count"  # AMQP cannot say it: declares that would differ in it differ in a bound, which is named
_DEFAULTS = QueueSettings()


class QueueKind(Kind):
    """See above."""

    name = QUEUE
    can_prepare = True

    __slots__ = ()

    def send(self, admission: AdmissionPort, connection: Connection, command: Send, name: str) -> Waitable | None:
        if command.immediate or command.more_keys:
            return admission.send_planned(connection, command)
        return admission.send_to(connection, self.destinations.queues.get(name), command)

    def can_delay(self, name: str) -> bool:
        return True

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        if command.immediate and name not in self.destinations.queues.all:
            raise no_consumer(command.destination, "there is no such queue")
        queue = self.destinations.queues.get(name)
        queues = self.incoming.named_by(plan, command, queue) if command.more_keys else (queue,)
        self.incoming.put_into(plan, command, headers, queues, due_ms)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        if is_pattern(name):
            raise Refusal(
                "wildcard", f"/{self.name}/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`."
            )
        is_new = name not in self.destinations.queues.all
        queue = self.destinations.queues.get(name)
        self.destinations.queues.owned.check(queue, connection)
        subscription = subscriber.consume(connection, command, queue)
        subscriber.receipt(connection, command, durable=queue.is_persistent and is_new)
        queue.join(subscription)
        return None

    def existing(self, destination: str, name: str, user: Connection | None) -> Queue:
        found = self.destinations.queues.all.get(name)
        if found is None:
            raise Refusal.on(NoSuchQueue(name, TAKING_MAKES_NONE))
        self.destinations.queues.owned.check(found, user)
        return found

    def leased(self, destination: str, name: str) -> Queue:
        queue = self.destinations.queues.get(name)
        self.destinations.queues.owned.check(queue, None)
        return queue

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return self.destinations.queues.count

    def names(self) -> Iterable[str]:
        return self.destinations.queues.names()

    def numbers(self, port: TopologyPort, name: str) -> QueueNumbers | None:
        queue = self.destinations.queues.find(name)
        return None if queue is None else of_queue(queue, port.checkouts.count(queue))

    def recover(self, recovery: Recovery) -> None:
        self.destinations.queues.recover(recovery.queues)

    def make_declared(self, recovery: Recovery) -> None:
        queues = self.destinations.queues
        queues.make_declared()
        for found in recovery.queues:
            if found.settings and (queue := queues.find(found.name)) is not None and queue.given:
                queues.check_kept(queue.name, queue.given)

    def looks(self, round_: Round) -> Iterator[int]:
        for queue in self.destinations.queues.everything():
            yield from round_.look_at(queue)

    # ---- requests of operators --------------------------------------------------------------------------------------

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        parts, destinations, queues = request.parts, self.destinations, self.destinations.queues
        name, given = command.name, command.settings
        found = queues.all.get(name)
        if found is not None and queues.owned.is_left(found):
            undo, again = partial(_undo, destinations, found), partial(self.declare, request, command)
            if unbinding.begins(request, lambda: [*destinations.bindings_of(found)], undo, again):
                return
            parts.lifetimes.delete(found)
        elif found is not None:
            _check_owned(destinations, found, request.connection, command)
        if command.is_owned:
            given = {**given, "persistent": False}
        if command.passive and name not in queues.all:
            raise Refusal.on(NoSuchQueue(name))
        base = queues.settings_for(name)
        if name not in queues.all and name not in queues.declarations.queues:
            given = {**_where_no_pattern_says_otherwise(command.if_new, base), **given}
        settings = queue_settings(given, base)
        if given.get("dead_letter") is not None and not command.create:
            destinations.existing_queue(settings.dead_letter or "")
        if name not in queues.all:
            _check(destinations, name, settings)
        if found is not None and command.is_exact and not command.passive:
            _check_exact(found, given)
        created = queues.declare(name, settings, given)
        queue = queues.all[name]
        if created and command.is_owned:
            queues.owned.add(queue, request.connection.owner)
        if created and not queue.is_short_lived:
            self.context.note("info", "declared", queue=name)
        useless = without_effect(settings, parts.disk.high_water_bytes, parts.limits.max_memory_bytes)
        useless_given = warnings(given, useless)

        def declared() -> QueueDeclared:
            counts = queue.ledger.stored, queue.ready_count, len(queue.subscriptions)
            return QueueDeclared(*counts, created, useless_given)

        if queue.made_in > self.context.committed:
            request.answer_synced(declared)
        else:
            request.answer(declared())

    def describe(self, request: Asked, command: DescribeDestination) -> None:
        """Answers with its settings, bindings and numbers."""
        queue = self.destinations.existing_queue(command.name)

        def described(oldest_ms: int | None) -> None:
            request.answer_in_slices(
                lambda: (
                    self._described(request.parts, queue, oldest_ms, Hot())
                    if active_keys(queue) is None
                    else self._described_with_keys(request.parts, queue, oldest_ms)
                )
            )

        self.context.open.then.append(lambda: queue.read_oldest_age(described))

    def _described_with_keys(
        self, port: TopologyPort, queue: Queue, oldest_ms: int | None
    ) -> Iterator[QueueDescribed | PauseRow]:
        hot = Hot()
        yield from look_for_hot(queue, hot)
        yield self._described(port, queue, oldest_ms, hot)

    def _described(self, port: TopologyPort, queue: Queue, oldest_ms: int | None, hot: Hot) -> QueueDescribed:
        bindings = self.destinations.bindings_of(queue)
        first = [*islice(bindings, DESCRIBED_BINDINGS)]
        return QueueDescribed(
            settings=queue.settings,
            bindings=Rows(BindingOfQueue(exchange, key) for exchange, key in first),
            bindings_count=len(bindings),
            messages=queue.ledger.stored,
            bytes=queue.ledger.stored_bytes,
            ready=queue.ready_count,
            unacked=len(queue.entries_out),
            delayed=queue.delayed_count,
            checked_out=port.checkouts.count(queue),
            consumers=len(queue.subscriptions),
            oldest_ms=oldest_ms,
            active_keys=active_keys(queue),
            key_moves=key_moves(queue),
            hot_key=HotKey(hot.key, hot.count) if hot.count else None,
            exclusive_to=self.destinations.queues.owned.owners.get(queue),
            active_consumer=active_consumer(queue),
        )

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        """Deletes the queue and its messages. if_unused: only without consumers; if_empty: only without messages."""
        queue = self.destinations.existing_queue(command.name)
        self.destinations.queues.owned.check_ended(queue, request.connection)
        _check_deletable(request.parts, queue, command)
        undo, again = partial(_undo, self.destinations, queue), partial(self.delete, request, command)
        if unbinding.begins(request, lambda: [*self.destinations.bindings_of(queue)], undo, again):
            return
        count = queue.ledger.stored
        request.parts.lifetimes.delete(queue, command.takes_unacked)
        request.answer_synced(lambda: Deleted(count))


def _check_owned(destinations: Destinations, queue: Queue, connection: Connection, command: DeclareDestination) -> None:
    """Raises Refusal where the queue is another connection's, or is owned while the command's would not be, or the
    reverse.
    """
    owned = destinations.queues.owned
    owned.check(queue, connection)
    is_owned = queue in owned.owners
    if not command.passive and is_owned != command.is_owned:
        raise Refusal.on(OwnedOtherwise(queue.name, is_owned))


def _where_no_pattern_says_otherwise(if_new: Mapping[str, Any], base: QueueSettings) -> dict[str, Any]:
    return {key: value for key, value in if_new.items() if getattr(base, key) == getattr(_DEFAULTS, key)}


def _check_exact(queue: Queue, given: Mapping[str, Any]) -> None:
    """Raises Refusal where it was declared with settings that are not given now, or the other way round. No limit of
    redeliveries is as good as none given.
    """
    before = json.loads(queue.given) if queue.given else given
    before = {key: value for key, value in before.items() if (key, value) != ("max_redeliveries", UNLIMITED)}
    for key in (*given, *before):  # what is said now is named first
        if (key in given and key in before) or key == _NO_ARGUMENT:
            continue
        raise Refusal.on(QueueGivenOtherwise(queue.name, key, before.get(key), given.get(key)))


def _check(destinations: Destinations, name: str, settings: QueueSettings) -> None:
    """Checks what tools/config/rules.py checks between a queue's settings and the others. Raises Refusal
    `bad-request`.
    """
    if settings.scope == CLUSTER and not destinations.is_clustered:
        raise mistake("scope", 'is "cluster", but this broker has no [node] in its configuration: it is alone')

    # its target may have been deleted; a dead letter in memory would be in neither queue after a crash
    other = next(iter(destinations.queues.dying_into.get(name, ())), None)
    if other is not None and not settings.persistent:
        wrong = f"is false, but the dead letters of /queue/{other.name} go here, and that is persistent"
        raise mistake("persistent", f"{wrong}; set persistent = true, or take another name")

    def settings_of(target: str) -> QueueSettings | None:
        return destinations.queues.settings_for(target) if may_be_named(destinations, target) else None

    check_dead_letter(name, settings, settings_of)


def may_be_named(destinations: Destinations, name: str) -> bool:
    """Whether a `dead_letter` or `children` may name the queue: it is there, or declared, or first use creates it."""
    declarations = destinations.declarations
    return name in destinations.queues.all or name in declarations.queues or declarations.may_create_queue(name)


def _check_deletable(parts: TopologyPort, queue: Queue, command: DeleteDestination) -> None:
    """Raises Refusal where something keeps the queue."""
    address = f"/queue/{queue.name}"
    if queue.doubt_count:
        raise Refusal(
            "in-use",
            f"{count_text(queue.doubt_count, f'message of {address} is', f'messages of {address} are')} in doubt with "
            "another node: a link settles that, or `radiator peer release` does.",
        )
    if queue.is_declared:
        raise Refusal("declared", f"{address} is declared in the configuration: remove it there, or purge it.")
    if command.if_unused and queue.subscriptions:
        raise Refusal(
            "in-use",
            f"{address} has {count_text(len(queue.subscriptions), 'consumer')} and "
            f"{count_text(len(queue.entries_out), 'unacked message')}: stop them first.",
        )
    if parts.checkouts.has(queue):
        raise Refusal("in-use", parts.checkouts.described(queue))
    held = queue.ledger.stored - (len(queue.entries_out) if command.takes_unacked else 0)
    if command.if_empty and held:
        raise Refusal("not-empty", f"{address} holds {count_text(held, 'message')}: purge it first.")


def _undo(destinations: Destinations, queue: Queue, binding: tuple[str, str]) -> None:
    if binding in destinations.bindings_of(queue):
        destinations.exchanges.undo(*binding, queue)


def of_queue(queue: Queue, checked_out: int = 0) -> QueueNumbers:
    """Returns the numbers of a queue. checked_out: how many messages groups have taken out of it."""
    ledger, settings = queue.ledger, queue.settings
    return QueueNumbers(
        persistent=queue.is_persistent,
        messages=ledger.stored,
        bytes=ledger.stored_bytes,
        ready=queue.ready_count,
        unacked=len(queue.entries_out),
        storing=queue.storing_count,
        delayed=queue.delayed_count,
        in_doubt=queue.doubt_count,
        set_aside=queue.aside_count,
        checked_out=checked_out,
        consumers=len(queue.subscriptions),
        useful_consumers=useful_consumers(queue),
        active_keys=active_keys(queue),
        key_moves=key_moves(queue),
        oldest_ms=queue.oldest_ms,
        max_messages=settings.max_messages,
        max_bytes=settings.max_bytes,
        redelivered=queue.redelivered,
        blocked=len(queue.waiters),
        damaged=queue.damaged,
        adds_up=ledger.adds_up(),
        **dict(zip(_COLUMNS, _columns(ledger), strict=True)),
    )
