"""The broker's numbers as plain data: what `stats` and `queues` answer, and what logs and metrics show."""

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from radiator.broker.exchanges import Exchange
from radiator.broker.kinds.log import Log
from radiator.broker.kinds.queue import Queue
from radiator.limits import DESCRIBED_GROUPS

if TYPE_CHECKING:
    from radiator.broker.broker import Broker

Numbers = dict[str, Any]


def of_queue(queue: Queue, checked_out: int = 0) -> Numbers:
    """One queue: its ledger, and where its messages stand. checked_out: those that groups have taken."""
    ledger = queue.ledger
    out = len(queue.entries_out)
    return {
        "persistent": queue.is_persistent,
        "messages": ledger.stored,
        "bytes": ledger.stored_bytes,
        "ready": queue.ready_count,
        "in_flight": out,
        "storing": queue.storing_count,
        "delayed": queue.delayed_count,
        "in_doubt": queue.doubt_count,
        "checked_out": checked_out,
        "consumers": len(queue.subscriptions),
        **asdict(ledger),
        "redelivered": queue.redelivered,
        "blocked": len(queue.waiters),
        "damaged": queue.damaged,
        "adds_up": ledger.adds_up(),
    }


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
    partitions = log.partitions
    return {
        "partitions": len(partitions),
        "records": log.records,
        "bytes": log.size,
        "accepted": log.ledger.accepted,
        "accepted_bytes": log.ledger.accepted_bytes,
        "readers": len(log.all_readers()),
        "unread": {
            name: sum(max(0, p.committed - max(p.first, at)) for p, at in zip(partitions, group.positions, strict=True))
            for name, group in islice(sorted(log.groups.items()), DESCRIBED_GROUPS)
        },
        "damaged": log.damaged,
    }


def _name(queue: Queue) -> str:
    return queue.name


def of(broker: "Broker") -> Numbers:
    """The whole broker."""
    destinations = broker.destinations
    connections = broker.connections.values()
    return {
        "version": broker.version,
        "store_id": broker.recovery.store_id,
        "boot": broker.recovery.boot,
        "uptime_s": round(broker.desk.now_s - broker.started_s, 3),
        "connections": len(connections),
        "subscriptions": sum(len(c.queue_subscriptions) + len(c.topic_subscriptions) for c in connections),
        "transactions": sum(len(c.transactions) for c in connections),
        "prepared": broker.staging.count,
        "parked": len(broker.parked),
        "memory_bytes": broker.memory_in_use(),
        "batches": broker.batches,
        "store": broker.disk_numbers(),
        "counters": dict(broker.desk.counters),
        "queues": {
            queue.name: of_queue(queue, broker.checkouts.count(queue))
            for queue in sorted(destinations.everything(), key=_name)
        },
        "fanouts": {
            name: {"children": list(fanout.children), "accepted": fanout.accepted}
            for name, fanout in sorted(destinations.fanouts.items())
        },
        "exchanges": {name: of_exchange(exchange) for name, exchange in sorted(destinations.exchanges.all.items())},
        "logs": {name: of_log(log) for name, log in sorted(destinations.logs.items())},
        "peers": {} if broker.cluster is None else {peer.pop("name"): peer for peer in broker.cluster.numbers()},
        "topics": {name: {"subscribers": len(there)} for name, there in sorted(destinations.topics.exact.items())},
    }
