"""The broker's numbers: what `stats` and `queues` answer, and what metrics and tools show.

A section has a row for each thing of one kind. What is to be shown of a thing, or of the broker, is a field of its
record in model/answers.py, filled in its `of_...`; another kind of thing is a name in SECTIONS, and a line of
_SECTIONS.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any

from radiator.core.answers import in_order, rested, total
from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log
from radiator.core.memory import Memory
from radiator.core.ports import StatsPort
from radiator.core.queues.queue import Queue
from radiator.core.routing.exchanges import Exchange
from radiator.core.routing.fanouts import Fanout
from radiator.model.administration import SECTIONS
from radiator.model.answers import Named
from radiator.model.limits import BINDINGS_MAX, DESCRIBED_GROUPS, POSITIONS_MAX, PREPARED_MAX
from radiator.model.numbers import (
    PAUSE,
    BrokerNumbers,
    ExchangeNumbers,
    FanoutNumbers,
    Holder,
    Later,
    LogNumbers,
    NamedRows,
    Pause,
    PeerNumbers,
    QueueNumbers,
    TopicNumbers,
)
from radiator.model.writes import Ledger

MANY_PARTITIONS = 64  # a row of so many is a slice

_LIMITS = ("max_connections", "max_half_open", "max_memory_bytes", "outbox_max_bytes", "max_destinations")
_COLUMNS = tuple(field.name for field in fields(Ledger))
_columns = attrgetter(*_COLUMNS)


def of_queue(queue: Queue, checked_out: int = 0) -> QueueNumbers:
    """One queue. checked_out: how many messages groups have taken out of it."""
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
        oldest_ms=queue.oldest_ms,
        max_messages=settings.max_messages,
        max_bytes=settings.max_bytes,
        redelivered=queue.redelivered,
        blocked=len(queue.waiters),
        damaged=queue.damaged,
        adds_up=ledger.adds_up(),
        **dict(zip(_COLUMNS, _columns(ledger), strict=True)),
    )


def of_fanout(fanout: Fanout) -> FanoutNumbers:
    """One fanout."""
    return FanoutNumbers(tuple(fanout.children), fanout.accepted)


def of_exchange(exchange: Exchange) -> ExchangeNumbers:
    """One exchange."""
    settings = exchange.settings
    return ExchangeNumbers(
        settings.type,
        settings.durable,
        settings.auto_delete,
        exchange.accepted,
        exchange.unrouted,
        len(exchange.bindings),
    )


def of_log(log: Log) -> LogNumbers:
    """One log."""
    return LogNumbers(
        partitions=len(log.partitions),
        records=log.records,
        bytes=log.size,
        retention_bytes=log.log_settings.retention_bytes,
        accepted=log.ledger.accepted,
        accepted_bytes=log.ledger.accepted_bytes,
        readers=readers_of(log),
        unread=NamedRows(_unread(log)),
        damaged=log.damaged,
    )


def _unread(log: Log) -> Iterator[tuple[str, int] | Pause]:
    for name in in_order(log.groups, limit=DESCRIBED_GROUPS):
        group = None if name is PAUSE else log.groups.get(name)
        if group is not None and name is not PAUSE:
            yield name, unread_of(log, group)
        if len(log.partitions) >= MANY_PARTITIONS or name is PAUSE:
            yield PAUSE


def unread_of(log: Log, group: Group) -> int:
    """How many records are beyond a group's positions."""
    return sum(max(0, p.committed - max(p.first, at)) for p, at in zip(log.partitions, group.positions, strict=True))


def readers_in(log: Log) -> Iterator[set[Any] | Pause]:
    """After PAUSEs the set of the LogConsumers who read the log, or have records of it unacked."""
    found: set[Any] = set()
    cursors = chain.from_iterable([*partition.cursors] for partition in log.partitions)
    looked_at: Iterable[Any] = chain(cursors, [*log.groups.values()])
    for one in rested(looked_at):
        if one is PAUSE:
            yield PAUSE
        elif isinstance(one, Group):
            found.update(one.members)
        else:
            found.add(one.reader)
    yield found


def readers_of(log: Log) -> Later[int]:
    """How many those are."""
    return Later(PAUSE if found is PAUSE else len(found) for found in readers_in(log))


