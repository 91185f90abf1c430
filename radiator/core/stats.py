"""The broker's numbers as plain data: what `stats` and `queues` answer, and what logs and metrics show.

A section has a row for each thing of one kind. What is to be shown of a thing is added in its `of_...`; what is to be
shown of the broker, in `of`; another kind of thing is a line of SECTIONS.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from itertools import chain
from operator import attrgetter
from typing import Any

from radiator.core.answers import PAUSE, Nested, Part, in_order, rested, total
from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log
from radiator.core.parts import Parts
from radiator.core.queues.queue import Queue
from radiator.core.routing.exchanges import Exchange
from radiator.core.routing.fanouts import Fanout
from radiator.model.limits import BINDINGS_MAX, DESCRIBED_GROUPS, POSITIONS_MAX, PREPARED_MAX
from radiator.model.writes import Ledger

Numbers = dict[str, Any]
MANY_PARTITIONS = 64  # a row of so many is a slice

_LIMITS = ("max_connections", "max_half_open", "max_memory_bytes", "outbox_max_bytes", "max_destinations")
_COLUMNS = tuple(field.name for field in fields(Ledger))
_columns = attrgetter(*_COLUMNS)


def of_queue(queue: Queue, checked_out: int = 0) -> Numbers:
    """One queue: its ledger, and where its messages stand. checked_out: those that groups have taken."""
    ledger, settings = queue.ledger, queue.settings
    return {
        "persistent": queue.is_persistent,
        "messages": ledger.stored,
        "bytes": ledger.stored_bytes,
        "ready": queue.ready_count,
        "unacked": len(queue.entries_out),
        "storing": queue.storing_count,
        "delayed": queue.delayed_count,
        "in_doubt": queue.doubt_count,
        "set_aside": queue.aside_count,
        "checked_out": checked_out,
        "consumers": len(queue.subscriptions),
        "oldest_ms": queue.oldest_ms,
        "max_messages": settings.max_messages,
        "max_bytes": settings.max_bytes,
        **dict(zip(_COLUMNS, _columns(ledger), strict=True)),
        "redelivered": queue.redelivered,
        "blocked": len(queue.waiters),
        "damaged": queue.damaged,
        "adds_up": ledger.adds_up(),
    }


def of_fanout(fanout: Fanout) -> Numbers:
    """One fanout."""
    return {"children": list(fanout.children), "accepted": fanout.accepted}


def of_exchange(exchange: Exchange) -> Numbers:
    """One exchange."""
    return {
        **asdict(exchange.settings),
        "accepted": exchange.accepted,
        "unrouted": exchange.unrouted,
        "bindings": len(exchange.bindings),
    }


def of_log(log: Log) -> Numbers:
    """One log. unread: for each group, how many records are beyond its positions."""
    return Nested(
        partitions=len(log.partitions),
        records=log.records,
        bytes=log.size,
        retention_bytes=log.log_settings.retention_bytes,
        accepted=log.ledger.accepted,
        accepted_bytes=log.ledger.accepted_bytes,
        readers=readers_of(log),
        unread=Part(_unread(log), "{}"),
        damaged=log.damaged,
    )


def _unread(log: Log) -> Iterator[Any]:
    for name in in_order(log.groups, limit=DESCRIBED_GROUPS):
        group = None if name is PAUSE else log.groups.get(name)
        if group is not None:
            yield name, unread_of(log, group)
        if len(log.partitions) >= MANY_PARTITIONS or name is PAUSE:
            yield PAUSE


def unread_of(log: Log, group: Group) -> int:
    """How many records are beyond a group's positions."""
    return sum(max(0, p.committed - max(p.first, at)) for p, at in zip(log.partitions, group.positions, strict=True))


def readers_in(log: Log) -> Iterator[Any]:
    """After PAUSEs the set of those who read the log, or have records of it unacked."""
    found: set[object] = set()
    cursors = chain.from_iterable([*partition.cursors] for partition in log.partitions)
    for one in rested(chain(cursors, [*log.groups.values()])):
        if one is PAUSE:
            yield PAUSE
        elif isinstance(one, Group):
            found.update(one.members)
        else:
            found.add(one.reader)
    yield found


