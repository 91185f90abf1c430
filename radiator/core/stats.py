"""The broker's numbers: what `stats` and `queues` answer, and what metrics and tools show.

A section has a row for each thing of one kind. Each number of a thing is a field of its record in model/numbers.py,
filled in by its kind (core/kinds/); the broker's own are filled in by `of`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Protocol

from radiator.core.answers import in_order, total
from radiator.core.clock import Clock
from radiator.core.cluster.cluster import Cluster
from radiator.core.connections import Connection
from radiator.core.kinds.table import Kinds
from radiator.core.memory import Memory
from radiator.core.ports import TopologyPort
from radiator.core.routing.destinations import Destinations
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.core.usage import Usages
from radiator.model.administration import PEERS, USERS, sections
from radiator.model.answers import Named
from radiator.model.limits import BINDINGS_MAX, POSITIONS_MAX, PREPARED_MAX
from radiator.model.numbers import PAUSE, BrokerNumbers, Holder, NamedRows, PauseRow, PeerNumbers, UserNumbers

_LIMITS = ("max_connections", "max_half_open", "max_memory_bytes", "outbox_max_bytes", "max_destinations")


class Blocked(Protocol):
    """The connections that wait for room."""

    @property
    def connections(self) -> Sized: ...


class StatsPort(TopologyPort, Protocol):
    """All that has numbers. half_open and certificates_left_s: as the server reports them in each Tick."""

    version: str
    started_s: float
    half_open: int
    certificates_left_s: Mapping[str, int]

    @property
    def blocking(self) -> Blocked: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def cluster(self) -> Cluster | None: ...

    @property
    def connections(self) -> Mapping[int, Connection]: ...

    @property
    def destinations(self) -> Destinations: ...

    @property
    def kinds(self) -> Kinds: ...

    @property
    def memory(self) -> Memory: ...

    @property
    def prepared(self) -> PreparedTransactions: ...

    @property
    def usages(self) -> Usages: ...


# the names of things, and the numbers of one of them by its name; None: it is there no longer
Section = tuple[Iterable[str], Callable[[str], Any]]


def _peers(port: StatsPort) -> Section:
    cluster = port.cluster
    if cluster is None:
        return (), lambda name: None
    figures = cluster.figures
    hops = figures.hops()

    def row(name: str) -> PeerNumbers | None:
        peer = cluster.peers.get(name)
        return None if peer is None else PeerNumbers(**figures.of(peer, hops))

    return cluster.peers, row


def _users(port: StatsPort) -> Section:
    all_of_them = port.usages.all

    def row(name: str) -> UserNumbers | None:
        usage = all_of_them.get(name)
        return None if usage is None else usage.numbers()

    return all_of_them, row


def _section(port: StatsPort, section: str) -> Section:
    if section == PEERS:
        return _peers(port)
    if section == USERS:
        return _users(port)
    kind = next(kind for kind in port.kinds.values() if kind.section == section)
    return kind.names(), lambda name: kind.numbers(port, name)


def rows(
    port: StatsPort, name: str, after: str | None = None, limit: int | None = None, match: str | None = None
) -> Iterator[tuple[str, Any] | PauseRow]:
    """Yields the name and numbers of each thing of a section, ordered by name; PAUSE where a slice should end."""
    names, row = _section(port, name)
    for one in in_order(names, after, limit, match):
        if one is PAUSE:
            yield PAUSE
            continue
        numbers = row(one)
        if numbers is not None:
            yield one, numbers


def listed(
    port: StatsPort, name: str, after: str | None = None, limit: int | None = None, match: str | None = None
) -> Iterator[Named[Any] | PauseRow]:
    """Yields the same, each as a Named."""
    for row in rows(port, name, after, limit, match):
        yield PAUSE if row is PAUSE else Named(*row)


def section(
    port: StatsPort, name: str, after: str | None = None, limit: int | None = None, match: str | None = None
) -> NamedRows[Any]:
    """Returns all rows of a section, or a page of them."""
    return NamedRows(rows(port, name, after, limit, match))


def holders(memory: Memory) -> list[Holder]:
    """Returns who holds most memory."""
    return [Holder(name, size) for name, size in memory.holders]


def of(port: StatsPort) -> BrokerNumbers:
    """Returns the numbers of the whole broker."""
    connections, destinations, memory = [*port.connections.values()], port.destinations, port.memory
    return BrokerNumbers(
        version=port.version,
        store_id=port.context.store_id,
        boot=port.context.boot,
        uptime_s=round(port.context.now_s - port.started_s, 3),
        clock_ahead_s=port.clock.ahead_ms // 1000,
        connections=len(connections) - port.usages.channels,
        channels=port.usages.channels,
        subscriptions=total(len(c.queue_subscriptions) + len(c.topic_subscriptions) for c in connections),
        transactions=total(len(c.transactions) for c in connections),
        prepared=port.prepared.count,
        parked=len(port.blocking.connections),
        half_open=port.half_open,
        certificate_left_s=min(port.certificates_left_s.values(), default=None),
        certificates_left_s={of: left_s for of, left_s in port.certificates_left_s.items() if of},
        memory_bytes=memory.in_all_bytes,
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
        sections={name: section(port, name) for name in sections()},
    )
