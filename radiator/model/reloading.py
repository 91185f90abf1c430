"""Which changes of a configuration take effect while the broker runs, and which at its next start: two configurations
as tables, their differences, and what is in force once the second was read again.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.keys import as_written
from radiator.model.limits import Limits
from radiator.model.patterns import is_pattern, rank
from radiator.model.rights import RIGHTS
from radiator.model.settings import (
    AUDIT,
    AUDIT_RETENTION_BYTES,
    AUDIT_RETENTION_MS,
    CLUSTER,
    DIRECT,
    JOURNAL,
    NODE,
    STANDARD_EXCHANGES,
    Binding,
    Config,
    Declarations,
    ExchangeSettings,
    JwtSettings,
    Logging,
    LogSettings,
    QueueSettings,
    TlsSettings,
    WebSettings,
)
from radiator.model.users import BOUNDS, User
from radiator.model.validation import LOG_PREFIX, with_bounds

NOW, RESTART = "now", "restart"

_QUEUE = {field.name: NOW for field in fields(QueueSettings)}
_LIMITS = {field.name: NOW for field in fields(Limits)}
RELOAD: dict[str, dict[str, str]] = {
    "server": {
        "listen": RESTART,
        "unix": RESTART,
        "plain": RESTART,
        "users_file": NOW,
        "data_dir": RESTART,
        "sync_interval_ms": NOW,
        "map_size": RESTART,
        "disk_free_min": NOW,
        "log_keep": RESTART,
    },
    "logging": {"level": NOW, "format": NOW, "priorities": NOW},
    "http": {"hosts": NOW, "origins": NOW, "console": NOW},
    # frames: linked nodes have agreed on their size; frames and batches determine what the map must hold
    "limits": _LIMITS
    | dict.fromkeys(("max_frame_bytes", "max_header_bytes", "max_headers", "max_batch_bytes"), RESTART),
    "create": {"queues": NOW, "topics": NOW},
    "journal": {"enabled": RESTART}
    | dict.fromkeys(("retention_ms", "retention_bytes", "audit_retention_ms", "audit_retention_bytes"), NOW),
    "node": dict.fromkeys(
        (
            "name", "secret_file", "listen", "heart_beat_ms", "discover", "advertise", "peer_outbox_max_bytes",
            "peer_outbox_overflow",
        ),
        RESTART,
    ),
    "peer": {"address": RESTART},
    "tls": dict.fromkeys(("certificate", "key", "client_ca", "client_certificates", "peer_ca"), NOW),
    "jwt": dict.fromkeys(("keys", "algorithms", "issuer", "audience", "user_claim"), NOW),
    "queue": _QUEUE | {"persistent": RESTART, "scope": RESTART, "partition_key": RESTART, "max_priority": RESTART},
    "log": {"partitions": NOW, "partition_key": NOW, "retention_ms": NOW, "retention_bytes": NOW, "schema": NOW},
    "exchange": {"type": RESTART, "alternate": RESTART, "internal": RESTART, "bindings": NOW},
    "fanout": {"children": NOW, "scope": RESTART},
    "topic": {"scope": RESTART},
    "user": dict.fromkeys(("password", "tokens", "jwt", "certificate", "unix", "role", *RIGHTS, *BOUNDS), NOW),
}  # fmt: skip
"""When a changed setting of each table takes effect; docs/OPERATING.md has the same."""

# these tables wait for a restart as a whole if any setting does: half of one would be a queue that no file declares
_WHOLE = ("journal", "node", "peer", "queue", "exchange", "fanout", "topic")

SECRETS, _SECRET = ("password", "tokens"), "a secret"  # of a user, and what stands for one
# the settings of the broker's own logs, as settings of logs
_OF_JOURNAL = {
    "retention_ms": (JOURNAL, "retention_ms"),
    "retention_bytes": (JOURNAL, "retention_bytes"),
    "audit_retention_ms": (AUDIT, "retention_ms"),
    "audit_retention_bytes": (AUDIT, "retention_bytes"),
}

Place = tuple[str, str]  # table and name; "" where the table has none
Tables = dict[Place, dict[str, Any]]


@dataclass(slots=True, frozen=True)
class Difference:
    """setting: as the file has it, `limits.max_connections`, or a table that only one of the two has, `queue.orders`;
    old and new: None where it is absent, or has no value. takes_effect: NOW or RESTART.
    """

    setting: str
    old: Any
    new: Any
    takes_effect: str


def differences(running: Config, read: Config, dotted: Callable[[tuple[str, ...]], str]) -> list[Difference]:
    """The differences of the configuration that was read, in the order of its tables. dotted: writes keys."""
    old, new = tables_of(running), tables_of(read)
    in_force = _merged(old, new)
    found = []
    for place in {**new, **old}:
        kind, name = place
        keys = (kind, name) if name else (kind,)
        before, after, then = old.get(place), new.get(place), in_force.get(place)
        if before is None or after is None:
            effect = NOW if then == after else RESTART
            found.append(Difference(dotted(keys), _shown(kind, before), _shown(kind, after), effect))
            continue
        assert then is not None, "what both have is there"
        for key in before:
            if before[key] != after[key]:
                effect = NOW if then[key] == after[key] else RESTART
                was, will_be = (_written(kind, one)[key] for one in (before, after))
                found.append(Difference(dotted((*keys, key)), was, will_be, effect))
    if running.node is not None and read.node is not None and running.node.secret != read.node.secret:
        found.append(Difference("node.secret_file", "a secret", "another secret", RESTART))
    return found + _differences_of_users(running, read, dotted)


def _differences_of_users(running: Config, read: Config, dotted: Callable[[tuple[str, ...]], str]) -> list[Difference]:
    """What is kept of passwords and tokens is not shown."""
    effect = NOW if _users(running, read) == read.users else RESTART
    found = []
    for name in {**read.users, **running.users}:
        before, after = running.users.get(name), read.users.get(name)
        if before is None or after is None:
            was, will_be = (None if one is None else _user_shown(one) for one in (before, after))
            found.append(Difference(dotted(("user", name)), was, will_be, effect))
            continue
        old, new = user_values(before), user_values(after)
        for key in (key for key in old if old[key] != new[key]):
            words = (_SECRET, "another secret") if key in SECRETS else (old[key], new[key])
            was, will_be = (None if one[key] is None else word for one, word in zip((old, new), words, strict=True))
            found.append(Difference(dotted(("user", name, key)), was, will_be, effect))
    return found


def _user_shown(user: User) -> dict[str, Any]:
    """What a user has, whole; but of secrets only that they are there."""
    values = {key: value for key, value in user_values(user).items() if value is not None}
    return {key: _SECRET if key in SECRETS else value for key, value in values.items()}


def user_values(user: User) -> dict[str, Any]:
    """What a user's table has, SECRETS included; None: nothing."""
    of_user = {key: getattr(user, key) for key in ("password", "tokens", "jwt", "certificate", "unix")}
    rights = {right: getattr(user.rules, right) for right in RIGHTS}
    found = {key: value or None for key, value in {**of_user, "role": user.rules.role, **rights}.items()}
    return found | asdict(user.bounds)