# ---- sections -------------------------------------------------------------------------------------------------------

# the names of things, and the numbers of one of them by its name; None: it is there no longer
Section = tuple[Iterable[str], Callable[[str], Any]]


def _queues(port: StatsPort) -> Section:
    destinations, taken = port.destinations, port.checkouts.count

    def row(name: str) -> QueueNumbers | None:
        queue = destinations.find(name)
        return None if queue is None else of_queue(queue, taken(queue))

    return (queue.name for queue in destinations.everything()), row


def _by_name(things: Mapping[str, Any], of_one: Callable[[Any], Any]) -> Section:
    def row(name: str) -> Any:
        thing = things.get(name)
        return None if thing is None else of_one(thing)

    return things, row


def _peers(port: StatsPort) -> Section:
    cluster = port.cluster
    if cluster is None:
        return (), lambda name: None
    hops = cluster.hops()
    return _by_name(cluster.peers, lambda peer: PeerNumbers(**cluster.numbers_of(peer, hops)))


_SECTIONS: dict[str, Callable[[StatsPort], Section]] = {
    "queues": _queues,
    "fanouts": lambda port: _by_name(port.destinations.fanouts, of_fanout),
    "exchanges": lambda port: _by_name(port.destinations.exchanges.all, of_exchange),
    "logs": lambda port: _by_name(port.destinations.logs, of_log),
    "peers": _peers,
    "topics": lambda port: _by_name(port.destinations.topics.exact, lambda there: TopicNumbers(len(there))),
}
assert (*_SECTIONS,) == SECTIONS


def rows(
    port: StatsPort, name: str, after: str | None = None, limit: int | None = None
) -> Iterator[tuple[str, Any] | Pause]:
    """Name and numbers of each thing of a section, in the order of their names; PAUSE where a slice should end."""
    names, row = _SECTIONS[name](port)
    for one in in_order(names, after, limit):
        if one is PAUSE:
            yield PAUSE
            continue
        numbers = row(one)
        if numbers is not None:
            yield one, numbers


def listed(
    port: StatsPort, name: str, after: str | None = None, limit: int | None = None
) -> Iterator[Named[Any] | Pause]:
    """The same as a list."""
    for row in rows(port, name, after, limit):
        yield PAUSE if row is PAUSE else Named(*row)


def section(port: StatsPort, name: str, after: str | None = None, limit: int | None = None) -> NamedRows[Any]:
    """All rows of a section, or a page of them."""
    return NamedRows(rows(port, name, after, limit))


def holders(memory: Memory) -> list[Holder]:
    """Who holds most memory."""
    return [Holder(name, size) for name, size in memory.holders]


def of(port: StatsPort) -> BrokerNumbers:
    """The whole broker."""
    connections, destinations, memory = [*port.connections.values()], port.destinations, port.memory
    return BrokerNumbers(
        version=port.version,
        store_id=port.context.store_id,
        boot=port.context.boot,
        uptime_s=round(port.context.now_s - port.started_s, 3),
        clock_ahead_s=port.clock.ahead_ms // 1000,
        connections=len(connections),
        subscriptions=total(len(c.queue_subscriptions) + len(c.topic_subscriptions) for c in connections),
        transactions=total(len(c.transactions) for c in connections),
        prepared=port.prepared.count,
        parked=len(port.blocking.connections),
        half_open=port.half_open,
        memory_bytes=memory.weighed_bytes + memory.on_disk_too,
        memory_counted_bytes=memory.weighed_bytes,
        memory_holders=holders(memory),
        outbox_bytes=memory.outbox_bytes,
        outbox_largest_bytes=memory.outbox_largest_bytes,
        destinations=destinations.count,
        bindings=destinations.exchanges.count,
        positions=destinations.readers.positions,
        limits={
            **{name: getattr(port.limits, name) for name in _LIMITS},
            "max_bindings": BINDINGS_MAX,
            "max_prepared": PREPARED_MAX,
            "max_positions": POSITIONS_MAX,
        },
        batches=port.context.batches,
        commit_latency=port.context.commits.numbers(),
        delivery_latency=port.context.deliveries.numbers(),
        store=port.disk.numbers(),
        counters=dict(port.context.counters),
        **{name: section(port, name) for name in SECTIONS},
    )
