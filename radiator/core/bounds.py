"""The bounds of the whole broker, and how much of each is used: BOUNDS has a row for each, and is the only list of
them.

docs/OPERATING.md has the same rows. The bounds of one connection or one message are not among them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from radiator.core.answers import rested
from radiator.core.leases import Leases
from radiator.core.registrations import Registrations
from radiator.core.searches import Searches
from radiator.core.server_view import ServerView
from radiator.core.stats import StatsPort
from radiator.model.bounds import BrokerBound
from radiator.model.limits import (
    AHEAD_MAX,
    APPS_MAX,
    BINDINGS_MAX,
    DRAINS_MAX,
    LINK_PARTS_BYTES,
    NODES_MAX,
    POSITIONS_MAX,
    PREPARED_MAX,
    READERS_BYTES,
    RECEIVES_MAX,
    REGISTRATIONS_MAX,
    SEARCHES_AT_ONCE,
    TAIL_BYTES,
    UNAPPLIED_ENTRIES,
    USERS_MAX,
    WATCHED_MAX,
)
from radiator.model.numbers import PAUSE, PauseRow
from radiator.model.settings import AUDIT, JOURNAL

CONNECTIONS, BYTES = "connections", "bytes"
"""Two of the units; the others too name what is counted."""


class BoundsPort(StatsPort, Protocol):
    """The parts whose bounds are listed."""

    @property
    def leases(self) -> Leases: ...

    @property
    def registrations(self) -> Registrations: ...

    @property
    def searches(self) -> Searches: ...

    @property
    def view(self) -> ServerView: ...


@dataclass(slots=True)
class Looked:
    """The sources of the numbers of one answer. server, disk: by name, as they were when the answer was begun."""

    port: BoundsPort
    server: Mapping[str, tuple[int | None, int | None]] = field(init=False)
    disk: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.server, self.disk = self.port.view.uses(), self.port.disk.numbers()


Used = int | None | Iterable[int]


@dataclass(slots=True, frozen=True)
class BoundKind:
    """One bound. limit, used: return the value as of now. used: the use of each, where each of several has that bound.
    None: it is not known. The other fields are BrokerBound's.
    """

    name: str
    unit: str
    reached: str
    limit: Callable[[Looked], int | None]
    used: Callable[[Looked], Used] | None
    is_least: bool = False


def bounds(port: BoundsPort) -> Iterator[BrokerBound | PauseRow]:
    """Yields all rows, and a PAUSE where a slice should end."""
    looked = Looked(port)
    for row in BOUNDS:
        used = None if row.used is None else row.used(looked)
        if isinstance(used, Iterable):
            most = 0
            for one in rested(used):
                if one is PAUSE:
                    yield PAUSE
                else:
                    most = max(most, one)
            used = most
        yield BrokerBound(row.name, row.limit(looked), used, row.unit, row.is_least, row.reached)


# ---- where numbers come from ----------------------------------------------------------------------------------------


def _server(name: str, unit: str, reached: str) -> BoundKind:
    """Returns a bound that the server keeps."""
    nothing = None, None
    return BoundKind(
        name,
        unit,
        reached,
        lambda looked: looked.server.get(name, nothing)[0],
        lambda looked: looked.server.get(name, nothing)[1],
    )


def _fixed(name: str, limit: int, unit: str, reached: str, used: Callable[[Looked], Used] | None) -> BoundKind:
    """Returns a bound that is a constant of model/limits.py."""
    return BoundKind(name, unit, reached, lambda looked: limit, used)


def _retention(log: str) -> Callable[[Looked], int | None]:
    def limit(looked: Looked) -> int | None:
        found = looked.port.destinations.logs.all.get(log)
        return None if found is None else found.log_settings.retention_bytes

    return limit


def _stored(log: str) -> Callable[[Looked], int | None]:
    def used(looked: Looked) -> int | None:
        found = looked.port.destinations.logs.all.get(log)
        return None if found is None else found.size

    return used


def _nodes(looked: Looked) -> int | None:
    return None if looked.port.cluster is None else len(looked.port.cluster.gossip.known)


def _outbox_bound(looked: Looked) -> int | None:
    """Returns the bound of any outbox: all have the same."""
    outboxes = looked.port.destinations.queues.outboxes
    return next((one.settings.max_bytes for one in outboxes.values()), None)


def _outboxes(looked: Looked) -> Used:
    outboxes = looked.port.destinations.queues.outboxes
    return [one.ledger.stored_bytes for one in outboxes.values()] if outboxes else None


# ---- the rows -------------------------------------------------------------------------------------------------------

BOUNDS: tuple[BoundKind, ...] = (
    _server("max_connections", CONNECTIONS, "One more client is refused with ERROR (`connections`)."),
    _server("max_half_open", CONNECTIONS, "One more is accepted, and another that has not sent CONNECT yet is closed."),
    _server(
        "max_half_open_per_address",
        CONNECTIONS,
        "One more is accepted, and another of the same network that has not sent CONNECT yet is closed.",
    ),
    _server("operators_connections", CONNECTIONS, "One more at radiator.sock is refused with ERROR (`connections`)."),
    _server("link_sockets", CONNECTIONS, "The new one is closed, or another that has not proved yet which node it is."),
    _server("login_checks", "checks", "One more login is refused (`connections`); later ones succeed."),
    _server(
        "browser_sessions",
        "sessions",
        "One more ends the longest unused session of its user, or of the user with most.",
    ),
    _server("inbox_bytes", BYTES, "No socket is read from until the dispatcher has caught up."),
    _server("tunnels_bytes", BYTES, "Each session of STOMP over HTTP reads only 16 KiB ahead of its client."),
    _server("log_lines", "lines", "Further lines of the log are dropped; one line says how many."),
    BoundKind(
        "max_memory_bytes",
        BYTES,
        "Above 80 %, SENDs of large holders wait; above 100 %, the largest holder is closed.",
        lambda looked: looked.port.limits.max_memory_bytes,
        lambda looked: looked.port.memory.bytes,
    ),
    BoundKind(
        "outbox_max_bytes",
        BYTES,
        "A topic's subscriber that leaves more unread is closed (`slow-subscriber`).",
        lambda looked: looked.port.limits.outbox_max_bytes,
        lambda looked: looked.port.memory.outbox_largest_bytes,
    ),
    BoundKind(
        "windows_bytes",
        BYTES,
        "For each queue on the disk whose consumer has room, one message at a time is read back.",
        lambda looked: looked.port.destinations.windows.size_max,
        lambda looked: looked.port.destinations.windows.size,
    ),
    BoundKind(
        "out_bytes",
        BYTES,
        "Unacked messages of queues on the disk are kept on the disk only.",
        lambda looked: looked.port.destinations.windows.out_max,
        lambda looked: looked.port.destinations.windows.out,
    ),
    BoundKind(
        "keys_held_bytes",
        BYTES,
        "A partitioned queue whose delays hold this much delivers nothing until some have ended.",
        lambda looked: looked.port.destinations.windows.held_max,
        None,
    ),
    BoundKind(
        "max_destinations",
        "destinations",
        "One more queue, exchange, fanout, topic or partition of a log is refused (`too-many-destinations`).",
        lambda looked: looked.port.limits.max_destinations,
        lambda looked: looked.port.destinations.count,
    ),
    _fixed(
        "max_bindings",
        BINDINGS_MAX,
        "bindings",
        "One more binding or durable subscription is refused (`too-many-bindings`).",
        lambda looked: looked.port.destinations.exchanges.count,
    ),
    _fixed(
        "max_positions",
        POSITIONS_MAX,
        "positions",
        "A new group of a log is refused (`too-many-destinations`).",
        lambda looked: looked.port.destinations.readers.positions,
    ),
    _fixed(
        "watched_partitions",
        WATCHED_MAX,
        "partitions",
        "One more reader of a log is refused (`too-many-subscriptions`).",
        lambda looked: looked.port.destinations.readers.watched,
    ),
    _fixed(
        "acked_ahead",
        AHEAD_MAX,
        "records",
        "A group with acked records after an unacked one gets no more until that one is acked.",
        lambda looked: looked.port.destinations.readers.ahead,
    ),
    _fixed(
        "readers_bytes",
        READERS_BYTES,
        BYTES,
        "Each reader of a log reads one record at a time.",
        lambda looked: looked.port.destinations.readers.size,
    ),
    _fixed(
        "tails_bytes",
        TAIL_BYTES,
        BYTES,
        "The last records of logs are read from the disk, not from memory.",
        lambda looked: looked.port.destinations.readers.tails_bytes,
    ),
    _fixed(
        "max_prepared",
        PREPARED_MAX,
        "transactions",
        "One more is not prepared (`too-many-transactions`).",
        lambda looked: looked.port.prepared.count,
    ),
    _fixed(
        "apps",
        APPS_MAX,
        "apps",
        "A commit with a new producer-id is refused (`too-many-transactions`).",
        lambda looked: len(looked.port.prepared.apps),
    ),
    BoundKind(
        "max_leases",
        "leases",
        "A user's next `receive` over HTTP is refused (`too-many-leases`).",
        lambda looked: looked.port.limits.max_leases,
        lambda looked: (len(one.unacked) for one in [*looked.port.leases.owners.values()]),
    ),
    _fixed(
        "receives",
        RECEIVES_MAX,
        "requests",
        "A user's next `receive` over HTTP is refused (`too-many-receives`).",
        lambda looked: (len(one.queue_subscriptions) for one in [*looked.port.leases.owners.values()]),
    ),
    _fixed(
        "registrations",
        REGISTRATIONS_MAX,
        "consumers",
        "One more consumer that registers without a subscription is refused (`too-many-registrations`).",
        lambda looked: looked.port.registrations.away_count,
    ),
    _fixed(
        "drains",
        DRAINS_MAX,
        "requests",
        "The oldest request that waits for a consumer to be drained is answered early.",
        lambda looked: len(looked.port.registrations.waiting),
    ),
    _fixed(
        "searches",
        SEARCHES_AT_ONCE,
        "searches",
        "One more `explain` is refused (`blocked`).",
        lambda looked: looked.port.searches.count,
    ),
    _fixed(
        "users",
        USERS_MAX,
        "users",
        "A configuration with more is refused.",
        lambda looked: len(looked.port.authorization.users),
    ),
    _fixed("nodes", NODES_MAX, "nodes", "One more node is refused (`unknown-node`).", _nodes),
    BoundKind(
        "peer_outbox_max_bytes",
        BYTES,
        "SENDs wait, are refused, or drop the oldest copies, as peer_outbox_overflow says.",
        _outbox_bound,
        _outboxes,
    ),
    _fixed(
        "link_parts_bytes",
        LINK_PARTS_BYTES,
        BYTES,
        "Further large bodies of other nodes wait.",
        lambda looked: looked.port.memory.parts_bytes,
    ),
    BoundKind(
        "high_water_bytes",
        BYTES,
        "SENDs to persistent queues and logs wait: `disk-tight`.",
        lambda looked: looked.disk["high_water_bytes"],
        lambda looked: looked.disk["used_bytes"],
    ),
    BoundKind(
        "map_size",
        BYTES,
        "It is never reached: SENDs wait from high_water_bytes on.",
        lambda looked: looked.disk["map_size"],
        lambda looked: looked.disk["used_bytes"],
    ),
    BoundKind(
        "disk_free_min",
        BYTES,
        "If less is free for messages, SENDs to persistent queues and logs wait: `disk-tight`.",
        lambda looked: looked.disk["disk_free_min"],
        lambda looked: looked.disk["disk_room_bytes"],
        is_least=True,
    ),
    _fixed(
        "unapplied_entries",
        UNAPPLIED_ENTRIES,
        "entries",
        "Commits wait until the tables have caught up with the write-ahead log.",
        lambda looked: looked.port.disk.wal.unapplied_entries,
    ),
    BoundKind(
        "unapplied_bytes",
        BYTES,
        "Commits wait until the tables have caught up with the write-ahead log.",
        lambda looked: looked.port.disk.wal.unapplied_max_bytes,
        lambda looked: looked.port.disk.wal.unapplied_bytes,
    ),
    BoundKind(
        "journal_retention_bytes",
        BYTES,
        "The oldest events of the journal are removed.",
        _retention(JOURNAL),
        _stored(JOURNAL),
    ),
    BoundKind(
        "audit_retention_bytes",
        BYTES,
        "The oldest records of the audit log are removed.",
        _retention(AUDIT),
        _stored(AUDIT),
    ),
)
"""In the order of docs/OPERATING.md: the server's, memory, what there is, other nodes, the disk."""