def _users(running: Config, read: Config) -> dict[str, User]:
    """The users in force after a reload. Whether there are users at all decides how connections are served: a change of
    that waits for a restart.
    """
    return read.users if bool(running.users) == bool(read.users) else running.users


def merged(running: Config, read: Config) -> Config:
    """What is in force once a broker that runs with `running` has applied `read`: what needs a restart is unchanged."""
    in_force = _config(running, _merged(tables_of(running), tables_of(read)))
    users = _users(running, read)
    return replace(in_force, limits_given=read.limits_given, useless=read.useless, users=users)


def _merged(old: Tables, new: Tables) -> Tables:
    tables: Tables = {}
    for place in {**new, **old}:
        before, after = old.get(place), new.get(place)
        pending = _pending(place, before, after)
        if before is None or after is None:
            table = before if pending else after
        else:
            table = {key: before[key] if key in pending else after[key] for key in before}
        if table is not None:
            tables[place] = table
    # what stays as it was leads to what must stay too
    left = list(tables.values())
    while left:
        for place in _targets(left.pop()):
            if place in old and place not in tables:
                tables[place] = old[place]
                left.append(old[place])
    return tables


def _targets(table: Mapping[str, Any]) -> list[Place]:
    """The queues and logs that a table names."""
    names = [*table.get("children", ()), *(target for _, target in table.get("bindings", ()))]
    if table.get("dead_letter") is not None:
        names.append(table["dead_letter"])
    return [_place(name) for name in names]


