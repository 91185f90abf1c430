"""Requests about queues: declare, describe, purge, delete, move."""

import json
from functools import partial
from itertools import islice

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request, warnings
from radiator.core.background import Moving, Purging
from radiator.core.ports import AdminPort
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import DeclareQueue, DeleteQueue, DescribeQueue, MoveMessages, PurgeQueue
from radiator.model.answers import BindingOfQueue, Deleted, Moved, Purged, QueueDeclared, QueueDescribed
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.numbers import Rows
from radiator.model.settings import CLUSTER, QueueSettings
from radiator.model.validation import check_dead_letter, mistake, queue_settings, without_effect


def check_there(request: Request, name: str) -> Queue:
    """The queue of that name. Raises Refusal where it is not there."""
    found = request.parts.destinations.find(name)
    if found is None:
        hint = f" There is a /log/{name}." if name in request.parts.destinations.logs else ""
        raise Refusal("no-such-destination", f"There is no /queue/{name:.255}.{hint}")
    return found


# ---- declare, describe ----------------------------------------------------------------------------------------------


def declare(request: Request, command: DeclareQueue) -> None:
    """A queue of that name with these settings is there from now on; `passive`: it must be there."""
    parts, destinations = request.parts, request.parts.destinations
    name, given = command.queue, command.settings
    if command.passive and name not in destinations.queues:
        raise Refusal("no-such-destination", f"There is no /queue/{name:.255}.")
    settings = queue_settings(given, destinations.settings_for(name))
    if given.get("dead_letter") is not None and not command.create:
        check_there(request, settings.dead_letter or "")
    if name not in destinations.queues:
        _check(destinations, name, settings)
    created = destinations.declare_queue(name, settings, json.dumps(given))
    queue = destinations.queues[name]
    if created and not queue.is_short_lived:
        parts.context.note("info", "declared", queue=name)
    useless = without_effect(settings, parts.disk.high_water_bytes, parts.limits.max_memory_bytes)
    useless_given = warnings(given, useless)

    def declared() -> QueueDeclared:
        return QueueDeclared(queue.ledger.stored, len(queue.subscriptions), created, useless_given)

    if queue.is_persistent:
        request.answer_synced(declared)
    else:
        request.answer(declared())


def _check(destinations: Destinations, name: str, settings: QueueSettings) -> None:
    """What tools/config/rules.py asks of a queue's settings beside the others. Raises Refusal `bad-request`."""
    if settings.scope == CLUSTER and not destinations.is_clustered:
        raise mistake("scope", 'is "cluster", but this broker has no [node] in its configuration: it is alone')

    # its target may have been deleted; a dead letter in memory would be in neither queue after a crash
    other = next(iter(destinations.dying_into.get(name, ())), None)
    if other is not None and not settings.persistent:
        wrong = f"is false, but the dead letters of /queue/{other.name} go here, and that is persistent"
        raise mistake("persistent", f"{wrong}; set persistent = true, or take another name")

    def settings_of(target: str) -> QueueSettings | None:
        return destinations.settings_for(target) if may_be_named(destinations, target) else None

    check_dead_letter(name, settings, settings_of)


def may_be_named(destinations: Destinations, name: str) -> bool:
    """Whether a `dead_letter` or `children` may name the queue: it is there, or declared, or first use creates it."""
    declarations = destinations.declarations
    return name in destinations.queues or name in declarations.queues or declarations.may_create_queue(name)


def describe(request: Request, command: DescribeQueue) -> None:
    """Settings, bindings and numbers of a queue."""
    queue = check_there(request, command.queue)

    def synced() -> None:
        queue.tell_oldest(
            lambda oldest_ms: request.answer_in_slices(lambda: _described(request.parts, queue, oldest_ms))
        )

    request.parts.context.open.then.append(synced)


def _described(parts: AdminPort, queue: Queue, oldest_ms: int | None) -> QueueDescribed:
    bindings = parts.destinations.bindings_of(queue)
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
        checked_out=parts.checkouts.count(queue),
        consumers=len(queue.subscriptions),
        oldest_ms=oldest_ms,
    )


# ---- what an operator does to one -----------------------------------------------------------------------------------


def purge(request: Request, command: PurgeQueue) -> None:
    """Remove all that is not unacked."""
    queue = check_there(request, command.queue)

    def done(count: int) -> None:
        request.parts.context.note("info", "purged", queue=queue.name, messages=count)
        request.answer_synced(lambda: Purged(count))

    if isinstance(queue, DurableQueue):
        queue.empty(done)
    else:
        assert isinstance(queue, MemoryQueue)
        request.parts.background.append(Purging(request.parts.context, queue, done))


def delete(request: Request, command: DeleteQueue) -> None:
    """The queue goes, with what is in it, unacked or not; if_unused: it has no consumers; if_empty: nor messages."""
    parts, destinations = request.parts, request.parts.destinations
    queue = check_there(request, command.queue)
    _check_deletable(parts, queue, command)
    undo = partial(_undo, destinations, queue)
    if unbinding.begins(request, lambda: [*destinations.bindings_of(queue)], undo, lambda: delete(request, command)):
        return
    count = queue.ledger.stored
    parts.lifetimes.delete(queue)
    request.answer_synced(lambda: Deleted(count))


def _check_deletable(parts: AdminPort, queue: Queue, command: DeleteQueue) -> None:
    """Raises Refusal where something keeps it."""
    address = f"/queue/{queue.name}"
    if queue.doubt_count:
        raise Refusal(
            "in-use",
            f"{count_text(queue.doubt_count, f'message of {address} is', f'messages of {address} are')} in doubt with "
            "another node: a link settles that, or `radiator peer release` does.",
        )
    if queue.is_declared:
        raise Refusal("declared", f"{address} is declared in the configuration: take it out there, or purge it.")
    if command.if_unused and queue.subscriptions:
        raise Refusal(
            "in-use",
            f"{address} has {count_text(len(queue.subscriptions), 'consumer')} and "
            f"{count_text(len(queue.entries_out), 'unacked message')}: stop them first.",
        )
    if parts.checkouts.has(queue):
        raise Refusal("in-use", parts.checkouts.described(queue))
    if command.if_empty and queue.ledger.stored:
        raise Refusal("not-empty", f"{address} holds {count_text(queue.ledger.stored, 'message')}: purge it first.")


def _undo(destinations: Destinations, queue: Queue, binding: tuple[str, str]) -> None:
    if binding in destinations.bindings_of(queue):
        destinations.exchanges.undo(*binding, queue)


def move(request: Request, command: MoveMessages) -> None:
    """Messages that are ready go from one queue to another, oldest first."""
    parts = request.parts
    source = check_there(request, command.source)
    count = max(1, source.ready_count) if command.count is None else command.count
    if not command.create:
        check_there(request, command.target)
    target = parts.destinations.queue(command.target)
    if target is source:
        raise Refusal("bad-request", f"/queue/{source.name} cannot be moved into itself.")

    def done(moved: int) -> None:
        parts.context.note("info", "moved", source=source.name, target=target.name, messages=moved)
        request.answer(Moved(moved))

    parts.background.append(Moving(parts.context, source, target, count, parts.dead_letters.moved, done))