def readers_of(log: Log) -> Part:
    """How many those are."""
    return Part((PAUSE if found is PAUSE else len(found) for found in readers_in(log)), "")


# ---- sections -------------------------------------------------------------------------------------------------------

Row = Callable[[str], Numbers | None]  # by the name of a thing; None: it is there no longer


def _queues(parts: Parts) -> tuple[Iterable[str], Row]:
    destinations, taken = parts.destinations, parts.checkouts.count

    def row(name: str) -> Numbers | None:
        queue = destinations.find(name)
        return None if queue is None else of_queue(queue, taken(queue))

    return (queue.name for queue in destinations.everything()), row


def _by_name(things: Mapping[str, Any], of_one: Callable[[Any], Numbers]) -> tuple[Iterable[str], Row]:
    def row(name: str) -> Numbers | None:
        thing = things.get(name)
        return None if thing is None else of_one(thing)

    return things, row


def _peers(parts: Parts) -> tuple[Iterable[str], Row]:
    cluster = parts.cluster
    if cluster is None:
        return (), lambda name: None
    hops = cluster.hops()
    return _by_name(cluster.peers, lambda peer: cluster.numbers_of(peer, hops))


SECTIONS: dict[str, Callable[[Parts], tuple[Iterable[str], Row]]] = {
    "queues": _queues,
    "fanouts": lambda parts: _by_name(parts.destinations.fanouts, of_fanout),
    "exchanges": lambda parts: _by_name(parts.destinations.exchanges.all, of_exchange),
    "logs": lambda parts: _by_name(parts.destinations.logs, of_log),
    "peers": _peers,
    "topics": lambda parts: _by_name(parts.destinations.topics.exact, lambda there: {"subscribers": len(there)}),
}


def rows(parts: Parts, name: str, after: str | None = None, limit: int | None = None) -> Iterator[Any]:
    """Name and numbers of each thing of a section, in the order of their names; PAUSE where a slice should end."""
    names, row = SECTIONS[name](parts)
    for one in in_order(names, after, limit):
        if one is PAUSE:
            yield PAUSE
            continue
        numbers = row(one)
        if numbers is not None:
            yield one, numbers


def section(parts: Parts, name: str, after: str | None = None, limit: int | None = None) -> Part:
    """All rows of a section, or a page of them."""
    return Part(rows(parts, name, after, limit), "{}")


def of(parts: Parts) -> Numbers:
    """The whole parts."""
    connections, destinations = [*parts.connections.values()], parts.destinations
    return {
        "version": parts.version,
        "store_id": parts.context.store_id,
        "boot": parts.context.boot,
        "uptime_s": round(parts.context.now_s - parts.started_s, 3),
        "clock_ahead_s": parts.clock.ahead_ms // 1000,
        "connections": len(connections),
        "subscriptions": total(len(c.queue_subscriptions) + len(c.topic_subscriptions) for c in connections),
        "transactions": total(len(c.transactions) for c in connections),
        "prepared": parts.prepared.count,
        "parked": len(parts.blocking.connections),
        "half_open": parts.half_open,
        "memory_bytes": parts.memory.weighed_bytes + parts.memory.on_disk_too,
        "memory_counted_bytes": parts.memory.weighed_bytes,
        "memory_holders": [{"name": name, "bytes": size} for name, size in parts.memory.holders],
        "outbox_bytes": parts.memory.outbox_bytes,
        "outbox_largest_bytes": parts.memory.outbox_largest_bytes,
        "destinations": destinations.count,
        "bindings": destinations.exchanges.count,
        "positions": destinations.readers.positions,
        "limits": {
            **{name: getattr(parts.limits, name) for name in _LIMITS},
            "max_bindings": BINDINGS_MAX,
            "max_prepared": PREPARED_MAX,
            "max_positions": POSITIONS_MAX,
        },
        "batches": parts.context.batches,
        "commit_latency": parts.context.commits.numbers(),
        "delivery_latency": parts.context.deliveries.numbers(),
        "store": parts.disk.numbers(),
        "counters": dict(parts.context.counters),
        **{name: section(parts, name) for name in SECTIONS},
    }