def _place(name: str) -> Place:
    for kind, prefix in (("log", LOG_PREFIX), ("exchange", EXCHANGE_PREFIX)):
        if name.startswith(prefix):
            return kind, name.removeprefix(prefix)
    return "queue", name


def _pending(place: Place, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> frozenset[str]:
    """The keys of a changed table whose values wait for a restart."""
    kind = place[0]
    if before is None or after is None:
        there = before or after or {}
        waits = kind in ("node", "peer") or there.get("scope") == CLUSTER
        waits |= after is None and (
            kind == "tls" or (kind == "queue" and bool(there.get("partition_key") or there.get("max_priority")))
        )
        return frozenset(there) if waits else frozenset()
    differing = {key for key in before if before[key] != after[key]}
    waiting = {key for key in differing if RELOAD[kind][key] == RESTART}
    if waiting and kind in _WHOLE:
        return frozenset(before)
    if differing and kind in ("fanout", "topic") and CLUSTER in (before["scope"], after["scope"]):
        return frozenset(before)  # other nodes know its settings
    if kind == "limits" and "max_frame_bytes" in waiting:
        waiting.add("outbox_max_bytes")  # its default depends on max_frame_bytes
    return frozenset(waiting)


def _shown(kind: str, table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A whole table: of queues and logs, the values other than the defaults."""
    if table is None:
        return None
    defaults = asdict({"queue": QueueSettings, "log": LogSettings}.get(kind, _Nothing)())
    found = {key: value for key, value in table.items() if key not in defaults or defaults[key] != value}
    return _written(kind, found)


def _written(kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a table, as a file has them."""
    if kind != "queue":
        return {**table}
    return {key: as_written(value) if key == "partition_key" else value for key, value in table.items()}


@dataclass(slots=True)
class _Nothing:
    """What has no defaults."""


# ---- a configuration as tables, and back ----------------------------------------------------------------------------


def tables_of(config: Config) -> Tables:
    """All that is in force, in the order in which a file would have it."""
    return own_tables(config) | _declared_tables(config.declarations)


def own_tables(config: Config) -> Tables:
    """The tables of the broker itself: without users, and without queues, logs and all else that has a name in
    addresses.
    """
    declared = config.declarations
    tables: Tables = {
        ("server", ""): {key: getattr(config, key) for key in RELOAD["server"]},
        ("logging", ""): asdict(config.logging),
        ("http", ""): asdict(config.http),
        ("limits", ""): asdict(config.limits),
        ("create", ""): {"queues": declared.create_queues, "topics": declared.create_topics},
        ("journal", ""): {"enabled": declared.has_journal, **dict.fromkeys(_OF_JOURNAL)},
    }
    if declared.has_journal:
        for key, (name, setting) in _OF_JOURNAL.items():
            if name in declared.logs:
                tables["journal", ""][key] = getattr(declared.logs[name], setting)
    if config.node is not None:
        tables["node", ""] = {key: getattr(config.node, key) for key in RELOAD["node"]}
        tables |= {("peer", name): {"address": address} for name, address in config.node.peers.items()}
    if config.tls is not None:
        tables["tls", ""] = asdict(config.tls)
        tables |= {("tls", address): asdict(one) for address, one in config.tls_of_listeners.items()}
    if config.jwt is not None:
        tables["jwt", ""] = asdict(config.jwt)
    return tables


def _declared_tables(declared: Declarations) -> Tables:
    tables: Tables = {
        ("queue", name): asdict(one) for name, one in (*declared.queues.items(), *declared.queue_patterns)
    }
    own = {JOURNAL, AUDIT} if declared.has_journal else set()
    tables |= {("log", name): asdict(one) for name, one in declared.logs.items() if name not in own}
    for name, exchange in declared.exchanges.items():
        tables["exchange", name] = {
            "type": exchange.type,
            "alternate": exchange.alternate,
            "internal": exchange.internal,
            "bindings": [],
        }
    for binding in declared.bindings:
        place = "exchange", binding.exchange
        if place not in tables:
            tables[place] = {"type": STANDARD_EXCHANGES[binding.exchange], "bindings": []}
        tables[place]["bindings"].append((binding.key, binding.queue))
    for name, children in declared.fanouts.items():
        scope = CLUSTER if name in declared.cluster_fanouts else NODE
        tables["fanout", name] = {"children": children, "scope": scope}
    for name in declared.topics:
        tables["topic", name] = {"scope": CLUSTER if name in declared.cluster_topics else NODE}
    return tables


def _config(running: Config, tables: Tables) -> Config:
    named: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in RELOAD}
    for (kind, name), table in tables.items():
        named[kind][name] = table
    return replace(
        running,
        **named["server"][""],
        limits=Limits(**named["limits"][""]),
        logging=Logging(**named["logging"][""]),
        http=WebSettings(**named["http"][""]),
        tls=TlsSettings(**named["tls"][""]) if named["tls"] else None,
        tls_of_listeners={address: TlsSettings(**table) for address, table in named["tls"].items() if address},
        jwt=JwtSettings(**named["jwt"][""]) if named["jwt"] else None,
        declarations=declarations_of(named),
    )


def declarations_of(named: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Declarations:
    """The declarations of these tables, by kind and name ("": the table has none). A table may leave settings out: they
    have their defaults.
    """
    queues = {name: with_bounds(QueueSettings(**table)) for name, table in named["queue"].items()}
    exchanges, journal, create = named["exchange"], named["journal"][""], named["create"][""]
    declared = Declarations(
        queues={name: one for name, one in queues.items() if not is_pattern(name)},
        queue_patterns=[(name, queues[name]) for name in sorted(filter(is_pattern, queues), key=rank)],
        fanouts={name: table.get("children", ()) for name, table in named["fanout"].items()},
        topics=list(named["topic"]),
        cluster_fanouts=_of_cluster(named["fanout"]),
        cluster_topics=_of_cluster(named["topic"]),
        exchanges={
            name: ExchangeSettings(
                type=table.get("type", DIRECT),
                alternate=table.get("alternate"),
                internal=table.get("internal", False),
            )
            for name, table in exchanges.items()
            if name not in STANDARD_EXCHANGES
        },
        bindings=[Binding(name, *pair) for name, table in exchanges.items() for pair in table.get("bindings", ())],
        logs={name: LogSettings(**table) for name, table in named["log"].items()},
        has_journal=journal.get("enabled", False),
        create_queues=create.get("queues", False),
        create_topics=create.get("topics", False),
    )
    if declared.has_journal:
        defaults = {"audit_retention_ms": AUDIT_RETENTION_MS, "audit_retention_bytes": AUDIT_RETENTION_BYTES}
        for own in (JOURNAL, AUDIT):
            given = {key: value for key, value in (defaults | dict(journal)).items() if key in _OF_JOURNAL}
            bounds = {_OF_JOURNAL[key][1]: value for key, value in given.items() if _OF_JOURNAL[key][0] == own}
            declared.logs[own] = LogSettings(**bounds)
    return declared


def _of_cluster(tables: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(name for name, table in tables.items() if table.get("scope") == CLUSTER)
