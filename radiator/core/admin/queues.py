"""Requests about queues: what there is, declare, describe, purge, delete, move."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request
from radiator.core.answers import PAUSE, Answer, Part
from radiator.core.background import Moving, Purging
from radiator.core.parts import Parts
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.stats import rows
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.settings import CLUSTER, QueueSettings
from radiator.model.validation import as_json, check_dead_letter, mistake, queue_settings, without_effect


def named(request: Request, key: str = "queue") -> Queue:
    """The queue that the request names. Raises Refusal where it is not there."""
    return check_there(request, request.name("queue", key))


def check_there(request: Request, name: str) -> Queue:
    """The queue of that name. Raises Refusal where it is not there."""
    found = request.parts.destinations.find(name)
    if found is None:
        hint = f" There is a /log/{name}." if name in request.parts.destinations.logs else ""
        raise Refusal("no-such-destination", f"There is no /queue/{name:.255}.{hint}")
    return found


def queues(request: Request) -> None:
    """All that have a name, or a page of them."""
    request.has_only("limit", "after")
    after, limit = request.page()

    def listed() -> Iterator[Any]:
        for row in rows(request.parts, "queues", after, limit):
            yield row if row is PAUSE else {"name": row[0], **row[1]}

    request.answer_in_slices(lambda: {"queues": Part(listed())})


# ---- declare, describe ----------------------------------------------------------------------------------------------


def declare(request: Request) -> None:
    """A queue of that name with these settings is there from now on; `passive`: it must be there."""
    destinations = request.parts.destinations
    name, given, is_passive = request.declaration("queue")
    if is_passive and name not in destinations.queues:
        raise Refusal("no-such-destination", f"There is no /queue/{name:.255}.")
    settings = queue_settings(given, destinations.settings_for(name))
    if given.get("dead_letter") is not None and not request.flag("create", True):
        check_there(request, settings.dead_letter or "")
    if name not in destinations.queues:
        _check(request.parts, name, settings)
    created = destinations.declare_queue(name, settings, json.dumps(given))
    queue, parts = destinations.queues[name], request.parts
    if created and not queue.is_short_lived:
        parts.context.note("info", "declared", queue=name)
    useless = without_effect(settings, parts.disk.high_water_bytes, parts.limits.max_memory_bytes)
    warnings = request.warnings(given, useless)

    def told() -> Answer:
        numbers = {"messages": queue.ledger.stored, "consumers": len(queue.subscriptions), "created": created}
        return {**numbers, **warnings}

    if queue.is_persistent:
        request.answer_synced(told)
    else:
        request.answer(**told())


def _check(parts: Parts, name: str, settings: QueueSettings) -> None:
    """What tools/config/rules.py asks of a queue's settings beside the others. Raises Refusal `bad-request`."""
    if settings.scope == CLUSTER and not parts.destinations.is_clustered:
        raise mistake("scope", 'is "cluster", but this broker has no [node] in its configuration: it is alone')

    # its target may have been deleted; a dead letter in memory would be in neither queue after a crash
    other = next(iter(parts.destinations.dying_into.get(name, ())), None)
    if other is not None and not settings.persistent:
        wrong = f"is false, but the dead letters of /queue/{other.name} go here, and that is persistent"
        raise mistake("persistent", f"{wrong}; set persistent = true, or take another name")

    def settings_of(target: str) -> QueueSettings | None:
        return parts.destinations.settings_for(target) if may_be_named(parts, target) else None

    check_dead_letter(name, settings, settings_of)


def may_be_named(parts: Parts, name: str) -> bool:
    """Whether a `dead_letter` or `children` may name the queue: it is there, or declared, or first use creates it."""
    destinations = parts.destinations
    declarations = destinations.declarations
    return name in destinations.queues or name in declarations.queues or declarations.may_create_queue(name)


def describe(request: Request) -> None:
    """Settings, bindings and numbers of a queue."""
    request.has_only("queue")
    queue = named(request)

    def synced() -> None:
        queue.tell_oldest(
            lambda oldest_ms: request.answer_in_slices(lambda: {**_described(request, queue), "oldest_ms": oldest_ms})
        )

    request.parts.context.open.then.append(synced)


def _described(request: Request, queue: Queue) -> Answer:
    bindings = request.parts.destinations.bindings_of(queue)
    first = [*islice(bindings, DESCRIBED_BINDINGS)]
    return {
        "settings": as_json(queue.settings),
        "bindings": Part({"exchange": exchange, "key": key} for exchange, key in first),
        "bindings_count": len(bindings),
        "messages": queue.ledger.stored,
        "bytes": queue.ledger.stored_bytes,
        "ready": queue.ready_count,
        "unacked": len(queue.entries_out),
        "delayed": queue.delayed_count,
        "checked_out": request.parts.checkouts.count(queue),
        "consumers": len(queue.subscriptions),
    }


# ---- what an operator does to one -----------------------------------------------------------------------------------


def purge(request: Request) -> None:
    """Let go of all that is not in flight."""
    queue = named(request)

    def done(count: int) -> None:
        request.parts.context.note("info", "purged", queue=queue.name, messages=count)
        request.answer_synced(lambda: {"purged": count})

    if isinstance(queue, DurableQueue):
        queue.empty(done)
    else:
        assert isinstance(queue, MemoryQueue)
        request.parts.background.append(Purging(request.parts.context, queue, done))


def delete(request: Request) -> None:
    """The queue goes, with what is in it, unacked or not; if_unused: it has no consumers; if_empty: nor messages."""
    request.has_only("queue", "if_unused", "if_empty")
    queue = named(request)
    is_unused, is_empty = request.flag("if_unused", True), request.flag("if_empty", False)
    address = f"/queue/{queue.name}"
    if queue.doubt_count:
        raise Refusal(
            "in-use",
            f"{count_text(queue.doubt_count, f'message of {address} is', f'messages of {address} are')} in doubt with "
            "another node: a link settles that, or `radiator peer release` does.",
        )
    if queue.is_declared:
        raise Refusal("declared", f"{address} is declared in the configuration: take it out there, or purge it.")
    if is_unused and queue.subscriptions:
        raise Refusal(
            "in-use",
            f"{address} has {count_text(len(queue.subscriptions), 'consumer')} and "
            f"{count_text(len(queue.entries_out), 'unacked message')}: stop them first.",
        )
    if request.parts.checkouts.has(queue):
        raise Refusal("in-use", request.parts.checkouts.described(queue))
    if is_empty and queue.ledger.stored:
        raise Refusal("not-empty", f"{address} holds {count_text(queue.ledger.stored, 'message')}: purge it first.")
    destinations = request.parts.destinations
    if unbinding.begins(
        request, lambda: [*destinations.bindings_of(queue)], partial(_undo, destinations, queue), delete
    ):
        return
    count = queue.ledger.stored
    request.parts.lifetimes.delete(queue)
    request.answer_synced(lambda: {"deleted": count})


def _undo(destinations: Destinations, queue: Queue, binding: tuple[str, str]) -> None:
    if binding in destinations.bindings_of(queue):
        destinations.exchanges.undo(*binding, queue)


def move(request: Request) -> None:
    """Messages that are ready go from one queue to another, oldest first."""
    request.has_only("from", "to", "count", "create")
    parts = request.parts
    source = named(request, "from")
    name = request.name("queue", "to")
    count = request.whole("count", max(1, source.ready_count))
    if not request.flag("create", True):
        check_there(request, name)
    target = parts.destinations.queue(name)
    if target is source:
        raise Refusal("bad-request", f"/queue/{source.name} cannot be moved into itself.")

    def done(moved: int) -> None:
        parts.context.note("info", "moved", source=source.name, target=target.name, messages=moved)
        request.answer(moved=moved)

    parts.background.append(Moving(parts.context, source, target, count, parts.dead_letters.moved, done))
